"""The gateway's own key: taken at the door as everywhere, and told to no client, whatever a server repeats."""

import json
from itertools import pairwise

import httpx
import pytest
from fake_models import FakeModel, running
from hypothesis import given, settings
from hypothesis import strategies as st
from talks import TASK, counting

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.server import upstreams
from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.gateway.server.upstreams import Masking
from bayes_tacit.keys import key_from, masked

KEY = "sk-9f8e7d6c5b4a32100123"


class Echo(FakeModel):
    """Repeats its key: as an error, in an answer, in a stream cut in the middle of it, and always in a header."""

    async def _chat(self, body, receive, send):  # noqa: ARG002
        key = self.requests[-1]["headers"]["authorization"]
        about = [(b"x-debug", key.encode()), (b"content-type", b"application/json")]
        how = body["messages"][-1]["content"]
        text = json.dumps({"error": {"message": f"bad key: {key}, or {key[:20]}..."}}).encode()
        if how == "error":
            about.append((b"content-length", str(len(text)).encode()))
        await send({"type": "http.response.start", "status": 401 if how == "error" else 200, "headers": about})
        if how == "stream":
            middle = text.index(KEY.encode()) + 7
            for piece in (b"data: " + text[:middle], text[middle:] + b"\n\n", b"data: [DONE]\n\n"):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            text = b""
        await send({"type": "http.response.body", "body": text})


@pytest.mark.parametrize("own", [True, False])
def test_a_key_that_a_server_repeats_reaches_no_client_but_its_owner(tmp_path, monkeypatch, own):
    monkeypatch.setenv("ECHOED_KEY", KEY)
    counting(2).save(tmp_path / "router.json")
    model = Echo("cheap")
    with running(model) as (upstream,):
        side = Upstream(upstream.url, key_variable="ECHOED_KEY" if own else None)
        app = create_app(Settings(str(tmp_path / "router.json"), side, side, log=str(tmp_path / "g.jsonl")))
        with running(app) as (served,), httpx.Client(base_url=served.url) as client:
            for how in ("error", "whole", "stream"):
                messages = [*TASK, {"role": "user", "content": how}]
                headers = {} if own else {"authorization": f"Bearer {KEY}"}
                answer = client.post("/chat/completions", json={"messages": messages}, headers=headers)
                seen = answer.headers["x-debug"] + answer.text
                assert answer.status_code == (401 if how == "error" else 200)
                assert (KEY[:8] in seen) is not own, (how, seen)
                assert ("bad key: Bearer ***, or Bearer ***..." in seen) is own
    assert [one["headers"]["authorization"] for one in model.requests] == [f"Bearer {KEY}"] * 3
    assert KEY[:8] not in (tmp_path / "g.jsonl").read_text()


WORDS = ["a b", "\n", KEY, KEY[:12], r"\u0073k-9f8e7d6c5b4a32100123", " ", "\xe9", "{}"]


@given(st.lists(st.sampled_from(WORDS), max_size=9), st.lists(st.integers(0, 200), max_size=9))
@settings(deadline=None, max_examples=60)
def test_what_passes_in_pieces_is_what_passes_whole(words, cuts):
    whole = "".join(words).encode("latin-1")
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    found = Masking(KEY)
    passed = [found.passed(whole[start:end]) for start, end in pairwise(places)]
    assert b"".join([*passed, found.rest()]) == masked(whole.decode("latin-1"), KEY).encode("latin-1")


def test_an_endless_line_is_cut_between_words_and_held_back_within_bounds(monkeypatch):
    monkeypatch.setattr(upstreams, "HELD", 100)
    found = Masking(KEY)
    passed = [
        found.passed(f"{'x' * 20} {KEY}"[start : start + 3].encode()) for _ in range(20) for start in range(0, 44, 3)
    ]
    assert max(map(len, passed)) <= 100
    assert b"".join([*passed, found.rest()]) == (b"x" * 20 + b" ***") * 20


def test_a_line_of_a_stream_waits_for_nothing_but_its_end():
    found = Masking(KEY)
    assert found.passed(b"data: {}\n\ndata: half") == b"data: {}\n\n"
    assert found.passed(b" and half\n\n") == b"data: half and half\n\n"
    assert Masking(None).passed(b"anything") == b"anything"


def test_a_key_that_is_given_for_the_name_of_its_variable_is_not_shown():
    with pytest.raises(InvalidDataError, match=r"key_variable is '\*\*\*'"):
        key_from("sk-0123456789abcdef")
    with pytest.raises(InvalidDataError, match="key_variable is 'NO_SUCH_KEY'"):
        key_from("NO_SUCH_KEY")
