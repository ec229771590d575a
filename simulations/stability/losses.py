r"""The loss of every record with its gradient and Hessian, and the score q, in the coordinates of the theorem.

A point is :math:`\theta = (\gamma_0, \gamma, \eta, \beta_0, \beta, \log s)` with
:math:`w = (\sigma(\eta), 1 - \sigma(\eta))`. The threshold enters through
:math:`z = (\log R_w - \beta_0 - x\beta) / s` at the bounds of an interval, so that

.. math::

    \partial_\beta z = -x / s, \quad \partial_{\log s} z = -z, \quad
    \partial_\eta z = w_1 w_2 (U_1 - U_2) / (s R_w),

where :math:`U` are the diagnostics summed up to the bound. It is written without the library's own likelihood, which
tests compare it with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from simulations.stability.design import Sample

SIZE = 10
GAMMA, ETA, BETA, LOG_S = slice(0, 4), 4, slice(5, 9), 9


@dataclass(frozen=True, eq=False)
class Records:
    """What the loss needs of each record.

    Attributes
    ----------
    design
        A one and the features, (record, 4).
    strong
        B.
    lower, upper
        Summed diagnostics at the bounds of the threshold, (record, 2); no matter where there is no such bound.
    below, above
        Whether there is a lower and an upper bound.
    """

    design: np.ndarray
    strong: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    below: np.ndarray
    above: np.ndarray

    @classmethod
    def of(cls, sample: Sample, start: np.ndarray, end: np.ndarray, strong: np.ndarray | None = None) -> Records:
        """Read a sample whose marked episodes have the windows from `start` to `end`.

        Other outcomes of Strong can be given: AB = 00 made 01 has no window, AB = 10 made 11 is censored.
        """
        outcome = sample.strong if strong is None else strong
        crossed = sample.mark < sample.horizon
        cheap = np.where(sample.strong, ~crossed, sample.alone)
        marked = outcome & sample.strong & crossed
        censored = outcome & cheap
        rows = np.arange(len(outcome))
        first = np.where(marked, start, 0).astype(int)
        last = np.where(marked, end, sample.horizon - 1).astype(int)
        before = np.where(censored, sample.horizon - 1, first - 1)
        return cls(
            design=np.column_stack([np.ones(len(outcome)), sample.x]),
            strong=outcome,
            lower=sample.totals[rows, np.maximum(before, 0)],
            upper=sample.totals[rows, last],
            below=censored | (marked & (first > 0)),
            above=marked,
        )

    def take(self, rows: np.ndarray) -> Records:
        """Give some of them."""
        return Records(
            *(getattr(self, name)[rows] for name in ("design", "strong", "lower", "upper", "below", "above"))
        )


def gradients(point: np.ndarray, records: Records) -> np.ndarray:
    """Give the gradient of each record's loss, (record, parameter)."""
    return _derivatives(point, records, hessians=False)[0]


def hessians(point: np.ndarray, records: Records) -> np.ndarray:
    """Give the Hessian of each record's loss, (record, parameter, parameter)."""
    return _derivatives(point, records, hessians=True)[1]


def losses(point: np.ndarray, records: Records) -> np.ndarray:
    """Give the negative log-likelihood of each record."""
    sign = np.where(records.strong, 1.0, -1.0)
    value: np.ndarray = -special.log_expit(sign * (records.design @ point[GAMMA])) - _log_mass(point, records)
    return value


def scores(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Give q of every record and step; `totals` is (record, step, 2)."""
    z = _standardized(point, design[:, None, :], totals)
    q: np.ndarray = special.expit(design @ point[GAMMA])[:, None] * special.ndtr(z)
    return q


def score_gradients(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Give the gradient of q of every record and step, (record, step, parameter)."""
    wide = np.broadcast_to(design[:, None, :], (*totals.shape[:2], design.shape[1]))
    z = _standardized(point, wide, totals)
    pi = special.expit(design @ point[GAMMA])[:, None]
    found = (pi * _density(z))[..., None] * _jacobian(point, wide, totals, z)
    found[..., GAMMA] = (pi * (1 - pi) * special.ndtr(z))[..., None] * wide
    return found


def _standardized(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    w = special.expit(point[ETA])
    risk = totals @ np.array([w, 1 - w])
    z: np.ndarray = (np.log(risk) - design @ point[BETA]) / np.exp(point[LOG_S])
    return z


def _density(z: np.ndarray) -> np.ndarray:
    density: np.ndarray = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return density


def _pull(point: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Give the derivative of log R in eta."""
    w = special.expit(point[ETA])
    pull: np.ndarray = w * (1 - w) * (totals[..., 0] - totals[..., 1]) / (totals @ np.array([w, 1 - w]))
    return pull


def _jacobian(point: np.ndarray, design: np.ndarray, totals: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Give the first derivatives of z."""
    s = np.exp(point[LOG_S])
    found = np.zeros((*z.shape, SIZE))
    found[..., ETA] = _pull(point, totals) / s
    found[..., BETA] = -design / s
    found[..., LOG_S] = -z
    return found


def _curvature(point: np.ndarray, design: np.ndarray, totals: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Give the second derivatives of z."""
    s, w = np.exp(point[LOG_S]), special.expit(point[ETA])
    pull = _pull(point, totals)
    found = np.zeros((*z.shape, SIZE, SIZE))
    found[..., ETA, ETA] = (pull * (1 - 2 * w) - pull**2) / s
    found[..., ETA, LOG_S] = found[..., LOG_S, ETA] = -pull / s
    found[..., BETA, LOG_S] = found[..., LOG_S, BETA] = design / s
    found[..., LOG_S, LOG_S] = z
    return found


def _bounds(point: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray]:
    lower = np.where(records.below, _standardized(point, records.design, records.lower), -np.inf)
    upper = np.where(records.above, _standardized(point, records.design, records.upper), np.inf)
    return lower, upper


def _log_mass(point: np.ndarray, records: Records) -> np.ndarray:
    """Give log(Phi(upper) - Phi(lower)), from the tail in which the interval lies."""
    lower, upper = _bounds(point, records)
    with np.errstate(invalid="ignore"):
        right = lower + upper > 0
    low, high = np.where(right, -upper, lower), np.where(right, -lower, upper)
    top, bottom = special.log_ndtr(high), special.log_ndtr(low)
    mass: np.ndarray = top + np.log1p(-np.exp(bottom - top))
    return mass


def _derivatives(point: np.ndarray, records: Records, *, hessians: bool) -> tuple[np.ndarray, np.ndarray]:
    """Give gradients and, if asked for, Hessians, by the chain rule through both standardized bounds.

    With u = f(z_upper) / mass and l = f(z_lower) / mass the log mass has first derivatives u and -l, and second ones
    -z_upper u - u^2, z_lower l - l^2 and (mixed) u l.
    """
    n = len(records.design)
    probability = special.expit(records.design @ point[GAMMA])
    gradient = np.zeros((n, SIZE))
    gradient[:, GAMMA] = (probability - records.strong)[:, None] * records.design
    hessian = np.zeros((n, SIZE, SIZE) if hessians else (0, SIZE, SIZE))
    if hessians:
        weight = probability * (1 - probability)
        hessian[:, GAMMA, GAMMA] = weight[:, None, None] * records.design[:, :, None] * records.design[:, None, :]
    mass = np.exp(_log_mass(point, records))
    sides: list[tuple[np.ndarray, np.ndarray]] = []
    for z, has, totals, sign in zip(
        _bounds(point, records),
        (records.below, records.above),
        (records.lower, records.upper),
        (-1.0, 1.0),
        strict=True,
    ):
        at = np.where(has, z, 0.0)
        rate = np.where(has, _density(at) / mass, 0.0)
        jacobian = _jacobian(point, records.design, totals, at)
        gradient -= sign * rate[:, None] * jacobian
        sides.append((rate, jacobian))
        if hessians:
            second = (-sign * at * rate - rate**2)[:, None, None] * jacobian[:, :, None] * jacobian[:, None, :]
            second += sign * rate[:, None, None] * _curvature(point, records.design, totals, at)
            hessian -= second
    if hessians:
        (low, low_jacobian), (high, high_jacobian) = sides
        mixed = (low * high)[:, None, None] * low_jacobian[:, :, None] * high_jacobian[:, None, :]
        hessian -= mixed + mixed.transpose(0, 2, 1)
    return gradient, hessian
