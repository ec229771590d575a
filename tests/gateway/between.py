"""A gateway between two fake models, as tests use it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from fake_models import FakeModel, Running, running

from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Limits, Settings, Upstream


@dataclass
class Served:
    """A gateway that runs, its two models, and a client."""

    cheap: FakeModel
    strong: FakeModel
    gateway: Running
    direct: Running
    client: httpx.Client
    settings: Settings
    app: Any

    @property
    def url(self) -> str:
        return self.gateway.url

    def ask(self, messages: Any, session: str | None = None, key: str = "k", **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}", **more.pop("headers", {})}
        if session is not None:
            headers["x-session-id"] = session
        return self.client.post(
            "/chat/completions", json={"model": "any", "messages": messages, **more}, headers=headers
        )

    def metric(self, series: str) -> float:
        text = self.client.get(str(self.client.base_url.copy_with(path="/metrics"))).text
        found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(series)]
        return sum(map(float, found))


@contextmanager
def gateway(router: Any, folder: Path, **settings: Any):
    """Serve a router between two fake models."""
    router.save(folder / "router.json")
    cheap, strong = FakeModel("cheap"), FakeModel("strong")
    with running(cheap, strong) as (first, second):
        sides = {
            "cheap": replace(Upstream(first.url), **settings.pop("cheap", {})),
            "strong": replace(Upstream(second.url), **settings.pop("strong", {})),
        }
        made = Settings(
            **{
                "router": str(folder / "router.json"),
                "limits": Limits(silence=5.0, connecting=2.0),
                "log": str(folder / "gateway.jsonl"),
                **sides,
                **settings,
            }
        )
        app = create_app(made)
        with running(app) as (served,), httpx.Client(base_url=served.url, timeout=20) as client:
            try:
                yield Served(cheap, strong, served, first, client, made, app)
            finally:
                cheap.release.set()
                strong.release.set()
