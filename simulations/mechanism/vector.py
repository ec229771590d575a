"""What a calibration may vary, as one vector without bounds: a mechanism and the ends of its sensitivity axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, softmax

from simulations.mechanism.parameters import Mechanism, Triple

_PLAIN = ("difficulty_on_cheap", "difficulty_on_drift", "difficulty_on_strong", "resistance_on_strong")
_THRESHOLD = ("threshold_center", "threshold_difficulty")
_LOGITS = ("x1_correlation", "x2_correlation", "risk_persistence")
_LOGS = ("threshold_spread", "risk_of_error", "risk_noise")
_SMALLEST = 1e-4


@dataclass(frozen=True)
class Ends:
    """The settings at both ends of the two sensitivity axes, as factors for the functions that vary them."""

    least_feature: float
    most_feature: float
    most_noise: float
    least_noise: float


def to_vector(mechanism: Mechanism, ends: Ends) -> np.ndarray:
    """Give logits of probabilities, log ratios of moves, logs of what is positive, the rest as it is.

    The risk off track is left out: it sets the unit of risk.
    """
    return np.concatenate(
        [
            logit(mechanism.cheap_correct),
            logit(mechanism.strong_correct),
            *(_ratios(row) for row in (*mechanism.cheap_moves, *mechanism.strong_moves)),
            [getattr(mechanism, name) for name in (*_PLAIN, *_THRESHOLD)],
            logit([max(getattr(mechanism, name), _SMALLEST) for name in _LOGITS]),
            np.log([max(getattr(mechanism, name), _SMALLEST) for name in _LOGS]),
            np.log(mechanism.risk_mean[:2]),
            np.log([ends.least_feature, ends.most_feature, ends.most_noise, ends.least_noise]),
        ]
    )


def from_vector(vector: np.ndarray) -> tuple[Mechanism, Ends]:
    """Give the mechanism and the ends that a vector stands for."""
    rest = iter(vector.tolist())

    def take(n: int) -> np.ndarray:
        return np.array([next(rest) for _ in range(n)])

    cheap_correct, strong_correct = _triple(expit(take(3))), _triple(expit(take(3)))
    rows = [_triple(softmax(np.append(take(2), 0.0))) for _ in range(6)]
    plain = dict(zip((*_PLAIN, *_THRESHOLD), take(6).tolist(), strict=True))
    shares = dict(zip(_LOGITS, expit(take(3)).tolist(), strict=True))
    positive = dict(zip(_LOGS, np.exp(take(3)).tolist(), strict=True))
    on_track, recoverable = np.exp(take(2)).tolist()
    mechanism = Mechanism(
        cheap_correct=cheap_correct,
        strong_correct=strong_correct,
        cheap_moves=(rows[0], rows[1], rows[2]),
        strong_moves=(rows[3], rows[4], rows[5]),
        risk_mean=(on_track, recoverable, 1.0),
        **plain,
        **shares,
        **positive,
    )
    return mechanism, Ends(*np.exp(take(4)).tolist())


def _ratios(row: Triple) -> np.ndarray:
    safe = np.maximum(row, _SMALLEST)
    return np.log(safe[:2] / safe[2])


def _triple(values: np.ndarray) -> Triple:
    first, second, third = (float(value) for value in values)
    return first, second, third
