import dataclasses
import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import arviz
import matplotlib.pyplot as plt
import numpy as np
import nutpie
import pytest
import xarray as xr
from scipy import stats
from simulate import TRUTH, quietly, simulate_model

from bayes_tacit import (
    Episodes,
    RidgePrior,
    WeaklyInformativePrior,
    build_model,
    fit_map,
    judge,
    load_posterior,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.estimates import samplers
from bayes_tacit.estimates.completion import RESOLUTION, pointwise_log_likelihood, prior_draws
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.model.compiled import compiles
from bayes_tacit.model.design import Grouping
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.likelihood import CrossingSteps, model_data
from bayes_tacit.model.priors import prior_from_json
from bayes_tacit.review.checks import check_prior_sensitivity
from simulations.studies import sbc
from simulations.studies.sbc import RANKED_DRAWS
from simulations.studies.storage import TABLE, read_table

FEW = {"draws": 30, "tune": 30}
SHORT = {"draws": 300, "tune": 400, "chains": 2, "seed": 5, "predictive_draws": 20, "progress": False}


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return simulate_model(np.random.default_rng(21), 400)


@pytest.fixture(scope="module")
def tree(episodes: Episodes) -> xr.DataTree:
    """Sampled here and not kept: that it can be sampled once more is what some tests are about."""
    return sample_posterior(episodes, **SHORT)


@pytest.fixture(scope="module")
def by_pymc(episodes: Episodes) -> xr.DataTree:
    """The same on the density that PyMC compiles, a shorter run."""
    return sample_posterior(episodes, sampler="nutpie-pymc", **(SHORT | FEW))


def draws_of(tree: xr.DataTree, name: str) -> np.ndarray:
    values = tree["posterior"][name].values
    return values.reshape(-1, *values.shape[2:])


def test_groups_dims_and_names_are_those_of_the_design(posterior, example):
    assert set(posterior.children) == {
        "posterior",
        "sample_stats",
        "prior",
        "posterior_predictive",
        "replicates",
        "log_likelihood",
        "log_prior",
        "observed_data",
        "constant_data",
    }
    assert posterior["posterior"]["w"].dims == ("chain", "draw", "diagnostic")
    assert posterior["posterior"]["gamma"].dims == ("chain", "draw", "feature")
    assert posterior["posterior"]["diagnostic"].values.tolist() == list(example.diagnostic_names)
    assert posterior["posterior"]["feature"].values.tolist() == list(example.feature_names)
    np.testing.assert_allclose(posterior["posterior"]["w"].sum("diagnostic"), 1.0)


def test_provenance_says_where_the_draws_came_from(posterior, example):
    attrs = posterior.attrs
    assert attrs["seed"] == 5
    assert prior_from_json(attrs["prior"]) == WeaklyInformativePrior()
    assert attrs["data_fingerprint"] == collect_evidence(example).fingerprint()
    warn_of_other_data(posterior, example)
    with pytest.warns(TacitWarning, match="the posterior was made from other data"):
        warn_of_other_data(posterior, example.take(slice(900)))
    assert attrs["timing"] == "post_action"
    assert attrs["family"] == "lognormal"
    assert {"bayes_tacit_version", "pymc_version", "nutpie_version", "created_at"} <= attrs.keys()


def test_the_example_samples_well_and_agrees_with_the_map(posterior, example):
    assert judge(posterior).passed
    fit = fit_map(example, ridge=0.0)
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        z = (draws_of(posterior, name).mean(axis=0) - getattr(fit, name)) / fit.standard_errors[name]
        assert np.abs(z).max() < 0.5, name


@pytest.mark.parametrize("sampler", ["nutpie", "nutpie-pymc"])
def test_the_same_seed_gives_the_same_draws_whatever_was_sampled_before_and_another_seed_others(
    episodes, tree, by_pymc, monkeypatch, sampler
):
    """To the bit, and in all that is kept: a model compiled for other episodes must not start where these would."""
    settings = SHORT | {"sampler": sampler} | (FEW if sampler == "nutpie-pymc" else {})
    few = settings | FEW
    monkeypatch.setattr(samplers, "_kept", {})
    dataset = simulate_model(np.random.default_rng(23), 90).dataset
    sample_posterior(quietly(dataset.assign(diagnostics=5 * dataset["diagnostics"])), **few)
    again = sample_posterior(episodes, **settings)
    before = tree if sampler == "nutpie" else by_pymc
    for group in tree.children:
        xr.testing.assert_identical(again[group].to_dataset(), before[group].to_dataset())
    other = sample_posterior(episodes, **(few | {"seed": 6}))
    assert not np.isin(draws_of(other, "beta0"), draws_of(before, "beta0")).any()


@pytest.mark.usefixtures("by_pymc")
def test_nothing_is_compiled_twice_for_the_same_shape_of_model(monkeypatch, example):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nutpie, "compile_pymc_model", refuse)
    settings = SHORT | {"sampler": "nutpie-pymc", "draws": 150, "tune": 150}
    more = simulate_model(np.random.default_rng(22), 250)
    swapped = sample_posterior(more, **settings)
    fit = fit_map(more, ridge=0.0)
    for name in ("gamma", "beta", "s", "w"):
        z = (draws_of(swapped, name).mean(axis=0) - getattr(fit, name)) / fit.standard_errors[name]
        assert np.abs(z).max() < 1.2, name
    named = sample_posterior(example.take(slice(0, 300)), **(settings | FEW))
    for group in ("posterior", "prior"):
        assert named[group]["diagnostic"].values.tolist() == list(example.diagnostic_names)
        assert named[group]["feature"].values.tolist() == list(example.feature_names)


def test_the_paper_s_model_is_sampled_without_pymc_and_others_with_it(tree, by_pymc, episodes):
    assert (tree.attrs["density"], by_pymc.attrs["density"]) == ("compiled", "pymc")
    program = (
        "import sys; from bayes_tacit import load_example, sample_posterior; "
        "sample_posterior(load_example().take(slice(0, 60)), draws=30, tune=30, chains=1, family='weibull'); "
        "sys.exit(bool({'pymc', 'pytensor'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
    assert not compiles(collect_evidence(episodes, memory="learned", clock=True), WeaklyInformativePrior())
    assert not compiles(collect_evidence(episodes, family="loggamma"), WeaklyInformativePrior())
    assert not compiles(collect_evidence(episodes), RidgePrior(0.01))


def test_prior_draws_follow_the_prior(example):
    prior, rng = (
        WeaklyInformativePrior(concentration=2.0, memory_kept=3.0, incidence_spread=0.4),
        np.random.default_rng(1),
    )
    evidence = collect_evidence(example, memory="learned", clock=True)
    grouping = Grouping("kind", ("a", "b"), np.zeros(len(example), dtype=int))
    table = model_data(example, evidence, CrossingSteps(example, evidence))
    drawn = prior_draws(prior, dataclasses.replace(evidence, grouping=grouping), table, 4000, rng)
    rho = drawn["rho"].values[0]
    center = np.interp(rho, table["memory_nodes"][1], table["typical_log_threshold"][1])
    laws = {
        "gamma0": (drawn["gamma0"].values[0], stats.norm(0, 1.5)),
        "beta0": (drawn["beta0"].values[0] - center, stats.norm(0, 1.5)),
        "s": (drawn["s"].values[0], stats.lognorm(0.5, scale=0.7)),
        "gamma": (drawn["gamma"].values[0, :, 1], stats.norm(0, 1)),
        "beta": (drawn["beta"].values[0, :, 2], stats.norm(0, 0.5)),
        "w": (drawn["w"].values[0, :, 0], stats.beta(2, 2 * 4)),
        "rho": (rho, stats.beta(3, 1)),
        "gamma_spread": (drawn["gamma_spread"].values[0], stats.halfnorm(0, 0.4)),
        "beta_offset": (drawn["beta_offset"].values[0, :, 1], stats.norm(0, 1)),
    }
    for name, (values, law) in laws.items():
        assert stats.kstest(values, law.cdf).pvalue > 0.001, name
    np.testing.assert_allclose(drawn["w"].sum("diagnostic"), 1.0)


def test_pointwise_log_likelihood_is_pymcs(tree, episodes):
    model = build_model(episodes)
    logp = model.compile_logp(vars=model.observed_RVs, sum=False, mode="FAST_COMPILE")
    posterior = tree["posterior"].isel(chain=1, draw=17)
    logits = np.log(posterior["w"].values)
    point = {name: posterior[name].values for name in ("gamma0", "gamma", "beta0", "beta")}
    point |= {"s_log__": np.log(posterior["s"].values), "w_simplex__": (logits - logits.mean())[:-1]}
    strong, threshold = logp(point)
    ours = tree["log_likelihood"].isel(chain=1, draw=17)
    total = strong.copy()
    evidence = collect_evidence(episodes)
    total[evidence.timed] += threshold
    np.testing.assert_allclose(ours["total"], total, atol=RESOLUTION)
    exact = pointwise_log_likelihood(tree["posterior"].to_dataset(), evidence)
    np.testing.assert_allclose(exact["total"].isel(chain=1, draw=17), total, atol=1e-9)


def test_the_compiled_density_gives_what_pymcs_own_nuts_gives(episodes, tree):
    settings = {"draws": 250, "tune": 250, "chains": 2, "predictive_draws": 20, "progress": False}
    ours, theirs = tree, sample_posterior(episodes, seed=2, sampler="pymc", cores=1, **settings)
    assert theirs.attrs["sampler"] == "pymc"
    # Standard deviations hang on the tails.
    tail = min(judge(ours).table["ess_tail"].min(), judge(theirs).table["ess_tail"].min())
    effective = min(judge(ours).table["ess_bulk"].min(), judge(theirs).table["ess_bulk"].min())
    for name in ("gamma0", "gamma", "beta0", "beta", "s", "w"):
        one, other = draws_of(ours, name), draws_of(theirs, name)
        sd = one.std(axis=0)
        assert np.abs((one.mean(axis=0) - other.mean(axis=0)) / sd).max() < 4.5 * np.sqrt(2 / effective), name
        np.testing.assert_allclose(other.std(axis=0), sd, rtol=4.5 / np.sqrt(tail), err_msg=name)
        assert np.abs((other.mean(axis=0) - TRUTH[name]) / sd).max() < 4, name


def test_many_episodes_give_the_map_and_its_standard_errors():
    """They outweigh the prior."""
    episodes = simulate_model(np.random.default_rng(4), 2500)
    tree = sample_posterior(episodes, **(SHORT | {"draws": 600}))
    fit = fit_map(episodes, ridge=0.0)
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        draws, error = draws_of(tree, name), fit.standard_errors[name]
        assert np.abs((draws.mean(axis=0) - getattr(fit, name)) / error).max() < 0.25, name
        np.testing.assert_allclose(draws.std(axis=0), error, rtol=0.12, err_msg=name)


def odd_episodes(episodes: Episodes, oddity: str, rng: np.random.Generator) -> Episodes:
    dataset = episodes.dataset.copy(deep=True)
    last = dataset["diagnostics"].isel(diagnostic=3)
    if oddity == "near-zero weight":
        dataset["diagnostics"][..., 3] = last * 0 + 5 * rng.random(last.shape)
    elif oddity == "zero diagnostic":
        dataset["diagnostics"][..., 3] = last * 0
    elif oddity == "separating feature":
        dataset["features"][:, 0] = dataset["strong_success"].astype(float)
    else:
        dataset = dataset.isel(episode=np.flatnonzero(np.isin(episodes.outcomes, ["11", "00"])))
    return quietly(dataset)


@pytest.mark.parametrize("oddity", ["near-zero weight", "zero diagnostic", "separating feature", "no AB = 01"])
def test_odd_data_sample_well_and_gaps_are_told(episodes, oddity, rng):
    odd = odd_episodes(episodes, oddity, rng)
    longer = SHORT | {"chains": 4, "draws": 400, "target_accept": 0.95}
    if oddity == "no AB = 01":
        with pytest.warns(TacitWarning, match=r"usable teacher window.*stays as the prior has it"):
            tree = sample_posterior(odd, **longer)
    else:
        tree = sample_posterior(odd, **longer)
    verdict = judge(tree)
    assert int(tree["sample_stats"]["diverging"].sum()) <= 5
    assert float(verdict.table.loc[["gamma0", "gamma[x0]", "beta[x1]", "s"], "rhat"].max()) < 1.03, verdict
    # A weight that nothing speaks of is free to trade with beta0, and mixes slowly; then the verdict must say so.
    slow = verdict.table.index[verdict.table["rhat"] > 1.05].tolist()
    assert not slow or any("R-hat" in reason for reason in verdict.reasons)
    if oddity == "near-zero weight":
        assert draws_of(tree, "w")[:, 3].mean() < 0.05


def test_the_calibration_study_as_committed_finds_nothing_wrong():
    """Of 300 data sets from the prior; one of them is computed again where committed results are."""
    table = read_table(Path(sbc.__file__).parents[1] / "results" / "sbc" / TABLE)
    known = table[table["setting"] == sbc.PAPER.name].dropna(axis=1, how="all")
    tested = sbc.rank_table(known)
    assert tested["chi-square p"].min() > 0.05 / len(tested)
    ranked = known[tested.index].to_numpy(dtype=float) / RANKED_DRAWS
    assert np.abs(ranked.mean(axis=0) - 0.5).max() < 3 / np.sqrt(12 * len(known))
    for nominal in sbc.COVERED:
        covered = known[f"coverage {nominal:.0%}"]
        assert abs(covered.mean() - nominal) < 2.5 * covered.std() / np.sqrt(len(covered))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_saved_posterior_is_read_back_exactly(posterior, tmp_path, suffix):
    path = tmp_path / f"posterior{suffix}"
    save_posterior(posterior, path)
    save_posterior(posterior, path)
    loaded = load_posterior(path)
    assert loaded.attrs == posterior.attrs
    for group in posterior.children:
        xr.testing.assert_equal(loaded[group].to_dataset(), posterior[group].to_dataset())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def cut_short(path):
    if path.is_dir():
        shutil.rmtree(path / "posterior")
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_damaged_or_foreign_posterior_is_refused(posterior, tmp_path, suffix):
    path = tmp_path / f"posterior{suffix}"
    save_posterior(posterior, path)
    cut_short(path)
    with pytest.raises(FileFormatError, match=rf"posterior{suffix}.*(expected|is it cut short)"):
        load_posterior(path)
    foreign = tmp_path / f"foreign{suffix}"
    dataset = xr.Dataset({"x": ("a", [1.0])})
    dataset.to_netcdf(foreign, engine="h5netcdf") if suffix == ".nc" else dataset.to_zarr(foreign, consolidated=False)
    with pytest.raises(FileFormatError, match=r"format is None; expected 'bayes_tacit\.posterior'"):
        load_posterior(foreign)


def test_a_posterior_of_a_newer_schema_is_refused(tree, tmp_path):
    newer = tree.copy()
    newer.attrs = tree.attrs | {"schema_version": 2}
    with pytest.raises(FileFormatError, match="schema_version is 2; expected 1: it was written by a newer"):
        save_posterior(newer, tmp_path / "newer.nc")


def test_paths_that_cannot_hold_a_posterior_are_refused(tree, tmp_path):
    with pytest.raises(FileFormatError, match=r"suffix is '.pickle'; expected .nc or .zarr"):
        save_posterior(tree, tmp_path / "draws.pickle")
    with pytest.raises(MissingFileError, match=r"nothing\.nc: no such file"):
        load_posterior(tmp_path / "nothing.nc")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("shift", "R-hat of beta0 .* is above 1.01: the chains disagree"),
        ("short", "Bulk effective sample size of .* is below 200: raise `draws`"),
        ("diverge", "3 of 600 draws diverged: raise `target_accept`"),
        ("saturate", "100.0% of the draws reached the largest tree depth"),
        ("energy", "The energy fraction .* is 0.0"),
        ("one chain", "There is one chain"),
        ("interrupt", "Sampling was interrupted after 300 of 1000 draws"),
    ],
)
def test_the_verdict_names_what_is_wrong_and_what_to_do(tree, change, reason):
    groups = {name: tree[name].to_dataset().copy(deep=True) for name in ("posterior", "sample_stats")}
    attrs = dict(tree.attrs)
    if change == "shift":
        groups["posterior"]["beta0"][0] += 1.0
    elif change == "short":
        groups = {name: dataset.isel(draw=slice(0, 40)) for name, dataset in groups.items()}
    elif change == "diverge":
        groups["sample_stats"]["diverging"][0, :3] = True
    elif change == "saturate":
        groups["sample_stats"]["reached_max_treedepth"][:] = True
    elif change == "energy":
        walk = np.cumsum(np.random.default_rng(0).normal(size=(2, 300)), axis=1)
        groups["sample_stats"]["energy"][:] = 100 * walk
    elif change == "one chain":
        groups = {name: dataset.isel(chain=[0]) for name, dataset in groups.items()}
    else:
        attrs |= {"interrupted": 1, "draws": 1000}
    changed = xr.DataTree.from_dict(groups)
    changed.attrs = attrs
    verdict = judge(changed)
    assert not verdict.passed
    assert any(re.search(reason, found) for found in verdict.reasons), verdict.reasons
    assert json.loads(str(verdict.as_attrs()["verdict_reasons"])) == list(verdict.reasons)


def sick(tree: xr.DataTree, sickness: str) -> xr.DataTree:
    """Return a well sampled posterior draws that no diagnostic should pass."""
    groups = {name: tree[name].to_dataset().copy(deep=True) for name in ("posterior", "sample_stats")}
    s, energy = groups["posterior"]["s"], groups["sample_stats"]["energy"]
    if sickness == "NaN draw":
        s[1, 7] = np.nan
    elif sickness == "infinite draw":
        s[0, 3] = np.inf
    elif sickness == "constant":
        s[:] = 0.7
    elif sickness == "stuck chain":
        s[1] = s[1, 0]
    elif sickness == "stuck elsewhere":
        s[0], s[1] = 0.7, 0.8
    elif sickness == "NaN energy":
        energy[0, 5] = np.nan
    elif sickness == "constant energy":
        energy[:] = 1.0
    elif sickness == "too few draws":
        groups = {name: dataset.isel(draw=slice(0, 3)) for name, dataset in groups.items()}
    elif sickness == "one draw":
        groups = {name: dataset.isel(draw=[0]) for name, dataset in groups.items()}
    elif sickness == "twenty draws":
        groups = {name: dataset.isel(draw=slice(0, 20)) for name, dataset in groups.items()}
    out = xr.DataTree.from_dict(groups)
    out.attrs = dict(tree.attrs)
    return out


@pytest.mark.parametrize(
    ("sickness", "reason"),
    [
        ("NaN draw", "^s is NaN or infinite in 1 of 600 draws"),
        ("infinite draw", "^s is NaN or infinite in 1 of 600 draws"),
        ("constant", "^s does not move in any chain: the sampler is stuck"),
        ("stuck chain", "^s does not move in chain 1: the sampler is stuck"),
        ("stuck elsewhere", "^s does not move in any chain"),
        ("NaN energy", r"^The energy fraction \(BFMI\) cannot be computed"),
        ("constant energy", r"^The energy fraction \(BFMI\) cannot be computed"),
        ("too few draws", "^There are 3 draws a chain, too few"),
        ("one draw", "^There are 1 draws a chain, too few"),
        ("twenty draws", "^Bulk effective sample size of .* is below 200"),
    ],
)
def test_what_cannot_be_computed_or_is_stuck_does_not_pass(tree, sickness, reason):
    verdict = judge(sick(tree, sickness))
    assert not verdict.passed
    assert any(re.search(reason, found) for found in verdict.reasons), verdict.reasons


def test_prior_and_its_predictions_are_groups_that_arviz_draws(episodes):
    asked = {"draws": 30, "tune": 30, "predictive_draws": 17, "prior_predictive": True}
    tree = sample_posterior(episodes.take(slice(0, 60)), **(SHORT | asked))
    assert tree["prior"].sizes["draw"] == tree["prior_predictive"].sizes["draw"] == 17
    predicted = tree["prior_predictive"].to_dataset()
    assert set(np.unique(predicted["total"])) <= {1, 2, 3}
    assert predicted["strong_success"].dims == ("chain", "draw", "episode")
    assert arviz.plot_prior_posterior(tree, backend="matplotlib").viz["figure"].item().axes
    with warnings.catch_warnings():
        # ArviZ has other pictures of what is discrete, which do not take a prior's predictions.
        warnings.simplefilter("ignore", UserWarning)
        drawn = arviz.plot_ppc_dist(tree, group="prior_predictive", var_names=["total"], backend="matplotlib")
    assert drawn.viz["figure"].item().axes
    plt.close("all")


def test_a_posterior_whose_prior_is_not_known_loads_and_is_refused_where_the_prior_is_needed(tree, tmp_path):
    other = tree.copy()
    other.attrs = tree.attrs | {"prior": '{"name": "Unknown"}'}
    save_posterior(other, tmp_path / "other.nc")
    loaded = load_posterior(tmp_path / "other.nc")
    with pytest.raises(InvalidDataError, match="register_prior makes one of your own known"):
        check_prior_sensitivity(loaded)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": RidgePrior(0.01)}, "prior is RidgePrior.*expected a proper prior"),
        ({"draws": 0}, "draws is 0; expected a whole number >= 4"),
        ({"tune": 1.5}, "tune is 1.5"),
        ({"chains": 0}, "chains is 0; expected a whole number >= 1"),
        ({"seed": -3}, "seed is -3"),
        ({"target_accept": 1.0}, "target_accept is 1.0; expected a number between 0 and 1"),
        ({"sampler": "stan"}, "sampler is 'stan'; expected 'nutpie' or 'nutpie-pymc' or 'pymc'"),
        ({"family": "gamma"}, "family is 'gamma'; expected 'lognormal' or 'loglogistic'"),
        ({"predictive_draws": 0}, "predictive_draws is 0"),
    ],
)
def test_bad_sampling_settings_are_named(episodes, settings, message):
    with pytest.raises(InvalidDataError, match=message):
        sample_posterior(episodes, **settings)


def test_an_interrupted_run_keeps_what_it_has_and_says_so(episodes, monkeypatch):
    """On Ctrl-C nutpie returns the draws it has; here it stops after 60."""
    complete = nutpie.sample
    monkeypatch.setattr(nutpie, "sample", lambda model, **settings: complete(model, **(settings | {"draws": 60})))
    partial = sample_posterior(episodes, **SHORT)
    assert partial["posterior"].sizes["draw"] == 60
    assert partial.attrs["interrupted"] == 1
    assert not partial.attrs["verdict_passed"]
