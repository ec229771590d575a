"""Scores of an episode whose past fades: what accumulates are the leaky sums, their peaks, and the steps of a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, nan, sumprod

import numpy as np

from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.quantiles import Quantiles, summarized
from bayes_tacit.router.totals import Scored, Total, overflow
from bayes_tacit.scores.core import Draws, score


def fades(draws: Draws) -> bool:
    """Tell whether the total is more than a sum."""
    return bool(np.any(draws.memory != 1.0)) or draws.clock


def total_length(draws: Draws, diagnostics: int) -> int:
    """Give how many numbers accumulate over an episode."""
    if not fades(draws):
        return 1 if len(draws) == 1 else diagnostics
    kept = len(draws) if isinstance(draws.memory, np.ndarray) else 1
    return 2 * kept * diagnostics + draws.clock


class LeakyPointScorer:
    """Scores under one value of the parameters, in plain floats; the total is (L, P), and the steps of a clock.

    Parameters
    ----------
    weights
        Those of the diagnostics, and the clock's last if there is one.
    memory
        rho.
    s, distribution, pi, location, fields
        As for `PointScorer`.
    """

    __slots__ = ("_distribution", "_fields", "_location", "_memory", "_pick", "_s", "_tick", "_weights", "pi", "zero")

    def __init__(
        self,
        weights: Sequence[float],
        memory: float,
        s: float,
        distribution: Callable[[float], float],
        pi: float,
        location: float,
        fields: Fields,
    ) -> None:
        d = len(fields.names)
        self.pi = pi
        self.zero: Total = (0.0,) * (d + len(weights))
        self._weights = weights[:d]
        self._tick = weights[d] if len(weights) > d else None
        self._memory = memory
        self._s = s
        self._distribution = distribution
        self._location = location
        self._fields = fields
        self._pick = fields.pick

    def advance(self, total: Total, diagnostics: Given) -> Scored:
        """Let the sums fade, add the diagnostics of a checkpoint, and keep the peaks."""
        weights = self._weights
        try:
            values = self._pick(diagnostics)
            check = sumprod(weights, values)
            for value in values:
                if value < 0.0:
                    check = nan
        except (KeyError, TypeError, ValueError, ArithmeticError):
            check = nan
        # NaN, infinity and NumPy's types survive the sum, so one look at it is enough.
        if type(check) is not float or not check < inf:
            values = self._fields.read(diagnostics)
        d, memory = len(weights), self._memory
        # What is first in the total are the sums, then the peaks; zip ends with the shorter of two.
        levels = [memory * level + value for level, value in zip(total, values)]  # noqa: B905
        before = total[d : 2 * d]
        peaks = [level if level > peak else peak for level, peak in zip(levels, before)]  # noqa: B905
        cumulative, earlier = sumprod(weights, peaks), sumprod(weights, before)
        levels += peaks
        if self._tick is not None:
            steps = total[-1]
            cumulative, earlier = cumulative + self._tick * (steps + 1.0), earlier + self._tick * steps
            levels.append(steps + 1.0)
        if 0.0 < cumulative < inf:
            q = self.pi * self._distribution((log(cumulative) - self._location) / self._s)
            return tuple(levels), cumulative - earlier, cumulative, q, None, None
        if cumulative == 0.0:
            return tuple(levels), 0.0, cumulative, 0.0, None, None
        raise overflow(cumulative)


class LeakyPosteriorScorer:
    """Scores under many draws; the total is (L, P), for every draw if each has its own memory, and a clock's steps.

    Parameters
    ----------
    draws, quantiles, pi, location, fields
        As for `PosteriorScorer`.
    """

    __slots__ = ("_draws", "_fields", "_location", "_memory", "_pi", "_quantiles", "_shape", "pi", "zero")

    def __init__(
        self, draws: Draws, quantiles: Quantiles, pi: np.ndarray, location: np.ndarray, fields: Fields
    ) -> None:
        own = isinstance(draws.memory, np.ndarray)
        self.pi = float(pi.mean())
        self._draws = draws
        self._memory = np.asarray(draws.memory)[..., None]
        self._shape = (2, len(draws) if own else 1, len(fields.names))
        self._quantiles = quantiles
        self._pi = pi
        self._location = location
        self._fields = fields
        self.zero: Total = (0.0,) * total_length(draws, len(fields.names))

    def advance(self, total: Total, diagnostics: Given) -> Scored:
        """Let the sums fade, add the diagnostics of a checkpoint, and keep the peaks."""
        values = np.array(self._fields.read(diagnostics), dtype=float)
        draws, d = self._draws, self._shape[-1]
        state = np.array(total[: len(self.zero) - draws.clock]).reshape(self._shape)
        level = self._memory * state[0] + values
        peak = np.maximum(state[1], level)
        before, risk = self._risk(state[1]), self._risk(peak)
        reached = (*level.ravel().tolist(), *peak.ravel().tolist())
        if draws.clock:
            steps = total[-1]
            before, risk = before + draws.w[:, d] * steps, risk + draws.w[:, d] * (steps + 1.0)
            reached = (*reached, steps + 1.0)
        cumulative = float(risk.mean())
        if not cumulative < inf:
            raise overflow(cumulative)
        q = score(self._pi, self._location, draws.s, risk, draws.family)
        return reached, cumulative - float(before.mean()), cumulative, *summarized(q, self._quantiles)

    def _risk(self, peak: np.ndarray) -> np.ndarray:
        """Weigh the peaks of the diagnostics, (draw,)."""
        weights = self._draws.w[:, : self._shape[-1]]
        risk: np.ndarray = weights @ peak[0] if len(peak) == 1 else (weights * peak).sum(axis=1)
        return risk
