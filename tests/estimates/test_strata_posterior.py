"""The posterior over strata: sampled once, then read by all that takes a posterior."""

import numpy as np
import pytest
import xarray as xr

from bayes_tacit import (
    Episodes,
    Noise,
    Router,
    approximate_posterior,
    compare_models,
    credible_band,
    fit_map,
    run_checks,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.completion import evidence_of, pointwise_log_likelihood
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.spec import spec_of
from models import unpaired
from simulations.model_based import TRUTH, simulate
from simulations.studies.strata import MARKS, NOISY, flipped, late


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return unpaired.example()


@pytest.fixture(scope="module")
def tree(kept_posteriors, episodes) -> xr.DataTree:
    """A posterior of two logs of different tasks, as it is read back from its file."""
    return kept_posteriors.sample("unpaired", episodes, draws=300, tune=300, chains=2, cores=1)


def test_the_posterior_holds_what_predictions_and_loo_take(tree, episodes):
    assert spec_of(tree).noise is None
    assert {"lucky", "gamma0", "w"} <= set(tree["posterior"].data_vars)
    assert {"lucky", "s"} <= set(tree["log_prior"].data_vars)
    seen = collect_evidence(episodes)
    again = evidence_of(tree)
    assert again.fingerprint() == seen.fingerprint() == tree.attrs["data_fingerprint"]
    total = pointwise_log_likelihood(tree["posterior"].to_dataset(), again)["total"].values
    np.testing.assert_allclose(tree["log_likelihood"]["total"].values, total, atol=2e-4)


def test_predictions_are_as_often_earlier_as_later(tree):
    drawn = tree["posterior_predictive"]["total"].values
    earlier, same = (drawn == 1).mean(axis=(0, 1)), (drawn == 2).mean(axis=(0, 1))
    place = earlier + np.random.default_rng(0).random(len(same)) * same
    np.testing.assert_allclose(np.quantile(place, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.06)


def test_replicates_are_counts_of_the_rollouts_that_there_are(tree, episodes):
    counts = tree["replicates"]["strong_success"].values
    trials = episodes.strong_counts[1]
    assert (counts <= trials).all()
    observed = episodes.strong_counts[0].sum() / trials.sum()
    assert abs(counts.sum() / (trials.sum() * counts.shape[0] * counts.shape[1]) - observed) < 0.03


def test_checks_scores_and_routers_take_it(tree, episodes):
    assert {"Sampler", "Leave-one-out", "MAP against posterior"} <= {
        result.name for result in run_checks(tree, episodes)
    }
    band = credible_band(tree, episodes, probability=0.8)
    played = episodes.cheap_played
    assert np.isfinite(band["mean"].values[played, 0]).all()
    assert np.isnan(band["mean"].values[~played]).all()
    router = Router.from_posterior(tree, alpha=0.3)
    state = router.start({"x1": 0.0, "x2": 0.0})
    assert 0 <= state.observe({"repeat": 1.0, "stalled": 0.0, "invalid": 1.0}).score <= 1
    fit = fit_map(episodes)
    assert abs(fit.rates["lucky"][0] - float(tree["posterior"]["lucky"].mean())) < 0.1


def test_a_posterior_of_pairs_is_no_rival_of_one_of_records(tree, posterior):
    with pytest.raises(InvalidDataError, match="the others' likelihood is of another part of the data"):
        compare_models({"records": tree, "pairs": posterior})


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_leave_one_out_names_the_noise_that_the_data_have():
    rng = np.random.default_rng(1)
    many = simulate(TRUTH, 4000, rng)
    clean = many.take(slice(1000))
    nearly = Noise(sensitivity=0.99, specificity=0.99)
    cases = {
        "flipped": (flipped(many, rng), {"nearly exact": nearly, "rates learned": NOISY}, "rates learned"),
        "late": (late(clean, rng), {"as they are": Noise(), "lateness learned": MARKS}, "lateness learned"),
        "clean": (clean, {"as they are": Noise(), "lateness learned": MARKS}, None),
    }
    for data, noises, best in cases.values():
        trees = {
            name: approximate_posterior(data, 300, weights=[1.0], ridge=1e-3, noise=noise)
            for name, noise in noises.items()
        }
        found = compare_models(trees)
        if best is None:
            assert "predicts better" not in str(found)
        else:
            assert f"{best} predicts better" in str(found)
