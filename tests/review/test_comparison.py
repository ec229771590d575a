"""Leave-one-out, models side by side, and a learned memory beside the paper's."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from kept import KeptPosteriors
from posteriors import changed, random_posterior, with_attrs
from simulate import simulate_model

from bayes_tacit import (
    Episodes,
    ModelSpec,
    compare_models,
    fit_map,
    load_posterior,
    report,
    run_checks,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.estimates.completion import evidence_of, pointwise_log_likelihood, prior_draws
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.likelihood import model_data
from bayes_tacit.model.priors import WeaklyInformativePrior, prior_to_json
from bayes_tacit.review.checks import check_beside_paper, check_by_likelihood, check_loo, check_memory
from bayes_tacit.review.comparison import by_group, can_profile_memory, loo_of
from bayes_tacit.review.findings import group_of
from simulations.studies.misfits import right

RHO = 0.5
SHORT = {"draws": 300, "tune": 300, "chains": 2, "seed": 3, "predictive_draws": 20}


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
    assert "try the log-logistic family" in result.advice
    other = with_attrs(changed(posterior, "log_likelihood", total=total), family="loglogistic")
    assert "log-logistic" not in check_loo(other).advice


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
    out["log_likelihood"] = xr.DataTree(pointwise_log_likelihood(smaller, collect_evidence(episodes)))
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


@pytest.fixture(scope="module")
def forgetful() -> Episodes:
    """Episodes whose marks were made by a memory of one half."""
    return simulate_model(np.random.default_rng(8), 500, memory=RHO)


@pytest.fixture(scope="module")
def learned(forgetful: Episodes, kept_posteriors: KeptPosteriors) -> xr.DataTree:
    return kept_posteriors.sample("memory-learned", forgetful, memory="learned", clock=True, **SHORT)


@pytest.fixture(scope="module")
def paper(forgetful: Episodes, kept_posteriors: KeptPosteriors) -> xr.DataTree:
    return kept_posteriors.sample("memory-one", forgetful, **SHORT)


def test_the_memory_of_the_simulator_is_recovered_by_sampling(learned):
    rho = learned["posterior"]["rho"].values
    assert learned["sample_stats"]["diverging"].sum() == 0
    lower, upper = np.quantile(rho, [0.005, 0.995])
    assert lower < RHO < upper
    assert upper - lower < 0.5
    # Nothing in the simulator depends on the number of steps.
    assert learned["posterior"]["w"].sel(diagnostic="clock").values.mean() < 0.1


def test_windows_that_one_model_dropped_are_left_out_of_the_comparison_and_counted(learned, paper):
    constant, likelihood = (paper[group].to_dataset() for group in ("constant_data", "log_likelihood"))
    gone = constant["timed"].values[[0, 1]].tolist()
    kept = constant["timed"].values[2:]
    fewer = paper.copy()
    fewer["constant_data"] = xr.DataTree(
        constant.sel(timed=kept).assign(n_left=constant["n_left"] - min(2, int(constant["n_left"])))
    )
    # What is made of an episode without its window must not matter.
    total = likelihood["total"].where(~likelihood["episode"].isin(gone), 1e6)
    fewer["log_likelihood"] = xr.DataTree(likelihood.sel(timed=kept).assign(total=total))
    result, whole = compare_models({"a": fewer, "b": learned}), compare_models({"a": paper, "b": learned})
    assert f"Left out are 2 of 500 episodes, such as {gone[0]}, whose windows have no mass in a" in result.sentence
    assert "clock=True" in result.sentence
    pointwise = 3 * max(1.0, abs(whole.table["elpd_diff"]["a"]) / 100)
    assert result.table["elpd_diff"]["a"] == pytest.approx(whole.table["elpd_diff"]["a"], abs=pointwise)


def test_readings_that_differ_are_not_compared(learned, paper):
    with pytest.raises(InvalidDataError, match="unmarked in 'b' is 'outcome'; expected 'due' as in 'a'"):
        compare_models({"a": learned, "b": with_attrs(paper, unmarked="outcome")})


def test_a_file_that_says_learned_without_a_memory_is_refused(paper, tmp_path):
    save_posterior(with_attrs(paper, memory="learned"), tmp_path / "wrong.nc")
    with pytest.raises(FileFormatError, match="'rho' among them"):
        load_posterior(tmp_path / "wrong.nc")


@pytest.mark.parametrize(
    ("first", "second", "passed", "words"),
    [
        (196, 4, True, "agrees with these data"),
        (90, 10, True, "can be neither upheld nor ruled out"),
        (30, 70, True, "does not hold"),
        (1, 1.1, None, "can be neither upheld nor ruled out"),
    ],
)
def test_the_verdict_on_the_memory_follows_its_posterior(example, rng, first, second, passed, words):
    tree = random_posterior(rng, example, draws=2000)
    rho = (("chain", "draw"), rng.beta(first, second, (2, 2000)))
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign(rho=rho))
    tree.attrs = {**tree.attrs, "prior": prior_to_json(WeaklyInformativePrior()), "schema_version": 2}
    result = check_memory(tree)
    assert result.passed is passed
    assert bool(result.advice) is (passed is None)
    assert words in result.sentence


def test_the_likelihood_says_of_the_paper_s_memory_that_another_one_is_better(paper, forgetful):
    found = check_by_likelihood(paper, forgetful)
    assert (found.passed, found.hint) == (None, True)
    best = found.table["log likelihood"].idxmax()
    assert abs(best - RHO) < 0.2
    assert f"highest at rho = {best:g}" in found.sentence
    assert 'memory="learned"' in found.advice
    # The same evidence at both memories: the difference is that of two fits that know nothing of a profile.
    ridge = 1 / (2 * len(forgetful))
    fits = [fit_map(forgetful, ridge=ridge, floor=None, memory=memory, clock=True) for memory in (best, 1.0)]
    gain = len(forgetful) * (fits[1].objective - fits[0].objective)
    assert found.table["log likelihood"].max() == pytest.approx(gain, rel=1e-6)
    names = [result.name for result in run_checks(paper, forgetful)]
    assert "Memory by likelihood" in names
    assert "Memory" not in names
    with pytest.raises(InvalidDataError, match="a posterior with a learned memory"):
        check_memory(paper)


def test_the_likelihood_says_nothing_against_a_memory_that_is_the_paper_s(paper):
    lasting = simulate_model(np.random.default_rng(8), 500, memory=1.0)
    found = check_by_likelihood(paper, lasting)
    assert found.passed
    assert "nothing speaks against rho = 1" in found.sentence
    assert not found.advice


def test_fixed_weights_and_a_diagnostic_called_clock_are_not_asked_for_a_memory(paper, learned):
    assert can_profile_memory(paper)
    assert not can_profile_memory(learned)
    named = paper.copy()
    posterior = paper["posterior"].to_dataset()
    names = ["clock", *posterior["diagnostic"].values.tolist()[1:]]
    named["posterior"] = xr.DataTree(posterior.assign_coords(diagnostic=names))
    assert not can_profile_memory(named)
    fixed = paper.copy()
    fixed["posterior"] = xr.DataTree(posterior.drop_vars("w"))
    constant = paper["constant_data"].to_dataset()
    fixed["constant_data"] = xr.DataTree(constant.assign(w=posterior["w"].mean(("chain", "draw"))))
    assert not can_profile_memory(fixed)


def test_the_report_judges_a_learned_memory_and_compares_it_with_the_paper_s(learned, paper, forgetful, tmp_path):
    judged, beside = check_memory(learned), check_beside_paper(learned, paper)
    assert judged.passed
    assert judged.figure().axes[0].has_data()
    whole = compare_models({"learned memory": learned, "rho = 1": paper})
    assert whole.table.index[0] == "learned memory"
    assert "Left out" not in whole.sentence
    loss = whole.table["elpd"]["learned memory"] - whole.table["elpd"]["rho = 1"]
    checks = {check.name: check for check in run_checks(learned, forgetful, paper=paper)}
    sampler, listed, last = (checks[name] for name in ("Sampler", "Memory", "Memory beside the paper's"))
    # So few draws of rho are enough for its mean, not for the sampler's check.
    assert listed.sentence.endswith(judged.sentence)
    shown = [sampler, listed, last]
    page = report(learned, forgetful, tmp_path / "report.html", results=shown, chosen=forgetful.ids[:1])
    page = page.read_text(encoding="utf-8")
    assert "rho = 1) does not hold on these data" in page
    assert f"learned memory predicts better than rho = 1 by {loss:.1f} (se" in page
    assert "one of them has a clock" in beside.sentence
    for wrong in ((paper, paper), (learned, learned), (paper, learned)):
        with pytest.raises(InvalidDataError, match="a posterior with memory 1"):
            check_beside_paper(*wrong)


def sampled(episodes: Episodes, **options: object) -> xr.DataTree:
    return sample_posterior(episodes, draws=500, tune=500, chains=4, cores=1, progress=False, **options)


def test_draws_are_moved_before_an_episode_is_said_to_decide_the_fit():
    """What an episode counts for is then that of a posterior without it."""
    episodes = right(np.random.default_rng([1, 200]), 100, 3, 2).episodes
    tree = sampled(episodes, zero_mass="drop_window")
    k = loo_of(tree).pareto_k.to_series()
    assert k.max() > 0.7
    result = check_loo(tree)
    assert result.passed
    worst = k.idxmax()
    without = sampled(episodes.select([name for name in episodes.ids if name != worst]), zero_mass="drop_window")
    left_out = pointwise_log_likelihood(group_of(without, "posterior"), evidence_of(tree))["total"].sel(episode=worst)
    exact = float(np.log(np.exp(left_out).mean()))
    assert result.table["elpd"][worst] == pytest.approx(exact, abs=0.1)


def test_of_groups_a_group_is_left_out_with_its_intercepts_integrated():
    """The integral of each group by drawing its intercepts from their spread; parameters are draws of the prior."""
    episodes, rng = right(np.random.default_rng(3), 60, 2, 1, spread=0.7).episodes, np.random.default_rng(0)
    evidence = collect_evidence(episodes, ModelSpec(groups="group", zero_mass="drop_window")).settle_zero_mass()
    table = model_data(episodes, evidence, None)
    drawn = prior_draws(WeaklyInformativePrior(), evidence, table, 1, rng)
    many = drawn.isel(draw=np.zeros(20_000, dtype=int)).assign_coords(draw=np.arange(20_000))
    offsets = rng.normal(size=(2, 1, 20_000, drawn.sizes["group"]))
    dims = ("chain", "draw", "group")
    many = many.assign(gamma_offset=(dims, offsets[0]), beta_offset=(dims, offsets[1]))
    tree = xr.DataTree.from_dict({"posterior": many.isel(draw=slice(None, None, 50))})
    found = by_group(tree, evidence)["log_likelihood"]["total"].values[0, 0]
    total = np.zeros((20_000, drawn.sizes["group"]))
    by_episode = pointwise_log_likelihood(many, evidence)["total"].values[0]
    np.add.at(total.T, evidence.grouping.position, by_episode.T)
    np.testing.assert_allclose(found, np.log(np.exp(total).mean(axis=0)), atol=0.25)
