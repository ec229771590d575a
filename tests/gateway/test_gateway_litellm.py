"""LiteLLM's real proxy with the plugin: three protocols, headers, outcomes, and sessions in the proxy's own Redis."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fake_models import FakeModel, running
from processes import free_port
from stores import redis_server
from talks import counting
from test_gateway_protocols import Client

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv" / "litellm" / "bin" / "litellm"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.exists(), reason="LiteLLM's proxy is not installed: make .venv/litellm.installed"),
]

KEY = "sk-proxy-7f3a9c2e5b8d4f60a1"
PLUGIN = (ROOT / "deploy" / "litellm" / "plugin.py").read_text()


class Proxy:
    """The proxy as it runs: what tests of the gateway ask of theirs."""

    def __init__(self, port, cheap, strong):
        self.cheap, self.strong = cheap, strong
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=30)


@contextmanager
def proxy(folder, redis=None):
    """Run it before two models."""
    counting(2).save(folder / "router.json")
    (folder / "plugin.py").write_text(PLUGIN)
    cheap, strong = FakeModel("cheap"), FakeModel("strong")
    with running(cheap, strong) as sides:
        models = [
            {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_base": one.url, "api_key": "k"}}
            for name, one in zip(("small", "large"), sides, strict=True)
        ]
        settings = {"callbacks": "plugin.tacit", "num_retries": 0}
        if redis is not None:
            settings |= {"cache": True, "cache_params": {"type": "redis", "url": redis, "supported_call_types": []}}
        config = {
            "model_list": models,
            "litellm_settings": settings,
            "general_settings": {"master_key": "sk-proxy-7f3a9c2e5b8d4f60a1"},
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        port = free_port()
        words = (str(PROGRAM), "--config", "config.yaml", "--port", str(port), "--host", "127.0.0.1")
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
        environment = {**os.environ, **quiet, "PYTHONPATH": str(ROOT)}
        with (folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=output)
            try:
                for _ in range(600):
                    try:
                        httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2)
                        break
                    except httpx.TransportError:
                        assert process.poll() is None, (folder / "output.txt").read_text()[-3000:]
                        time.sleep(0.1)
                one = Proxy(port, cheap, strong)
                with one.client:
                    yield one
            finally:
                process.terminate()
                process.wait(20)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with proxy(tmp_path_factory.mktemp("proxy")) as one:
        yield one


def client_of(served, name, stream, session):
    client = Client(served, name, stream=stream, session=session)
    client.headers["authorization"] = f"Bearer {KEY}"
    client.body = lambda **more: (
        {**Client.body(client, **more), "model": "tacit", "max_tokens": 100}
        | ({"max_tokens": None} if name == "responses" else {})
    )
    return client


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_a_session_is_handed_over_in_mid_task_in_each_protocol(served, name, stream):
    before = len(served.cheap.requests), len(served.strong.requests)
    client = client_of(served, name, stream, f"{name}-{stream}")
    for _ in range(4):
        client.step()
    assert client.sides == ["cheap", "cheap", "strong", "strong"]
    assert [one["x-tacit-step"] for one in client.told] == ["0", "1", "2", "3"]
    counts = len(served.cheap.requests) - before[0], len(served.strong.requests) - before[1]
    assert counts == (2, 2)


def test_an_outcome_is_told_by_a_header_and_asks_no_model(served):
    client = client_of(served, "chat", False, "told")
    client.step()
    before = len(served.cheap.requests)
    headers = {**client.headers, "x-tacit-outcome": json.dumps({"success": True})}
    answer = served.client.post("/chat/completions", json=client.body(), headers=headers)
    assert answer.status_code == 200
    assert json.loads(answer.json()["choices"][0]["message"]["content"])["outcome"] == {"success": True}
    assert len(served.cheap.requests) == before


def test_other_models_pass(served):
    answer = served.client.post(
        "/chat/completions",
        json={"model": "large", "messages": [{"role": "user", "content": "say hi"}]},
        headers={"authorization": f"Bearer {KEY}"},
    )
    assert answer.json()["choices"][0]["message"]["content"] == "hi"
    assert "x-tacit-served" not in answer.headers


def test_sessions_are_in_the_proxys_redis_and_outlive_it(tmp_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("r")
    port = free_port()
    with redis_server(folder, port) as server:
        for number, expected in enumerate((["cheap", "cheap", "strong"], ["strong", "strong"])):
            inside = tmp_path / str(number)
            inside.mkdir()
            with proxy(inside, f"redis://127.0.0.1:{server.port}") as one:
                client = client_of(one, "chat", False, "shared")
                for _ in expected:
                    client.step()
                assert client.sides == expected
