"""Controllers made from fitted policies decide as the fitted policies do, step by step."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bayes_tacit import fit_map, load_example
from bayes_tacit.agents import Checkpoint, History, Observation, Proposal, Step, StepResult
from bayes_tacit.agents.adapters import controller_for, identity_of
from bayes_tacit.agents.memory import Remembering
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    FirstAlarm,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
)

EXAMPLE = load_example()
PARTS = EXAMPLE.split({"training": 0.6, "other": 0.4})
TRAINING, OTHER = PARTS["training"], PARTS["other"]
FEATURES, DIAGNOSTICS = OTHER.feature_names, OTHER.diagnostic_names
VALUES = {name: OTHER.dataset[name].values.tolist() for name in ("features", "diagnostics", "n_steps")}


def drive(controller, row):
    """Take a controller through a recorded episode as the loop would; give what it says before and after each step."""
    features = dict(zip(FEATURES, VALUES["features"][row], strict=True))
    # What an extractor gives besides must not matter, nor the order.
    pilot = controller.begin({"unknown": 7.0, **dict(reversed(features.items()))}, "episode")
    history = History(Observation("", task="task"))
    said = []
    for step in range(VALUES["n_steps"][row]):
        before = pilot.before(history)
        diagnostics = dict(zip(DIAGNOSTICS, VALUES["diagnostics"][row][step], strict=True))
        result = StepResult(Observation(""))
        after = pilot.checkpoint(Checkpoint(history, Proposal("x"), result, {**diagnostics, "unknown": 1.0}))
        said.append((before, after))
        history = history.then(Step("cheap", Proposal("x"), result))
    return said


def tree_policy(rule):
    return PosteriorTacitSwitch(rule=rule, posterior=several_draws)


def several_draws(training):
    """A stand-in for a posterior with draws that differ: fits of different halves."""
    import xarray as xr

    parts = training.split({"a": 0.5, "b": 0.5})
    trees = [fit_map(part).to_datatree() for part in parts.values()]
    tree = trees[0].copy(deep=True)
    both = [one["posterior"].to_dataset() for one in trees]
    tree["posterior"] = xr.concat(both, dim="draw").assign_coords(draw=[0, 1])
    return tree


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
@pytest.mark.parametrize("policy", [TacitSwitch(), tree_policy("mean"), tree_policy(0.3)], ids=lambda one: one.name)
def test_tacit_switch_hands_off_where_the_fitted_one_does(policy):
    fitted = policy.fit(TRAINING)
    for alpha in fitted.candidates["alpha"].iloc[[10, 50, 90]]:
        expected = fitted.handoffs(OTHER, {"alpha": alpha})
        controller = pickle.loads(pickle.dumps(controller_for(fitted, {"alpha": alpha})))
        for row, handoff in enumerate(expected.tolist()):
            calls = [after.call for _, after in drive(controller, row)]
            # Strong takes the action after the checkpoint; after the last one nothing is left for it to take.
            assert (calls.index("strong") + 1 if "strong" in calls else -1) == handoff
        assert len(set(expected.tolist())) > 2


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.35, 1.01])
def test_task_router_chooses_as_the_fitted_one_does(alpha):
    fitted = TaskRouter(features=FEATURES[:2]).fit(TRAINING)
    expected = fitted.handoffs(OTHER, {"alpha": alpha})
    controller = pickle.loads(pickle.dumps(controller_for(fitted, {"alpha": alpha})))
    for row, handoff in enumerate(expected.tolist()):
        assert {before.call for before, _ in drive(controller, row)} == {"strong" if handoff == 0 else "cheap"}


def test_prefix_router_restarts_where_the_fitted_one_does():
    fitted = PrefixRouter(prefixes=(1, 3)).fit(TRAINING)
    seen = set()
    for at in np.linspace(0, len(fitted.candidates) - 1, 8).astype(int):
        setting = fitted.candidates.iloc[at]
        k = int(setting["k"])
        expected = fitted.restarts(OTHER, setting)
        probability = fitted.probability(OTHER, k)
        controller = pickle.loads(pickle.dumps(controller_for(fitted, setting)))
        for row, restarts in enumerate(expected.tolist()):
            said = drive(controller, row)
            asked = [at for at, (before, _) in enumerate(said) if before.one_off_calls]
            assert asked == ([k] if OTHER.n_steps[row] > k else [])
            assert [at for at, (before, _) in enumerate(said) if before.call == "restart"] == ([k] if restarts else [])
            if asked:
                assert said[k][0].facts["value"] == probability[row]
            seen.add(restarts)
    assert seen == {True, False}


def test_step_deferral_defers_where_the_fitted_one_does():
    fitted = StepDeferral("uncertainty", average_steps=(0, 2, 4)).fit(TRAINING)
    for _, setting in fitted.candidates.iterrows():
        expected = fitted.defers(OTHER, setting)
        controller = controller_for(fitted, setting)
        assert controller.timing == "proposal"
        assert controller_for(fitted, setting, deferral="post_action").timing == "post_action"
        for row in range(len(OTHER)):
            deferred = [after.call == "strong_once" for _, after in drive(controller, row)]
            assert deferred == expected[row, : len(deferred)].tolist()


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_first_alarm_hands_off_where_the_fitted_one_does(timing):
    fitted = FirstAlarm("uncertainty", timing=timing).fit(TRAINING)
    found = set()
    for alpha in fitted.candidates["alpha"].iloc[[10, 60, 90, 99]]:
        controller = controller_for(fitted, {"alpha": alpha})
        assert controller.timing == timing
        for row, handoff in enumerate(fitted.handoffs(OTHER, {"alpha": alpha}).tolist()):
            calls = [after.call for _, after in drive(controller, row)]
            assert set(calls) <= {"cheap", "strong"}
            first = calls.index("strong") + (timing == "post_action") if "strong" in calls else -1
            assert first == handoff
            found.add(handoff)
    assert len(found) > 5


def test_pure_policies_are_pure():
    for policy, agent in ((PureCheap(), "cheap"), (PureStrong(), "strong")):
        fitted = policy.fit(TRAINING)
        assert controller_for(fitted, fitted.candidates.iloc[0]).agent == agent


def test_what_cannot_be_played_is_refused():
    with pytest.raises(InvalidDataError, match=r"fitted is .*Cascade"):
        controller_for(Cascade().fit(TRAINING), {"alpha": 0.5})
    with pytest.raises(InvalidDataError, match="without a view"):
        controller_for(TacitSwitch(view=lambda episodes: episodes).fit(TRAINING), {"alpha": 0.5})
    with pytest.raises(InvalidDataError, match=r"k is 2; expected one of \[1\]"):
        controller_for(PrefixRouter(prefixes=(1,)).fit(TRAINING), {"k": 2, "alpha": 0.5})
    router = controller_for(TaskRouter().fit(TRAINING), {"alpha": 0.5})
    with pytest.raises(InvalidDataError, match="'entities' among them"):
        router.begin({"other": 1.0}, "episode")


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_identities_tell_settings_and_fits_apart():
    halves = TRAINING.split({"a": 0.5, "b": 0.5}).values()
    found = []
    for training in halves:
        found += [identity_of(controller_for(TacitSwitch().fit(training), {"alpha": a})) for a in (0.2, 0.3)]
        found += [identity_of(controller_for(TaskRouter().fit(training), {"alpha": a})) for a in (0.2, 0.3)]
        prefix = PrefixRouter(prefixes=(1, 2)).fit(training)
        found += [identity_of(controller_for(prefix, {"k": k, "alpha": a})) for k in (1, 2) for a in (0.2, 0.3)]
    deferral = StepDeferral("uncertainty").fit(TRAINING)
    found += [identity_of(controller_for(deferral, {"alpha": a})) for a in (0.2, 0.3)]
    assert len(set(found)) == len(found) == 18
    again = next(iter(TRAINING.split({"a": 0.5, "b": 0.5}).values()))
    assert identity_of(controller_for(TaskRouter().fit(again), {"alpha": 0.2})) == found[2]


def test_an_actor_that_remembers_is_told_apart_by_who_did_what():
    class Counting:
        name = "counting"
        asked = 0

        def act(self, _):
            self.asked += 1
            return Proposal(f"answer {self.asked}")

    actor = Remembering(Counting(), "strong")
    start = History(Observation("A door."))
    by_cheap, by_strong = (
        start.then(Step(agent, Proposal("push"), StepResult(Observation("It moves.")))) for agent in ("cheap", "strong")
    )
    first, second, third = (actor.act(history).action for history in (start, by_cheap, by_strong))
    assert [first, second, third] == ["answer 1", "answer 2", "answer 3"]
    assert [actor.act(history).action for history in (by_strong, start, by_cheap)] == [third, first, second]
    assert actor.actor.asked == 3
