"""Groups, and what was sampled from `build_model` by PyMC itself, through everything that takes a posterior."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from simulate import quietly, simulate_model

from bayes_tacit import (
    Router,
    build_model,
    compare_models,
    credible_band,
    judge,
    load_posterior,
    report,
    run_checks,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.completion import completed

GROUPS = ("east", "north", "south", "west")


@pytest.fixture(scope="module")
def episodes():
    plain = simulate_model(np.random.default_rng(11), 120)
    place = np.random.default_rng(1).choice(GROUPS, len(plain))
    return quietly(plain.dataset.assign(place=("episode", place)))


@pytest.fixture(scope="module")
def model(episodes) -> pm.Model:
    """Ours, with groups, and a parameter that a user added."""
    model = build_model(episodes, groups="place")
    with model:
        added = pm.Normal("added", 0.0, 1.0)
        pm.Potential("on_added", -0.5 * (added - 1.0) ** 2)
    return model


@pytest.fixture(scope="module")
def trace(model) -> xr.DataTree:
    with model:
        return pm.sample(
            draws=60, tune=100, chains=2, cores=1, random_seed=3, progressbar=False, compute_convergence_checks=False
        )


def test_a_trace_of_pymc_goes_everywhere(trace, episodes, tmp_path):
    assert "added[" not in str(judge(trace).table.index.tolist())
    assert "added" in judge(trace).table.index
    checks = {check.name: check for check in run_checks(trace, episodes)}
    assert list(checks)[:2] == ["Sampler", "Crossing steps"]
    # That groups have no point estimate does not count against the posterior.
    assert "MAP against posterior" in [name for name, check in checks.items() if check.hint]
    band = credible_band(trace, episodes, probability=0.9)
    router = Router.from_posterior(trace, alpha=0.3)
    np.testing.assert_allclose(router.scores(episodes).values, band["mean"].values, rtol=1e-9)
    save_posterior(trace, tmp_path / "trace.nc")
    read = load_posterior(tmp_path / "trace.nc")
    assert "added" in read["posterior"]
    assert compare_models({"one": trace, "other": read}).table["elpd_diff"].tolist() == [0, 0]
    report(trace, episodes, tmp_path / "report.html", results=list(checks.values()), chosen=episodes.ids[:1])
    assert "place, with partially pooled intercepts" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_its_log_likelihood_is_pymcs_own(trace, model):
    logp = model.compile_logp(vars=model.observed_RVs, sum=False, mode="FAST_COMPILE")
    at = trace["posterior"].to_dataset().isel(chain=1, draw=17)
    point = {name: at[name].values for name in ("gamma0", "gamma", "beta0", "beta", "gamma_offset", "beta_offset")}
    logits = np.log(at["w"].values)
    point |= {f"{name}_log__": np.log(at[name].values) for name in ("s", "gamma_spread", "beta_spread")}
    strong, threshold = logp(point | {"w_simplex__": (logits - logits.mean())[:-1], "added": at["added"].values})
    total = strong.copy()
    total[trace["constant_data"]["timed_position"].values] += threshold
    ours = completed(trace)["log_likelihood"]["total"].isel(chain=1, draw=17)
    np.testing.assert_allclose(ours, total, atol=1e-4)


@pytest.mark.parametrize("gone", ["beta0", "gamma", "beta_spread", "w"])
def test_what_is_missing_is_named(trace, episodes, gone):
    groups = {name: trace[name].to_dataset() for name in trace.children}
    groups["posterior"] = groups["posterior"].drop_vars(gone)
    less = xr.DataTree.from_dict(groups)
    for use in (lambda: run_checks(less, episodes), lambda: Router.from_posterior(less, alpha=0.3)):
        with pytest.raises(InvalidDataError, match=f"{gone!r}"):
            use()


def test_a_trace_of_another_model_is_refused(trace):
    other = xr.DataTree.from_dict({"posterior": trace["posterior"].to_dataset(), "constant_data": xr.Dataset()})
    with pytest.raises(InvalidDataError, match="'settings' among them"):
        completed(other)


def test_known_groups_have_their_own_intercept_and_new_ones_the_spread(trace, episodes):
    router = Router.from_posterior(trace, alpha=0.3)
    x = dict(zip(episodes.feature_names, episodes.dataset["features"].values[0].tolist(), strict=True))
    u = episodes.dataset["diagnostics"].values[0]
    posterior = trace["posterior"].to_dataset().stack(sample=("chain", "draw"))
    standardized = (np.array(list(x.values())) - router.rule.mean[:3]) / router.rule.scale[:3]
    logit = posterior["gamma0"].values + standardized @ posterior["gamma"].transpose("feature", "sample").values
    spread = posterior["gamma_spread"].values
    for place in GROUPS:
        own = logit + spread * posterior["gamma_offset"].sel(group=place).values
        state = router.start({**x, "place": place})
        assert state.observe(u[0]).pi == pytest.approx((1 / (1 + np.exp(-own))).mean(), rel=1e-9)
    # Of a new group: the mean over the spread, here by quadrature.
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    exact = ((1 / (1 + np.exp(-(logit[:, None] + spread[:, None] * nodes)))) @ weights / weights.sum()).mean()
    new = router.start({**x, "place": "nowhere"}).observe(u[0])
    assert new.pi == pytest.approx(exact, abs=4 * spread.mean() * 0.25 / np.sqrt(len(spread)))
    assert new.pi != pytest.approx(state.observe(u[1]).pi, abs=1e-6)


def test_groups_that_are_none_are_refused(episodes):
    for column, message in (("colour", "a column of the episodes is 'colour'"), ("nothing", "two groups or more")):
        with pytest.raises(InvalidDataError, match=message):
            build_model(quietly(episodes.dataset.assign(nothing=("episode", ["x"] * len(episodes)))), groups=column)
    each = quietly(episodes.dataset.assign(each=("episode", [str(at) for at in range(len(episodes))])))
    with pytest.raises(InvalidDataError, match="some episodes are alike"):
        sample_posterior(each, groups="each")
