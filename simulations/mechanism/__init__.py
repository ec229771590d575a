"""The mechanism simulator: a ten-step, three-state agent process that no fitted model was made for."""

from simulations.mechanism.parameters import (
    Calibration,
    Mechanism,
    calibrated,
    calibration,
    with_feature_information,
    with_risk_noise,
)
from simulations.mechanism.world import simulate, simulate_replicate

__all__ = [
    "Calibration",
    "Mechanism",
    "calibrated",
    "calibration",
    "simulate",
    "simulate_replicate",
    "with_feature_information",
    "with_risk_noise",
]
