"""Wrong supervision on purpose: marks moved to a neighbouring step, and Strong outcomes flipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit import Episodes
from simulations.model_based import quietly


@dataclass(frozen=True, eq=False)
class Corruption:
    """Who is corrupted first, drawn once, so that a higher rate adds to a lower one and all conditions are paired.

    Attributes
    ----------
    mark_order, outcome_order
        A number by episode; those with the lowest are corrupted first.
    later
        By episode, whether a moved mark goes to the following step.
    """

    mark_order: np.ndarray
    outcome_order: np.ndarray
    later: np.ndarray

    @classmethod
    def draw(cls, n: int, rng: np.random.Generator) -> Corruption:
        """Draw it for n episodes."""
        return cls(rng.random(n), rng.random(n), rng.random(n) < 0.5)

    def move_marks(self, episodes: Episodes, rate: float) -> Episodes:
        """Move a share of the one-step marks to the step before or after; at an end of the rollout, to the only one."""
        dataset = episodes.dataset
        start, end = dataset["window_start"].values, dataset["window_end"].values
        movable = np.flatnonzero((start == end) & (episodes.n_steps > 1))
        chosen = _lowest(movable, self.mark_order, rate)
        last = episodes.n_steps[chosen] - 1
        later = (self.later[chosen] | (start[chosen] == 0)) & (start[chosen] != last)
        moved = start.copy()
        moved[chosen] += np.where(later, 1, -1)
        ends = end.copy()
        ends[chosen] = moved[chosen]
        return quietly(dataset.assign(window_start=("episode", moved), window_end=("episode", ends)))

    def flip_outcomes(self, episodes: Episodes, rate: float) -> Episodes:
        """Flip a share of the Strong outcomes.

        A success that becomes a failure loses its mark. A failure that becomes a success is AB = 01 without a mark, or
        AB = 11, whose threshold then counts as beyond the horizon.
        """
        dataset = episodes.dataset
        chosen = _lowest(np.arange(len(episodes)), self.outcome_order, rate)
        strong = dataset["strong_success"].values.copy()
        strong[chosen] = ~strong[chosen]
        start, end = (np.where(strong, dataset[name].values, np.nan) for name in ("window_start", "window_end"))
        return quietly(
            dataset.assign(
                strong_success=("episode", strong), window_start=("episode", start), window_end=("episode", end)
            )
        )


def _lowest(positions: np.ndarray, order: np.ndarray, rate: float) -> np.ndarray:
    """Give the share of the positions that comes first."""
    return positions[np.argsort(order[positions])[: round(rate * len(positions))]]
