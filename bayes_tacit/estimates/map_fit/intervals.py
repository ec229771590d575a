"""Intervals from estimates and their standard errors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special


def normal_interval(
    estimate: npt.ArrayLike, error: npt.ArrayLike, probability: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Give the normal interval of an estimate: lower and upper ends, NaN where there is no standard error.

    Examples
    --------
    >>> lower, upper = normal_interval(0.5, 0.1)
    >>> print(f"{lower:.3f} to {upper:.3f}")
    0.304 to 0.696
    """
    center, reach = np.asarray(estimate), special.ndtri((1 + probability) / 2) * np.asarray(error)
    return center - reach, center + reach


def weight_interval(w: npt.ArrayLike, error: npt.ArrayLike, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Give the interval of weights: normal for log(w / (1 - w)), whose standard error is se / (w (1 - w)).

    That is the delta method, and its ends are never below 0 nor above 1.

    Examples
    --------
    >>> lower, upper = weight_interval(0.05, 0.04)
    >>> print(f"{lower:.3f} to {upper:.3f}")
    0.010 to 0.215
    """
    weight = np.asarray(w, dtype=float)
    known = np.isfinite(error) & (weight > 0) & (weight < 1)
    inside = np.where(known, weight, 0.5)
    ends = normal_interval(special.logit(inside), np.asarray(error) / (inside * (1 - inside)), probability)
    lower, upper = (np.where(known, special.expit(end), np.nan) for end in ends)
    return lower, upper
