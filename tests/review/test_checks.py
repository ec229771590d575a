"""Each check passes on a sound posterior, and fails when what it looks at is made wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from simulate import quietly

from bayes_tacit import (
    Episodes,
    WeaklyInformativePrior,
    build_model,
    compare_models,
    fit_map,
    load_example,
    run_checks,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.log_likelihood import pointwise_log_likelihood
from bayes_tacit.estimates.posterior.log_prior import log_prior, prior_of
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.families.lognormal import LOGNORMAL
from bayes_tacit.model.priors import prior_to_json
from bayes_tacit.review.checks import (
    CheckResult,
    check_crossing_steps,
    check_incidence_calibration,
    check_loo,
    check_map_agreement,
    check_prior_sensitivity,
    check_sampler,
    crossing_steps,
)
from bayes_tacit.review.checks.predictive import envelope
from bayes_tacit.review.checks.timed import TimedEpisodes
from bayes_tacit.review.predictions import probability_crossed
from bayes_tacit.scores.sources import as_draws

NAMES = [
    "Sampler",
    "Crossing steps",
    "Crossings by covariate",
    "Incidence calibration",
    "Leave-one-out",
    "Prior sensitivity",
    "MAP against posterior",
    "Prior of the weights",
    "Memory by likelihood",
]


def changed(tree: xr.DataTree, group: str, **variables: object) -> xr.DataTree:
    """Copy a posterior and replace some variables of a group by values of the same shape."""
    out = tree.copy()
    dataset = tree[group].to_dataset()
    replaced = {name: (dataset[name].dims, np.asarray(values)) for name, values in variables.items()}
    out[group] = xr.DataTree(dataset.assign(replaced))
    return out


@pytest.fixture(scope="module")
def results(posterior, example) -> list[CheckResult]:
    return run_checks(posterior, example)


def test_a_sound_posterior_passes_every_check(results):
    assert [result.name for result in results] == NAMES
    assert [result.passed for result in results] == [True] * len(NAMES)
    assert not any(result.advice for result in results)


def test_every_check_has_a_table_a_sentence_and_a_figure_with_something_on_it(results):
    for result in results:
        assert len(result.table) > 0
        assert result.sentence.endswith(".")
        figure = result.figure()
        assert all(axis.has_data() for axis in figure.axes if axis.axison)
        assert result.figure() is not figure


def test_a_result_prints_its_status_and_advice():
    failed = CheckResult("Name", False, pd.DataFrame(), "It is off.", "Mend it.")
    assert str(failed) == "FAILED  Name: It is off. Mend it."
    assert [CheckResult("n", passed, pd.DataFrame(), "s").status for passed in (True, False, None)] == [
        "passed",
        "failed",
        "not judged",
    ]


@pytest.mark.parametrize(("shift", "direction"), [(4, "late"), (-4, "early")])
def test_crossing_steps_fail_if_the_model_crosses_at_another_time(posterior, example, shift, direction):
    draws = posterior["replicates"]["threshold"]
    n_steps = example.n_steps[posterior["constant_data"]["timed_position"].values]
    moved = changed(posterior, "replicates", threshold=np.clip(draws.values + shift, 0, n_steps))
    result = check_crossing_steps(moved, example)
    assert result.passed is False
    assert f"The model crosses too {direction} at" in result.advice
    # In words as in the figure: a model that is late has crossed less than was observed.
    outside = result.table[~result.table["inside"]]
    late = outside["predicted"] < outside["observed_least"]
    assert (late if direction == "late" else ~late).all()
    assert "Try the log-logistic" in result.advice


def test_crossing_steps_fail_if_the_spread_of_thresholds_is_wrong(posterior, example):
    """The mean PIT sees it, though shares by position may not."""
    for factor, word in ((0.6, "sure"), (1.7, "unsure")):
        other = changed(posterior, "posterior", s=posterior["posterior"]["s"].values * factor)
        result = check_crossing_steps(other, example)
        assert result.passed is False
        assert "p = 0.0005" in result.sentence
        assert f"The model is too {word} of when episodes cross" in result.advice


def test_many_episodes_without_a_mark_are_told(posterior, example, monkeypatch):
    """The posterior is left as it is; only what is known of the marks changes."""
    monkeypatch.setattr(crossing_steps, "require_same_data", lambda *_: None)
    dataset = example.dataset.copy(deep=True)
    marked = np.flatnonzero(example.has_window)[::2]
    for name in ("window_start", "window_end"):
        dataset[name][marked] = np.nan
    half = quietly(dataset)
    by_outcome = posterior.copy()
    by_outcome.attrs = {**posterior.attrs, "unmarked": "outcome"}
    result = check_crossing_steps(by_outcome, half)
    assert result.passed is False
    assert f"{example.summary().without_window + len(marked)} of 614 AB = 01 episodes" in result.sentence
    assert "the bands of q(t) do not hold" in result.sentence
    assert 'unmarked="due"' in result.advice
    assert posterior.attrs["unmarked"] == "due"
    assert check_crossing_steps(posterior, half).passed


def test_crossing_steps_see_windows_as_bounds(results):
    table = results[NAMES.index("Crossing steps")].table
    assert (table["observed_least"] <= table["observed_most"]).all()
    assert (table["observed_least"] < table["observed_most"]).iloc[:-1].all()
    # At the end of the rollout it is known who has crossed.
    assert table["observed_least"].iloc[-1] == table["observed_most"].iloc[-1]


def test_observed_share_that_crossed_is_that_of_the_data(results, example):
    # Without a mark AB = 01 is due by the end of its rollout, so every one of them has crossed.
    due, never = example.outcomes == "01", example.outcomes == "11"
    table = results[NAMES.index("Crossing steps")].table
    assert table["observed_most"].iloc[-1] == pytest.approx(due.sum() / (due | never).sum())


@pytest.mark.parametrize("width", [1, 3])
def test_a_right_model_seldom_fails_whatever_the_windows(rng, width):
    """Of 200 data sets drawn from a fitted distribution, with windows from a fixed partition of the steps."""
    n, horizon = 60, 12
    fitted = as_draws(fit_map(load_example()))
    u = rng.gamma(0.5, 0.8, size=(n, horizon, 4))
    x = rng.normal(size=(n, 3))
    n_steps = np.full(n, horizon)
    crossed = probability_crossed(fitted.draws, x, u)
    failures = 0
    for _ in range(200):
        step = (crossed < rng.random((n, 1))).sum(axis=1)
        never = step >= horizon
        first = np.where(never, horizon, step // width * width)
        last = np.where(never, horizon, np.minimum(first + width - 1, horizon - 1))
        seen = TimedEpisodes(fitted, x, u, first, last, n_steps)
        failures += crossing_steps._calibration(seen).p_value < 0.02
    assert failures <= 10


def test_an_envelope_holds_what_it_says(rng):
    band = envelope(rng.binomial(50, [0.02, 0.5, 0.97], size=(2000, 3)) / 50)
    fresh = rng.binomial(50, [0.02, 0.5, 0.97], size=(5000, 3)) / 50
    inside = ((fresh >= band.lower - 1e-9) & (fresh <= band.upper + 1e-9)).all(axis=1).mean()
    assert inside >= 0.98
    assert np.all(band.lower >= 0)
    assert np.all(band.upper <= 1)
    assert band.p_value(np.array([0.02, 0.5, 0.97])) > 0.5
    assert band.p_value(np.array([0.02, 0.9, 0.97])) < 0.001


def test_incidence_calibration_fails_if_outcomes_are_flipped(posterior):
    outcome = posterior["constant_data"]["strong_outcome"].values
    result = check_incidence_calibration(changed(posterior, "constant_data", strong_outcome=1 - outcome))
    assert result.passed is False
    assert "not linear" in result.advice


def test_incidence_calibration_names_the_feature_that_is_off(posterior, example):
    """Average rates stay as they are; only tasks with three subgoals do better than the others."""
    constant = posterior["constant_data"]
    outcome = constant["strong_outcome"].values.copy()
    outcome[example.dataset["features"].sel(feature="subgoals").values == 3] = 1
    result = check_incidence_calibration(changed(posterior, "constant_data", strong_outcome=outcome))
    assert result.passed is False
    assert "subgoals 3, where 100% succeed" in result.sentence
    assert "effect of subgoals on" in result.advice


def test_bins_hold_every_episode_once_for_each_variable(results, example):
    table = results[NAMES.index("Incidence calibration")].table
    assert set(table.groupby("by")["episodes"].sum()) == {len(example)}
    assert set(table["by"]) == {"predicted pi", *example.feature_names}
    share = (table["observed"] * table["episodes"]).groupby(table["by"]).sum() / len(example)
    assert np.allclose(share, example.dataset["strong_success"].values.mean())


@pytest.mark.parametrize("check", [check_incidence_calibration, check_crossing_steps])
def test_too_few_predictive_draws_are_not_judged_by(posterior, example, check):
    few = posterior.copy()
    few["replicates"] = xr.DataTree(few["replicates"].to_dataset().isel(draw=slice(10)))
    result = check(few, example) if check is check_crossing_steps else check(few)
    assert result.passed is None
    assert "40 predictive draws" in result.sentence
    assert "predictive_draws" in result.advice


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(lambda rng, shape: -rng.exponential(size=shape), id="k near 1"),
        pytest.param(lambda rng, shape: -np.exp(2 * rng.normal(size=shape)), id="k not estimable"),
    ],
)
def test_loo_fails_and_names_the_episode_that_decides_the_fit(posterior, rng, tail):
    total = posterior["log_likelihood"]["total"].values.copy()
    total[:, :, 17] = tail(rng, total.shape[:2])
    result = check_loo(changed(posterior, "log_likelihood", total=total))
    assert result.passed is False
    assert "1 of 1200 episodes, worst for task-0017" in result.sentence
    assert result.table.index[0] == "task-0017"
    assert result.figure().axes[0].texts[0].get_text() == "task-0017"


def test_loo_refuses_an_infinite_likelihood(posterior):
    total = posterior["log_likelihood"]["total"].values.copy()
    total[0, 0, 17] = -np.inf
    with pytest.raises(InvalidDataError, match="task-0017"):
        check_loo(changed(posterior, "log_likelihood", total=total))


def without_feature(tree: xr.DataTree, episodes: Episodes, feature: str) -> xr.DataTree:
    """The same posterior with a feature's effects taken out, and the likelihood that it then has."""
    dataset = tree["posterior"].to_dataset()
    keep = (dataset["feature"] != feature).astype(float)
    smaller = dataset.assign(gamma=dataset["gamma"] * keep, beta=dataset["beta"] * keep)
    smaller = smaller.transpose("chain", "draw", ...)
    out = tree.copy()
    out["posterior"] = xr.DataTree(smaller)
    out["log_likelihood"] = xr.DataTree(pointwise_log_likelihood(smaller, collect_evidence(episodes), LOGNORMAL))
    return out


def test_chains_that_do_not_move_fail_the_check_instead_of_ending_the_program(posterior):
    total = posterior["log_likelihood"]["total"]
    stuck = total.isel(draw=[0]).reindex(draw=total["draw"], method="ffill")
    result = check_loo(changed(posterior, "log_likelihood", total=stuck.values))
    assert not result.passed
    assert result.sentence.startswith("PSIS-LOO cannot be computed")
    assert "sample again" in result.advice


def test_comparison_prefers_the_model_with_the_feature_that_matters(posterior, example):
    result = compare_models(
        {"without": without_feature(posterior, example, "subgoals"), "with": posterior, "again": posterior}
    )
    assert result.passed is None
    assert set(result.table.index[:2]) == {"with", "again"}
    assert result.table["elpd_diff"]["without"] < -50
    assert "predicts better than without by" in result.sentence
    assert "cannot be told from" in result.sentence
    assert result.figure().axes[0].has_data()


def test_comparison_does_not_depend_on_the_order_of_the_episodes(posterior):
    turned = posterior.copy()
    for group in ("log_likelihood", "constant_data"):
        turned[group] = xr.DataTree(posterior[group].to_dataset().isel(episode=slice(None, None, -1)))
    result = compare_models({"one": posterior, "other": turned})
    assert np.allclose(result.table["dse"], 0, atol=1e-9)


def test_comparison_says_which_model_has_unreliable_estimates(posterior, rng):
    total = posterior["log_likelihood"]["total"].values.copy()
    total[:, :, 17] = -np.exp(2 * rng.normal(size=total.shape[:2]))
    result = compare_models({"good": posterior, "bad": changed(posterior, "log_likelihood", total=total)})
    assert "in bad:" in result.advice
    assert result.table["high_k"].to_dict() == {"good": 0, "bad": 1}


def test_comparison_refuses_models_of_other_data(posterior):
    constant = posterior["constant_data"]
    outcome, window = constant["strong_outcome"].values.copy(), constant["window_end"].values.copy()
    outcome[5], window[3] = 1 - outcome[5], window[3] + 1
    other_outcomes = changed(posterior, "constant_data", strong_outcome=outcome)
    other_windows = changed(posterior, "constant_data", window_end=window)
    fewer = posterior.copy()
    fewer["constant_data"] = xr.DataTree(constant.to_dataset().isel(episode=slice(1, None)))
    with pytest.raises(InvalidDataError, match="episode 'task-0005': strong_success in 'b'"):
        compare_models({"a": posterior, "b": other_outcomes})
    with pytest.raises(InvalidDataError, match="teacher windows in 'b'"):
        compare_models({"a": posterior, "b": other_windows})
    with pytest.raises(InvalidDataError, match="one has 'task-0000', the other does not"):
        compare_models({"a": posterior, "b": fewer})
    with pytest.raises(InvalidDataError, match="two or more"):
        compare_models({"a": posterior})


def test_log_prior_is_that_of_the_model(posterior, example):
    model = build_model(example, WeaklyInformativePrior())
    few = posterior["posterior"].to_dataset().isel(chain=[0, 3], draw=[0, 7, 99])
    tree = xr.DataTree.from_dict({"posterior": few, "constant_data": posterior["constant_data"].to_dataset()})
    tree.attrs = posterior.attrs
    expected = pm.stats.compute_log_prior(
        xr.DataTree.from_dict({"posterior": few}),
        model=model,
        extend_inferencedata=False,
        progressbar=False,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    for name, values in log_prior(tree).items():
        wanted = expected[name]
        extra = [dim for dim in wanted.dims if dim not in ("chain", "draw")]
        offset = values - wanted.sum(extra)
        # PyTensor's normalizing constants are float32; what depends on the draw is not.
        np.testing.assert_allclose(offset, 0, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(offset, offset.mean(), atol=1e-12, err_msg=name)


def test_log_prior_follows_the_settings_of_the_prior(posterior):
    other = posterior.copy()
    other.attrs = {
        **posterior.attrs,
        "prior": prior_to_json(WeaklyInformativePrior(concentration=3.0, scale_spread=0.1)),
    }
    one, two = log_prior(posterior), log_prior(other)
    assert prior_of(other) == WeaklyInformativePrior(concentration=3.0, scale_spread=0.1)
    assert [name for name in one if not np.allclose(one[name], two[name])] == ["s", "w"]
    w = posterior["posterior"]["w"]
    np.testing.assert_allclose(two["w"], 2 * np.log(w).sum("diagnostic") + np.log(39916800 / 2**4))


def test_prior_sensitivity_fails_under_a_tight_prior(posterior, caplog):
    tight = posterior.copy()
    tight.attrs = {**posterior.attrs, "prior": prior_to_json(WeaklyInformativePrior(location_slope=0.02))}
    result = check_prior_sensitivity(tight)
    assert result.passed is False
    assert result.table["diagnosis"]["beta[subgoals]"] == "prior and data pull apart"
    assert "widen it" in result.advice
    assert not caplog.records


def test_with_few_episodes_the_advice_is_to_collect_more(posterior):
    few = posterior.copy()
    few["log_likelihood"] = xr.DataTree(posterior["log_likelihood"].to_dataset().isel(timed=slice(0, 8)))
    few.attrs = {**posterior.attrs, "prior": prior_to_json(WeaklyInformativePrior(location_slope=0.02))}
    result = check_prior_sensitivity(few)
    assert result.passed is False
    assert "There are 8 timed episodes: collect and mark more" in result.advice
    assert "widen" not in result.advice


def test_advice_never_names_the_family_that_is_in_use(posterior, rng):
    total = posterior["log_likelihood"]["total"].values.copy()
    total[:, :, 17] = -rng.exponential(size=total.shape[:2])
    for family, said in (("lognormal", True), ("loglogistic", False)):
        tree = changed(posterior, "log_likelihood", total=total)
        tree.attrs = {**posterior.attrs, "family": family}
        assert ("log-logistic" in check_loo(tree).advice) is said


def test_prior_sensitivity_says_where_the_prior_decides(posterior, rng):
    """A slope whose draws come from its prior, and of which the likelihood says nothing."""
    gamma = posterior["posterior"]["gamma"].values.copy()
    gamma[..., 0] = rng.normal(size=gamma.shape[:2])
    result = check_prior_sensitivity(changed(posterior, "posterior", gamma=gamma))
    assert result.passed is False
    assert result.table["diagnosis"]["gamma[entities]"] == "the prior decides"


@pytest.mark.parametrize("prior", ["RidgePrior(strength=0.01)", "WeaklyInformativePrior(", "f(1)", "os.remove('x')"])
def test_a_prior_that_cannot_be_read_is_refused(posterior, prior):
    other = posterior.copy()
    other.attrs = {**posterior.attrs, "prior": prior}
    with pytest.raises(InvalidDataError, match="prior of the tree"):
        check_prior_sensitivity(other)


def test_map_agreement_fails_under_a_strong_penalty_and_says_so(posterior, example):
    result = check_map_agreement(posterior, fit_map(example, ridge=0.5))
    assert result.passed is False
    assert result.table["z"].abs().max() > 3
    assert "ridge of 0.5" in result.advice


def test_map_agreement_measures_in_posterior_sds(posterior, example):
    fit = fit_map(example, ridge=0.0)
    table = check_map_agreement(posterior, fit).table
    s = posterior["posterior"]["s"].values
    assert table["z"]["s"] == pytest.approx((fit.s - s.mean()) / s.std())
    assert list(table.index) == list(fit.summary().index)


def test_map_agreement_refuses_a_fit_of_another_model(posterior, example):
    with pytest.raises(InvalidDataError, match="family of the fit is 'loglogistic'"):
        check_map_agreement(posterior, fit_map(example, family="loglogistic"))
    with pytest.raises(InvalidDataError, match="n_episodes of the fit is 600"):
        check_map_agreement(posterior, fit_map(quietly(example.dataset.isel(episode=slice(600)))))
    with pytest.raises(InvalidDataError, match="weights_fixed of the fit is True"):
        check_map_agreement(posterior, fit_map(example, weights=[0.4, 0.3, 0.2, 0.1]))
    doubled = example.dataset.assign(features=example.dataset["features"] * 2)
    with pytest.raises(InvalidDataError, match="feature_mean of the fit"):
        check_map_agreement(posterior, fit_map(quietly(doubled)))


def test_sampler_check_fails_if_a_chain_is_elsewhere(posterior):
    s = posterior["posterior"]["s"].values.copy()
    s[0] += 0.2
    result = check_sampler(changed(posterior, "posterior", s=s))
    assert result.passed is False
    assert "R-hat of s" in result.advice


def test_checks_refuse_episodes_that_the_posterior_was_not_fitted_on(posterior, example):
    data = example.dataset
    strong = data["strong_success"].copy()
    strong[{"episode": int(np.flatnonzero(example.outcomes == "00")[0])}] = True
    diagnostics = data["diagnostics"].copy()
    diagnostics[{"episode": int(np.flatnonzero(example.outcomes == "11")[0]), "step": 0}] += 1
    for changed_data, message in (
        (data.isel(episode=slice(1, None)), "number of episodes is 1199; .*1 missing, such as 'task-0000'"),
        (data.isel(feature=[0, 1]), r"features of the episodes is \['entities', 'subgoals'\]"),
        (data.isel(diagnostic=[1, 0, 2, 3]), "diagnostics of the episodes"),
        (data.assign(strong_success=strong), "but not strong_success"),
        (data.assign(features=data["features"] ** 2), "but not the features"),
        (data.assign(diagnostics=diagnostics), "but not the windows or the diagnostics before them"),
    ):
        with pytest.raises(InvalidDataError, match=message):
            run_checks(posterior, quietly(changed_data))


@pytest.mark.parametrize("group", ["replicates", "log_likelihood", "sample_stats"])
def test_a_missing_group_is_named(posterior, example, group):
    smaller = xr.DataTree.from_dict({name: tree for name, tree in posterior.children.items() if name != group})
    smaller.attrs = posterior.attrs
    with pytest.raises(InvalidDataError, match=f"a group '{group}'"):
        run_checks(smaller, example)
