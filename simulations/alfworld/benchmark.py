"""ALFWorld as a benchmark: its environment, the paper's features and diagnostics, and what plays it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bayes_tacit.agents import Budget
from bayes_tacit.agents.playing import Suite
from bayes_tacit.agents.protocols import Actor, Agent, History, Observation, Proposal, StepResult
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError
from bayes_tacit.files import as_path
from models.alfworld import DIAGNOSTICS, FEATURES
from simulations.alfworld.actors import CheapActor, StrongActor
from simulations.alfworld.games import Game, list_games
from simulations.alfworld.text import (
    APPLIANCES,
    FOOD,
    HOUSEHOLD,
    KITCHENWARE,
    NOTHING_HAPPENS,
    OPENABLE,
    SURFACES,
    read_task,
    receptacles,
    task_of,
)

if TYPE_CHECKING:
    from simulations.alfworld.engine import KeptPddlEnv

BANNER = "-= Welcome to TextWorld, ALFRED! =-"

Place = frozenset[Any]
"""Where a game stands, as the engine tells places apart."""

START: Place = frozenset()

_idle: list[KeptPddlEnv] = []
"""Engines that no game uses: their libraries stay loaded, and loading more would only take memory."""


class AlfworldEnvironment:
    """One game on the real engine.

    The engine is deterministic, so what an action did once where the game stood is not computed again, whichever way
    led there: playing the same actions after a reset takes no time, and a new action is played on the engine brought
    there by the shortest way that is known, without its words being derived. Many continuations of one rollout thus
    cost little more than what is new in them.

    Parameters
    ----------
    game
        The game file, `game.tw-pddl`.

    Attributes
    ----------
    engine_steps
        Steps that the engine really took, those to come back to a known place not counted.

    Examples
    --------
    >>> from simulations.alfworld import AlfworldEnvironment, list_games
    >>> game = list_games("valid_seen")[0]  # doctest: +SKIP
    >>> with AlfworldEnvironment(game.path) as environment:  # doctest: +SKIP
    ...     environment.reset().task
    'look at alarmclock under the desklamp.'
    """

    def __init__(self, game: str | os.PathLike[str]) -> None:
        self.game = as_path(game)
        self.engine_steps = 0
        if not self.game.is_file():
            raise MissingFileError(f"{self.game}: no such file; expected a game of ALFWorld, game.tw-pddl")
        self._engine: KeptPddlEnv | None = None
        self._first: Observation | None = None
        self._steps: dict[tuple[Place, str], tuple[StepResult, Place]] = {}
        self._ways: dict[Place, tuple[str, ...]] = {}
        self._at: Place | None = None
        self._engine_at: Place = START

    def reset(self) -> Observation:
        """Begin the game, or begin it again."""
        if self._first is None:
            self._engine = _engine_for(self.game)
            state = self._engine.reset()
            text = state.feedback.replace(BANNER, "").strip()
            self._first = _observation(text, state, task_of(text))
            self._ways = {START: ()}
            self._engine_at = START
        self._at = START
        return self._first

    def step(self, action: str) -> StepResult:
        """Take an action; one that is not admissible counts, changes nothing, and is not valid."""
        if self._at is None:
            raise InvalidDataError("reset() first", field="state of the game", value="not begun")
        known = self._steps.get((self._at, action))
        if known is None:
            known = self._steps[self._at, action] = self._play(self._at, action)
        result, self._at = known
        return result

    def contents(self) -> dict[str, list[str]]:
        """Return what is where when the game begins, by receptacle: what its author knows, and no player sees."""
        self.reset()
        assert self._engine is not None
        self._engine.bring_to(())
        self._engine_at = START
        return self._engine.contents()

    def close(self) -> None:
        """Return the engine to the next game; this one can be begun again later."""
        if self._engine is not None:
            _idle.append(self._engine)
        self._engine = self._first = self._at = None
        self._steps = {}

    def __enter__(self) -> AlfworldEnvironment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play(self, at: Place, action: str) -> tuple[StepResult, Place]:
        assert self._engine is not None
        assert self._first is not None
        if self._engine_at != at:
            self._engine.bring_to(self._ways[at])
        state, reward, done = self._engine.step(action)
        self._engine_at = self._engine.place
        self.engine_steps += 1
        way = (*self._ways[at], action)
        if len(way) < len(self._ways.get(self._engine_at, (*way, ""))):
            self._ways[self._engine_at] = way
        result = StepResult(
            _observation(state.feedback.strip(), state, self._first.task),
            reward=float(reward),
            done=bool(done),
            success=bool(state["won"]),
            valid=state.feedback != NOTHING_HAPPENS,
        )
        return result, self._engine_at


def _observation(text: str, state: Mapping[str, Any], task: str) -> Observation:
    return Observation(text, tuple(state["admissible_commands"]), task)


def _engine_for(game: os.PathLike[str]) -> KeptPddlEnv:
    try:
        from simulations.alfworld.engine import KeptPddlEnv
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"playing ALFWorld needs the package {error.name!r}: pip install --group benchmarks"
        ) from error
    engine = _idle.pop() if _idle else KeptPddlEnv()
    try:
        engine.load(game)
    except (KeyError, TypeError, ValueError) as error:
        _idle.append(engine)
        raise FileFormatError(f"{game}: {error!r}; expected a game of ALFWorld, game.tw-pddl") from error
    return engine


DESCRIPTORS = ("receptacle_openable", "receptacle_surface", "needs_tool", "state_cold", "target_food")
"""Names of the task router's five binary descriptors, in the paper's order."""


def task_features(first: Observation) -> dict[str, float]:
    """Return the twelve task features.

    Examples
    --------
    >>> first = Observation("You see a fridge 1, a drawer 2, and a drawer 1.", task="put a cool apple in drawer.")
    >>> [name for name, value in task_features(first).items() if value]
    ['state_cold', 'target_food', 'receptacle_openable', 'visible_entities']
    """
    task = read_task(first.task)
    place = task.place if task.form != "look" else None
    values = (
        task.state == "clean",
        task.state == "hot",
        task.state == "cool",
        task.form == "look",
        task.form == "place_two",
        task.target in FOOD,
        task.target in KITCHENWARE,
        task.target in HOUSEHOLD,
        place in OPENABLE,
        place in SURFACES,
        place in APPLIANCES,
        len(receptacles(first.text)),
    )
    return dict(zip(FEATURES, map(float, values), strict=True))


def router_descriptors(first: Observation) -> dict[str, float]:
    """Return the task router's five binary descriptors.

    A task needs an external tool if the object must be cleaned, heated, cooled or lit.

    Examples
    --------
    >>> first = Observation("You see a desk 1.", task="look at bowl under the desklamp.")
    >>> router_descriptors(first)
    {'receptacle_openable': 0.0, 'receptacle_surface': 0.0, 'needs_tool': 1.0, 'state_cold': 0.0, 'target_food': 0.0}
    """
    task = read_task(first.task)
    known = task_features(first)
    known["needs_tool"] = float(task.state is not None or task.form == "look")
    return {name: known[name] for name in DESCRIPTORS}


CYCLE_LENGTHS = (2, 3)


class AlfworldExtractor:
    """Gives the twelve task features and the five diagnostics to the loop.

    Examples
    --------
    >>> AlfworldExtractor().diagnostic_names
    ('repeated_action', 'short_cycle', 'uncertainty', 'invalid_action', 'unchanged_observation')
    """

    feature_names: tuple[str, ...] = FEATURES
    diagnostic_names = DIAGNOSTICS

    def features(self, first: Observation) -> Mapping[str, float]:
        """Return the twelve task features."""
        return task_features(first)

    def diagnostics(self, history: History, proposal: Proposal, result: StepResult | None) -> Mapping[str, float]:
        """Return the five diagnostics of one step."""
        return {
            "repeated_action": repeated_action(history, proposal, result),
            "short_cycle": short_cycle(history, proposal),
            "uncertainty": uncertainty(proposal.nll),
            "invalid_action": invalid_action(history, proposal, result),
            "unchanged_observation": unchanged_observation(history, result),
        }


def repeated_action(history: History, proposal: Proposal, result: StepResult | None) -> float:
    """Return whether the same action was taken before and got the same answer, so that it told nothing new.

    Without a result: whether it is the action taken just before.
    """
    if result is None:
        return float(history.actions[-1:] == (proposal.action,))
    earlier = (step for step in history.steps if step.proposal.action == proposal.action)
    return float(any(step.result.observation.text == result.observation.text for step in earlier))


def short_cycle(history: History, proposal: Proposal) -> float:
    """Return whether the last two or three actions, this one included, are those before them over again.

    One action repeated is not a cycle: that is `repeated_action`.
    """
    actions = (*history.actions, proposal.action)
    for length in CYCLE_LENGTHS:
        last = actions[-length:]
        if len(actions) >= 2 * length and len(set(last)) > 1 and last == actions[-2 * length : -length]:
            return 1.0
    return 0.0


def uncertainty(nll: float | None) -> float:
    r"""Return :math:`1 - \exp(-\mathrm{NLL})` of the chosen action; 0 where the likelihood is not known.

    Examples
    --------
    >>> uncertainty(None), round(uncertainty(math.log(4)), 12)
    (0.0, 0.75)
    """
    if nll is None:
        return 0.0
    if not nll >= 0:
        raise InvalidDataError("a number >= 0, or None", field="nll", value=nll)
    return -math.expm1(-nll)


def invalid_action(history: History, proposal: Proposal, result: StepResult | None) -> float:
    """Return whether the answer was unusable, so that a fallback was put in its place, or cannot be done here."""
    admissible = history.observation.admissible
    impossible = admissible is not None and proposal.action not in admissible
    refused = result is not None and not result.valid
    return float(proposal.fallback or impossible or refused)


def unchanged_observation(history: History, result: StepResult | None) -> float:
    """Return whether an action without reward left the observation as it was, or nothing happened at all."""
    if result is None or result.reward != 0:
        return 0.0
    text = result.observation.text
    return float(text in (history.observation.text, NOTHING_HAPPENS))


@dataclass(frozen=True)
class Alfworld:
    """The games of one split.

    Attributes
    ----------
    split
        Name of a folder of games: "valid_seen", "valid_unseen", "valid_train", "train".
    data
        The folder that the package calls ALFWORLD_DATA; by default what that environment variable says.
    """

    split: str = "valid_seen"
    data: str | os.PathLike[str] | None = None
    timing: ClassVar[Timing] = DEFAULT_TIMING

    def tasks(self) -> list[Game]:
        """List the solvable games, by id."""
        return list_games(self.split, self.data)

    def environment(self, task: Game) -> AlfworldEnvironment:
        """Open a game on the real engine."""
        return AlfworldEnvironment(task.path)

    def extractor(self, task: Game, budget: Budget, *, descriptors: bool = False) -> AlfworldExtractor:  # noqa: ARG002
        """Return the twelve features and the five diagnostics, and the task router's descriptors if wanted."""
        return _DescribingExtractor() if descriptors else AlfworldExtractor()


class _DescribingExtractor(AlfworldExtractor):
    """Gives all that any policy looks at: the twelve features, the task router's descriptors, the diagnostics."""

    feature_names = (*FEATURES, *(name for name in DESCRIPTORS if name not in FEATURES))

    def features(self, first: Observation) -> Mapping[str, float]:
        """Return features and descriptors."""
        return {**task_features(first), **router_descriptors(first)}


def _open(data: Path | None, split: str | None, unsafe: bool) -> Alfworld:  # noqa: ARG001
    return Alfworld(split or Alfworld.split, data)


def _scripted(agent: Agent, seed: int) -> Actor:
    return CheapActor(seed) if agent == "cheap" else StrongActor(seed)


benchmark = Suite(_open, actions=50, splits={"collect": "valid_seen", "evaluate": "valid_unseen"}, scripted=_scripted)
"""ALFWorld as `bayes-tacit collect` and `evaluate` play it; episodes are as long as the paper's."""
