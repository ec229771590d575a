"""The formats that logs come in, each a row of `FORMATS`: how a document is recognized, and what rollouts it holds.

What is wrong with a rollout's messages, its outcome or its usage is found later, for all formats alike; the functions
here check only what they must know themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError
from bayes_tacit.logs.documents import (
    Document,
    Found,
    ImportFormat,
    Progress,
    called,
    decoded,
    documents_of,
    files_of,
    lines_of,
    optional,
    required,
    turn,
)
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# The generic format: one rollout a line. People call its keys in several ways; the first that is there counts. Records
# may also be in a list, or in lists in an object.

_NAMES: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "task_id", "instance_id", "question_id", "problem_id", "id", "name"),
    "messages": ("messages", "conversation", "conversations", "trajectory", "history", "turns"),
    "success": ("success", "resolved", "solved", "passed", "correct", "is_correct", "is_success"),
    "score": ("score", "reward", "reward_info"),
    "model": ("model", "model_name"),
    "trial": ("trial", "trial_id", "attempt"),
}
_ROLES = {"human": "user", "gpt": "assistant", "ai": "assistant", "bot": "assistant", "model": "assistant"}
_MARKS = ("trajectory_format", "traj", "epoch", "format", "turn_history")  # of other formats


def is_plain(content: object) -> bool:
    """Return whether a document is a rollout as it is, by its keys, with messages as OpenAI has them."""
    if not isinstance(content, dict) or not {"task", "messages"} <= content.keys():
        return False
    messages = content["messages"]
    told = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    calls = next((one["tool_calls"] for one in told if one.get("tool_calls")), None)
    call = calls[0] if isinstance(calls, list) else None
    flat = isinstance(call, dict) and "name" in call and "function" not in call
    return ("success" in content or "score" in content) and not flat and not ("from" in told[0] if told else False)


def _is_generic(content: object) -> bool:
    return next(_records(content), None) is not None


def _records(content: object) -> Iterator[Mapping[str, Any]]:
    """Yield the rollouts in a document: itself, or those in a list or in lists of it."""
    if isinstance(content, list):
        for one in content:
            yield from _records(one)
    elif isinstance(content, dict):
        if any(name in content for name in _MARKS) or _is_atif(content) or _is_swe_agent(content):
            return
        if _key(content, "task") and ("steps" in content or _key(content, "messages")):
            yield content
            return
        for inner in content.values():
            if isinstance(inner, list) and inner and isinstance(inner[0], list | dict):
                yield from _records(inner)


def _key(content: Mapping[str, Any], kind: str) -> str | None:
    """Return what a record calls something, None if it has no such thing; messages have a role."""
    for name in _NAMES[kind]:
        value = content.get(name)
        if kind != "messages" or name == kind:
            if name in content and (value is not None or name == kind):
                return name
        elif isinstance(value, list) and value and isinstance(value[0], dict) and {"role", "from"} & value[0].keys():
            return name
    return None


def missing_of(content: object) -> str:
    """Return what a document lacks to be a rollout."""
    if not isinstance(content, dict):
        return f"{type(content).__name__} {str(content)[:40]!r}"
    lacking = [kind for kind in ("task", "messages") if _key(content, kind) is None]
    told = [f"{kind} (or {', '.join(_NAMES[kind][1:])})" for kind in lacking] or ["a known shape"]
    return f"an object with the keys {', '.join(map(str, content))[:80]}; it has no {' and no '.join(told)}"


def _generic(document: Document) -> Iterator[Found]:
    if is_plain(document.content):
        yield "", document.content
        return
    found = list(_records(document.content))
    for number, record in enumerate(found):
        rollout = dict(record)
        for kind in _NAMES:
            rollout[kind] = rollout.pop(_key(record, kind) or kind, None)
        if isinstance(rollout["score"], Mapping):
            rollout["score"] = rollout["score"].get("reward")
        if isinstance(rollout["score"], bool) and rollout["success"] is None:
            rollout["success"], rollout["score"] = rollout["score"], None
        if isinstance(rollout["messages"], list):
            rollout["messages"] = [_generic_message(one) for one in rollout["messages"]]
        yield f"record {number}" if len(found) > 1 else "", rollout


def _generic_message(message: Any) -> Any:  # noqa: ANN401  checked later
    """Return a message with `role`, `content` and calls as OpenAI has them, where it says these in another way."""
    if not isinstance(message, dict):
        return message
    found = dict(message)
    if "role" not in found and "from" in found:
        found |= {"role": found.pop("from"), "content": found.pop("value", None)}
    role = found.get("role")
    found["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
    if isinstance(found.get("tool_calls"), list):
        found["tool_calls"] = [
            called(one["name"], one.get("arguments", one.get("args")), str(one.get("id")))
            if isinstance(one, dict) and "function" not in one and "name" in one
            else one
            for one in found["tool_calls"]
        ]
    if role == "tool" and "tool_call_id" not in found and "id" in found:
        found["tool_call_id"] = found["id"]
    return found


# InterCode's results: one JSON object, a record for each task with its turns of action, observation and reward. The
# score is the highest reward. Each action is the call of one tool, the environment; one that it did not take for
# valid is an error. `hardness`, which comes from the reference solution, is not read: an agent that is running does
# not know it.


def _is_intercode(content: object) -> bool:
    records = _intercode_records(content)
    first = next(iter(records.values()), None) if isinstance(records, dict) else None
    return isinstance(first, dict) and "turn_history" in first


def _intercode_records(content: object) -> object:
    """Return the records, which some programs of InterCode write beside their settings."""
    return content["logs"] if isinstance(content, dict) and {"meta", "logs"} <= content.keys() else content


def _intercode(document: Document) -> Iterator[Found]:
    records = _intercode_records(document.content)
    if not isinstance(records, dict) or not records:
        raise InvalidDataError("an object of at least one record", field="results", value=records)
    for key, record in records.items():
        try:
            yield f"task {key!r}", _intercode_rollout(key, record)
        except InvalidDataError as error:
            yield f"task {key!r}", InvalidDataError(error.expected, episode=key, field=error.field, value=error.value)


def _intercode_rollout(key: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    query = required(record, "query", str, "the task as a text")
    history = required(record, "turn_history", dict, "actions and observations")
    summary = required(record, "summary", dict, "an object with max_reward")
    actions = required(history, "actions", list, "a list of texts")
    observations = required(history, "observations", list, "a list of texts")
    if len(actions) != len(observations):
        raise InvalidDataError(f"{len(actions)}, one for each action", field="observations", value=len(observations))
    valid = history.get("valid_action") if isinstance(history.get("valid_action"), list) else []
    messages: list[dict[str, Any]] = [{"role": "user", "content": query}]
    for number, (action, observation) in enumerate(zip(actions, observations, strict=True)):
        if not isinstance(action, str | None):
            raise InvalidDataError("a text", field=f"action {number}", value=action)
        made = turn("", action, observation if isinstance(observation, str | None) else str(observation), number)
        if len(made) > 1 and number < len(valid) and valid[number] is False:
            made[1]["is_error"] = True
        messages += made
    return {"task": record.get("task_id", key), "score": summary.get("max_reward"), "messages": messages}


# tau-bench's results: a JSON list, or lines, with a record for each task and trial, and messages in OpenAI's format
# in `traj`.


def _is_tau_bench(content: object) -> bool:
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, dict) and "traj" in first and "task_id" in first


def _tau_bench(document: Document) -> Iterator[Found]:
    records = document.content if isinstance(document.content, list) else [document.content]
    for number, record in enumerate(records):
        inside = f"record {number}" if len(records) > 1 else ""
        if not isinstance(record, dict):
            raise InvalidDataError("an object with task_id, reward and traj", field=inside, value=record)
        info, reward = record.get("info"), record.get("reward")
        # A run that broke off has no messages and no say about the agent.
        if not record.get("traj") and isinstance(info, dict) and "error" in info:
            continue
        if isinstance(reward, float) and abs(reward - 1) <= 1e-6:  # as in tau-bench itself
            reward = 1.0
        names = {"task": "task_id", "trial": "trial", "messages": "traj"}
        yield inside, {**{name: record.get(key) for name, key in names.items()}, "score": reward}


# ATIF, the trajectories of Harbor and Terminal-Bench: steps of system, user and agent, with calls and observations.
# The outcome is not in a trajectory. In a folder of trials it is in `result.json`, beside the folder `agent` that
# holds the trajectory; in a file of one trajectory a line it may be in `extra`, as `task`, and `success` or `reward`.


def _is_atif(content: object) -> bool:
    return isinstance(content, dict) and str(content.get("schema_version", "")).startswith("ATIF")


def _atif(document: Document) -> Iterator[Found]:
    content = document.content
    steps = required(content, "steps", list, "a list of steps")
    agent, total = _mapping(content.get("agent")), _mapping(content.get("final_metrics"))
    usage = {name: total.get(f"total_{name}") for name in ("prompt_tokens", "completion_tokens")}
    tools = agent.get("tool_definitions")
    rollout = {
        **_atif_outcome(document),
        "model": agent.get("model_name"),
        "messages": [message for number, step in enumerate(steps) for message in _atif_messages(step, number)],
        "tools": tools if isinstance(tools, list) and tools else None,
        "usage": usage,
        "cost": total.get("total_cost_usd"),
    }
    yield "", rollout


def _atif_messages(step: object, number: int) -> Iterator[dict[str, Any]]:
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
        answer = {"role": "tool", "tool_call_id": identity, "content": result.get("content")}
        wrong = result.get("is_error") or _mapping(result.get("extra")).get("is_error")
        yield answer | ({"is_error": True} if wrong else {})


def _atif_outcome(document: Document) -> dict[str, Any]:
    extra = _mapping(document.content.get("extra"))
    if "task" in extra:
        score = extra.get("score", extra.get("reward"))
        return {"task": extra["task"], "trial": extra.get("trial"), "success": extra.get("success"), "score": score}
    beside = [folder / "result.json" for folder in (document.path.parent, document.path.parent.parent)]
    file = next((file for file in beside if file.is_file()), None)
    if file is None:
        expected = "task and success in its extra, or a result.json of the trial beside it"
        raise InvalidDataError(expected, field="outcome", value=None)
    result = decoded(file.read_bytes(), str(file))
    task = required(result, "task_name", str, f"the name of the task, in {file}")
    rewards = optional(optional(result, "verifier_result"), "rewards")
    score = rewards.get("reward", next(iter(rewards.values()), None))
    if score is None and result.get("exception_info"):
        score = 0.0  # a trial that broke off before it was verified did not succeed
    return {"task": task, "trial": result.get("trial_name"), "score": score}


# Inspect's logs: `.eval` through the package `inspect_ai`, or the JSON that `inspect log convert` writes. A sample
# that was scored is a rollout; the task is its id, the trial its epoch.

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}


def _is_inspect(content: object) -> bool:
    """Return whether a document is a log, by its evaluation and samples, or a sample of an `.eval`, by its epoch."""
    if not isinstance(content, dict):
        return False
    return ("eval" in content and "samples" in content) or ("epoch" in content and "messages" in content)


def _inspect_documents(path: Path, progress: Progress | None) -> Iterator[Document]:
    """Yield the samples of `.eval` files one at a time; other files as they are."""
    for file in files_of(path, "*.eval"):
        if file.suffix.lower() != ".eval":
            yield from documents_of(file, progress)
            continue
        for sample in _inspect_samples(file):
            yield Document(sample, file)
        if progress is not None:
            progress(file.stat().st_size)


def _inspect_samples(file: Path) -> Iterator[dict[str, Any]]:
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_samples
    except ImportError:
        raise MissingDependencyError(
            f"{file}: an .eval file needs the package inspect_ai, which is not installed; install it, or convert the "
            "log with inspect log convert --to json"
        ) from None
    try:
        model = read_eval_log(str(file), header_only=True).eval.model
        for sample in read_eval_log_samples(str(file), all_samples_required=False, resolve_attachments=True):
            content = sample.model_dump_json(exclude={"events", "store", "timelines"}, exclude_none=True)
            yield {"model": model, **json.loads(content)}
    except Exception as error:
        raise FileFormatError(f"{file}: not a log that inspect_ai reads ({error})") from None


def _inspect(document: Document) -> Iterator[Found]:
    content = document.content
    model = content.get("model")
    samples = [content]
    if "samples" in content:
        samples = required(content, "samples", list, "a list of samples")
        model = optional(content, "eval").get("model")
    for sample in samples:
        if not isinstance(sample, Mapping):
            raise InvalidDataError("an object", field="a sample", value=sample)
        # A sample that broke off has no score and no say about the agent.
        if sample.get("error") and not sample.get("scores"):
            continue
        place = f"sample {sample.get('id')!r}, epoch {sample.get('epoch')}"
        try:
            yield place, _inspect_rollout(sample, model)
        except InvalidDataError as error:
            yield place, error


def _inspect_rollout(sample: Mapping[str, Any], model: object) -> dict[str, Any]:
    messages = required(sample, "messages", list, "a list of messages")
    attachments = optional(sample, "attachments")
    usage = list(optional(sample, "model_usage").values())
    tokens = {name: sum(one.get(name) or 0 for one in usage) for name in ("input_tokens", "output_tokens")}
    costs = [one["total_cost"] for one in usage if one.get("total_cost") is not None]
    # The first score counts: a number, or a grade.
    score = next(iter(_mapping(sample.get("scores")).values()), None)
    value = _mapping(score).get("value")
    value = _GRADES.get(value) if isinstance(value, str) else value
    if not isinstance(value, bool | int | float):
        raise InvalidDataError("a number, or one of C, P, I and N", field="value of the first score", value=score)
    return {
        "task": sample.get("id"),
        "trial": sample.get("epoch"),
        "model": model,
        "score": float(value),
        "messages": [_inspect_message(message, attachments) for message in messages],
        "usage": tokens if usage else None,
        "cost": sum(costs) if costs else None,
    }


def _inspect_message(message: object, attachments: Mapping[str, str]) -> Any:  # noqa: ANN401  checked later
    if not isinstance(message, Mapping):
        return message
    content, error = message.get("content"), message.get("error")
    if isinstance(content, str) and content.startswith("attachment://"):
        content = attachments.get(content.removeprefix("attachment://"), content)
    found = {**message, "content": content}
    found.pop("error", None)
    if isinstance(message.get("tool_calls"), list):
        found["tool_calls"] = [_inspect_call(one) for one in message["tool_calls"]]
    if isinstance(error, Mapping):
        found |= {"is_error": True, "content": content or error.get("message") or ""}
    return found


def _inspect_call(call: Any) -> dict[str, Any]:  # noqa: ANN401  checked here
    name = required(call, "function", str, "the name of a tool")
    # Arguments that could not be parsed are kept by Inspect as an error, not as arguments.
    return called(name, "malformed" if call.get("parse_error") else call.get("arguments"), str(call.get("id")))


# mini-swe-agent's trajectories: a file for each task, its messages in OpenAI's format or with commands in their text.
# The task is `instance_id`, or the name of the file. Whether the patch resolves the issue comes from the report of
# SWE-bench.

_COMMAND = re.compile(r"```[\w-]*\s*\n(.*?)\n?```", re.DOTALL)


def _is_mini_swe_agent(content: object) -> bool:
    return isinstance(content, dict) and str(content.get("trajectory_format", "")).startswith("mini-swe-agent")


def _mini_swe_agent(document: Document) -> Iterator[Found]:
    content = document.content
    messages = required(content, "messages", list, "a list of messages")
    info = required(content, "info", dict, "an object with model_stats")
    rollout = {
        "task": content.get("instance_id") or document.path.name.removesuffix(".traj.json"),
        "success": info.get("resolved"),
        "cost": optional(info, "model_stats").get("instance_cost"),
        "model": optional(optional(info, "config"), "model").get("model_name"),
        "messages": list(_mini_swe_agent_messages(messages)),
    }
    yield "", rollout


def _mini_swe_agent_messages(messages: list[Any]) -> Iterator[Any]:
    written = None  # the call that is in the text of the turn before
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            extra = optional(message, "extra")
            response = optional(extra, "response")
            spent = {
                "usage": response.get("usage"),
                "cost": extra.get("cost"),
                "finish_reason": (response.get("choices") or [{}])[0].get("finish_reason"),
            }
            said = {**message, **{name: value for name, value in spent.items() if value is not None}}
            written = None
            if not message.get("tool_calls") and (commands := _commands(message, extra)):
                written = f"bash-{number}"
                said["tool_calls"] = [called("bash", {"command": one}, written) for one in commands]
            yield said
        elif role == "user" and written is not None:
            yield {"role": "tool", "tool_call_id": written, "content": message.get("content")}
            written = None
        elif role != "exit":
            yield message


def _commands(message: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    """Return the commands that are written in a message; more than one block is no command."""
    actions = [one["command"] for one in extra.get("actions") or () if isinstance(one, Mapping) and "command" in one]
    text = message.get("content")
    found = _COMMAND.findall(text) if not actions and isinstance(text, str) else []
    return actions or (found if len(found) == 1 else [])


# SWE-agent's trajectories: a file for each task, with its steps of thought, action and observation. Task and outcome
# are as for mini-swe-agent.


def _is_swe_agent(content: object) -> bool:
    steps = content.get("trajectory") if isinstance(content, dict) else None
    return isinstance(steps, list) and (not steps or (isinstance(steps[0], dict) and "action" in steps[0]))


def _swe_agent(document: Document) -> Iterator[Found]:
    content = document.content
    steps = required(content, "trajectory", list, "a list of steps")
    info = _mapping(content.get("info"))
    stats = optional(info, "model_stats")
    messages: list[dict[str, Any]] = []
    history = content.get("history")
    for message in history if isinstance(history, list) else ():
        if not isinstance(message, Mapping) or message.get("is_demo"):
            continue
        if message.get("role") not in ("system", "user"):
            break
        messages.append({"role": message["role"], "content": message.get("content")})
    for number, step in enumerate(steps):
        action = required(step, "action", str, f"a text, in step {number}")
        said, seen = step.get("response"), step.get("observation")
        if not isinstance(said, str | None) or not isinstance(seen, str | None):
            raise InvalidDataError("texts", field=f"response and observation of step {number}", value=(said, seen))
        # Where an answer cannot be parsed SWE-agent asks again and writes no action.
        messages += turn(said or "", action, seen, number, tool="shell")
    rollout = {
        "task": content.get("instance_id") or document.path.stem,
        "success": info.get("resolved"),
        "messages": messages,
        "usage": {"prompt_tokens": stats.get("tokens_sent"), "completion_tokens": stats.get("tokens_received")},
        "cost": stats.get("instance_cost"),
    }
    yield "", rollout


# Logs of the gateway: sessions with outcomes that were posted back, as rollouts of who served them. Which sessions
# Cheap served to the end is the router's choice: it keeps those that went well, and to learn from them as if they were
# drawn would flatter Cheap. So a session counts only where its side did not depend on how it went: it was explored
# (drawn for Cheap to the end or Strong from the start), or its router always chooses the same side.

GATEWAY = "bayes_tacit.gateway"
"""What the first line of a session in a gateway's log says its format is."""

_FIRST_BYTES = b'{"event":'
_QUIET = {"repeated_call": 0, "short_cycle": 0, "tool_error": 0, "unchanged_observation": 0, "malformed_call": 0}


def _opens_gateway(path: Path) -> bool:
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES


def _gateway_sessions(path: Path, progress: Progress | None) -> Iterator[Document]:
    """Yield the sessions of a log, or of all logs in a folder, in the order in which they began."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in files_of(path, "*.jsonl"):
        for line in lines_of(file, progress):
            if isinstance(line.content, FileFormatError):
                raise line.content
            _add_line(found, line)
    for session in found.values():
        yield Document(session, session.pop("path"), session.pop("line"))


def _add_line(found: dict[tuple[str, str], dict[str, Any]], line: Document) -> None:
    """Put a line where it belongs; of a turn that was asked for again, the last answer counts."""
    content = line.content
    try:
        event, key = content["event"], (content["scope"], content["episode"])
        if event == "start":
            version = [content["format"], content["schema_version"]]
            if version != [GATEWAY, 1]:
                raise InvalidDataError(f"{GATEWAY!r} of version 1", field="format", value=version, where=line.place)
            known = {name: content[name] for name in ("format", "episode", "task", "features", "arm", "arms")}
            routers = {name: content[name] for name in ("router", "canary")}
            parts: dict[str, Any] = {"sides": {}, "steps": {}, "replies": {}, "outcome": None}
            found.setdefault(key, {**known, **routers, **parts, "path": line.path, "line": line.line})
        session = found.get(key)
        if session is None:
            return  # its beginning is in a log that is not here
        if event == "step":
            session["sides"][content["call"]] = content["side"]
            session |= content["about"] or {}
            for step in content["steps"]:
                session["steps"][step["step"]] = (step["call"], step["diagnostics"])
        elif event == "reply" and content["status"] < 300 and content["cost"] is not None:
            session["sides"][content["call"]] = content["side"]
            reply = {name: content[name] for name in ("model", "usage", "cost", "finish_reason", "nll")}
            session["replies"][content["call"]] = reply
        elif event == "outcome":
            session["outcome"] = {name: content[name] for name in ("success", "score", "task")}
    except (KeyError, TypeError, AttributeError):
        expected = "a line of a gateway's log"
        raise InvalidDataError(expected, field="line", value=json.dumps(content), where=line.place) from None


def _gateway(document: Document) -> Iterator[Found]:
    """Yield the rollout of a session, if it is one and its outcome is known."""
    session = document.content
    outcome, features = session["outcome"], session["features"]
    side = _side_of(session)
    steps = [] if side is None or outcome is None else _session_steps(session)
    if not steps:
        return
    rollout = {
        "side": side,
        "task": outcome.get("task") or session["task"],
        "model": next((one["model"] for one in session["replies"].values() if one.get("model")), None),
        "steps": steps,
        "prompt_length": int(features.get("prompt_length", 0)),
        "n_tools": int(features.get("n_tools", 0)),
        **{key: outcome[key] for key in ("success", "score") if outcome.get(key) is not None},
    }
    more = {name: value for name, value in features.items() if name not in ("prompt_length", "n_tools", *FEATURES)}
    yield f"session {session['episode']!r}", {**rollout, **({"features": more} if more else {})}


def _side_of(session: Mapping[str, Any]) -> str | None:
    """Return whose rollout a session is; None if it was served by both, or by one because of how it went."""
    arm = session["arm"]
    router = (session["canary"] if arm == "canary" else session["router"]) or {}
    chosen = {"pure_cheap": "cheap", "pure_strong": "strong"}.get(str(router.get("policy")))
    side = arm if arm in ("cheap", "strong") else chosen
    return side if set(session["sides"].values()) == {side} else None


def _session_steps(session: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of a session; the last reply, which no request followed, only where it ended the task."""
    seen, replies = session["steps"], session["replies"]
    steps = []
    for number in range(len(seen)):
        if number not in seen:
            return []
        call, diagnostics = seen[number]
        # `nll` is the sum beside the mean, which episodes do not carry; what a reader said goes where the reader does.
        values = {name: value for name, value in diagnostics.items() if name not in ("nll", *DIAGNOSTICS)}
        steps.append({"diagnostics": values, **_reply_spent(replies.get(call))})
    last = max(session["sides"], default=0)
    made = max((call for call, _ in seen.values() if call is not None), default=0)
    end = replies.get(last) if last > made else None
    if end is not None and end["finish_reason"] in ("stop", "length"):
        values = {**_QUIET, "no_action": int(end["finish_reason"] == "length")}
        if end["nll"] is not None and end["nll"][1]:
            values["uncertainty"] = end["nll"][0] / end["nll"][1]
        steps.append({"diagnostics": values, **_reply_spent(end)})
    return steps


def _reply_spent(reply: Mapping[str, Any] | None) -> dict[str, Any]:
    if reply is None:
        return {}
    usage = reply["usage"]
    if usage is None:
        return {"cost": reply["cost"]}
    tokens = {"prompt_tokens": usage["prompt"], "completion_tokens": usage["completion"]}
    return {"cost": reply["cost"], "usage": tokens}


def _is_session(content: object) -> bool:
    return isinstance(content, dict) and content.get("format") == GATEWAY


def left_out_of_gateway(path: Path) -> tuple[str, ...]:
    """Return which sessions of a gateway's log are no rollouts, one sentence each."""
    counts: Counter[str] = Counter()
    shares = set()
    for document in _gateway_sessions(path, None):
        session = document.content
        side = _side_of(session)
        if session["outcome"] is None:
            counts["without"] += 1
        elif side is None:
            counts["chosen"] += 1
        else:
            shares.add(session["arms"].get(session["arm"]))
    said = []
    if counts["without"]:
        said.append(f"{counts['without']} sessions have no outcome and were left out")
    if counts["chosen"]:
        said.append(
            f"{counts['chosen']} sessions were left out whose side the router chose by how they went: those that Cheap "
            "ended are the easy ones; serve --explore 0.05 draws some that tell what either does alone"
        )
    if len(shares) > 1:
        said.append("sessions were explored at different rates: times of much exploring count more")
    return tuple(said)


FORMATS: dict[str, ImportFormat] = {
    one.name: one
    for one in (
        ImportFormat("openai", "*.json*", _is_generic, _generic),
        ImportFormat("intercode", "*.json", _is_intercode, _intercode),
        ImportFormat("tau-bench", "*.json", _is_tau_bench, _tau_bench),
        ImportFormat("atif", "trajectory*.json", _is_atif, _atif),
        ImportFormat("inspect", "*.eval", _is_inspect, _inspect, _inspect_documents),
        ImportFormat("mini-swe-agent", "*.traj.json", _is_mini_swe_agent, _mini_swe_agent),
        ImportFormat("swe-agent", "*.traj", _is_swe_agent, _swe_agent),
        ImportFormat("gateway", "*.jsonl", _is_session, _gateway, _gateway_sessions, _opens_gateway),
    )
}
"""The formats by name, in the order in which a document is compared with them."""
