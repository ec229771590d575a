"""Which way a model is off, in words that follow the picture."""

import numpy as np
import pandas as pd
import pytest

from bayes_tacit.review.checks.crossing_steps import LEVELS, _Calibration, _direction, _pit

POSITIONS = ["50%", "100%"]


def shares(least: list[float], most: list[float]) -> pd.DataFrame:
    """What was observed, beside a band from 0.4 to 0.6."""
    return pd.DataFrame({"observed_least": least, "observed_most": most, "lower": 0.4, "upper": 0.6}, index=POSITIONS)


def calibration(places: list[float]) -> _Calibration:
    """Crossings whose places in their predictive distributions are these, each known up to a little."""
    at = np.array(places)
    return _Calibration((_pit(at - 0.02, at + 0.02) - LEVELS).mean(axis=0), 0.01, 0.001)


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        # More have crossed than the model has: it crosses late.
        ([0.7, 0.5], [0.8, 0.5], "The model crosses too late at 50% of the rollout."),
        ([0.5, 0.1], [0.5, 0.2], "The model crosses too early at 100% of the rollout."),
        ([0.7, 0.1], [0.8, 0.2], "The model crosses too late at 50% and too early at 100% of the rollout."),
    ],
)
def test_a_curve_above_the_band_is_of_a_model_that_is_late_and_one_below_it_of_one_that_is_early(least, most, said):
    assert _direction(shares(least, most), calibration([0.1, 0.9])) == said


@pytest.mark.parametrize(
    ("places", "said"),
    [
        # Crossings that come in the first part of what was predicted come before they were.
        ([0.1, 0.2, 0.3, 0.4], "has episodes cross too late"),
        ([0.6, 0.7, 0.8, 0.9], "has episodes cross too early"),
        ([0.4, 0.45, 0.55, 0.6], "is too unsure of when"),
        ([0.05, 0.1, 0.9, 0.95], "is too sure of when"),
    ],
)
def test_where_all_shares_are_inside_the_places_of_crossings_say_which_way(places, said):
    assert said in _direction(shares([0.5, 0.5], [0.5, 0.5]), calibration(places))


def test_a_place_that_is_known_up_to_an_interval_is_spread_evenly_over_it():
    """An interval is not replaced by its end."""
    found = _pit(np.array([0.2, 0.0, 0.5]), np.array([0.6, 1.0, 0.5]))
    np.testing.assert_allclose(found[0], np.clip((LEVELS - 0.2) / 0.4, 0, 1))
    np.testing.assert_allclose(found[1], LEVELS)
    np.testing.assert_array_equal(found[2], LEVELS >= 0.5)
