"""The page is one sound HTML file that says what the numbers say, and opens in a browser, on a phone too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from between import gateway
from command_line import call
from logged import serve, trained
from pages import CHROMIUM, Page, assert_sound, opened
from talks import TASK, TOOLS, counting, talk
from test_gateway_server import KEY

from bayes_tacit.errors import FileFormatError
from bayes_tacit.gateway import Engine, Identity, Plan, Reply, SessionLog, Sessions
from bayes_tacit.monitor import monitor, summarize
from bayes_tacit.monitor.page import PARTS, sentence


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("log") / "gateway.jsonl"
    serve(path, trained(), np.random.default_rng(1), 120, shadow=counting(3))
    trained().save(path.with_name("router.json"))
    return path


@pytest.fixture(scope="module")
def written(log) -> Path:
    path = log.with_name("page.html")
    monitor(log, path, trained(), title="Sessions of <b>May & June</b>")
    assert plt.get_fignums() == []
    return path


@pytest.fixture(scope="module")
def page(written) -> Page:
    return Page(written)


def test_the_page_is_sound(page):
    assert_sound(page, PARTS)
    assert len(page.all("img")) == 4


def test_it_says_what_the_numbers_say(page, log):
    summary = summarize(log, trained())
    text = re.sub(r"\s+", " ", page.text)
    assert sentence(summary) in text
    assert f"{summary.spent.strong_cost:,.7g}" in text
    assert f"{summary.handed:,} of them" in text
    for one in summary.drifts:
        assert one.name in text
    for one in summary.compared:
        assert one.what in text
    assert "Sessions of <b>May & June</b>" in page.text
    assert "<b>" not in page.content
    assert summary.warnings
    assert all(warning.split("`")[0] in text for warning in summary.warnings)


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize("width", [1366, 400])
def test_it_opens_in_chromium_without_errors_and_no_wider_than_a_phone(written, tmp_path, width):
    assert opened(written, tmp_path, width) == ("pictures 4 bad 0 wide false", [])


def test_one_session_without_outcome_or_router_gets_a_page_too(tmp_path):
    log = tmp_path / "gateway.jsonl"
    sessions = Sessions(Engine(counting()), log=SessionLog(log))
    ticket = sessions.begin(Identity("", "<script>alert(1)</script>" + "x" * 200, "test"), TASK, TOOLS)
    sessions.replied(ticket, "cheap", Reply())
    monitor(log, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert page.all("script") == []
    for said in ("No outcome is known yet", "Give the router file", "No router ran in shadow", "<script>alert(1)"):
        assert said in page.text
    assert "verdict good" in {attrs.get("class") for attrs in page.all("div")}


def test_the_command_writes_the_page_beside_the_log_and_prints_json(log):
    done = call("monitor", log.name, "--router", "router.json", "--json", cwd=log.parent)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    summary = summarize(log, trained())
    assert (printed["sessions"], printed["handed"]) == (120, summary.handed)
    assert printed["spent"]["cost"] == summary.spent.cost
    assert [one["name"] for one in printed["drifts"]] == [one.name for one in summary.drifts]
    assert printed["warnings"] == summary.warnings
    assert Page(log.with_suffix(".html")).all("section")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.jsonl"], "none.jsonl: no such file; expected a log of sessions"),
        (["router.json"], "router.json, line 1"),
        (["gateway.jsonl", "--out", "page.pdf"], "suffix is '.pdf'; expected .html or .htm"),
        (["gateway.jsonl", "--out", "page.html"], "exists already; expected a new name, or --force"),
        (["gateway.jsonl", "--out", "new.html", "--router", "gateway.jsonl"], "gateway.jsonl"),
    ],
)
def test_bad_input_is_told_in_one_line_and_writes_nothing(log, written, arguments, said):
    before = written.read_bytes(), sorted(log.parent.iterdir())
    done = call("monitor", *arguments, cwd=log.parent)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (written.read_bytes(), sorted(log.parent.iterdir())) == before


def test_an_existing_page_is_kept_if_it_is_to_be(log, written):
    with pytest.raises(FileFormatError, match="exists; expected a new name"):
        monitor(log, written, overwrite=False)


@pytest.fixture
def live(tmp_path):
    """A gateway that has served some sessions, a share of them explored."""
    log = tmp_path / "served.jsonl"
    serve(log, counting(2), np.random.default_rng(3), 40)
    with gateway(counting(2), tmp_path, log=str(log), plan=Plan(explore=0.5)) as served:
        for number in range(4):
            for turns in ("", "!", "!!"):
                served.ask(talk(turns), f"live-{number}", tools=TOOLS)
            served.client.post(f"/sessions/live-{number}/outcome", json={"success": True}, headers=KEY)
        yield served


@pytest.mark.slow
def test_the_gateway_shows_the_page_as_the_log_is_now(live, tmp_path):
    answer = live.client.get(live.url.removesuffix("/v1") + "/admin/monitor", timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.headers["refresh"] == "30"
    path = tmp_path / "live.html"
    path.write_bytes(answer.content)
    page = Page(path)
    assert_sound(page, PARTS)
    text = re.sub(r"\s+", " ", page.text)
    assert "44 sessions" in text
    for words in ("live-3", "By router and the way to serve", "Time to the end of an answer", "Routers compared"):
        assert words in text
    if CHROMIUM is not None:
        for width in (400, 1300):
            title, said = opened(path, tmp_path, width)
            assert title.endswith("bad 0 wide false")
            assert said == []
