"""The table of paper and ours."""

import numpy as np
import pytest
from scipy import stats

from bayes_tacit.errors import InvalidDataError
from simulations.studies.tables import Comparison, Tolerance, comparison_table, mean_and_half_width


def test_half_width_is_that_of_the_t_interval(rng):
    values = rng.normal(size=17)
    mean, half = mean_and_half_width(values)
    low, high = stats.t.interval(0.95, 16, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_one_replicate_has_no_half_width():
    assert mean_and_half_width([2.0]) == (2.0, None)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_values_that_are_not_finite_are_refused(values):
    with pytest.raises(InvalidDataError, match="finite numbers"):
        mean_and_half_width(values)


def test_table_says_what_is_within_and_what_is_outside():
    text = comparison_table(
        [Comparison("near", 50.0, [50.0, 51.0], 0.3), Comparison("far", 60.0, [60.0, 61.6])],
        Tolerance(0.7, "points"),
        2,
    )
    near, far = text.splitlines()[2:4]
    assert near == "| near | 50.00 ± 0.30 | 50.50 ± 6.35 | +0.50 | within 0.7 points |"
    assert far == "| far | 60.00 | 60.80 ± 10.16 | +0.80 | **outside** 0.7 points |"
    assert text.endswith("1 of 2 within 0.7 points of the paper; outside: far.")


def test_what_the_paper_does_not_have_is_shown_and_not_counted():
    text = comparison_table(
        [Comparison("ours alone", None, [50.0, 51.0]), Comparison("near", 50.0, [50.0, 50.0])], Tolerance(0.7), 2
    )
    assert "| ours alone | not in the paper | 50.50 ± 6.35 |  | not compared |" in text
    assert text.endswith("1 of 1 within 0.7 of the paper.")


def test_relative_tolerance_is_a_share_of_the_papers_number():
    text = comparison_table(
        [Comparison("error", 0.02, [0.0219]), Comparison("other", 0.02, [0.0175])], Tolerance(0.1, relative=True), 4
    )
    assert "| error | 0.0200 | 0.0219 | +0.0019 (+9.5%) | within 10% |" in text
    assert "| other | 0.0200 | 0.0175 | -0.0025 (-12.5%) | **outside** 10% |" in text


@pytest.mark.parametrize(("difference", "within"), [(0.7, True), (-0.7, True), (0.701, False), (-0.701, False)])
def test_the_limit_itself_is_within(difference, within):
    assert Tolerance(0.7, "points").admits(difference, 62.4) is within
