"""Valid logs to import, of every format, each with fields that can be broken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attack.junk import dumps
from conversations import answer, asked, call, rollout, turn

Field = tuple[object, ...]


def _tau(tasks: str) -> list[dict[str, Any]]:
    traj = [asked("Cancel."), {**turn(call("cancel", "c1", flight=1)), "content": None}, answer("Error", "c1")]
    return [{"task_id": task, "reward": 1.0, "info": {"task": {}}, "traj": traj, "trial": 0} for task in tasks]


def _atif(task: str) -> dict[str, Any]:
    steps = [
        {"step_id": 1, "source": "user", "message": "List."},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.25},
        },
    ]
    agent = {"name": "t", "version": "2", "model_name": "small"}
    extra = {"task": task, "success": True}
    return {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps, "extra": extra}


def _inspect(tasks: str) -> dict[str, Any]:
    def sample(task: str) -> dict[str, Any]:
        messages = [
            {"id": "m1", "content": "Add.", "role": "user"},
            {
                "id": "m2",
                "content": "I add.",
                "role": "assistant",
                "tool_calls": [{"id": "t1", "function": "add", "arguments": {"x": 1}, "type": "function"}],
            },
            {"id": "m3", "content": "3", "role": "tool", "tool_call_id": "t1", "function": "add"},
        ]
        return {"id": task, "epoch": 1, "input": "Add.", "messages": messages, "scores": {"match": {"value": "C"}}}

    return {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": [sample(task) for task in tasks]}


def _intercode(tasks: str) -> dict[str, Any]:
    history = {
        "actions": ["ls", "cat a"],
        "observations": ["a", "b"],
        "rewards": [0.0, 1.0],
        "valid_action": [True, True],
    }
    summary = {"max_reward": 1.0, "turns_taken": 2, "turns_max": 10}
    return {
        task: {"environment": "sql", "task_id": task, "query": "Do it.", "turn_history": history, "summary": summary}
        for task in tasks
    }


def _mini(task: str) -> dict[str, Any]:
    said = {**turn(call("bash", command="ls")), "extra": {"response": {"usage": {"prompt_tokens": 9}}, "cost": 0.5}}
    info = {
        "model_stats": {"instance_cost": 1.0, "api_calls": 2},
        "config": {"model": {"model_name": "small"}},
        "exit_status": "Submitted",
    }
    messages = [asked("Fix it."), said, {**answer("<returncode>1</returncode>"), "extra": {"returncode": 1}}]
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": task}


def _swe(_: str) -> dict[str, Any]:
    step = {"action": "ls\n", "observation": "a.py", "response": "I look.", "thought": "I look."}
    info = {
        "exit_status": "submitted",
        "model_stats": {"instance_cost": 0.4, "tokens_sent": 90, "tokens_received": 9, "api_calls": 3},
    }
    history = [{"role": "system", "content": "SETTING", "agent": "main"}, {"role": "user", "content": "ISSUE"}]
    return {"environment": "main", "trajectory": [step, step], "history": history, "info": info}


FORMATS: Mapping[str, tuple[str, Any, Mapping[Field, str]]] = {
    "openai": (
        "cheap.jsonl",
        [rollout(task, model="m") for task in "abc"],
        {
            (1, "task"): "id",
            (1, "success"): "flag",
            (1, "messages"): "list",
            (1, "messages", 1): "object",
            (1, "messages", 1, "role"): "choice",
            (1, "messages", 1, "tool_calls"): "object",
        },
    ),
    "tau-bench": (
        "cheap.json",
        _tau("abc"),
        {
            (1, "task_id"): "id",
            (1, "reward"): "number",
            (1, "traj"): "list",
            (1, "traj", 1): "object",
            (1, "info"): "object",
            (1, "traj", 1, "role"): "choice",
        },
    ),
    "atif": (
        "cheap.jsonl",
        [_atif(task) for task in "abc"],
        {
            (1, "steps"): "list",
            (1, "steps", 1): "object",
            (1, "extra", "task"): "id",
            (1, "extra", "success"): "flag",
            (1, "extra"): "object",
            (1, "agent"): "object",
            (1, "steps", 1, "metrics"): "object",
            (1, "steps", 1, "observation"): "object",
            (1, "steps", 1, "tool_calls"): "list",
        },
    ),
    "inspect": (
        "cheap.json",
        _inspect("abc"),
        {
            ("samples",): "list",
            ("samples", 1): "object",
            ("samples", 1, "id"): "id",
            ("samples", 1, "messages"): "list",
            ("samples", 1, "messages", 1): "object",
            ("eval",): "object",
            ("samples", 1, "scores"): "object",
            ("samples", 1, "scores", "match"): "object",
        },
    ),
    "intercode": (
        "cheap.json",
        _intercode("abc"),
        {
            ("b",): "object",
            ("b", "query"): "text",
            ("b", "turn_history"): "object",
            ("b", "turn_history", "actions"): "list",
            ("b", "summary"): "object",
            ("b", "summary", "max_reward"): "number",
        },
    ),
    "mini-swe-agent": (
        "cheap",
        {f"{task}/{task}.traj.json": _mini(task) for task in "abc"},
        {
            ("messages",): "list",
            ("messages", 1): "object",
            ("info",): "object",
            ("info", "model_stats"): "object",
            ("info", "config"): "object",
            ("messages", 1, "extra"): "object",
            ("messages", 1, "role"): "choice",
        },
    ),
    "swe-agent": (
        "cheap",
        {f"{task}.traj": _swe(task) for task in "abc"},
        {
            ("trajectory",): "list",
            ("trajectory", 0): "object",
            ("trajectory", 0, "action"): "text",
            ("info",): "object",
            ("info", "model_stats"): "object",
            ("history",): "list",
        },
    ),
}
"""By format: the name of the log, what it holds (a file by name where it is a folder), and fields to break."""


def write(path: Path, content: Any) -> None:
    if not path.suffix:
        for name, each in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(dumps(each))
    elif path.suffix == ".jsonl":
        path.write_bytes(b"".join(dumps(each) + b"\n" for each in content))
    else:
        path.write_bytes(dumps(content))
