"""One rollout of a log: what a line must be, and the few numbers of it that are kept."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import FLAGS, IDLE, LONGEST_MESSAGE, UNCERTAINTY, StepExtractor
from bayes_tacit.logs.messages import Message, spelled_out
from bayes_tacit.logs.reader import Script

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

_BARE = 3  # task, messages, and success or score
_TOKENS = {"input": ("prompt_tokens", "input_tokens"), "output": ("completion_tokens", "output_tokens")}
_ROUNDING = 1e-9  # a score that was summed up may miss the threshold by so much


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
    words
        Whether the words are kept, hashed, for a reader.
    """

    threshold: float = 1.0
    longest: int = LONGEST_MESSAGE
    diagnose: bool = True
    words: bool = False


class Row(NamedTuple):
    """What is kept of a rollout: a few dozen bytes, and its words as numbers where a reader is to be learned.

    Attributes
    ----------
    flags
        One byte a step, with the bits of `FLAGS`.
    nll
        Mean negative log-likelihood by step, where every step has one.
    prompt_length, n_tools, features
        Features that every conversation has, and those of the log.
    input_tokens, output_tokens, cost
        What the rollout used; with `step_` before them, what each step used. Numbers by step are bytes of doubles.
    words
        A `bayes_tacit.logs.reader.Script`.
    """

    task: str
    trial: str | None
    model: str | None
    success: bool
    score: float | None
    flags: bytes
    nll: bytes | None
    prompt_length: int
    n_tools: int | None
    features: Mapping[str, float] | None
    input_tokens: float | None
    output_tokens: float | None
    cost: float | None
    step_input_tokens: bytes | None
    step_output_tokens: bytes | None
    step_cost: bytes | None
    words: bytes | None


def row_of(rollout: Rollout, reading: Reading) -> Row:
    r"""Check a rollout and return what is kept of it.

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
        _take_steps(extractor, rollout["steps"])
        extractor.prompt_length = validate.whole("prompt_length", rollout.get("prompt_length"), 0)
        n_tools = validate.whole("n_tools", rollout.get("n_tools"), 0)
    else:
        messages = spelled_out(messages)
        extractor.extend(messages)
    if not extractor.flags:
        raise InvalidDataError("at least one turn of the assistant", field="messages", value=len(messages))
    whole: Sequence[float | None] = (None, None, None)
    if usage is not None or cost is not None:
        whole = _spent({"usage": usage, "cost": cost}, "")
    by_step: list[bytes | None] = [None, None, None]
    words = Script.of(messages, extractor.flags).to_bytes() if reading.words and not recorded else None
    if extractor.spent:
        each = [_spent(extractor.spent.get(step) or {}, f" of turn {step}") for step in range(extractor.n_steps)]
        whole = list(whole)
        for at, values in enumerate(zip(*each, strict=True)):
            numbers = [value for value in values if value is not None]
            if len(numbers) == len(values):
                by_step[at] = array("d", numbers).tobytes()
                if whole[at] is None:
                    whole[at] = math.fsum(numbers)  # the sum that the rollout does not say
    input_tokens, output_tokens, total = whole
    return Row(
        task,
        trial,
        model,
        success,
        score,
        bytes(extractor.flags),
        _uncertainty(extractor.nll, extractor.flags) if extractor.nll else None,
        extractor.prompt_length,
        n_tools,
        features,
        input_tokens,
        output_tokens,
        total,
        by_step[0],
        by_step[1],
        by_step[2],
        words,
    )


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
    """Return the names of tools, which may be definitions."""
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
    """Return the uncertainty of every step, if all are known: of nothing said it is 0."""
    values = [nll.get(step, 0.0 if flag & IDLE else None) for step, flag in enumerate(flags)]
    numbers = [value for value in values if value is not None]
    return array("d", numbers).tobytes() if len(numbers) == len(values) else None


def _spent(source: Message, where: str) -> tuple[float | None, ...]:
    """Return input tokens, output tokens and cost that a message or a rollout says."""
    usage, cost = source.get("usage"), source.get("cost")
    if usage is not None and not isinstance(usage, Mapping):
        raise InvalidDataError("an object such as {'prompt_tokens': 10}", field=f"usage{where}", value=usage)
    usage = usage or {}
    found = {"cost": cost if cost is not None else usage.get("cost")}
    for kind, names in _TOKENS.items():
        found[f"{kind} tokens"] = next((usage[name] for name in names if usage.get(name) is not None), None)
    for field, value in found.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InvalidDataError("a finite number >= 0", field=f"{field}{where}", value=value)
        found[field] = float(value)
    return found["input tokens"], found["output tokens"], found["cost"]


def _take_steps(extractor: StepExtractor, steps: object) -> None:
    """Give an extractor steps whose diagnostics were computed when they were taken, as in a gateway's log."""
    if not isinstance(steps, list) or not steps:
        raise InvalidDataError("a list of at least one step", field="steps", value=steps)
    for number, step in enumerate(steps):
        where = f"step {number}"
        values = step.get("diagnostics") if isinstance(step, Mapping) else None
        if not isinstance(values, Mapping):
            expected = "an object with diagnostics by name"
            raise InvalidDataError(expected, field="step", value=step, where=where)
        flags = 0
        for name, value in values.items():
            field = f"diagnostics[{name!r}]"
            if name in FLAGS:
                if value not in (0, 1):
                    raise InvalidDataError("0 or 1", field=field, value=value, where=where)
                flags |= int(value) << FLAGS.index(name)
            elif name != UNCERTAINTY:
                expected = f"one of {', '.join((*FLAGS, UNCERTAINTY))}"
                raise InvalidDataError(expected, field="diagnostic", value=name, where=where)
            elif value is not None:
                if not (isinstance(value, int | float) and 0 <= value < math.inf):
                    raise InvalidDataError("a finite number >= 0", field=field, value=value, where=where)
                extractor.nll[number] = float(value)
        extractor.flags.append(flags)
        if step.get("usage") is not None or step.get("cost") is not None:
            extractor.spent[number] = step
