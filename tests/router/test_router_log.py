import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from bayes_tacit.router.decision import Decision
from hypothesis import given
from routers import FEATURES, ROLLOUTS, ROUTERS, random_router

from bayes_tacit import Router
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError, TacitWarning
from bayes_tacit.router import DecisionLog, Mismatch, Replay, replay


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, content: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in content))
    return path


@pytest.fixture
def router() -> Router:
    return random_router(draws=5)


@pytest.fixture
def logged(tmp_path, router) -> Path:
    """Two interleaved episodes, one restored on the way, one in shadow mode."""
    path = tmp_path / "decisions.jsonl"
    with DecisionLog(path) as log:
        first = router.start({"x0": 1, "x1": 0.5}, episode="task-17", log=log)
        second = router.start([0, 0], episode=3, log=log, shadow=True)
        for step in range(4):
            first.observe([step, 0.1, 0])
            second.observe({"u0": 0.0, "u1": 1, "u2": step})
            if step == 1:
                first = router.restore(first.snapshot(), log=log)
        first.finish()
    return path


def test_a_line_holds_what_the_score_needs_and_what_was_decided(logged, router):
    start, _, observed, *_ = lines(logged)
    assert start == {
        "event": "start",
        "episode": "task-17",
        "schema_version": 2,
        "router": router.fingerprint,
        "policy": "tacit_switch",
        "alpha": 0.3,
        "rule": "mean",
        "timing": "post_action",
        "handoff": "resume",
        "shadow": False,
        "features": {"x0": 1.0, "x1": 0.5},
        "opening": None,
    }
    expected = router.start([1, 0.5]).observe([0, 0.1, 0])
    assert observed.pop("event") == "observe"
    assert observed.pop("episode") == "task-17"
    assert observed.pop("diagnostics") == {"u0": 0.0, "u1": 0.1, "u2": 0.0}
    assert Decision(**observed) == expected


def test_events_are_in_the_order_in_which_they_happened(logged):
    events = [(line["event"], line["episode"]) for line in lines(logged)]
    both = [("observe", "task-17"), ("observe", 3)]
    expected = [("start", "task-17"), ("start", 3), *both, *both, ("restore", "task-17"), *both, *both]
    assert events == [*expected, ("finish", "task-17")]


def test_replaying_gives_the_same_decisions(logged, router):
    assert replay(logged, router) == Replay(episodes=3, decisions=8, mismatches=())
    assert replay(logged, router, tolerance=0).agrees


@given(ROUTERS, FEATURES, ROLLOUTS)
def test_every_log_can_be_computed_again_to_the_last_bit(tmp_path_factory, router, features, rollout):
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    with DecisionLog(path) as log:
        state = router.start(features, episode=0, log=log)
        for diagnostics in rollout:
            state.observe(diagnostics)
    done = replay(path, Router.from_json(router.to_json()), tolerance=0)
    assert done == Replay(episodes=1, decisions=len(rollout), mismatches=())


def test_a_log_of_several_routers_needs_all_of_them(tmp_path):
    routers = [random_router(alpha=alpha) for alpha in (0.2, 0.4)]
    path = tmp_path / "decisions.jsonl"
    with DecisionLog(path) as log:
        for router in routers:
            router.start([0, 0], episode="again", log=log).observe([1, 1, 1])
    assert replay(path, *routers).agrees
    with pytest.raises(
        FileFormatError, match=r"line 3: router is '\w+.*; expected that of a router to replay with: \w+"
    ):
        replay(path, routers[0])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("score", 0.5),
        ("risk", 0),
        ("handoff", True),
        ("handoff_step", 0),
        ("lower", None),
        ("step", 1),
        ("alpha", "0.3"),
    ],
)
def test_a_changed_decision_is_found(logged, router, field, value):
    content = lines(logged)
    computed = content[2][field]
    content[2][field] = value
    done = replay(write(logged, content), router)
    assert done.mismatches == (Mismatch(3, "task-17", 0, field, value, computed),)
    assert not done.agrees


def test_a_changed_diagnostic_is_found(logged, router):
    content = lines(logged)
    content[2]["diagnostics"]["u1"] = 0.2
    done = replay(write(logged, content), router)
    assert {"risk", "cumulative_risk", "score"} <= {
        mismatch.field for mismatch in done.mismatches if mismatch.line == 3
    }


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (1, {"event": "begin"}, "event is 'begin'; expected 'start' or 'observe' or 'restore' or 'finish'"),
        (1, {"episode": None}, "episode is None; expected a string or a whole number"),
        (1, {"episode": "other"}, "REST"),
        (1, {"schema_version": 3}, "schema_version is 3; expected 1 or 2"),
        (1, {"alpha": 0.2}, "alpha is 0.2; expected 0.3, as its router has it"),
        (1, {"shadow": "no"}, "shadow is 'no'; expected true or false"),
        (1, {"features": {"x0": 1}}, r"expected features\['x1'\], which is missing"),
        (1, {"router": None}, "router is None; expected that of a router to replay with"),
        (
            3,
            {"diagnostics": {"u0": 1, "u1": -1, "u2": 1}},
            r"step 0: diagnostics\['u1'\] is -1; expected a finite number",
        ),
        (3, {"diagnostics": None}, "diagnostics is None"),
        (3, {"more": 1}, "a key is 'more'"),
        (7, {"snapshot": {}}, "router is None"),
        (7, {"schema_version": None}, "schema_version is None"),
        (12, {"more": 1}, "a key is 'more'"),
    ],
)
def test_a_line_that_no_log_has_is_refused(logged, router, line, changes, message):
    content = lines(logged)
    content[line - 1] |= changes
    if message == "REST":
        line, message = 3, "episode is 'task-17'; expected an episode that was started in an earlier line"
    with pytest.raises(FileFormatError, match=f"decisions.jsonl, line {line}: .*{message}"):
        replay(write(logged, content), router)


def test_lines_that_are_no_objects_and_files_that_do_not_exist_are_refused(logged, router, tmp_path):
    with pytest.raises(FileFormatError, match=r"line 1: it is \[\]; expected an object"):
        replay(write(logged, [[]]), router)
    with pytest.raises(MissingFileError, match=r"none.jsonl: no such file"):
        replay(tmp_path / "none.jsonl", router)
    with pytest.raises(MissingFileError, match="no such folder"):
        DecisionLog(tmp_path / "none" / "decisions.jsonl")


def test_observing_after_the_finish_line_is_refused(logged, router):
    content = lines(logged)
    with pytest.raises(FileFormatError, match=r"line 13: .*expected an episode that was started"):
        replay(write(logged, [*content, {**content[2]}]), router)


@pytest.mark.parametrize("cut", [1, 2, 50, 200])
def test_a_last_line_cut_by_a_crash_is_left_out_with_a_warning(logged, router, cut):
    with DecisionLog(logged) as log:
        router.start([0, 0], episode="last", log=log).observe([1, 1, 1])
    text = logged.read_bytes()
    logged.write_bytes(text[: -1 - cut])
    with pytest.warns(TacitWarning, match="line 14: cut short, left out"):
        assert replay(logged, router) == Replay(episodes=4, decisions=8, mismatches=())
    with pytest.warns(TacitWarning, match="removed a last line that was cut short"), DecisionLog(logged) as log:
        router.start([0, 0], episode="next", log=log).observe([1, 1, 1])
    assert replay(logged, router) == Replay(episodes=5, decisions=9, mismatches=())


def test_a_last_line_without_its_newline_counts(logged, router):
    logged.write_bytes(logged.read_bytes().rstrip(b"\n"))
    assert replay(logged, router).decisions == 8


def test_a_line_cut_in_the_middle_is_refused(logged, router):
    content = logged.read_text().splitlines()
    content[3] = content[3][:40]
    logged.write_text("\n".join(content) + "\n")
    with pytest.raises(FileFormatError, match="line 4: not valid JSON"):
        replay(logged, router)


OTHERS = {
    "a binary": os.urandom(60_000).replace(b"\n", b"") + b"\nmore\0",
    "one long line": b"x" * 200_000,
    "text without a newline": b"my thesis",
    "text": b"my thesis\nand its end\n",
    "text after a log's line": b'{"event": "start", "episode": "a"}\nmy thesis',
    "a log's line after text": b'my thesis\n{"event": "observe", "episode": "a"}\n',
    "other JSON": b'{"episode": "a", "features": {}}\n',
    "other events": b'{"event": "login", "episode": "a"}\n',
    "an observation first": b'{"event": "observe", "episode": "a"}\n',
    "a broken first line": b'{"event": "start", "episode": \n',
    "nested": b'{"event": "start", "episode": ' + b"[" * 100_000 + b"\n",
    "one newline": b"\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_is_no_decision_log_is_refused_and_left_as_it_is(tmp_path, name):
    path = tmp_path / "thesis"
    path.write_bytes(OTHERS[name])
    with pytest.raises(
        FileFormatError, match=r"thesis: .*; expected a decision log, or a new file; it is left as it is"
    ):
        DecisionLog(path)
    assert path.read_bytes() == OTHERS[name]


@pytest.mark.parametrize("cut", [0, 1, 5, 11, 40])
def test_a_first_line_that_was_cut_short_is_removed(tmp_path, logged, cut):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(logged.read_bytes()[:cut])
    with warnings.catch_warnings(record=True, action="always") as caught:
        DecisionLog(path).close()
    assert path.read_bytes() == b""
    assert len(caught) == bool(cut)


def test_a_folder_or_a_pipe_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path, "folder"), (tmp_path / "pipe", "pipe")):
        with pytest.raises(FileFormatError, match=f"is a {kind}; expected a file in which to log decisions"):
            DecisionLog(path)


def test_a_log_that_keeps_going_holds_what_could_be_written_and_can_be_replayed(tmp_path, router):
    path = tmp_path / "decisions.jsonl"
    expected = [router.start([0, 0]).observe([1, 1, 1])] * 2
    with DecisionLog(path, keep_going=True) as log:
        first = router.start([0, 0], episode="a", log=log)
        log._file = FullDisk(log._file)
        with pytest.warns(TacitWarning, match=r"no room .*; decisions go on, and from here on none is logged"):
            decided = first.observe([1, 1, 1])
        log._file = log._file.file
        assert "no room" in log.failure
        second = router.start([0, 0], episode="b", log=log)
        assert [decided, second.observe([1, 1, 1])] == expected
    assert replay(path, router) == Replay(episodes=1, decisions=0, mismatches=())


def test_opening_a_whole_log_again_changes_nothing(logged):
    before = logged.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DecisionLog(logged).close()
    assert logged.read_bytes() == before


def test_a_log_needs_names_and_an_open_file(tmp_path, router):
    with DecisionLog(tmp_path / "decisions.jsonl") as log:
        with pytest.raises(InvalidDataError, match="episode is None; expected a name"):
            router.start([0, 0], log=log)
        state = router.start([0, 0], episode="a", log=log)
        state.observe([0, 0, 0])
    before = state.snapshot()
    with pytest.raises(InvalidDataError, match=r"decisions.jsonl: log is 'closed'; expected one that is open"):
        state.observe([1, 1, 1])
    with pytest.raises(InvalidDataError, match="expected one that is open"):
        state.finish()
    assert state.snapshot() == before
    assert len(lines(tmp_path / "decisions.jsonl")) == 2


def test_a_bad_observation_is_not_logged(tmp_path, router):
    with DecisionLog(tmp_path / "decisions.jsonl") as log:
        state = router.start([0, 0], episode="a", log=log)
        with pytest.raises(InvalidDataError):
            state.observe([-1, 0, 0])
    assert [line["event"] for line in lines(tmp_path / "decisions.jsonl")] == ["start"]


def test_a_full_disk_leaves_state_and_log_as_they_were(tmp_path, router, monkeypatch):
    path = tmp_path / "decisions.jsonl"
    with DecisionLog(path) as log:
        state = router.start([0, 0], episode="a", log=log)
        before, content = state.snapshot(), path.read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(log, "_file", FullDisk(log._file))
            with pytest.raises(OSError, match="no room"):
                state.observe([1, 1, 1])
        assert (state.snapshot(), path.read_bytes()) == (before, content)
        state.observe([1, 1, 1])
    assert replay(path, router).agrees


def test_a_second_log_on_the_same_file_is_refused_until_the_first_is_closed(tmp_path, router):
    path = tmp_path / "decisions.jsonl"
    with DecisionLog(path) as log:
        router.start([0, 0], episode="a", log=log)
        before = path.read_bytes()
        with pytest.raises(TacitError, match=r"decisions.jsonl: another DecisionLog writes to it; expected"):
            DecisionLog(path)
        code = f"from bayes_tacit.router import DecisionLog; DecisionLog({str(path)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "TacitError" in done.stderr
        assert "another DecisionLog writes to it" in done.stderr
        assert path.read_bytes() == before
    DecisionLog(path).close()


def test_a_log_is_written_by_the_process_that_opened_it(tmp_path, router, monkeypatch):
    path = tmp_path / "decisions.jsonl"
    with DecisionLog(path) as log:
        state = router.start([0, 0], episode="a", log=log)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 1)
            with pytest.raises(InvalidDataError, match=r"process is 1; expected \d+, which opened it"):
                state.observe([1, 1, 1])
    assert len(lines(path)) == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_failed_write_cuts_nothing_that_another_wrote(tmp_path, router, after):
    path = tmp_path / "decisions.jsonl"
    others = json.dumps({"event": "finish", "episode": "b"}) + "\n"

    def add() -> None:
        with path.open("a") as file:
            file.write(others)

    with DecisionLog(path) as log:
        state = router.start([0, 0], episode="a", log=log)
        if not after:
            add()
        log._file = FullDisk(log._file, add if after else None)
        with pytest.raises(OSError, match="no room"):
            state.observe([1, 1, 1])
    assert path.read_text().endswith(others)
    if not after:
        assert [line["event"] for line in lines(path)] == ["start", "finish"]


class Disk:
    def __init__(self, file, then=None):
        self.file = file
        self.closed = False
        self.then = then

    def __getattr__(self, name):
        return getattr(self.file, name)


class FullDisk(Disk):
    """Takes ten bytes of every line."""

    def write(self, line: bytes) -> int:
        written = self.file.write(line[:10])
        if self.then is not None:
            self.then()
        return written


class SlowDisk(Disk):
    """Lets other threads run in the middle of every line."""

    def write(self, line: bytes) -> int:
        written = self.file.write(line[:10])
        time.sleep(1e-4)
        return written + self.file.write(line[10:])


def test_many_threads_write_whole_lines(tmp_path, router):
    path = tmp_path / "decisions.jsonl"
    rollouts = np.random.default_rng(0).gamma(0.3, size=(16, 25, 3))

    def run(log: DecisionLog, worker: int) -> None:
        for i in range(worker, 16, 8):
            state = router.start([i, 0], episode=i, log=log)
            for diagnostics in rollouts[i]:
                state.observe(diagnostics)
            state.finish()

    with DecisionLog(path) as log:
        log._file = SlowDisk(log._file)
        threads = [threading.Thread(target=run, args=(log, worker)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert replay(path, router, tolerance=0) == Replay(episodes=16, decisions=400, mismatches=())
