import numpy as np
import pytest
from posteriors import random_posterior
from scipy import stats
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, fit_map, handoff_score, incidence
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.review.predictions import crossed_by_step, incidence_calibration


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


def test_episodes_with_one_prediction_share_a_bin(episodes):
    bare = quietly(episodes.dataset.isel(feature=[]))
    table = incidence_calibration(fit_map(bare), bare)
    assert table["episodes"].tolist() == [1500]


def test_a_model_with_two_predictions_has_two_bins(episodes):
    dataset = episodes.dataset.isel(feature=[0])
    binary = quietly(dataset.assign(features=(dataset["features"] > 0.8).astype(float)))
    fit = fit_map(binary)
    table = incidence_calibration(fit, binary)
    pi, counts = np.unique(incidence(fit, binary).values, return_counts=True)
    assert table["episodes"].tolist() == counts.tolist()
    np.testing.assert_allclose(table["predicted"], pi)


def test_a_posterior_is_calibrated_by_its_mean(episodes):
    tree = random_posterior(np.random.default_rng(4), episodes)
    table = incidence_calibration(tree, episodes, bins=1)
    assert table["predicted"][0] == pytest.approx(float(incidence(tree, episodes).mean()))


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


def test_a_fitted_model_predicts_the_crossings_it_was_fitted_on(fit, episodes):
    table = crossed_by_step(fit, episodes, probability=0.99)
    assert ((table["lower"] <= table["began"]) & (table["ended"] <= table["upper"])).all()


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
