"""The likelihood of the threshold evidence, stated once, for NumPy arrays and PyTensor graphs alike.

With w the weights, mu the location, s the scale of log kappa and F its standard distribution, each timed episode
contributes the log mass of its interval:

- left: log F((log R(b) - mu) / s),
- interval: log {F((log R(b) - mu) / s) - F((log R(a-1) - mu) / s)},
- right: log {1 - F((log R(H-1) - mu) / s)}.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.numerics import Array


@dataclass(frozen=True)
class Bounds:
    """Bounds on log kappa, or on its standardized value.

    Attributes
    ----------
    upper
        Upper bounds of the left-censored rows.
    lower
        Lower bounds of the interval rows, then of the right-censored ones.
    width
        Upper minus lower bound of the interval rows, computed as such: exact for windows however narrow.
    """

    upper: Array
    lower: Array
    width: Array

    def standardized(self, location: Array, scale: Array, n_left: int) -> Bounds:
        """Subtract the location of each row and divide by the scale."""
        return Bounds(
            upper=(self.upper - location[:n_left]) / scale,
            lower=(self.lower - location[n_left:]) / scale,
            width=self.width / scale,
        )


def log_bounds(evidence: Evidence, w: Array, xp: SimpleNamespace) -> Bounds:
    """Bounds on log kappa for weights `w`."""
    risk_before = evidence.before[evidence.bounded_below] @ w
    risk_within = evidence.within[evidence.bounded_above] @ w
    left, interval = evidence.n_left, evidence.n_interval
    return Bounds(
        upper=xp.log(risk_within[:left]),
        lower=xp.log(risk_before),
        width=xp.log1p(risk_within[left:] / risk_before[:interval]),
    )


def log_mass(standardized: Bounds, n_interval: int, family: Family, xp: SimpleNamespace) -> Array:
    """Log mass of each row's interval under the family, in the evidence's order."""
    return xp.concatenate(
        [
            family.log_cdf(standardized.upper, xp),
            family.log_mass(standardized.lower[:n_interval], standardized.width, xp),
            family.log_sf(standardized.lower[n_interval:], xp),
        ]
    )


def threshold_log_likelihood(
    evidence: Evidence, w: Array, location: Array, scale: Array, family: Family, xp: SimpleNamespace
) -> Array:
    """Log-likelihood of each timed episode, in the evidence's order.

    Parameters
    ----------
    evidence
        The evidence, m timed episodes.
    w
        Simplex weights, one a diagnostic.
    location
        mu of each timed episode, length m.
    scale
        s, positive.
    family
        Distribution of the threshold.
    xp
        Array namespace: `numerics.NUMPY` or `symbolic.PYTENSOR`.
    """
    standardized = log_bounds(evidence, w, xp).standardized(location, scale, evidence.n_left)
    return log_mass(standardized, evidence.n_interval, family, xp)
