"""Inspect's logs: `.eval` through the package `inspect_ai`, or the JSON that `inspect log convert` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError
from bayes_tacit.logs.documents import Document, Progress, documents_of, files_of
from bayes_tacit.logs.readers.base import Found, called, optional, required

NAME = "inspect"
PATTERN = "*.eval"

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_NOT_NEEDED = {"events", "store", "timelines"}


def recognizes(content: object) -> bool:
    """Tell a log by its evaluation and samples; a sample of an `.eval` by its epoch."""
    if not isinstance(content, dict):
        return False
    return ("eval" in content and "samples" in content) or ("epoch" in content and "messages" in content)


def documents(path: Path, progress: Progress | None) -> Iterator[Document]:
    """Give the samples of `.eval` files one at a time; other files as they are."""
    for file in files_of(path, PATTERN):
        if file.suffix.lower() != ".eval":
            yield from documents_of(file, progress)
            continue
        for sample in _samples(file):
            yield Document(sample, file)
        if progress is not None:
            progress(file.stat().st_size)


def _samples(file: Path) -> Iterator[dict[str, Any]]:
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
            yield {"model": model, **json.loads(sample.model_dump_json(exclude=_NOT_NEEDED, exclude_none=True))}
    except Exception as error:
        raise FileFormatError(f"{file}: not a log that inspect_ai reads ({error})") from None


def rollouts(document: Document) -> Iterator[Found]:
    """Give a rollout for each sample that was scored; the task is its id, the trial its epoch."""
    content = document.content
    model = content.get("model")
    samples = [content]
    if "samples" in content:
        samples = required(content, "samples", list, "a list of samples")
        model = optional(content, "eval").get("model")
    for sample in samples:
        # A sample that broke off has no score and no say about the agent.
        if isinstance(sample, Mapping) and sample.get("error") and not sample.get("scores"):
            continue
        if not isinstance(sample, Mapping):
            raise InvalidDataError("an object", field="a sample", value=sample)
        yield f"sample {sample.get('id')!r}, epoch {sample.get('epoch')}", _rollout(sample, model)


def _rollout(sample: Mapping[str, Any], model: object) -> dict[str, Any]:
    messages = required(sample, "messages", list, "a list of messages")
    attachments = optional(sample, "attachments")
    usage = list(optional(sample, "model_usage").values())
    tokens = {name: sum(one.get(name) or 0 for one in usage) for name in ("input_tokens", "output_tokens")}
    costs = [one["total_cost"] for one in usage if one.get("total_cost") is not None]
    return {
        "task": sample.get("id"),
        "trial": sample.get("epoch"),
        "model": model,
        "score": _score(sample.get("scores")),
        "messages": [_message(message, attachments) for message in messages],
        "usage": tokens if usage else None,
        "cost": sum(costs) if costs else None,
    }


def _score(scores: object) -> float:
    """Give the first score as a number: C is 1, P is 0.5, I and N are 0."""
    first = next(iter(scores.values()), None) if isinstance(scores, Mapping) else None
    value = first.get("value") if isinstance(first, Mapping) else None
    if isinstance(value, str):
        value = _GRADES.get(value)
    if value is None or not isinstance(value, bool | int | float):
        raise InvalidDataError("a number, or one of C, P, I and N", field="value of the first score", value=first)
    return float(value)


def _message(message: object, attachments: Mapping[str, str]) -> Any:  # noqa: ANN401  checked later
    if not isinstance(message, Mapping):
        return message
    found = {**message, "content": _resolved(message.get("content"), attachments)}
    found.pop("error", None)
    if isinstance(message.get("tool_calls"), list):
        found["tool_calls"] = [_call(one) for one in message["tool_calls"]]
    error = message.get("error")
    if isinstance(error, Mapping):
        found |= {"is_error": True, "content": found["content"] or error.get("message") or ""}
    return found


def _call(call: object) -> dict[str, Any]:
    name = required(call, "function", str, "the name of a tool")
    assert isinstance(call, Mapping)
    # Arguments that could not be parsed are kept by Inspect as an error, not as arguments.
    arguments = "malformed" if call.get("parse_error") else call.get("arguments")
    return called(name, arguments, str(call.get("id")))


def _resolved(content: object, attachments: Mapping[str, str]) -> object:
    if isinstance(content, str) and content.startswith("attachment://"):
        return attachments.get(content.removeprefix("attachment://"), content)
    return content
