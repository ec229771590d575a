import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from simulate import simulate_model

from bayes_tacit import RidgePrior, fit_map
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.objective import PaperObjective
from bayes_tacit.model.build import PYTENSOR
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.families import FAMILIES, NUMPY, WEIBULL, Family, family_named, log_gamma, register_family

PEERS = {
    "lognormal": stats.norm,
    "loglogistic": stats.logistic,
    "weibull": stats.gumbel_l,
    "loggamma": stats.loggamma(4, loc=-2 * np.log(4), scale=2),
}
NEW = [name for name in PEERS if name != "lognormal"]  # whose numerics have tests of their own
Z = np.linspace(-30, 30, 121)
WHERE = {"weibull": Z[Z < 6], "loggamma": Z[Z < 9]}  # further out SciPy itself rounds to zero


@pytest.mark.parametrize("name", PEERS)
def test_every_formula_of_a_family_agrees_with_scipy(name):
    family, peer, z = family_named(name), PEERS[name], WHERE.get(name, Z)
    np.testing.assert_allclose(family.log_cdf(z, NUMPY), peer.logcdf(z), rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(family.log_sf(z, NUMPY), peer.logsf(z), rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(family.cdf(z), peer.cdf(z), rtol=1e-10)
    np.testing.assert_allclose(family.log_pdf(z), peer.logpdf(z), rtol=1e-10)
    slope = (peer.logpdf(z + 1e-6) - peer.logpdf(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(family.score(z), slope, rtol=1e-6, atol=1e-5)
    draws = family.draw(np.random.default_rng(1), (4000,))
    assert stats.kstest(draws, peer.cdf).pvalue > 0.001


@pytest.mark.parametrize("name", PEERS)
def test_mass_is_the_integral_of_the_density(name):
    family, peer = family_named(name), PEERS[name]
    for lower, width in ((-2.0, 0.5), (0.3, 1.0), (1.5, 1e-3), (-9.0, 2.0)):
        mass, _ = integrate.quad(peer.pdf, lower, lower + width, epsabs=0, epsrel=1e-12)
        ours = family.log_mass(np.array([lower]), np.array([width]), NUMPY)[0]
        assert ours == pytest.approx(np.log(mass), rel=1e-9)


def logistic_mass(a, b):
    return mpmath.sigmoid(b) - mpmath.sigmoid(a)


def gamma_mass(shape):
    """The mass between two z of a log-gamma variable, from whichever tail is the smaller."""

    def mass(a, b):
        lower, upper = (shape * mpmath.exp(z / mpmath.sqrt(shape)) for z in (a, b))
        return mpmath.gammainc(shape, lower, upper, regularized=True)

    return mass


@pytest.mark.parametrize(
    ("family", "exact", "lowers"),
    [
        (family_named("loglogistic"), logistic_mass, (-300.0, -20.0, 0.0, 1.0, 50.0, 400.0)),
        (WEIBULL, gamma_mass(1), (-300.0, -20.0, -0.1, 1.0, 3.0, 5.0)),
        (family_named("loggamma"), gamma_mass(4), (-100.0, -9.0, -0.1, 0.3, 3.0, 8.0)),
        (log_gamma(30), gamma_mass(30), (-40.0, -2.0, 1.0, 9.0)),
    ],
    ids=lambda value: value.name if isinstance(value, Family) else None,
)
def test_mass_agrees_with_mpmath_far_out_and_for_narrow_windows(family, exact, lowers):
    lower, width = pt.dvectors("lower", "width")
    mass = family.log_mass(lower, width, PYTENSOR)
    compiled = pytensor.function([lower, width], [mass, *pt.grad(mass.sum(), [lower, width])], mode="FAST_COMPILE")
    cases = [(a, h) for a in lowers for h in (1e-9, 1e-3, 0.03, 0.5, 1.0)]
    values, by_lower, by_width = compiled(*np.array(cases).T)
    plain = family.log_mass(*np.array(cases).T, NUMPY)
    with mpmath.workdps(400):
        for (a, h), *found in zip(cases, values, plain, by_width, strict=True):
            mp_mass = exact(mpmath.mpf(a), mpmath.mpf(a) + mpmath.mpf(h))
            truth = mpmath.log(mp_mass)
            assert all(abs((value - truth) / truth) < 1e-9 for value in found[:2]), (a, h)
            rate = mpmath.exp(float(family.log_pdf(np.array([a + h]))[0])) / mp_mass
            assert abs(found[2] / rate - 1) < 1e-4, (a, h)  # the width rounds in a + h
    assert np.isfinite([by_lower, by_width]).all()


@pytest.mark.parametrize("name", NEW)
def test_nothing_is_infinite_however_far_out(name):
    family, z = family_named(name), pt.dvector("z")
    parts = [family.log_cdf(z, PYTENSOR), family.log_sf(z, PYTENSOR), family.log_mass(z, pt.ones_like(z), PYTENSOR)]
    compiled = pytensor.function([z], [*parts, *(pt.grad(part.sum(), z) for part in parts)], mode="FAST_COMPILE")
    far = np.array([-1e9, -1e4, -700.0, 0.0, 20.0, 299.0, 301.0, 1e4, 1e9])
    assert np.isfinite(compiled(far)).all()
    assert np.isfinite([family.log_cdf(far, NUMPY), family.log_sf(far, NUMPY)]).all()


def test_the_log_gamma_of_shape_one_is_the_weibull():
    one, z = log_gamma(1), np.linspace(-40, 4, 89)
    for width in (1e-6, 0.02, 0.7):
        ours, peer = (family.log_mass(z, np.full_like(z, width), NUMPY) for family in (one, WEIBULL))
        np.testing.assert_allclose(ours, peer, rtol=1e-11)
    np.testing.assert_allclose(one.cdf(z), WEIBULL.cdf(z), rtol=1e-12)


@pytest.mark.parametrize("name", NEW)
def test_derivatives_of_the_objective_are_exact(name):
    episodes = simulate_model(np.random.default_rng(3), 300, widest=2)
    objective = PaperObjective.of(collect_evidence(episodes, family=name), 0.02, 1e-12)
    point, step = np.array([0.3, 0.5, -0.4, 0.2, 0.3, -0.2, 0.1, 1.0, 0.3, -0.5, 0.2, 1.8]), 1e-6
    here = objective.derivatives(point)
    around = [(objective.derivatives(point + step * u), objective.derivatives(point - step * u)) for u in np.eye(12)]
    np.testing.assert_allclose(here.gradient, [(a.value - b.value) / (2 * step) for a, b in around], atol=1e-8)
    np.testing.assert_allclose(here.hessian, [(a.gradient - b.gradient) / (2 * step) for a, b in around], atol=2e-7)


@pytest.mark.parametrize("name", NEW)
def test_a_fit_is_the_maximum_of_its_pymc_model(example, name):
    from bayes_tacit import build_model

    fit = fit_map(example, family=name)
    model = build_model(example, RidgePrior(strength=0.01), family=name)
    logits = np.log(fit.w)
    point = {
        "gamma0": fit.gamma0,
        "gamma": fit.gamma,
        "beta0": fit.beta0,
        "beta": fit.beta,
        "s_log__": np.log(fit.s),
        "w_simplex__": (logits - logits.mean())[:-1],
    }
    gradient = model.compile_dlogp(jacobian=False, mode="FAST_COMPILE")(point)
    assert np.abs(gradient).max() / len(example) < 1e-6
    assert f"{family_named(name).label} threshold" in str(fit)


def test_a_weibull_fit_is_that_of_lifelines(example):
    """With fixed weights, no penalty and no feature it is interval-censored Weibull regression."""
    lifelines = pytest.importorskip("lifelines")
    plain = example.take(slice(0, 600))
    fit = fit_map(plain, ridge=0.0, floor=None, weights=[0.25] * 4, family="weibull")
    evidence = collect_evidence(plain, weights=[0.25] * 4)
    lower = np.concatenate([np.zeros(evidence.n_left), evidence.before[evidence.bounded_below, 0]])
    upper = np.full(len(lower), np.inf)
    upper[evidence.bounded_above] = (evidence.before + evidence.within)[evidence.bounded_above, 0]
    import pandas as pd

    frame = pd.DataFrame(evidence.features[evidence.timed], columns=list(evidence.feature_names))
    frame["lower"], frame["upper"] = lower, upper
    peer = lifelines.WeibullAFTFitter().fit_interval_censoring(frame, lower_bound_col="lower", upper_bound_col="upper")
    found = peer.params_
    np.testing.assert_allclose(fit.beta0, found["lambda_", "Intercept"], atol=2e-3)
    np.testing.assert_allclose(fit.beta, [found["lambda_", name] for name in fit.feature_names], atol=2e-3)
    np.testing.assert_allclose(1 / fit.s, np.exp(found["rho_", "Intercept"]), rtol=5e-3)


def test_an_unknown_family_is_refused_with_the_known_ones(example):
    with pytest.raises(InvalidDataError, match="family is 'cauchy'; expected 'lognormal' or 'loglogistic' or 'weib"):
        fit_map(example, family="cauchy")
    with pytest.raises(InvalidDataError, match="register_family makes another one known"):
        fit_map(example, family=log_gamma(7))


def test_a_family_that_comes_along_cannot_be_replaced():
    with pytest.raises(InvalidDataError, match="name of the family is 'weibull'; expected a name other than lognormal"):
        register_family(log_gamma(2, "weibull"))
    assert FAMILIES["weibull"] is WEIBULL
