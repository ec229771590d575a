"""A user's own benchmark, in a module beside the data or installed under a name, goes through every command."""

from __future__ import annotations

import json

import pytest
from command_line import call

from bayes_tacit import Router

MODULE = '''
import random
from contextlib import nullcontext
from dataclasses import dataclass

from bayes_tacit.agents import Observation, Proposal, StepResult
from bayes_tacit.agents.playing import Suite


@dataclass(frozen=True)
class Walk:
    id: str
    length: int


class Corridor:
    """The door is at the end."""

    def __init__(self, task):
        self.id, self.length = task.id, task.length

    def reset(self):
        self.place = 0
        return Observation("here", task=f"{self.id} of {self.length}")

    def step(self, action):
        self.place += action == "go"
        there = self.place == self.length
        return StepResult(Observation(f"place {self.place}"), done=there, success=there)


class Corridors:
    timing = "post_action"

    def tasks(self):
        return [Walk(f"walk-{at:02}", 2 + at % 6) for at in range(60)]

    def environment(self, task):
        return nullcontext(Corridor(task))

    def extractor(self, task, budget, *, descriptors=False):
        return Seen()


class Seen:
    feature_names, diagnostic_names = ("length",), ("waited",)

    def features(self, first):
        return {"length": float(first.task.split()[-1])}

    def diagnostics(self, history, proposal, result):
        noise = random.Random(f"{history.task} {len(history)}").random()
        return {"waited": noise if proposal.action == "wait" else 0.2 * noise}


@dataclass(frozen=True)
class Walker:
    """Cheap waits where it does not care."""

    name: str
    seed: int

    def act(self, history):
        draw = random.Random(f"{self.seed} {history.task} {len(history)}").random()
        return Proposal("wait" if self.name == "cheap" and draw < 0.5 else "go")


suite = Suite(lambda data, split, unsafe: Corridors(), actions=6, scripted=Walker)
'''


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Paired rollouts, played by the module in the working directory."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "corridors.py").write_text(MODULE)
    done = call("collect", "--benchmark", "corridors:suite", "--out", "rollouts", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_a_module_beside_the_data_is_played_and_its_router_evaluated(collected):
    folder, counts = collected
    assert counts["games"] == 60
    assert counts["outcomes"]["01"] > 0
    for words in (
        ("teach", "rollouts", "--rule", 3, "--out", "episodes.jsonl"),
        ("fit", "episodes.jsonl", "--out", "fit.json"),
        ("select", "fit.json", "episodes.jsonl", "--alpha", 0.5, "--out", "router.json"),
    ):
        done = call(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert Router.load(folder / "router.json").diagnostic_names == ("waited",)
    done = call("evaluate", "router.json", "--benchmark", "corridors:suite", "--out", "played", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    policies = json.loads(done.stdout)["policies"]
    assert list(policies) == ["Pure Cheap", "router", "Pure Strong"]
    assert policies["Pure Cheap"]["success"] < policies["router"]["success"] <= policies["Pure Strong"]["success"]


def test_an_entry_point_names_it(collected, tmp_path, monkeypatch):
    folder, counts = collected
    installed = tmp_path / "corridors-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: corridors\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[bayes_tacit.benchmarks]\nwalks = corridors:suite\n")
    (tmp_path / "corridors.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = call("collect", "--benchmark", "walks", "--out", folder / "rollouts", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == counts["outcomes"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("walks", "or the name of an installed benchmark (there are: none)"),
        ("nowhere:suite", "a module that can be imported (No module named 'nowhere')"),
        ("json:suite", "an object that json has"),
        ("json:dumps", "a bayes_tacit.agents.benchmark.Suite, not function"),
    ],
)
def test_what_is_no_benchmark_is_told(tmp_path, name, message):
    done = call("collect", "--benchmark", name, "--out", "rollouts", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())
