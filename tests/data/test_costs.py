import numpy as np
import pytest

from bayes_tacit import StepCost
from bayes_tacit.data.costs import PAPER_UNITS, cost_of_calls
from bayes_tacit.errors import InvalidDataError


def test_a_step_cost_is_linear_in_the_calls():
    cost = StepCost(cheap=2.25, strong=6.75, one_off=1.75)
    np.testing.assert_array_equal(cost([4, 0], [0, 10], [1, 0]), [10.75, 67.5])
    np.testing.assert_array_equal(cost([4, 0], [0, 10]), [9.0, 67.5])


def test_the_papers_units_are_by_model_size():
    assert PAPER_UNITS == {"4b": 1.0, "9b": 2.25, "27b": 6.75, "7b_value_head": 1.75}
    assert StepCost.paper("4b") == StepCost(1.0, 6.75, 1.75)
    assert StepCost.paper("9b", "9b") == StepCost(2.25, 2.25, 1.75)


def test_the_papers_units_give_its_pure_costs_back_as_calls():
    """Pure 4B and Pure 27B on ALFWorld cost 49.40 and 230.51, which must be whole numbers of calls on 134 tasks."""
    cost = StepCost.paper("4b")
    for published, calls in ((49.40, cost([1], [0])[0]), (230.51, cost([0], [1])[0])):
        total = round(134 * published / calls)
        assert round(total * calls / 134, 2) == published


def test_any_callable_is_a_cost_model():
    np.testing.assert_array_equal(
        cost_of_calls(lambda cheap, strong, one_off: cheap + strong**2 + one_off, [1, 2], [3, 4], 1), [11, 19]
    )


def test_unknown_calls_cost_an_unknown_amount():
    seen = []
    cost = cost_of_calls(lambda c, s, _: seen.append((c, s)) or c + s, [[1, np.nan], [2, 3]], [[1, np.nan], [1, 1]])
    np.testing.assert_array_equal(cost, [[2, np.nan], [3, 4]])
    assert not np.isnan(seen[0][0]).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepCost(-1, 3), "cheap cost is -1; expected a finite number >= 0"),
        (lambda: StepCost(1, np.inf), "strong cost is inf; expected a finite number >= 0"),
        (lambda: StepCost(1, 3, "x"), "one_off cost is 'x'; expected a finite number >= 0"),
        (lambda: StepCost.paper("70b"), "cheap is '70b'; expected '4b' or '9b' or '27b'"),
        (lambda: cost_of_calls(3, [1], [1]), "cost is 3; expected StepCost"),
        (lambda: cost_of_calls(lambda *_: 1.0, [1, 2], [1, 2]), r"shape of the costs .* is \(\); expected \(2,\)"),
        (
            lambda: cost_of_calls(lambda c, s, _: s - c, [1, 2], [1, 1]),
            "cost of 2 Cheap, 1 Strong and 0 one-off calls is -1.0; expected a finite number >= 0",
        ),
        (lambda: cost_of_calls(lambda c, *_: c * np.nan, [1], [1]), "is nan; expected a finite number >= 0"),
    ],
)
def test_what_is_no_cost_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()
