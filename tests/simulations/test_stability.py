"""Both sides of the theorem on wrong intervals: designs, losses, constants, and the page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from bayes_tacit import fit_map
from simulations.stability.constants import (
    Constants,
    Exchange,
    LargeSample,
    Population,
    net_factor,
    radius_bound,
    sub_gaussian,
    whitening,
)
from simulations.stability.contamination import (
    AIMED_RATE,
    SIZE,
    TARGET,
    WRONG_MARKS,
    WRONG_OUTCOMES,
    Contamination,
    Records,
    draw,
    farthest_direction,
    gradients,
    hessians,
    losses,
    mark_changes,
    score_gradients,
    scores,
)
from simulations.studies.stability import target_of, with_outcomes
from simulations.studies.stability_tables import bias, failures, power, rounded, size_power

NUDGES = 1e-5 * np.eye(SIZE)


@pytest.fixture(scope="module")
def contamination():
    return Contamination.draw(draw(1_500, np.random.default_rng(1)), np.eye(SIZE)[4], np.random.default_rng(2))


@pytest.fixture(scope="module")
def white(contamination):
    """A sample, and the frame in which its Hessian is the unit matrix."""
    return contamination.sample, whitening(Population(contamination.sample).hessian())


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


def test_the_worst_marks_push_farthest_and_all_the_same_way(contamination):
    sample = contamination.sample
    clean = gradients(TARGET, Records.of(sample, sample.mark, sample.mark))
    along = {kind: (gradients(TARGET, contamination.records(kind, 1.0)) - clean)[:, 4] for kind in WRONG_MARKS}
    assert (along["worst"] >= 0).all()
    assert all((along["worst"] >= other - 1e-12).all() for other in along.values())
    pushed = along["worst"][contamination.changed("worst", 1.0)]
    assert (pushed > 0).all()
    assert (np.diff(pushed) <= 0).all()


def test_no_other_direction_makes_a_longer_first_step_than_the_farthest(white):
    sample, frame = white
    changes = mark_changes(sample) @ frame

    def step(along):
        pushes = changes @ along
        chosen = np.argsort(-pushes.max(axis=1))[: round(AIMED_RATE * len(changes))]
        return np.linalg.norm(changes[chosen, pushes.argmax(axis=1)[chosen]].sum(axis=0))

    found = np.linalg.solve(frame, farthest_direction(sample, frame))
    assert np.linalg.norm(found) == pytest.approx(1)
    drawn = np.random.default_rng(6).normal(size=(300, SIZE))
    assert step(found) >= max(step(v / np.linalg.norm(v)) for v in drawn)


@pytest.mark.parametrize("kind", ["worst"])
def test_a_large_sample_is_fitted_as_the_library_fits_it(kind, white):
    direction, seeds = np.linalg.solve(white[1].T, np.eye(SIZE)[4]), np.random.SeedSequence(7)
    large = LargeSample.draw(3_000, {"worst": (0.05,), WRONG_OUTCOMES: (0.2,)}, direction, seeds)
    rng = np.random.default_rng(np.random.SeedSequence(7).spawn(1)[0])
    drawn = Contamination.draw(draw(3_000, rng), direction, rng)
    cases = {
        "clean": (Exchange([], []), drawn.sample.episodes()),
        "worst": (large.exchanges.get(("worst", 0.05)), drawn.sample.episodes(drawn.mark("worst", 0.05))),
        WRONG_OUTCOMES: (large.exchanges.get((WRONG_OUTCOMES, 0.2)), with_outcomes(drawn.sample, drawn.outcomes(0.2))),
    }
    exchange, episodes = cases[kind]
    fit = fit_map(episodes, ridge=0.0, restarts=1, unmarked="outcome")
    np.testing.assert_allclose(large.fit(exchange), target_of(fit), atol=1e-4)
    if kind != "clean":
        assert exchange.count == len(drawn.changed(kind, {"worst": 0.05}.get(kind, 0.2)))


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
    """Yield every wrong mark of a kind, one by one."""
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


@pytest.mark.parametrize("kind", ["neighbour"])
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


def test_the_bound_is_the_papers():
    # 2 sigma sqrt(2 (p log 5 + log(4 / delta)) / n) + G_T rho_T, by hand for p = 10.
    expected = 2 * 1.5 * np.sqrt(2 * (10 * np.log(5) + np.log(80)) / 400) + 7 * 0.02
    assert radius_bound(1.5, 7.0, 400, 0.02, 0.05) == pytest.approx(expected)
    assert net_factor(0.05) == pytest.approx(20 * radius_bound(1.0, 0.0, 400, 0.0, 0.05))


POWERS = {"neighbour": 1.0, "anywhere": 0.7, "too late": 1.3, "worst": 0.5, WRONG_OUTCOMES: 1.0}
CONSTANTS = Constants(
    coordinates="whitened",
    radius=0.1,
    mu=0.5,
    sigma=5.0,
    slope=2.0,
    influence=dict.fromkeys(WRONG_MARKS, 100.0),
    curvature=dict.fromkeys(WRONG_MARKS, 500.0),
    timed=0.25,
    delta=0.05,
)


def table(sizes, rates):
    """Make a table in which the clean error is 3 / sqrt(n), and the estimate moves by a power of the rate."""
    rows = []
    for n in sizes:
        clean = 3 / np.sqrt(n)
        for replicate in range(3):
            whole = {"n": n, "replicate": replicate, "q_max": 0.01, "pull_whitened": 0.05}
            errors = {"error_plain": clean, "error_whitened": clean, "moved_whitened": 0.0}
            rows.append({**whole, "kind": "clean", "rate": 0.0, "share": 0.0, **errors})
            for kind, exponent in POWERS.items():
                for rate in rates:
                    moved = 0.002 * rate if kind == "neighbour" else rate**exponent
                    error = float(np.hypot(clean, moved))
                    errors = {"error_plain": error, "error_whitened": error, "moved_whitened": moved}
                    share = 0.0 if kind == WRONG_OUTCOMES else 0.25 * rate
                    rows.append({**whole, "kind": kind, "rate": rate, "share": share, **errors})
    return pd.DataFrame(rows)


@pytest.fixture
def grid():
    return table((2_000, 8_000, 32_000), (0.02, 0.1, 0.4))


def test_powers_are_those_that_made_the_table(grid):
    assert size_power(grid, "clean") == pytest.approx(-0.5)
    for kind, exponent in POWERS.items():
        assert power(grid, kind, "moved_whitened")[0] == pytest.approx(exponent)
    assert bias(grid, "worst", 0.4) == pytest.approx(0.4**0.5)


def test_wrong_outcomes_are_shown_with_the_tasks_from_which_the_bound_is_below_their_error(grid):
    large = table((100_000_000,), (0.02, 0.4))
    words = failures(grid, large, CONSTANTS)
    assert f"| 40% | 0.400 | 0.400 | 0.400 | {rounded(CONSTANTS.tasks_needed)} |" in words
    assert f"| 0.020 | {rounded(CONSTANTS.tasks_below(0.02))} |" in words
