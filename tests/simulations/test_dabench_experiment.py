"""The experiment on DABench: every policy is played, goes on where it stopped, and replays recorded answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_dabench
from small_dabench import N, policies, write_questions

from bayes_tacit import Episodes
from bayes_tacit.agents import (
    History,
    Proposal,
    Step,
    read_pairs,
    run_episode,
)
from bayes_tacit.agents.benchmark import file_stem
from bayes_tacit.agents.playing import collect
from bayes_tacit.router import pure
from simulations import __main__ as program
from simulations.__main__ import main
from simulations.dabench import DABench
from simulations.dabench import experiment as command
from simulations.dabench.experiment import BUDGET, COST, analysts, dabench_setup, replaying, run_experiment
from simulations.dabench.questions import make_splits
from simulations.played.policies import DEFERRAL, POSTERIOR, TACIT

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

PLAYERS = analysts()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    """Return the folders of results and of what was played, after a run that nobody stopped."""
    home = tmp_path_factory.mktemp("dabench")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("compared_policies", "without_posterior"):
            patched.setattr(command, name, getattr(command, name))
        assert small_dabench.run(data, home / "out", home / "kept") == 0
    return home / "out", home / "kept"


@pytest.fixture(scope="module")
def ran(data, written):
    return run_experiment(data, written[1], policies=policies())


def plain(benchmark, task, decide):
    """Play without the loop: `decide` says who acts from the step and Cheap's proposal there."""
    cheap, strong = 0, 0
    with benchmark.environment(task) as environment:
        history = History(environment.reset())
        while cheap + strong < BUDGET.calls and not (history.steps and history.steps[-1].result.done):
            proposal, agent = PLAYERS.cheap.act(history), "cheap"
            who = decide(len(history), proposal)
            cheap += who != "strong"
            if who != "cheap":
                if cheap + strong == BUDGET.calls:
                    break
                proposal, agent, strong = PLAYERS.strong.act(history), "strong", strong + 1
            history = history.then(Step(agent, proposal, environment.step(proposal.action)))
    return history.steps[-1].result.success, cheap, strong


@pytest.mark.study
def test_every_policy_was_played_as_a_plain_loop_plays_it(ran, data):
    benchmark, table = DABench(data), ran.episodes.set_index(["policy", "episode"])
    episodes, settings = ran.test.episodes, ran.comparison.choices
    on_the_way = 0
    for row, pair in enumerate(ran.pairs["test"]):
        level = settings[DEFERRAL].point["alpha"]
        decisions = {DEFERRAL: lambda _, proposal, level=level: "discards" if proposal.nll >= level else "cheap"}
        for name in (TACIT, POSTERIOR):
            handoff = int(ran.comparison.fitted[name].handoffs(episodes, settings[name].point)[row])
            on_the_way += handoff > 0

            def decide(step, _, handoff=handoff):
                if handoff < 0 or step < handoff:
                    return "cheap"
                return "discards" if step == handoff > 0 else "strong"

            decisions[name] = decide
        for name, decide in decisions.items():
            success, cheap, strong = plain(benchmark, pair.task, decide)
            found = table.loc[name, pair.task.id]
            assert (found["success"], found["cheap_calls"], found["strong_calls"]) == (success, cheap, strong)
            assert found["cost"] == 2.25 * cheap + 6.75 * strong == COST([cheap], [strong])[0]
    assert on_the_way


@pytest.mark.attack
def test_a_run_that_was_killed_goes_on_to_the_same_results(data, written, tmp_path):
    here = Path(__file__).parent
    words = [data, tmp_path / "out", tmp_path / "kept"]
    paths = os.pathsep.join([str(here.parents[1]), str(here), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, small_dabench.__file__, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None and len(list((tmp_path / "kept").glob("continuations/*.jsonl"))) < 2:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    kept = {path: path.read_bytes() for path in (tmp_path / "kept" / "rollouts").glob("*.jsonl")}
    assert kept
    with pytest.MonkeyPatch.context() as patched:
        for name in ("compared_policies", "without_posterior"):
            patched.setattr(command, name, getattr(command, name))
        assert small_dabench.run(*words) == 0
    assert all(path.read_bytes() == content for path, content in kept.items())
    names = sorted(path.name for path in written[0].iterdir())
    assert names == sorted(path.name for path in words[1].iterdir())
    for name in names:
        one, other = (untimed(folder / name) for folder in (written[0], words[1]))
        assert one == other, name


def untimed(path):
    """Return a file of results without what depends on how fast it was."""
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        return re.sub(rb'"seconds": [-+.e\d]+', b"", content)
    if path.suffix == ".md":
        return re.sub(rb"## How long it took.*?\n## ", b"", content, flags=re.DOTALL)
    return content


@pytest.mark.study
def test_recorded_transcripts_are_replayed_and_give_the_same_rollouts(ran, data, written, tmp_path):
    folder = written[1] / "rollouts"
    players = replaying(0, folder, folder, make_splits(data).all)
    few = [policy for policy in policies() if policy.name in ("Pure Cheap", TACIT, "Pure Strong")]
    first = run_experiment(data, tmp_path, players=players, policies=few)
    for part, pairs in ran.pairs.items():
        assert [pair.outcome for pair in first.pairs[part]] == [pair.outcome for pair in pairs]
        for pair, before in zip(first.pairs[part], pairs, strict=True):
            assert (pair.cheap.header.cheap, pair.strong.header.strong) == ("recorded cheap", "recorded strong")
            assert [step.result for step in pair.cheap.steps] == [step.result for step in before.cheap.steps]
            assert [step.result for step in pair.strong.steps] == [step.result for step in before.strong.steps]
    for name in ("diagnostics", "features", "nll"):
        np.testing.assert_array_equal(first.training.dataset[name].values, ran.training.dataset[name].values)
    before = ran.episodes.set_index("policy")
    pd.testing.assert_frame_equal(
        first.episodes.set_index("policy").loc[["Pure Cheap", "Pure Strong"]], before.loc[["Pure Cheap", "Pure Strong"]]
    )
    assert set(first.played) == {policy.name for policy in few}


@pytest.mark.study
def test_marks_are_where_a_diagnostic_tells_something(ran):
    training = ran.training
    assert 0 < training.has_window.sum() <= (training.outcomes == "01").sum()
    diagnostics = training.dataset["diagnostics"].values
    for row in np.flatnonzero(training.has_window):
        mark = int(training.dataset["window_start"].values[row])
        assert diagnostics[row, mark + 1].any()
    quiet = np.flatnonzero((training.outcomes == "01") & ~training.has_window)
    for row in quiet:
        assert not diagnostics[row, training.n_steps[row] - 1].any()


@pytest.mark.study
def test_the_page_says_what_was_played(ran, written):
    out, _ = written
    page = (out / "README.md").read_text()
    n = len(ran.pairs["test"])
    for row in ran.comparison.table.to_dict("records"):
        assert f"{round(row['success'] * n)}/{n} ({100 * row['success']:.1f}%) | {row['cost']:.2f}" in page
    pairs = [pair for part in ran.pairs.values() for pair in part]
    right = [sum(pair.cheap.end.success for pair in pairs), sum(pair.strong.end.success for pair in pairs)]
    both = " | ".join(f"{count} ({count / len(pairs):.1%})" for count in right)
    assert f"| all | {N - 1} | {both} |" in page
    pd.testing.assert_frame_equal(pd.read_parquet(out / "episodes.parquet"), ran.episodes)
    assert Episodes.read(out / "training.nc").fingerprint() == ran.training.fingerprint()


def test_bad_input_is_told_in_one_line(data, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DABENCH_DATA", raising=False)

    def said(*words):
        assert main(["dabench", "--out", str(tmp_path / "out"), *map(str, words)]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return told

    assert "set the variable DABENCH_DATA" in said()
    assert "no such file" in said("--data", tmp_path / "nowhere")
    assert "no --replicates with dabench" in said("--data", data, "--replicates", 3)
    assert "no such folder" in said("--data", data, "--cheap", tmp_path / "nowhere")
    assert "no recorded answers of strong; expected finished Pure Strong transcripts" in said(
        "--data", data, "--strong", data
    )
    broken = write_questions(tmp_path / "broken")
    lines = (broken / "da-dev-questions.jsonl").read_text().splitlines()
    (broken / "da-dev-questions.jsonl").write_text("\n".join([*lines[:3], lines[3][:40], *lines[4:]]))
    assert re.search(r"da-dev-questions\.jsonl, line 4: not valid JSON", said("--data", broken))
    bare = write_questions(tmp_path / "bare")
    (bare / "da-dev-tables" / "trips.csv").unlink()
    assert "none of the 5 questions to fit on has its table" in said("--data", bare)
    monkeypatch.setattr(program, "STUDIES", {})
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "dabench: left out" in capsys.readouterr().err


@pytest.mark.study
def test_decisions_are_at_proposals_and_rollouts_of_another_pair_are_refused(data, written, tmp_path):
    setup = dabench_setup(data, tmp_path, analysts(1))
    # A handoff discards a proposal, which is one of the twelve calls.
    assert (setup.handoff_timing, setup.players.budget.calls) == ("proposal", 12)
    with pytest.raises(Exception, match="use another folder"):
        collect(setup.benchmark, written[1] / "rollouts", setup.players)
    assert len(read_pairs(written[1] / "rollouts")) == N - 1


class Sayer:
    """Says some replies; none of them is code, so that no sandbox is needed."""

    name = "sayer"

    def __init__(self, *replies):
        self.replies = replies

    def act(self, history):
        return Proposal(self.replies[len(history)], nll=0.5)


def answer(question, *, right):
    return "\n".join(f"@{name}[{value if right else 'nothing'}]" for name, value in question.label.items())


@pytest.fixture(scope="module")
def recorded_data(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def whole(recorded_data, tmp_path_factory):
    """Rollouts of every question: both say something else first; Cheap is right on even ones."""
    folder = tmp_path_factory.mktemp("rollouts")
    benchmark = DABench(recorded_data)
    for question in make_splits(recorded_data).all:
        says = {
            "cheap": Sayer(
                f"let me think of {question.id}", "and again", answer(question, right=int(question.id) % 2 == 0)
            ),
            "strong": Sayer("let me look", answer(question, right=True)),
        }
        for agent, sayer in says.items():
            actors = (sayer, None) if agent == "cheap" else (None, sayer)
            with benchmark.environment(question) as environment:
                run_episode(
                    environment,
                    *actors,
                    pure(agent, "proposal"),
                    episode=question.id,
                    extractor=benchmark.extractor(question, BUDGET),
                    budget=BUDGET,
                    path=folder / f"{file_stem(question)}.{agent}.jsonl",
                )
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "recorded")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def edited(path, change):
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines(path))))


def with_end(**values):
    return lambda content: [*content[:-1], {**content[-1], **values}]


def with_first(**values):
    """Change what was seen at first."""

    def change(content):
        observation = {**content[1]["observation"], **values}
        return [content[0], {**content[1], "observation": observation}, *content[2:]]

    return change


def by_strong(content):
    """Have it all done by Strong."""
    steps = [{**line, "agent": "strong"} if line["event"] == "step" else line for line in content]
    return with_end(cheap_calls=0, strong_calls=3)(steps)


# Every one of them leaves question 4 without answers; a change of the file of Cheap's rollout.
CHANGES = {
    "gone": (None, "not on record"),
    "broke off": (with_end(status="actor_error", success=False), "not on record"),
    "no task": (with_first(task=""), "recorded for another one, ''"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_question_without_answers_is_told_in_one_line_before_anything_is_played(
    kind, recorded_data, folder, tmp_path, capsys
):
    change, why = CHANGES[kind]
    path = folder / "4.cheap.jsonl"
    path.unlink() if change is None else edited(path, change)
    words = ["dabench", "--data", recorded_data, "--out", tmp_path / "out", "--cheap", folder, "--strong", folder]
    assert main([str(word) for word in words]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {folder}: no recorded answers of cheap for question 4")
    assert told.endswith(f"; expected a finished rollout for each of {N - 1} questions\n")
    assert told.count("\n") == 1
    assert why in told
    assert not (tmp_path / "out").exists()
