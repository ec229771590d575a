"""The gateway's own key: taken at the door as everywhere, and told to no client, whatever a server repeats."""

import json

import httpx
import pytest
from between import gateway
from fake_models import FakeModel, running
from talks import TASK, counting

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Settings, Upstream
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
def test_a_key_that_a_server_repeats_in_errors_and_headers_reaches_no_client_but_its_owner(tmp_path, monkeypatch, own):
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
                assert answer.status_code == (401 if how == "error" else 200)
                assert (KEY[:8] in answer.headers["x-debug"]) is not own
                if how == "error":
                    assert (KEY[:8] in answer.text) is not own
                    assert ("bad key: Bearer ***, or Bearer ***..." in answer.text) is own
    assert [one["headers"]["authorization"] for one in model.requests] == [f"Bearer {KEY}"] * 3
    assert KEY[:8] not in (tmp_path / "g.jsonl").read_text()


SAID = "The list is EMPTY, an empty string; sk-9f8e7d6c5b4a32100123 too, and data: nothing."


@pytest.mark.parametrize("key", ["EMPTY", "data", "ollama", "lm-studio", KEY])
@pytest.mark.parametrize("stream", [False, True])
def test_no_key_changes_what_a_model_says(tmp_path, monkeypatch, key, stream):
    monkeypatch.setenv("SHORT_KEY", key)
    with gateway(counting(9), tmp_path, cheap={"key_variable": "SHORT_KEY"}) as served:
        answers = [
            httpx.post(
                f"{url}/chat/completions",
                json={"messages": [{"role": "user", "content": f"say {SAID} {key}"}], "stream": stream},
                headers={"x-session-id": "k"},
            )
            for url in (served.direct.url, served.url)
        ]
        assert answers[0].content == answers[1].content


def test_a_word_is_no_key():
    assert masked("the list is empty", "EMPTY") == "the list is empty"


def test_a_key_that_is_given_for_the_name_of_its_variable_is_not_shown():
    with pytest.raises(InvalidDataError, match=r"key_variable is '\*\*\*'"):
        key_from("sk-0123456789abcdef")
    with pytest.raises(InvalidDataError, match="key_variable is 'NO_SUCH_KEY'"):
        key_from("NO_SUCH_KEY")
