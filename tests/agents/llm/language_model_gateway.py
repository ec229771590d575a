"""A session with a real language model behind the gateway is handed over in mid-task; run by `make test-llm`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import openai
import pytest
from language_model import server  # noqa: F401  the fixture

sys.path.insert(0, str(Path(__file__).parents[2] / "gateway"))

from fake_models import running

from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Limits, Settings, Upstream
from bayes_tacit.router import Router
from bayes_tacit.router.rules import Signs

ROOMS = ["You are in the hall.", "You are in the kitchen.", "You are in the cellar.", "You are in the attic."]


@pytest.mark.parametrize("stream", [False, True])
def test_a_session_is_handed_over_in_mid_task(server, tmp_path, stream):  # noqa: F811
    """Every step of a model that is not certain counts, and the second hands off: from real log-probabilities."""
    Router(rule=Signs([0.01]), alpha=2.0, diagnostic_names=("uncertainty",)).save(tmp_path / "router.json")
    settings = Settings(
        router=str(tmp_path / "router.json"),
        cheap=Upstream(server.base_url, model="small"),
        strong=Upstream(server.base_url, model="large"),
        logprobs=True,
        log=str(tmp_path / "gateway.jsonl"),
        limits=Limits(silence=120.0),
    )
    served, said = [], []
    with running(create_app(settings)) as (gateway,):
        client = openai.OpenAI(base_url=gateway.url, api_key="k", max_retries=0, timeout=120)
        messages = [{"role": "user", "content": "Find the cup. Say in a few words where to go."}]
        for room in ROOMS:
            raw = client.chat.completions.with_raw_response.create(
                model="any",
                messages=messages,
                max_tokens=12,
                seed=1,
                stream=stream,
                extra_headers={"x-session-id": "cup"},
            )
            answer = raw.parse()
            if stream:
                text = "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
            else:
                text = answer.choices[0].message.content
            served.append(raw.headers["x-tacit-served"])
            said.append(text)
            print(served[-1], raw.headers["x-tacit-why"], "|", text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": room}]
        client.close()
    assert served == ["cheap", "cheap", "strong", "strong"]
    assert all(text.strip() for text in said)
    lines = [json.loads(line) for line in (tmp_path / "gateway.jsonl").read_text().splitlines()]
    replies = [line for line in lines if line["event"] == "reply"]
    assert all(total > 0 and count > 1 for total, count in (line["nll"] for line in replies[:2]))
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["new_handoff"] for line in steps] == [False, False, True, False]
