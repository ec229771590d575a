"""The timed episodes under the parameters of a fit: the probability of having crossed by each step, draw by draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.review.checks.base import group_of
from bayes_tacit.review.predictions import probability_crossed
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws

MOST_CHECKPOINTS = 400_000
"""Of more, a random part of the episodes is looked at: a fault that it does not show would not matter."""
MOST_DRAWS, FEWEST_DRAWS, MOST_PROBABILITIES = 400, 100, 4_000_000
"""How many draws are taken to see what fitting did; fewer where there are many checkpoints."""
SEED = 0


@dataclass(frozen=True)
class TimedEpisodes:
    """What was seen of the timed episodes, and the parameters that are to explain it.

    Attributes
    ----------
    fitted
        Draws of the parameters; a point estimate has one.
    x, u
        Standardized features (episode, feature), and diagnostics (episode, step, diagnostic), zero past the end.
    first, last
        First and last checkpoint of the window; the number of steps where the threshold was not crossed.
    n_steps
        Of each rollout.
    """

    fitted: Fitted
    x: np.ndarray
    u: np.ndarray
    first: np.ndarray
    last: np.ndarray
    n_steps: np.ndarray

    @classmethod
    def of(
        cls, fitted: Fitted, episodes: Episodes, timed: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> TimedEpisodes:
        """Read the episodes at some positions, whose windows are [first, last]."""
        most = max(1, MOST_CHECKPOINTS // max(1, episodes.horizon))
        if len(timed) > most:
            some = np.sort(np.random.default_rng(SEED).choice(len(timed), most, replace=False))
            timed, first, last = timed[some], first[some], last[some]
        features, diagnostics = fitted.columns_of(episodes)
        x = fitted.standardize(features.values[timed])
        u = np.nan_to_num(diagnostics.isel(episode=timed).values)
        return cls(fitted, x, u, first, last, episodes.n_steps[timed])

    @classmethod
    def of_tree(cls, tree: xr.DataTree, episodes: Episodes) -> TimedEpisodes:
        """Read a posterior and the episodes that it was fitted on."""
        constant = group_of(tree, "constant_data")
        first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
        return cls.of(as_draws(tree), episodes, constant["timed_position"].values, first, last)

    @property
    def windows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First and last checkpoint of each window, and the length of the rollout."""
        return self.first, self.last, self.n_steps

    @cached_property
    def mean(self) -> Draws:
        """The mean of the parameters; that of weights is on the simplex too."""
        draws = self.fitted.draws
        memory = draws.memory.mean() if isinstance(draws.memory, np.ndarray) else draws.memory
        values = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("w", "gamma0", "gamma", "beta0")}
        slopes = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("beta", "s")}
        return Draws(**values, **slopes, family=draws.family, memory=float(memory), clock=draws.clock)

    @cached_property
    def crossed(self) -> np.ndarray:
        """F at the mean of the parameters: (episode, step)."""
        return probability_crossed(self.mean, self.x, self.u)

    def crossed_by_draw(self) -> Iterator[np.ndarray]:
        """Give F under evenly spaced draws, one after the other."""
        checkpoints = max(1, self.u.shape[0] * self.u.shape[1])
        most = int(np.clip(MOST_PROBABILITIES // checkpoints, FEWEST_DRAWS, MOST_DRAWS))
        draws = self.fitted.draws.thinned(most)
        for m in range(len(draws)):
            yield probability_crossed(draws.take(slice(m, m + 1)), self.x, self.u)
