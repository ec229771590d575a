r"""Totals over the episodes that are zero on average if the model is right, and how far from zero they get by chance.

A total T is a sum of one part an episode. The parameters were fitted to the same episodes, which takes from T what they
can explain; a total that did not allow for it would seem less surprising than it is. To first order an episode moves T
by its own part and by what it does to the parameters,

.. math:: c_i = r_i + \operatorname{Cov}(T(\theta), \ell_i(\theta)),

the covariance being over the posterior and :math:`\ell_i` the episode's log-likelihood (the infinitesimal jackknife of
a posterior mean). Then T has the variance of independent terms :math:`c_i`, and signs by chance on these terms give the
distribution of the worst of many totals (the multiplier method of Lin, Wei and Ying, 1993, for martingale residuals).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TINY = 1e-24
MOST_GROUPS = 2000
"""Episodes beyond this number get signs in groups: their sums are as normal as they will be."""
SMALLEST_SHARE = 0.1
"""Of a total's variance before the fit: what is left after it is known up to noise, and counts for at least so much."""


@dataclass(frozen=True)
class Totals:
    """Several totals, and what they would be by chance.

    Attributes
    ----------
    total
        As observed.
    error
        Standard error of each if the model is right.
    chance
        (flip, total): the totals with signs by chance.
    """

    total: np.ndarray
    error: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(
        cls,
        parts: np.ndarray,
        moved: np.ndarray,
        flips: int,
        rng: np.random.Generator,
        least: np.ndarray | float = 0.0,
    ) -> Totals:
        """Sum (episode, total) parts.

        `moved` is what each episode does to a total by way of the parameters, and `least` the smallest variance that
        the sums of parts, before the fit, are believed to have.
        """
        before = (parts**2).sum(axis=0)
        after = (parts + moved) * np.sqrt(np.maximum(1.0, least / np.maximum(before, TINY)))
        groups = min(len(after), MOST_GROUPS)
        joined = np.zeros((groups, after.shape[1]))
        np.add.at(joined, rng.permutation(len(after)) % groups, after)
        signs = rng.choice([-1.0, 1.0], size=(flips, groups))
        variance = np.maximum((after**2).sum(axis=0), SMALLEST_SHARE * np.maximum(before, least))
        return cls(parts.sum(axis=0), np.sqrt(np.maximum(variance, TINY)), signs @ joined)

    @property
    def z(self) -> np.ndarray:
        """The totals in standard errors."""
        return self.total / self.error

    def worst(self) -> np.ndarray:
        """Give the largest total, in standard errors, of each flip."""
        largest: np.ndarray = np.abs(self.chance / self.error).max(axis=1)
        return largest


def moved_by_fitting(totals: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Give the covariance of (draw, total) totals and (draw, episode) log-likelihoods: (episode, total).

    Of a single draw nothing is known of what fitting did, and it counts as nothing.

    Examples
    --------
    The mean of numbers y with a flat prior: what remains of the sum of y - mean is nothing.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=50)
    >>> draws = y.mean() + rng.normal(size=100_000) / np.sqrt(50)
    >>> total = (y.sum() - 50 * draws)[:, None]
    >>> log_likelihood = -0.5 * (y - draws[:, None]) ** 2
    >>> left = (y - y.mean())[:, None] + moved_by_fitting(total, log_likelihood)
    >>> bool(np.abs(left).max() < 0.05)
    True
    """
    if len(totals) < 2:
        return np.zeros((log_likelihood.shape[1], totals.shape[1]))
    centred = log_likelihood - log_likelihood.mean(axis=0)
    covariance: np.ndarray = centred.T @ (totals - totals.mean(axis=0)) / (len(totals) - 1)
    return covariance


def chance_of(worst: np.ndarray, observed: float) -> float:
    """Give the share of flips that are at least as far out as what was observed, counting that too.

    Examples
    --------
    >>> chance_of(np.array([1.0, 2.0, 3.0]), 2.5)
    0.5
    """
    return float((1 + (worst >= observed - 1e-12).sum()) / (1 + len(worst)))
