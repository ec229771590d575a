"""What a fit predicts: bins, incidence, crossings by step, bands, residuals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from posteriors import random_posterior
from scipy import stats
from simulate import simulate_model

from bayes_tacit import Episodes, fit_map, handoff_score, incidence
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.review.crossings import Residuals, log_mass
from bayes_tacit.review.findings import cut, envelope, evenly, span
from bayes_tacit.review.plots import crossed_by_step, incidence_calibration

VALUES = st.lists(st.integers(-5, 5), min_size=1, max_size=60).map(lambda given: np.array(given, dtype=float))


@pytest.fixture(scope="module")
def episodes():
    return simulate_model(np.random.default_rng(8), 1500, widest=2)


@pytest.fixture(scope="module")
def fit(episodes):
    return fit_map(episodes, ridge=0.001, restarts=2)


def test_bins_hold_every_episode_once_by_rising_prediction(fit, episodes):
    table = incidence_calibration(fit, episodes, bins=7)
    assert table["episodes"].tolist() == pytest.approx([1500 / 7] * 7, abs=2)
    assert table["episodes"].sum() == 1500
    assert table["predicted"].is_monotonic_increasing
    strong = episodes.dataset["strong_success"].values
    assert (table["observed"] * table["episodes"]).sum() == pytest.approx(strong.sum())
    pi = np.sort(incidence(fit, episodes).values)
    first = table["episodes"][0]
    assert table["predicted"][0] == pytest.approx(pi[:first].mean())


def test_a_bins_interval_is_jeffreys_and_covers_the_prediction_of_a_fitted_model(fit, episodes):
    table = incidence_calibration(fit, episodes, bins=8, probability=0.99)
    for row in table.itertuples():
        successes = round(row.observed * row.episodes)
        posterior = stats.beta(successes + 0.5, row.episodes - successes + 0.5)
        assert (row.lower, row.upper) == pytest.approx((posterior.ppf(0.005), posterior.ppf(0.995)))
        assert row.lower < row.predicted < row.upper


def test_crossings_are_predicted_as_the_threshold_distribution_says(fit, episodes):
    table = crossed_by_step(fit, episodes, replicates=400)
    timed = episodes.has_window | (episodes.outcomes == "11")
    below = (handoff_score(fit, episodes) / incidence(fit, episodes)).values[timed]
    below = np.fmax.accumulate(below, axis=1)
    np.testing.assert_allclose(table["predicted"], below.mean(axis=0), atol=0.004)
    spread = np.sqrt((below * (1 - below)).sum(axis=0)) / timed.sum()
    np.testing.assert_allclose((table["upper"] - table["lower"])[1:], 2 * 1.645 * spread[1:], rtol=0.25)


def test_observed_crossings_are_bounded_by_the_windows(fit, episodes):
    table = crossed_by_step(fit, episodes, replicates=5)
    timed = episodes.has_window | (episodes.outcomes == "11")
    for step in (0, 3, 11):
        for name, mark in (("began", "window_start"), ("ended", "window_end")):
            count = sum(at <= step for at in episodes.dataset[mark].values[timed] if not np.isnan(at))
            assert table.loc[step, name] == pytest.approx(count / timed.sum())
    assert (table["ended"] <= table["began"]).all()


def test_marks_after_a_step_belong_to_the_next_proposal(episodes):
    tree = random_posterior(np.random.default_rng(4), episodes)
    now = crossed_by_step(tree, episodes, replicates=2)
    tree.attrs["timing"] = "proposal"
    later = crossed_by_step(tree, episodes, replicates=2)
    assert later["began"][0] == 0
    # A mark at the last step of a rollout has no proposal after it.
    ends = episodes.dataset["window_end"].values + 1 >= episodes.n_steps
    timed = episodes.has_window | (episodes.outcomes == "11")
    assert later["ended"].iloc[-1] == pytest.approx(now["ended"].iloc[-1] - (ends & timed).sum() / timed.sum())


def test_the_same_seed_gives_the_same_prediction(fit, episodes):
    first, again, other = (crossed_by_step(fit, episodes, replicates=5, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_wrong_settings_are_refused(fit, episodes):
    for bins in (0, 2.5):
        with pytest.raises(InvalidDataError, match=r"bins is .*; expected a whole number >= 1"):
            incidence_calibration(fit, episodes, bins=bins)
    for table in (incidence_calibration, crossed_by_step):
        with pytest.raises(InvalidDataError, match="probability is 1; expected a number between 0 and 1"):
            table(fit, episodes, probability=1)
    with pytest.raises(InvalidDataError, match="replicates is 0; expected a whole number >= 1"):
        crossed_by_step(fit, episodes, replicates=0)
    untimed: Episodes = episodes.take(np.flatnonzero(~episodes.dataset["strong_success"].values))
    with pytest.raises(InvalidDataError, match=r"timed episodes is \[\]; expected some with a teacher window"):
        crossed_by_step(fit, untimed)


@given(VALUES, st.integers(1, 8))
def test_every_value_is_in_one_bin_and_bins_rise(values, count):
    members = list(cut(values, evenly(count)))
    assert np.stack(members).sum(axis=0).tolist() == [1] * len(values)
    assert len(members) <= count
    assert all(mask.any() for mask in members)
    assert all(values[low].max() < values[high].min() for low, high in pairwise(members))


def test_what_has_no_weight_is_in_no_bin_and_moves_no_end():
    values, weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]), np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    low, high = cut(values, evenly(2), weight)
    assert values[low].tolist() == [1, 2]
    assert values[high].tolist() == [4, 5]


def test_values_that_differ_by_rounding_are_one_and_named_once():
    values = np.array([0.1 + 0.2, 0.3, -1e-17, 0.0])
    assert [span(values[mask]) for mask in cut(values, evenly(5))] == ["0", "0.3"]


def test_an_envelope_holds_what_it_says(rng):
    band = envelope(rng.binomial(50, [0.02, 0.5, 0.97], size=(2000, 3)) / 50)
    fresh = rng.binomial(50, [0.02, 0.5, 0.97], size=(5000, 3)) / 50
    inside = ((fresh >= band.lower - 1e-9) & (fresh <= band.upper + 1e-9)).all(axis=1).mean()
    assert inside >= 0.98
    assert np.all(band.lower >= 0)
    assert np.all(band.upper <= 1)
    assert band.p_value(np.array([0.02, 0.5, 0.97])) > 0.5
    assert band.p_value(np.array([0.02, 0.9, 0.97])) < 0.001


def test_log_mass_is_that_of_the_window():
    crossed = np.array([[0.1, 0.3, 0.7]] * 3)
    first, last, n_steps = np.array([0, 2, 3]), np.array([1, 2, 3]), np.array([3, 3, 3])
    assert np.exp(log_mass(crossed, first, last, n_steps)) == pytest.approx([0.3, 0.4, 0.3])


def test_residuals_have_mean_zero_whatever_the_windows(rng):
    """Crossings drawn from F itself, marked by windows of up to three steps from a fixed partition."""
    n, horizon = 20_000, 9
    crossed = np.cumsum(rng.dirichlet(np.ones(horizon + 1), size=n), axis=1)[:, :-1]
    n_steps = rng.integers(4, horizon + 1, size=n)
    step = (crossed < rng.random((n, 1))).sum(axis=1)
    never = step >= n_steps
    first = np.where(never, n_steps, step // 3 * 3)
    last = np.where(never, n_steps, np.minimum(first + 2, n_steps - 1))
    found = Residuals.of(crossed, first, last, n_steps)
    difference = found.difference
    for t in range(horizon):
        error = difference[:, t].std() / np.sqrt(n)
        assert abs(difference[:, t].mean()) < 4 * error, t
    assert found.observed.sum() == pytest.approx((~never).sum())
