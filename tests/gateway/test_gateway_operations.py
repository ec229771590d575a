"""The gateway as its operator meets it: keys, a store that is down, cut answers, slow clients, reloads, one file."""

import json
import os
import signal
import socket
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest
from between import gateway
from command_line import call
from fake_models import FakeModel, running
from processes import serving
from talks import TASK, TOOLS, counting, talk
from test_gateway_server import KEY, eventually, lines, sides

from bayes_tacit.errors import InvalidDataError, MissingDependencyError
from bayes_tacit.gateway.server.settings import Doors, Limits
from bayes_tacit.gateway.sessions import scope_of


def admin(served, path, method="GET", **more):
    return httpx.request(method, f"{served.url.removesuffix('/v1')}{path}", **more)


# A store that is down.


@contextmanager
def locked(path):
    """Keep every other process from writing to an SQLite file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("BEGIN EXCLUSIVE")
        yield
        base.execute("ROLLBACK")


@pytest.mark.parametrize("how", ["fail", "cheap", "strong"])
def test_a_locked_store_answers_as_was_chosen_and_stops_nobody_else(tmp_path, how):
    state = tmp_path / "sessions.sqlite"
    limits = Limits(silence=5.0, store=0.3)
    with gateway(counting(1), tmp_path, state=str(state), store_down=how, limits=limits) as served:
        assert sides(served, "!", "handed")[-1] == "strong"
        found = {}

        def ask(name, turns):
            found[name] = served.ask(talk(turns), name)

        with locked(state):
            asking = [threading.Thread(target=ask, args=one) for one in (("new", "."), ("handed", "!."))]
            for one in asking:
                one.start()
            assert admin(served, "/health/live").status_code == 200
            for one in asking:
                one.join()
        if how == "fail":
            assert {one.status_code for one in found.values()} == {503}
            assert "nothing was sent on" in found["new"].json()["error"]["message"]
        else:
            assert found["new"].headers["x-tacit-served"] == how
            assert found["handed"].headers["x-tacit-served"] == "strong"
            assert "the store is down" in found["new"].headers["x-tacit-fault"]
        assert served.metric('tacit_faults_total{kind="store"}') >= 2
        assert eventually(lambda: admin(served, "/health/ready").status_code == 200)
        assert served.ask(talk("!.."), "handed").headers["x-tacit-served"] == "strong"


def test_keys_do_not_evict_each_others_latches(tmp_path):
    for state in (None, str(tmp_path / "sessions.sqlite")):
        with gateway(counting(1), tmp_path, state=state, limits=Limits(sessions=3)) as served:
            sides(served, "!", "kept", key="quiet")
            for number in range(30):
                served.ask(TASK, f"s{number}", key="loud")
            assert served.ask(talk("!."), "kept", key="quiet").headers["x-tacit-served"] == "strong"


# Doors.


@pytest.fixture
def doors(tmp_path, monkeypatch):
    monkeypatch.setenv("CLIENTS", "client-one-123,client-two-123")
    monkeypatch.setenv("ADMIN", "admin-key-123")
    monkeypatch.setenv("CHEAP_KEY", "sk-of-the-operator-1")
    settings = {"doors": Doors("CLIENTS", "ADMIN"), "cheap": {"key_variable": "CHEAP_KEY"}}
    with gateway(counting(1), tmp_path, **settings) as served:
        yield served


def test_who_has_no_key_is_refused_and_a_clients_key_goes_to_no_server(doors):
    refused = doors.ask(TASK, "a", key="guess")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "tacit_401")
    assert doors.client.post("/chat/completions", json={"messages": TASK}).status_code == 401
    assert doors.cheap.requests == []
    assert doors.ask(TASK, "a", key="client-one-123").status_code == 200
    assert doors.client.post("/chat/completions", json={"messages": TASK}, headers={"x-api-key": "client-two-123"})
    assert doors.cheap.requests[0]["headers"]["authorization"] == "Bearer sk-of-the-operator-1"
    doors.ask(talk("!"), "a", key="client-one-123")
    assert "client-one" not in str([*doors.cheap.requests, *doors.strong.requests])


def test_metrics_reloads_and_the_sessions_of_others_are_for_the_operator(doors):
    doors.ask(TASK, "a", key="client-one-123")
    one, two, boss = ({"authorization": f"Bearer {key}-123"} for key in ("client-one", "client-two", "admin-key"))
    for path, method in (("/metrics", "GET"), ("/admin/reload", "POST")):
        for headers in ({}, one, {"authorization": "Bearer admin-key"}):
            assert admin(doors, path, method, headers=headers).status_code == 401
        assert admin(doors, path, method, headers=boss).status_code == 200
    won = {"success": True}
    assert doors.client.post("/sessions/a/outcome", json=won, headers=two).status_code == 404
    assert doors.client.post("/sessions/a/outcome", json=won).status_code == 401
    assert doors.client.post("/sessions/a/outcome", json=won, headers=one).status_code == 200
    lose = {"json": {"success": False}, "params": {"scope": scope_of(one)}}
    assert doors.client.post("/sessions/a/outcome", headers=two, **lose).status_code == 404
    lost = doors.client.post("/sessions/a/outcome", headers=boss, **lose)
    assert lost.json()["outcome"] == {"success": False}


def test_it_listens_to_other_machines_only_with_keys_or_where_that_is_said(tmp_path):
    nowhere = ("--cheap", "http://127.0.0.1:9/v1", "--strong", "http://127.0.0.1:9/v1", "--check")
    refused = call("serve", *nowhere, "--host", "0.0.0.0", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--client-keys, or --open" in refused.stderr
    assert call("serve", *nowhere, "--host", "0.0.0.0", "--open", cwd=tmp_path).returncode == 0
    for host in ("127.0.0.1", "localhost", "::1"):
        Doors().check(host)
    for host in ("::", "192.168.0.1", "example.org"):
        with pytest.raises(InvalidDataError, match="--client-keys"):
            Doors().check(host)
        Doors(client_keys="CLIENTS").check(host)


# Answers that do not end as they should.


def reply_of(served, session):
    assert eventually(lambda: any(one["event"] == "reply" and one["episode"] == session for one in lines(served)))
    return [one for one in lines(served) if one["event"] == "reply" and one["episode"] == session][-1]


def test_what_was_cut_short_was_paid_for(tmp_path):
    tokens = {"price": "1000000,0,1000000"}
    with gateway(counting(9), tmp_path, cheap=tokens) as served:
        with pytest.raises(httpx.RemoteProtocolError):
            served.ask([{"role": "user", "content": "break now"}], "cut", stream=True)
        reply = reply_of(served, "cut")
        assert (reply["status"], reply["usage"]["estimated"]) == (502, True)
        assert reply["cost"] >= reply["usage"]["prompt"] > 0
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "say slowly"}]}
        with httpx.Client(timeout=0.3) as impatient, pytest.raises(httpx.TimeoutException):
            impatient.post(f"{served.url}/chat/completions", json=body, headers={**KEY, "x-session-id": "left"})
        reply = reply_of(served, "left")
        assert (reply["status"], reply["fault"]) == (499, "client gone")
        assert reply["cost"] > 0
        assert served.client.get("/sessions/left", headers=KEY).json()["cost"] == reply["cost"]


def test_an_error_in_a_stream_that_began_well_is_an_error(tmp_path):
    with gateway(counting(9), tmp_path) as served:
        answer = served.ask([{"role": "user", "content": "fault"}], "f", stream=True)
        assert answer.status_code == 200
        assert "overloaded" in answer.text
        reply = reply_of(served, "f")
        assert (reply["status"], reply["fault"]) == (502, "ended with an error")
        assert served.metric('tacit_requests_total{side="cheap",status="502"}') == 1


def test_a_server_that_closes_its_connection_is_asked_once(tmp_path):
    seen = []

    def close_each(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                head = connection.recv(65536)
                seen.append(head)
                # It answers the first request, keeps the connection open, and closes it on the second.
                body = b'{"choices": []}'
                if len(seen) == 1:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                    seen.append(connection.recv(65536))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=close_each, args=[listener], daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with gateway(counting(9), tmp_path, cheap={"url": url}) as served:
            assert served.ask(TASK, "a").status_code == 200
            answer = served.ask(TASK, "b")
            assert answer.status_code == 502
            assert "closed the connection" in answer.json()["error"]["message"]
    assert len([one for one in seen if one.startswith(b"POST")]) == 2


@pytest.mark.parametrize(
    ("fallback", "side", "status"),
    [("overflow", "strong", 200), ("strong", "cheap", 400), ("cheap", "cheap", 400)],
)
def test_a_context_that_is_too_long_goes_to_the_side_that_can_where_that_is_allowed(tmp_path, fallback, side, status):
    with gateway(counting(9), tmp_path, fallback=(fallback,)) as served:
        served.cheap.overflow = 1000
        answer = served.ask([{"role": "user", "content": "word " * 400}], "long")
        assert (answer.headers["x-tacit-served"], answer.status_code) == (side, status)
        assert ("too short a context" in answer.headers.get("x-tacit-fault", "")) is (status == 200)
        if status == 400:
            assert answer.json()["error"]["code"] == "context_length_exceeded"
        assert served.ask(TASK, "short").headers["x-tacit-served"] == "cheap"


def test_cheap_stands_in_for_strong_where_that_is_allowed_and_the_latch_stays(tmp_path):
    with gateway(counting(1), tmp_path, fallback=("cheap",)) as served:
        assert sides(served, "!", "s")[-1] == "strong"
        served.strong.failing = 503
        answer = served.ask(talk("!."), "s")
        assert (answer.status_code, answer.headers["x-tacit-served"]) == (200, "cheap")
        assert "Cheap stood in" in answer.headers["x-tacit-fault"]
        served.strong.failing = None
        assert served.ask(talk("!.."), "s").headers["x-tacit-served"] == "strong"


# What passes.


def test_the_query_of_an_address_goes_on_with_it(tmp_path):
    with gateway(counting(9), tmp_path) as served:
        served.client.post("/chat/completions?api-version=2026-01-01&x=%20", json={"messages": TASK})
        assert served.cheap.requests[-1]["query"] == "api-version=2026-01-01&x=%20"


def test_what_is_no_conversation_goes_to_the_model_that_it_names(tmp_path):
    with gateway(counting(9), tmp_path, strong={"model": "large"}) as served:
        for path in ("/embeddings", "/completions", "/messages/count_tokens"):
            for model, side in (("small", "cheap"), ("large", "strong")):
                answer = served.client.post(path, json={"model": model, "input": "x"})
                assert answer.json() == {"served": side, "path": f"/v1{path}"}
                assert answer.headers["x-tacit-served"] == side
        assert served.client.get("/models/m").json()["served"] == "cheap"


def test_a_body_of_many_megabytes_is_served(tmp_path):
    with gateway(counting(9), tmp_path) as served:
        talk_of_megabytes = [{"role": "user", "content": "say big"}, *[{"role": "user", "content": "x" * 2**20}] * 9]
        assert served.ask(talk_of_megabytes, "big").status_code == 200


# Slow clients.


def test_who_sends_nothing_more_is_not_waited_for(tmp_path):
    with gateway(counting(9), tmp_path, limits=Limits(reading=0.2)) as served:
        place = urlsplit(served.url)
        for begun in (b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nx-slow"):
            with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
                connection.sendall(begun)
                assert connection.recv(100) == b""
        with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
            assert b" 408 " in connection.recv(4096)
        assert served.ask(TASK, "quick").status_code == 200


def test_a_connection_is_kept_for_the_next_request(tmp_path):
    with gateway(counting(9), tmp_path, limits=Limits(reading=0.2)) as served:
        for _ in range(3):
            assert served.ask(TASK, "again").status_code == 200
            eventually(lambda: served.metric("tacit_sessions") == 1)


# Readiness, reload, one file of options.


def test_a_full_disk_shows_in_readiness_and_not_in_liveness(tmp_path):
    with gateway(counting(9), tmp_path, log="/dev/full") as served:
        assert admin(served, "/health/ready").status_code == 200
        assert served.ask(TASK, "a").status_code == 200
        ready = admin(served, "/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "the log cannot be written")
        assert admin(served, "/health").status_code == 503
        assert admin(served, "/health/live").status_code == 200


def test_a_new_router_is_loaded_and_a_bad_one_is_refused(tmp_path):
    with gateway(counting(9), tmp_path) as served:
        assert sides(served, "!!", "s")[-1] == "cheap"
        counting(2).save(tmp_path / "router.json")
        assert admin(served, "/admin/reload", "POST").json()["router"] == counting(2).fingerprint
        assert served.ask(talk("!!"), "s").headers["x-tacit-served"] == "strong"
        (tmp_path / "router.json").write_text("{}")
        assert admin(served, "/admin/reload", "POST").status_code == 400
        assert served.ask(talk("!!"), "t").headers["x-tacit-served"] == "strong"
        deciding = [one["router"] for one in lines(served) if one["event"] == "step"]
        assert deciding == [counting(9).fingerprint] * 3 + [counting(2).fingerprint] * 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_loads_the_router_anew_and_ends_nothing(tmp_path, workers):
    options = ("--state", str(tmp_path / "state.sqlite"))
    with (
        running(FakeModel("cheap"), FakeModel("strong")) as (cheap, strong),
        serving(counting(9), cheap.url, strong.url, tmp_path, *options, workers=workers) as (process, url),
    ):

        def side(session):
            body = {"messages": talk("!!"), "tools": TOOLS}
            try:
                answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers={"x-session-id": session})
            except httpx.TransportError:
                return None
            return answer.headers.get("x-tacit-served")

        assert side("before") == "cheap"
        counting(2).save(tmp_path / "router.json")
        os.kill(process.pid, signal.SIGHUP)
        assert eventually(lambda: side("after") == "strong")
        assert process.poll() is None


def test_options_come_from_a_file_and_the_command_line_counts_before_it(tmp_path):
    counting(2).save(tmp_path / "router.json")
    place = "http://127.0.0.1:9/v1"
    (tmp_path / "tacit.toml").write_text(
        f'router = "router.json"\ncheap = "{place}"\nstrong = "{place}"\nworkers = 2\nlogprobs = true\n'
        'fallback = "overflow,strong"\nstate = "s.sqlite"\nexplore = 0.05\nlog = "g.jsonl"\n'
    )
    done = call("serve", "--config", "tacit.toml", "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--logprobs asks for them in vain" in done.stderr
    assert call("serve", "--config", "tacit.toml", "--workers", "0", "--check", cwd=tmp_path).returncode == 2
    for wrong, told in (
        ("chep = 1\n", "chep"),
        ("workers = 'many'\n", "workers"),
        ("fallback = ['x']\n", "fallback"),
        ("= 3", "TOML"),
        ("explore = 2\n", "explore"),
    ):
        (tmp_path / "wrong.toml").write_text(f'cheap = "{place}"\nstrong = "{place}"\n{wrong}')
        done = call("serve", "--config", "wrong.toml", "--check", cwd=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr
    assert call("serve", "--config", "none.toml", "--check", cwd=tmp_path).returncode == 2


def test_settings_go_to_workers_as_text(tmp_path):
    with gateway(counting(9), tmp_path, fallback=("cheap",), store_down="cheap") as served:
        made = replace(served.settings, doors=Doors("A", "B", open=True))
        assert type(made).from_json(json.dumps(json.loads(made.to_json()))) == made


def test_traces_reach_from_the_client_to_the_model(tmp_path):
    pytest.importorskip("opentelemetry.instrumentation.starlette", reason="the extra telemetry")
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(pytest.importorskip("opentelemetry.sdk.trace.export").SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    with gateway(counting(), tmp_path, telemetry=True) as served:
        served.ask(talk("."))
    spans = memory.get_finished_spans()
    (server,) = (one for one in spans if one.kind.name == "SERVER")
    (call,) = (one for one in spans if one.kind.name == "CLIENT")
    assert call.parent.span_id == server.context.span_id


def test_telemetry_that_is_not_installed_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.starlette", None)
    with (
        pytest.raises(MissingDependencyError, match=r"bayes_tacit\[telemetry\]"),
        gateway(counting(), tmp_path, telemetry=True),
    ):
        pass
