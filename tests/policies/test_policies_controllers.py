"""The controller of a fitted policy decides as the fitted policy does, step by step."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from bayes_tacit.router.control import Checkpoint

from bayes_tacit import fit_map, load_example
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    Count,
    FirstAlarm,
    Landmark,
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
    said = []
    for step in range(VALUES["n_steps"][row]):
        before = pilot.before()
        diagnostics = dict(zip(DIAGNOSTICS, VALUES["diagnostics"][row][step], strict=True))
        said.append((before, pilot.checkpoint(Checkpoint({**diagnostics, "unknown": 1.0}))))
    said.append((pilot.end(), None))
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
        controller = pickle.loads(pickle.dumps(fitted.controller({"alpha": alpha})))
        for row, handoff in enumerate(expected.tolist()):
            calls = [after.call for _, after in drive(controller, row)[:-1]]
            # Strong takes the action after the checkpoint; after the last one nothing is left for it to take.
            assert (calls.index("strong") + 1 if "strong" in calls else -1) == handoff
        assert len(set(expected.tolist())) > 2


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.35, 1.01])
def test_task_router_chooses_as_the_fitted_one_does(alpha):
    fitted = TaskRouter(features=FEATURES[:2]).fit(TRAINING)
    expected = fitted.handoffs(OTHER, {"alpha": alpha})
    controller = pickle.loads(pickle.dumps(fitted.controller({"alpha": alpha})))
    for row, handoff in enumerate(expected.tolist()):
        assert {before.call for before, _ in drive(controller, row)[:-1]} == {"strong" if handoff == 0 else "cheap"}


def test_prefix_router_restarts_where_the_fitted_one_does():
    fitted = PrefixRouter(prefixes=(1, 3)).fit(TRAINING)
    seen = set()
    for at in np.linspace(0, len(fitted.candidates) - 1, 8).astype(int):
        setting = fitted.candidates.iloc[at]
        k = int(setting["k"])
        expected = fitted.restarts(OTHER, setting)
        probability = fitted.probability(OTHER, k)
        controller = pickle.loads(pickle.dumps(fitted.controller(setting)))
        for row, restarts in enumerate(expected.tolist()):
            said = drive(controller, row)[:-1]
            asked = [at for at, (before, _) in enumerate(said) if before.one_off_calls]
            assert asked == ([k] if OTHER.n_steps[row] > k else [])
            assert [at for at, (before, _) in enumerate(said) if before.call == "restart"] == ([k] if restarts else [])
            if asked:
                assert said[k][0].facts["value"] == probability[row]
            seen.add(restarts)
    assert seen == {True, False}


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_step_deferral_defers_where_the_fitted_one_does(timing):
    fitted = StepDeferral("uncertainty", average_steps=(0, 2, 4), timing=timing).fit(TRAINING)
    for _, setting in fitted.candidates.iterrows():
        expected = fitted.defers(OTHER, setting)
        controller = fitted.controller(setting)
        assert controller.timing == timing
        for row in range(len(OTHER)):
            deferred = [after.call == "strong_once" for _, after in drive(controller, row)[:-1]]
            assert deferred == expected[row, : len(deferred)].tolist()


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_first_alarm_hands_off_where_the_fitted_one_does(timing):
    fitted = FirstAlarm("uncertainty", timing=timing).fit(TRAINING)
    found = set()
    for alpha in fitted.candidates["alpha"].iloc[[10, 60, 90, 99]]:
        controller = fitted.controller({"alpha": alpha})
        assert controller.timing == timing
        for row, handoff in enumerate(fitted.handoffs(OTHER, {"alpha": alpha}).tolist()):
            calls = [after.call for _, after in drive(controller, row)[:-1]]
            assert set(calls) <= {"cheap", "strong"}
            first = calls.index("strong") + (timing == "post_action") if "strong" in calls else -1
            assert first == handoff
            found.add(handoff)
    assert len(found) > 5


@pytest.mark.parametrize("handoff", ["resume", "restart"])
@pytest.mark.parametrize("timing", ["post_action", "proposal"])
@pytest.mark.parametrize("policy", [Count, Landmark])
def test_count_and_landmark_hand_off_where_the_fitted_ones_do(policy, timing, handoff):
    fitted = policy(timing=timing, handoff=handoff).fit(TRAINING)
    call = {"resume": "strong", "restart": "restart"}[handoff]
    found = set()
    for at in np.linspace(0, len(fitted.candidates) - 1, 5).astype(int)[:-1]:
        setting = fitted.candidates.iloc[at]
        controller = pickle.loads(pickle.dumps(fitted.controller(setting)))
        assert controller.timing == timing
        for row, expected in enumerate(fitted.handoffs(OTHER, setting).tolist()):
            calls = [after.call for _, after in drive(controller, row)[:-1]]
            assert set(calls) <= {"cheap", call}
            assert (calls.index(call) + (timing == "post_action") if call in calls else -1) == expected
            found.add(expected)
    assert len(found) > 5


def test_landmark_computes_the_same_score_to_the_same_bits():
    fitted = Landmark().fit(TRAINING)
    scores = fitted.scores(OTHER)
    controller = fitted.controller({"alpha": 2.0})
    for row in range(40):
        played = [after.facts["score"] for _, after in drive(controller, row)[:-1]]
        assert played == scores[row, : len(played)].tolist()


def test_controllers_of_policies_that_restart_say_restart():
    for policy in (TacitSwitch(handoff="restart"), FirstAlarm("uncertainty", handoff="restart")):
        fitted = policy.fit(TRAINING)
        alpha = float(fitted.candidates["alpha"].iloc[40])
        controller = fitted.controller({"alpha": alpha})
        calls = {after.call for row in range(50) for _, after in drive(controller, row)[:-1]}
        assert calls == {"cheap", "restart"}


def test_cascade_restarts_where_the_fitted_one_does():
    fitted = Cascade(summaries=("total", "mean", "highest", "last")).fit(TRAINING)
    probability = fitted.probability(OTHER)
    for alpha in fitted.candidates["alpha"].iloc[[10, 50, 90]]:
        expected = fitted.restarts(OTHER, {"alpha": alpha})
        assert set(expected.tolist()) == {True, False}
        controller = pickle.loads(pickle.dumps(fitted.controller({"alpha": alpha})))
        for row, restarts in enumerate(expected.tolist()):
            *steps, (end, _) = drive(controller, row)
            assert end.call == ("restart" if restarts else "cheap")
            assert end.facts["value"] == probability[row]
            assert {choice.call for pair in steps for choice in pair} == {"cheap"}


def test_pure_policies_are_pure():
    for policy, agent in ((PureCheap(), "cheap"), (PureStrong(), "strong")):
        fitted = policy.fit(TRAINING)
        assert fitted.controller(fitted.candidates.iloc[0]).agent == agent


def test_what_cannot_be_played_is_refused():
    with pytest.raises(InvalidDataError, match=r"view is .*; expected none"):
        TacitSwitch(view=lambda episodes: episodes).fit(TRAINING).controller({"alpha": 0.5})
    with pytest.raises(InvalidDataError, match=r"k is 2; expected one of \[1\]"):
        PrefixRouter(prefixes=(1,)).fit(TRAINING).controller({"k": 2, "alpha": 0.5})
    router = TaskRouter().fit(TRAINING).controller({"alpha": 0.5})
    with pytest.raises(InvalidDataError, match="'entities' among them"):
        router.begin({"other": 1.0}, "episode")
