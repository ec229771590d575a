"""A family and a prior of one's own, from the model to the router."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from simulate import simulate_model

from bayes_tacit import (
    MapFit,
    RidgePrior,
    Router,
    WeaklyInformativePrior,
    credible_band,
    fit_map,
    load_posterior,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.estimates.completion import log_prior, prior_of
from bayes_tacit.model import families, priors
from bayes_tacit.model.families import WEIBULL, Family, register_family
from bayes_tacit.model.priors import register_prior

FRECHET = Family(
    name="frechet",
    label="Fréchet",
    log_cdf=lambda z, xp: WEIBULL.log_sf(-z, xp),
    log_sf=lambda z, xp: WEIBULL.log_cdf(-z, xp),
    log_mass=lambda z, width, xp: WEIBULL.log_mass(-z - width, width, xp),
    log_pdf=lambda z: WEIBULL.log_pdf(-z),
    score=lambda z: -WEIBULL.score(-z),
    draw=lambda rng, shape: -WEIBULL.draw(rng, shape),
)


@dataclass(frozen=True)
class HeavyTailed(WeaklyInformativePrior):
    """Student's t for the coefficients."""

    degrees: float = 3.0

    def state(self, site):
        if site.name not in ("gamma", "beta"):
            return super().state(site)
        return pm.StudentT(site.name, nu=self.degrees, mu=0.0, sigma=0.1, dims=site.dims)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    register_prior(HeavyTailed)
    register_family(FRECHET)
    yield
    del priors.PRIORS["HeavyTailed"], families.FAMILIES["frechet"]


@pytest.fixture(scope="module")
def episodes():
    return simulate_model(np.random.default_rng(8), 150)


@pytest.fixture(scope="module")
def tree(episodes) -> xr.DataTree:
    return sample_posterior(
        episodes,
        HeavyTailed(degrees=5.0),
        family="frechet",
        draws=200,
        tune=200,
        chains=2,
        seed=2,
        predictive_draws=20,
        progress=False,
    )


def test_the_mode_under_the_ridge_prior_is_the_penalized_estimate(episodes):
    ours = fit_map(episodes, prior=RidgePrior(0.02), restarts=2)
    paper = fit_map(episodes, ridge=0.02, floor=None)
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        np.testing.assert_allclose(getattr(ours, name), getattr(paper, name), atol=1e-6, err_msg=name)
        np.testing.assert_allclose(
            ours.standard_errors[name], paper.standard_errors[name], rtol=1e-4, atol=1e-7, err_msg=name
        )
    assert "prior RidgePrior" in str(ours)


def test_a_posterior_of_ones_own_parts_is_kept_scored_and_deployed(tree, episodes, tmp_path):
    assert tree.attrs["family"] == "frechet"
    save_posterior(tree, tmp_path / "own.nc")
    read = load_posterior(tmp_path / "own.nc")
    assert prior_of(read) == HeavyTailed(degrees=5.0)
    band = credible_band(read, episodes)
    assert bool((band["lower"] <= band["upper"]).where(band["lower"].notnull(), True).all())
    router = Router.from_posterior(read, alpha=0.3)
    router.save(tmp_path / "router.json")
    again = Router.load(tmp_path / "router.json")
    features, diagnostics = (episodes.dataset[name].values[0] for name in ("features", "diagnostics"))
    state = again.start(features)
    scores = [state.observe(diagnostics[t]).score for t in range(episodes.n_steps[0])]
    np.testing.assert_allclose(scores, band["mean"].values[0, : len(scores)], rtol=1e-9)


def test_the_prior_of_ones_own_is_evaluated_at_every_draw(tree):
    from scipy import stats

    gamma = tree["posterior"]["gamma"].values
    np.testing.assert_allclose(
        log_prior(tree)["gamma"].values, stats.t(5.0, scale=0.1).logpdf(gamma), rtol=1e-5, atol=1e-5
    )


def test_the_mode_under_ones_own_prior_lies_within_its_posterior_and_nearer_to_zero(tree, episodes):
    mode = fit_map(episodes, prior=HeavyTailed(degrees=5.0), family="frechet", restarts=1)
    free = fit_map(episodes, ridge=0.0, family="frechet")
    mean, sd = (getattr(tree["posterior"]["gamma"], how)(("chain", "draw")).values for how in ("mean", "std"))
    assert (np.abs((mode.gamma - mean) / sd) < 1).all()
    assert np.abs(mode.gamma).sum() < np.abs(free.gamma).sum()
    # A point estimate decides as its scores say, at every checkpoint, by the family's own distribution function.
    router = Router.from_fit(mode, alpha=0.3)
    state = router.start(episodes.dataset["features"].values[1])
    seen = [state.observe(u).score for u in episodes.dataset["diagnostics"].values[1, : episodes.n_steps[1]]]
    np.testing.assert_allclose(seen, router.scores(episodes).values[1, : len(seen)], rtol=1e-12)


def test_files_of_what_is_not_registered_say_so(episodes, tmp_path):
    fit = fit_map(episodes, family="frechet")
    fit.save(tmp_path / "fit.json")
    Router.from_fit(fit, alpha=0.3).save(tmp_path / "router.json")
    assert MapFit.load(tmp_path / "fit.json") == fit
    gone = families.FAMILIES.pop("frechet")
    try:
        for read, name in ((MapFit.load, "fit.json"), (Router.load, "router.json")):
            with pytest.raises(FileFormatError, match="register_family makes another one known"):
                read(tmp_path / name)
    finally:
        families.FAMILIES["frechet"] = gone


def test_a_prior_that_was_not_registered_is_refused(episodes):
    @dataclass(frozen=True)
    class Unknown(WeaklyInformativePrior):
        pass

    with pytest.raises(InvalidDataError, match=r"prior is .*Unknown.*or one whose class register_prior made known"):
        fit_map(episodes, prior=Unknown())
    with pytest.raises(InvalidDataError, match=r"class of the prior is .*expected a frozen dataclass"):
        register_prior(int)
