"""A gateway's log is training data: sessions whose outcome is known become rollouts of who served them."""

import json
from random import Random

import numpy as np
import pytest
from command_line import call
from talks import TASK, TOOLS, counting, talk, turn

from bayes_tacit import Episodes
from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.gateway import Engine, Identity, Plan, Reply, SessionLog, Sessions, Usage
from bayes_tacit.logs import episodes_from_logs
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.router import pure

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")  # so few are much alike

CHEAP, STRONG = pure("cheap"), pure("strong")


def serve(log, router, name, turns, *, task, success=None, handoff=None):
    """Serve one session to its end, whose last answer is a text, and post its outcome."""
    sessions = Sessions(Engine(router, handoff=handoff), log=SessionLog(log))
    begun = [TASK[0], {"role": "user", "content": task}]
    for end in range(len(turns) + 1):
        ticket = sessions.begin(Identity("k", name, "mine"), talk(turns[:end], begun), TOOLS)
        reason = "stop" if end == len(turns) else "tool_calls"
        sessions.replied(ticket, ticket.ruling.side, Reply(finish_reason=reason, usage=Usage(10 * end, 2)))
    if success is not None:
        sessions.outcome("k", name, {"success": success})


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "gateway.jsonl"
    for number, (cheap, strong) in enumerate([(False, True), (True, True), (False, False)]):
        turns = [".!!.", "..", "!.!!!"][number]
        serve(path, CHEAP, f"c{number}", turns, task=f"Task {number}", success=cheap)
        serve(path, STRONG, f"s{number}", ".", task=f"Task {number}", success=strong)
    return path


def test_cheap_and_strong_sessions_of_a_task_are_a_paired_episode(log):
    episodes, report = episodes_from_logs(log)
    assert report.formats == ("gateway", "gateway")
    assert report.outcomes == {"00": 1, "01": 1, "10": 0, "11": 1}
    assert episodes.n_steps.tolist() == [5, 3, 6]
    assert episodes.feature_names[:2] == ("prompt_length", "n_tools")
    assert episodes.dataset["strong_steps"].values.tolist() == [2, 2, 2]
    assert episodes.dataset["cheap_input_tokens"].values.tolist() == [100, 30, 150]


def test_the_diagnostics_are_those_of_the_same_conversations_in_a_plain_log(log, tmp_path):
    episodes, _ = episodes_from_logs(log)
    answer = {"role": "assistant", "content": "It has three."}
    sides = {"cheap": [".!!.", "..", "!.!!!"], "strong": ["."] * 3}
    for side, several in sides.items():
        rollouts = []
        for number, turns in enumerate(several):
            begun = [TASK[0], {"role": "user", "content": f"Task {number}"}]
            rollouts.append({"task": f"{number}", "success": True, "messages": [*talk(turns, begun), answer]})
        lines = "".join(json.dumps({**one, "tools": TOOLS}) + "\n" for one in rollouts)
        (tmp_path / f"{side}.jsonl").write_text(lines)
    plain, _ = episodes_from_logs(tmp_path / "cheap.jsonl", tmp_path / "strong.jsonl")
    names = list(FLAGS)
    ours, theirs = (one.dataset["diagnostics"].sel(diagnostic=names).values for one in (episodes, plain))
    np.testing.assert_array_equal(ours, theirs)
    for name in ("prompt_length", "n_tools"):
        ours, theirs = (one.dataset["features"].sel(feature=name).values for one in (episodes, plain))
        np.testing.assert_array_equal(ours, theirs)


def test_what_the_routers_reader_said_is_left_out(log):
    before, _ = episodes_from_logs(log)
    text = log.read_text().replace('"tool_error": ', '"cheap_fails": 0.7, "tool_error": ')
    log.write_text(text.replace('"prompt_length": ', '"cheap_promise": 0.1, "prompt_length": '))
    after, _ = episodes_from_logs(log)
    assert after.dataset.identical(before.dataset)


def test_sessions_without_outcome_or_of_a_side_that_was_chosen_are_left_out_and_counted(log):
    serve(log, CHEAP, "open", "..", task="Task 1")
    serve(log, counting(1), "resumed", "!..", task="Task 2", success=True)
    serve(log, counting(9), "stayed", "...", task="Task 2", success=True)
    serve(log, counting(1), "restarted", "!..", task="Task 2", success=True, handoff="restart")
    episodes, report = episodes_from_logs(log)
    assert len(episodes) == 3
    told = " ".join(report.notes)
    assert "1 sessions have no outcome" in told
    assert "3 sessions were left out whose side the router chose" in told
    assert "--explore" in told


def test_a_log_of_a_router_alone_is_refused_with_what_is_missing(tmp_path):
    log = tmp_path / "gateway.jsonl"
    for number in range(4):
        serve(log, counting(2), f"s{number}", "!!." if number % 2 else "..", task=f"Task {number}", success=True)
    with pytest.raises(TacitError, match="explored or of a router that always chooses one side"):
        episodes_from_logs(log)


def test_what_explored_sessions_say_of_cheap_is_not_flattered_by_the_router(tmp_path):
    """Cheap solves a task unless it errs twice; a router hands off most of those on which it does."""
    log, rng, truth = tmp_path / "gateway.jsonl", np.random.default_rng(5), []
    sessions = Sessions(Engine(counting(1)), log=SessionLog(log), plan=Plan(explore=0.5), rng=Random(1))
    for number in range(400):
        turns = "!!." if rng.random() < 0.5 else ".."
        truth.append(turns == "..")
        for attempt in range(2):  # a task comes again, as in a test suite
            begun = [TASK[0], {"role": "user", "content": f"Task {number}"}]
            for end in range(len(turns) + 1):
                who = Identity("k", f"{number}/{attempt}", "mine")
                ticket = sessions.begin(who, talk(turns[:end], begun), TOOLS, task=f"t{number}")
                ended = Reply(finish_reason="stop" if end == len(turns) else "tool_calls", usage=Usage(1, 1))
                sessions.replied(ticket, ticket.ruling.side, ended)
            sessions.outcome("k", who.session, {"success": truth[-1] or ticket.ruling.latched})
    episodes, _ = episodes_from_logs(log, trials="number")
    played = episodes.n_steps > 0  # sessions of a task that only Strong served have no step
    share = float(episodes.dataset["cheap_success"].values[played].mean())
    served = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "start"]
    assert {line["arm"] for line in served} == {"router", "cheap", "strong"}
    assert served[0]["arms"] == {"router": 0.5, "cheap": 0.25, "strong": 0.25}
    assert 150 < played.sum() < 250  # a quarter of 800
    assert abs(share - np.mean(truth)) < 3 * np.sqrt(0.25 / played.sum())


def test_a_turn_that_was_asked_for_again_is_one_step(log):
    sessions = Sessions(Engine(CHEAP), log=SessionLog(log))
    for turns in ("", "", "!", "!", "!"):
        ticket = sessions.begin(Identity("k", "again", "mine"), talk(turns), TOOLS)
        sessions.replied(ticket, "cheap", Reply(finish_reason="stop"))
    sessions.outcome("k", "again", {"success": False, "task": "again"})
    serve(log, STRONG, "again-strong", ".", task="x", success=True)
    with log.open("a") as file:
        file.write(log.read_text().splitlines()[-1].replace('"task": null', '"task": "again"') + "\n")
    episodes, _ = episodes_from_logs(log)
    assert episodes.select(["again"]).n_steps.tolist() == [2]


def test_a_step_whose_answer_nobody_sent_is_not_made_up(tmp_path):
    log = tmp_path / "gateway.jsonl"
    sessions = Sessions(Engine(CHEAP), log=SessionLog(log))
    for turns in ("", "!"):
        ticket = sessions.begin(Identity("k", "cut", "mine"), [*TASK, *(turn(0, bad=True) if turns else [])], TOOLS)
        sessions.replied(ticket, "cheap", Reply(finish_reason="tool_calls"))
    sessions.outcome("k", "cut", {"success": False})
    serve(log, STRONG, "s", ".", task=TASK[1]["content"], success=True)
    episodes, _ = episodes_from_logs(log)
    assert episodes.n_steps.tolist() == [1]


def test_one_log_of_another_kind_needs_its_partner(tmp_path):
    (tmp_path / "cheap.jsonl").write_text(json.dumps({"task": "a", "success": True, "messages": talk(".")}) + "\n")
    with pytest.raises(InvalidDataError, match="only a gateway's log has both"):
        episodes_from_logs(tmp_path / "cheap.jsonl")


def test_the_command_makes_episodes_that_can_be_fitted(log, tmp_path):
    done = call("import", log, "--out", "episodes.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(Episodes.read(tmp_path / "episodes.jsonl")) == 3


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"call": 1, "side"', '"calls": 1, "side"', "line is"),
        ('"schema_version": 1', '"schema_version": 2', "version 1"),
        ('"tool_error": 1.0', '"tool_error": 0.5', "0 or 1"),
        ('"tool_error": 1.0', '"wrong": 1.0', "diagnostic is 'wrong'"),
        ("}\n", "\n", "not valid JSON"),
    ],
)
def test_a_log_that_was_changed_is_refused_with_its_place(log, old, new, what):
    log.write_text(log.read_text().replace(old, new, 1))
    with pytest.raises(TacitError, match=what) as found:
        episodes_from_logs(log)
    assert "gateway.jsonl" in str(found.value)
