"""One rollout of a log: what a line must be, and the few numbers of it that are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.costs import Price
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import FLAGS, IDLE, LONGEST_MESSAGE, UNCERTAINTY, StepExtractor
from bayes_tacit.logs.messages import Message, pattern_of, spelled_out, text_of
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
| `prompt_length`, `n_tools` | beside `steps`: the features that messages and tools would give; by default 0 |
"""

SPENT = ("input_tokens", "cached_tokens", "written_tokens", "output_tokens", "cost", "seconds")
"""What a rollout or a step used; tokens in hold those that were cached, or written to the cache."""

_KEYS = (
    ("prompt_tokens", "input_tokens"),
    ("cached_tokens", "cache_read_input_tokens"),
    ("cache_creation_input_tokens",),
    ("completion_tokens", "output_tokens"),
    ("cost",),
)
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic does not count these as tokens in
_LETTERS = 4  # characters that make a token, where nobody counted
_ROUNDING = 1e-9  # a score that was summed up may miss the threshold by so much
_Spent = list[float | None]


@dataclass(frozen=True)
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
    signals
        Own diagnostics: keys of a turn, or functions of the conversation so far as `module:name`.
    action
        How a text-only agent writes its actions, as a regular expression.
    model
        Whose rollouts are read, in a log of several models.
    """

    threshold: float = 1.0
    longest: int = LONGEST_MESSAGE
    diagnose: bool = True
    words: bool = False
    price: Price | None = None
    signals: tuple[str, ...] = ()
    action: str | None = None
    model: str | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """The expression for actions, compiled."""
        return pattern_of(self.action)


class Row(NamedTuple):
    """What is kept of a rollout: a few dozen numbers, and its words as numbers where a reader is to be learned.

    `flags` has one byte a step; `carried` the score and what the rollout used, `steps` what each step used, `signals`
    the uncertainty (where every step has one) and own signals, each by name. `acted` says whether a call or an action
    was found, `estimated` whether tokens were taken from the letters, `prompt` knows the first user's message again.
    """

    task: str
    trial: str | None
    model: str | None
    success: bool
    flags: bytes
    prompt_length: int
    n_tools: int | None
    features: Mapping[str, float] | None
    carried: Mapping[str, float]
    signals: Mapping[str, list[float]]
    steps: Mapping[str, list[float]]
    acted: bool
    estimated: bool
    prompt: bytes
    words: bytes | None


def row_of(rollout: Rollout, reading: Reading) -> Row:
    r"""Check a rollout and return what is kept of it; an `InvalidDataError` has the task, the field and the value.

    Examples
    --------
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    >>> row = row_of({"task": "a", "score": 0.5, "messages": messages}, Reading(threshold=0.5))
    >>> row.success, row.flags, row.carried
    (True, b'\x00', {'score': 0.5})
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
    if not recorded and (not isinstance(messages, list) or not messages):
        raise InvalidDataError("a list of at least one message", field="messages", value=messages)
    trial, model = (None if rollout.get(name) is None else _name(rollout, name) for name in ("trial", "model"))
    tools = _tools(rollout.get("tools"))
    extractor = StepExtractor(tools, longest=reading.longest, diagnose=reading.diagnose)
    n_tools, signals = None if tools is None else len(tools), dict[str, list[float]]()
    if recorded:
        signals = _take_steps(extractor, rollout["steps"], reading.signals if reading.diagnose else ())
        extractor.prompt_length = validate.whole("prompt_length", rollout.get("prompt_length", 0), 0)
        n_tools = validate.whole("n_tools", rollout.get("n_tools", 0), 0)
    else:
        messages = spelled_out(messages, reading.pattern)
        extractor.extend(messages)
        if reading.diagnose:
            signals = {name.rpartition(":")[2]: signal_of(name, messages) for name in reading.signals}
    if not extractor.flags:
        raise InvalidDataError("at least one turn of the assistant", field="messages", value=len(messages))
    nll = [extractor.nll.get(step, 0.0 if flag & IDLE else None) for step, flag in enumerate(extractor.flags)]
    if extractor.nll and None not in nll:
        signals[UNCERTAINTY] = nll  # type: ignore[assignment]
    whole, by_step, estimated = _usage(rollout, extractor, messages, reading.price)
    carried = {name: value for name, value in zip(("score", *SPENT), (score, *whole), strict=True) if value is not None}
    first = next((message for message in messages or () if message.get("role") == "user"), None)
    said = b"" if first is None else text_of(first.get("content")).encode("utf-8", "replace")
    return Row(
        task,
        trial,
        model,
        success,
        bytes(extractor.flags),
        extractor.prompt_length,
        n_tools,
        _features(rollout.get("features")),
        carried,
        signals,
        by_step,
        recorded or extractor.acted,
        estimated,
        blake2b(said, digest_size=8).digest() if said else b"",
        _script(messages, extractor.flags, reading).to_bytes() if reading.words and not recorded else None,
    )


def _script(messages: Sequence[Message], flags: bytes | bytearray, reading: Reading) -> Script:
    """Hash the words of a rollout of Cheap; of one of Strong's the prompt alone, all that it shares with Cheap's."""
    if reading.diagnose:
        return Script.of(messages, flags)
    return Script.of(takewhile(lambda message: message["role"] != "assistant", messages), b"")


def signal_of(name: str, messages: Sequence[Message]) -> list[float]:
    """Return an own signal of each step: a key of its turn, or what a function says of the conversation up to its end.

    Examples
    --------
    >>> signal_of("doubt", [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hm", "doubt": 0.5}])
    [0.5]
    """
    turns = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    if ":" in name:
        function = validate.imported("--signal", name)
        values = [(end - 1, function(messages[:end])) for end in (*turns[1:], len(messages))] if turns else []
    else:
        values = [(at, messages[at].get(name)) for at in turns]
    field = name.rpartition(":")[2]
    return [_signal(value, field, f"message {at}") for at, value in values]


def _signal(value: object, field: str, where: str) -> float:
    """Return a number for a diagnostic; where it is none, say so."""
    try:
        number = float(value) if isinstance(value, int | float | np.number) else math.nan
    except OverflowError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise InvalidDataError("a finite number >= 0 in each turn", field=field, value=value, where=where)
    return number


def _usage(
    rollout: Rollout, extractor: StepExtractor, messages: Sequence[Message] | None, price: Price | None
) -> tuple[_Spent, dict[str, list[float]], bool]:
    """Return what a rollout used in all and by step, and whether that was estimated."""
    n, whole = extractor.n_steps, _spent(rollout, "")
    columns: list[list[float] | None] = [None] * len(SPENT)
    if extractor.spent:
        each = [_spent(extractor.spent.get(step) or {}, f" of turn {step}") for step in range(n)]
        columns = [None if None in values else [*values] for values in zip(*each, strict=True)]
    estimated = price is not None and messages is not None and columns[0] is None and whole[0] is None
    if estimated and messages is not None:
        columns[:4] = _letters_by_step(messages)
    if price is not None and columns[0] is not None and columns[3] is not None:
        known = [np.array(column or [0.0] * n) for column in columns[:4]]
        columns[4] = price.tokens(known[0], known[3], known[1], known[2]).tolist()
        whole[4] = None
    elif price is not None and whole[0] is not None and whole[3] is not None:
        whole[4] = float(price.tokens(whole[0], whole[3], whole[1] or 0.0, whole[2] or 0.0, n))
    # What the rollout does not say is the sum over its steps; a cost by prices always is.
    for at, column in enumerate(columns):
        if whole[at] is None and column is not None:
            whole[at] = math.fsum(column)
    by_step = {f"step_{name}": column for name, column in zip(SPENT, columns, strict=True) if column is not None}
    return whole, by_step, estimated


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
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise InvalidDataError("a text or a whole number", field=field, value=value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidDataError("a text that UTF-8 can write", field=field, value=value) from None
    return value


def _outcome(rollout: Rollout, threshold: float) -> tuple[bool, float | None]:
    success, score = rollout.get("success"), rollout.get("score")
    if score is not None:
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise InvalidDataError("a finite number", field="score", value=score)
        score = float(score)
    if success is None:
        if score is None:
            expected = (
                "true or false, or a score; where the log has neither, --cheap-results and --strong-results take "
                "them from a table or SWE-bench's report"
            )
            raise InvalidDataError(expected, field="success", value=None)
        return score >= threshold - _ROUNDING, score
    if not isinstance(success, bool) and success not in (0, 1):
        raise InvalidDataError("true or false, or 1 or 0", field="success", value=success)
    return bool(success), score


def _tools(tools: object) -> list[str] | None:
    """Return the names of tools, which may be definitions."""
    if tools is None:
        return None
    expected = "a list of names, or of definitions such as {'type': 'function', 'function': {'name': ...}}"
    names = []
    for tool in tools if isinstance(tools, list) else (tools,):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {"name": tool}
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name or not isinstance(tools, list):
            raise InvalidDataError(expected, field="tools", value=tool)
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


def _spent(source: Message, where: str) -> _Spent:
    """Return what a message or a rollout says that it used, in the order of `SPENT`."""
    usage, seconds = source.get("usage"), source.get("seconds")
    if usage is not None and not isinstance(usage, Mapping):
        raise InvalidDataError("an object such as {'prompt_tokens': 10}", field=f"usage{where}", value=usage)
    usage = usage or {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    said = {**(details if isinstance(details, Mapping) else {}), **usage}
    if source.get("cost") is not None:
        said["cost"] = source["cost"]
    found = [next((said[name] for name in names if said.get(name) is not None), None) for names in _KEYS]
    for name, value in zip(SPENT, [*found, seconds], strict=True):
        if isinstance(value, bool) or not (value is None or (isinstance(value, int | float) and 0 <= value < math.inf)):
            field = f"{name.replace('_', ' ')}{where}"
            raise InvalidDataError("a finite number >= 0", field=field, value=value)
    if found[0] is not None:
        found[0] += sum(usage.get(name) or 0 for name in _BESIDE)
    return [None if value is None else float(value) for value in (*found, seconds)]


def _take_steps(extractor: StepExtractor, steps: object, own: Sequence[str]) -> dict[str, list[float]]:
    """Give an extractor steps whose diagnostics were computed when they were taken; return the own signals in them."""
    if not isinstance(steps, list) or not steps:
        raise InvalidDataError("a list of at least one step", field="steps", value=steps)
    signals: dict[str, list[float]] = {name: [] for name in own}
    for number, step in enumerate(steps):
        where = f"step {number}"
        values = step.get("diagnostics") if isinstance(step, Mapping) else None
        if not isinstance(values, Mapping):
            raise InvalidDataError("an object with diagnostics by name", field="step", value=step, where=where)
        flags = 0
        for name, value in values.items():
            field = f"diagnostics[{name!r}]"
            if name in FLAGS:
                if value not in (0, 1):
                    raise InvalidDataError("0 or 1", field=field, value=value, where=where)
                flags |= int(value) << FLAGS.index(name)
            elif name == UNCERTAINTY and value is not None:
                extractor.nll[number] = _signal(value, field, where)
            elif name not in (*own, UNCERTAINTY):
                expected = f"one of {', '.join((*FLAGS, UNCERTAINTY))}, or of your own with --signal {name}"
                raise InvalidDataError(expected, field="diagnostic", value=name, where=where)
        for name, column in signals.items():
            column.append(_signal(values.get(name), f"diagnostics[{name!r}]", where))
        extractor.flags.append(flags)
        if any(step.get(name) is not None for name in ("usage", "cost", "seconds")):
            extractor.spent[number] = step
    return signals
