"""The scores of many checkpoints under many draws, compiled, for where there are enough of them to pay for it.

It is the arithmetic of `bayes_tacit.scores.core` with its own normal distribution function, whose error is below 1e-14;
scores agree with those of NumPy to a few units in their last place. Numba keeps what it compiles as it does for
`bayes_tacit.model.compiled`, and does not see that `normal_cdf` there was changed: touch this file, too, after that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from bayes_tacit.model.compiled import FAMILIES, LOGLOGISTIC, LOGNORMAL, compiled, normal_cdf
from bayes_tacit.model.memory import peaks, rates, with_clock
from bayes_tacit.scores.core import Draws

compiled_and_kept: Callable[..., Any] = numba.njit(error_model="numpy", nogil=True, cache=True)


def compiles(draws: Draws) -> bool:
    """Return whether scores of these draws are compiled here: a known family, and one memory and s for all."""
    return draws.family.name in FAMILIES and draws.delta is None and not isinstance(draws.memory, np.ndarray)


def compiled_scores(draws: Draws, x: np.ndarray, diagnostics: np.ndarray) -> np.ndarray:
    """Compute q from standardized features and diagnostics: (episode, step, draw)."""
    u = with_clock(diagnostics) if draws.clock else diagnostics
    forgets = draws.memory != 1
    if forgets:
        u = peaks(u, rates(float(draws.memory), u.shape[-1], clock=draws.clock))
    q = np.empty((*u.shape[:2], len(draws)))
    fill = _fill_one if len(draws) == 1 else _fill_many
    fill(
        FAMILIES.index(draws.family.name),
        0.0 if forgets else 1.0,
        draws.incidence(x),
        draws.location(x),
        1 / np.asarray(draws.s),
        np.ascontiguousarray(draws.w.T),
        np.ascontiguousarray(u),
        q.reshape(-1),
    )
    return q


RUN = 512
"""Numbers that go through one function at a time: short loops, of which a processor does several turns at once."""


@compiled
def _cdf(family: int, z: np.ndarray) -> None:
    """Replace each z by F(z). Minus infinity, which is no risk, gives zero, and NaN, past an episode's end, stays."""
    if family == LOGNORMAL:
        for k in range(len(z)):
            z[k] = normal_cdf(z[k])
    elif family == LOGLOGISTIC:
        for k in range(len(z)):
            z[k] = 1 / (1 + math.exp(-z[k]))
    else:
        for k in range(len(z)):
            z[k] = -math.expm1(-math.exp(min(z[k], 300.0)))


@compiled_and_kept
def _fill_one(
    family: int,
    keeps: float,
    pi: np.ndarray,
    location: np.ndarray,
    precision: np.ndarray,
    w: np.ndarray,
    u: np.ndarray,
    q: np.ndarray,
) -> None:
    """Fill in the scores under one draw, (episode * step)."""
    episodes, steps, n = u.shape
    for i in range(episodes):
        z, risk = q[i * steps : (i + 1) * steps], 0.0
        for t in range(steps):
            risk *= keeps
            for j in range(n):
                risk += u[i, t, j] * w[j, 0]
            z[t] = risk
        for t in range(steps):
            z[t] = (math.log(z[t]) - location[i, 0]) * precision[0]
        _cdf(family, z)
        for t in range(steps):
            z[t] *= pi[i, 0]
            # Rounding must not make a score fall.
            if t > 0 and z[t] < z[t - 1]:
                z[t] = z[t - 1]


@compiled_and_kept
def _fill_many(
    family: int,
    keeps: float,
    pi: np.ndarray,
    location: np.ndarray,
    precision: np.ndarray,
    w: np.ndarray,
    u: np.ndarray,
    q: np.ndarray,
) -> None:
    """Fill in the scores under many draws, (episode * step * draw), a run of draws at a time."""
    (episodes, draws), (steps, n) = pi.shape, u.shape[1:]
    risk = np.empty(RUN)
    for i in range(episodes):
        for first in range(0, draws, RUN):
            last = min(first + RUN, draws)
            risk[:] = 0.0
            earlier = q[:0]
            for t in range(steps):
                z = q[(i * steps + t) * draws + first : (i * steps + t) * draws + last]
                for k in range(len(z)):
                    risk[k] *= keeps
                for j in range(n):
                    value = u[i, t, j]
                    for k in range(len(z)):
                        risk[k] += value * w[j, first + k]
                for k in range(len(z)):
                    z[k] = (math.log(risk[k]) - location[i, first + k]) * precision[first + k]
                _cdf(family, z)
                for k in range(len(z)):
                    z[k] *= pi[i, first + k]
                if t > 0:
                    for k in range(len(z)):
                        if z[k] < earlier[k]:
                            z[k] = earlier[k]
                earlier = z
