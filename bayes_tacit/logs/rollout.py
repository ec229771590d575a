"""One rollout of a log: what a line must be, and the few numbers of it that are kept."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import IDLE, LONGEST_MESSAGE, StepExtractor
from bayes_tacit.logs.messages import Message
from bayes_tacit.logs.recorded import read_steps

Rollout = Mapping[str, Any]
"""A rollout in the generic format: `task`, `messages`, `success` or `score`, and whatever else the log knows.

| key | what |
| --- | --- |
| `task` | what pairs the rollouts: a text or a whole number |
| `success` or `score` | true or false; or a number, which is a success from the threshold on |
| `messages` | the conversation, in OpenAI's chat format; also with `usage`, `cost`, `logprobs`, `finish_reason` |
| `trial` | which of several rollouts of the task it is |
| `model` | who played |
| `tools` | the tools that were offered: names, or definitions as OpenAI has them |
| `usage` | of all calls: `prompt_tokens` and `completion_tokens`, or `input_tokens` and `output_tokens` |
| `cost` | of all calls, in any unit |
| `features` | numbers that are known before the first step, by name |
| `steps` | in place of messages, what was computed of them then: `diagnostics` by name, `usage`, `cost` of each step |
| `prompt_length`, `n_tools` | beside `steps`: the features that messages and tools would give |
"""

_TOKENS = {"input": ("prompt_tokens", "input_tokens"), "output": ("completion_tokens", "output_tokens")}
_ROUNDING = 1e-9  # a score that was summed up may miss the threshold by so much
_NON_NEGATIVE = "a finite number >= 0"


@dataclass(frozen=True, slots=True)
class Reading:
    """How rollouts are read.

    Attributes
    ----------
    threshold
        The least score that is a success.
    longest
        Most characters of one message.
    diagnose
        Whether the diagnostics are needed, or only the number of steps.
    """

    threshold: float = 1.0
    longest: int = LONGEST_MESSAGE
    diagnose: bool = True


Row = tuple[
    str,  # task
    str | None,  # trial
    str | None,  # model
    bool,  # success
    float | None,  # score
    bytes,  # flags by step
    bytes | None,  # mean negative log-likelihood by step, where every step has one
    int,  # characters of the prompt
    int | None,  # number of tools
    Mapping[str, float] | None,  # features of the log
    float | None,  # input tokens, output tokens and cost of the rollout
    float | None,
    float | None,
    bytes | None,  # the same by step
    bytes | None,
    bytes | None,
]
"""What is kept of a rollout: a few dozen bytes."""


def row_of(rollout: Rollout, reading: Reading) -> Row:
    r"""Check a rollout and give what is kept of it.

    Raises
    ------
    InvalidDataError
        With the task, the field, the value and what was expected.

    Examples
    --------
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    >>> row_of({"task": "a", "score": 0.5, "messages": messages}, Reading(threshold=0.5))[:6]
    ('a', None, None, True, 0.5, b'\x00')
    """
    task = _name(rollout, "task")
    try:
        return _row(rollout, task, reading)
    except InvalidDataError as error:
        raise InvalidDataError(
            error.expected, episode=task, field=error.field, value=error.value, where=error.where
        ) from None


def _row(rollout: Rollout, task: str, reading: Reading) -> Row:
    success, score = _outcome(rollout, reading.threshold)
    messages: Any = rollout.get("messages")
    recorded = messages is None and "steps" in rollout
    if not recorded and (messages.__class__ is not list or not messages):
        raise InvalidDataError("a list of at least one message", field="messages", value=messages)
    trial = model = tools = usage = cost = features = None
    if len(rollout) > _BARE:
        trial = None if rollout.get("trial") is None else _name(rollout, "trial")
        model = None if rollout.get("model") is None else _name(rollout, "model")
        tools, features = _tools(rollout.get("tools")), _features(rollout.get("features"))
        usage, cost = rollout.get("usage"), rollout.get("cost")
    extractor = StepExtractor(tools, longest=reading.longest, diagnose=reading.diagnose)
    n_tools = None if tools is None else len(tools)
    if recorded:
        extractor.flags, extractor.nll, extractor.spent = read_steps(rollout["steps"])
        extractor.prompt_length, n_tools = (validate.whole(name, rollout.get(name), 0) for name in _COUNTED)
    else:
        extractor.extend(messages)
    if not extractor.flags:
        raise InvalidDataError("at least one turn of the assistant", field="messages", value=len(messages))
    known = _uncertainty(extractor.nll, extractor.flags) if extractor.nll else None
    whole: dict[str, float | None] = {"input": None, "output": None, "cost": None}
    if usage is not None or cost is not None:
        whole = _spent({"usage": usage, "cost": cost}, "")
    steps: dict[str, bytes | None] = {}
    if extractor.spent:
        whole, steps = _by_step([extractor.spent.get(step) for step in range(extractor.n_steps)], whole)
    return (
        task,
        trial,
        model,
        success,
        score,
        bytes(extractor.flags),
        known,
        extractor.prompt_length,
        n_tools,
        features,
        whole["input"],
        whole["output"],
        whole["cost"],
        steps.get("input"),
        steps.get("output"),
        steps.get("cost"),
    )


_COUNTED = ("prompt_length", "n_tools")
_BARE = 3  # task, messages, and success or score


def _name(rollout: Rollout, field: str) -> str:
    value = rollout.get(field)
    if value.__class__ is str and value:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidDataError("a text that UTF-8 can write", field=field, value=value) from None
        return value
    if value.__class__ is int:
        return str(value)
    raise InvalidDataError("a text or a whole number", field=field, value=value)


def _outcome(rollout: Rollout, threshold: float) -> tuple[bool, float | None]:
    success, score = rollout.get("success"), rollout.get("score")
    if score is not None:
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise InvalidDataError("a finite number", field="score", value=score)
        score = float(score)
    if success is None:
        if score is None:
            raise InvalidDataError("true or false, or a score", field="success", value=None)
        return score >= threshold - _ROUNDING, score
    if success.__class__ is not bool and success not in (0, 1):
        raise InvalidDataError("true or false, or 1 or 0", field="success", value=success)
    return bool(success), score


def _tools(tools: object) -> list[str] | None:
    """Give the names of tools, which may be definitions."""
    if tools is None:
        return None
    expected = "a list of names, or of definitions such as {'type': 'function', 'function': {'name': ...}}"
    if not isinstance(tools, list):
        raise InvalidDataError(expected, field="tools", value=tools)
    names = []
    for tool in tools:
        name = tool
        if isinstance(tool, Mapping):
            function = tool.get("function", tool)
            name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidDataError(expected, field="tool", value=tool)
        names.append(name)
    return names


def _features(features: object) -> Mapping[str, float] | None:
    if features is None:
        return None
    if not isinstance(features, Mapping):
        raise InvalidDataError("an object of numbers", field="features", value=features)
    for name, value in features.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidDataError("a finite number", field=f"features[{name!r}]", value=value)
    return {name: float(value) for name, value in features.items()}


def _uncertainty(nll: Mapping[int, float], flags: bytearray) -> bytes | None:
    """Give the uncertainty of every step, if all are known: of nothing said it is 0."""
    values = [nll.get(step, 0.0 if flag & IDLE else None) for step, flag in enumerate(flags)]
    numbers = [value for value in values if value is not None]
    return array("d", numbers).tobytes() if len(numbers) == len(values) else None


def _spent(source: Message, where: str) -> dict[str, float | None]:
    """Give tokens and cost that a message or a rollout says."""
    usage, cost = source.get("usage"), source.get("cost")
    if usage is not None and not isinstance(usage, Mapping):
        raise InvalidDataError("an object such as {'prompt_tokens': 10}", field=f"usage{where}", value=usage)
    found: dict[str, float | None] = {"cost": cost if cost is not None else (usage or {}).get("cost")}
    for kind, names in _TOKENS.items():
        found[kind] = next((usage[name] for name in names if usage and usage.get(name) is not None), None)
    for kind, value in found.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            field = "cost" if kind == "cost" else f"{kind} tokens"
            raise InvalidDataError(_NON_NEGATIVE, field=f"{field}{where}", value=value)
        found[kind] = float(value)
    return found


def _by_step(
    spent: list[Message | None], whole: dict[str, float | None]
) -> tuple[dict[str, float | None], dict[str, bytes | None]]:
    """Give what each step spent, where every step says so, and fill in the sums that the rollout does not say."""
    each = [_spent(one or {}, f" of turn {number}") for number, one in enumerate(spent)]
    steps: dict[str, bytes | None] = {}
    for kind in whole:
        values = [one[kind] for one in each]
        numbers = [value for value in values if value is not None]
        if len(numbers) == len(values):
            steps[kind] = array("d", numbers).tobytes()
            whole = {**whole, kind: math.fsum(numbers) if whole[kind] is None else whole[kind]}
    return whole, steps
