"""The prior of the weights: how far q(t) moves is what reweighted draws say, and too far is told."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayes_tacit.review.checks import check_weights
from bayes_tacit.review.checks.weights import LIMIT, _moved
from bayes_tacit.scores.score import handoff_score
from bayes_tacit.scores.sources import as_draws


def test_q_moves_as_it_does_under_reweighted_draws(posterior, example):
    """Each draw weighted by the ratio of two Dirichlet densities; the change is small enough for first order."""
    some = example.take(slice(0, 150))
    step = 0.2
    w = as_draws(posterior).draws.w
    ratio = -step * np.log(w).sum(axis=1)
    weight = np.exp(ratio - ratio.max())
    q = handoff_score(posterior, some).values
    q = q.reshape(-1, *q.shape[2:])[:, np.arange(q.shape[3]) < some.n_steps[:, None]]
    shift = np.abs(np.average(q, axis=0, weights=weight) - q.mean(axis=0)) / q.std(axis=0)
    expected = _moved(as_draws(posterior), some, step / np.log(2))
    assert abs(shift.mean() / expected - 1) < 0.2


def test_weights_that_the_data_do_not_know_are_told(posterior, example, rng):
    w = posterior["posterior"]["w"]
    unknown = posterior.copy()
    drawn = rng.dirichlet(np.ones(w.sizes["diagnostic"]), size=w.shape[:2])
    unknown["posterior"] = xr.DataTree(posterior["posterior"].to_dataset().assign(w=(w.dims, drawn)))
    known, told = check_weights(posterior, example), check_weights(unknown, example)
    assert known.passed is True
    assert told.passed is False
    assert f"(limit {LIMIT})" in known.sentence
    assert "the bands of q(t) cover less than they say" in told.sentence
    assert "WeaklyInformativePrior(concentration=0.5)" in told.advice
    assert told.figure is not None
    assert told.figure().axes
