"""Normal probabilities and their logarithms, stable in both tails, for NumPy arrays and PyTensor graphs alike.

Each formula is written once, over a small array namespace (`xp`): `NUMPY` evaluates it, and the namespace that
`bayes_tacit.model.symbolic` provides builds a differentiable graph from it. It imports only NumPy and `scipy.special`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special

Array = Any
"""A NumPy array or a PyTensor variable: whatever the namespace works on."""

NARROW = 0.05
"""Intervals with width * max(1, |midpoint|) below this are integrated by series; the error there is below 1e-12."""

LOG_SQRT_2PI = np.float64(0.5 * np.log(2 * np.pi))


def log_interval_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    r"""Log of the standard normal mass of an interval, :math:`\log\{\Phi(z + h) - \Phi(z)\}`.

    Differences of distribution functions lose everything in the right tail and for narrow intervals. Here a wide
    interval is reflected to the left tail, where :math:`\log\Phi(b) + \log(1 - e^{\log\Phi(a) - \log\Phi(b)})` keeps
    all its digits, and a narrow one is integrated by the series of the density around its midpoint :math:`m`,

    .. math:: \log\varphi(m) + \log h + \log\{1 + He_2(m)\,h^2/24 + He_4(m)\,h^4/1920\}.

    Parameters
    ----------
    lower
        Lower end of the interval, in standard units.
    width
        Its width, positive. Passing the width and not the upper end keeps intervals apart whose ends round to the
        same number.
    xp
        Array namespace: `NUMPY`, or `bayes_tacit.model.symbolic.PYTENSOR`.

    Examples
    --------
    >>> log_interval_mass(np.array([0.0, 40.0]), np.array([1.0, 1e-9]), NUMPY).round(6)
    array([  -1.074862, -821.642204])
    """
    middle = lower + width / 2
    narrow = width * xp.maximum(1.0, abs(middle)) < NARROW
    return xp.apply_where(
        narrow, (lower, width), partial(_narrow_mass, xp=xp), partial(_wide_mass, xp=xp), (0.0, 0.05), (-1.0, 1.0)
    )


def _narrow_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    middle = lower + width / 2
    squared = middle * middle
    second = (squared - 1.0) * width**2 / 24.0
    fourth = (squared * squared - 6.0 * squared + 3.0) * width**4 / 1920.0
    return xp.log(width) - squared / 2.0 - LOG_SQRT_2PI + xp.log1p(second + fourth)


def _wide_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    upper = lower + width
    to_the_right = lower + upper > 0
    far = xp.where(to_the_right, -upper, lower)
    near = xp.where(to_the_right, -lower, upper)
    log_near = xp.log_ndtr(near)
    return log_near + xp.log1mexp(xp.log_ndtr(far) - log_near)


def softplus(x: np.ndarray) -> np.ndarray:
    """Log of 1 + exp(x)."""
    return -special.log_expit(-x)


def log1mexp(x: np.ndarray) -> np.ndarray:
    """Log of 1 - exp(x) for negative x, by whichever of two forms keeps its digits."""
    return apply_where(x > -np.log(2.0), (x,), lambda x: np.log(-np.expm1(x)), lambda x: np.log1p(-np.exp(x)))


def apply_where(
    condition: np.ndarray,
    arguments: tuple[np.ndarray, ...],
    if_true: Callable[..., np.ndarray],
    if_false: Callable[..., np.ndarray],
    safe_true: tuple[float, ...] = (),  # noqa: ARG001
    safe_false: tuple[float, ...] = (),  # noqa: ARG001
) -> np.ndarray:
    """Apply one of two functions to each element, computing only the one that is needed.

    The last two arguments are harmless values for each function, for namespaces that must compute both everywhere.
    """
    if condition.all():
        return if_true(*arguments)
    if not condition.any():
        return if_false(*arguments)
    result = np.empty(condition.shape)
    result[condition] = if_true(*(argument[condition] for argument in arguments))
    result[~condition] = if_false(*(argument[~condition] for argument in arguments))
    return result


NUMPY = SimpleNamespace(
    apply_where=apply_where,
    concatenate=np.concatenate,
    exp=np.exp,
    expm1=np.expm1,
    log=np.log,
    log1mexp=log1mexp,
    log1p=np.log1p,
    log_ndtr=special.log_ndtr,
    maximum=np.maximum,
    minimum=np.minimum,
    softplus=softplus,
    where=np.where,
)
