"""The policy in CONTRIBUTING lives outside the package, and goes everywhere that the library's own go."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from command_line import PROGRAM
from documents import Document
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit import Router, compare, recommend
from bayes_tacit.agents import run_episode
from bayes_tacit.gateway import Engine, SessionState
from bayes_tacit.policies import FirstAlarm, PureCheap
from bayes_tacit.router import Call, DecisionLog, replay
from bayes_tacit.router.rule import MODULES, RULES
from simulations.mechanism import calibrated, simulate_replicate

RECIPES = Document(Path(__file__).parents[1] / "CONTRIBUTING.md")
NAME = "two_alarms"


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Iterator[ModuleType]:
    """The recipe's module, in a folder of its own."""
    (block,) = [block for block in RECIPES.blocks if block.file == f"{NAME}.py"]
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / f"{NAME}.py").write_text(block.body, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setitem(RULES, NAME, None)  # taken out again at the end
        del RULES[NAME]
        sys.modules.pop(NAME, None)
        yield import_module(NAME)
        del sys.modules[NAME]


@pytest.fixture(scope="module")
def worlds():
    return simulate_replicate(calibrated(), 1, 0, {"train": 800, "development": 400, "test": 400})


@pytest.fixture(scope="module")
def router(own, worlds) -> Router:
    fitted = own.TwoAlarms("risk").fit(worlds["train"].episodes)
    return fitted.router(fitted.choose(worlds["development"], 16).point)


def second_alarm(risks: list[float], alpha: float) -> int:
    """Return the second of the first two steps on end that are both high; -1 for none."""
    return next((t for t, both in enumerate(pairwise(risks), 1) if min(both) >= alpha), -1)


def rollout(world, row: int) -> list[float]:
    return world.episodes.dataset["diagnostics"].values[row, : world.episodes.n_steps[row], 0].tolist()


def test_it_takes_at_most_40_lines_and_no_edit_of_the_package(own):
    assert len(Path(own.__file__).read_text(encoding="utf-8").splitlines()) <= 40
    assert not own.LowerOfTwo.__module__.startswith("bayes_tacit")


def test_compare_gives_what_comes_of_the_rule_in_plain_python(own, worlds):
    policies = [FirstAlarm("risk"), own.TwoAlarms("risk")]
    result = compare(policies, worlds["train"].episodes, worlds["development"], worlds["test"], cap=16)
    alpha, test = result.choices["Two Alarms"].alpha, worlds["test"]
    table, found = test.counterfactuals.table(), result.outcomes["Two Alarms"]
    for row, n_steps in enumerate(test.episodes.n_steps):
        at = second_alarm(rollout(test, row), alpha)
        handoff = -1 if at in (-1, n_steps - 1) else at + 1
        assert (found.success[row], found.cost[row]) == (table[0, row, handoff], table[1, row, handoff])
    assert 0.1 < found.point()["intervention_rate"] < 0.9


def test_recommend_judges_it_beside_others(own, worlds):
    tried = [PureCheap(), own.TwoAlarms("risk")]
    found = recommend(worlds["development"], 16, training=worlds["train"].episodes, policies=tried, folds=2)
    assert found.name == "Two Alarms"
    assert found.router.rule.policy == NAME


def test_its_file_log_and_snapshots_go_on_as_those_of_any_router(router, worlds, tmp_path):
    router.save(tmp_path / "router.json")
    loaded = Router.load(tmp_path / "router.json")
    assert loaded == router
    with DecisionLog(tmp_path / "log.jsonl") as log:
        for row in range(20):
            risks = rollout(worlds["test"], row)
            state = loaded.start(episode=str(row), log=log)
            for risk in risks:
                state = loaded.restore(state.snapshot(), log=log)
                state.observe({"risk": risk})
            assert (-1 if state.handoff_step is None else state.handoff_step) == second_alarm(risks, router.alpha)
    assert replay(tmp_path / "log.jsonl", loaded).agrees


def test_another_process_finds_it_where_the_environment_says(own, router, worlds, tmp_path, monkeypatch):
    router.save(tmp_path / "router.json")
    risks = [rollout(worlds["test"], row) for row in range(20)]
    lines = []
    for row, values in enumerate(risks):
        lines += [{"episode": row, "features": {}}, *({"episode": row, "diagnostics": {"risk": one}} for one in values)]
        lines.append({"episode": row, "end": True})

    def route() -> subprocess.CompletedProcess[str]:
        text = "\n".join(map(json.dumps, lines))
        command = [PROGRAM, "route", "router.json"]
        return subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, check=False)

    monkeypatch.setenv("PYTHONPATH", str(Path(own.__file__).parent), prepend=":")
    refused = route()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert MODULES in refused.stderr
    monkeypatch.setenv(MODULES, NAME)
    done = route()
    assert done.returncode == 0, done.stderr
    calls: dict[int, list[Call]] = {}
    for reply in map(json.loads, done.stdout.splitlines()):
        if "call" in reply:
            calls.setdefault(reply["episode"], []).append(reply["call"])
    for row, values in enumerate(risks):
        at = second_alarm(values, router.alpha)
        cheap = len(values) if at == -1 else at
        assert calls[row] == ["cheap"] * cheap + ["strong"] * (len(values) - cheap)


def test_an_agent_plays_by_it(router):
    stalled = replace(router, alpha=1.0, diagnostic_names=("stalled",))
    cheap, strong = Walker("cheap", ("right", *WAIT)), Walker("strong", RIGHT)
    played = run_episode(Corridor(4), cheap, strong, stalled, episode="corridor", extractor=Stalled())
    assert [step.agent for step in played.steps] == ["cheap"] * 3 + ["strong"] * 3
    assert played.end.success


def test_the_gateway_serves_by_it(router):
    engine, kept = Engine(replace(router, alpha=1.0, diagnostic_names=("tool_error",))), SessionState()
    messages = [{"role": "user", "content": "How many rows has t?"}]
    sides = []
    for number, said in enumerate(["Error: no table", "[(1,)]", "Error: no column", "Error: no column", "[(2,)]"]):
        sides.append(engine.consider(kept, messages).side)
        call = {"id": str(number), "type": "function", "function": {"name": "sql", "arguments": f'{{"q": {number}}}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(number), "content": said},
        ]
    sides.append(engine.consider(kept, messages).side)
    assert sides == ["cheap"] * 4 + ["strong"] * 2
