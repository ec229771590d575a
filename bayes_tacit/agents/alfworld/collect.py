"""Paired rollouts: Cheap alone and Strong alone on each of many games, kept as transcripts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.alfworld.diagnostics import AlfworldExtractor
from bayes_tacit.agents.alfworld.environment import AlfworldEnvironment
from bayes_tacit.agents.alfworld.games import Game
from bayes_tacit.agents.alfworld.workers import Progress, work_through
from bayes_tacit.agents.errors import TornTranscriptError
from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.protocols import Actor, Agent
from bayes_tacit.agents.transcript import Transcript, read_transcript
from bayes_tacit.data.costs import StepCost
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path
from bayes_tacit.router.control import PureController

PAPER_COST = StepCost.paper("4b")
"""4B Cheap and 27B Strong, in calls of the 4B model."""

PAPER_BUDGET = Budget(actions=50)

AGENTS: tuple[Agent, ...] = ("cheap", "strong")


@dataclass(frozen=True)
class Players:
    """Who plays, at what cost, for how long.

    Attributes
    ----------
    cheap, strong
        The actors. What they print as tells them from others: a collection is only continued with the same.
    cost
        What their calls cost.
    budget
        How long an episode may be.
    """

    cheap: Actor
    strong: Actor
    cost: StepCost = PAPER_COST
    budget: Budget = PAPER_BUDGET

    def info(self) -> dict[str, str]:
        """Say what a recording depends on."""
        return {"cheap": printed(self.cheap), "strong": printed(self.strong)}


@dataclass(frozen=True)
class Pair:
    """Both rollouts of a game."""

    game: Game
    cheap: Transcript
    strong: Transcript

    @property
    def outcome(self) -> str:
        """The paper's AB: "01" where Cheap fails and Strong succeeds."""
        return f"{self.cheap.end.success:d}{self.strong.end.success:d}"


def collect(
    games: Iterable[Game],
    folder: str | os.PathLike[str],
    players: Players,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Pair]:
    """Play every game with Cheap alone and with Strong alone; what is there already is not played again.

    Each finished rollout is a file of its own, so a run that was stopped goes on where it was. A rollout that ended
    because something broke is played again.

    Parameters
    ----------
    games
        The games.
    folder
        Where the transcripts are kept; made if it is not there.
    players
        Who plays.
    workers
        Number of processes.
    progress
        Told after each game that had to be played.

    Returns
    -------
    list
        A pair for each game, in their order.

    Raises
    ------
    InvalidDataError
        If the folder holds rollouts of other players.
    """
    wanted = list(games)
    home = as_path(folder)
    home.mkdir(parents=True, exist_ok=True)
    known = {game.id: _known(game, home, players) for game in wanted}
    missing = [game for game in wanted if known[game.id] is None]
    for played in work_through(partial(play_pair, folder=home, players=players), missing, workers, progress):
        known[played.game.id] = played
    return [pair for game in wanted if (pair := known[game.id]) is not None]


def play_pair(game: Game, folder: Path, players: Players) -> Pair:
    """Play what is missing of one game."""
    with AlfworldEnvironment(game.path) as environment:
        played = []
        for agent in AGENTS:
            path = transcript_path(folder, game, agent)
            found = _finished(path, players)
            played.append(found or _play(environment, game, agent, path, players))
    return Pair(game, *played)


def read_pairs(games: Sequence[Game], folder: str | os.PathLike[str], players: Players) -> list[Pair]:
    """Read the pairs that are there."""
    found = (_known(game, as_path(folder), players) for game in games)
    return [pair for pair in found if pair is not None]


def transcript_path(folder: Path, game: Game, agent: Agent) -> Path:
    """Give the file of a rollout."""
    return folder / f"{file_stem(game)}.{agent}.jsonl"


def file_stem(game: Game) -> str:
    """Give a file name for a game.

    Examples
    --------
    >>> file_stem(Game("valid_seen/pick_and_place_simple-Mug/trial_T1", Path()))
    'valid_seen__pick_and_place_simple-Mug__trial_T1'
    """
    return game.id.replace("/", "__")


def printed(thing: object) -> str:
    """Give how a thing prints, without addresses in memory: those differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _play(environment: AlfworldEnvironment, game: Game, agent: Agent, path: Path, players: Players) -> Transcript:
    return run_episode(
        environment,
        players.cheap if agent == "cheap" else None,
        players.strong if agent == "strong" else None,
        PureController(agent),
        episode=game.id,
        extractor=AlfworldExtractor(),
        budget=players.budget,
        cost=players.cost,
        path=path,
        info=players.info(),
    )


def _known(game: Game, folder: Path, players: Players) -> Pair | None:
    cheap, strong = (_finished(transcript_path(folder, game, agent), players) for agent in AGENTS)
    return None if cheap is None or strong is None else Pair(game, cheap, strong)


def _finished(path: Path, players: Players) -> Transcript | None:
    try:
        transcript = read_transcript(path)
    except (MissingFileError, TornTranscriptError):
        return None
    if dict(transcript.header.info) != players.info() or transcript.header.max_actions != players.budget.actions:
        raise InvalidDataError(
            f"rollouts of {players.info()} within {players.budget.actions} actions: use another folder",
            episode=transcript.episode,
            field="players",
            value=dict(transcript.header.info),
            where=str(path),
        )
    return transcript if transcript.conclusive else None
