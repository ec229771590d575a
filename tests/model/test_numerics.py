import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_tacit.model.build import PYTENSOR
from bayes_tacit.model.families import NUMPY, log_interval_mass

CASES = [
    (lower, width)
    for lower in (-100.0, -60.5, -38.0, -20.0, -8.3, -3.0, -1.0, -0.2, 0.0, 1e-9, 0.7, 2.0, 5.0, 12.0, 37.5, 40.0, 99.0)
    for width in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.0999, 0.1001, 0.5, 1.0, 3.0, 10.0, 80.0)
]


@pytest.fixture(scope="module")
def mass_and_gradient():
    """The log mass with its derivatives in lower end and width, as the sampler sees them."""
    lower, width = pt.dvectors("lower", "width")
    mass = log_interval_mass(lower, width, PYTENSOR)
    return pytensor.function([lower, width], [mass, *pt.grad(mass.sum(), [lower, width])])


def exact(lower: float, width: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """Log mass and its two derivatives, to 60 digits."""
    with mpmath.workdps(60):
        a = mpmath.mpf(lower)
        b = a + mpmath.mpf(width)

        def upper_tail(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2

        if a < 0 < b:
            outside = upper_tail(-a) + upper_tail(b)
            log_mass, mass = mpmath.log1p(-outside), 1 - outside
        else:
            mass = upper_tail(a) - upper_tail(b) if a >= 0 else upper_tail(-b) - upper_tail(-a)
            log_mass = mpmath.log(mass)
        rate_upper, rate_lower = mpmath.npdf(b) / mass, mpmath.npdf(a) / mass
        return log_mass, rate_upper - rate_lower, rate_upper


def relative_error(value: float, truth: mpmath.mpf) -> float:
    # A truth below the smallest double can only be answered by zero.
    return float(abs((mpmath.mpf(value) - truth) / truth)) if abs(truth) > 1e-300 else abs(value)


@pytest.mark.parametrize("namespace", ["numpy", "pytensor"])
def test_log_mass_agrees_with_mpmath_in_both_tails_and_at_every_width(namespace, mass_and_gradient):
    lower, width = np.array(CASES).T
    mass = log_interval_mass(lower, width, NUMPY) if namespace == "numpy" else mass_and_gradient(lower, width)[0]
    errors = [relative_error(value, exact(*case)[0]) for value, case in zip(mass, CASES, strict=True)]
    assert max(errors) < 1e-9


def test_gradients_of_log_mass_agree_with_mpmath(mass_and_gradient):
    lower, width = np.array(CASES).T
    _, by_lower, by_width = mass_and_gradient(lower, width)
    for case, in_lower, in_width in zip(CASES, by_lower, by_width, strict=True):
        _, true_lower, true_width = exact(*case)
        # A shift of an interval that is nearly symmetric has a derivative near zero; the scale of the problem is 1.
        assert abs(in_lower - true_lower) < 1e-6 * max(1e-6, abs(true_lower)), case
        assert relative_error(in_width, true_width) < 1e-6, case


def test_ever_narrower_intervals_stay_finite_negative_and_lose_mass(mass_and_gradient):
    widths = 10.0 ** -np.arange(6, 300, 7)
    for lower in np.linspace(-100, 100, 21):
        mass, by_lower, by_width = mass_and_gradient(np.full(len(widths), lower), widths)
        assert np.isfinite([mass, by_lower, by_width]).all()
        assert (mass < 0).all()
        assert (np.diff(mass) < 0).all()


@given(
    lower=st.floats(-1e3, 1e3),
    width=st.floats(1e-12, 1e3),
    wider=st.floats(1.0001, 10.0),
)
@settings(max_examples=300, deadline=None)
def test_mass_grows_with_the_interval_and_is_symmetric(lower, width, wider):
    def mass(a: float, h: float) -> float:
        return float(log_interval_mass(np.array([a]), np.array([h]), NUMPY)[0])

    here = mass(lower, width)
    assert np.isfinite(here)
    assert here <= 0
    assert mass(lower, width * wider) >= here - 1e-9 * abs(here)
    mirrored = mass(-lower - width, width)
    assert mirrored == pytest.approx(here, rel=1e-9 + 4e-16 * abs(lower) / width, abs=1e-12)


def test_numpy_and_pytensor_give_the_same_log_mass(mass_and_gradient, rng):
    lower, width = rng.normal(scale=30, size=2000), 10 ** rng.uniform(-10, 2, size=2000)
    np.testing.assert_allclose(mass_and_gradient(lower, width)[0], log_interval_mass(lower, width, NUMPY), rtol=1e-12)
