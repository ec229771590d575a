"""ATIF, the trajectories of Harbor and Terminal-Bench: steps of system, user and agent, with calls and observations.

The outcome is not in a trajectory. In a folder of trials it is in `result.json`, beside the folder `agent` that holds
the trajectory; in a file of one trajectory a line it may be in `extra`, as `task`, and `success` or `reward`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document, decoded
from bayes_tacit.logs.readers.base import Found, called, optional, required

NAME = "atif"
PATTERN = "trajectory*.json"


def recognizes(content: object) -> bool:
    """Tell it by the name of its version."""
    return isinstance(content, dict) and str(content.get("schema_version", "")).startswith("ATIF")


def rollouts(document: Document) -> Iterator[Found]:
    """Give the one rollout of a trajectory."""
    content = document.content
    steps = required(content, "steps", list, "a list of steps")
    agent = content.get("agent") if isinstance(content.get("agent"), Mapping) else {}
    total = content.get("final_metrics") if isinstance(content.get("final_metrics"), Mapping) else {}
    messages = [message for number, step in enumerate(steps) for message in _messages(step, number)]
    usage = {
        "prompt_tokens": total.get("total_prompt_tokens"),
        "completion_tokens": total.get("total_completion_tokens"),
    }
    yield (
        "",
        {
            **_outcome(document),
            "model": agent.get("model_name"),
            "messages": messages,
            "tools": _tools(agent.get("tool_definitions")),
            "usage": usage,
            "cost": total.get("total_cost_usd"),
        },
    )


def _messages(step: object, number: int) -> Iterator[dict[str, Any]]:
    source = required(step, "source", str, f"'system', 'user' or 'agent', in step {number}")
    assert isinstance(step, dict)
    if source != "agent":
        yield {"role": source, "content": step.get("message")}
        return
    metrics = optional(step, "metrics")
    usage = {name: metrics.get(name) for name in ("prompt_tokens", "completion_tokens")}
    said: dict[str, Any] = {"role": "assistant", "content": step.get("message"), "logprobs": metrics.get("logprobs")}
    if any(value is not None for value in (*usage.values(), metrics.get("cost_usd"))):
        said |= {"usage": usage, "cost": metrics.get("cost_usd")}
    calls = [
        called(
            required(one, "function_name", str, f"the name of a tool, in step {number}"),
            one.get("arguments"),
            one.get("tool_call_id") or f"{number}.{at}",
        )
        for at, one in enumerate(required(step, "tool_calls", list, "a list") if step.get("tool_calls") else ())
    ]
    results = required(step["observation"], "results", list, "a list") if step.get("observation") else []
    if results and not calls:
        # An observation without a call: the agent acted by what it wrote.
        calls = [called("act", {"text": step.get("message")}, f"{number}")]
    yield said | ({"tool_calls": calls} if calls else {})
    for at, result in enumerate(results):
        if not isinstance(result, Mapping):
            raise InvalidDataError(f"an object, in step {number}", field="a result", value=result)
        identity = result.get("source_call_id") or calls[min(at, len(calls) - 1)]["id"]
        yield {"role": "tool", "tool_call_id": identity, "content": result.get("content"), **_error(result)}


def _error(result: Mapping[str, Any]) -> dict[str, bool]:
    extra = result.get("extra") if isinstance(result.get("extra"), Mapping) else {}
    return {"is_error": True} if result.get("is_error") or extra.get("is_error") else {}  # type: ignore[union-attr]


def _tools(definitions: object) -> list[Any] | None:
    return definitions if isinstance(definitions, list) and definitions else None


def _outcome(document: Document) -> dict[str, Any]:
    content = document.content
    extra = content.get("extra") if isinstance(content.get("extra"), Mapping) else {}
    if "task" in extra:
        score = extra.get("score", extra.get("reward"))
        return {"task": extra["task"], "trial": extra.get("trial"), "success": extra.get("success"), "score": score}
    file = _result_file(document.path)
    if file is None:
        raise InvalidDataError(
            "task and success in its extra, or a result.json of the trial beside it", field="outcome", value=None
        )
    result = decoded(file.read_bytes(), str(file))
    task = required(result, "task_name", str, f"the name of the task, in {file}")
    rewards = optional(optional(result, "verifier_result"), "rewards")
    score = rewards.get("reward", next(iter(rewards.values()), None))
    # A trial that broke off before it was verified did not succeed.
    return {
        "task": task,
        "trial": result.get("trial_name"),
        "score": 0.0 if score is None and result.get("exception_info") else score,
    }


def _result_file(path: Path) -> Path | None:
    """Find the trial's result: beside the trajectory, or beside the folder that holds it."""
    for folder in (path.parent, path.parent.parent):
        if (folder / "result.json").is_file():
            return folder / "result.json"
    return None
