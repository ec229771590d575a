"""One rollout of a log: what a line must be, and the few numbers of it that are kept."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.costs import Price
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import FLAGS, IDLE, LONGEST_MESSAGE, UNCERTAINTY, StepExtractor
from bayes_tacit.logs.messages import Message, spelled_out, text_of
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
| `usage` | of all calls: tokens in, cached and out, as OpenAI says them (`prompt_tokens`, ...) or Anthropic |
| `cost`, `seconds` | of all calls, in any unit |
| `features` | numbers that are known before the first step, by name |
| `steps` | in place of messages, what was computed of them then: `diagnostics` by name, `usage`, `cost` of each step |
| `prompt_length`, `n_tools` | beside `steps`: the features that messages and tools would give |
"""

_BARE = 3  # task, messages, and success or score
_TOKENS = {
    "input tokens": ("prompt_tokens", "input_tokens"),
    "cached tokens": ("cached_tokens", "cache_read_input_tokens"),
    "written tokens": ("cache_creation_input_tokens",),
    "output tokens": ("completion_tokens", "output_tokens"),
}
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic does not count these as tokens in
_LETTERS = 4  # characters that make a token, where nobody counted
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
    price
        What tokens cost: then costs come of them, and where a log has no usage it is estimated from the letters.
    """

    threshold: float = 1.0
    longest: int = LONGEST_MESSAGE
    diagnose: bool = True
    words: bool = False
    price: Price | None = None


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
    input_tokens, cached_tokens, written_tokens, output_tokens, cost, seconds
        What the rollout used; with `step_` before them, what each step used. Numbers by step are bytes of doubles.
        Tokens in hold those that were cached, or written to the cache.
    estimated
        Whether tokens were taken from the letters.
    prompt
        What the first user's message is known by, to compare both sides of a pair.
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
    cached_tokens: float | None
    written_tokens: float | None
    output_tokens: float | None
    cost: float | None
    seconds: float | None
    step_input_tokens: bytes | None
    step_cached_tokens: bytes | None
    step_written_tokens: bytes | None
    step_output_tokens: bytes | None
    step_cost: bytes | None
    step_seconds: bytes | None
    estimated: bool
    prompt: bytes
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
    trial = model = tools = features = None
    if len(rollout) > _BARE:
        trial = None if rollout.get("trial") is None else _name(rollout, "trial")
        model = None if rollout.get("model") is None else _name(rollout, "model")
        tools, features = _tools(rollout.get("tools")), _features(rollout.get("features"))
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
    words = Script.of(messages, extractor.flags).to_bytes() if reading.words and not recorded else None
    whole, by_step, estimated = _usage(rollout, extractor, messages, reading.price)
    uncertainty = _uncertainty(extractor.nll, extractor.flags) if extractor.nll else None
    known = (task, trial, model, success, score, bytes(extractor.flags), uncertainty, extractor.prompt_length)
    return Row._make([*known, n_tools, features, *whole, *by_step, estimated, _prompt(messages or ()), words])


def _prompt(messages: Sequence[Message]) -> bytes:
    first = next((message for message in messages if message.get("role") == "user"), None)
    return (
        b""
        if first is None
        else blake2b(text_of(first.get("content")).encode("utf-8", "replace"), digest_size=8).digest()
    )


def _usage(
    rollout: Rollout, extractor: StepExtractor, messages: Sequence[Message] | None, price: Price | None
) -> tuple[_Spent, tuple[bytes | None, ...], bool]:
    """Return what a rollout used in all and by step, and whether that was estimated."""
    n = extractor.n_steps
    whole = _spent(rollout, "") if len(rollout) > _BARE else (None,) * len(_SPENT)
    columns: list[list[float] | None] = [None] * len(_SPENT)
    if extractor.spent:
        each = [_spent(extractor.spent.get(step) or {}, f" of turn {step}") for step in range(n)]
        for at, values in enumerate(zip(*each, strict=True)):
            numbers = [value for value in values if value is not None]
            if len(numbers) == n:
                columns[at] = numbers
    estimated = price is not None and messages is not None and columns[0] is None and whole[0] is None
    if estimated:
        assert messages is not None
        columns = [*_letters_by_step(messages), *columns[4:]]
    if price is not None and columns[0] is not None and columns[3] is not None:
        known = [np.array(column or [0.0] * n) for column in columns[:4]]
        columns[4] = price.tokens(known[0], known[3], known[1], known[2]).tolist()
    elif price is not None and whole[0] is not None and whole[3] is not None:
        total = price.tokens(whole[0], whole[3], whole[1] or 0.0, whole[2] or 0.0, n)
        whole = (*whole[:4], float(total), *whole[5:])
    # What the rollout does not say is the sum over its steps; a cost by prices always is.
    sums = [None if column is None else math.fsum(column) for column in columns]
    if price is not None and sums[4] is not None:
        whole = (*whole[:4], None, *whole[5:])
    filled = tuple(some if one is None else one for one, some in zip(whole, sums, strict=True))
    return filled, tuple(None if column is None else array("d", column).tobytes() for column in columns), estimated


def _letters_by_step(messages: Sequence[Message]) -> list[list[float] | None]:
    """Estimate tokens in, cached, written and out of each turn; what was sent with an earlier turn is cached."""
    lengths: list[list[float]] = [[], [], []]
    sofar = sent = 0.0
    for message in messages:
        calls = message.get("tool_calls") or ()
        size = len(text_of(message.get("content"))) + sum(len(str(one.get("function", ""))) for one in calls)
        if message.get("role") == "assistant":
            for column, value in zip(lengths, (sofar, sent, size), strict=True):
                column.append(value / _LETTERS)
            sent = sofar + size
        sofar += size
    return [lengths[0], lengths[1], None, lengths[2]]


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


_SPENT = (*_TOKENS, "cost", "seconds")
_Spent = tuple[float | None, ...]


def _spent(source: Message, where: str) -> _Spent:
    """Return what a message or a rollout says that it used, in the order of `_SPENT`."""
    usage, cost = source.get("usage"), source.get("cost")
    if usage is None and cost is None and source.get("seconds") is None:
        return (None,) * len(_SPENT)
    if usage is not None and not isinstance(usage, Mapping):
        raise InvalidDataError("an object such as {'prompt_tokens': 10}", field=f"usage{where}", value=usage)
    usage = usage or {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    said = {**details, **usage} if isinstance(details, Mapping) else usage
    found = {
        kind: next((said[name] for name in names if said.get(name) is not None), None)
        for kind, names in _TOKENS.items()
    }
    found |= {"cost": cost if cost is not None else usage.get("cost"), "seconds": source.get("seconds")}
    for field, value in found.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InvalidDataError("a finite number >= 0", field=f"{field}{where}", value=value)
        found[field] = float(value)
    if found["input tokens"] is not None:
        found["input tokens"] += sum(usage.get(name) or 0 for name in _BESIDE)
    return tuple(found.values())


def _take_steps(extractor: StepExtractor, steps: object) -> None:
    """Return an extractor steps whose diagnostics were computed when they were taken, as in a gateway's log."""
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
        if any(step.get(name) is not None for name in ("usage", "cost", "seconds")):
            extractor.spent[number] = step
