from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from simulate import simulate_model

from bayes_tacit import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.evidence import collect_evidence
from models import alfworld, dabench, mechanism, recovery
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
    np.testing.assert_array_equal(
        experiment.model(episodes)["diagnostics_before"].get_value(),
        collect_evidence(episodes, memory=0.6, clock=True, unmarked="outcome").before,
    )


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


def test_dabench_aligns_marks_with_the_next_proposal():
    episodes = episodes_for(dabench.DABENCH)
    aligned = dabench.DABENCH.fit(episodes)
    assert aligned.timing == "proposal"
    assert aligned.data_fingerprint == collect_evidence(episodes, timing="proposal").fingerprint()
    assert aligned.data_fingerprint != collect_evidence(episodes).fingerprint()


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
