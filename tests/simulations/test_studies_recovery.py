"""The recovery study's measures, against what they are defined by."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayes_tacit import handoff_score
from models.recovery import RECOVERY
from simulations.model_based import TRUTH, quietly, simulate, true_scores
from simulations.studies.recovery import TRUE_PARAMETERS, held_out_error, parameter_rmse, raw_parameters, replicate
from simulations.studies.study import Setting


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


def test_held_out_error_is_the_root_of_the_mean_square_over_tasks_and_steps(fitted):
    fit, episodes = fitted
    difference = (handoff_score(fit, episodes) - true_scores(TRUTH, episodes)).to_series()
    assert held_out_error(fit, episodes) == pytest.approx(np.sqrt(sum(d * d for d in difference) / len(difference)))


def test_parameter_rmse_is_over_replicates():
    rows = pd.DataFrame({f"error_{name}": [3.0, -4.0] for name in TRUE_PARAMETERS})
    assert parameter_rmse(rows).to_dict() == pytest.approx(dict.fromkeys(TRUE_PARAMETERS, np.sqrt(12.5)))


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
