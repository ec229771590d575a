"""An actor that does what its ranker finds likely."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.draws import uniforms
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.agents.protocols import History, Proposal
from simulations.alfworld.learned.ranker import Ranker
from simulations.alfworld.text import receptacles


def fold_of(first: str, folds: int) -> int:
    """Tell which fold a game belongs to, from the room that its first observation shows.

    Games in the same room, as a player sees it, are in the same fold, whatever their tasks are.

    Examples
    --------
    >>> fold_of("You see a shelf 1, and a desk 1. Your task is to: look.", 5)
    3
    """
    room = ",".join(sorted(receptacles(first)))
    return zlib.crc32(room.encode("utf-8")) % validate.whole("folds", folds, 1)


@dataclass(frozen=True, eq=False)
class LearnedActor:
    """Draws an admissible command by its ranker's softmax.

    What it draws is a function of the seed, the game and the step, so it plays the same episode again in the same way
    and can go on from any history. Its likelihood is the softmax's: what it thinks of its own command, right or wrong.

    Attributes
    ----------
    name
        For transcripts.
    rankers
        One for each fold of games (`fold_of`): the one that plays a game was trained without that game's fold. A single
        one plays all.
    seed
        For what is drawn.
    sharpness
        By what the ranker's scores are multiplied; above 1 it leaves less to chance.
    """

    name: str
    rankers: tuple[Ranker, ...] = field(repr=False)
    seed: int = 0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.whole("number of rankers", len(self.rankers), 1)
        validate.whole("seed", self.seed, 0)
        validate.number("sharpness", self.sharpness, "a number above 0", above=0)

    def __repr__(self) -> str:
        """Say what its recordings depend on."""
        known = "-".join(ranker.fingerprint for ranker in self.rankers)
        return f"LearnedActor({self.name!r}, seed={self.seed}, sharpness={self.sharpness:g}, rankers={known})"

    def ranker(self, history: History) -> Ranker:
        """Give the one that plays a game."""
        return self.rankers[fold_of(history.first.text, len(self.rankers))]

    def act(self, history: History) -> Proposal:
        """Propose the next command."""
        admissible = history.observation.admissible or ()
        if not admissible:
            raise ActorError(f"{self.name}: no admissible command is listed; expected at least one")
        chances = self.ranker(history).chances(history, self.sharpness)
        drawn = uniforms(self.seed, history, 1, self.name)[0]
        at = min(int(np.searchsorted(np.cumsum(chances), drawn, side="right")), len(admissible) - 1)
        return Proposal(admissible[at], nll=max(0.0, -math.log(max(float(chances[at]), 1e-300))))
