from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from simulate import simulate_model

from bayes_tacit import Episodes, PaperPrior, build_model, fit_map
from bayes_tacit.errors import InvalidDataError
from models import alfworld, dabench, mechanism, recovery
from models.__main__ import PAGES, main, program
from models.experiment import Experiment

EXPERIMENTS = {
    "recovery": recovery.RECOVERY,
    "noise": recovery.MATCHED_NOISE,
    "mechanism": mechanism.FULL,
    "alfworld": alfworld.ALFWORLD,
    "dabench": dabench.DABENCH,
}


def episodes_for(experiment: Experiment, n: int = 400) -> Episodes:
    """Random episodes with the experiment's columns."""
    rng = np.random.default_rng(8)
    drawn = simulate_model(rng, n, n_diagnostics=1).dataset
    shape = (*drawn["diagnostics"].shape[:2], len(experiment.diagnostics))
    shares = rng.dirichlet(np.ones(len(experiment.diagnostics)), size=shape[:2]) * len(experiment.diagnostics)
    return Episodes(
        drawn.drop_dims(["feature", "diagnostic"])
        .assign(
            features=(("episode", "feature"), rng.normal(size=(n, len(experiment.features)))),
            diagnostics=(("episode", "step", "diagnostic"), drawn["diagnostics"].values.clip(min=0.01) * shares),
        )
        .assign_coords(feature=list(experiment.features), diagnostic=list(experiment.diagnostics))
    )


def test_settings_are_those_that_the_paper_states():
    table = pd.DataFrame(
        {name: (len(e.features), len(e.diagnostics), e.ridge, e.restarts, e.timing) for name, e in EXPERIMENTS.items()},
        index=["features", "diagnostics", "ridge", "restarts", "timing"],
    ).T
    assert table.loc["alfworld"].tolist() == [12, 5, 0.01, 5, "post_action"]
    assert table.loc["dabench"].tolist() == [2, 8, 0.03, 6, "proposal"]
    assert table.loc["recovery", ["diagnostics", "ridge", "restarts"]].tolist() == [1, 0.0, 3]
    assert recovery.RECOVERY.max_iterations == 500
    assert (recovery.MATCHED_NOISE.restarts, recovery.MATCHED_NOISE.max_iterations) == (2, 350)
    assert recovery.RECOVERY.weights == mechanism.FULL.weights == (1.0,)
    assert all(experiment.floor == 1e-12 for experiment in EXPERIMENTS.values())
    assert all((experiment.memory, experiment.clock) == (1.0, False) for experiment in EXPERIMENTS.values())


def test_an_experiment_may_be_given_a_memory_and_a_clock():
    episodes = episodes_for(alfworld.ALFWORLD)
    experiment = replace(alfworld.ALFWORLD, memory=0.6, clock=True)
    fit = experiment.fit(episodes)
    assert (fit.memory, fit.clock, fit.diagnostic_names[-1]) == (0.6, True, "clock")
    model = experiment.model(episodes)
    assert model.coords["diagnostic"][-1] == "clock"
    held_to_the_library(model, build_model(episodes, PaperPrior(experiment.ridge), spec=experiment.spec))


def held_to_the_library(page: pm.Model, library: pm.Model) -> None:
    """Compare densities and gradients at random points."""
    rng = np.random.default_rng(0)
    functions, names = [], [variable.name for variable in library.value_vars]
    assert sorted(names) == sorted(variable.name for variable in page.value_vars)
    for model in (page, library):
        inputs = sorted(model.value_vars, key=lambda variable: names.index(variable.name))
        wanted = [model.logp(), *pt.grad(model.logp(), inputs)]
        functions.append(model.compile_fn(wanted, inputs=inputs, mode="FAST_COMPILE", on_unused_input="ignore"))
    for _ in range(3):
        at = {name: value + 0.3 * rng.normal(size=np.shape(value)) for name, value in library.initial_point().items()}
        ours, theirs = (function(at) for function in functions)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_states_the_density_that_the_library_does(name):
    one = program(name)
    episodes = one.example().take(slice(60))
    library = build_model(episodes, PaperPrior(), spec=one.spec)
    held_to_the_library(one.model(episodes), library)


def test_a_page_finds_the_mode_draws_and_writes_bands_and_a_report(tmp_path, capsys):
    episodes = program("recovery").example().take(slice(200))
    episodes.write(tmp_path / "few.jsonl")
    words = ["recovery", str(tmp_path / "few.jsonl"), "--map", "--report", "--out", str(tmp_path / "out")]
    assert main([*words, "--draws", "100", "--tune", "100"]) == 0
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "map.csv",
        "posterior.nc",
        "bands.csv",
        "report.html",
    }
    found = pd.read_csv(tmp_path / "out" / "map.csv", index_col=0)["mode"]
    fit = recovery.RECOVERY.fit(episodes)
    assert found["beta0"] == pytest.approx(fit.beta0, abs=1e-3)
    bands = pd.read_csv(tmp_path / "out" / "bands.csv")
    assert ((bands["lower"] <= bands["median"]) & (bands["median"] <= bands["upper"])).all()
    assert "beta0" in (tmp_path / "out" / "report.html").read_text()
    assert main(["nothing"]) == 2
    assert main(["paper", str(tmp_path / "absent.jsonl")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_mode_under_the_papers_prior_is_its_estimate(name):
    experiment = EXPERIMENTS[name]
    episodes = episodes_for(experiment)
    fit = experiment.fit(episodes)
    proper = fit_map(episodes, prior=PaperPrior(experiment.ridge), restarts=1, spec=experiment.spec)
    for parameter in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        np.testing.assert_allclose(getattr(proper, parameter), getattr(fit, parameter), atol=1e-3)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_states_a_model_and_fits_it(name):
    experiment = EXPERIMENTS[name]
    episodes = episodes_for(experiment)
    fit = experiment.fit(episodes)
    assert fit.converged
    assert len(fit.restarts) == experiment.restarts
    assert fit.ridge == experiment.ridge
    model = experiment.model(episodes)
    assert list(model.coords["feature"]) == list(experiment.features)
    assert list(model.coords["diagnostic"]) == list(experiment.diagnostics)


def test_ablations_see_what_they_should():
    episodes = episodes_for(mechanism.FULL)
    blind = mechanism.without_features(episodes)
    assert mechanism.RISK_ONLY.fit(blind).gamma.shape == (0,)
    counted = mechanism.without_risk_values(episodes)
    values = counted.dataset["diagnostics"].values
    assert np.nanmin(values) == np.nanmax(values) == 1
    assert np.isfinite(values).sum() == episodes.dataset["n_steps"].sum()


def test_other_columns_than_the_experiments_are_refused():
    episodes = episodes_for(recovery.RECOVERY)
    with pytest.raises(InvalidDataError, match=r"features is \('x1', 'x2', 'x3'\); expected state_clean, "):
        alfworld.ALFWORLD.fit(episodes)
