"""Every policy as a router: saved, loaded and observed step by step, it does what the fitted policy says."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import jsonschema
import numpy as np
import pytest
from bayes_tacit.policies.tuned.learner import Learner
from bayes_tacit.policies.tuned.numbers import numbers_of
from bayes_tacit.policies.tuned.scoring import Scoring
from bayes_tacit.policies.view import Seen
from bayes_tacit.router.control import (
    CountController,
    ForcedHandoffController,
    PureController,
    RouterController,
    StepDeferralController,
    TaskRouterController,
)
from hypothesis import given
from hypothesis import settings as tests
from hypothesis import strategies as st
from policy_worlds import DIAGNOSTICS, FEATURES, draw_tasks, episodes_of, play, world_of
from test_router_files import SCHEMA, VALIDATOR

from bayes_tacit import Router
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    Count,
    EvoRoute,
    FirstAlarm,
    Landmark,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    Trim,
    TunedDeferral,
    TunedSwitch,
)
from bayes_tacit.router import DecisionLog, EpisodeEndedError, PolicyRouter, kinds, replay

FIT = {"restarts": 1, "ridge": 0.1}
POLICIES = {
    "pure_cheap": PureCheap(),
    "pure_strong": PureStrong(),
    "task_router": TaskRouter(),
    "first_alarm": FirstAlarm("risk"),
    "first_alarm, restart": FirstAlarm("risk", handoff="restart"),
    "step_deferral": StepDeferral("risk"),
    "step_deferral_by_task": TunedDeferral("risk", n_levels=11),
    "count": Count(),
    "count, restart": Count(("doubt",), handoff="restart"),
    "landmark": Landmark(),
    "trim": Trim(),
    "evoroute": EvoRoute(limit=64, prices=(0, 0.2)),
    "evoroute, restart": EvoRoute(limit=32, start=False, handoff="restart"),
    "landmark, restart": Landmark(handoff="restart"),
    "prefix_router": PrefixRouter(prefixes=(1, 3)),
    "cascade": Cascade(),
    "cascade, mean": Cascade(summaries=("mean", "last")),
    "tacit_switch": TacitSwitch(options=FIT),
    "tacit_switch, restart": TacitSwitch(options=FIT, handoff="restart"),
    "tuned": TunedSwitch(("memory", "pace", "start_level"), Learner(FIT)),
}


@cache
def fitted(name: str):
    return POLICIES[name].fit(episodes_of(draw_tasks(1, 150)))


@cache
def world():
    return world_of(draw_tasks(2, 60))


def settings_of(name: str) -> list[dict]:
    """A few settings of a policy, none of which every task meets or misses; each is what a task of the world shows."""
    one, episodes = fitted(name), world().episodes
    if name == "tuned":
        numbers = {"memory": 0.5, "pace": 0.2, "start_weight": 1.0}
        scoring = Scoring(one.learned, Seen.of(episodes))
        paced, start = np.sort(scoring.paced(numbers_of(numbers)).ravel()), np.sort(scoring.start(numbers_of(numbers)))
        return [
            {"alpha": paced[100], "start": np.inf, **numbers},
            *({"alpha": paced[at], "start": start[at - 90], **numbers} for at in range(120, 150, 5)),
        ]
    if name == "step_deferral_by_task":
        numbers = {"cheap": 2.0, "strong": -1.0, "start_weight": 1.0}
        start = np.sort(one.start(episodes, numbers))
        return [{"level": 6.0, "start": np.inf, **numbers}, {"level": 8.0, "start": start[40], **numbers}]
    table = one.candidates
    places = np.unique(np.linspace(0, len(table) - 1, 7).astype(int))
    rows = [dict(table.iloc[place]) for place in places]
    if name.startswith("step_deferral") or "alpha" not in table:
        return rows
    return [row | {"alpha": at} for row in rows for at in shown(one, episodes, row)]


def shown(one, episodes, row: dict) -> list[float]:
    """The number that is compared with alpha, of the task and step where it is next above a candidate."""
    if hasattr(one, "scores"):
        values = one.scores(episodes)
    else:
        values = one.probability(episodes, int(row["k"])) if "k" in row else one.probability(episodes)
    above = np.sort(values[values >= row["alpha"]])
    return above[:1].tolist()


def routed(router, task, *, snapshots: bool = False, log: DecisionLog | None = None):
    """Play a task as an agent would under a router; give success and calls."""
    named = dict(zip(FEATURES, task.x, strict=True)) | {"unknown": 1.0}
    own = isinstance(router, PolicyRouter)
    state = router.start(named if own else task.x, episode=task.name, log=log)
    mode = {"call": "cheap" if state.opening is None else state.opening.call, "done": 0}

    class RestartError(Exception):
        pass

    def look(seen: list) -> None:
        nonlocal state
        for values in seen[mode["done"] :]:
            if values is not None and mode["call"] != "strong":
                if snapshots:
                    state = router.restore(json.loads(json.dumps(state.snapshot())), log=log)
                given = dict(zip(DIAGNOSTICS, values, strict=True))
                mode["call"] = state.observe(given | {"unknown": 2.0} if own else given).call
            elif mode["call"] == "strong_once":
                mode["call"] = "cheap"
        mode["done"] = len(seen)

    def strong_acts(seen: list) -> bool:
        look(seen)
        if mode["call"] == "restart":
            raise RestartError
        return mode["call"] in ("strong", "strong_once")

    seen_so_far = []

    def remembering(seen: list) -> bool:
        seen_so_far[:] = seen
        return strong_acts(seen)

    again = play(task, lambda _: True)
    try:
        if mode["call"] == "restart":
            raise RestartError
        done = play(task, remembering)
    except RestartError:
        state.finish()
        return again.success, len(seen_so_far), again.strong_calls
    look(done.risks)
    closing = state.finish() if mode["call"] == "cheap" else None
    if closing is not None and closing.call == "restart":
        return again.success, done.cheap_calls, again.strong_calls
    return done.success, done.cheap_calls, done.strong_calls


@pytest.mark.parametrize("name", POLICIES)
def test_a_loaded_router_does_what_the_fitted_policy_says(name, tmp_path):
    tasks, chosen = draw_tasks(2, 60), settings_of(name)
    ways = set()
    for place, setting in enumerate(chosen):
        router = fitted(name).router(setting)
        path = tmp_path / f"{place}.json"
        router.save(path)
        loaded = Router.load(path)
        assert loaded == router
        assert loaded.to_json() == path.read_text()
        VALIDATOR.validate(json.loads(path.read_text()))
        expected = fitted(name).outcomes(world(), setting)
        log = DecisionLog(tmp_path / f"{place}.jsonl") if place == len(chosen) // 2 else None
        found = np.array([routed(loaded, task, snapshots=place % 2 == 0, log=log) for task in tasks])
        np.testing.assert_array_equal(found[:, 0], expected.success)
        np.testing.assert_array_equal(found[:, 1], expected.cheap_calls)
        np.testing.assert_array_equal(found[:, 2], expected.strong_calls)
        ways |= {tuple(row) for row in found.tolist()}
        if log is not None:
            log.close()
            assert replay(log.path, loaded).agrees
    assert len(ways) > 2 or name.startswith("pure")


@tests(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from(sorted(POLICIES)), st.data())
def test_in_any_small_world_the_router_does_what_the_policy_says(seed, name, data):
    one = POLICIES[name].fit(episodes_of(draw_tasks(seed, 60)))
    table = one.candidates
    if name == "tuned":
        setting = settings_of(name)[data.draw(st.integers(0, 1))]
    elif "level" in table:
        setting = dict(table.iloc[data.draw(st.integers(0, len(table) - 1))]) | {"cheap": 1.5, "start": 0.2}
    else:
        setting = dict(table.iloc[data.draw(st.integers(0, len(table) - 1))])
    router = Router.from_json(one.router(setting).to_json())
    tasks = draw_tasks(seed + 1, 8)
    expected = one.outcomes(world_of(tasks), setting)
    found = np.array([routed(router, task, snapshots=True) for task in tasks])
    np.testing.assert_array_equal(found[:, 0], expected.success)
    np.testing.assert_array_equal(found[:, 2], expected.strong_calls)


@pytest.mark.parametrize("name", [name for name in POLICIES if not name.startswith(("tacit", "tuned"))])
def test_shadow_mode_never_hands_off(name):
    setting = settings_of(name)[-1]
    router = fitted(name).router(setting)
    for task in draw_tasks(3, 10):
        done = play(task, lambda _: False)
        state = router.start(dict(zip(FEATURES, task.x, strict=True)), shadow=True)
        said = [state.opening] + [state.observe(dict(zip(DIAGNOSTICS, u, strict=True))) for u in done.risks]
        said.append(state.finish())
        assert {one.call for one in said if one is not None} <= {"cheap"}
        assert not state.handoff


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_what_a_file_should_not_hold_is_refused(kind):
    content = json.loads(fitted(kind).router(settings_of(kind)[0]).to_json())
    assert content["policy"] == kind
    assert set(SCHEMA["$defs"][kind]["properties"]["numbers"]["properties"]) == set(kinds.KINDS[kind].keys)
    changes = [{"timing": "later"}, {"handoff": "again"}, {"numbers": None}, {"more": 1}, {"features": [1]}]
    changes += [{"numbers": {**content["numbers"], "more": 1}}, {"provenance": {}}, {"ranges": {}}]
    changes += [{"schema_version": other} for other in range(6) if other != content["schema_version"]]
    for key in content["numbers"]:
        changes.append({"numbers": {name: one for name, one in content["numbers"].items() if name != key}})
        changes.append({"numbers": content["numbers"] | {key: ["many"]}})
    for change in changes:
        with pytest.raises(FileFormatError):
            Router.from_json(json.dumps(content | change))
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(content | change)
    with pytest.raises(FileFormatError, match=r"fingerprint is .*; expected the digest of its content"):
        Router.from_json(json.dumps(content | {"fingerprint": "0" * 64}))
    with pytest.raises(FileFormatError, match="policy is 'coin'; expected 'pure_cheap' or 'pure_strong'"):
        Router.from_json(json.dumps(content | {"policy": "coin"}))


def test_only_what_can_be_written_makes_a_router():
    with pytest.raises(InvalidDataError, match="controller is 'ForcedHandoffController'; expected that of a policy"):
        PolicyRouter(ForcedHandoffController(2))
    with pytest.raises(InvalidDataError, match=r"chance is .*; expected a Chance: a file holds no other function"):
        PolicyRouter(TaskRouterController(lambda _: 0.5, 0.5))


def test_a_policys_state_asks_for_what_it_looks_at_and_ends():
    router = PolicyRouter(CountController({"risk": 0.5}, 2), (), ("risk",))
    state = router.start({"anything": 1}, episode="a")
    with pytest.raises(
        InvalidDataError, match=r"episode 'a', step 0: expected diagnostics\['risk'\], which is missing"
    ):
        state.observe({"other": 1.0})
    with pytest.raises(InvalidDataError, match="is -1"):
        state.observe({"risk": -1})
    first, second = state.observe([0.7]), state.observe({"risk": 0.9})
    assert (first.score, first.alpha, first.handoff, first.call) == (1.0, 2.0, False, "cheap")
    assert (second.score, second.handoff, second.handoff_step, second.call) == (2.0, True, 1, "strong")
    assert second.reason == "score 2 reached alpha 2"
    assert state.finish() is None
    with pytest.raises(EpisodeEndedError):
        state.observe({"risk": 1})
    with pytest.raises(InvalidDataError, match="another router"):
        PolicyRouter(PureController("cheap")).restore(state.snapshot())


def test_the_negative_log_likelihood_is_a_diagnostic_by_that_name():
    state = PolicyRouter(StepDeferralController(0.5), (), ("nll",)).start()
    assert [state.observe({"nll": value}).call for value in (0.4, 0.6, 0.1)] == ["cheap", "strong_once", "cheap"]
    assert not state.handoff


def test_a_loop_plays_any_router():
    tacit = fitted("tacit_switch").router({"alpha": 0.3})
    assert tacit.controller == RouterController(tacit)
    count = fitted("count").router({"alpha": 2})
    assert isinstance(count.controller, CountController)
    pilot = RouterController(count, shadow=True).begin({}, "a")
    assert pilot.before().call == "cheap"


def test_any_policy_loads_nothing_heavy(tmp_path):
    for kind in kinds.KINDS:
        fitted(kind).router(settings_of(kind)[0]).save(tmp_path / f"{kind}.json")
    code = f"""
import sys
from pathlib import Path
from bayes_tacit.router import Router
for path in sorted(Path({str(tmp_path)!r}).glob("*.json")):
    state = Router.load(path).start({{"x1": 0.5, "x2": 1}})
    state.observe({{"risk": 1, "doubt": 1}})
    state.snapshot()
    state.finish()
heavy = {{"pandas", "xarray", "pymc", "sklearn", "pydantic", "matplotlib"}}
print(*sorted(heavy & {{name.split(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
