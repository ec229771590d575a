"""The studies on the paper's model and the mechanism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from mechanism_peer import Peer
from scipy import integrate, special, stats

from bayes_tacit import handoff_score
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import PrefixRouter
from models.recovery import RECOVERY
from simulations import published
from simulations.mechanism import calibration
from simulations.mechanism.world import hidden_states
from simulations.model_based import TRUTH, outcome_proportions, quietly, simulate, true_scores, with_proportions
from simulations.studies import curves, mechanism, random_mechanisms, sensitivity, small_samples
from simulations.studies.contest import (
    ABLATIONS,
    ALL,
    ANALOGUES,
    TACIT,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
)
from simulations.studies.noise import Corruption
from simulations.studies.recovery import TRUE_PARAMETERS, held_out_error, raw_parameters, replicate
from simulations.studies.study import Setting

OTHER = replace(TRUTH, gamma=(0.9, -0.2, 0.4), beta=(0.5, 0.3, -0.2), gamma0=-0.4, beta0=0.7, s=0.8, horizon=6)


def integrated_proportions(truth):
    """Integrate over x'gamma, x'beta and the threshold's noise on a grid, with the gamma law of the final risk."""
    gamma, beta = np.array(truth.gamma), np.array(truth.beta)
    covariance = [[gamma @ gamma, gamma @ beta], [gamma @ beta, beta @ beta]]
    eta = np.linspace(-8, 8, 161) * np.sqrt(gamma @ gamma)
    mu = np.linspace(-8, 8, 161) * np.sqrt(beta @ beta)
    noise = np.linspace(-8, 8, 161)
    final = stats.gamma(truth.shape * truth.horizon, scale=truth.scale)
    reached = final.sf(np.exp(truth.beta0 + mu[:, None] + truth.s * noise))
    reached = integrate.simpson(reached * stats.norm.pdf(noise), x=noise, axis=1)
    density = stats.multivariate_normal([0, 0], covariance).pdf(np.stack(np.meshgrid(eta, mu, indexing="ij"), -1))
    pi = special.expit(truth.gamma0 + eta)

    def mean(values):
        return integrate.simpson(integrate.simpson(values * density, x=mu, axis=1), x=eta)

    strong, rescued = mean(pi[:, None] + 0 * mu), mean(pi[:, None] * reached)
    alone = 1 / (1 + np.exp(-truth.cheap_alone))
    return {"00": (1 - strong) * (1 - alone), "01": rescued, "10": (1 - strong) * alone, "11": strong - rescued}


@pytest.mark.parametrize("truth", [TRUTH, OTHER], ids=["paper", "other"])
def test_outcome_proportions_are_those_of_the_integral(truth, rng):
    expected = integrated_proportions(truth)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-9)
    assert outcome_proportions(truth) == pytest.approx(expected, abs=1e-6)
    n = 200_000
    outcomes = simulate(truth, n, rng).outcomes
    for ab, share in expected.items():
        assert (outcomes == ab).mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def test_intercepts_are_those_that_give_the_papers_proportions():
    moved = with_proportions(replace(TRUTH, gamma0=0.0, beta0=0.5, cheap_alone=0.3), published.RECOVERY_OUTCOMES)
    for name in ("gamma0", "beta0", "cheap_alone"):
        assert getattr(TRUTH, name) == pytest.approx(getattr(moved, name), abs=6e-5)
    total = sum(published.RECOVERY_OUTCOMES.values())
    wanted = {ab: share / total for ab, share in published.RECOVERY_OUTCOMES.items()}
    assert integrated_proportions(moved) == pytest.approx(wanted, abs=1e-6)


def test_true_score_is_incidence_times_the_lognormal_distribution_of_the_threshold(rng):
    episodes = simulate(OTHER, 20, rng)
    q = true_scores(OTHER, episodes)
    for i in range(20):
        x = episodes.dataset["features"].values[i]
        risk, pi = 0.0, 1 / (1 + np.exp(-(OTHER.gamma0 + sum(x * OTHER.gamma))))
        threshold = stats.lognorm(OTHER.s, scale=np.exp(OTHER.beta0 + sum(x * OTHER.beta)))
        for t in range(OTHER.horizon):
            risk += episodes.dataset["diagnostics"].values[i, t, 0]
            assert q[i, t] == pytest.approx(pi * threshold.cdf(risk), rel=1e-12)


def test_marks_come_as_often_by_each_step_as_the_true_score_says(rng):
    """A mark at or before t means B = 1 and a crossing by t, whose probability is q(t)."""
    n = 200_000
    episodes = simulate(OTHER, n, rng)
    q = true_scores(OTHER, episodes)
    marked = episodes.dataset["window_start"].values[:, None] <= np.arange(OTHER.horizon)
    spread = np.sqrt((q * (1 - q)).mean(axis=0) / n)
    assert (np.abs((marked - q).mean(axis=0)) < 4 * spread).all()


@pytest.fixture(scope="module")
def fitted():
    """A fit on features far from standardized."""
    episodes = simulate(TRUTH, 800, np.random.default_rng(5))
    shifted = episodes.dataset["features"].values * [2.0, 0.5, 3.0] + [1.0, -4.0, 0.3]
    episodes = quietly(episodes.dataset.assign(features=(("episode", "feature"), shifted)))
    return RECOVERY.fit(episodes), episodes


def test_raw_parameters_give_the_same_scores_on_raw_features(fitted):
    fit, episodes = fitted
    raw = raw_parameters(fit)
    assert raw.keys() == TRUE_PARAMETERS.keys()
    truth = replace(
        TRUTH,
        gamma0=raw["gamma0"],
        gamma=tuple(raw[f"gamma{j}"] for j in (1, 2, 3)),
        beta0=raw["beta0"],
        beta=tuple(raw[f"beta{j}"] for j in (1, 2, 3)),
        s=raw["s"],
    )
    np.testing.assert_allclose(true_scores(truth, episodes), handoff_score(fit, episodes).values, rtol=1e-9)


def test_errors_of_a_large_sample_are_within_a_few_standard_errors():
    (row,) = replicate(Setting("n", {"n": 8000}), 0, np.random.SeedSequence(1))
    assert row["converged"]
    fit = RECOVERY.fit(simulate(TRUTH, 8000, np.random.default_rng(1)))
    for name in TRUE_PARAMETERS:
        group, j = name.rstrip("0123"), name.removeprefix(name.rstrip("0123"))
        error = fit.standard_errors[name] if j in ("", "0") else fit.standard_errors[group][int(j) - 1]
        assert abs(row[f"error_{name}"]) < 4 * error


def test_training_and_held_out_tasks_come_from_different_streams():
    """Held-out error of a fit on its own training tasks would be another number."""
    seeds = np.random.SeedSequence(1)
    (row,) = replicate(Setting("n", {"n": 500}), 0, seeds)
    training, held_out = (np.random.default_rng(s) for s in np.random.SeedSequence(1).spawn(2))
    fit = RECOVERY.fit(simulate(TRUTH, 500, training))
    assert row["q_rmse"] == pytest.approx(held_out_error(fit, simulate(TRUTH, 10_000, held_out)), rel=1e-9)


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


def test_flipped_outcomes_keep_no_mark_and_gain_none():
    made = episodes(["00", "01", "10", "11"], [NAN, 2, NAN, NAN])
    flipped = corruption(range(4), [True] * 4).flip_outcomes(made, 1.0)
    assert flipped.outcomes.tolist() == ["01", "00", "11", "10"]
    assert not flipped.has_window.any()


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


SMALL = {"train": 600, "development": 300, "test": 400}


@pytest.fixture(scope="module")
def worlds():
    return draw_worlds(calibration().mechanism, np.random.SeedSequence(5), SMALL)


@pytest.fixture(scope="module")
def result(worlds):
    return contest((*ALL, *ABLATIONS), worlds)


def test_rows_hold_averages_and_the_choice(result):
    rows = {row["policy"]: row for row in policy_rows(result)}
    assert set(rows) == {policy.name for policy in (*ALL, *ABLATIONS)}
    assert rows[TACIT.name]["alpha"] == result.choices[TACIT.name].alpha
    assert rows["Prefix router"]["k"] in (1, 2, 3, 4)
    assert rows[TACIT.name]["success"] == result.outcomes[TACIT.name].success.mean()
    assert "setting" not in rows[TACIT.name]
    assert all(row["development_cost"] <= 16 for name, row in rows.items() if not name.startswith("Pure"))


def test_a_fixed_prefix_is_what_a_router_with_that_prefix_alone_gives(worlds, result):
    rows = {row["policy"]: row for row in mechanism.fixed_prefixes(result, worlds["development"], worlds["test"])}
    for k in (1, 4):
        alone = contest([PrefixRouter(prefixes=(k,))], worlds).table.iloc[0]
        assert rows[f"Prefix router, K = {k}"]["success"] == alone["success"]
        assert rows[f"Prefix router, K = {k}"]["cost"] == alone["cost"]


def test_analogues_have_rows_and_can_be_recommended(worlds):
    names = names_of(ANALOGUES)
    assert names == ["TRIM analogue", "EvoRoute analogue"]
    for study in (mechanism, random_mechanisms, curves):
        assert set(names) <= set(study.STUDY.parameters["policies"])
    for study in (sensitivity, small_samples):
        assert set(names) <= set(study.STUDY.parameters["ours"][1:])
    alone = {row["policy"]: row for row in policy_rows(contest(ANALOGUES, worlds))}
    assert all(0 < row["strong_share"] < 1 for row in alone.values())


def test_hidden_states_are_those_of_an_independent_simulator(worlds):
    tasks = worlds["test"].single_steps.tasks
    expected = Peer(tasks.mechanism, tasks.draws).cheap()["state"]
    np.testing.assert_array_equal(hidden_states(worlds["test"]), expected)
    with pytest.raises(InvalidDataError, match="a world of the mechanism simulator"):
        hidden_states(replace(worlds["test"], single_steps=None))


def test_handoffs_are_put_beside_the_hidden_states_by_hand(worlds, result):
    states = hidden_states(worlds["test"]).tolist()
    for name, found in mechanism.of_handoffs(result, np.array(states), mechanism.LASTING).items():
        outcomes = result.outcomes[name]
        off, delays, won = [], [], []
        for task, path in enumerate(states):
            if outcomes.strong_calls[task] > 0:
                seen = path[: int(outcomes.cheap_calls[task])]
                off.append(seen[-1] == 2)
                won.append(outcomes.success[task])
                if 2 in seen:
                    delays.append(len(seen) - 1 - seen.index(2))
        assert len(off) > 100
        assert found["handoff_off_track"] == pytest.approx(np.mean(off))
        assert found["handoff_delay"] == pytest.approx(np.mean(delays))
        assert found["handoff_success"] == pytest.approx(np.mean(won))


def test_what_an_alarm_gives_away_is_counted_by_hand(worlds):
    states = hidden_states(worlds["test"])
    risks = worlds["test"].episodes.dataset["diagnostics"].values[:, :, 0]
    seen = [(risk >= 0.9, state == 2) for risk, state in zip(risks.ravel(), states.ravel(), strict=True) if state >= 0]
    found = mechanism.of_alarms(worlds["test"], states, 0.9)
    assert found["alarms_off_track"] == pytest.approx(np.mean([off for alarm, off in seen if alarm]))
    assert found["off_track_with_alarm"] == pytest.approx(np.mean([alarm for alarm, off in seen if off]))
    assert found["elsewhere_with_alarm"] == pytest.approx(np.mean([alarm for alarm, off in seen if not off]))


def test_both_axes_leave_the_outcomes_of_both_actors_alone():
    """A replicate has the same seeds in every setting, and what is varied is only what a learner sees."""
    study = sensitivity.STUDY
    assert study.paired
    assert len(study.settings) == 9
    seen = []
    for setting in (study.settings[0], study.settings[1], study.settings[-1]):
        varied = calibration().mechanism
        if setting.values:
            varied = sensitivity.AXES[setting.values["axis"]](varied, setting.values["factor"])
        world = draw_worlds(varied, study.seeds(study.position(setting.name), 3, 1), SMALL)["test"]
        seen.append((world.counterfactuals.table(), world.episodes.dataset))
    for table, dataset in seen[1:]:
        np.testing.assert_array_equal(table, seen[0][0])
        assert not dataset[["features", "diagnostics"]].identical(seen[0][1][["features", "diagnostics"]])


def test_rescues_are_counted_by_hand(worlds):
    world = worlds["test"]
    found = random_mechanisms.rescues(world)
    saved = []
    for i in np.flatnonzero(world.episodes.outcomes == "01"):
        handoff = np.full(len(world.episodes), -1)
        handoff[i] = 5
        saved.append(world.counterfactuals.outcomes_at(handoff).success[i])
    assert found["rescue_late"] == pytest.approx(np.mean(saved))
    cheap_only = world.episodes.dataset["cheap_success"] & ~world.episodes.dataset["strong_success"]
    assert found["only_cheap"] == float(cheap_only.mean())


def test_correlations_are_by_rank_and_the_strongest_is_first(rng):
    known = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    margin = np.exp(-known["b"]) + 0.01 * known["c"]
    found = random_mechanisms.correlated(known, margin)
    assert found[0][0] == "b"
    for name, value, p in found:
        ranks = known[name].rank(), margin.rank()
        assert value == pytest.approx(np.corrcoef(*ranks)[0, 1])
        assert p >= stats.spearmanr(known[name], margin).pvalue


def test_the_interval_of_a_median_is_near_that_of_order_statistics(rng):
    values = pd.Series(rng.normal(size=200))
    middle, low, high = random_mechanisms.median_interval(values)
    ordered = np.sort(values)
    assert middle == pytest.approx(np.median(values))
    # Of 200 values, the 86th and the 115th are the ends of the classical 95% interval.
    assert ordered[80] <= low <= ordered[92]
    assert ordered[107] <= high <= ordered[119]
