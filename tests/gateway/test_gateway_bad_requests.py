"""Bad requests of a hundred kinds: the server's answer or a clear 4xx, no crash, and nobody sees another's session."""

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from between import gateway
from talks import TASK, TOOLS, counting, talk

GOOD = {"model": "m", "messages": [{"role": "user", "content": "say hi"}]}
DEEP = '{"messages": ' + "[" * 20_000 + "]" * 20_000 + "}"

RAW = {
    "empty": b"",
    "space": b"  \n",
    "not JSON": b"hello",
    "cut short": b'{"messages": [{"role": "user"',
    "single quotes": b"{'messages': []}",
    "trailing comma": b'{"messages": [],}',
    "two objects": b"{}{}",
    "null": b"null",
    "number": b"1",
    "text": b'"messages"',
    "list": b"[]",
    "list of objects": json.dumps([GOOD]).encode(),
    "not UTF-8": b'{"messages": "\xff\xfe"}',
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
    "zero bytes": b"\x00" * 100,
    "nested": DEEP.encode(),
    "long number": b'{"messages": [], "n": ' + b"9" * 6000 + b"}",
    "gzip": bytes.fromhex("1f8b0800000000000003ab562a2e4bcd4dcc2dca0100"),
    "form": b"messages=hi&model=m",
    "XML": b"<?xml version='1.0'?><a/>",
    "HTTP in HTTP": b"POST /v1/chat/completions HTTP/1.1\r\n\r\n",
}

MESSAGES = {
    "missing": None,
    "null": "null",
    "text": '"hi"',
    "number": "3",
    "true": "true",
    "object": '{"role": "user"}',
    "empty": "[]",
    "texts": '["hi"]',
    "nulls": "[null]",
    "numbers": "[1, 2]",
    "lists": '[["user", "hi"]]',
    "mixed": '[{"role": "user", "content": "say a"}, 3]',
    "no role": '[{"content": "say a"}]',
    "null role": '[{"role": null, "content": "say a"}]',
    "number role": '[{"role": 1, "content": "say a"}]',
    "list role": '[{"role": ["user"], "content": "say a"}]',
    "unknown role": '[{"role": "robot", "content": "say a"}]',
    "no content": '[{"role": "user"}]',
    "number content": '[{"role": "user", "content": 1}]',
    "object content": '[{"role": "user", "content": {"text": "say a"}}]',
    "null parts": '[{"role": "user", "content": [null]}]',
    "number text": '[{"role": "user", "content": [{"type": "text", "text": 1}]}]',
    "calls are a text": '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": "x"}]',
    "calls are numbers": '[{"role": "assistant", "content": "", "tool_calls": [1]}, {"role": "user", "content": "a"}]',
    "calls without function": '[{"role": "assistant", "tool_calls": [{"id": "1"}]}, {"role": "user", "content": "a"}]',
    "calls without name": '[{"role": "assistant", "tool_calls": [{"id": "1", "function": {}}]}]',
    "function is a list": '[{"role": "assistant", "tool_calls": [{"id": "1", "function": []}]}]',
    "id is an object": '[{"role": "assistant", "tool_calls": [{"id": {}, "function": {"name": "a"}}]}]',
    "answer to nobody": '[{"role": "tool", "tool_call_id": "x", "content": "say a"}]',
    "answer id is a list": '[{"role": "tool", "tool_call_id": [1], "content": "say a"}]',
    "answer without content": '[{"role": "tool", "tool_call_id": "x"}]',
    "lone surrogate": '[{"role": "user", "content": "say \\ud800"}]',
    "zero letter": '[{"role": "user", "content": "say \\u0000"}]',
    "escape codes": '[{"role": "user", "content": "say \\u001b[31m"}]',
    "thousand messages": "[" + ", ".join(['{"role": "user", "content": "say a"}'] * 1000) + "]",
    "long message": json.dumps([{"role": "user", "content": "say " + "x" * 6_000_000}]),
    "arguments are an object": '[{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": {}}}]}]',
    "logprobs are a text": '[{"role": "assistant", "content": "a", "logprobs": "x"}, {"role": "user", "content": "b"}]',
}

MORE = {
    "tools are a text": {"tools": "sql"},
    "tools are null": {"tools": None},
    "tools are numbers": {"tools": [1, None, []]},
    "tools without names": {"tools": [{"type": "function", "function": {"name": {}}}]},
    "stream is a text": {"stream": "yes"},
    "model is null": {"model": None},
    "model is a list": {"model": ["m"]},
    "model is missing": {"model": ...},
    "unknown fields": {"foo": {"bar": [1, 2, {"baz": None}]}, "__proto__": {"a": 1}},
    "metadata is a text": {"metadata": "x"},
    "metadata is a list": {"metadata": [1]},
    "session is an object": {"session_id": {"a": 1}},
    "session is true": {"session_id": True},
    "session is empty": {"session_id": ""},
    "session is long": {"session_id": "x" * 257},
    "session has a newline": {"session_id": "a\r\nx-evil: 1"},
    "session has a zero": {"session_id": "a\x00b"},
    "session has escape codes": {"session_id": "\x1b[31m"},
    "session of other letters": {"session_id": "Sitzung ä 日本 🙂"},
    "session is a path": {"session_id": "../../etc/passwd"},
    "session is SQL": {"session_id": "'; DROP TABLE session; --"},
    "cache key is long": {"prompt_cache_key": "x" * 1000},
    "n is negative": {"n": -1},
    "max_tokens is a text": {"max_tokens": "many"},
    "temperature is huge": {"temperature": 1e308},
}

HEADERS = {
    "long session": {"x-session-id": "x" * 300},
    "forged inferred id": {"x-session-id": "a1625d1cc1249b438cadef81-000000000000"},
    "agent is long": {"x-session-id": "s", "x-claude-code-agent-id": "x" * 300},
    "features are no JSON": {"x-tacit-features": "entities=1"},
    "features are a list": {"x-tacit-features": "[1]"},
    "features are texts": {"x-tacit-features": '{"a": "1"}'},
    "features are endless": {"x-tacit-features": '{"a": 1e999}'},
    "features are nested": {"x-tacit-features": "[" * 5000},
    "task is long": {"x-tacit-task": "t" * 300},
    "forged answer headers": {"x-tacit-served": "strong", "x-tacit-session": "other"},
    "no key": {"authorization": ""},
    "long key": {"authorization": "Bearer " + "k" * 5000},
    "wrong content type": {"content-type": "text/plain"},
    "encoded body": {"content-encoding": "gzip"},
    "upgrade": {"connection": "upgrade", "upgrade": "websocket"},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with gateway(counting(2), tmp_path_factory.mktemp("bad")) as one:
        for end in range(3):
            one.ask(talk("!" * end), "victim", key="theirs", tools=TOOLS)
        yield one


def fine(served, answer):
    """The server's own answer, or a clear refusal; and the gateway goes on as before."""
    assert answer.status_code < 500, answer.text
    if "x-tacit-served" not in answer.headers:
        assert answer.status_code >= 400
        assert len(answer.json()["error"]["message"]) > 20
    assert served.ask(GOOD["messages"], "still here").json()["choices"][0]["message"]["content"] == "hi"
    victim = served.client.get("/sessions/victim", headers={"authorization": "Bearer theirs"}).json()
    assert (victim["latched"], victim["steps"]) == (True, 2)


@pytest.mark.parametrize("name", RAW)
def test_a_body_that_is_none(served, name):
    before = len(served.cheap.requests)
    answer = served.client.post("/chat/completions", content=RAW[name])
    fine(served, answer)
    if name not in ("byte order mark", "UTF-16"):  # which the model's server may know how to read
        assert answer.status_code == 400
        assert len(served.cheap.requests) == before + 1  # the one that asks whether it still serves


@pytest.mark.parametrize("session", [None, "bad"])
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_that_are_none(served, name, session):
    given = MESSAGES[name]
    raw = '{"model": "m"}' if given is None else f'{{"model": "m", "messages": {given}}}'
    headers = {} if session is None else {"x-session-id": f"{session} {name}"}
    answer = served.client.post("/chat/completions", content=raw.encode("utf-8", "surrogatepass"), headers=headers)
    fine(served, answer)
    assert answer.headers.get("x-tacit-served") in (None, "cheap")


@pytest.mark.parametrize("name", MORE)
def test_fields_that_are_wrong_or_unknown(served, name):
    body = {key: value for key, value in {**GOOD, **MORE[name]}.items() if value is not ...}
    answer = served.client.post("/chat/completions", json=body)
    fine(served, answer)
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_are_wrong_or_forged(served, name):
    answer = served.client.post("/chat/completions", json=GOOD, headers=HEADERS[name])
    fine(served, answer)
    assert answer.headers.get("x-tacit-served", "cheap") == "cheap"
    assert answer.headers.get("x-tacit-session") != "other"


@pytest.mark.parametrize(
    "lines",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nx-session-id: a\r\n b: c\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
    ids=["folded header", "two lengths", "negative length", "wrong chunk", "long header", "TLS", "version"],
)
def test_what_is_no_http_is_refused_and_the_next_one_is_served(served, lines):
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname, place.port), timeout=5) as connection:
        connection.sendall(lines)
        answer = connection.recv(4096)
    assert answer == b"" or answer.split()[1].startswith(b"4")
    assert served.ask(GOOD["messages"], "still here").status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_told_apart(served, method):
    answer = httpx.request(method, f"{served.url}/chat/completions")
    assert answer.status_code == 405


@pytest.mark.parametrize("session", ["x" * 300, "a%00b", "..%2f..%2fetc", "a%0d%0ab", "victim"])
def test_sessions_of_others_are_not_there(served, session):
    for answer in (
        served.client.get(f"/sessions/{session}"),
        served.client.post(f"/sessions/{session}/outcome", json={"success": True}),
        served.client.post(f"/sessions/{session}/outcome", content=b"{"),
    ):
        assert answer.status_code in (400, 404)


def test_a_latch_under_one_key_is_none_under_another(served):
    for key in ("other", "thei", "THEIRS"):
        answer = served.ask(talk("."), "victim", key=key, tools=TOOLS)
        assert answer.headers["x-tacit-served"] == "cheap", key
    assert served.ask(TASK, "victim", key="theirs").headers["x-tacit-served"] == "strong"
