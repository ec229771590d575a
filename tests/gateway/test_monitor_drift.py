"""Drift is a lower bound of the Kolmogorov-Smirnov distance, zero on training itself, and rarely a false alarm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayes_tacit.monitor.reading import Counts, drift_of, limit_of
from bayes_tacit.router.files import PROBABILITIES

VALUES = st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-10, 10)), min_size=1, max_size=40)


def counted(training: np.ndarray, now: np.ndarray) -> Counts:
    counts = Counts(np.maximum.accumulate(np.quantile(training, PROBABILITIES)))
    for value in now:
        counts.add(float(value))
    return counts


@given(VALUES, VALUES)
def test_it_never_says_more_than_both_samples_do(training, now):
    counts = counted(np.array(training), np.array(now))
    # Quantiles are interpolated, which moves them by one of n values at most.
    slack = 1 / len(training) + 1e-9
    if len(training) > 1 or len(now) > 1:
        assert counts.higher <= stats.ks_2samp(now, training, alternative="less").statistic + slack
        assert counts.lower <= stats.ks_2samp(now, training, alternative="greater").statistic + slack


@given(VALUES)
def test_on_training_itself_there_is_none(training):
    counts = counted(np.array(training), np.array(training))
    assert max(counts.higher, counts.lower) <= 1 / len(training) + 1e-9
    assert counts.outside == 0


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "alike"), (0.8, "higher"), (-0.8, "lower")])
def test_a_shift_is_found_with_its_direction(shift, verdict):
    rng = np.random.default_rng(2)
    counts = counted(rng.normal(size=2_000), rng.normal(shift, 1, size=500))
    assert drift_of("feature", "x", counts, 500, 5).verdict == verdict
    both = drift_of("feature", "x", counted(rng.normal(size=2_000), rng.normal(0, 4, size=500)), 500, 5)
    assert both.verdict == "both"


def test_the_gap_of_a_sign_is_the_least_that_its_share_grew():
    # A fifth of training steps had the sign: it is 0 up to the 75% quantile and 1 from the 95% quantile on.
    training = np.repeat([0.0, 1.0], [800, 200])
    counts = counted(training, np.repeat([0.0, 1.0], [30, 70]))
    assert counts.higher == pytest.approx(0.75 - 0.3)
    assert counted(training, np.repeat([0.0, 1.0], [80, 20])).higher == 0


def test_false_alarms_are_rare_whatever_the_number_of_sessions():
    rng = np.random.default_rng(4)
    training = rng.gamma(2, size=50_000)
    quantiles = np.quantile(training, PROBABILITIES)
    for n in (5, 150):
        alarms = 0
        for _ in range(60):
            for _ in range(4):
                counts = Counts(quantiles)
                for value in rng.gamma(2, size=n):
                    counts.add(value)
                alarms += max(counts.higher, counts.lower) > limit_of(n, 4)
        assert alarms <= 4  # one in a hundred logs, and room for chance
