import json
from pathlib import Path

import pytest
from routers import random_router

from bayes_tacit import Router
from bayes_tacit.errors import FileFormatError
from bayes_tacit.router import Decision, DecisionLog, Mismatch, Replay, replay


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
        "format": "bayes_tacit.decisions",
        "schema_version": 1,
        "router": router.fingerprint,
        "policy": "tacit_switch",
        "alpha": 0.3,
        "timing": "post_action",
        "handoff": "resume",
        "shadow": False,
        "features": {"x0": 1.0, "x1": 0.5},
        "opening": None,
    }
    expected = router.start([1, 0.5]).observe([0, 0.1, 0])
    assert observed.pop("event") == "step"
    assert observed.pop("episode") == "task-17"
    assert observed.pop("diagnostics") == {"u0": 0.0, "u1": 0.1, "u2": 0.0}
    assert Decision(**observed) == expected


def test_events_are_in_the_order_in_which_they_happened(logged):
    events = [(line["event"], line["episode"]) for line in lines(logged)]
    both = [("step", "task-17"), ("step", 3)]
    expected = [("start", "task-17"), ("start", 3), *both, *both, ("restore", "task-17"), *both, *both]
    assert events == [*expected, ("end", "task-17")]


def test_replaying_gives_the_same_decisions(logged, router):
    assert replay(logged, router) == Replay(episodes=3, decisions=8, mismatches=())
    assert replay(logged, router, tolerance=0).agrees


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
        ("handoff_step", 0),
        ("step", 1),
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
        (1, {"episode": "other"}, "REST"),
        (1, {"alpha": 0.2}, "alpha is 0.2; expected 0.3, as its router has it"),
        (1, {"shadow": "no"}, "shadow is 'no'; expected true or false"),
        (1, {"features": {"x0": 1}}, r"expected features\['x1'\], which is missing"),
        (1, {"router": None}, "router is None; expected that of a router to replay with"),
        (3, {"diagnostics": {"u0": 1, "u1": -1, "u2": 1}}, r"step 0: diagnostics\['u1'\] is -1; expected a finite"),
        (3, {"more": 1}, "a key is 'more'"),
        (7, {"snapshot": {}}, "router is None"),
    ],
)
def test_a_line_that_no_log_has_is_refused(logged, router, line, changes, message):
    content = lines(logged)
    content[line - 1] |= changes
    if message == "REST":
        line, message = 3, "episode is 'task-17'; expected an episode that was started in an earlier line"
    with pytest.raises(FileFormatError, match=f"decisions.jsonl, line {line}: .*{message}"):
        replay(write(logged, content), router)


def test_observing_after_the_end_is_refused(logged, router):
    content = lines(logged)
    with pytest.raises(FileFormatError, match=r"line 13: .*expected an episode that was started"):
        replay(write(logged, [*content, {**content[2]}]), router)


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


class FullDisk:
    """Takes ten bytes of every line."""

    def __init__(self, file):
        self.file = file
        self.closed = False

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, line: bytes) -> int:
        return self.file.write(line[:10])


def test_a_log_with_another_opening_is_found(tmp_path):
    router = random_router(2, started=True)
    with DecisionLog(tmp_path / "log.jsonl") as log:
        router.start([0, 0], episode="a", log=log)
    content = lines(tmp_path / "log.jsonl")
    content[0]["opening"]["score"] += 0.1
    (found,) = replay(write(tmp_path / "log.jsonl", content), router).mismatches
    assert (found.step, found.field) == (-1, "score")
