"""The model-based simulator against integrals and formulas that it does not use."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from simulations import published
from simulations.model_based import TRUTH, outcome_proportions, simulate, true_scores, with_proportions

OTHER = replace(TRUTH, gamma=(0.9, -0.2, 0.4), beta=(0.5, 0.3, -0.2), gamma0=-0.4, beta0=0.7, s=0.8, horizon=6)


def integrated_proportions(truth):
    """Integrate over x'gamma, x'beta and the threshold's noise on a grid, with the gamma law of the final risk."""
    gamma, beta = np.array(truth.gamma), np.array(truth.beta)
    covariance = [[gamma @ gamma, gamma @ beta], [gamma @ beta, beta @ beta]]
    eta = np.linspace(-8, 8, 161) * np.sqrt(gamma @ gamma)
    mu = np.linspace(-8, 8, 161) * np.sqrt(beta @ beta)
    noise = np.linspace(-8, 8, 161)
    final = stats.gamma(truth.shape * truth.horizon, scale=truth.scale)
    reached = final.sf(np.exp(truth.beta0 + mu[:, None] + truth.s * noise))
    reached = integrate.simpson(reached * stats.norm.pdf(noise), x=noise, axis=1)
    density = stats.multivariate_normal([0, 0], covariance).pdf(np.stack(np.meshgrid(eta, mu, indexing="ij"), -1))
    pi = special.expit(truth.gamma0 + eta)

    def mean(values):
        return integrate.simpson(integrate.simpson(values * density, x=mu, axis=1), x=eta)

    strong, rescued = mean(pi[:, None] + 0 * mu), mean(pi[:, None] * reached)
    alone = 1 / (1 + np.exp(-truth.cheap_alone))
    return {"00": (1 - strong) * (1 - alone), "01": rescued, "10": (1 - strong) * alone, "11": strong - rescued}


@pytest.mark.parametrize("truth", [TRUTH, OTHER], ids=["paper", "other"])
def test_outcome_proportions_are_those_of_the_integral(truth, rng):
    expected = integrated_proportions(truth)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-9)
    assert outcome_proportions(truth) == pytest.approx(expected, abs=1e-6)
    n = 200_000
    outcomes = simulate(truth, n, rng).outcomes
    for ab, share in expected.items():
        assert (outcomes == ab).mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def test_intercepts_are_those_that_give_the_papers_proportions():
    moved = with_proportions(replace(TRUTH, gamma0=0.0, beta0=0.5, cheap_alone=0.3), published.RECOVERY_OUTCOMES)
    for name in ("gamma0", "beta0", "cheap_alone"):
        assert getattr(TRUTH, name) == pytest.approx(getattr(moved, name), abs=6e-5)
    total = sum(published.RECOVERY_OUTCOMES.values())
    wanted = {ab: share / total for ab, share in published.RECOVERY_OUTCOMES.items()}
    assert integrated_proportions(moved) == pytest.approx(wanted, abs=1e-6)


def test_true_score_is_incidence_times_the_lognormal_distribution_of_the_threshold(rng):
    episodes = simulate(OTHER, 20, rng)
    q = true_scores(OTHER, episodes)
    for i in range(20):
        x = episodes.dataset["features"].values[i]
        risk, pi = 0.0, 1 / (1 + np.exp(-(OTHER.gamma0 + sum(x * OTHER.gamma))))
        threshold = stats.lognorm(OTHER.s, scale=np.exp(OTHER.beta0 + sum(x * OTHER.beta)))
        for t in range(OTHER.horizon):
            risk += episodes.dataset["diagnostics"].values[i, t, 0]
            assert q[i, t] == pytest.approx(pi * threshold.cdf(risk), rel=1e-12)


def test_marks_come_as_often_by_each_step_as_the_true_score_says(rng):
    """A mark at or before t means B = 1 and a crossing by t, whose probability is q(t)."""
    n = 200_000
    episodes = simulate(OTHER, n, rng)
    q = true_scores(OTHER, episodes)
    marked = episodes.dataset["window_start"].values[:, None] <= np.arange(OTHER.horizon)
    spread = np.sqrt((q * (1 - q)).mean(axis=0) / n)
    assert (np.abs((marked - q).mean(axis=0)) < 4 * spread).all()


def test_exactly_the_rescued_tasks_have_a_mark_of_one_step(rng):
    episodes = simulate(TRUTH, 5000, rng)
    assert (episodes.has_window == (episodes.outcomes == "01")).all()
    start, end = (episodes.dataset[name].values[episodes.has_window] for name in ("window_start", "window_end"))
    assert (start == end).all()


def test_risk_of_a_step_has_the_moments_of_its_gamma_law(rng):
    risk = simulate(TRUTH, 20_000, rng).dataset["diagnostics"].values
    spread = np.sqrt(TRUTH.shape) * TRUTH.scale
    assert risk.mean() == pytest.approx(TRUTH.shape * TRUTH.scale, abs=4 * spread / np.sqrt(risk.size))
    assert risk.std() == pytest.approx(spread, rel=0.01)
