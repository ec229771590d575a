"""The theorem's constants are what a slower search of another kind finds, and its conditions are counted in marks."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from simulations.stability.constants import Constants, Population, net_factor, radius_bound, sub_gaussian, whitening
from simulations.stability.contamination import (
    SIZE,
    TARGET,
    Records,
    draw,
    gradients,
    hessians,
    possible_marks,
    score_gradients,
)

RADIUS = 0.1


@pytest.fixture(scope="module")
def population():
    plain = Population(draw(400, np.random.default_rng(3)))
    return Population(plain.sample, whitening(plain.hessian()))


def extreme(function, starts):
    """Find the largest value on the sphere by a quasi-Newton method, from some starts."""

    def lost(free):
        return -function(RADIUS * free / np.linalg.norm(free))

    return -min(optimize.minimize(lost, start, method="BFGS", options={"gtol": 1e-4}).fun for start in starts)


def directions(count, seed=4):
    drawn = np.random.default_rng(seed).normal(size=(count, SIZE))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def wrong_marks(sample, kind):
    """Give every wrong mark of a kind, one by one."""
    last = sample.horizon - 1
    for row in sample.timed:
        at = sample.mark[row]
        allowed = {"neighbour": {at - 1, at + 1}, "too late": {last}}.get(kind, set(range(last + 1)))
        yield from ((row, mark) for mark in sorted(allowed) if mark != at and 0 <= mark <= last)


def test_the_frame_makes_the_hessian_the_unit_matrix(population):
    np.testing.assert_allclose(population.hessian(), np.eye(SIZE), atol=1e-9)


def test_mu_is_the_lowest_curvature_that_another_search_finds(population):
    def bend(shift):
        return -np.linalg.eigvalsh(population.hessian(shift))[0]

    rough = sorted(directions(60), key=lambda v: -bend(RADIUS * v))
    assert population.curvature(RADIUS) == pytest.approx(-extreme(bend, rough[:3]), rel=1e-3)


@pytest.mark.parametrize("kind", ["neighbour", "anywhere", "too late"])
def test_influences_are_the_largest_over_every_record_and_wrong_mark(population, kind):
    sample, frame = population.sample, population.frame
    pairs = np.array(list(wrong_marks(sample, kind)))
    moved = sample.take(pairs[:, 0])
    clean, wrong = Records.of(moved, moved.mark, moved.mark), Records.of(moved, pairs[:, 1], pairs[:, 1])
    influence, curvature = population.influences(kind, RADIUS)
    change = (gradients(TARGET, wrong) - gradients(TARGET, clean)) @ frame
    assert influence == pytest.approx(np.linalg.norm(change, axis=1).max(), rel=1e-12)

    def sizes(shift, rows):
        difference = hessians(population.point(shift), wrong.take(rows)) - hessians(
            population.point(shift), clean.take(rows)
        )
        return np.linalg.norm(frame.T @ difference @ frame, ord=2, axis=(1, 2))

    everyone = np.arange(len(pairs))
    seen = np.array([sizes(RADIUS * v, everyone) for v in directions(15)])
    assert curvature >= seen.max()
    tops = np.argsort(-seen.max(axis=0))[:2]
    found = max(extreme(lambda shift, at=at: sizes(shift, [at])[0], directions(1, seed=5)) for at in tops)
    assert 0.999 * found <= curvature <= 1.03 * found


def test_the_worst_marks_may_be_any(population):
    for found, expected in zip(
        *(possible_marks(population.sample, kind) for kind in ("worst", "anywhere")), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_the_slope_of_q_is_the_largest_over_tasks_steps_and_the_ball(population):
    design, totals = population.records.design, population.sample.totals

    def sizes(shift, rows):
        slopes = score_gradients(population.point(shift), design[rows], totals[rows]) @ population.frame
        return np.linalg.norm(slopes, axis=2).max(axis=1)

    seen = np.array([sizes(RADIUS * v, np.arange(len(design))) for v in directions(15)])
    tops = np.argsort(-seen.max(axis=0))[:12]
    found = max(extreme(lambda shift, at=at: sizes(shift, [at])[0], directions(2, seed=5)) for at in tops)
    slope = population.score_slope(RADIUS)
    assert slope >= seen.max()
    assert 0.999 * found <= slope <= 1.03 * found


def test_sigma_is_the_largest_over_directions(population):
    slopes = gradients(TARGET, population.records) @ population.frame
    slopes -= slopes.mean(axis=0)
    many = [sub_gaussian(slopes @ v) for v in directions(200)]
    starts = [directions(200)[at] for at in np.argsort(many)[-2:]]
    found = extreme(lambda shift: sub_gaussian(slopes @ (shift / RADIUS)), starts)
    sigma = population.spread()
    assert sigma >= max(many)
    assert sigma == pytest.approx(found, rel=1e-3)


@pytest.fixture
def constants():
    values = {"mu": 0.4, "L_q": 2.0, "timed": 0.25, "sigma": 5.0}
    rows = [{"constant": name, "kind": "", "value": value} for name, value in values.items()]
    rows += [{"constant": "G_T", "kind": "far", "value": 100.0}, {"constant": "H_T", "kind": "far", "value": 500.0}]
    rows += [{"constant": "G_T", "kind": "near", "value": 100.0}, {"constant": "H_T", "kind": "near", "value": 10.0}]
    table = pd.DataFrame([{"radius": 0.0 if row["constant"] in ("timed", "sigma") else 0.15, **row} for row in rows])
    flat = pd.DataFrame([{"constant": "mu", "kind": "", "value": 0.5, "radius": 0.1}])
    return Constants.of(pd.concat([flat, table]).assign(coordinates="plain"), "plain", delta=0.05)


def test_the_radius_is_the_one_with_which_the_theorem_applies_soonest(constants):
    assert (constants.radius, constants.mu) == (0.15, 0.4)


def test_the_tasks_needed_are_where_the_condition_begins_to_hold(constants):
    def spare(n):
        return 0.4 * 0.15 / 2 - radius_bound(5.0, 0.0, n, 0.0, 0.05)

    needed = optimize.brentq(spare, 1e3, 1e9)
    assert constants.tasks_needed == pytest.approx(needed)
    assert not constants.holds("", 0.999 * needed, 0.0)
    assert constants.holds("", 1.001 * needed, 0.0)
    assert constants.bound("", constants.tasks_below(0.02), 0.0) == pytest.approx(0.02)


@pytest.mark.parametrize(("kind", "records"), [("far", 0.4 / 4 / 500), ("near", 0.4 * 0.15 / 2 / 100)])
def test_the_share_that_may_be_wrong_is_of_the_marks_and_meets_both_conditions(constants, kind, records):
    assert constants.wrong_allowed(kind) == pytest.approx(records / 0.25)
    for share, holds in ((0.999 * records, True), (1.001 * records, False)):
        assert constants.holds(kind, 1e18, share) is holds


def test_the_bound_is_the_papers():
    # 2 sigma sqrt(2 (p log 5 + log(4 / delta)) / n) + G_T rho_T, by hand for p = 10.
    expected = 2 * 1.5 * np.sqrt(2 * (10 * np.log(5) + np.log(80)) / 400) + 7 * 0.02
    assert radius_bound(1.5, 7.0, 400, 0.02, 0.05) == pytest.approx(expected)
    assert net_factor(0.05) == pytest.approx(20 * radius_bound(1.0, 0.0, 400, 0.0, 0.05))
