"""Bins hold every value once, in order, and equal values together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_tacit.review.bins import cut, evenly, span

VALUES = st.lists(st.integers(-5, 5), min_size=1, max_size=60).map(lambda given: np.array(given, dtype=float))


@given(VALUES, st.integers(1, 8))
def test_every_value_is_in_one_bin_and_bins_rise(values, count):
    members = list(cut(values, evenly(count)))
    assert np.stack(members).sum(axis=0).tolist() == [1] * len(values)
    assert len(members) <= count
    assert all(mask.any() for mask in members)
    assert all(values[low].max() < values[high].min() for low, high in pairwise(members))


@given(VALUES, st.integers(1, 8))
def test_a_bin_ends_at_the_first_value_by_which_its_part_of_all_is_reached(values, count):
    distinct = np.unique(values)
    found = [values[mask].max() for mask in cut(values, evenly(count))]
    if len(distinct) <= count:
        assert found == distinct.tolist()
        return
    reached = [min(v for v in distinct if (values <= v).sum() >= q * len(values) - 1e-9) for q in evenly(count)]
    assert found == sorted({*reached, distinct[-1]})


def test_what_has_no_weight_is_in_no_bin_and_moves_no_end():
    values, weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]), np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    low, high = cut(values, evenly(2), weight)
    assert values[low].tolist() == [1, 2]
    assert values[high].tolist() == [4, 5]


def test_values_that_differ_by_rounding_are_one_and_named_once():
    values = np.array([0.1 + 0.2, 0.3, -1e-17, 0.0])
    assert [span(values[mask]) for mask in cut(values, evenly(5))] == ["0", "0.3"]
