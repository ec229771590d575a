"""A spread that depends on the features: its density, its recovery, its scores, its file and its router."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayes_tacit import (
    Router,
    WeaklyInformativePrior,
    credible_band,
    fit_map,
    handoff_score,
    load_posterior,
    run_checks,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.completion import evidence_of, log_prior, pointwise_log_likelihood
from bayes_tacit.scores.fitted import as_draws
from simulations.studies.misfits import scale


@pytest.fixture(scope="module")
def drawn():
    return scale(np.random.default_rng(2), 600, 1.0)


@pytest.fixture(scope="module")
def tree(drawn):
    return sample_posterior(
        drawn.episodes,
        draws=200,
        tune=200,
        chains=2,
        cores=1,
        progress=False,
        zero_mass="drop_window",
        spread="features",
    )


def test_it_finds_the_spread_that_a_feature_has_and_bands_hold_the_truth(drawn, tree):
    delta = tree["posterior"]["delta"]
    lower, upper = delta.quantile([0.02, 0.98], ("chain", "draw")).values
    sd = drawn.episodes.dataset["features"].values.std(axis=0)
    assert lower[0] < 0.6 * sd[0] < upper[0]
    assert lower[1] < 0 < upper[1]
    band = credible_band(tree, drawn.episodes)
    known = np.isfinite(drawn.q)
    inside = (band["lower"].values <= drawn.q) & (drawn.q <= band["upper"].values)
    assert inside[known].mean() > 0.75


def test_the_likelihood_is_the_mass_of_each_interval_at_its_own_scale(tree):
    one = tree["posterior"].to_dataset().isel(chain=[1], draw=[7])
    evidence = evidence_of(tree)
    x, flat = evidence.features, {name: one[name].values[0, 0] for name in one.data_vars}
    eta = flat["gamma0"] + x @ flat["gamma"]
    expected = -np.logaddexp(0, np.where(evidence.strong_success, -eta, eta))
    s = flat["s"] * np.exp(x @ flat["delta"])
    threshold = stats.lognorm(s=s, scale=np.exp(flat["beta0"] + x @ flat["beta"]))
    end = np.where(evidence.open_above, np.inf, (evidence.before + evidence.within) @ flat["w"])
    start = evidence.before @ flat["w"]
    full = [np.full(evidence.n, bound) for bound in (0.0, np.inf)]
    full[0][evidence.timed], full[1][evidence.timed] = start, end
    expected += np.log(threshold.cdf(full[1]) - threshold.cdf(full[0]))
    np.testing.assert_allclose(pointwise_log_likelihood(one, evidence)["total"].values[0, 0], expected, atol=1e-8)
    kept = tree["log_likelihood"]["total"].isel(chain=1, draw=7).values
    np.testing.assert_allclose(kept, expected, atol=2e-4)
    prior = log_prior(tree)["delta"].isel(chain=1, draw=7)
    assert float(prior) == pytest.approx(
        stats.norm(0, WeaklyInformativePrior().scale_slope).logpdf(flat["delta"]).sum()
    )


def test_scores_file_and_router_agree(drawn, tree, tmp_path):
    save_posterior(tree, tmp_path / "posterior.nc")
    again = load_posterior(tmp_path / "posterior.nc")
    some = drawn.episodes.select(drawn.episodes.ids[:3].tolist())
    scores = handoff_score(again, some)
    np.testing.assert_allclose(scores, handoff_score(tree, some))
    fitted = as_draws(tree)
    assert fitted.draws.delta is not None
    Router.from_posterior(tree, alpha=0.3, draws=100).save(tmp_path / "router.json")
    router = Router.load(tmp_path / "router.json")
    thinned = fitted.thinned(100)
    x = fitted.standardize(some.dataset["features"].values)
    risk = np.cumsum(np.nan_to_num(some.dataset["diagnostics"].values) @ thinned.draws.w.T, axis=1)[0]
    state = router.start(dict(zip(some.feature_names, some.dataset["features"].values[0].tolist(), strict=True)))
    s = thinned.draws.s * np.exp(thinned.draws.delta @ x[0])
    for step in range(3):
        seen = some.dataset["diagnostics"].values[0, step].tolist()
        decision = state.observe(dict(zip(some.diagnostic_names, seen, strict=True)))
        with np.errstate(divide="ignore"):
            place = (np.log(risk[step]) - thinned.draws.beta0 - thinned.draws.beta @ x[0]) / s
        pi = 1 / (1 + np.exp(-thinned.draws.gamma0 - thinned.draws.gamma @ x[0]))
        assert decision.score == pytest.approx(float((pi * stats.norm.cdf(place)).mean()), abs=1e-9)


def test_its_report_is_green_where_the_model_with_one_scale_is_not(drawn, tree):
    found = {result.name: result for result in run_checks(tree, drawn.episodes)}
    assert found["Trends in residuals"].passed is not False
    assert found["Crossings by covariate"].passed is not False
    assert found["MAP against posterior"].hint


def test_the_point_estimate_has_one_scale(drawn):
    with pytest.raises(InvalidDataError, match="spread by features"):
        fit_map(drawn.episodes, spread="features")
    with pytest.raises(InvalidDataError, match="'same' or 'features'"):
        fit_map(drawn.episodes, spread="other")
