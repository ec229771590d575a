"""Count and Landmark, against a world that is played step by step in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from policy_worlds import episodes_of, hand_off_at, pure_cheap, pure_strong, world_of
from simulate import quietly
from test_policies import TASKS, TRAINING_TASKS, assert_same, logistic, priced, together

from bayes_tacit import Episodes
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies import Count, Landmark


@pytest.fixture(scope="module")
def training() -> Episodes:
    return episodes_of(TRAINING_TASKS)


@pytest.fixture(scope="module")
def world():
    return world_of(TASKS)


def handed_off(task, step, timing, handoff):
    """Play a task that is handed off at a checkpoint, or not at all."""
    cheap = pure_cheap(task)
    if step is None or (timing == "post_action" and step + 1 == len(cheap.risks)):
        return priced(cheap)
    acted, discarded = (step + 1, 0) if timing == "post_action" else (step, 1)
    if handoff == "restart":
        return together(type(cheap)(0, acted + discarded, 0, []), pure_strong(task))
    played = hand_off_at(task, acted)
    return priced(type(played)(played.success, played.cheap_calls + discarded, played.strong_calls, []))


def first(values, alpha):
    return next((step for step, value in enumerate(values) if value >= alpha), None)


@pytest.mark.parametrize("handoff", ["resume", "restart"])
@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_count_hands_over_where_enough_values_were_above_their_training_mean(training, world, timing, handoff):
    fitted = Count(timing=timing, handoff=handoff).fit(training)
    values = [risk for task in TRAINING_TASKS for risk in pure_cheap(task).risks]
    levels = [math.fsum(column) / len(values) for column in zip(*values, strict=True)]
    assert list(fitted.levels.values()) == pytest.approx(levels, rel=1e-12)
    assert list(fitted.levels) == ["risk", "doubt"]

    def counts(task):
        signs = [sum(u > level for u, level in zip(now, levels, strict=True)) for now in pure_cheap(task).risks]
        return np.cumsum(signs).tolist()

    most = max(max(counts(task)) for task in TRAINING_TASKS)
    assert fitted.candidates["alpha"].tolist() == list(range(1, most + 1))
    assert_same(
        fitted, world, lambda task, setting: handed_off(task, first(counts(task), setting["alpha"]), timing, handoff)
    )
    usable = [counts(task)[: -1 if timing == "post_action" else None] for task in TRAINING_TASKS]
    for _, row in fitted.candidates.iterrows():
        assert row["target"] == pytest.approx(np.mean([max(one, default=0) >= row["alpha"] for one in usable]))


def test_a_zero_or_one_diagnostic_is_a_sign_where_it_is_one_and_a_constant_one_never_is(training):
    dataset = training.dataset
    marks = np.where(np.isnan(dataset["diagnostics"].values), np.nan, dataset["diagnostics"].values > 0.9)
    marks[:, :, 1] = np.where(np.isnan(marks[:, :, 1]), np.nan, 0.1)
    episodes = quietly(dataset.assign(diagnostics=(("episode", "step", "diagnostic"), marks)))
    expected = np.where(np.isnan(marks[:, :, 0]), np.nan, np.nancumsum(marks[:, :, 0], axis=1))
    np.testing.assert_array_equal(Count().fit(episodes).scores(episodes), expected)


def test_count_takes_the_diagnostics_it_is_told(training):
    assert list(Count(("doubt",)).fit(training).levels) == ["doubt"]
    with pytest.raises(InvalidDataError, match="'nothing' among them"):
        Count(("nothing",)).fit(training)


@pytest.mark.parametrize("handoff", ["resume", "restart"])
def test_landmark_hands_over_where_failure_of_cheap_times_success_of_strong_is_high(training, world, handoff):
    fitted = Landmark(n_candidates=21, handoff=handoff).fit(training)

    def scores(task):
        out, seen = [], []
        for step, now in enumerate(pure_cheap(task).risks):
            seen.append(now)
            total, highest = ([of(column) for column in zip(*seen, strict=True)] for of in (sum, max))
            columns = [*task.x, *total, *now, *highest, math.log(1 + step)]
            out.append((1 - logistic(fitted.cheap, columns)) * logistic(fitted.strong, columns))
        return out

    def brute(task, setting):
        return handed_off(task, first(scores(task), setting["alpha"] * (1 - 1e-12)), "post_action", handoff)

    assert_same(fitted, world, brute)


def test_landmark_learns_from_the_checkpoints_at_which_a_handoff_can_come(training):
    """Sharing them out over episodes, each counted once, gives the same models as scikit-learn's."""
    from sklearn.linear_model import LogisticRegression

    fitted = Landmark(timing="post_action").fit(training)
    rows, cheap, strong = [], [], []
    for task in TRAINING_TASKS:
        rollout, seen = pure_cheap(task), []
        for step, now in enumerate(rollout.risks[:-1]):
            seen.append(now)
            total, highest = (np.array(seen).sum(axis=0), np.array(seen).max(axis=0))
            rows.append([*task.x, *total, *now, *highest, math.log(1 + step)])
            cheap.append(rollout.success)
            strong.append(pure_strong(task).success)
    columns = np.array(rows)
    x = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    for model, outcome in ((fitted.cheap, cheap), (fitted.strong, strong)):
        peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x, outcome)
        np.testing.assert_allclose(model.slopes, peer.coef_[0], atol=1e-5)
        assert model.intercept == pytest.approx(peer.intercept_[0], abs=1e-5)


@pytest.mark.parametrize("always", [True, False])
def test_a_strong_that_always_ends_alike_has_a_rate_near_one_or_zero(training, always):
    dataset = training.dataset.assign(strong_success=("episode", np.full(len(training), always)))
    blank = ("episode", np.full(len(training), np.nan))
    fitted = Landmark().fit(quietly(dataset.assign(window_start=blank, window_end=blank)))
    probability = fitted.strong.probability(np.zeros((3, len(fitted.strong.names))))
    assert (abs(probability - always) < 0.001).all()
    assert ((probability > 0) & (probability < 1)).all()


def test_landmark_says_what_it_cannot_learn_from(training):
    dataset = training.dataset
    blank = ("episode", np.full(len(training), np.nan))
    alike = quietly(
        dataset.assign(cheap_success=("episode", np.zeros(len(training), bool)), window_start=blank, window_end=blank)
    )
    with pytest.raises(EvidenceError, match="Cheap succeeds in 0 of"):
        Landmark().fit(alike)
    short = quietly(
        dataset.isel(step=[0]).assign(
            n_steps=("episode", np.ones(len(training), int)), window_start=blank, window_end=blank
        )
    )
    with pytest.raises(EvidenceError, match="every rollout has one step"):
        Landmark().fit(short)
    with pytest.raises(InvalidDataError, match="as in training"):
        Landmark().fit(training).scores(Episodes(dataset.isel(diagnostic=[1, 0])))
