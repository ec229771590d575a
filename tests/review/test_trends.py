"""Trends that the model lacks, and tasks that resemble each other, are found and named; a right model passes."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from simulate import quietly

from bayes_tacit import Episodes, sample_posterior
from bayes_tacit.review.checks import check_dependence, check_trends
from bayes_tacit.scores.fitted import as_draws
from simulations.studies.misfits import WRONG, right

SEED = 20261119


def sampled(episodes: Episodes) -> xr.DataTree:
    """Sample few draws: enough to see what fitting did."""
    return sample_posterior(
        episodes, draws=150, tune=250, chains=2, cores=1, progress=False, zero_mass="drop_window", predictive_draws=1
    )


@pytest.mark.parametrize(
    ("world", "kind", "words"),
    [
        ("scale", "spread by feature", "spread of thresholds depends on x1"),
        ("incidence by rollout", "incidence by rollout", "shows in Cheap's first steps"),
        ("missing late", "missing marks", "mark those without one"),
        ("drift", "drift", "mark again"),
        ("late", "drift", "length of the rollout"),
        ("square root", "diminishing returns", "with_returns(episodes, "),
        ("interaction", "feature times diagnostic", "with_product(episodes, 'x1', 'u1', 'u2')"),
    ],
)
def test_what_the_model_does_not_have_is_named(world, kind, words):
    episodes = WRONG[world](np.random.default_rng(SEED), 700, 1.0).episodes
    result = check_trends(sampled(episodes), episodes)
    assert result.passed is False
    table = result.table
    assert table["by"][table["z"].abs().idxmax()] == kind
    assert words in result.advice


@pytest.fixture(scope="module")
def right_ones() -> list[tuple[Episodes, xr.DataTree]]:
    drawn = [right(np.random.default_rng([SEED, number]), 400, marked=0.7).episodes for number in range(3)]
    return [(episodes, sampled(episodes)) for episodes in drawn]


def test_a_right_model_has_no_trend_and_no_dependence(right_ones):
    for episodes, tree in right_ones:
        for check in (check_trends, check_dependence):
            result = check(tree, episodes)
            assert result.passed, str(result)
            assert result.figure().axes


def test_a_trend_of_incidence_is_the_score_test_of_a_logistic_regression(right_ones):
    """Of a covariate beside intercept and features, with the information in closed form."""
    episodes, tree = right_ones[0]
    table = check_trends(tree, episodes).table
    x = as_draws(tree).standardize(episodes.dataset["features"].values)
    design = np.column_stack([np.ones(len(x)), x])
    strong = episodes.dataset["strong_success"].values.astype(float)
    theta = np.zeros(3)
    for _ in range(20):
        pi = 1 / (1 + np.exp(-design @ theta))
        weight = pi * (1 - pi)
        theta += np.linalg.solve(design.T * weight @ design, design.T @ (strong - pi))
    z = episodes.dataset["diagnostics"].values[:, :3, 1].sum(axis=1)
    z = ((z - z.mean()) / z.std()).clip(-4, 4)
    beside = np.linalg.solve(design.T * weight @ design, design.T * weight @ z)
    expected = (strong - pi) @ z / np.sqrt((weight * (z - design @ beside) ** 2).sum())
    found = float(table.loc[table["covariate"] == "u2 in 3 steps", "z"].iloc[0])
    # Ours takes the variance of the residuals as they came.
    assert found == pytest.approx(expected, rel=0.2)


def test_tasks_of_a_kind_that_resemble_each_other_are_named_with_their_column():
    dataset = WRONG["clusters"](np.random.default_rng(SEED), 500, 1.0).episodes.dataset
    # What a rollout came to is no kind, however well it goes with success.
    came = ("episode", dataset["strong_success"].values.astype(float))
    episodes = quietly(dataset.assign(strong_score=came))
    result = check_dependence(sampled(episodes), episodes)
    assert result.passed is False
    assert "groups='cluster'" in result.advice


def test_tasks_of_a_kind_side_by_side_are_seen_without_a_column():
    episodes = WRONG["clusters"](np.random.default_rng(SEED), 500, 1.0).episodes
    order = np.argsort(episodes.dataset["cluster"].values, kind="stable")
    side_by_side = quietly(episodes.dataset.drop_vars("cluster").isel(episode=order))
    result = check_dependence(sampled(side_by_side), side_by_side)
    assert result.passed is False
    assert "carry a column" in result.advice
