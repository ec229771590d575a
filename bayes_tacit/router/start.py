"""Start: a decision before the first step, from the task's features alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.scores.core import Draws


@dataclass(frozen=True, eq=False)
class Start:
    """Strong has the task from the start where c pi(x) - P(Cheap succeeds | x) is at least a threshold.

    Cheap's probability is a logistic model. Under a posterior it has a draw for each draw of the other parameters, and
    the router's rule (mean or quantile) applies to the difference.

    Attributes
    ----------
    weight
        c, how much Strong's success counts beside Cheap's.
    threshold
        Of the difference.
    intercept
        (draw,), or one number.
    slopes
        (draw, feature), on features that are standardized as the router's are; or (feature,).

    Examples
    --------
    >>> Start(weight=1.0, threshold=0.2, intercept=0.5, slopes=[1.0, -0.3])
    <Start: 1 pi - P(Cheap) >= 0.2>
    """

    weight: float
    threshold: float
    intercept: np.ndarray
    slopes: np.ndarray

    def __post_init__(self) -> None:
        """Keep own, read-only arrays with an axis of draws, and check the numbers."""
        intercept = np.array(self.intercept, dtype=float, ndmin=1)
        slopes = np.array(self.slopes, dtype=float, ndmin=1)
        if slopes.ndim == 1:
            slopes = slopes[None]
        validate.finite("intercept of the start", intercept, (len(intercept),))
        validate.finite("slopes of the start", slopes, (len(intercept), slopes.shape[-1]))
        for array in (intercept, slopes):
            array.flags.writeable = False
        settled = {
            "weight": validate.number("weight of the start", self.weight, "a finite number >= 0", least=0),
            "threshold": validate.number("threshold of the start", self.threshold),
            "intercept": intercept,
            "slopes": slopes,
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def check(self, draws: int, features: int) -> None:
        """Check that it has the draws and the features of its router."""
        validate.finite("intercept of the start", self.intercept, (draws,))
        validate.finite("slopes of the start", self.slopes, (draws, features))

    def thinned(self, most: int) -> Start:
        """Give at most so many draws, those that `Draws.thinned` gives."""
        n = len(self.intercept)
        if most >= n:
            return self
        some = np.arange(most) * n // most
        return Start(self.weight, self.threshold, self.intercept[some], self.slopes[some])

    def scores(self, draws: Draws, x: np.ndarray) -> np.ndarray:
        """Give the difference for standardized features (..., feature): (..., draw).

        Terms are added one after the other, beginning with the intercept, as for a table of tasks: the bits are the
        same for one task and for many.
        """
        logit = np.broadcast_to(self.intercept, (*x.shape[:-1], len(self.intercept))).copy()
        for j in range(x.shape[-1]):
            logit += x[..., j, None] * self.slopes[:, j]
        return self.weight * draws.incidence(x) - special.expit(logit)

    def __repr__(self) -> str:
        return f"<Start: {self.weight:g} pi - P(Cheap) >= {self.threshold:g}>"
