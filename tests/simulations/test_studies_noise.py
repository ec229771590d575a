"""Corrupted supervision, by hand-made cases, and what the noise study does with it."""

import numpy as np
import pytest
import xarray as xr
from simulate import quietly

from simulations.model_based import TRUTH, simulate
from simulations.studies.noise import Corruption

NAN = np.nan


def episodes(outcomes, start, end=None, horizon=4):
    n = len(outcomes)
    return quietly(
        xr.Dataset(
            {
                "features": (("episode", "feature"), np.arange(float(n))[:, None]),
                "diagnostics": (("episode", "step", "diagnostic"), np.ones((n, horizon, 1))),
                "n_steps": ("episode", np.full(n, horizon)),
                "cheap_success": ("episode", np.array([ab[0] == "1" for ab in outcomes])),
                "strong_success": ("episode", np.array([ab[1] == "1" for ab in outcomes])),
                "window_start": ("episode", np.array(start, dtype=float)),
                "window_end": ("episode", np.array(start if end is None else end, dtype=float)),
            },
            coords={"episode": np.arange(n), "step": np.arange(horizon), "feature": ["x"], "diagnostic": ["u"]},
        )
    )


def corruption(order, later):
    return Corruption(np.array(order, dtype=float), np.array(order, dtype=float), np.array(later))


def windows(made):
    return [made.dataset[name].values.tolist() for name in ("window_start", "window_end")]


def test_a_moved_mark_goes_to_the_neighbour_or_at_an_end_to_the_only_one():
    made = episodes(["01"] * 6, [0, 0, 2, 2, 3, 3])
    moved = corruption(range(6), [True, False] * 3).move_marks(made, 1.0)
    assert windows(moved) == [[1, 1, 3, 1, 2, 2]] * 2
    assert moved.outcomes.tolist() == made.outcomes.tolist()


def test_only_one_step_marks_move_and_those_first_in_order():
    made = episodes(["01", "01", "01", "11", "01"], [1, 1, 1, NAN, 1], [1, 2, 1, NAN, 1])
    moved = corruption([3, 0, 2, 1, 4], [True] * 5).move_marks(made, 2 / 3)
    np.testing.assert_array_equal(windows(moved), [[2, 1, 2, NAN, 1], [2, 2, 2, NAN, 1]])


def test_a_single_step_leaves_a_mark_nowhere_to_go():
    moved = corruption([0, 1], [True, False]).move_marks(episodes(["01", "01"], [0, 0], horizon=1), 1.0)
    assert windows(moved) == [[0, 0]] * 2


def test_flipped_outcomes_keep_no_mark_and_gain_none():
    made = episodes(["00", "01", "10", "11"], [NAN, 2, NAN, NAN])
    flipped = corruption(range(4), [True] * 4).flip_outcomes(made, 1.0)
    assert flipped.outcomes.tolist() == ["01", "00", "11", "10"]
    assert not flipped.has_window.any()


def test_unflipped_episodes_stay_as_they_are():
    made = episodes(["00", "01", "10", "11"], [NAN, 2, NAN, NAN])
    flipped = corruption([3, 2, 1, 0], [True] * 4).flip_outcomes(made, 0.5)
    assert flipped.outcomes.tolist() == ["00", "01", "11", "10"]
    np.testing.assert_array_equal(windows(flipped), [[NAN, 2, NAN, NAN]] * 2)


def test_no_rate_no_corruption(rng):
    made = simulate(TRUTH, 300, rng)
    drawn = Corruption.draw(300, rng)
    assert drawn.flip_outcomes(drawn.move_marks(made, 0.0), 0.0).identical(made)


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_the_share_is_exact_and_a_higher_rate_adds_to_a_lower_one(rng, rate):
    made = simulate(TRUTH, 4000, rng)
    drawn = Corruption.draw(4000, rng)

    def changed(share):
        moved, flipped = drawn.move_marks(made, share), drawn.flip_outcomes(made, share)
        mark, strong = made.dataset["window_start"].values, made.dataset["strong_success"].values
        by = np.abs(moved.dataset["window_start"].values - mark)
        assert set(by[made.has_window]) <= {0.0, 1.0}
        return by == 1, flipped.dataset["strong_success"].values != strong

    (marks, outcomes), (more_marks, more_outcomes) = changed(rate), changed(2 * rate)
    assert marks.sum() == round(rate * made.has_window.sum())
    assert outcomes.sum() == rate * 4000
    assert (more_marks[marks]).all()
    assert (more_outcomes[outcomes]).all()


def test_marks_move_both_ways_equally_often(rng):
    made = episodes(["01"] * 4000, [1] * 4000)
    start = np.array(windows(Corruption.draw(4000, rng).move_marks(made, 1.0))[0])
    assert set(start) == {0.0, 2.0}
    assert (start == 2).mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(4000))
