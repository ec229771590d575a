"""An episode's scores as its evidence accumulates: in plain floats for a point estimate, in arrays for a posterior."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, log, nan, sumprod
from typing import Any, Protocol

import numpy as np

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.families import Family
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.leaky import LeakyPosterior, LeakyPosteriorScorer, fades
from bayes_tacit.router.leaky_point import LeakyPoint
from bayes_tacit.router.quantiles import Quantiles, quantiles_for, summarized
from bayes_tacit.router.totals import Scored, Total, overflow
from bayes_tacit.scores.core import Draws, score


class Scorer(Protocol):
    """One episode's score as a function of what has accumulated.

    Attributes
    ----------
    pi
        The incidence, or its posterior mean.
    """

    pi: float

    @property
    def advance(self) -> Callable[[Any, Given], Scored]:
        """Takes the diagnostics of a checkpoint into the state, without changing it: gives another one."""
        ...

    def resume(self, total: Total | None) -> Any:  # noqa: ANN401
        """Give the state after what has accumulated; None before the first checkpoint."""
        ...

    def total(self, state: Any) -> Total:  # noqa: ANN401
        """Give what has accumulated, in plain numbers."""
        ...


class PointScorer:
    """Scores of an episode under one value of the parameters; the total is the cumulative risk.

    It is all plain floats: for one score, a call into NumPy would cost more than the arithmetic.

    Parameters
    ----------
    weights, s
        Parameters.
    distribution
        F, for one float.
    pi, location
        What the features say.
    fields
        How diagnostics are read.
    """

    __slots__ = ("_distribution", "_fields", "_location", "_pick", "_s", "_weights", "pi")

    def __init__(
        self,
        weights: Sequence[float],
        s: float,
        distribution: Callable[[float], float],
        pi: float,
        location: float,
        fields: Fields,
    ) -> None:
        self.pi = pi
        self._weights = weights
        self._s = s
        self._distribution = distribution
        self._location = location
        self._fields = fields
        self._pick = fields.pick

    def resume(self, total: Total | None) -> Total:
        """Go on from the total."""
        return (0.0,) if total is None else total

    def total(self, state: Total) -> Total:
        """Give what has accumulated."""
        return state

    def advance(self, total: Total, diagnostics: Given) -> Scored:
        """Add the diagnostics of a checkpoint to the total."""
        try:
            values = self._pick(diagnostics)
            risk = sumprod(self._weights, values)
            for value in values:
                if value < 0.0:
                    risk = nan
        except (KeyError, TypeError, ValueError, ArithmeticError):
            risk = nan
        # NaN, infinity and NumPy's types survive the sum, so one look at it is enough.
        if type(risk) is not float or not risk < inf:
            risk = sumprod(self._weights, self._fields.read(diagnostics))
        cumulative = total[0] + risk
        if 0.0 < cumulative < inf:
            q = self.pi * self._distribution((log(cumulative) - self._location) / self._s)
            return (cumulative,), risk, cumulative, q, None, None
        if cumulative == 0.0:
            return total, risk, cumulative, 0.0, None, None
        raise overflow(cumulative)


class PosteriorScorer:
    """Scores of an episode under many draws of the parameters; the total is the cumulative diagnostics.

    Parameters
    ----------
    draws
        Parameters.
    mean_weights
        Mean of w over the draws.
    quantiles
        The ends of the band, and the rule's quantile if it is one.
    pi, location
        What the features say, a number a draw.
    fields
        How diagnostics are read.
    """

    __slots__ = ("_draws", "_fields", "_location", "_mean_weights", "_pi", "_quantiles", "pi")

    def __init__(
        self,
        draws: Draws,
        mean_weights: Sequence[float],
        quantiles: Quantiles,
        pi: np.ndarray,
        location: np.ndarray,
        fields: Fields,
    ) -> None:
        self.pi = float(pi.mean())
        self._draws = draws
        self._mean_weights = mean_weights
        self._quantiles = quantiles
        self._pi = pi
        self._location = location
        self._fields = fields

    def resume(self, total: Total | None) -> Total:
        """Go on from the total."""
        return (0.0,) * len(self._mean_weights) if total is None else total

    def total(self, state: Total) -> Total:
        """Give what has accumulated."""
        return state

    def advance(self, total: Total, diagnostics: Given) -> Scored:
        """Add the diagnostics of a checkpoint to the total."""
        values = self._fields.read(diagnostics)
        total = tuple([before + value for before, value in zip(total, values, strict=True)])
        cumulative = sumprod(self._mean_weights, total)
        if not cumulative < inf:
            raise overflow(cumulative)
        draws = self._draws
        q = score(self._pi, self._location, draws.s, draws.w @ np.array(total), draws.family)
        return total, sumprod(self._mean_weights, values), cumulative, *summarized(q, self._quantiles)


def scorers(
    draws: Draws, rule: str | float, mean: np.ndarray, scale: np.ndarray, diagnostics: Fields
) -> Callable[[Sequence[float]], Scorer]:
    """Prepare what all episodes share.

    Parameters
    ----------
    draws
        Parameters.
    rule
        "mean", or a quantile's probability.
    mean, scale
        Standardization of the features.
    diagnostics
        How they are read.

    Returns
    -------
    callable
        Makes the scorer of an episode from its features.
    """
    return _point(draws, mean, scale, diagnostics) if len(draws) == 1 else _many(draws, rule, mean, scale, diagnostics)


def _point(draws: Draws, mean: np.ndarray, scale: np.ndarray, diagnostics: Fields) -> Callable[..., Scorer]:
    weights, gamma, beta = draws.w[0].tolist(), draws.gamma[0].tolist(), draws.beta[0].tolist()
    gamma0, beta0, s = float(draws.gamma0[0]), float(draws.beta0[0]), float(draws.s[0])
    standardization = list(zip(mean.tolist(), scale.tolist(), strict=True))
    distribution = DISTRIBUTIONS.get(draws.family.name) or partial(_by_family, draws.family)
    memory = float(np.ravel(draws.memory)[0])
    leaky = LeakyPoint(weights, memory, s, distribution, diagnostics) if fades(draws) else None

    def scorer(features: Sequence[float]) -> Scorer:
        x = [
            (value - its_mean) / its_scale
            for value, (its_mean, its_scale) in zip(features, standardization, strict=True)
        ]
        logit, location = gamma0 + sumprod(gamma, x), beta0 + sumprod(beta, x)
        if not math.isfinite(logit + location):
            raise _far_out(location)
        if leaky is not None:
            return leaky.scorer(_logistic(logit), location)
        return PointScorer(weights, s, distribution, _logistic(logit), location, diagnostics)

    return scorer


def _many(
    draws: Draws, rule: str | float, mean: np.ndarray, scale: np.ndarray, diagnostics: Fields
) -> Callable[..., Scorer]:
    mean_weights = draws.w.mean(axis=0).tolist()
    quantiles = quantiles_for(rule, len(draws))
    leaky = LeakyPosterior(draws, quantiles, diagnostics) if fades(draws) else None

    def scorer(features: Sequence[float]) -> Scorer:
        with np.errstate(over="ignore", invalid="ignore"):
            x = (np.array(features, dtype=float) - mean) / scale
            pi, location = draws.incidence(x), draws.location(x)
        if not np.isfinite(pi + location).all():
            raise _far_out(float(location[~np.isfinite(pi + location)][0]))
        if leaky is not None:
            return LeakyPosteriorScorer(leaky, pi, location)
        return PosteriorScorer(draws, mean_weights, quantiles, pi, location, diagnostics)

    return scorer


def _far_out(location: float) -> InvalidDataError:
    return InvalidDataError("features for which it is finite", field="location of the threshold", value=location)


_MINUS_SQRT_HALF = -math.sqrt(0.5)


def _normal(z: float) -> float:
    return 0.5 * math.erfc(z * _MINUS_SQRT_HALF)


def _logistic(z: float) -> float:
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    odds = math.exp(z)
    return odds / (1.0 + odds)


def _weibull(z: float) -> float:
    return -math.expm1(-math.exp(min(z, 700.0)))


def _by_family(family: Family, z: float) -> float:
    return float(family.cdf(np.array([z]))[0])


DISTRIBUTIONS = {"lognormal": _normal, "loglogistic": _logistic, "weibull": _weibull}
"""F by the name of its family, for one float, where plain Python is faster than NumPy."""
