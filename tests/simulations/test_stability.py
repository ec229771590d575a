"""The theorem by numbers: its losses are the library's, its derivatives right, and marks wrong as they should be."""

import numpy as np
import pytest

from bayes_tacit import fit_map
from simulations.stability.constants import Population, radius_bound, whitening
from simulations.stability.contamination import WRONG_MARKS, Contamination
from simulations.stability.design import TARGET, draw
from simulations.stability.losses import SIZE, Records, gradients, hessians, losses, score_gradients, scores
from simulations.studies.stability import target_of, with_outcomes

NUDGES = 1e-5 * np.eye(SIZE)


@pytest.fixture(scope="module")
def contamination():
    return Contamination.draw(draw(1_500, np.random.default_rng(1)), np.eye(SIZE)[4], np.random.default_rng(2))


@pytest.fixture(scope="module")
def records(contamination):
    mark = contamination.mark("anywhere", 0.3)
    return Records.of(contamination.sample, mark, mark, contamination.outcomes(0.1))


def slopes(function):
    return np.stack([(function(TARGET + nudge) - function(TARGET - nudge)) / 2e-5 for nudge in NUDGES], axis=-1)


def test_gradients_and_hessians_are_differences_of_the_losses(records):
    np.testing.assert_allclose(gradients(TARGET, records), slopes(lambda point: losses(point, records)), atol=1e-7)
    np.testing.assert_allclose(hessians(TARGET, records), slopes(lambda point: gradients(point, records)), atol=1e-6)


def test_gradients_of_q_are_differences_of_q(records, contamination):
    totals = contamination.sample.totals
    expected = slopes(lambda point: scores(point, records.design, totals))
    np.testing.assert_allclose(score_gradients(TARGET, records.design, totals), expected, atol=1e-8)


@pytest.mark.parametrize("kind", ["clean", "too late", "outcomes"])
def test_the_losses_are_those_that_the_library_minimizes(contamination, kind):
    sample, mark, strong = contamination.sample, contamination.sample.mark, contamination.sample.strong
    if kind == "too late":
        mark = contamination.mark(kind, 0.2)
    if kind == "outcomes":
        strong = contamination.outcomes(0.2)
    episodes = with_outcomes(sample, strong) if kind == "outcomes" else sample.episodes(mark)
    fit = fit_map(episodes, ridge=0.0, restarts=1, unmarked="outcome")
    records, point = Records.of(sample, mark, mark, strong), target_of(fit)
    assert losses(point, records).mean() == pytest.approx(fit.objective, rel=1e-10)
    np.testing.assert_allclose(gradients(point, records).mean(axis=0), 0, atol=1e-6)


def test_wrong_marks_are_as_many_as_asked_for_and_a_higher_rate_adds_to_a_lower_one(contamination):
    sample = contamination.sample
    for kind in WRONG_MARKS:
        few, many = (np.flatnonzero(contamination.mark(kind, rate) != sample.mark) for rate in (0.1, 0.3))
        assert len(few) == round(0.1 * len(sample.timed))
        assert set(few) < set(many) <= set(sample.timed)
    moved = contamination.mark("neighbour", 1.0)[sample.timed]
    assert (np.abs(moved - sample.mark[sample.timed]) == 1).all()
    assert set(contamination.mark("anywhere", 1.0)[sample.timed]) == set(range(sample.horizon))
    assert (contamination.outcomes(0.3) != sample.strong).sum() == round(0.3 * len(sample.strong))


def test_no_other_single_mark_does_more_harm_than_the_worst(contamination):
    sample = contamination.sample
    clean = Records.of(sample, sample.mark, sample.mark)
    worst = contamination.mark("worst", 1.0)
    along = [
        np.abs((gradients(TARGET, Records.of(sample, mark, mark)) - gradients(TARGET, clean))[:, 4])
        for mark in (worst, *(contamination.mark(kind, 1.0) for kind in ("neighbour", "anywhere", "too late")))
    ]
    assert all((along[0] >= other - 1e-12).all() for other in along[1:])


def test_constants_hold_what_they_promise():
    population = Population(draw(4_000, np.random.default_rng(3)))
    hessian = population.hessian()
    frame = whitening(hessian)
    np.testing.assert_allclose(frame.T @ hessian @ frame, np.eye(SIZE), atol=1e-9)
    white = Population(population.sample, frame)
    assert 0 < white.curvature(0.05) < 1
    score = gradients(TARGET, population.records)[:, 9]
    assert population.spread() >= score.std()


def test_the_bound_is_the_papers():
    # 2 sigma sqrt(2 (p log 5 + log(4 / delta)) / n) + G_T rho_T, by hand for p = 10.
    expected = 2 * 1.5 * np.sqrt(2 * (10 * np.log(5) + np.log(80)) / 400) + 7 * 0.02
    assert radius_bound(1.5, 7.0, 400, 0.02, 0.05) == pytest.approx(expected)
