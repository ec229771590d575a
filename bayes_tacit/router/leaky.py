"""Scores of an episode whose past fades, under many draws: what accumulates are leaky sums, their peaks, a clock."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

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


class Leaking(NamedTuple):
    """How far an episode has come.

    Attributes
    ----------
    level, peak
        (diagnostic,), or (diagnostic, draw) if each draw has its own memory; a clock is the last one, and never fades.
    risk
        Mean of R over the draws.
    """

    level: np.ndarray
    peak: np.ndarray
    risk: float


class LeakyPosterior:
    """What all episodes of a router with a memory or a clock share.

    Parameters
    ----------
    draws, quantiles, fields
        As for `PosteriorScorer`.
    """

    __slots__ = ("by_draw", "clock", "draws", "fields", "mean_weights", "quantiles", "rates", "weights")

    def __init__(self, draws: Draws, quantiles: Quantiles, fields: Fields) -> None:
        d = len(fields.names)
        self.draws = draws
        self.quantiles = quantiles
        self.fields = fields
        self.clock = (1.0,) * draws.clock
        self.by_draw = isinstance(draws.memory, np.ndarray)
        rates = np.ones((d + draws.clock, len(draws) if self.by_draw else 1))
        rates[:d] = draws.memory
        self.rates = rates if self.by_draw else rates[:, 0]
        # By diagnostic first: draws are many, and what is next to each other in memory is added fastest.
        self.weights = np.ascontiguousarray(draws.w.T) if self.by_draw else draws.w
        self.mean_weights = draws.w.mean(axis=0)

    def risk(self, peak: np.ndarray) -> tuple[np.ndarray, float]:
        """Weigh the peaks: R by draw, and its mean."""
        if self.by_draw:
            risk = np.einsum("jd,jd->d", self.weights, peak)
            return risk, float(np.add.reduce(risk)) / len(risk)
        return self.weights @ peak, float(self.mean_weights @ peak)


class LeakyPosteriorScorer:
    """Scores under many draws; the total is (L, P), for every draw if each has its own memory, and a clock's steps.

    Parameters
    ----------
    shared
        What all episodes share.
    pi, location
        As for `PosteriorScorer`.
    """

    __slots__ = ("_location", "_pi", "_shared", "pi")

    def __init__(self, shared: LeakyPosterior, pi: np.ndarray, location: np.ndarray) -> None:
        self.pi = float(pi.mean())
        self._shared = shared
        self._pi = pi
        self._location = location

    def resume(self, total: Total | None) -> Leaking:
        """Go on from the total."""
        shared = self._shared
        if total is None:
            nothing = np.zeros(shared.rates.shape)
            return Leaking(nothing, nothing, 0.0)
        d = len(shared.fields.names)
        numbers = np.array(total)
        level, peak = numbers[: len(numbers) - len(shared.clock)].reshape(2, -1, d).transpose(0, 2, 1)
        if shared.clock:
            steps = np.full((1, level.shape[1]), numbers[-1])
            level, peak = np.concatenate([level, steps]), np.concatenate([peak, steps])
        shape = shared.rates.shape
        peak = np.ascontiguousarray(peak).reshape(shape)
        return Leaking(np.ascontiguousarray(level).reshape(shape), peak, shared.risk(peak)[1])

    def total(self, state: Leaking) -> Total:
        """Give what has accumulated: draw by draw, its diagnostics."""
        d = len(self._shared.fields.names)
        reached = [each[:d].T.ravel().tolist() for each in (state.level, state.peak)]
        steps = [float(state.level[d].flat[0])] if self._shared.clock else []
        return (*reached[0], *reached[1], *steps)

    def advance(self, state: Leaking, diagnostics: Given) -> Scored:
        """Let the sums fade, add the diagnostics of a checkpoint, and keep the peaks."""
        shared = self._shared
        values = np.array((*shared.fields.read(diagnostics), *shared.clock))
        level = shared.rates * state.level
        level += values[:, None] if shared.by_draw else values
        peak = np.maximum(state.peak, level)
        risk, cumulative = shared.risk(peak)
        if not cumulative < inf:
            raise overflow(cumulative)
        q = score(self._pi, self._location, shared.draws.s, risk, shared.draws.family)
        reached = Leaking(level, peak, cumulative)
        return reached, cumulative - state.risk, cumulative, *summarized(q, shared.quantiles)
