"""The logistic models of the baselines against the stated objective, minimized by other means."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError
from bayes_tacit.policies.logistic import NEWTON, L2Logistic


def draw(seed: int, n: int = 200, k: int = 3) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, k)) * rng.uniform(0.1, 20, k) + rng.normal(size=k) * 10
    slopes = rng.normal(size=k) * 2 / x.std(axis=0)
    y = rng.random(n) < 1 / (1 + np.exp(-(x - x.mean(axis=0)) @ slopes - 0.5))
    return tuple(f"c{j}" for j in range(k)), x, y


def minimized(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def objective(b):
        p = 1 / (1 + np.exp(-b[0] - z @ b[1:]))
        return -np.log(np.where(y, p, 1 - p)).sum() + penalty / 2 * (b[1:] ** 2).sum()

    return optimize.minimize(objective, np.zeros(z.shape[1] + 1), method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.3, 1.0, 10.0])
def test_newton_minimizes_the_penalized_likelihood(seed, penalty):
    names, x, y = draw(seed)
    fit = L2Logistic(penalty=penalty).fit(names, x, y)
    np.testing.assert_allclose([fit.intercept, *fit.slopes], minimized(x, y, penalty), atol=2e-5)


def test_copies_of_a_row_whose_weights_sum_to_one_count_as_one():
    names, x, y = draw(1)
    share = np.random.default_rng(0).random(len(y))
    fit = NEWTON.fit(names, x, y)
    copied = NEWTON.fit(names, np.tile(x, (2, 1)), np.tile(y, 2), weight=np.concatenate([share, 1 - share]))
    np.testing.assert_allclose([copied.intercept, *copied.slopes], [fit.intercept, *fit.slopes], rtol=1e-9)


def test_a_vanishing_penalty_gives_the_maximum_likelihood_of_statsmodels():
    names, x, y = draw(3)
    fit = L2Logistic(penalty=1e-9).fit(names, x, y)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = sm.Logit(y.astype(float), sm.add_constant(z)).fit(disp=0).params
    np.testing.assert_allclose([fit.intercept, *fit.slopes], expected, atol=1e-6)


def test_probabilities_use_the_training_mean_and_scale():
    names, x, y = draw(2)
    fit = NEWTON.fit(names, x, y)
    far = x[:7] * 3 + 5
    z = (far - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(fit.probability(far), 1 / (1 + np.exp(-fit.intercept - z @ fit.slopes)), rtol=1e-12)


def test_a_tasks_probability_does_not_depend_on_the_others():
    names, x, y = draw(2, n=500, k=9)
    fit = NEWTON.fit(names, x, y)
    together = fit.probability(x)
    assert all(fit.probability(x[[row]])[0] == together[row] for row in range(0, 500, 7))


@given(st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=40)
def test_newton_converges_also_where_outcomes_are_separated(seed, penalty):
    rng = np.random.default_rng(seed)
    x = rng.standard_t(1.5, size=(25, 2)) * 100
    y = x[:, 0] > np.median(x[:, 0])
    fit = L2Logistic(penalty=penalty).fit(("a", "b"), x, y)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    residual = fit.probability(x) - y
    np.testing.assert_allclose([residual.sum(), *(z.T @ residual + penalty * fit.slopes)], 0, atol=1e-6)


def test_what_cannot_be_fitted_is_said():
    names, x, y = draw(5)
    with pytest.raises(EvidenceError, match=r"router: Cheap succeeds in 0 of 200 .* both outcomes"):
        NEWTON.fit(names, x, np.zeros_like(y), "router: ")
    with pytest.raises(ConvergenceError, match="1 iterations"):
        L2Logistic(max_iterations=1).fit(names, x, y)
    x[3, 1] = np.inf
    with pytest.raises(InvalidDataError, match="row 3: c1 is inf"):
        NEWTON.fit(names, x, y)
    for bad in ({"penalty": 0}, {"max_iterations": 0}, {"tolerance": -1}):
        with pytest.raises(InvalidDataError, match=next(iter(bad))):
            L2Logistic(**bad)
