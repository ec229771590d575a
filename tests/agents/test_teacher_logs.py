"""Marks for imported logs: by rule, by a model that reads both rollouts, from a file."""

import json
import random

import numpy as np
import pytest
from command_line import call as program
from conversations import answer, asked, call, rollout, turn, write
from protocol_server import ProtocolServer, says

from bayes_tacit import Episodes
from bayes_tacit.agents.marks import Mark, mark_unproductive, with_marks
from bayes_tacit.agents.pairs import pairs_from_logs
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs import episodes_from_logs

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


def attempt(task, pattern, *, success=False, **more):
    """A rollout whose turns end in an error where the pattern has an x."""
    messages = [{"role": "system", "content": "You are careful."}, asked(f"Solve {task}.")]
    for at, sign in enumerate(pattern):
        messages += [turn(call(q=f"{task} {at}")), answer(f"Error: {at}" if sign == "x" else f"row {at}")]
    return {"task": task, "success": success, "messages": messages} | more


@pytest.fixture
def logs(tmp_path):
    def made(patterns, **more):
        cheap = write(tmp_path / "cheap.jsonl", *(attempt(name, one, **more) for name, one in patterns.items()))
        strong = write(tmp_path / "strong.jsonl", *(rollout(name, **more) for name in patterns))
        return cheap, strong

    return made


@pytest.mark.parametrize(
    ("pattern", "mark"),
    [
        ("xxx", Mark(2, 2, 2)),
        (".xxxx.xxx", Mark(3, 4, 3)),
        ("xx.xx.xx", None),
        (".....", None),
        ("xxxxx", Mark(2, 4, 2)),
    ],
)
def test_the_rule_marks_the_first_run_of_unproductive_steps(logs, pattern, mark):
    episodes, _ = episodes_from_logs(*logs({"a": pattern}))
    assert mark_unproductive(episodes, 3) == ({} if mark is None else {"a": mark})


def test_the_rule_agrees_with_a_plain_search_and_its_marks_can_be_joined(logs):
    rng = random.Random(5)
    patterns = {f"t{at}": "".join(rng.choice("x.") for _ in range(rng.randint(1, 12))) for at in range(60)}
    episodes, _ = episodes_from_logs(*logs(patterns))
    for n_steps in (1, 2, 4):
        marks = mark_unproductive(episodes, n_steps)
        for name, pattern in patterns.items():
            at = pattern.find("x" * n_steps)
            assert (name in marks) == (at >= 0)
            if at >= 0:
                assert marks[name].start == at + n_steps - 1
                rest = pattern[marks[name].start : marks[name].end + 2]
                assert set(rest[: marks[name].end + 1 - marks[name].start]) == {"x"}
                assert rest[marks[name].end + 1 - marks[name].start :] in ("", ".")
        assert with_marks(episodes, marks).has_window.sum() == len(marks)


def test_a_model_reads_both_rollouts_of_the_logs(logs, tmp_path):
    cheap, strong = logs({"a": ".xxx"})
    program("import", cheap, strong, "--out", "episodes.jsonl", cwd=tmp_path)
    said = '{"earliest": 1, "latest": 2, "recommended": 1, "explanation": "errors"}'
    with ProtocolServer(says(said)) as server:
        options = ["--model", "wise", "--base-url", server.base_url, "--keep", "kept", "--out", "marked.jsonl"]
        lacking = program("teach", "episodes.jsonl", *options, cwd=tmp_path)
        options += ["--cheap-log", cheap, "--strong-log", strong]
        done = program("teach", "episodes.jsonl", *options, cwd=tmp_path)
        shown = server.requests[0]["body"]["messages"][1]["content"]
    assert lacking.returncode == 2
    assert "--cheap-log and --strong-log" in lacking.stderr
    assert done.returncode == 0, done.stderr
    for part in ("Task: Solve a.", "4 steps, from 0 to 3", "Error: 3", 'sql {"q": "a 3"}', "row 1"):
        assert part in shown
    marked = Episodes.read(tmp_path / "marked.jsonl")
    assert marked.dataset["window_start"].values.tolist() == [1]
    assert marked.dataset["window_end"].values.tolist() == [2]
    assert marked.dataset["strong_steps"].values.tolist() == [2]


def test_trials_are_shown_as_they_were_paired(tmp_path):
    cheap = [attempt("a", "." * n, trial=n) for n in (10, 2)]
    strong = [rollout("a", turns=n, trial=n) for n in (3, 1)]
    files = write(tmp_path / "c.jsonl", *cheap), write(tmp_path / "s.jsonl", *strong)
    episodes, _ = episodes_from_logs(*files)
    pairs = {
        one.episode: (len(one.checkpoints), len(other.executed)) for one, other in pairs_from_logs(episodes, *files)
    }
    assert pairs == {"a#1": (2, 1), "a#2": (10, 3)}


def test_other_logs_than_those_imported_are_refused(logs, tmp_path):
    episodes, _ = episodes_from_logs(*logs({"a": "xxx"}))
    cheap, strong = logs({"a": "xxxx"})
    with pytest.raises(InvalidDataError, match="steps of cheap is 4; expected 3"):
        pairs_from_logs(episodes, cheap, strong)
    write(tmp_path / "cheap.jsonl", rollout("z"))
    with pytest.raises(InvalidDataError, match="expected a rollout of it in"):
        pairs_from_logs(episodes, cheap, strong)


def test_the_command_marks_imported_episodes_by_rule_and_from_a_file(logs, tmp_path):
    cheap, strong = logs({"a": ".xxx", "b": "....", "c": "xxxx"})
    program("import", cheap, strong, "--out", "episodes.jsonl", cwd=tmp_path)
    done = program("teach", "episodes.jsonl", "--rule", 2, "--out", "ruled.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["marked"] == 2
    starts = Episodes.read(tmp_path / "ruled.jsonl").dataset["window_start"].values
    np.testing.assert_array_equal(starts, [2, np.nan, 1])
    (tmp_path / "marks.csv").write_text("episode,window_start,window_end\nb,0,3\n", encoding="utf-8")
    done = program("teach", "episodes.jsonl", "--marks", "marks.csv", "--out", "human.parquet", cwd=tmp_path)
    assert done.returncode == 0
    ends = Episodes.read(tmp_path / "human.parquet").dataset["window_end"].values
    np.testing.assert_array_equal(ends, [np.nan, 3, np.nan])
    both = program("teach", "episodes.jsonl", "--rule", 2, "--marks", "marks.csv", "--out", "x.jsonl", cwd=tmp_path)
    assert both.returncode == 2


@pytest.mark.parametrize(
    ("steps", "rule", "told"),
    [
        ({"a": ".x.x", "b": "x.x."}, 3, "the rule marks 0 of 2 episodes, too few to learn from; --rule 1 marks 2"),
        ({"a": "....", "b": "...."}, 2, "these signs say little here"),
        ({"a": "xxxx", "b": ".xxx"}, 2, "2 of 2 marks go on to the end of the rollout, and say little of when: --evid"),
    ],
)
def test_a_rule_that_marks_next_to_nothing_or_up_to_the_end_says_what_to_do(logs, tmp_path, steps, rule, told):
    cheap, strong = logs(steps)
    program("import", cheap, strong, "--out", "episodes.jsonl", cwd=tmp_path)
    done = program("teach", "episodes.jsonl", "--rule", rule, "--out", "ruled.jsonl", cwd=tmp_path)
    assert told in done.stdout
    assert done.stdout.splitlines()[-1].startswith("next: bayes-tacit recommend ruled.jsonl")
