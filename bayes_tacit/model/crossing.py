"""The step at which cumulative risk crosses a threshold: what the teacher marks, and what the model predicts."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing, marked_checkpoints
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.memory import peaks, rates, with_clock


class CrossingSteps:
    """Observed and drawn crossing steps of the timed episodes, in the evidence's order.

    A crossing step is the first checkpoint t with R(t) >= kappa; it is the number of steps if there is none.

    Parameters
    ----------
    episodes
        Where the evidence came from.
    evidence
        Which of them are timed.
    family
        Distribution of the threshold.
    timing
        How their windows were aligned.
    """

    def __init__(self, episodes: Episodes, evidence: Evidence, family: Family, timing: Timing) -> None:
        self._episodes = episodes
        self._timed = evidence.timed
        self._memory, self._clock = evidence.memory, evidence.clock
        self.family = family
        """Distribution of the threshold."""
        self.timing: Timing = timing
        """How windows were aligned."""
        n_steps = episodes.n_steps[self._timed]
        first, last = (
            marked_checkpoints(episodes.dataset[name].values[self._timed], n_steps, timing)
            for name in ("window_start", "window_end")
        )
        due = ~episodes.has_window[self._timed] & ~evidence.open_above
        self.first_checkpoint = np.where(due, 0, first)
        """First checkpoint of the window; the number of steps where the threshold was not crossed."""
        self.last_checkpoint = np.where(due, n_steps - 1, last)
        """Last checkpoint of the window; the number of steps where the threshold was not crossed."""

    @cached_property
    def _diagnostics(self) -> np.ndarray:
        """Diagnostics of the timed episodes at every step, (timed, step, diagnostic); loaded when first drawn."""
        diagnostics: np.ndarray = self._episodes.dataset["diagnostics"].isel(episode=self._timed).values
        return with_clock(diagnostics) if self._clock else diagnostics

    def draw(
        self,
        location: np.ndarray,
        scale: np.ndarray,
        logit: np.ndarray,  # noqa: ARG002
        *given: np.ndarray,
        rng: np.random.Generator | None = None,
        size: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Draw thresholds and say at which step each episode's risk crosses its own.

        The arguments are those of the model's `threshold` distribution: location, scale, the logit of pi, which matters
        to its floor only, the weights, and the memory if it is learned.
        """
        rng = np.random.default_rng(rng)
        shape = (len(self._timed),) if size is None else size
        kappa = np.exp(location + scale * self.family.draw(rng, shape))
        risk = self._risk(np.array([np.ravel(value)[0] for value in given]))
        # Past the end of a rollout the risk is NaN, which is below nothing.
        return (risk < kappa[..., None]).sum(axis=-1)

    def _risk(self, given: np.ndarray) -> np.ndarray:
        """Cumulative risk of the timed episodes, (timed, step), from the weights and a learned memory."""
        if self._memory == 1:
            return np.cumsum(self._diagnostics @ given, axis=1)
        learned = isinstance(self._memory, str)
        reached, w = (self._peaks_at(float(given[-1])), given[:-1]) if learned else (self._peaks, given)
        risk: np.ndarray = reached @ w
        return risk

    @cached_property
    def _peaks(self) -> np.ndarray:
        return self._peaks_at(float(self._memory))

    def _peaks_at(self, memory: float) -> np.ndarray:
        return peaks(self._diagnostics, rates(memory, self._diagnostics.shape[-1], clock=self._clock))
