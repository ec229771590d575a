import numpy as np
import pytest
import xarray as xr
from bayes_tacit.scores.crossings import first_crossings
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayes_tacit.data.timing import NEVER, handoff_steps
from bayes_tacit.errors import InvalidDataError

SCORES = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.floats(0, 1))


def test_a_crossing_after_an_action_gives_strong_the_next_one():
    np.testing.assert_array_equal(handoff_steps([0, 1, 7], "post_action"), [1, 2, 8])


def test_a_crossing_at_a_proposal_gives_strong_that_step():
    np.testing.assert_array_equal(handoff_steps([0, 1, 7], "proposal"), [0, 1, 7])


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
@pytest.mark.parametrize("never", [-1, np.nan])
def test_no_crossing_is_no_handoff(timing, never):
    np.testing.assert_array_equal(handoff_steps([never, never], timing), [NEVER, NEVER])


def test_a_score_crosses_where_it_first_reaches_alpha():
    scores = [[0.1, 0.3, 0.3, 0.9], [0.1, 0.2, np.nan, np.nan]]
    np.testing.assert_array_equal(first_crossings(scores, 0.3), [1, NEVER])
    np.testing.assert_array_equal(first_crossings(scores, [0.1, 0.2, 1]), [[0, 0], [1, 1], [NEVER, NEVER]])


def test_dims_may_come_in_any_order():
    scores = xr.DataArray([[0.1, 0.5], [0.2, 0.1]], dims=("step", "episode"))
    np.testing.assert_array_equal(first_crossings(scores, 0.2), [1, 0])


@settings(deadline=None)
@given(SCORES, st.floats(0, 1), st.floats(0, 1))
def test_lowering_alpha_never_delays_a_handoff(scores, one, other):
    high, low = max(one, other), min(one, other)
    later, earlier = first_crossings(scores, [high, low])
    assert (earlier[later != NEVER] != NEVER).all()
    assert (earlier <= later)[later != NEVER].all()


@settings(deadline=None)
@given(SCORES, st.floats(0, 1))
def test_nothing_before_a_crossing_reaches_alpha(scores, alpha):
    for row, crossing in zip(scores, first_crossings(scores, alpha), strict=True):
        before = row if crossing == NEVER else row[:crossing]
        assert (before < alpha).all()
        assert crossing == NEVER or row[crossing] >= alpha


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: handoff_steps([1], "later"), "timing is 'later'; expected 'post_action' or 'proposal'"),
        (lambda: handoff_steps([1.5], "proposal"), "crossings is 1.5; expected whole numbers >= 0"),
        (lambda: handoff_steps([-2], "proposal"), "crossings is -2.0; expected whole numbers >= 0"),
        (lambda: handoff_steps([np.inf], "proposal"), "crossings is inf; expected whole numbers >= 0"),
        (lambda: handoff_steps(["x"], "proposal"), r"crossings is \['x'\]; expected whole numbers"),
        (lambda: first_crossings([[0.1]], np.nan), "alpha is nan; expected a number"),
        (lambda: first_crossings([0.1], 0.1), r"shape of scores is \(1,\); expected \(episode, step\)"),
        (lambda: first_crossings([["x"]], 0.1), r"scores is \[\['x'\]\]; expected numbers"),
        (lambda: first_crossings([[0.1, 0.2], [np.nan, 0.1]], 0.1), "row 1, step 0: score is nan; expected a finite"),
        (lambda: first_crossings([[np.nan, np.nan]], 0.1), "row 0, step 0: score is nan"),
        (lambda: first_crossings([[0.1, np.inf]], 0.1), "row 0, step 1: score is inf"),
        (
            lambda: first_crossings(xr.DataArray(np.zeros((1, 1, 1)), dims=("draw", "episode", "step")), 0.1),
            "dims of scores is .*expected .* take the mean or a quantile",
        ),
    ],
)
def test_what_is_no_score_or_step_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()
