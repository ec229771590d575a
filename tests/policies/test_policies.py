"""Every policy against a world that is played step by step in plain Python."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bayes_tacit.policies.branches import two_way_points
from hypothesis import given
from hypothesis import strategies as st
from policy_worlds import (
    COST,
    DIAGNOSTICS,
    Played,
    Task,
    defer,
    draw_tasks,
    episodes_of,
    hand_off_at,
    play,
    pure_cheap,
    pure_strong,
    world_of,
)

from bayes_tacit import Counterfactuals, Episodes, StepCost
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    FirstAlarm,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    World,
    single_steps,
)
from bayes_tacit.policies.logistic import LBFGS, NEWTON

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


def logistic(model, columns: list[float]) -> float:
    mean, scale = model.standardization.mean.tolist(), model.standardization.scale.tolist()
    terms = zip(model.slopes.tolist(), columns, mean, scale, strict=True)
    return 1 / (1 + math.exp(-model.intercept - sum(b * (x - m) / s for b, x, m, s in terms)))


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

    def brute(task, setting):
        return priced(pure_strong(task) if logistic(fitted.model, task.x) < setting["alpha"] else pure_cheap(task))

    assert_same(fitted, world, brute)


def test_task_router_reads_named_features_and_carried_descriptors(training, world):
    fitted = TaskRouter(features=("tool", "x2"), thresholds=(0.0, 0.3, 0.5, 1.01)).fit(training)

    def brute(task, setting):
        columns = [float(task.difficulty > 0.5), task.x[1]]
        return priced(pure_strong(task) if logistic(fitted.model, columns) < setting["alpha"] else pure_cheap(task))

    assert_same(fitted, world, brute)


def test_step_deferral_gives_strong_the_next_step_only(training, world, monkeypatch):
    monkeypatch.setattr(single_steps, "AT_ONCE", 3 * len(TASKS))
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
        if logistic(fitted.models[k], columns) >= setting["alpha"]:
            return priced(cheap, heads=1)
        prefix = Played(0, k, 0, [])
        return together(prefix, pure_strong(task), heads=1)

    assert any(len(pure_cheap(task).risks) == 4 for task in TASKS), "some episodes end with the last prefix"
    assert_same(fitted, world, brute)


def test_prefix_router_copes_with_prefixes_longer_than_all_episodes(training, world):
    fitted = PrefixRouter(prefixes=(1,), n_candidates=3).fit(training)
    short = world.episodes.take(world.episodes.n_steps == world.episodes.n_steps.min())
    k = int(short.horizon)
    models = {k: PrefixRouter(prefixes=(k,)).fit(training).models[k]}
    assert np.isnan(replace(fitted, models=models).probability(short, k)).all()


@pytest.mark.parametrize("summaries", [("total", "highest", "last"), ("mean",)])
def test_cascade_judges_the_finished_episode_and_pays_for_both(training, world, summaries):
    fitted = Cascade(summaries=summaries, n_candidates=21).fit(training)
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
        if logistic(fitted.model, columns) >= setting["alpha"]:
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


def test_first_alarm_under_proposal_discards_the_proposal_and_pays_for_it(training, world):
    fitted = FirstAlarm("risk", timing="proposal", n_candidates=21).fit(training)

    def brute(task, setting):
        for step, risk in enumerate(pure_cheap(task).risks):
            if risk[0] >= setting["alpha"]:
                played = hand_off_at(task, step)
                return priced(Played(played.success, step + 1, played.strong_calls, []))
        return priced(pure_cheap(task))

    assert_same(fitted, world, brute)


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_first_alarm_says_which_share_of_training_tasks_each_threshold_hands_off(training, timing):
    fitted = FirstAlarm("risk", timing=timing).fit(training)
    rollouts = [[risk[0] for risk in pure_cheap(task).risks] for task in TRAINING_TASKS]
    usable = [risks[:-1] if timing == "post_action" else risks for risks in rollouts]
    for _, row in fitted.candidates.iterrows():
        shares = [any(risk >= row["alpha"] for risk in risks) for risks in usable]
        assert row["target"] == pytest.approx(np.mean(shares))
    everything = sorted(risk for risks in rollouts for risk in risks)
    assert fitted.candidates["alpha"].iloc[[0, -1]].tolist() == pytest.approx([everything[0], everything[-1]])


def test_first_alarm_takes_the_only_diagnostic(training):
    alone = Episodes(training.dataset.isel(diagnostic=[1]))
    pd.testing.assert_frame_equal(FirstAlarm().fit(alone).candidates, FirstAlarm("doubt").fit(training).candidates)


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


def test_policies_that_decide_alike_get_identical_outcomes(training, world):
    strong, cheap = PureStrong().fit(training), PureCheap().fit(training)
    pure = {0: strong.outcomes(world, {"handoff": 0}), -1: cheap.outcomes(world, {"handoff": -1})}
    router = TaskRouter(thresholds=(0.0, 1.01)).fit(training)
    tacit = TacitSwitch(options=FIT).fit(training)
    deferral = StepDeferral("risk").fit(training)
    cascade = Cascade().fit(training)
    alarm = FirstAlarm("risk").fit(training)
    never = [
        alarm.outcomes(world, {"alpha": math.inf}),
        router.outcomes(world, {"alpha": 0.0}),
        tacit.outcomes(world, {"alpha": 1.01}),
        deferral.outcomes(world, {"alpha": math.inf}),
        cascade.outcomes(world, {"alpha": 0.0}),
    ]
    for outcomes, reference in [(router.outcomes(world, {"alpha": 1.01}), 0), *((one, -1) for one in never)]:
        for name in ("success", "cost", "cheap_calls", "strong_calls"):
            np.testing.assert_array_equal(getattr(outcomes, name), getattr(pure[reference], name))


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


def test_settings_can_profile_memory_for_in_any_order(training, world):
    learned = [TaskRouter(), PrefixRouter(), Cascade(), TacitSwitch(options=FIT)]
    for policy in (*learned, FirstAlarm("risk"), StepDeferral("risk", n_candidates=5)):
        fitted = policy.fit(training)
        some = fitted.candidates.sample(min(9, len(fitted.candidates)), random_state=3)
        found = fitted.operating_points(world, some)
        expected = fitted.operating_points(world).iloc[some.index].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@given(st.data())
def test_two_way_points_are_plain_sums(data):
    n = data.draw(st.integers(1, 8))
    grid = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    probability = data.draw(st.lists(st.one_of(grid, st.just(math.nan)), min_size=n, max_size=n))
    alpha = data.draw(st.lists(st.one_of(grid, st.just(1.01), st.just(math.inf)), min_size=1, max_size=6))
    whole = st.lists(st.integers(0, 9), min_size=n, max_size=n)
    below, otherwise = (np.array([data.draw(whole) for _ in range(4)], dtype=float) for _ in range(2))
    points = two_way_points(np.array(probability), np.array(alpha), below, otherwise)
    for at, threshold in enumerate(alpha):
        rows = [(below if p < threshold else otherwise)[:, i] for i, p in enumerate(probability)]
        calls = sum(row[2] + row[3] for row in rows)
        assert points["success"][at] == pytest.approx(sum(row[0] for row in rows) / n)
        assert points["cost"][at] == pytest.approx(sum(row[1] for row in rows) / n)
        assert points["strong_share"][at] == pytest.approx(sum(row[3] for row in rows) / calls if calls else 0)
        assert points["intervention_rate"][at] == pytest.approx(sum(row[3] > 0 for row in rows) / n)


def test_target_rates_send_that_share_of_training_tasks_to_strong(training):
    rates = (0, 0.125, 0.5, 0.875, 1)
    fitted = TaskRouter(rates=rates).fit(training)
    shares = [(fitted.handoffs(training, {"alpha": alpha}) == 0).mean() for alpha in fitted.candidates["alpha"]]
    assert shares == pytest.approx(rates, abs=0.51 / len(training))
    assert fitted.candidates["target"].tolist() == list(rates)


def test_targets_are_the_shares_that_training_episodes_get(training):
    router, prefix, cascade = (policy.fit(training) for policy in (TaskRouter(), PrefixRouter(), Cascade()))
    for _, row in router.candidates.iloc[::20].iterrows():
        assert (router.handoffs(training, row) == 0).mean() == pytest.approx(row["target"])
    for fitted in (prefix, cascade):
        for _, row in fitted.candidates.iloc[::20].iterrows():
            assert fitted.restarts(training, row).mean() == pytest.approx(row["target"])


def test_candidates_are_quantiles_of_training_scores(training):
    fitted = TaskRouter(n_candidates=11).fit(training)
    probability = sorted(logistic(fitted.model, task.x) for task in TRAINING_TASKS)
    expected = [probability[round(level * (len(probability) - 1))] for level in np.linspace(0, 1, 11)]
    np.testing.assert_allclose(fitted.candidates["alpha"], expected, atol=0.005)
    assert fitted.candidates["alpha"].iloc[0] == pytest.approx(probability[0])
    assert fitted.candidates["alpha"].iloc[-1] == pytest.approx(probability[-1])


def test_presets_are_the_papers():
    alfworld, dabench = TaskRouter.alfworld(), TaskRouter.dabench()
    assert alfworld.thresholds == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6,
                                                 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01])  # fmt: skip
    assert (alfworld.logistic.penalty, alfworld.logistic.solver) == (1, "newton")
    assert (alfworld.logistic.max_iterations, alfworld.logistic.tolerance) == (100, 1e-9)
    assert dabench.rates == (0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1)
    assert (1 / dabench.logistic.penalty, dabench.logistic.solver) == (0.1, "lbfgs")
    assert dabench.logistic.max_iterations == 2000
    assert StepDeferral.alfworld("nll").average_steps == (0, 5, 10, 15, 20, 25, 30, 35, 40)
    assert StepDeferral.dabench("nll").average_steps == (0, 0.75, 1.5, 2.25, 3, 3.75, 4.5, 5.25, 6)
    assert PrefixRouter().prefixes == (1, 2, 3, 4)
    policies = (TaskRouter(), StepDeferral(), PrefixRouter(), FirstAlarm())
    assert {policy.n_candidates for policy in policies} == {101}
    assert (TaskRouter().logistic, LBFGS.penalty) == (NEWTON, 10)


def test_world_brings_counterfactuals_into_the_order_of_the_episodes(world):
    shuffled = Counterfactuals(world.counterfactuals.dataset.isel(episode=slice(None, None, -1)))
    again = World(world.episodes, shuffled, COST)
    assert again.counterfactuals.ids.tolist() == world.episodes.ids.tolist()
    np.testing.assert_array_equal(again.counterfactuals.table(), world.counterfactuals.table())
    assert world.counterfactuals is World(world.episodes, world.counterfactuals, COST).counterfactuals


def test_world_refuses_what_does_not_belong_together(world):
    other = world_of(draw_tasks(9, 5))
    with pytest.raises(InvalidDataError, match="an id of these"):
        World(world.episodes, other.counterfactuals, COST)
    renamed = world.counterfactuals.dataset.assign_coords(episode=[f"other {name}" for name in world.episodes.ids])
    with pytest.raises(InvalidDataError, match="an id of these"):
        World(world.episodes, Counterfactuals(renamed), COST)
    with pytest.raises(InvalidDataError, match=r"episode '2-0', handoff 0: cost is .*with_cost"):
        World(world.episodes, world.counterfactuals, StepCost(1, 5))
    wrong = world.counterfactuals.dataset
    flipped = Counterfactuals(wrong.assign(never_success=1 - wrong["never_success"]))
    with pytest.raises(InvalidDataError, match="never_success"):
        World(world.episodes, flipped, COST)
    for bad in ({"episodes": 3}, {"counterfactuals": None}, {"deferral": "no"}, {"cost": 7}):
        given = {"episodes": world.episodes, "counterfactuals": world.counterfactuals, "cost": COST} | bad
        with pytest.raises(InvalidDataError, match=next(iter(bad))):
            World(**given)


def test_step_deferral_needs_a_world_that_replays(training, world):
    fitted = StepDeferral("risk").fit(training)
    still = World(world.episodes, world.counterfactuals, COST)
    for ask in (lambda: fitted.operating_points(still), lambda: fitted.outcomes(still, {"alpha": 1.0})):
        with pytest.raises(InvalidDataError, match="deferral of the world is None"):
            ask()
    crooked = replace(world, deferral=lambda *_: np.zeros((4, 1, 1)))
    with pytest.raises(InvalidDataError, match="shape of what the world's deferral gives"):
        fitted.operating_points(crooked)


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


def test_policies_take_episodes_only():
    for policy in (PureCheap(), TaskRouter(), PrefixRouter(), Cascade(), StepDeferral(), TacitSwitch()):
        with pytest.raises(InvalidDataError, match="Episodes"):
            policy.fit([1, 2])


@pytest.mark.parametrize("setting", [{}, {"alpha": "high"}, {"alpha": math.nan}, 0.5, {"alpha": True}])
def test_a_setting_without_its_numbers_is_refused(training, world, setting):
    fitted = TaskRouter().fit(training)
    with pytest.raises(InvalidDataError, match="setting is"):
        fitted.outcomes(world, setting)


def test_an_unfitted_prefix_is_refused(training, world):
    fitted = PrefixRouter(prefixes=(1, 2)).fit(training)
    with pytest.raises(InvalidDataError, match="k is 3"):
        fitted.outcomes(world, {"k": 3, "alpha": 0.5})
