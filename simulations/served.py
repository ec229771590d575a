"""From logs to a served router in seconds: scripted agents, the gateway before them, its log, and the page on it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import uvicorn

from bayes_tacit import Router, decisive_scores, fit_map
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.decisions.evaluation import operating_points
from bayes_tacit.decisions.selection import choose, score_quantiles
from bayes_tacit.errors import TacitWarning
from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.logs import episodes_from_logs
from simulations.scripted_model import Script, ScriptedModel, call

Messages = list[dict[str, Any]]

TOOL = {"type": "function", "function": {"name": "sql", "parameters": {"type": "object"}}}
MOST_TURNS = 8
STUCK = 0.35
"""Share of tasks on which Cheap is stuck: it makes the wrong query again and again."""

LOOKED_AT = ("repeated_call", "tool_error")
PRICES = StepCost(cheap=1, strong=10)


def task(number: int) -> Messages:
    """Return a task: a question about a table whose name Cheap may get wrong."""
    tables = ", ".join(f"t{other}" for other in range(number % 7 + 1))
    asked = f"How many rows has table t{number}? There are others: {tables}."
    return [{"role": "system", "content": "You answer with SQL."}, {"role": "user", "content": asked}]


def rows_of(number: int) -> int:
    """Return the answer."""
    return 10 + 7 * number % 90


def sql(query: str) -> str:
    """Run a query."""
    found = re.search(r"FROM t(\d+)$", query)
    return f"[({rows_of(int(found[1]))},)]" if found else "Error: no such table: rows"


def cheap(messages: Messages) -> dict[str, Any]:
    """Answer as Cheap: mostly right soon, but stuck on some tasks; after an error it may take another table."""
    number, turn = _asked(messages), _turns(messages)
    stuck = np.random.default_rng([1, number]).random() < STUCK
    wrong, mistaken = np.random.default_rng([2, number, turn]).random(2) < (0.8 if stuck else 0.25, 0.3)
    table = "rows" if wrong else f"t{number + (mistaken and turn > 0)}"
    return _next(messages, number, table, reasoning_content="Let me count them.")


def strong(messages: Messages) -> dict[str, Any]:
    """Answer as Strong: right, but for some tasks that it takes for others."""
    number = _asked(messages)
    mistaken = np.random.default_rng([3, number]).random() < 0.1
    return _next(messages, number, f"t{number + 1}" if mistaken else f"t{number}")


def _next(messages: Messages, number: int, table: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    seen = re.search(r"\[\((\d+),\)\]", str(messages[-1]["content"]))
    if seen or _turns(messages) >= MOST_TURNS - 1:
        return {"role": "assistant", "content": f"Table t{number} has {seen[1] if seen else 'no'} rows."}
    return call({"query": f"SELECT count(*) FROM {table}"}, **more)


def _asked(messages: Messages) -> int:
    return int(re.search(r"table t(\d+)\?", messages[1]["content"])[1])  # type: ignore[index]


def _turns(messages: Messages) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def play(messages: Messages, answer: Callable[[Messages], dict[str, Any]]) -> bool:
    """Play a task to its end, in place, with whoever answers; say whether it was solved."""
    number = _asked(messages)
    while True:
        said = answer(messages)
        messages.append(said)
        if not said.get("tool_calls"):
            return f"has {rows_of(number)} rows" in said["content"]
        for one in said["tool_calls"]:
            result = sql(json.loads(one["function"]["arguments"])["query"])
            messages.append({"role": "tool", "tool_call_id": one["id"], "content": result})


def write_rollouts(path: Path, script: Script, tasks: range) -> None:
    """Play tasks with one model alone, and log them as people log theirs."""
    with path.open("w", encoding="utf-8") as file:
        for number in tasks:
            messages = task(number)
            solved = play(messages, script)
            file.write(json.dumps({"task": f"t{number}", "success": solved, "messages": messages}) + "\n")


def learned(cheap_log: Path, strong_log: Path, cap: float) -> Router:
    """Learn a router from both logs: at most so much a task. It knows what it was trained on, for the monitor.

    A handoff restarts the task, so that the logs say exactly what comes of each.
    """
    with warnings.catch_warnings(action="ignore", category=TacitWarning):  # nobody marked where Cheap went wrong
        episodes, _ = episodes_from_logs(cheap_log, strong_log, diagnostics=list(LOOKED_AT), words=False)
    fit = fit_map(episodes)
    scores = decisive_scores(fit, episodes)
    after = Counterfactuals.from_restarts(episodes, strong_steps="strong_steps", cost=PRICES)
    chosen = choose(operating_points(scores, after, score_quantiles(scores), fit.timing), cap)
    return replace(Router.from_fit(fit, alpha=chosen.alpha), call="restart").with_ranges_of(episodes)


@contextmanager
def gateway(settings: Settings) -> Iterator[str]:
    """Serve on a free port of this machine while the block runs; return the base address."""
    config = uvicorn.Config(create_app(settings), port=0, log_level="error", access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=[server.serve()], daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the gateway did not start")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()


class Client:
    """An agent's client: it sends the conversation to one address, and does not know who answers.

    Attributes
    ----------
    told
        What the headers of each answer say of the gateway's decision, by name.
    """

    def __init__(self, address: str, session: str) -> None:
        self._address, self._session = address, session
        self.told: list[dict[str, str]] = []

    def __call__(self, messages: Messages) -> dict[str, Any]:
        """Send a conversation; return the answer."""
        answer, headers = self._post("/chat/completions", {"model": "any", "messages": messages, "tools": [TOOL]})
        prefix = "x-tacit-"
        self.told.append({name[len(prefix) :]: value for name, value in headers.items() if name.startswith(prefix)})
        said: dict[str, Any] = answer["choices"][0]["message"]
        return said

    def outcome(self, success: bool) -> None:
        """Post back how the session ended."""
        self._post(f"/sessions/{self._session}/outcome", {"success": success})

    def _post(self, path: str, body: object) -> tuple[Any, dict[str, str]]:
        headers = {"Content-Type": "application/json", "X-Session-Id": self._session}
        with urlopen(Request(f"{self._address}{path}", json.dumps(body).encode(), headers)) as answer:
            return json.load(answer), {name.lower(): value for name, value in answer.headers.items()}


def serve_tasks(router: Path, shadow: Path, log: Path, tasks: range) -> list[dict[str, str]]:
    """Serve tasks through a gateway before both models; return what it told the first session that was handed off."""
    story: list[dict[str, str]] = []
    with ScriptedModel("small", cheap) as one, ScriptedModel("large", strong) as other:
        settings = Settings(
            router=str(router),
            shadow=str(shadow),
            log=str(log),
            cheap=Upstream(one.url, one.name),
            strong=Upstream(other.url, other.name, price="10"),
        )
        with gateway(settings) as address:
            for number in tasks:
                client, messages = Client(address, f"task-{number}"), task(number)
                client.outcome(play(messages, client))
                if not story and "handoff" in client.told[-1]:
                    story = client.told
    return story
