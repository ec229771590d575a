"""Observed shares against what the posterior predicts for them, all at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.review.checks.base import CheckResult

LEVEL = 0.01
"""How often a check may fail although the model is right, at most."""

FEWEST_DRAWS = 200
"""Predictive draws below which a 1% tail is not known well enough to judge by: two draws are expected in it."""

ROUNDING = 1e-9


@dataclass(frozen=True)
class Envelope:
    """A band that holds all shares of a replicated data set at once, with probability 1 - LEVEL.

    Attributes
    ----------
    mean
        Predicted value of each share.
    lower, upper
        The band.
    center, spread
        Predictive mean and sd of each share on the arcsine scale.
    worst
        Of each replicate, the largest distance of a share from its mean, in predictive sds.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    worst: np.ndarray

    def p_value(self, observed: np.ndarray) -> float:
        """Give the share of replicates that lie at least as far out as the observed shares, counting these too."""
        distance = _distance(_stable(observed) - self.center, self.spread).max()
        return float((1 + (self.worst >= distance - 1e-12).sum()) / (1 + len(self.worst)))


def envelope(replicates: np.ndarray) -> Envelope:
    """Find the band from (draw, share) replicates.

    Each share is standardized by its predictive mean and sd on the arcsine scale, where its sd hardly depends on its
    size and a share near 0 or 1 is not skewed. The half-width is the quantile 1 - LEVEL of the largest absolute value
    over the shares: one statement is made however many shares there are.
    """
    stable = _stable(replicates)
    center, spread = stable.mean(axis=0), stable.std(axis=0)
    worst = _distance(stable - center, spread).max(axis=1)
    reach = float(np.quantile(worst, 1 - LEVEL, method="higher")) * spread
    lower, upper = (np.sin((center + side * reach).clip(0, np.pi / 2)) ** 2 for side in (-1, 1))
    return Envelope(replicates.mean(axis=0), lower, upper, center, spread, worst)


def flat_draws(array: xr.DataArray) -> np.ndarray:
    """Give predictive draws as rows: (draw, item)."""
    values = array.transpose("chain", "draw", ...).values
    return values.reshape(-1, values.shape[-1])


def too_few(name: str, draws: np.ndarray) -> CheckResult:
    """Say of a check that there are not enough predictive draws to judge by."""
    sentence = f"There are {len(draws)} predictive draws, too few to judge by."
    advice = f"Sample again with `predictive_draws` (and `draws`) of at least {FEWEST_DRAWS}."
    return CheckResult(name, None, pd.DataFrame(), sentence, advice)


def _stable(share: np.ndarray) -> np.ndarray:
    """Put shares on a scale on which their variance does not depend on their size."""
    return np.arcsin(np.sqrt(share))


def _distance(difference: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Distance in sds; infinite from a share that never varies, rounding aside."""
    out = np.where(np.abs(difference) < ROUNDING, 0.0, np.inf)
    np.divide(np.abs(difference), spread, out=out, where=spread > ROUNDING)
    return out
