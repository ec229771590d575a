"""Event logs hold whole lines of their own kind: through crashes, full disks, forks, threads and other processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError, TacitWarning
from bayes_tacit.events import EventLog, LogFormat, read_events

WALKS = LogFormat("walks", "a log of walks", ("start", "restore", "step", "end"))
open_log = partial(EventLog, log=WALKS)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "walks.jsonl"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def walk(path: Path, steps: int = 2, **settings) -> bytes:
    with open_log(path, **settings) as log:
        log.append("start", "a", {"from": "home"})
        for at in range(steps):
            log.append("step", "a", {"at": at})
    return path.read_bytes()


def test_a_beginning_carries_format_and_version_and_no_other_line_does(path):
    walk(path, 1)
    opening = {"event": "start", "episode": "a", "format": "walks", "schema_version": 1, "from": "home"}
    assert lines(path) == [opening, {"event": "step", "episode": "a", "at": 0}]
    assert list(read_events(path, WALKS)) == list(enumerate(lines(path), 1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text() | st.integers(), JSON)
def test_whatever_json_can_hold_comes_back(tmp_path_factory, episode, value):
    path = tmp_path_factory.mktemp("log") / "walks.jsonl"
    with open_log(path) as log:
        log.append("start", episode, {"text": value})
        log.append("end", "half of a pair: \ud800")
    (_, first), (_, last) = read_events(path, WALKS)
    assert (first["episode"], first["text"], last["episode"]) == (episode, value, "half of a pair: \ud800")


def test_what_json_cannot_hold_is_not_written(path):
    with open_log(path) as log, pytest.raises(ValueError, match="not JSON compliant"):
        log.append("start", "a", {"x": float("nan")})
    assert path.read_bytes() == b""


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("cut", [1, 2, 20, 45, 60])
def test_a_last_line_that_was_cut_is_left_out_by_the_reader_and_removed_by_the_next_writer(path, cut, shared):
    whole = walk(path)
    path.write_bytes(whole[:-1] + b"\n" + whole[: cut + 1])
    with pytest.warns(TacitWarning, match="line 4: cut short, left out"):
        assert [number for number, _ in read_events(path, WALKS)] == [1, 2, 3]
    with (
        pytest.warns(TacitWarning, match="removed a last line that was cut short"),
        open_log(path, shared=shared) as log,
    ):
        log.append("end", "a")
    assert path.read_bytes() == whole + b'{"event": "end", "episode": "a"}\n'


def test_opening_a_whole_log_again_changes_nothing(path):
    before = walk(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_log(path).close()
    assert path.read_bytes() == before
    open_log(path, fresh=True).close()
    assert path.read_bytes() == b""


START = b'{"event": "start", "episode": "a", "format": "walks", "schema_version": 1}\n'
OTHERS = {
    "a binary": os.urandom(60_000).replace(b"\n", b"") + b"\nmore\0",
    "text": b"my thesis\nand its end\n",
    "text after a log's line": START + b"my thesis",
    "a log's line after text": b"my thesis\n" + START,
    "other events": b'{"event": "login", "episode": "a"}\n',
    "a step first": b'{"event": "step", "episode": "a"}\n',
    "another log": START.replace(b"walks", b"runs"),
    "another version": START.replace(b"1", b"2"),
    "a broken first line": b'{"event": "start", "episode": \n',
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_file_is_refused_and_left_as_it_is(path, name):
    path.write_bytes(OTHERS[name])
    with pytest.raises(
        FileFormatError, match=r"walks.jsonl: .*; expected a log of walks, or a new file; it is left as"
    ):
        open_log(path)
    assert path.read_bytes() == OTHERS[name]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "line 2: not valid JSON"),
        (b'{"event": "step", "epi', "line 2: not valid JSON"),
        (b'{"event": "step", "episode": "\xff"}', "line 2: not valid JSON"),
        (b'{"event": "step", "event": "end", "episode": "a"}', "line 2: .*'event' is there twice"),
        (b'{"event": "step", "episode": "a", "x": 1e999}', "line 2: .*1e999 is too large a number"),
        (b"[]", r"line 2: it is \[\]; expected an object"),
        (b'{"event": [], "episode": "a"}', r"line 2: event is \[\]; expected 'start' or 'restore' or 'step' or 'end'"),
        (b'{"event": "step", "episode": null}', "line 2: episode is None; expected a string or a whole number"),
        (START.replace(b"walks", b"runs"), "line 2: format is 'runs'; expected 'walks'"),
        (START.replace(b"1", b"true"), "line 2: schema_version is True; expected 1: it was written by another version"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(path, line, message):
    path.write_bytes(START + line.rstrip(b"\n") + b"\n" + START)
    with pytest.raises(FileFormatError, match=rf"walks.jsonl, {message}"):
        list(read_events(path, WALKS))


def test_a_log_needs_a_name_and_an_open_file(path):
    with open_log(path) as log, pytest.raises(InvalidDataError, match="episode is None; expected a name"):
        log.append("start", None)
    with pytest.raises(InvalidDataError, match=r"walks.jsonl: log is 'closed'; expected one that is open"):
        log.append("start", "a")


@pytest.mark.parametrize("shared", [False, True])
def test_a_line_for_which_there_is_no_room_is_taken_back(path, shared):
    walk(path)
    code = f"""
import resource, signal
log = EventLog({str(path)!r}, WALKS, shared={shared})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({path.stat().st_size + 50},) * 2)
for content in ({{"long": "x" * 100}}, {{}}):
    try:
        log.append("end", "a", content)
    except OSError as error:
        print(error)
"""
    done = _elsewhere(code)
    assert done.stdout == f"{path}: no room for a line of 145 bytes\n"
    assert [line["event"] for line in lines(path)] == ["start", "step", "step", "end"]


def test_a_log_that_keeps_going_says_once_why_it_stopped():
    with open_log("/dev/full", keep_going=True) as log:
        with pytest.warns(TacitWarning, match=r"No space left on device: '/dev/full'; decisions go on") as caught:
            log.append("start", "a")
        log.append("step", "a")  # without another warning
        assert len(caught) == 1
        assert "No space left" in log.failure
    with open_log("/dev/full") as log, pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        log.append("start", "a")


def test_a_second_log_on_a_file_is_refused_until_the_first_is_closed(path):
    with open_log(path) as log:
        log.append("start", "a")
        before = path.read_bytes()
        with pytest.raises(TacitError, match=r"walks.jsonl: another EventLog writes to it; expected a file of its own"):
            open_log(path, fresh=True)
        assert "another EventLog writes to it" in _elsewhere(f"EventLog({str(path)!r}, WALKS)").stderr
        assert path.read_bytes() == before
    open_log(path).close()


def test_a_process_that_was_forked_keeps_no_lock_and_writes_no_line(path):
    with open_log(path) as log:
        child = os.fork()
        if not child:
            try:
                log.append("start", "a")
            except InvalidDataError as error:
                os.write(2, str(error).encode())
                signal.pause()
            os._exit(1)
    try:
        open_log(path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("shared", [False, True])
def test_many_threads_write_whole_lines(path, shared):
    def run(log: EventLog, worker: int) -> None:
        for at in range(200):
            log.append("start", worker, {"at": at, "more": "x" * 300})

    with open_log(path, shared=shared) as log:
        threads = [threading.Thread(target=run, args=(log, worker)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [(line["episode"], line["at"]) for line in lines(path)]
    assert sorted(found) == [(worker, at) for worker in range(8) for at in range(200)]
    assert all([at for worker, at in found if worker == one] == list(range(200)) for one in range(8))


def test_several_processes_share_a_log_and_one_that_was_killed_cuts_no_line_of_the_others(path):
    code = f"log = EventLog({str(path)!r}, WALKS, shared=True)\nfor at in range(300): log.append('start', at)"
    others = [subprocess.Popen([sys.executable, "-c", HEADER + code]) for _ in range(2)]
    with open_log(path, shared=True) as log:
        for at in range(300):
            log.append("start", at)
        assert [other.wait() for other in others] == [0, 0]
        with path.open("ab") as file:
            file.write(START[:30])  # what one that is killed in the middle of a line leaves
        with pytest.warns(TacitWarning, match="removed a last line that was cut short"):
            log.append("end", 0)
    found = lines(path)
    assert sorted(line["episode"] for line in found[:-1]) == sorted([*range(300)] * 3)
    assert found[-1]["event"] == "end"


HEADER = f"""
from bayes_tacit.events import EventLog, LogFormat
WALKS = LogFormat("walks", "a log of walks", {WALKS.events!r})
"""


def _elsewhere(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", HEADER + code], capture_output=True, text=True, check=False)
