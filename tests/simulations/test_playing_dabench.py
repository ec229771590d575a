"""DABench is collected, continued and evaluated like ALFWorld: in the real sandbox, with answers that are replayed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from command_line import call
from toy_world import deferral, threshold_router

from bayes_tacit import StepCost
from bayes_tacit.agents import Budget, Proposal, episodes_from_transcripts, read_pairs, read_transcript
from bayes_tacit.agents.playing import Continuations, Entry, Players, RecordedActor, collect, play_policies
from bayes_tacit.router import Router
from bayes_tacit.router.rule import failing_below
from bayes_tacit.router.rules import Chance, Ended
from models.dabench import DABENCH
from simulations.dabench import DABench
from simulations.dabench.benchmark import FAILED, RAN

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

COST = StepCost.paper("9b")
BUDGET = Budget(4, calls=4)
HEIGHTS = {"2": (3.0, 6.0), "10": (4.0, 4.0)}


def code(text):
    return f"```python\n{text}\n```"


# Without pandas, which takes a second to import in each call.
LOAD = code("rows = open('plants-{id}.csv').read().split()\nprint(len(rows))")
MEAN = code("values = open('plants-{id}.csv').read().split()[1:]\nprint(sum(map(float, values)) / len(values))")
WRONG = code("print(rows['width'])")


@dataclass(frozen=True)
class Scripted:
    """Says the replies of a list at its own turns, with what is asked for filled in."""

    name: str
    replies: tuple[str, ...]

    def act(self, history):
        name = next(name for name in HEIGHTS if f"plants-{name}.csv" in history.task)
        turn = sum(step.agent == self.name for step in history.steps)
        said = self.replies[turn].replace("{id}", name).replace("{mean}", f"{sum(HEIGHTS[name]) / 2:.2f}")
        return Proposal(said, nll=0.5 + turn)


CHEAP = Scripted("cheap", (LOAD, "let me think", WRONG, "@mean[4.00]"))
STRONG = Scripted("strong", (MEAN, "@mean[{mean}]"))
PLAYERS = Players(CHEAP, STRONG, COST, BUDGET)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two questions in the layout in which DABench is published; Cheap's guess is right for the second."""
    home = tmp_path_factory.mktemp("dabench")
    (home / "da-dev-tables").mkdir()
    questions, labels = [], []
    for name, heights in HEIGHTS.items():
        rows = "".join(f"{height}\n" for height in heights)
        (home / "da-dev-tables" / f"plants-{name}.csv").write_text(f"height\n{rows}")
        questions.append(
            {
                "id": int(name),
                "question": "What is the mean of the column height?",
                "concepts": ["Summary Statistics"],
                "constraints": "Round to two decimal places.",
                "format": "@mean[number]",
                "file_name": f"plants-{name}.csv",
                "level": "easy",
            }
        )
        labels.append({"id": int(name), "common_answers": [["mean", f"{sum(heights) / 2:.2f}"]]})
    (home / "da-dev-questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in reversed(questions)))
    (home / "da-dev-labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labels))
    return home


@pytest.fixture(scope="module")
def recorded(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "rollouts"
    return folder, collect(DABench(data), folder, PLAYERS)


def router():
    """Hands off at the first proposal that is neither code nor an answer."""
    names = {"diagnostic_names": ("protocol_violation",), "feature_names": ("answer_arity",)}
    return replace(threshold_router(1, "proposal"), **names)


def test_questions_are_collected_in_the_sandbox_and_make_episodes(data, recorded):
    folder, pairs = recorded
    assert [pair.task.id for pair in pairs] == ["2", "10"]
    assert [pair.outcome for pair in pairs] == ["01", "11"]
    for pair in pairs:
        said = [step.result.observation.text.split("\n")[0] for step in pair.cheap.steps]
        assert (said[0], said[2]) == (RAN, FAILED)
        assert pair.cheap.header.timing == "proposal"
        # Pressure begins when half of the four calls are used, and an answer has none.
        pressure = [step.diagnostics["budget_pressure"] for step in pair.cheap.steps]
        assert pressure[:2] == [0, 0]
        assert 0 < pressure[2] <= 1
        assert pressure[3] == 0
    episodes = episodes_from_transcripts(read_pairs(folder))
    assert (episodes.feature_names, episodes.diagnostic_names) == (DABENCH.features, DABENCH.diagnostics)
    assert collect(DABench(data), folder, PLAYERS) == pairs


def test_every_handoff_is_what_strong_does_from_there(data, recorded, tmp_path):
    _, pairs = recorded
    table = Continuations(DABench(data), pairs[:1], tmp_path, PLAYERS).counterfactuals()
    for handoff, success in ((0, 1), (1, 1), (2, 1), (3, 0)):
        # From step 3 on there is one call left, which is not enough to look and to answer.
        found = table.outcomes_at([handoff])
        assert found.success.tolist() == [success]
        assert found.cheap_calls.tolist() == [handoff]
        assert found.cost.tolist() == [handoff * 2.25 + min(2, 4 - handoff) * 6.75]


def test_a_discarded_proposal_is_one_of_the_calls_that_a_handoff_may_take(data, recorded, tmp_path):
    _, pairs = recorded
    played = Continuations(DABench(data), pairs[:1], tmp_path, PLAYERS, handoff_timing="proposal")
    known = played.counterfactuals([[1, 2]])
    for handoff, success in ((1, 1), (2, 0)):
        # Of four calls, Strong is left two after one action and a discarded proposal, and one after two and that.
        found = known.outcomes_at([handoff], discards_proposal=True)
        assert found.success.tolist() == [success]
        assert found.cheap_calls.tolist() == [handoff + 1]
        assert found.cost.tolist() == [(handoff + 1) * 2.25 + (3 - handoff) * 6.75]
    # Both readings are kept side by side.
    after = Continuations(DABench(data), pairs[:1], tmp_path, PLAYERS).counterfactuals([[2]])
    assert after.outcomes_at([2]).success.tolist() == [1]
    assert played.counterfactuals([[2]]).outcomes_at([2], discards_proposal=True).success.tolist() == [0]


def test_policies_are_played_on_questions_and_kept(data, recorded, tmp_path):
    folder, pairs = recorded
    actors = Players(RecordedActor(folder, "cheap"), RecordedActor(folder, "strong"), COST, BUDGET)
    again = collect(DABench(data), tmp_path / "rollouts", actors)
    # Cheap's chance is below a half where the highest protocol violation is above a half.
    n = len(DABENCH.diagnostics)
    slopes = -2.0 * np.array([name == "protocol_violation" for name in DABENCH.diagnostics])
    rule = Ended(("highest",), Chance(np.zeros(n), np.ones(n), 1.0, slopes))
    judging = Router(
        rule=rule, alpha=failing_below(0.5), call="restart", timing="proposal", diagnostic_names=DABENCH.diagnostics
    )
    entries = [Entry("Cascade", judging), Entry("Step Deferral", deferral(2.0))]
    played = play_policies(DABench(data), again, entries, tmp_path / "played", actors)
    for transcript, pair in zip(played["Cascade"], pairs, strict=True):
        assert transcript.features.keys() == {*DABENCH.features, "operation_breadth", "transformation_workflow"}
        assert (transcript.end.restarted, transcript.end.success) == (True, True)
        assert transcript.end.cost == pair.cheap.end.cost + pair.strong.end.cost
    # Cheap's third proposal is the first that is unlikely enough; after it the budget of calls is spent.
    for transcript in played["Step Deferral"]:
        done = [(step.agent, step.executed) for step in transcript.steps]
        assert done == [("cheap", True), ("cheap", True), ("cheap", False), ("strong", True)]
    assert play_policies(DABench(data), again, entries, tmp_path / "played", actors) == played


def test_the_commands_play_dabench(data, recorded, tmp_path):
    folder, _ = recorded
    common = (
        *f"--benchmark simulations.dabench:benchmark --data {data} --cheap {folder} --strong {folder}".split(),
        *["--cost", "9b", "--json"],
    )
    done = call("collect", *common, "--actions", 4, "--out", "rollouts", "--first", 1, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["outcomes"] == {"00": 0, "01": 1, "10": 0, "11": 0}
    first = read_transcript(tmp_path / "rollouts" / "2.cheap.jsonl")
    assert (first.header.max_actions, first.header.max_calls, first.header.cheap) == (4, 4, "recorded cheap")
    router().save(tmp_path / "router.json")
    (tmp_path / "tasks.txt").write_text("10\n2\n")
    words = ("evaluate", "router.json", *common, "--actions", 4, "--tasks", "tasks.txt", "--out", "played")
    words = (*words, "--deferral", 2.0, "--resamples", 20)
    done = call(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    found = {name: policy["successes"] for name, policy in told["policies"].items()}
    assert found == {"Pure Cheap": 1, "router": 2, "Step Deferral 2.0": 0, "Pure Strong": 2}
    # Cheap's first call, the discarded second, and Strong's two.
    assert told["policies"]["router"]["cost"] == 2 * 2.25 + 2 * 6.75
    again = call(*words, cwd=tmp_path)
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cheap", "nobody"), "--cheap is 'nobody'; expected scripted, http://... or https://..., or a folder of"),
        (("--cheap", "{folder}", "--strong", "{folder}", "--split", "x"), "--split is 'x'; expected none"),
        (("--cheap", "{folder}", "--strong", "{folder}", "--data", "nowhere"), "no such file"),
        (("--cheap", "{folder}", "--strong", "{folder}", "--strong-model", "x"), "expected none with --strong"),
    ],
)
def test_bad_words_are_told_in_one_line(data, recorded, tmp_path, words, message):
    folder, _ = recorded
    given = [str(folder) if word == "{folder}" else word for word in words]
    done = call(
        "collect", "--benchmark", "simulations.dabench:benchmark", "--data", data, "--out", "o", *given, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_the_folder_may_be_named_by_a_variable(data, recorded, tmp_path, monkeypatch):
    folder, _ = recorded
    words = f"collect --benchmark simulations.dabench:benchmark --cheap {folder} --strong {folder} --out o".split()
    monkeypatch.delenv("DABENCH_DATA", raising=False)
    assert "set the variable DABENCH_DATA" in call(*words, cwd=tmp_path).stderr
    monkeypatch.setenv("DABENCH_DATA", str(data))
    (tmp_path / "tasks.txt").write_text("3\n")
    told = call(*words, "--tasks", "tasks.txt", cwd=tmp_path).stderr
    assert told == "error: tasks.txt: task is '3'; expected an id such as '2'\n"
