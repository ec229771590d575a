"""Every policy against a world that is played step by step in plain Python."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from policy_worlds import (
    COST,
    DIAGNOSTICS,
    Played,
    Task,
    chance_of,
    defer,
    draw_tasks,
    episodes_of,
    hand_off_at,
    play,
    pure_cheap,
    pure_strong,
    world_of,
)
from simulate import quietly

from bayes_tacit import Episodes, World
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    Count,
    FirstAlarm,
    Landmark,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
)
from bayes_tacit.policies.logistic import DABENCH, NEWTON

TRAINING_TASKS = draw_tasks(1, 300)
TASKS = draw_tasks(2, 120)
FIT = {"ridge": 0.01, "restarts": 2}


@pytest.fixture(scope="module")
def training() -> Episodes:
    return episodes_of(TRAINING_TASKS)


@pytest.fixture(scope="module")
def world() -> World:
    return world_of(TASKS)


def assert_same(fitted, world: World, brute) -> None:
    """Compare operating points and outcomes with a function that plays a task under a setting."""
    points = fitted.operating_points(world)
    assert len(points) == len(fitted.candidates)
    pd.testing.assert_frame_equal(points[list(fitted.candidates)], fitted.candidates)
    for (_, setting), (_, point) in zip(fitted.candidates.iterrows(), points.iterrows(), strict=True):
        played = [brute(task, setting) for task in TASKS]
        costs = [cost for _, cost in played]
        cheap, strong = (sum(getattr(one, name) for one, _ in played) for name in ("cheap_calls", "strong_calls"))
        assert point["success"] * len(TASKS) == pytest.approx(sum(one.success for one, _ in played), abs=1e-9)
        assert point["cost"] == pytest.approx(sum(costs) / len(TASKS), rel=1e-12)
        assert point["strong_share"] == pytest.approx(strong / (cheap + strong), rel=1e-12)
        assert point["intervention_rate"] == pytest.approx(sum(one.strong_calls > 0 for one, _ in played) / len(TASKS))
    for _, setting in fitted.candidates.iloc[:: max(1, len(fitted.candidates) // 7)].iterrows():
        outcomes = fitted.outcomes(world, setting)
        played = [brute(task, setting) for task in TASKS]
        assert outcomes.success.tolist() == [one.success for one, _ in played]
        np.testing.assert_allclose(outcomes.cost, [cost for _, cost in played], rtol=1e-12)
        assert outcomes.cheap_calls.tolist() == [one.cheap_calls for one, _ in played]
        assert outcomes.strong_calls.tolist() == [one.strong_calls for one, _ in played]


def priced(played: Played, heads: int = 0) -> tuple[Played, float]:
    return played, played.cost(heads)


def together(cheap: Played, strong: Played, heads: int = 0) -> tuple[Played, float]:
    both = Played(strong.success, cheap.cheap_calls, strong.strong_calls, [])
    return both, both.cost(heads)


def score(fit, task: Task, seen: list[list[float]]) -> float:
    """The paper's q(t), by the letter."""
    x = [(a - m) / s for a, m, s in zip(task.x, fit.feature_mean, fit.feature_scale, strict=True)]
    pi = 1 / (1 + math.exp(-fit.gamma0 - sum(g * a for g, a in zip(fit.gamma, x, strict=True))))
    mu = fit.beta0 + sum(b * a for b, a in zip(fit.beta, x, strict=True))
    risk = sum(sum(w * u for w, u in zip(fit.w, now, strict=True)) for now in seen)
    return pi * 0.5 * math.erfc(-(math.log(risk) - mu) / fit.s / math.sqrt(2))


def test_pure_policies_are_the_two_rollouts(training, world):
    assert_same(PureCheap().fit(training), world, lambda task, _: priced(pure_cheap(task)))
    assert_same(PureStrong().fit(training), world, lambda task, _: priced(pure_strong(task)))


def test_task_router_chooses_an_agent_before_the_first_step(training, world):
    fitted = TaskRouter().fit(training)
    assert len(fitted.candidates) == 101
    chance = fitted.make(fitted.candidates.iloc[0]).rule.cheap

    def brute(task, setting):
        return priced(pure_strong(task) if chance_of(chance, task.x) < setting["alpha"] else pure_cheap(task))

    assert_same(fitted, world, brute)


def test_task_router_reads_named_features_and_carried_descriptors(training, world):
    fitted = TaskRouter(features=("tool", "x2"), thresholds=(0.0, 0.3, 0.5, 1.01)).fit(training)
    chance = fitted.make(fitted.candidates.iloc[0]).rule.cheap

    def brute(task, setting):
        columns = [float(task.difficulty > 0.5), task.x[1]]
        return priced(pure_strong(task) if chance_of(chance, columns) < setting["alpha"] else pure_cheap(task))

    assert_same(fitted, world, brute)


def test_step_deferral_gives_strong_the_next_step_only(training, world):
    for name, place in (("risk", 0), ("doubt", 1)):
        fitted = StepDeferral(name, n_candidates=8).fit(training)
        assert_same(fitted, world, lambda task, s, place=place: priced(defer(task, place, s["alpha"])))


def test_step_deferral_reads_a_carried_column(training, world):
    fitted = StepDeferral("nll", average_steps=(0, 1, 2)).fit(training)
    assert_same(fitted, world, lambda task, s: priced(defer(task, 1, (s["alpha"] - 0.1) / 2)))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_step_deferral_targets_an_average_number_of_deferred_steps(training, timing):
    fitted = StepDeferral("risk", average_steps=(0, 0.5, 1, 2.5, 100), timing=timing).fit(training)
    rollouts = [pure_cheap(task).risks for task in TRAINING_TASKS]
    usable = [risks[:-1] if timing == "post_action" else risks for risks in rollouts]
    counts = [
        sum(risk[0] >= alpha for risks in usable for risk in risks) / len(rollouts)
        for alpha in fitted.candidates["alpha"]
    ]
    everything = sum(map(len, usable)) / len(rollouts)
    assert counts == pytest.approx([0, 0.5, 1, 2.5, everything], abs=0.51 / len(rollouts))


def test_prefix_router_restarts_and_pays_prefix_head_and_strong_episode(training, world):
    fitted = PrefixRouter(n_candidates=21).fit(training)
    assert set(fitted.candidates["k"]) == {1, 2, 3, 4}

    def brute(task, setting):
        k, cheap = int(setting["k"]), pure_cheap(task)
        if len(cheap.risks) <= k:
            return priced(cheap)
        columns = task.x + [value for risk in cheap.risks[:k] for value in risk]
        if chance_of(fitted.make(setting).rule.cheap, columns) >= setting["alpha"]:
            return priced(cheap, heads=1)
        prefix = Played(0, k, 0, [])
        return together(prefix, pure_strong(task), heads=1)

    assert any(len(pure_cheap(task).risks) == 4 for task in TASKS), "some episodes end with the last prefix"
    assert_same(fitted, world, brute)


@pytest.mark.parametrize("summaries", [("total", "highest", "last"), ("mean",)])
def test_cascade_judges_the_finished_episode_and_pays_for_both(training, world, summaries):
    fitted = Cascade(summaries=summaries, n_candidates=21).fit(training)
    chance = fitted.make(fitted.candidates.iloc[0]).rule.cheap
    summarize = {
        "total": math.fsum,
        "mean": lambda values: math.fsum(values) / len(values),
        "highest": max,
        "last": lambda values: values[-1],
    }

    def brute(task, setting):
        cheap = pure_cheap(task)
        series = [[risk[place] for risk in cheap.risks] for place in range(len(DIAGNOSTICS))]
        columns = task.x + [summarize[summary](values) for summary in summaries for values in series]
        if chance_of(chance, columns) >= setting["alpha"]:
            return priced(cheap)
        return together(cheap, pure_strong(task))

    assert_same(fitted, world, brute)


@pytest.mark.parametrize(
    ("name", "place", "scale", "shift"), [("risk", 0, 1, 0), ("doubt", 1, 1, 0), ("nll", 1, 2, 0.1)]
)
def test_first_alarm_hands_over_for_good_at_the_first_high_value(training, world, name, place, scale, shift):
    fitted = FirstAlarm(name).fit(training)
    assert len(fitted.candidates) > 90

    def brute(task, setting):
        return priced(play(task, lambda seen: _alarmed(seen, place, scale, shift, setting["alpha"])))

    assert_same(fitted, world, brute)


def _alarmed(seen, place, scale, shift, alpha) -> bool:
    if None in seen:
        return True
    return any(scale * risk[place] + shift >= alpha for risk in seen)


@pytest.mark.parametrize("candidates", ["score_quantiles", "switch_rates", fixed_grid()])
def test_tacit_switch_hands_over_for_good_at_the_first_crossing(training, world, candidates):
    fitted = TacitSwitch(options=FIT, candidates=candidates).fit(training)

    def brute(task, setting):
        return priced(play(task, lambda seen: _crossed(fitted.estimate, task, seen, setting["alpha"])))

    assert_same(fitted, world, brute)


def _crossed(fit, task, seen, alpha) -> bool:
    if None in seen:
        return True
    return bool(seen) and score(fit, task, seen) >= alpha


def test_tacit_switch_under_proposal_discards_the_proposal_and_pays_for_it(training, world):
    fitted = TacitSwitch(options={**FIT, "timing": "proposal"}, candidates="switch_rates").fit(training)

    def brute(task, setting):
        cheap = pure_cheap(task)
        for step in range(len(cheap.risks)):
            if score(fitted.estimate, task, cheap.risks[: step + 1]) >= setting["alpha"]:
                played = hand_off_at(task, step)
                return priced(replace(played, cheap_calls=played.cheap_calls + 1))
        return priced(cheap)

    assert_same(fitted, world, brute)


@pytest.mark.parametrize(
    ("policy", "rises"),
    [
        (TaskRouter(), True),
        (PrefixRouter(prefixes=(2,)), True),
        (Cascade(), True),
        (FirstAlarm("risk"), False),
        (TacitSwitch(options=FIT), False),
    ],
)
def test_interventions_are_monotone_in_the_threshold(training, world, policy, rises):
    points = policy.fit(training).operating_points(world).sort_values("alpha", ascending=rises)
    assert points["intervention_rate"].is_monotonic_increasing
    assert points["intervention_rate"].iloc[-1] > points["intervention_rate"].iloc[0]


def test_target_rates_send_that_share_of_training_tasks_to_strong(training):
    rates = (0, 0.125, 0.5, 0.875, 1)
    fitted = TaskRouter(rates=rates).fit(training)
    shares = [(fitted.handoffs(training, {"alpha": alpha}) == 0).mean() for alpha in fitted.candidates["alpha"]]
    assert shares == pytest.approx(rates, abs=0.51 / len(training))
    assert fitted.candidates["target"].tolist() == list(rates)


def test_candidates_are_quantiles_of_training_scores(training):
    fitted = TaskRouter(n_candidates=11).fit(training)
    chance = fitted.make(fitted.candidates.iloc[0]).rule.cheap
    probability = sorted(chance_of(chance, task.x) for task in TRAINING_TASKS)
    expected = [probability[round(level * (len(probability) - 1))] for level in np.linspace(0, 1, 11)]
    np.testing.assert_allclose(fitted.candidates["alpha"], expected, atol=0.005)
    assert fitted.candidates["alpha"].iloc[0] == pytest.approx(probability[0])
    assert fitted.candidates["alpha"].iloc[-1] == pytest.approx(probability[-1])


def test_presets_are_the_papers():
    alfworld, dabench = TaskRouter.alfworld(), TaskRouter.dabench()
    assert alfworld.thresholds == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6,
                                                 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01])  # fmt: skip
    assert alfworld.logistic.penalty == 1
    assert (alfworld.logistic.max_iterations, alfworld.logistic.tolerance) == (100, 1e-9)
    assert dabench.rates == (0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1)
    assert 1 / dabench.logistic.penalty == 0.1
    assert StepDeferral.alfworld("nll").average_steps == (0, 5, 10, 15, 20, 25, 30, 35, 40)
    assert StepDeferral.alfworld("nll").timing == StepDeferral.dabench("nll").timing == "proposal"
    assert StepDeferral.dabench("nll").average_steps == (0, 0.75, 1.5, 2.25, 3, 3.75, 4.5, 5.25, 6)
    assert PrefixRouter().prefixes == (1, 2, 3, 4)
    policies = (TaskRouter(), StepDeferral(), PrefixRouter(), FirstAlarm())
    assert {policy.n_candidates for policy in policies} == {101}
    assert (TaskRouter().logistic, DABENCH.penalty) == (NEWTON, 10)


def test_cheap_must_have_both_outcomes_in_training(training):
    failed = training.take(~training.dataset["cheap_success"].values)
    for policy in (TaskRouter(), PrefixRouter(), Cascade()):
        with pytest.raises(EvidenceError, match=rf"{policy.name}.*expected both outcomes"):
            policy.fit(failed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaskRouter(thresholds=(0.5,), rates=(0.5,)), "not both"),
        (lambda: TaskRouter(n_candidates=1), "n_candidates"),
        (lambda: PrefixRouter(prefixes=(0,)), "prefixes"),
        (lambda: PrefixRouter(prefixes=(2, 2)), "prefixes"),
        (lambda: Cascade(summaries=("median",)), "summaries"),
        (lambda: Cascade(summaries=()), "summaries"),
        (lambda: StepDeferral(timing="later"), "timing"),
        (lambda: FirstAlarm(timing="later"), "timing"),
        (lambda: FirstAlarm(n_candidates=1), "n_candidates"),
        (lambda: TacitSwitch(candidates="many"), "candidates"),
        (lambda: TacitSwitch(view=3), "view"),
        (lambda: TacitSwitch(estimator=len, options={"ridge": 1}), "options"),
    ],
)
def test_bad_settings_are_refused_at_once(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (TaskRouter(features=("x9",)), "feature is 'x9'"),
        (TaskRouter(features=("label",)), "feature is 'label'"),
        (TaskRouter(features=("cheap_success",)), "feature is 'cheap_success'"),
        (TaskRouter(rates=(0.5, 1.5)), "rates"),
        (TaskRouter(thresholds=("a",)), "thresholds"),
        (StepDeferral(), "diagnostic is None"),
        (StepDeferral("n_steps"), "diagnostic is 'n_steps'"),
        (FirstAlarm(), "diagnostic is None"),
        (FirstAlarm("cheap_success"), "diagnostic is 'cheap_success'"),
        (StepDeferral("risk", average_steps=(-1,)), "average_steps"),
        (TacitSwitch(estimator=lambda _: 3), "what the estimator gives"),
        (TacitSwitch(view=lambda episodes: episodes.take([1, 0])), "what the view gives"),
    ],
)
def test_what_the_episodes_do_not_have_is_refused(training, policy, message):
    with pytest.raises(InvalidDataError, match=message):
        policy.fit(training)


@pytest.mark.parametrize("setting", [{}, {"alpha": "high"}, {"alpha": math.nan}, 0.5, {"alpha": True}])
def test_a_setting_without_its_numbers_is_refused(training, world, setting):
    fitted = TaskRouter().fit(training)
    with pytest.raises(InvalidDataError, match="setting is"):
        fitted.outcomes(world, setting)


# Count and Landmark


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
    router = fitted.router({"alpha": 1})
    assert router.rule.levels.tolist() == pytest.approx(levels, rel=1e-12)
    assert router.diagnostic_names == ("risk", "doubt")

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


@pytest.mark.parametrize("handoff", ["resume", "restart"])
def test_landmark_hands_over_where_failure_of_cheap_times_success_of_strong_is_high(training, world, handoff):
    fitted = Landmark(n_candidates=21, handoff=handoff).fit(training)
    rule = fitted.make(fitted.candidates.iloc[0]).rule

    def scores(task):
        out, seen = [], []
        for step, now in enumerate(pure_cheap(task).risks):
            seen.append(now)
            total, highest = ([of(column) for column in zip(*seen, strict=True)] for of in (sum, max))
            columns = [*task.x, *total, *now, *highest, math.log(1 + step)]
            out.append((1 - chance_of(rule.cheap, columns)) * chance_of(rule.strong, columns))
        return out

    def brute(task, setting):
        return handed_off(task, first(scores(task), setting["alpha"] * (1 - 1e-12)), "post_action", handoff)

    assert_same(fitted, world, brute)


@pytest.mark.parametrize("always", [True, False])
def test_a_strong_that_always_ends_alike_has_a_rate_near_one_or_zero(training, always):
    dataset = training.dataset.assign(strong_success=("episode", np.full(len(training), always)))
    blank = ("episode", np.full(len(training), np.nan))
    fitted = Landmark().fit(quietly(dataset.assign(window_start=blank, window_end=blank)))
    strong = fitted.make(fitted.candidates.iloc[0]).rule.strong
    probability = strong(np.zeros((3, len(strong.slopes))))
    assert (abs(probability - always) < 0.001).all()
    assert ((probability > 0) & (probability < 1)).all()


# Restarts


@pytest.fixture(scope="module")
def logs(world):
    """The same tasks, of which nothing is known but both rollouts."""
    steps = [pure_strong(task).strong_calls for task in TASKS]
    return World.from_restarts(world.episodes, strong_steps=steps, cost=COST)


def restart_at(task, step, discarded=0):
    """Cheap plays up to a step, then Strong plays the task from its start."""
    cheap = pure_cheap(task)
    return together(type(cheap)(0, step + discarded, 0, []), pure_strong(task))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_first_alarm_can_restart_the_task(training, world, logs, timing):
    fitted = FirstAlarm("risk", timing=timing, handoff="restart", n_candidates=21).fit(training)

    def brute(task, setting):
        cheap = pure_cheap(task)
        for step, risk in enumerate(cheap.risks):
            if risk[0] >= setting["alpha"]:
                if timing == "proposal":
                    return restart_at(task, step, discarded=1)
                # After the last action the rollout has ended, and its result stands.
                return (cheap, cheap.cost()) if step + 1 == len(cheap.risks) else restart_at(task, step + 1)
        return cheap, cheap.cost()

    assert_same(fitted, world, brute)
    assert_same(fitted, logs, brute)


@pytest.mark.parametrize("policy", [TaskRouter(), PrefixRouter(n_candidates=11), Cascade(n_candidates=11)])
def test_policies_that_never_resume_need_nothing_but_both_rollouts(training, world, logs, policy):
    fitted = policy.fit(training)
    known, from_logs = (fitted.operating_points(one) for one in (world, logs))
    for name in ("success", "cost", "strong_share", "intervention_rate"):
        assert known[name].tolist() == pytest.approx(from_logs[name].tolist(), rel=1e-12)


def test_a_policy_that_resumes_says_that_logs_do_not_know(training, logs):
    for policy in (FirstAlarm("risk"), Count(), Landmark(), TacitSwitch(options=FIT)):
        with pytest.raises(InvalidDataError, match="paired rollouts do not say what comes of resuming"):
            policy.fit(training).operating_points(logs)
    for policy in (FirstAlarm, Count, Landmark, TacitSwitch):
        with pytest.raises(InvalidDataError, match="handoff is 'again'"):
            policy(handoff="again")
