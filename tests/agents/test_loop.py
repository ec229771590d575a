"""The permanent-handoff loop on a corridor, where what must happen is plain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_world import RIGHT, WAIT, Corridor, Moody, Stalled, Walker, cascade, deferral, prefix_router, threshold_router

from bayes_tacit.agents import ActorError, Budget, Observation, ReplayError, Retry, StepResult, run_episode
from bayes_tacit.data.costs import StepCost
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import Router, Rule, handoff_at, pure
from bayes_tacit.router.rule import failing_below
from bayes_tacit.router.rules import Chance, TaskChance

PAPER = StepCost.paper("9b")


def play(router, cheap=WAIT, strong=RIGHT, *, nll=(None,), length=3, environment=None, **settings):
    world = environment or Corridor(length)
    settings = {"extractor": Stalled(), "cost": PAPER, "episode": "corridor", **settings}
    actors = Walker("cheap", cheap, nll), Walker("strong", strong)
    return run_episode(world, *actors, router, **settings), world, actors


def agents(transcript):
    return [(step.agent, step.step, step.proposal.action, step.executed) for step in transcript.steps]


def test_after_an_action_the_crossing_gives_the_next_action_to_strong():
    transcript, world, (_, strong) = play(threshold_router(2))
    assert agents(transcript) == [
        ("cheap", 0, "wait", True),
        ("cheap", 1, "wait", True),
        ("strong", 2, "right", True),
        ("strong", 3, "right", True),
        ("strong", 4, "right", True),
    ]
    assert world.taken == ["wait", "wait", "right", "right", "right"]
    assert strong.seen[0].actions == ("wait", "wait")
    assert (transcript.end.status, transcript.end.success, transcript.end.handoff_step) == ("done", True, 2)
    assert transcript.end.cost == 2 * 2.25 + 3 * 6.75


def test_at_a_proposal_the_crossing_discards_it_and_strong_acts_from_the_prior_history():
    transcript, world, (cheap, strong) = play(threshold_router(2, "proposal"))
    assert agents(transcript) == [
        ("cheap", 0, "wait", True),
        ("cheap", 1, "wait", False),
        ("strong", 1, "right", True),
        ("strong", 2, "right", True),
        ("strong", 3, "right", True),
    ]
    assert world.taken == ["wait", "right", "right", "right"]
    assert strong.seen[0].actions == ("wait",)
    assert strong.seen[0] == cheap.seen[1]
    assert transcript.end.handoff_step == 1
    assert transcript.end.cost == 2 * 2.25 + 3 * 6.75


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_a_handoff_is_permanent_however_badly_strong_plays(timing):
    transcript, _, (cheap, _) = play(threshold_router(2, timing), strong=("left",), budget=Budget(actions=9))
    first = next(i for i, step in enumerate(transcript.steps) if step.agent == "strong")
    assert {step.agent for step in transcript.steps[first:]} == {"strong"}
    assert len(cheap.seen) == 2
    assert transcript.end.status == "budget"
    assert not transcript.end.success


def test_decisions_and_diagnostics_are_on_record_for_cheap_alone():
    transcript, *_ = play(threshold_router(2))
    scores = [step.choice.facts["score"] for step in transcript.checkpoints]
    assert scores == pytest.approx([0, 1], abs=1e-6)
    assert [step.choice.facts["handoff"] for step in transcript.checkpoints] == [False, True]
    assert [step.diagnostics for step in transcript.steps] == [{"stalled": 1.0, "third": 1 / 3}] * 2 + [None] * 3
    assert transcript.features == {"length": 3.0, "spare": 1 / 3}


def test_shadow_mode_decides_but_cheap_goes_on():
    transcript, *_ = play(threshold_router(2), shadow=True, budget=Budget(actions=4))
    assert [step.agent for step in transcript.steps] == ["cheap"] * 4
    assert transcript.steps[-1].choice.facts["handoff_step"] == 1


def test_a_crossing_at_the_last_action_hands_off_nothing():
    transcript, *_ = play(threshold_router(2), cheap=("wait", "wait"), budget=Budget(actions=2))
    assert transcript.checkpoints[-1].choice.call == "strong"
    assert (transcript.end.handoff_step, transcript.end.strong_calls, transcript.end.status) == (None, 0, "budget")


@pytest.mark.parametrize(("agent", "success", "cost"), [("cheap", False, 50 * 2.25), ("strong", True, 3 * 6.75)])
def test_pure_agents_play_alone(agent, success, cost):
    transcript, *_ = play(pure(agent))
    assert {step.agent for step in transcript.steps} == {agent}
    assert (transcript.end.success, transcript.end.cost) == (success, cost)


@pytest.mark.parametrize(("intercept", "takes"), [(-1.1, True), (-1.0, False)])
def test_the_task_router_decides_before_the_first_call(intercept, takes):
    """Cheap's chance is below a half where the intercept is below -length / 3."""
    chance = Chance([0.0], [1.0], intercept, [1 / 3])
    router = Router(rule=TaskChance(chance), alpha_start=failing_below(0.5), feature_names=("length",))
    transcript, *_ = play(router, budget=Budget(5))
    assert {step.agent for step in transcript.steps} == {"strong" if takes else "cheap"}
    assert transcript.records[1].choice.call == ("strong" if takes else "cheap")


def test_step_deferral_at_a_proposal_gives_the_current_action_only():
    transcript, world, _ = play(deferral(0.7), nll=(0.1, 0.7, 0.1, 2.0, None), budget=Budget(5), length=9)
    assert agents(transcript) == [
        ("cheap", 0, "wait", True),
        ("cheap", 1, "wait", False),
        ("strong", 1, "right", True),
        ("cheap", 2, "wait", True),
        ("cheap", 3, "wait", False),
        ("strong", 3, "right", True),
        ("cheap", 4, "wait", True),
    ]
    assert world.taken == ["wait", "right", "wait", "right", "wait"]
    assert transcript.end.cost == 5 * 2.25 + 2 * 6.75
    assert transcript.end.handoff_step is None


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_a_prefix_restart_charges_the_prefix_the_head_and_the_whole_strong_rollout(timing):
    slopes = np.array([-1.0, 2.0, 0.3, 0.5, 0.7, 1.1])
    chance = Chance(np.zeros(6), np.ones(6), 0.1, slopes)
    transcript, world, (_, strong) = play(prefix_router(2, chance, timing), cheap=("wait", "right"), budget=Budget(3))
    assert world.resets == 2
    assert world.taken == ["right"] * 3
    assert len(strong.seen[0]) == 0
    known = [3.0, 1 / 3, 1.0, 1 / 3, 0.0, 1 / 3]
    value = 1 / (1 + math.exp(-0.1 - slopes @ known))
    assert [step.choice.facts.get("score") for step in transcript.checkpoints] == [None, pytest.approx(1 - value)]
    assert transcript.end.restarted
    assert (transcript.end.cheap_calls, transcript.end.strong_calls, transcript.end.one_off_calls) == (2, 3, 1)
    assert transcript.end.cost == 2 * 2.25 + 3 * 6.75 + 1.75
    assert transcript.end.success


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
@pytest.mark.parametrize("budget", [2, 5])
def test_a_cascade_judges_the_finished_episode_and_restarts_with_strong(timing, budget):
    """With two actions Cheap's episode ends by its budget, with five by its success: it is judged all the same."""
    slopes = np.arange(10) / 10
    router = cascade(Chance(np.zeros(10), np.ones(10), -5.0, slopes), timing)
    transcript, world, (cheap, strong) = play(router, cheap=("wait", *RIGHT), budget=Budget(budget), length=2)
    cheap_steps = min(budget, 3)
    # Features; then total, mean, highest and last of `stalled` and `third`.
    known = [2.0, 1 / 3, 1.0, cheap_steps / 3, 1 / cheap_steps, 1 / 3, 1.0, 1 / 3, 0.0, 1 / 3]
    assert world.resets == 2
    assert (len(cheap.seen), [len(history) for history in strong.seen]) == (cheap_steps, [0, 1])
    assert (transcript.end.status, transcript.end.success, transcript.end.restarted) == ("done", True, True)
    assert (transcript.end.handoff_step, transcript.end.one_off_calls) == (0, 0)
    assert transcript.end.cost == cheap_steps * 2.25 + 2 * 6.75
    said = transcript.records[-4].choice
    assert said.call == "restart"
    assert said.facts["score"] == pytest.approx(1 - 1 / (1 + math.exp(5 - slopes @ known)))


@given(
    threshold=st.integers(1, 6),
    timing=st.sampled_from(["post_action", "proposal"]),
    cheap=st.lists(st.sampled_from(["wait", "right", "left"]), min_size=1, max_size=6).map(tuple),
    kind=st.sampled_from(["tacit", "deferral", "prefix", "cascade", "forced"]),
)
def test_costs_add_up_by_the_papers_formula(threshold, timing, cheap, kind):
    router = {
        "tacit": threshold_router(threshold, timing),
        "deferral": deferral(1.0, "stalled", timing),
        "prefix": prefix_router(threshold, 0.2, timing),
        "cascade": cascade(Chance(np.zeros(10), np.ones(10), 1.0, [0] * 8 + [-2, 0]), timing),
        "forced": handoff_at(threshold),
    }[kind]
    transcript, world, (cheap_actor, strong_actor) = play(router, cheap=cheap, budget=Budget(7), length=4)
    end = transcript.end
    assert (end.cheap_calls, end.strong_calls) == (len(cheap_actor.seen), len(strong_actor.seen))
    assert end.cost == pytest.approx(2.25 * end.cheap_calls + 6.75 * end.strong_calls + 1.75 * end.one_off_calls)
    lines = sum(record.cost for record in transcript.records if hasattr(record, "cost"))
    assert lines == pytest.approx(end.cost)
    assert end.actions == len(world.taken) <= 7
    discarded = sum(not step.executed for step in transcript.steps)
    assert discarded == 0 or timing == "proposal"


@pytest.mark.parametrize("step", [0, 2])
def test_a_forced_handoff_may_discard_the_proposal_of_its_step(step):
    transcript, world, (cheap, strong) = play(handoff_at(step, timing="proposal", discards=True), length=9)
    assert len(cheap.seen) == step + 1
    assert [(one.agent, one.executed) for one in transcript.steps[: step + 2]] == [
        *[("cheap", True)] * step,
        ("cheap", False),
        ("strong", True),
    ]
    assert (transcript.end.handoff_step, len(world.taken)) == (step, len(strong.seen) + step)
    with pytest.raises(InvalidDataError, match="timing is 'post_action'; expected 'proposal' where one is discarded"):
        handoff_at(step, discards=True)


def test_a_forced_handoff_replays_the_recorded_prefix_without_asking_cheap():
    recorded, *_ = play(pure("cheap"), cheap=("right", "left", "wait"), budget=Budget(6))
    transcript, world, (cheap, strong) = play(handoff_at(2), recorded=recorded)
    assert cheap.seen == []
    assert world.taken == ["right", "left", "right", "right", "right"]
    assert strong.seen[0] == recorded.history(2)
    assert transcript.steps[:2] == tuple(
        type(step)(**{**step.__dict__, "seconds": new.seconds, "choice": new.choice})
        for step, new in zip(recorded.steps[:2], transcript.steps[:2], strict=True)
    )
    assert transcript.end.cost == 2 * 2.25 + 3 * 6.75


def test_after_strong_has_acted_cheap_is_asked_and_not_the_record():
    recorded, *_ = play(pure("cheap"), nll=(5.0, 0.1), budget=Budget(3))
    transcript, _, (cheap, _) = play(
        deferral(1.0, timing="post_action"), nll=(0.2,), recorded=recorded, budget=Budget(3)
    )
    assert [step.agent for step in transcript.steps] == ["cheap", "strong", "cheap"]
    assert [history.actions for history in cheap.seen] == [("wait", "right")]


def test_an_environment_that_answers_otherwise_than_recorded_is_refused():
    recorded, *_ = play(pure("cheap"), cheap=RIGHT, length=5)

    class Slippery(Corridor):
        def step(self, action):
            result = super().step(action)
            return StepResult(Observation("you slip")) if len(self.taken) == 2 else result

    with pytest.raises(ReplayError, match="step 1: 'right' gave"):
        play(handoff_at(3), recorded=recorded, environment=Slippery(5))
    with pytest.raises(ReplayError, match="first observation"):
        play(handoff_at(3), recorded=recorded, environment=Corridor(4))
    with pytest.raises(InvalidDataError, match="recorded rollout"):
        play(handoff_at(3), recorded=recorded, episode="another")


def test_transient_errors_are_retried_with_growing_waits_and_none_is_charged():
    waits = []
    errors = [
        ActorError("slow", transient=True),
        ActorError("busy", transient=True, retry_after=7.0),
        ActorError("slow", transient=True),
    ]
    moody = Moody(Walker("cheap", RIGHT), errors)
    transcript = run_episode(
        Corridor(2),
        moody,
        None,
        pure("cheap"),
        episode="moody",
        retry=Retry(attempts=4, first=1, factor=2, jitter=0),
        sleep=waits.append,
    )
    assert waits == [1.0, 7.0, 4.0]
    assert [failure.message for failure in transcript.steps[0].failures] == ["slow", "busy", "slow"]
    assert transcript.steps[1].failures == ()
    assert (transcript.end.success, transcript.end.cheap_calls) == (True, 2)


@pytest.mark.parametrize(
    ("errors", "calls"),
    [
        ([ActorError("no key")], 1),
        ([ActorError("slow", transient=True)] * 3, 3),
        ([ActorError("busy", transient=True, retry_after=3600)], 1),
    ],
)
def test_an_actor_that_gives_no_answer_ends_the_episode(errors, calls):
    moody = Moody(Walker("cheap", RIGHT), [*errors])
    transcript = run_episode(
        Corridor(2), moody, None, pure("cheap"), episode="e", retry=Retry(attempts=3), sleep=lambda _: None
    )
    assert (transcript.end.status, transcript.end.success, transcript.conclusive) == ("actor_error", False, False)
    assert len(transcript.end.failures) == calls
    assert transcript.end.failures[-1].waited is None
    assert str(errors[0]) in transcript.end.error
    assert transcript.end.cost == 0


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_an_environment_that_breaks_ends_the_episode_with_the_call_on_record(timing):
    transcript, *_ = play(pure("cheap", timing=timing), environment=Corridor(5, breaks_at=1))
    assert (transcript.end.status, transcript.end.success) == ("environment_error", False)
    assert transcript.end.error == "OSError: the engine is gone"
    assert [(step.executed, step.result is None) for step in transcript.steps] == [(True, False), (True, True)]
    assert transcript.end.cost == 2 * 2.25
    assert transcript.end.actions == 1


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_impossible_diagnostics_are_refused_with_their_place(value):
    class Odd(Stalled):
        def diagnostics(self, history, proposal, result):  # noqa: ARG002
            return {"stalled": value if len(history) == 1 else 0.0, "third": 0.0}

    with pytest.raises(InvalidDataError, match=r"episode 'corridor', step 1: diagnostics\['stalled'\] is"):
        play(pure("cheap"), extractor=Odd())


def test_impossible_answers_of_an_actor_are_refused():
    with pytest.raises(InvalidDataError, match="nll at episode 'corridor', step 1 is -1"):
        play(pure("cheap"), nll=(0.0, -1.0))
    with pytest.raises(InvalidDataError, match="strong is None"):
        run_episode(Corridor(), Walker("cheap", WAIT), None, pure("strong"), episode="e")


def test_a_router_whose_diagnostics_nobody_gives_is_refused():
    with pytest.raises(InvalidDataError, match=r"features\['length'\], which is missing"):
        run_episode(Corridor(), Walker("c", WAIT), Walker("s", RIGHT), threshold_router(2), episode="e")


class Asking(Rule):
    """A rule of one's own, which asks at every step, and calls Strong at the second."""

    policy, one_off = "asking", 1

    def begin(self, x):
        return {"steps": np.zeros(len(x))}

    def step(self, state, u):  # noqa: ARG002
        return {"steps": state["steps"] + 1}, state["steps"]


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_calls_made_to_decide_at_a_checkpoint_are_charged(timing):
    transcript, *_ = play(Router(rule=Asking(), alpha=1.0, timing=timing))
    assert [step.cost for step in transcript.steps] == [2.25 + 1.75, 2.25 + 1.75, 6.75, 6.75, 6.75]
    assert transcript.end.cost == 2 * (2.25 + 1.75) + 3 * 6.75
    assert transcript.end.one_off_calls == 2
    assert transcript.header.policy == "asking"


def test_a_diagnostic_called_nll_is_the_extractors():
    class Capped(Stalled):
        diagnostic_names = ("nll",)

        def diagnostics(self, history, proposal, result):  # noqa: ARG002
            return {"nll": min(proposal.nll, 1.0)}

    transcript, *_ = play(deferral(2.0), nll=(3.0,), extractor=Capped(), budget=Budget(3))
    assert transcript.end.strong_calls == 0
    assert [step.choice.facts["score"] for step in transcript.checkpoints] == [1.0] * 3


def test_only_an_environment_that_is_done_can_have_succeeded():
    class Hesitant(Corridor):
        def step(self, action):
            return replace(super().step(action), done=False)

    transcript, *_ = play(pure("strong"), environment=Hesitant(2), budget=Budget(4))
    assert (transcript.end.status, transcript.end.success) == ("budget", False)
