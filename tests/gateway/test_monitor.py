"""The numbers of a log are those that a plain reading of its lines gives, whatever its order and length."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from logged import serve, trained
from scipy import stats
from talks import TOOLS, counting, talk

from bayes_tacit import Episodes, Router
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.gateway import Engine, Identity, Reply, SessionLog, Sessions
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.monitor import summarize
from bayes_tacit.monitor.summary import ratio_interval, share_interval
from bayes_tacit.router.files import Ranges
from bayes_tacit.router.rules import Chance, StepChance


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("log") / "gateway.jsonl"
    serve(path, trained(), np.random.default_rng(1), 80, shadow=counting(2))
    return path


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_session(path: Path) -> dict[str, dict[str, list[dict]]]:
    found = defaultdict(lambda: defaultdict(list))
    for line in lines_of(path):
        found[line["episode"]][line["event"]].append(line)
    return found


def test_totals_are_those_of_the_lines(log):
    summary, seen = summarize(log), by_session(log)
    handed = {name: [s for s in one["step"] if s["new_handoff"]] for name, one in seen.items()}
    assert summary.sessions == len(seen) == 80
    assert summary.handed == sum(map(bool, handed.values()))
    assert 10 < summary.handed < 70
    steps = [one[0]["decision"]["step"] for one in handed.values() if one]
    assert summary.handoff_steps == {step: steps.count(step) for step in sorted(set(steps))}
    replies = [reply for one in seen.values() for reply in one["reply"]]
    assert summary.spent.cost == pytest.approx(sum(reply["cost"] for reply in replies))
    assert summary.spent.strong_cost == pytest.approx(10 * len(replies))
    assert summary.spent.strong_calls == sum(reply["side"] == "strong" for reply in replies)
    known = {name: one["outcome"][0]["success"] for name, one in seen.items() if one["outcome"]}
    groups = {one.group: one for one in summary.success}
    assert (groups["all"].known, groups["all"].succeeded) == (len(known), sum(known.values()))
    after = [known[name] for name in known if handed[name]]
    assert (groups["handed off"].known, groups["handed off"].succeeded) == (len(after), sum(after))
    assert groups["Cheap to the end"].cost + groups["handed off"].cost == pytest.approx(summary.spent.cost)


def test_scores_are_the_last_ones_while_cheap_serves(log):
    summary, seen = summarize(log), by_session(log)
    for group, wanted in (("handed off", True), ("Cheap to the end", False)):
        scores, came = [], []
        for one in seen.values():
            asked = [step for step in one["step"] if step["decision"] is not None]
            if not one["outcome"] or not asked or asked[-1]["new_handoff"] is not wanted:
                continue
            scores.append(asked[-1]["decision"]["score"])
            came.append(one["outcome"][0]["success"] is wanted)
        bins = [one for one in summary.calibration if one.group == group]
        assert sum(one.n for one in bins) == len(scores) > 10
        assert sum(one.n * one.score for one in bins) == pytest.approx(sum(scores))
        assert sum(one.n * one.share for one in bins) == pytest.approx(sum(came))
        assert [one.least for one in bins] == sorted(one.least for one in bins)
        assert all(before.most < after.least for before, after in pairwise(bins))


@pytest.mark.parametrize("signs", [2, 3])
def test_the_shadow_is_compared_where_both_could_see(tmp_path, signs):
    log = tmp_path / "gateway.jsonl"
    serve(log, trained(), np.random.default_rng(1), 40, shadow=counting(signs))
    summary, seen = summarize(log), by_session(log)
    counts = dict.fromkeys([one.what for one in summary.compared], 0)
    same, earlier, not_yet, only, neither = counts
    for one in seen.values():
        ours = next((s["decision"]["step"] for s in one["step"] if s["new_handoff"]), None)
        steps = [s["shadow"]["handoff_step"] for s in one["step"] if s["shadow"]]
        theirs = next((step for step in steps if step is not None), None)
        if ours is None:
            counts[neither if theirs is None else only] += 1
        else:
            counts[not_yet if theirs is None else same if theirs == ours else earlier] += 1
    assert {one.what: one.sessions for one in summary.compared} == counts
    assert min(counts[same], counts[earlier if signs == 2 else not_yet], counts[neither]) > 0


def test_sessions_that_go_to_disk_in_between_give_the_same_numbers(log, tmp_path):
    shuffled = tmp_path / "shuffled.jsonl"
    # Sessions take turns, as they do behind a server: each goes to disk and comes back many times.
    turns = defaultdict(list)
    for line in log.read_text().splitlines():
        turns[json.loads(line)["episode"]].append(line)
    most = max(map(len, turns.values()))
    shuffled.write_text("".join(f"{one[at]}\n" for at in range(most) for one in turns.values() if at < len(one)))
    router = trained()
    one, other = summarize(log, router), summarize(shuffled, router, held=3)
    for name in ("sessions", "handed", "handoff_steps", "success", "compared", "calibration", "drifts", "periods"):
        assert getattr(one, name) == getattr(other, name)
    assert one.spent.cost == pytest.approx(other.spent.cost)


def test_a_retried_request_and_the_steps_of_strong_do_not_count_for_drift(tmp_path):
    log = tmp_path / "gateway.jsonl"
    # It asks Strong for the one step after an error.
    slopes = [10.0 * (name == "tool_error") for name in FLAGS]
    rule = StepChance(Chance([0.0] * len(FLAGS), [1.0] * len(FLAGS), -5.0, slopes))
    router = Router(
        rule=rule, alpha=0.5, call="strong_once", diagnostic_names=FLAGS, ranges=trained().ranges.only((), FLAGS)
    )
    sessions = Sessions(Engine(router), log=SessionLog(log))
    who = Identity("", "a", "test")
    for turns in ("", "", "!", "!", "!!", "!!."):
        ticket = sessions.begin(who, talk(turns), TOOLS)
        sessions.replied(ticket, ticket.ruling.side, Reply())
    shown = [one for line in lines_of(log) if line["event"] == "step" for one in line["steps"]]
    assert [one["side"] for one in shown] == ["cheap", "strong", "cheap"]
    drift = {one.name: one for one in summarize(log, router).drifts}["tool_error"]
    assert (drift.n, drift.sessions) == (2, 1)
    assert summarize(log).requests == 6


def session_lines(number: int, score: float, success: bool, *, handed: bool = True) -> list[dict]:
    """The lines of a session in which one decision is made."""
    name = {"episode": f"s{number}", "time": float(number), "scope": ""}
    known = {"format": "bayes_tacit.gateway", "schema_version": 1, "task": "t", "features": {}, "shadow": None}
    decision = {"step": 0, "pi": 0.95, "score": score, "handoff": handed, "handoff_step": 0 if handed else None}
    told = {"step": 1, "turn": 1, "latched": handed, "new_handoff": handed, "decision": decision, "shadow": None}
    return [
        {"event": "start", **name, **known, "router": {"router": "f", "policy": "tacit_switch"}},
        {"event": "step", **name, **told, "side": "cheap", "why": "", "missing": [], "fault": None},
        {"event": "outcome", **name, "success": success},
    ]


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("handed", [True, False])
@pytest.mark.parametrize(("rate", "exceeded"), [(0.4, True), (0.8, False), (0.95, False)])
def test_a_score_is_too_high_only_where_less_comes_true_than_it_says(tmp_path, handed, rate, exceeded):
    rng = np.random.default_rng(3)
    came = rng.permutation(np.arange(400) < 400 * rate)
    lines = []
    for number, true in enumerate(came):
        lines += session_lines(number, float(rng.uniform(0.78, 0.82)), bool(true) is handed, handed=handed)
    summary = summarize(write(tmp_path / "log.jsonl", lines))
    assert [one.exceeded for one in summary.calibration] == [exceeded] * 5
    assert bool(summary.warnings) is exceeded


def test_equal_scores_share_a_bin(tmp_path):
    lines = [line for n in range(90) for line in session_lines(n, [0.5, 0.6, 0.7][n % 3], True)]
    bins = summarize(write(tmp_path / "log.jsonl", lines)).calibration
    assert [(one.least, one.most, one.n) for one in bins] == [(0.5, 0.5, 30), (0.6, 0.6, 30), (0.7, 0.7, 30)]


def test_memory_does_not_grow_with_the_log(tmp_path):
    def peak(sessions: int) -> int:
        path = tmp_path / f"{sessions}.jsonl"
        with path.open("w") as file:
            for number in range(sessions):
                file.writelines(json.dumps(line) + "\n" for line in session_lines(number, number / sessions, True))
        tracemalloc.start()
        assert summarize(path, held=100).sessions == sessions
        reached = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return reached

    peak(120)  # what is loaded once
    assert peak(1_600) < 1.2 * peak(400)


def test_lines_that_were_cut_short_are_left_out_and_told(log, tmp_path):
    torn = tmp_path / "torn.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    torn.write_text("".join(lines[:50]) + lines[50][:30] + "\n" + "".join(lines[51:100]) + lines[100][:9])
    summary = summarize(torn)
    assert (summary.lines, summary.cut) == (101, 2)
    assert any("2 lines were cut short" in warning for warning in summary.warnings)


GOOD = session_lines(0, 0.5, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"event": "restore", "episode": "a"}', "line 2: event is 'restore'; expected 'start' or 'step'"),
        ("hello", "line 2: not valid JSON"),
        ("[1]", "line 2: it is [1]; expected an object, a line of a log of sessions"),
        (json.dumps({**GOOD[1], "step": -1}), "line 2: step is -1; expected a whole number"),
        (json.dumps({**GOOD[1], "latched": "no"}), "line 2: latched is 'no'; expected true or false"),
        (json.dumps({**GOOD[1], "decision": [1]}), "line 2: decision is [1]; expected an object"),
        (json.dumps({**GOOD[1], "decision": {"score": "x"}}), "line 2, decision: score is 'x'; expected a finite"),
        (json.dumps({**GOOD[1], "time": None}), "line 2: time is None; expected a time"),
        (json.dumps({**GOOD[1], "episode": ""}), "line 2: episode is ''; expected a name"),
        (json.dumps({**GOOD[2], "success": 1}), "line 2: success is 1; expected true or false"),
        (json.dumps({**GOOD[0], "schema_version": 9}), "line 2: schema_version is 9; expected 1"),
        (json.dumps({**GOOD[0], "format": "x"}), "line 2: format is 'x'; expected 'bayes_tacit.gateway'"),
        (json.dumps({"event": "reply", "time": 1, "scope": "", "episode": "a", "side": "x"}), "line 2: side is 'x'"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(tmp_path, line, said):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(GOOD[0]) + "\n" + line + "\n")
    with pytest.raises(FileFormatError) as caught:
        summarize(path)
    assert said in str(caught.value)


def test_training_episodes_stand_in_for_quantiles_that_a_router_does_not_carry(log, example):
    router = trained()
    names = ("prompt_length", "n_tools", *FLAGS)
    rng = np.random.default_rng(2)
    tasks = pd.DataFrame({"episode": range(40), "cheap_success": 1, "strong_success": 1})
    tasks["prompt_length"], tasks["n_tools"] = rng.uniform(30, 60, 40), np.arange(40) % 2
    steps = pd.DataFrame({"episode": np.repeat(range(40), 3), "step": np.tile(range(3), 40)})
    for name in FLAGS:
        steps[name] = rng.integers(0, 2, 120)
    training = Episodes.from_frames(tasks, steps)
    bare = replace(router, ranges=None)
    served = replace(router, ranges=Ranges.of(training).only(router.feature_names, router.diagnostic_names))
    found = summarize(_named(log, bare), bare, training=training).drifts
    assert found == summarize(_named(log, served), served).drifts
    assert [one.name for one in found] == list(names)
    with pytest.raises(InvalidDataError, match=r"features of training is .* expected those of the router"):
        summarize(log, bare, training=example)


def _named(log: Path, router: Router) -> Path:
    """The same log as if this router had decided."""
    path = log.with_name(f"{router.fingerprint[:9]}.jsonl")
    path.write_text(log.read_text().replace(trained().fingerprint, router.fingerprint))
    return path


def test_empty_files_missing_files_and_other_routers_are_refused(log, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(FileFormatError, match="holds no session; expected a log"):
        summarize(empty)
    with pytest.raises(MissingFileError, match="no such file; expected a log of sessions"):
        summarize(tmp_path / "none.jsonl")
    with pytest.raises(InvalidDataError, match="ranges of the router is None; expected a router with the quantiles"):
        summarize(log, counting())
    with pytest.raises(InvalidDataError, match=r"fingerprint of the router is .*; expected that of a router in"):
        summarize(log, trained((0, 0, 0, 0, 0, 1, 1)))


def test_a_log_that_begins_in_mid_session_is_read(tmp_path):
    lines = session_lines(0, 0.5, True)[1:]
    lines[0]["new_handoff"] = False
    summary = summarize(write(tmp_path / "log.jsonl", lines))
    assert (summary.sessions, summary.handed, summary.router, summary.handoff_steps) == (1, 1, None, {})


def test_intervals_are_those_of_scipy_and_hold_what_they_promise():
    posterior = stats.beta(7.5, 3.5)
    assert share_interval(7, 10) == pytest.approx(posterior.ppf([0.025, 0.975]))
    assert share_interval(0, 10)[0] == 0
    assert share_interval(10, 10)[1] == 1
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        cost, alone = rng.gamma(2, 3, 60), rng.gamma(3, 10, 60)
        squares = (cost @ cost, cost @ alone, alone @ alone)
        lower, upper = ratio_interval(60, (cost.sum(), alone.sum()), squares)
        held += lower <= 0.2 <= upper
    assert 0.91 < held / 400 < 0.98
    assert math.isnan(ratio_interval(1, (1, 1), (1, 1, 1))[0])
