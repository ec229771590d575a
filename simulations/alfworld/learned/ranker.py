"""A ranker: one weight a cue, and a softmax over the admissible commands (McFadden's conditional logit)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize, sparse, special

from bayes_tacit import validate
from bayes_tacit.agents.protocols import History
from bayes_tacit.errors import ConvergenceError, EvidenceError
from simulations.alfworld.learned.cues import CUES, Size, cues
from simulations.alfworld.learned.lessons import Lesson

ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class Ranker:
    r"""Gives each admissible command a probability.

    .. math:: \Pr(c) = \frac{\exp \sum_{j \in \mathrm{cues}(c)} v_j}{\sum_{c'} \exp \sum_{j \in \mathrm{cues}(c')} v_j}

    Attributes
    ----------
    size
        Which cues it looks at, "small" or "large".
    weights
        v, by cue; a cue that it never met weighs nothing.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> first = Observation("You see a shelf 1.", ("go to shelf 1", "look"), task="put a mug in shelf.")
    >>> Ranker("small", {"go shelf": 1.0}).chances(History(first)).round(2)
    array([0.73, 0.27])
    """

    size: Size
    weights: Mapping[str, float]

    def scores(self, history: History) -> np.ndarray:
        """Give the score of each admissible command."""
        return np.array([sum(self.weights.get(cue, 0.0) for cue in one) for one in cues(history, self.size)])

    def chances(self, history: History, sharpness: float = 1.0) -> np.ndarray:
        """Give the probability of each admissible command, its score times `sharpness` being the log-odds."""
        return np.asarray(special.softmax(sharpness * self.scores(history)))

    @cached_property
    def fingerprint(self) -> str:
        """Tell it from other rankers."""
        content = json.dumps([self.size, sorted((cue, round(value, 9)) for cue, value in self.weights.items())])
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def fit_ranker(lessons: Sequence[Lesson], size: Size, ridge: float = 1e-3) -> Ranker:
    """Learn the weights: those under which the right commands are most likely, with a ridge penalty.

    The objective is the mean negative log-likelihood of the right commands plus `ridge` times the sum of squares. It is
    strictly convex, so the same lessons give the same ranker.

    Raises
    ------
    EvidenceError
        If there is no lesson.
    ConvergenceError
        If the optimizer did not reach the optimum.
    """
    validate.choice("size", size, CUES)
    validate.number("ridge", ridge, "a number above 0", above=0)
    if not lessons:
        raise EvidenceError("no lesson to learn from; expected at least one")
    names: dict[str, int] = {}
    columns: list[int] = []
    row_ends, group_starts, right = [0], [], []
    for lesson in lessons:
        group_starts.append(len(row_ends) - 1)
        right.append(len(row_ends) - 1 + lesson.place)
        for one in cues(lesson.history, size):
            columns += [names.setdefault(cue, len(names)) for cue in one]
            row_ends.append(len(columns))
    shape = (len(row_ends) - 1, len(names))
    table = sparse.csr_array((np.ones(len(columns)), np.array(columns), np.array(row_ends)), shape=shape)
    starts, chosen = np.array(group_starts), np.array(right)
    sizes = np.diff(np.append(starts, shape[0]))
    of_right = table[chosen].sum(axis=0)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = table @ weights
        highest = np.repeat(np.maximum.reduceat(scores, starts), sizes)
        raised = np.exp(scores - highest)
        totals = np.repeat(np.add.reduceat(raised, starts), sizes)
        loss = (np.log(totals[chosen]) + highest[chosen] - scores[chosen]).mean()
        slope = (table.T @ (raised / totals) - of_right) / len(starts)
        return float(loss + ridge * weights @ weights), slope + 2 * ridge * weights

    found = optimize.minimize(
        objective,
        np.zeros(shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-5, "ftol": 1e-10},
    )
    if not found.success:
        raise ConvergenceError(f"the ranker's weights did not converge in {found.nit} iterations: {found.message}")
    return Ranker(size, dict(zip(names, found.x.tolist(), strict=True)))
