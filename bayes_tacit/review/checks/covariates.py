"""Everything that is known at a checkpoint and may matter to a crossing, and what to do where it does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from scipy import special

from bayes_tacit.review.checks.base import other_families
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted

MOST_PAIRS = 45
STEP, LATEST, PEAK = "step", "latest risk", "latest risk above all before"
LOCATION, PLACE = "predicted threshold", "place in the threshold's distribution"
TAILS = "tails"
TINY = 1e-9
QUARTILE = float(special.ndtri(0.75))
"""Of a normal distribution; that of a Cauchy distribution is its scale."""
LARGEST_RATIO = 2.0
"""Of the log of two hazards, so that no single checkpoint decides."""


def covariates(
    fitted: Fitted, draws: Draws, x: np.ndarray, u: np.ndarray, crossed: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Give everything that is known at a checkpoint, by name, each (episode, step)."""
    shape = u.shape[:2]
    for j, name in enumerate(fitted.feature_names[: fitted.n_ungrouped]):
        raw = x[:, j] * fitted.feature_scale[j] + fitted.feature_mean[j]
        yield name, np.broadcast_to(raw[:, None], shape)
    pairs = list(combinations(range(fitted.n_ungrouped), 2))
    for i, j in pairs if len(pairs) <= MOST_PAIRS else ():
        yield _product(fitted, i, j), np.broadcast_to((x[:, i] * x[:, j])[:, None], shape)
    if x.shape[1]:
        yield LOCATION, np.broadcast_to(np.exp(draws.location(x)), shape)
    for j, name in enumerate(fitted.diagnostic_names):
        yield f"sum of {name}", np.cumsum(u[..., j], axis=1)
    latest = u @ draws.w[0, : u.shape[-1]]
    yield LATEST, latest
    top = np.maximum.accumulate(latest, axis=1)
    yield PEAK, latest - np.concatenate([np.zeros((len(u), 1)), top[:, :-1]], axis=1)
    yield STEP, np.broadcast_to(np.arange(shape[1], dtype=float), shape)
    yield PLACE, crossed


def _product(fitted: Fitted, i: int, j: int) -> str:
    return f"{fitted.feature_names[i]} times {fitted.feature_names[j]}"


def advice_on(name: str, fitted: Fitted) -> str:
    """Say what to do where crossings are off by a covariate."""
    pairs = {_product(fitted, i, j): (i, j) for i, j in combinations(range(len(fitted.feature_names)), 2)}
    if name in fitted.feature_names:
        return (
            f"The effect of {name} on the threshold is not linear on the log scale: add a transformed feature (its "
            "square, its logarithm, an indicator), and compare by LOO."
        )
    if name in pairs:
        one, other = (fitted.feature_names[k] for k in pairs[name])
        return f"{one} and {other} act together: add their product as a feature, and compare by LOO."
    if name in (LATEST, PEAK):
        return (
            "What counts seems to be the latest risk more than the sum of all: fit with a `memory` below 1, and "
            "compare by LOO."
        )
    if name == STEP:
        return "Time itself seems to count: fit with `clock=True`, and look whether the marks were made by the clock."
    if name == PLACE:
        return (
            f"Thresholds are distributed otherwise: try the {other_families(fitted.draws.family.name)} family, compare "
            "by LOO, and look for episodes whose window was marked by mistake."
        )
    if name == LOCATION:
        return "Tasks whose predicted threshold is high or low are off: a feature that tells them apart is missing."
    return f"The {name} counts otherwise than in proportion: transform that diagnostic (its square root, an indicator)."


def heavier_tails(crossed: np.ndarray) -> np.ndarray:
    """Give, for F (episode, step), the log of how often a crossing would come at each checkpoint with heavier tails.

    The probability of having crossed is put on a normal scale, and a Cauchy distribution with the same quartiles in its
    place; the log of the ratio of both hazards is the weight by which a total tells them apart best.

    Examples
    --------
    >>> heavier_tails(np.array([[0.001, 0.5, 0.999]])).round(2)
    array([[ 2.  , -0.08, -0.15]])
    """
    normal = special.ndtri(crossed.clip(TINY, 1 - TINY))
    heavy = np.where(crossed > TINY, 0.5 + np.arctan(normal / QUARTILE) / np.pi, 0.0)
    ours, theirs = _hazard(crossed), _hazard(heavy)
    ratio = np.log(np.maximum(theirs, TINY) / np.maximum(ours, TINY))
    return np.where(ours > TINY, ratio, 0.0).clip(-LARGEST_RATIO, LARGEST_RATIO)


def _hazard(crossed: np.ndarray) -> np.ndarray:
    before = np.concatenate([np.zeros((len(crossed), 1)), crossed[:, :-1]], axis=1)
    hazard: np.ndarray = (crossed - before) / np.maximum(1 - before, TINY)
    return hazard
