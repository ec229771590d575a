"""What some numbers give on development tasks, under a cap and around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.timing import Timing, discards_proposal, handoff_steps
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.frontier import Frontier, frontier_of
from bayes_tacit.policies.tuned.numbers import CAPS, Numbers
from bayes_tacit.policies.tuned.scoring import Scoring
from bayes_tacit.scores.crossings import first_crossings
from bayes_tacit.scores.ties import difference_reached_from


@dataclass(frozen=True, eq=False)
class Trials:
    """Development tasks on which numbers are tried.

    Attributes
    ----------
    scoring
        Gives the tasks' scores.
    known
        What comes of handoffs.
    timing
        What a checkpoint is.
    """

    scoring: Scoring
    known: Counterfactuals
    timing: Timing

    @cached_property
    def _table(self) -> np.ndarray:
        return self.known.table(discards_proposal=discards_proposal(self.timing))

    def success(self, numbers: Numbers, cap: float) -> np.ndarray:
        """Give each task's success, averaged over budgets around the cap; none if nothing is within the cap itself."""
        trial = self._trial(numbers)
        if trial.frontier.best(cap) is None:
            return np.zeros(len(self.known))
        places = [trial.frontier.best(cap * share) for share in CAPS]
        # A budget that nothing is within counts as Cheap alone, whatever the numbers.
        alone = np.array([place is None for place in places])
        alpha = [np.inf if place is None else trial.frontier.alpha[place] for place in places]
        handoffs = handoff_steps(first_crossings(trial.scores, alpha), self.timing)
        later = self._table[0, np.arange(len(self.known)), handoffs]
        started = trial.started & ~alone[:, None]
        return np.where(started, self._start[0], later).mean(axis=0)

    def setting(self, numbers: Numbers, cap: float) -> dict[str, float]:
        """Give the numbers with the thresholds that have the most success within the cap."""
        trial = self._trial(numbers)
        place = trial.frontier.best(cap)
        if place is None:
            lowest = float(trial.frontier.cost.min())
            raise InvalidDataError(f"at least {lowest:.6g}, the lowest cost there is", field="cap", value=cap)
        return dict(numbers) | {"start": trial.threshold, "alpha": float(trial.frontier.alpha[place])}

    @cached_property
    def _start(self) -> np.ndarray:
        """What comes of giving Strong the task at once; no proposal has been made by then."""
        return self.known.table()[:, :, 0]

    def _trial(self, numbers: Numbers) -> _Trial:
        start, level = self.scoring.start(numbers), numbers["start_level"]
        threshold = float(np.quantile(start, level)) if level < 1 else np.inf
        started = start >= difference_reached_from(threshold)
        scores = self.scoring.paced(numbers)
        n_steps = self.known.n_steps
        frontier = frontier_of(scores, n_steps, self._table, self.timing, (started, self._start))
        return _Trial(frontier, scores, started, threshold)


@dataclass(frozen=True, eq=False)
class _Trial:
    frontier: Frontier
    scores: np.ndarray
    started: np.ndarray
    threshold: float
