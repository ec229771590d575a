"""A conversation as it is read: its turns, what they are known by, their signs, and what readers say of its words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import LONGEST_MESSAGE, StepExtractor
from bayes_tacit.logs.messages import Message, spelled_out
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES, Read, Reader, texts_of

MARK = 8
"""Bytes of a mark: enough to tell the turns of one session apart."""

SHORT_ID = 9
"""Letters below which the id of a call may be one that a server counts anew, such as call_0."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def turn_marks(messages: Sequence[Message], times: Counter[str] | None = None) -> list[tuple[str, bytes]]:
    """Return, of each turn of the assistant, the mark of what it says, and one by which the turn is known again.

    The second is the same in whatever conversation the turn stands. Of turns that say the same, each has its own;
    `times` counts them over several calls.

    Examples
    --------
    >>> first = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    >>> one, other = turn_marks([*first, *first]), turn_marks([{"role": "user", "content": "Summary."}, first[1]])
    >>> one[0] == other[0], len(set(one))
    (True, 2)
    """
    times = Counter() if times is None else times
    found = []
    for message in messages:
        if message.get("role") == "assistant":
            said = reply_mark(message)
            times[said] += 1
            mark, often = bytes.fromhex(said), times[said]
            found.append((said, mark if often == 1 else blake2b(mark + b"%d" % often, digest_size=MARK).digest()))
    return found


def conversation_marks(messages: Sequence[Message]) -> tuple[str, str]:
    """Return marks of what stands before the last turn of the assistant, and of the whole conversation.

    Marks are of what was said and called. What moves from request to request without changing the conversation, such as
    a mark where a prompt is to be cached, does not count.

    Examples
    --------
    >>> first = [{"role": "user", "content": "Hi"}]
    >>> later = [*first, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}]
    >>> conversation_marks(first)[1] == conversation_marks(later)[0]
    True
    """
    running, before = blake2b(digest_size=MARK), ""
    for message in messages:
        if message.get("role") == "assistant":
            before = running.hexdigest()
        running.update(_said(message))
    return before, running.hexdigest()


def root_of(messages: Sequence[Message]) -> str:
    """Return what a task is known by where nobody named it: its system prompts and its first message of the user."""
    running = blake2b(digest_size=12)
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer", "user"):
            running.update(_said(message))
        if role not in ("system", "developer"):
            break
    return running.hexdigest()


def reply_mark(message: Message) -> str:
    """Return what an answer of the assistant is known by when it comes back in a later request.

    Clients may trim its text and write a call's arguments anew; the ids of calls stay. An id that is so short that it
    may come again goes with what it calls.
    """
    running = blake2b(digest_size=MARK)
    calls = message.get("tool_calls")
    named = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    for call in named:
        identity = call.get("id")
        running.update(_bytes(identity))
        if not isinstance(identity, str) or len(identity) < SHORT_ID:
            running.update(_bytes(_canonical(call.get("function"))))
    if not named:
        running.update(_bytes("".join(_texts(message.get("content"))).strip()))
    return running.hexdigest()


def _canonical(function: object) -> str:
    if not isinstance(function, Mapping):
        return _encode(function)
    arguments = function.get("arguments")
    with suppress(ValueError, RecursionError):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return _encode([function.get("name"), arguments])


def _said(message: Message) -> bytes:
    """Return what a message says and calls as bytes, such that different ones differ."""
    content = message.get("content")
    if content.__class__ is not str:
        content = "" if content is None else "".join(_texts(content))
    text = f"\x00{message.get('role')}\x00{content}"
    calls, answered = message.get("tool_calls"), message.get("tool_call_id")
    if calls:
        text += "".join(map(_called, calls)) if isinstance(calls, list) else _encode(calls)
    return _bytes(text if answered is None else f"{text}\x01{answered}")


def _called(call: object) -> str:
    if not isinstance(call, Mapping):
        return _encode(call)
    function = call.get("function")
    if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
        return f"\x02{call.get('id')}\x02{function.get('name')}\x02{function['arguments']}"
    return f"\x02{call.get('id')}\x02{_encode(function)}"


def _texts(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list) else (content,):
        if isinstance(part, Mapping) and isinstance(content, list):
            text = part.get("text")
            shown = {key: value for key, value in part.items() if key not in ("cache_control", "native")}
            yield text if isinstance(text, str) else _encode(shown)
        else:
            yield part if isinstance(part, str) else _encode(part)


def _bytes(text: object) -> bytes:
    return str(text).encode("utf-8", "surrogatepass")


def names_of(tools: object) -> list[str] | None:
    """Name the tools of a request; None where it offers none, so that no call is of an unknown tool.

    Examples
    --------
    >>> names_of([{"type": "function", "function": {"name": "sql"}}, "look", {"type": "web_search"}])
    ['sql', 'look']
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        return None
    names = []
    for tool in tools:
        inner = tool.get("function") or tool.get("custom") or tool if isinstance(tool, Mapping) else {"name": tool}
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if isinstance(name, str) and name:
            names.append(name)
    return names or None


Readers = Mapping[str, Reader]
"""Readers of words, by what their router is known by here (`Checkpoints.key`)."""

NO_READERS: Readers = MappingProxyType({})

Said = dict[str, list[list[float]]]
"""By reader, the features of the task, then the diagnostics of each turn, in the order of their names."""


class Words:
    """Reads the words of a conversation for some readers; of what was said only the latest turn is held, in memory."""

    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self._prompt: list[Message] = []
        self._turns: list[list[Message]] = []
        self._reads: dict[str, Read] = {}
        self._rows: Said = {}
        self._began = False

    def extend(self, messages: Sequence[Message]) -> None:
        """Take messages that have come since."""
        for message in messages if self.readers else ():
            if message.get("role") == "assistant":
                self._turns.append([message])
            else:
                (self._turns[-1] if self._turns else self._prompt).append(message)

    def said(self, flags: bytes | bytearray) -> Said:
        """Return what the readers say of the conversation so far, given the signs of all of its turns."""
        if not self.readers:
            return {}
        if not self._began:
            prompt = _spoken(self._prompt)[0]
            for key, reader in self.readers.items():
                read = self._reads[key] = reader.start(prompt)
                self._rows[key] = [[read.features()[name] for name in FEATURES]]
            if self._turns:
                self._began = True
                self._prompt.clear()
        found = {}
        first = len(flags) - len(self._turns)
        for key, reader in self.readers.items():
            rows, read = self._rows[key], self._reads[key]
            for place, turn in enumerate(self._turns):
                said, answered = _spoken(turn)[1][0]
                before, read = read, reader.read(read, said, answered, flags[first + place])
                row = [read.diagnostics()[name] for name in DIAGNOSTICS]
                if place == len(self._turns) - 1:
                    # It may have more answers; what was read before it stays.
                    self._reads[key], found[key] = before, [*rows, row]
                else:
                    rows.append(row)
            found.setdefault(key, list(rows))
        del self._turns[:-1]
        return found


def _spoken(messages: Sequence[Message]) -> tuple[str, list[tuple[str, str]]]:
    """Return the texts of messages; what cannot be read says nothing."""
    try:
        return texts_of(messages)
    except (InvalidDataError, AttributeError, TypeError):
        return "", [("", "")]


class RequestView(NamedTuple):
    """What a request shows.

    `root` is what the task is known by where nobody named it, `features` are those that every conversation has, `marks`
    those of `turn_marks`. `flags` and `nll` are the diagnostics of each turn, one byte each, and mean negative
    log-likelihoods where messages have them. `skipped` counts messages that could not be read, `tools` says whether
    some are offered, `words` what readers say.
    """

    root: str | None
    features: dict[str, float]
    marks: list[tuple[str, bytes]]
    flags: bytes
    nll: dict[int, float]
    skipped: int
    tools: bool
    words: Said


class Reading:
    """A conversation as it is read: its turns and their diagnostics, and what a request adds to it.

    Parameters
    ----------
    tools
        Names of the tools that are offered.
    longest
        Most characters of one message that are read.
    readers
        Readers of its words.

    Examples
    --------
    Each turn of the assistant is a step whatever is in it, so that turns and steps go together.

    >>> reading = Reading(None)
    >>> reading.extend([{"role": "robot", "content": "Hi"}, {"role": "assistant", "tool_calls": [1]}])
    >>> len(reading.seen().flags), reading.seen().skipped
    (1, 2)
    """

    def __init__(self, tools: list[str] | None, longest: int = LONGEST_MESSAGE, readers: Readers = NO_READERS) -> None:
        self.words = Words(readers)
        self._extractor = StepExtractor(tools, longest=longest)
        self._marks: list[tuple[str, bytes]] = []
        self._times: Counter[str] = Counter()
        self._root: str | None = None
        self._skipped = 0

    def seen(self) -> RequestView:
        """Return what was read so far."""
        read = self._extractor
        about = (self._root, read.features(), list(self._marks), bytes(read.flags), dict(read.nll))
        return RequestView(*about, self._skipped, read.tools is not None, self.words.said(read.flags))

    def extend(self, messages: Sequence[Message]) -> None:
        """Read messages that have come since."""
        if self._root is None:
            self._root = root_of(messages)
        self._marks += turn_marks(messages, self._times)
        plain = spelled_out(messages)
        self.words.extend(plain)
        known = self._extractor.n_messages
        try:
            self._extractor.extend(plain)
        except InvalidDataError:
            # Those before it were read; it and those after it are read one by one.
            for message in plain[self._extractor.n_messages - known - 1 :]:
                self._read_one(message)

    def _read_one(self, message: Message) -> None:
        try:
            self._extractor.extend((_with_functions(message),))
        except InvalidDataError:
            self._skipped += 1
            if message.get("role") == "assistant":
                self._extractor.extend(({"role": "assistant", "content": "?"},))


def is_begun(messages: Sequence[Message]) -> bool:
    """Return whether the client began the model's next answer, which is no turn yet."""
    return bool(messages) and messages[-1].get("role") == "assistant" and not messages[-1].get("tool_calls")


def read_conversation(
    messages: Sequence[Message], tools: object, longest: int = LONGEST_MESSAGE, readers: Readers = NO_READERS
) -> RequestView:
    """Read a whole conversation."""
    reading = Reading(names_of(tools), longest, readers)
    reading.extend(messages[:-1] if is_begun(messages) else messages)
    return reading.seen()


def _with_functions(message: Message) -> Message:
    """Return a message whose calls of `type: custom`, with a text for input, are calls of functions."""
    calls = message.get("tool_calls")
    plain: list[Any] = []
    for call in calls if isinstance(calls, list) else ():
        custom = call.get("custom") if isinstance(call, Mapping) else None
        if isinstance(custom, Mapping):
            arguments = json.dumps({"input": custom.get("input")})
            call = {"id": call.get("id"), "function": {"name": custom.get("name"), "arguments": arguments}}
        plain.append(call)
    return {**message, "tool_calls": plain} if isinstance(calls, list) else message
