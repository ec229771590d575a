"""Each check passes on a sound posterior, and fails when what it looks at is made wrong; one verdict of all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from posteriors import changed, with_attrs
from simulate import quietly

from bayes_tacit import (
    WeaklyInformativePrior,
    fit_map,
    handoff_score,
    run_checks,
    sample_posterior,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.completion import log_prior, prior_of
from bayes_tacit.model.priors import prior_to_json
from bayes_tacit.review.checks import (
    CheckResult,
    check_crossing_steps,
    check_incidence_calibration,
    check_map_agreement,
    check_prior_sensitivity,
    check_records,
    check_sampler,
    check_weights,
    headline,
    moved_by_halving,
)
from bayes_tacit.scores.fitted import as_draws
from simulations.studies.misfits import WRONG

NAMES = [
    "Sampler",
    "Crossing steps",
    "Crossings by covariate",
    "Trends in residuals",
    "Dependence between tasks",
    "Duplicates and leaks",
    "Incidence calibration",
    "Leave-one-out",
    "Prior sensitivity",
    "MAP against posterior",
    "Prior of the weights",
    "Memory by likelihood",
    "What no check sees",
]


@pytest.fixture(scope="module")
def results(posterior, example) -> list[CheckResult]:
    return run_checks(posterior, example)


def test_a_sound_posterior_passes_every_check_with_a_table_a_sentence_and_a_figure(results):
    *judged, last = results
    assert [(result.name, result.passed, result.advice) for result in judged] == [
        (name, True, "") for name in NAMES[:-1]
    ]
    assert (last.name, last.passed, last.hint) == (NAMES[-1], None, True)
    for result in results:
        assert len(result.table) > 0
        assert result.sentence.endswith(".")
        if result.figure is None:
            assert result.name in ("Duplicates and leaks", "What no check sees")
            continue
        figure = result.figure()
        assert all(axis.has_data() for axis in figure.axes if axis.axison)
        assert result.figure() is not figure


def test_a_result_prints_its_status_and_advice():
    failed, *others = (CheckResult("n", passed, pd.DataFrame(), "s.", "a.") for passed in (False, True, None))
    assert (failed.status, str(failed)) == ("failed", "FAILED  n: s. a.")
    assert [other.status for other in others] == ["passed", "not judged"]


def test_incidence_calibration_names_the_feature_that_is_off(posterior, example):
    """Average rates stay as they are; only tasks with three subgoals do better than the others."""
    constant = posterior["constant_data"]
    outcome = constant["strong_outcome"].values.copy()
    outcome[example.dataset["features"].sel(feature="subgoals").values == 3] = 1
    result = check_incidence_calibration(changed(posterior, "constant_data", strong_outcome=outcome))
    assert result.passed is False
    assert "subgoals 3, where 100% succeed" in result.sentence
    assert "effect of subgoals" in result.advice
    assert "not linear" in result.advice


@pytest.mark.parametrize("check", [check_incidence_calibration, check_crossing_steps])
def test_too_few_predictive_draws_are_not_judged_by(posterior, example, check):
    few = posterior.copy()
    few["replicates"] = xr.DataTree(few["replicates"].to_dataset().isel(draw=slice(10)))
    result = check(few, example) if check is check_crossing_steps else check(few)
    assert result.passed is None
    assert "40 predictive draws" in result.sentence
    assert "predictive_draws" in result.advice


def test_log_prior_follows_the_settings_of_the_prior(posterior):
    prior = prior_to_json(WeaklyInformativePrior(concentration=3.0, scale_spread=0.1))
    other = with_attrs(posterior, prior=prior)
    one, two = log_prior(posterior), log_prior(other)
    assert prior_of(other) == WeaklyInformativePrior(concentration=3.0, scale_spread=0.1)
    assert [name for name in one if not np.allclose(one[name], two[name])] == ["s", "w"]
    w = posterior["posterior"]["w"]
    np.testing.assert_allclose(two["w"], 2 * np.log(w).sum("diagnostic") + np.log(39916800 / 2**4))


def test_prior_sensitivity_fails_under_a_tight_prior(posterior, caplog):
    tight = with_attrs(posterior, prior=prior_to_json(WeaklyInformativePrior(location_slope=0.02)))
    result = check_prior_sensitivity(tight)
    assert result.passed is False
    assert result.table["diagnosis"]["beta[subgoals]"] == "prior and data pull apart"
    assert "widen it" in result.advice
    assert not caplog.records
    # With few episodes the advice is to collect more.
    tight["log_likelihood"] = xr.DataTree(posterior["log_likelihood"].to_dataset().isel(timed=slice(0, 8)))
    few = check_prior_sensitivity(tight)
    assert few.passed is False
    assert "There are 8 timed episodes: collect and mark more" in few.advice
    assert "widen" not in few.advice


def test_prior_sensitivity_says_where_the_prior_decides(posterior, rng):
    """A slope whose draws come from its prior, and of which the likelihood says nothing."""
    gamma = posterior["posterior"]["gamma"].values.copy()
    gamma[..., 0] = rng.normal(size=gamma.shape[:2])
    result = check_prior_sensitivity(changed(posterior, "posterior", gamma=gamma))
    assert (result.passed, result.hint) == (None, True)
    assert result.table["diagnosis"]["gamma[entities]"] == "the prior decides"


@pytest.mark.parametrize("prior", ["RidgePrior(strength=0.01)", "WeaklyInformativePrior(", "f(1)", "os.remove('x')"])
def test_a_prior_that_cannot_be_read_is_refused(posterior, prior):
    with pytest.raises(InvalidDataError, match="prior of the tree"):
        check_prior_sensitivity(with_attrs(posterior, prior=prior))


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


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({}, {"family": "loglogistic"}, "family of the fit is 'loglogistic'"),
        ({"episode": slice(600)}, {}, "n_episodes of the fit is 600"),
        ({}, {"weights": [0.4, 0.3, 0.2, 0.1]}, "weights_fixed of the fit is True"),
        (None, {}, "feature_mean of the fit"),
    ],
)
def test_map_agreement_refuses_a_fit_of_another_model(posterior, example, change, settings, message):
    data = example.dataset
    other = data.assign(features=data["features"] * 2) if change is None else data.isel(change)
    with pytest.raises(InvalidDataError, match=message):
        check_map_agreement(posterior, fit_map(quietly(other), **settings))


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


def test_q_moves_as_it_does_under_reweighted_draws(posterior, example):
    """Each draw weighted by the ratio of two Dirichlet densities; the change is small enough for first order."""
    some = example.take(slice(0, 150))
    step = 0.2
    w = as_draws(posterior).draws.w
    ratio = -step * np.log(w).sum(axis=1)
    weight = np.exp(ratio - ratio.max())
    q = handoff_score(posterior, some).values
    q = q.reshape(-1, *q.shape[2:])[:, np.arange(q.shape[3]) < some.n_steps[:, None]]
    shift = np.abs(np.average(q, axis=0, weights=weight) - q.mean(axis=0)) / q.std(axis=0)
    expected = moved_by_halving(as_draws(posterior), some, step / np.log(2))
    assert abs(shift.mean() / expected - 1) < 0.2


def test_weights_that_the_data_do_not_know_are_told(posterior, example, rng):
    w = posterior["posterior"]["w"]
    unknown = posterior.copy()
    drawn = rng.dirichlet(np.ones(w.sizes["diagnostic"]), size=w.shape[:2])
    unknown["posterior"] = xr.DataTree(posterior["posterior"].to_dataset().assign(w=(w.dims, drawn)))
    known, told = check_weights(posterior, example), check_weights(unknown, example)
    assert known.passed is True
    assert (told.passed, told.hint) == (None, True)
    assert "(limit 0.1)" in known.sentence
    assert "the bands of q(t) cover less than they say" in told.sentence
    assert "WeaklyInformativePrior(concentration=0.5)" in told.advice
    assert told.figure is not None
    assert told.figure().axes


@pytest.mark.parametrize(
    ("checks", "level"),
    [
        ("+++++", "good"),
        ("-++++", "warning"),
        ("--+++", "warning"),
        ("---++", "bad"),
        ("-----", "bad"),
        ("?+", "warning"),  # what could not be judged is no pass
        ("!+", "bad"),  # what compares predictions with data decides alone
        ("#", "bad"),  # so does the sampler's check
    ],
)
def test_the_verdict_on_all_checks_is_good_a_warning_or_bad(checks, level):
    def one(sign: str, **options: bool) -> CheckResult:
        passed = {"+": True, "?": None}.get(sign, False)
        return CheckResult("A check", passed, pd.DataFrame(), "It says so.", decisive=sign == "!", **options)

    hints = [one(sign, hint=True) for sign in "+-?"]
    found = headline([one("-" if checks == "#" else "+"), *hints, *map(one, checks.replace("#", "+"))])
    assert (found.level, found.passed) == (level, level == "good")


def test_of_two_checks_that_see_one_fault_the_stronger_one_advises():
    episodes = WRONG["drift"](np.random.default_rng(4), 600, 1.0).episodes
    tree = sample_posterior(episodes, draws=250, tune=250, chains=2, cores=1, progress=False, zero_mass="drop_window")
    found = {result.name: result for result in run_checks(tree, episodes)}
    assert "without_marks(episodes)" in found["Trends in residuals"].advice
    structure = found["Crossings by covariate"]
    if structure.passed is False:
        assert structure.advice == "One fault shows in many places: see 'Trends in residuals' first."


def test_what_is_taken_for_granted_is_said_with_bounds_on_the_first_of_it(results, posterior, example):
    """q(t) as it is lies between its values at both ends of what AB = 11 may hide."""
    last = results[-1]
    assert "where Cheap succeeds too" in last.sentence
    q = last.table["mean q(t)"]
    assert q["ten times as far"] < q["as known"] < q["crossed at the last step"]
    own = float(handoff_score(posterior, example).mean(("chain", "draw")).mean())
    assert q["as known"] == pytest.approx(own, abs=0.01)


def test_places_of_records_are_uniform_under_a_right_model_and_not_if_half_come_late(posterior):
    """An episode of the paper's model is a record, too."""
    assert check_records(posterior).passed
    draws = posterior["posterior_predictive"]["total"].values.copy()
    draws[:, :, ::2] = 1
    assert check_records(changed(posterior, "posterior_predictive", total=draws)).passed is False
