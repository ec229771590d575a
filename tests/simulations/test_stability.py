"""The theorem by numbers: its losses are the library's, its derivatives right, and marks wrong as they should be."""

import numpy as np
import pytest

from bayes_tacit import fit_map
from simulations.stability.constants import Exchange, LargeSample, Population, whitening
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


def test_marks_that_push_the_same_way_do_more_harm_than_an_unsigned_choice(white):
    sample, frame = white
    weakest = np.linalg.eigh(Population(sample).hessian())[1][:, 0]
    count = round(AIMED_RATE * len(sample.timed))
    direction = farthest_direction(sample, frame)
    aligned = Contamination.draw(sample, direction, np.random.default_rng(5)).mark("worst", AIMED_RATE)
    unsigned = sample.mark.copy()
    pushes = np.abs(mark_changes(sample) @ weakest)
    strongest = np.argsort(-pushes.max(axis=1))[:count]
    unsigned[sample.timed[strongest]] = pushes.argmax(axis=1)[strongest]
    steps, errors = [], []
    for mark in (aligned, unsigned):
        assert (mark != sample.mark).sum() == count
        changed = gradients(TARGET, Records.of(sample, mark, mark)) - gradients(
            TARGET, Records.of(sample, sample.mark, sample.mark)
        )
        steps.append(np.linalg.norm(changed.sum(axis=0) @ frame))
        fit = fit_map(sample.episodes(mark), ridge=0.0, restarts=1, unmarked="outcome")
        errors.append(np.linalg.norm(np.linalg.solve(frame, target_of(fit) - TARGET)))
    assert steps[0] > 1.1 * steps[1]
    assert errors[0] > 1.1 * errors[1]


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


@pytest.mark.parametrize("kind", ["clean", "worst", WRONG_OUTCOMES])
def test_a_large_sample_is_fitted_as_the_library_fits_it(kind, white):
    direction, seeds = np.linalg.solve(white[1].T, np.eye(SIZE)[4]), np.random.SeedSequence(7)
    large = LargeSample.draw(3_000, {"worst": (0.05,), WRONG_OUTCOMES: (0.2,)}, direction, seeds)
    rng = np.random.default_rng(np.random.SeedSequence(7).spawn(1)[0])
    drawn = Contamination.draw(draw(3_000, rng), direction, rng)
    cases = {
        "clean": (Exchange([], []), drawn.sample.episodes()),
        "worst": (large.exchanges.get(("worst", 0.05)), drawn.sample.episodes(drawn.mark("worst", 0.05))),
        WRONG_OUTCOMES: (
            large.exchanges.get((WRONG_OUTCOMES, 0.2)),
            with_outcomes(drawn.sample, drawn.outcomes(0.2)),
        ),
    }
    exchange, episodes = cases[kind]
    fit = fit_map(episodes, ridge=0.0, restarts=1, unmarked="outcome")
    np.testing.assert_allclose(large.fit(exchange), target_of(fit), atol=1e-4)
    if kind != "clean":
        assert exchange.count == len(drawn.changed(kind, {"worst": 0.05}.get(kind, 0.2)))
