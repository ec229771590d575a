"""What the two models say to adapters: Cheap repeats a wrong query with a word beside it, Strong mends it."""

from __future__ import annotations

from typing import Any

from bayes_tacit import Router
from bayes_tacit.router.rules import Signs
from simulations.scripted_model import call

ERROR = "Error: no such table: rows"
THOUGHT = "only Cheap can read this"


def cheap(_: list[dict[str, Any]]) -> dict[str, Any]:
    return call({"query": "SELECT count(*) FROM rows"}, content="Let me look.", reasoning_content=THOUGHT)


def strong(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One right query, then the answer that its result has."""
    last = messages[-1]
    if last["role"] == "tool" and "42" in str(last["content"]):
        return {"content": "There are 42 rows."}
    return call({"query": "SELECT count(*) FROM t"}, reasoning_content="only Strong can read this")


def sql(query: str) -> str:
    """Run a query."""
    return "[(42,)]" if query.endswith("FROM t") else ERROR


def after_two_errors(**settings: Any) -> Router:
    """Hands off at the second tool error."""
    return Router(rule=Signs([0.5]), alpha=2.0, diagnostic_names=("tool_error",), **settings)


def calls_belong_together(messages: list[dict[str, Any]]) -> bool:
    """Whether every tool's answer belongs to a call of the turn before it, as servers demand."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            open_calls = [one["id"] for one in message.get("tool_calls") or ()]
        elif message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.remove(message["tool_call_id"])
    return True
