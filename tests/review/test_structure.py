"""Crossings by covariate: what the model cannot say is caught, and a right model is left alone."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special

from bayes_tacit import Episodes, fit_map
from bayes_tacit.errors import TacitWarning
from bayes_tacit.model.crossing import CrossingSteps
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.families import LOGNORMAL
from bayes_tacit.review.checks import CheckResult
from bayes_tacit.review.checks.residuals import Residuals
from bayes_tacit.review.checks.structure import judge_structure
from bayes_tacit.scores.sources import as_draws

HORIZON = 15
W = np.array([0.5, 0.3, 0.2])


def simulate(rng: np.random.Generator, process: str, n: int = 500) -> Episodes:
    """Draw episodes whose threshold, or whose process, the model has or has not."""
    x = rng.normal(size=(n, 2))
    n_steps = rng.integers(8, HORIZON + 1, size=n)
    u = rng.gamma(0.6, 1.0, size=(n, HORIZON, 3)) * (rng.random((n, HORIZON, 3)) < 0.7)
    strong = rng.random(n) < special.expit(0.8 + 0.5 * x[:, 0])
    noise = rng.normal(size=n)
    log_kappa = {
        "square": 1 + 1.2 * (x[:, 0] ** 2 - 1) + 0.3 * noise,
        "interaction": 1 + 0.9 * x[:, 0] * x[:, 1] + 0.3 * noise,
        "heavy tails": 1 + 0.4 * x[:, 0] + 0.3 * rng.standard_cauchy(n).clip(-60, 60),
        "latest risk": 0.35 + 0.3 * x[:, 0] + 0.4 * noise,
    }.get(process, 1 + 0.4 * x[:, 0] - 0.2 * x[:, 1] + 0.5 * noise)
    if process == "clock":
        crossing = np.minimum(np.exp(1.9 + 0.3 * x[:, 0] + 0.35 * noise), HORIZON).astype(int)
    else:
        latest = u @ W
        risk = np.maximum.accumulate(latest, axis=1) if process == "latest risk" else np.cumsum(latest, axis=1)
        crossing = (risk < np.exp(log_kappa)[:, None]).sum(axis=1)
    crossed = crossing < n_steps
    start = crossing // 2 * 2
    tasks = pd.DataFrame(
        {
            "episode": np.arange(n),
            "cheap_success": np.where(strong, ~crossed, rng.random(n) < 0.4),
            "strong_success": strong,
            "window_start": np.where(strong & crossed, start, np.nan),
            "window_end": np.where(strong & crossed, np.minimum(start + 1, n_steps - 1), np.nan),
            "x0": x[:, 0],
            "x1": x[:, 1],
        }
    )
    episode, step = np.nonzero(np.arange(HORIZON) < n_steps[:, None])
    steps = pd.DataFrame(u[episode, step], columns=["u0", "u1", "u2"]).assign(episode=episode, step=step)
    with warnings.catch_warnings():
        # Marks by the clock fall on steps at which nothing happens.
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.from_frames(tasks, steps)


def judged(episodes: Episodes) -> CheckResult:
    """Fit and check; a fit is a posterior of one draw."""
    fit = fit_map(episodes, ridge=0.001, restarts=1, floor=None, zero_mass="drop_window")
    evidence = collect_evidence(episodes).settle_zero_mass("drop_window")
    marks = CrossingSteps(episodes, evidence, LOGNORMAL, "post_action")
    return judge_structure(as_draws(fit), episodes, evidence.timed, marks.first_checkpoint, marks.last_checkpoint)


@pytest.mark.parametrize(
    ("process", "advice"),
    [
        ("square", "The effect of x0 on the threshold is not linear|Tasks whose predicted threshold"),
        ("interaction", "x0 and x1 act together: add their product"),
        ("latest risk", "fit with a `memory` below 1"),
        ("clock", "fit with a `memory` below 1|fit with `clock=True`"),
    ],
)
def test_what_the_model_does_not_have_is_caught_and_named(process, advice):
    for seed in range(5):
        result = judged(simulate(np.random.default_rng(seed), process))
        assert result.passed is False, (seed, result)
        assert pd.Series([result.advice]).str.contains(advice, regex=True).all(), result.advice


def test_heavy_tails_are_mostly_caught():
    caught = [judged(simulate(np.random.default_rng(seed), "heavy tails")).passed is False for seed in range(20)]
    assert sum(caught) >= 13


def test_a_right_model_seldom_fails():
    failed = [judged(simulate(np.random.default_rng(seed), "right")).passed is False for seed in range(40)]
    assert sum(failed) <= 2


def test_too_few_crossings_are_not_judged_by():
    result = judged(simulate(np.random.default_rng(1), "right", n=40))
    assert result.passed is None
    assert "too few to judge" in result.sentence


def test_residuals_have_mean_zero_whatever_the_windows(rng):
    """Crossings drawn from F itself, marked by windows of up to three steps from a fixed partition."""
    n, horizon = 20_000, 9
    crossed = np.cumsum(rng.dirichlet(np.ones(horizon + 1), size=n), axis=1)[:, :-1]
    n_steps = rng.integers(4, horizon + 1, size=n)
    step = (crossed < rng.random((n, 1))).sum(axis=1)
    never = step >= n_steps
    first = np.where(never, n_steps, step // 3 * 3)
    last = np.where(never, n_steps, np.minimum(first + 2, n_steps - 1))
    found = Residuals.of(crossed, first, last, n_steps)
    difference = found.observed - found.expected
    for t in range(horizon):
        error = difference[:, t].std() / np.sqrt(n)
        assert abs(difference[:, t].mean()) < 4 * error, t
    assert found.observed.sum() == pytest.approx((~never).sum())
