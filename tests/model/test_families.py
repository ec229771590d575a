import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from simulate import simulate_model

from bayes_tacit import RidgePrior, fit_map
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit.objective import PaperObjective
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.families import FAMILIES, LOGLOGISTIC, family_named
from bayes_tacit.model.numerics import NUMPY
from bayes_tacit.model.symbolic import PYTENSOR

PEERS = {"lognormal": stats.norm, "loglogistic": stats.logistic}
Z = np.linspace(-30, 30, 121)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_formula_of_a_family_agrees_with_scipy(name):
    family, peer = family_named(name), PEERS[name]
    np.testing.assert_allclose(family.log_cdf(Z, NUMPY), peer.logcdf(Z), rtol=1e-10)
    np.testing.assert_allclose(family.log_sf(Z, NUMPY), peer.logsf(Z), rtol=1e-10)
    np.testing.assert_allclose(family.cdf(Z), peer.cdf(Z), rtol=1e-10)
    np.testing.assert_allclose(family.log_pdf(Z), peer.logpdf(Z), rtol=1e-10)
    slope = (peer.logpdf(Z + 1e-6) - peer.logpdf(Z - 1e-6)) / 2e-6
    np.testing.assert_allclose(family.score(Z), slope, atol=1e-5)
    draws = family.draw(np.random.default_rng(1), (4000,))
    assert stats.kstest(draws, peer.cdf).pvalue > 0.001


@pytest.mark.parametrize("name", FAMILIES)
def test_mass_is_the_integral_of_the_density(name):
    family, peer = family_named(name), PEERS[name]
    for lower, width in ((-2.0, 0.5), (0.3, 3.0), (4.0, 1e-3), (-9.0, 2.0)):
        mass, _ = integrate.quad(peer.pdf, lower, lower + width, epsabs=0, epsrel=1e-12)
        ours = family.log_mass(np.array([lower]), np.array([width]), NUMPY)[0]
        assert ours == pytest.approx(np.log(mass), rel=1e-9)


def test_loglogistic_mass_agrees_with_mpmath_far_out_and_for_narrow_windows():
    lower, width = pt.dvectors("lower", "width")
    mass = LOGLOGISTIC.log_mass(lower, width, PYTENSOR)
    compiled = pytensor.function([lower, width], [mass, *pt.grad(mass.sum(), [lower, width])])
    cases = [(a, h) for a in (-300.0, -20.0, 0.0, 1.0, 50.0, 400.0) for h in (1e-9, 1e-3, 1.0, 40.0)]
    values, by_lower, by_width = compiled(*np.array(cases).T)
    with mpmath.workdps(400):
        for (a, h), value in zip(cases, values, strict=True):
            exact = mpmath.log(mpmath.sigmoid(mpmath.mpf(a) + h) - mpmath.sigmoid(mpmath.mpf(a)))
            assert abs((value - exact) / exact) < 1e-9, (a, h)
    assert np.isfinite([by_lower, by_width]).all()


def test_loglogistic_derivatives_are_exact():
    objective = PaperObjective.of(
        collect_evidence(simulate_model(np.random.default_rng(3), 300, widest=2)), 0.02, 1e-12, LOGLOGISTIC
    )
    point, step = np.array([0.3, 0.5, -0.4, 0.2, 0.3, -0.2, 0.1, 1.0, 0.3, -0.5, 0.2, 1.8]), 1e-6
    here = objective.derivatives(point)
    around = [(objective.derivatives(point + step * u), objective.derivatives(point - step * u)) for u in np.eye(12)]
    np.testing.assert_allclose(here.gradient, [(a.value - b.value) / (2 * step) for a, b in around], atol=1e-8)
    np.testing.assert_allclose(here.hessian, [(a.gradient - b.gradient) / (2 * step) for a, b in around], atol=1e-7)


def test_loglogistic_fit_is_the_maximum_of_its_pymc_model(example):
    from bayes_tacit import build_model

    fit = fit_map(example, family="loglogistic")
    model = build_model(example, RidgePrior(strength=0.01), family="loglogistic")
    logits = np.log(fit.w)
    point = {
        "gamma0": fit.gamma0,
        "gamma": fit.gamma,
        "beta0": fit.beta0,
        "beta": fit.beta,
        "s_log__": np.log(fit.s),
        "w_simplex__": (logits - logits.mean())[:-1],
    }
    assert np.abs(model.compile_dlogp(jacobian=False)(point)).max() / len(example) < 1e-6
    assert "log-logistic threshold" in str(fit)


def test_an_unknown_family_is_refused_with_the_known_ones(example):
    with pytest.raises(InvalidDataError, match="family is 'weibull'; expected 'lognormal' or 'loglogistic'"):
        fit_map(example, family="weibull")
