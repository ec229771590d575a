"""Which thresholds to try: a fixed grid, quantiles of the scores, or rates of handing off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.timing import NEVER, Timing, usable_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.scores.crossings import as_scores, first_handoffs, n_checkpoints
from bayes_tacit.scores.ties import reached_from

TENTHS = tuple(tenth / 10 for tenth in range(11))

MOST = 100_000
"""Candidates that are still tried in seconds."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Thresholds to try, in rising order.

    Attributes
    ----------
    alpha
        The thresholds.
    target
        The share of training episodes that each was meant to hand off; NaN where it was not made that way.

    Examples
    --------
    >>> Candidates([0.4, 0.2])
    Candidates(alpha=array([0.2, 0.4]), target=array([nan, nan]))
    """

    alpha: np.ndarray
    target: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Sort, and check the numbers."""
        alpha = _array("alpha", self.alpha)
        target = np.full(len(alpha), np.nan) if self.target is None else _array("target", self.target)
        if np.isnan(alpha).any():
            raise InvalidDataError("numbers", field="alpha", value=alpha.tolist())
        if target.shape != alpha.shape:
            raise InvalidDataError(f"{len(alpha)}, one for each alpha", field="number of targets", value=len(target))
        order = np.argsort(alpha, kind="stable")
        object.__setattr__(self, "alpha", alpha[order])
        object.__setattr__(self, "target", target[order])

    def __len__(self) -> int:
        return len(self.alpha)


def fixed_grid(lowest: float = 0.1, highest: float = 0.9, n: int = 9) -> Candidates:
    """Space thresholds evenly; by default 0.1, 0.2, ..., 0.9, as the paper does for ALFWorld.

    Examples
    --------
    >>> fixed_grid(0.2, 0.4, n=3).alpha
    array([0.2, 0.3, 0.4])
    """
    lowest = validate.threshold("lowest", lowest)
    highest = validate.number("highest", highest, f"a number from {lowest:g} to 1", least=lowest, most=1)
    # A threshold of 0.3 is 0.3 to its reader, not 0.30000000000000004.
    return Candidates(np.unique(np.linspace(lowest, highest, validate.whole("n", n, 1, MOST)).round(12)))


def score_quantiles(scores: npt.ArrayLike | xr.DataArray, n: int = 101, *, above: float = 0.0) -> Candidates:
    """Take evenly spaced quantiles of training scores, the smallest and the largest among them.

    The scores are those of all checkpoints of all episodes, pooled. The last scores of the episodes alone would space
    the candidates evenly by how many episodes they hand off, but would have just one that hands off all of them; scores
    of all checkpoints also tell apart how early that happens, which is what a large budget has to decide.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode. Those of a fit's own training episodes.
    n
        How many quantiles, interpolated as `numpy.quantile` does; those that are equal count once.
    above
        Quantiles at or below it become the smallest score above it: a router needs an alpha above 0, and a score of 0
        says only that nothing has happened yet. Use `-numpy.inf` for scores that may be negative.

    Examples
    --------
    >>> score_quantiles([[0.0, 0.1, 0.2], [0.0, 0.4, np.nan]], n=3).alpha
    array([0.1, 0.4])
    """
    values = as_scores(scores)
    pooled = values[~np.isnan(values)]
    levels = np.linspace(0, 1, validate.whole("n", n, 2, MOST))
    return Candidates(np.unique(_lifted(np.quantile(pooled, levels), pooled, above)))


def target_switch_rates(
    scores: npt.ArrayLike | xr.DataArray,
    rates: npt.ArrayLike = TENTHS,
    *,
    quantiles: npt.ArrayLike = TENTHS,
    n: int = 9,
    timing: Timing = "post_action",
    above: float = 0.0,
) -> Candidates:
    """Find thresholds that hand off given shares of the training episodes, as the paper does for DABench.

    1. For each rate r of m episodes, alpha is the round(r m)-th largest of the episodes' highest scores; for rate 0 it
       is 1 (infinite, should a score reach 1), which no score reaches.
    2. Quantiles of all scores join them; the target of each is the share of episodes that it hands off.
    3. Of candidates that hand off every training episode at the same step, the first is kept: rates before quantiles,
       lower ones first.
    4. If more than n are left, n are kept that are evenly spaced in their order by alpha, both ends included.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode; training episodes only.
    rates
        Shares from 0 to 1.
    quantiles
        Levels from 0 to 1; an empty list for none.
    n
        How many candidates at most, at least 2.
    timing
        What a checkpoint is. Under "post_action" the last one of an episode is not counted: nothing is left to do.
    above
        As for `score_quantiles`.

    Examples
    --------
    >>> scores = [[0.1, 0.2, 0.9], [0.1, 0.4, 0.9], [0.0, 0.1, 0.9]]      # no handoff after the last action
    >>> target_switch_rates(scores, [0, 0.33, 0.67, 1], quantiles=[])
    Candidates(alpha=array([0.1, 0.2, 0.4, 1. ]), target=array([1.  , 0.67, 0.33, 0.  ]))
    """
    values = as_scores(scores)
    n = validate.whole("n", n, 2, MOST)
    rates, quantiles = _shares("rates", rates), _shares("quantiles", quantiles)
    if not rates.size + quantiles.size:
        raise InvalidDataError("at least one rate or quantile", field="rates", value=[])
    pooled = values[~np.isnan(values)]
    alpha = np.concatenate(
        [
            _lifted(_rate_thresholds(values, rates, timing), pooled, above),
            _lifted(np.quantile(pooled, quantiles), pooled, above),
        ]
    )
    handoffs = first_handoffs(values, alpha, timing)
    handoffs[handoffs == n_checkpoints(values)] = NEVER
    target = np.concatenate([rates, (handoffs[len(rates) :] != NEVER).mean(axis=1)])
    _, first = np.unique(handoffs, axis=0, return_index=True)
    distinct = first[np.argsort(alpha[first])]
    kept = distinct[np.unique(np.linspace(0, len(distinct) - 1, n).round().astype(int))]
    return Candidates(alpha[kept], target[kept])


def _rate_thresholds(scores: np.ndarray, rates: np.ndarray, timing: Timing) -> np.ndarray:
    """Give the threshold that hands off each share of the episodes, or a little more where scores are equal."""
    usable = usable_checkpoints(n_checkpoints(scores), timing)
    inside = np.arange(scores.shape[1]) < usable[:, None]
    highest = np.sort(np.where(inside, scores, -np.inf).max(axis=1))[::-1]
    unreached = 1.0 if highest[0] < reached_from(1.0) else np.inf
    counts = np.floor(rates * len(highest) + 0.5).astype(int)
    return np.append(unreached, highest)[counts]


def _lifted(alpha: np.ndarray, scores: np.ndarray, above: float) -> np.ndarray:
    """Replace thresholds that are too low by the lowest score that is not."""
    enough = scores[scores > above]
    if not enough.size:
        raise InvalidDataError(f"a score above {above:g}", field="largest score", value=float(scores.max()))
    return np.where(alpha > above, alpha, enough.min())


def _shares(name: str, given: npt.ArrayLike) -> np.ndarray:
    values = _array(name, given, least=0)
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidDataError("numbers from 0 to 1", field=name, value=values.tolist())
    return np.unique(values)


def _array(name: str, given: npt.ArrayLike, least: int = 1) -> np.ndarray:
    try:
        values = np.atleast_1d(np.array(given, dtype=float))
    except (TypeError, ValueError):
        raise InvalidDataError("a list of numbers", field=name, value=given) from None
    if values.ndim != 1 or values.size < least:
        raise InvalidDataError("a list of at least one number", field=name, value=given)
    return values
