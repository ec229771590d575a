"""Families against SciPy, mpmath, lifelines and PyMC, far out in both tails and for narrow windows."""

import lifelines
import mpmath
import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from simulate import simulate_model

from bayes_tacit import RidgePrior, build_model, fit_map
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
    assert stats.kstest(family.draw(np.random.default_rng(1), (4000,)), peer.cdf).pvalue > 0.001
    for lower, width in ((-2.0, 0.5), (0.3, 1.0), (1.5, 1e-3), (-9.0, 2.0)):
        mass, _ = integrate.quad(peer.pdf, lower, lower + width, epsabs=0, epsrel=1e-12)
        ours = family.log_mass(np.array([lower]), np.array([width]), NUMPY)[0]
        assert ours == pytest.approx(np.log(mass), rel=1e-9)


def normal_mass(a, b):
    def upper_tail(z):
        return mpmath.erfc(z / mpmath.sqrt(2)) / 2

    if a < 0 < b:
        return 1 - upper_tail(-a) - upper_tail(b)
    return upper_tail(a) - upper_tail(b) if a >= 0 else upper_tail(-b) - upper_tail(-a)


def logistic_mass(a, b):
    return mpmath.sigmoid(b) - mpmath.sigmoid(a)


def gamma_mass(shape):
    """The mass between two z of a log-gamma variable, from whichever tail is the smaller."""

    def mass(a, b):
        lower, upper = (shape * mpmath.exp(z / mpmath.sqrt(shape)) for z in (a, b))
        return mpmath.gammainc(shape, lower, upper, regularized=True)

    return mass


def compiled_mass(family):
    """The log mass and its derivatives in lower end and width, as the sampler sees them."""
    lower, width = pt.dvectors("lower", "width")
    mass = family.log_mass(lower, width, PYTENSOR)
    return pytensor.function([lower, width], [mass, *pt.grad(mass.sum(), [lower, width])], mode="FAST_COMPILE")


FAR = (-100.0, -60.5, -38.0, -20.0, -8.3, -3.0, -1.0, -0.2, 0.0, 1e-9, 0.7, 2.0, 5.0, 12.0, 37.5, 40.0, 99.0)


@pytest.mark.parametrize(
    ("family", "exact", "lowers"),
    [
        (family_named("lognormal"), normal_mass, FAR),
        (family_named("loglogistic"), logistic_mass, (-300.0, -20.0, 0.0, 1.0, 50.0, 400.0)),
        (WEIBULL, gamma_mass(1), (-300.0, -20.0, -0.1, 1.0, 3.0, 5.0)),
        (family_named("loggamma"), gamma_mass(4), (-100.0, -9.0, -0.1, 0.3, 3.0, 8.0)),
        (log_gamma(30), gamma_mass(30), (-40.0, -2.0, 1.0, 9.0)),
    ],
    ids=lambda value: value.name if isinstance(value, Family) else None,
)
def test_mass_agrees_with_mpmath_far_out_and_for_narrow_windows(family, exact, lowers):
    wide = (0.05, 0.0999, 0.1001, 3.0, 10.0, 80.0) if family.name == "lognormal" else ()
    cases = [(a, h) for a in lowers for h in (1e-9, 1e-6, 1e-3, 0.03, 0.5, 1.0, *wide)]
    values, by_lower, by_width = compiled_mass(family)(*np.array(cases).T)
    plain = family.log_mass(*np.array(cases).T, NUMPY)
    with mpmath.workdps(400):
        for (a, h), *found, slope in zip(cases, values, plain, by_width, by_lower, strict=True):
            mp_mass = exact(mpmath.mpf(a), mpmath.mpf(a) + mpmath.mpf(h))
            truth = mpmath.log(mp_mass)
            # A truth below the smallest double can only be answered by zero.
            assert all(abs(value - truth) < 1e-9 * max(abs(truth), 1e-300) for value in found[:2]), (a, h)
            upper, lower = (mpmath.exp(float(family.log_pdf(np.array([z]))[0])) / mp_mass for z in (a + h, a))
            assert abs(found[2] - upper) < 1e-4 * upper + 1e-300, (a, h)  # the width rounds in a + h
            assert abs(slope - (upper - lower)) < 1e-4 * upper + 1e-6, (a, h)
    assert np.isfinite([by_lower, by_width]).all()


def test_ever_narrower_normal_intervals_stay_finite_negative_and_lose_mass():
    compiled, widths = compiled_mass(family_named("lognormal")), 10.0 ** -np.arange(6, 300, 7)
    for lower in np.linspace(-100, 100, 21):
        mass, by_lower, by_width = compiled(np.full(len(widths), lower), widths)
        assert np.isfinite([mass, by_lower, by_width]).all()
        assert (mass < 0).all()
        assert (np.diff(mass) < 0).all()


@given(lower=st.floats(-1e3, 1e3), width=st.floats(1e-12, 1e3), wider=st.floats(1.0001, 10.0))
@settings(max_examples=300)
def test_normal_mass_grows_with_the_interval_and_is_symmetric(lower, width, wider):
    def mass(a: float, h: float) -> float:
        return float(family_named("lognormal").log_mass(np.array([a]), np.array([h]), NUMPY)[0])

    here = mass(lower, width)
    assert np.isfinite(here)
    assert here <= 0
    assert mass(lower, width * wider) >= here - 1e-9 * abs(here)
    assert mass(-lower - width, width) == pytest.approx(here, rel=1e-9 + 4e-16 * abs(lower) / width, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "lognormal"])
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


@pytest.mark.parametrize("name", PEERS)
def test_derivatives_of_the_objective_are_exact(name):
    episodes = simulate_model(np.random.default_rng(3), 300, widest=2)
    objective = PaperObjective.of(collect_evidence(episodes, family=name), 0.02, 1e-12)
    point, step = np.array([0.3, 0.5, -0.4, 0.2, 0.3, -0.2, 0.1, 1.0, 0.3, -0.5, 0.2, 1.8]), 1e-6
    here = objective.derivatives(point)
    around = [(objective.derivatives(point + step * u), objective.derivatives(point - step * u)) for u in np.eye(12)]
    np.testing.assert_allclose(here.gradient, [(a.value - b.value) / (2 * step) for a, b in around], atol=1e-8)
    np.testing.assert_allclose(here.hessian, [(a.gradient - b.gradient) / (2 * step) for a, b in around], atol=2e-7)


@pytest.mark.parametrize("name", PEERS)
def test_a_fit_is_the_maximum_of_its_pymc_model(example, example_fit, ridge_model, name):
    paper = name == "lognormal"
    fit = example_fit if paper else fit_map(example, family=name)
    model = ridge_model if paper else build_model(example, RidgePrior(strength=0.01), family=name)
    logits = np.log(fit.w)
    point = {each: getattr(fit, each) for each in ("gamma0", "gamma", "beta0", "beta")}
    point |= {"s_log__": np.log(fit.s), "w_simplex__": (logits - logits.mean())[:-1]}
    gradient = model.compile_dlogp(jacobian=False, mode="FAST_COMPILE")(point)
    assert np.abs(gradient).max() / len(example) < 1e-6
    assert f"{family_named(name).label} threshold" in str(fit)


def test_a_weibull_fit_is_that_of_lifelines(example):
    """With fixed weights, no penalty and no feature it is interval-censored Weibull regression."""
    plain = example.take(slice(0, 600))
    fit = fit_map(plain, ridge=0.0, floor=None, weights=[0.25] * 4, family="weibull")
    evidence = collect_evidence(plain, weights=[0.25] * 4)
    lower = np.concatenate([np.zeros(evidence.n_left), evidence.before[evidence.bounded_below, 0]])
    upper = np.full(len(lower), np.inf)
    upper[evidence.bounded_above] = (evidence.before + evidence.within)[evidence.bounded_above, 0]
    frame = pd.DataFrame(evidence.features[evidence.timed], columns=list(evidence.feature_names))
    frame = frame.assign(lower=lower, upper=upper)
    peer = lifelines.WeibullAFTFitter().fit_interval_censoring(frame, lower_bound_col="lower", upper_bound_col="upper")
    found = peer.params_
    np.testing.assert_allclose(fit.beta0, found["lambda_", "Intercept"], atol=2e-3)
    np.testing.assert_allclose(fit.beta, [found["lambda_", name] for name in fit.feature_names], atol=2e-3)
    np.testing.assert_allclose(1 / fit.s, np.exp(found["rho_", "Intercept"]), rtol=5e-3)


def test_a_family_that_is_not_known_is_refused_and_a_known_one_not_replaced(example):
    with pytest.raises(InvalidDataError, match="family is 'cauchy'; expected 'lognormal' or 'loglogistic' or 'weib"):
        fit_map(example, family="cauchy")
    with pytest.raises(InvalidDataError, match="register_family makes another one known"):
        fit_map(example, family=log_gamma(7))
    with pytest.raises(InvalidDataError, match="name of the family is 'weibull'; expected a name other than lognormal"):
        register_family(log_gamma(2, "weibull"))
    assert FAMILIES["weibull"] is WEIBULL
