"""Several worker processes: one that is killed takes no handoff with it, and cuts no line of the log."""

import json

import httpx
import pytest
from command_line import call
from fake_models import FakeModel, running
from processes import kill, serving, workers_of
from talks import TOOLS, counting, talk

SESSIONS, STEPS, HANDOFF, KILLS = 6, 8, 3, 2


def ask(url, session, turns):
    """Ask again where a killed worker has cut the connection, as every client does."""
    body = {"model": "m", "messages": talk("!" * turns), "tools": TOOLS}
    for _ in range(20):
        try:
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers={"x-session-id": session}, timeout=10)
            if answer.status_code == 200:
                return answer.headers["x-tacit-served"]
        except httpx.TransportError:
            continue
    raise AssertionError("no answer")


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs processes as Unix has them")
def test_a_killed_worker_loses_no_handoff_and_cuts_no_line(tmp_path):
    log = tmp_path / "log.jsonl"
    options = ("--state", str(tmp_path / "sessions.sqlite"), "--log", str(log))
    with running(FakeModel("cheap"), FakeModel("strong")) as models:
        urls = [one.url for one in models]
        with serving(counting(HANDOFF), *urls, tmp_path, *options) as (process, url):
            sides = {f"s{number}": [] for number in range(SESSIONS)}
            for step in range(STEPS):
                for session, found in sides.items():
                    found.append(ask(url, session, step))
                if step in (HANDOFF, HANDOFF + 2):
                    workers = workers_of(process)
                    assert workers
                    kill(workers[step % len(workers)])
    assert all(found == ["cheap"] * HANDOFF + ["strong"] * (STEPS - HANDOFF) for found in sides.values())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line["event"] == "start" for line in lines) == SESSIONS
    assert sum(bool(line.get("new_handoff")) for line in lines) == SESSIONS


def test_several_workers_need_a_file_to_share(tmp_path):
    options = ("--log", str(tmp_path / "log.jsonl"))
    nowhere = "http://127.0.0.1:9/v1"
    counting().save(tmp_path / "router.json")
    words = ("router.json", "--cheap", nowhere, "--strong", nowhere, "--workers", "2")
    done = call("serve", *words, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "--state" in done.stderr
