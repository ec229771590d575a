"""What is kept of a session between two requests: little, and nothing of what was said but marks to know it by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.messages import Message

MARK = 8
"""Bytes of a mark: enough to tell the beginnings of one session apart."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def marks_of(messages: Sequence[Message]) -> tuple[bytes, ...]:
    """Give the marks of a conversation: one of all that stands before each turn of the assistant, and one of all of it.

    Marks are of what was said and called. What moves from request to request without changing the conversation, such as
    a mark where a prompt is to be cached, does not count.

    Examples
    --------
    >>> first = [{"role": "user", "content": "Hi"}]
    >>> later = [*first, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}]
    >>> marks_of(first)[0] == marks_of(later)[0], len(marks_of(later))
    (True, 2)
    """
    running, marks = blake2b(digest_size=MARK), []
    for message in messages:
        if message.get("role") == "assistant":
            marks.append(running.digest())
        running.update(_said(message))
    return (*marks, running.digest())


def root_of(messages: Sequence[Message]) -> str:
    """Give what a task is known by where nobody named it: its system prompts and its first message of the user.

    Examples
    --------
    >>> ask = {"role": "user", "content": "Fix it."}
    >>> root_of([ask]) == root_of([ask, {"role": "assistant", "content": "Done."}])
    True
    """
    running = blake2b(digest_size=12)
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer", "user"):
            running.update(_said(message))
        if role not in ("system", "developer"):
            break
    return running.hexdigest()


def reply_mark(message: Message) -> str:
    """Give what an answer of the assistant is known by when it comes back in the next request.

    Clients may trim its text and write a call's arguments anew; the ids of calls stay.
    """
    running = blake2b(digest_size=MARK)
    calls = message.get("tool_calls")
    named = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    for call in named:
        running.update(_bytes(call.get("id") or _encode(call.get("function"))))
    if not named:
        running.update(_bytes("".join(_texts(message.get("content"))).strip()))
    return running.hexdigest()


def _said(message: Message) -> bytes:
    """Give what a message says and calls as bytes, such that different ones differ."""
    content = message.get("content")
    if content.__class__ is not str:
        content = "" if content is None else "".join(_texts(content))
    text = f"\x00{message.get('role')}\x00{content}"
    calls, answered = message.get("tool_calls"), message.get("tool_call_id")
    if calls:
        text += "".join(map(_called, calls)) if isinstance(calls, list) else _encode(calls)
    if answered is not None:
        text += f"\x01{answered}"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _called(call: object) -> str:
    if not isinstance(call, Mapping):
        return _encode(call)
    function = call.get("function")
    if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
        return f"\x02{call.get('id')}\x02{function.get('name')}\x02{function['arguments']}"
    return f"\x02{call.get('id')}\x02{_encode(function)}"


def _texts(content: object) -> Iterator[str]:
    if not isinstance(content, list):
        yield content if isinstance(content, str) else _encode(content)
        return
    for part in content:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
        elif isinstance(part, Mapping):
            yield _encode({key: value for key, value in part.items() if key != "cache_control"})
        else:
            yield _encode(part)


def _bytes(text: Any) -> bytes:  # noqa: ANN401  what should be a text
    return str(text).encode("utf-8", "surrogatepass")


Side = Literal["cheap", "strong"]
"""Who makes a turn."""

VERSION = 1


@dataclass
class Kept:
    """All that is remembered of a session; plain values, which `to_json` writes and `from_json` reads.

    Clients send the conversation again each time, so that diagnostics can be computed anew. Kept is what the
    conversation may not show: the latch, the steps that a client has compacted away, log-likelihoods, who made a turn.

    Attributes
    ----------
    flags
        One byte a step with the bits of `bayes_tacit.logs.extractor.FLAGS`; its length is the number of steps, which
        never falls.
    nll
        By step, the sum of negative log-likelihoods of its tokens and how many tokens have one.
    by_strong
        The steps that Strong made.
    offset
        The step of the first turn in the conversation as it is sent now; above 0 once a client has compacted it.
    marks
        Marks of the last request, see `bayes_tacit.gateway.kept`.
    reply
        The mark of what was answered last.
    features
        The task's features, as far as they are known.
    handoff_step
        The latch: the checkpoint at which it was handed off, -1 for before the first step, None for not at all.
    restarted
        The mark of the conversation at a handoff that restarts the task; None for one that resumes.
    shadow_step
        The same for the router in shadow, which hands off nothing.
    prompts
        By side, the tokens of the last prompt it was sent: what its cache may hold.
    calls
        By side, how many turns it made.
    cost, strong_cost
        What was spent, and what the same turns would have cost with Strong alone.
    outcome
        What was posted back of it.
    task
        The task's name, if it was given one.
    root
        What the task is known by else: a digest of how its conversation begins.
    live
        What can be made again from the rest: states of routers that have seen all steps. Never written.

    Examples
    --------
    >>> kept = Kept(flags=bytearray([0, 4]), handoff_step=1)
    >>> again = Kept.from_json(kept.to_json())
    >>> again == kept, again.n_steps, again.latched
    (True, 2, True)
    """

    flags: bytearray = field(default_factory=bytearray)
    nll: dict[int, tuple[float, int]] = field(default_factory=dict)
    by_strong: set[int] = field(default_factory=set)
    offset: int = 0
    marks: tuple[bytes, ...] = ()
    reply: str | None = None
    features: dict[str, float] = field(default_factory=dict)
    handoff_step: int | None = None
    restarted: bytes | None = None
    shadow_step: int | None = None
    prompts: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    strong_cost: float = 0.0
    outcome: dict[str, Any] | None = None
    task: str | None = None
    root: str | None = None
    live: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def n_steps(self) -> int:
        """How many turns the assistant has made: the high-water mark."""
        return len(self.flags)

    @property
    def latched(self) -> bool:
        """Whether the session was handed off; never false again."""
        return self.handoff_step is not None

    def to_json(self) -> str:
        """Give all of it as one line of JSON."""
        return json.dumps(
            {
                "version": VERSION,
                "flags": self.flags.hex(),
                "nll": [[step, *sums] for step, sums in self.nll.items()],
                "by_strong": sorted(self.by_strong),
                "offset": self.offset,
                "marks": b"".join(self.marks).hex(),
                "reply": self.reply,
                "features": self.features,
                "handoff_step": self.handoff_step,
                "restarted": None if self.restarted is None else self.restarted.hex(),
                "shadow_step": self.shadow_step,
                "prompts": self.prompts,
                "calls": self.calls,
                "cost": self.cost,
                "strong_cost": self.strong_cost,
                "outcome": self.outcome,
                "task": self.task,
                "root": self.root,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """Read what `to_json` gave."""
        try:
            content = json.loads(text)
            if content.pop("version") != VERSION:
                raise ValueError
            marks = bytes.fromhex(content.pop("marks"))
            restarted = content.pop("restarted")
            return cls(
                flags=bytearray.fromhex(content.pop("flags")),
                nll={step: (total, count) for step, total, count in content.pop("nll")},
                by_strong=set(content.pop("by_strong")),
                marks=tuple(marks[start : start + MARK] for start in range(0, len(marks), MARK)),
                restarted=None if restarted is None else bytes.fromhex(restarted),
                **content,
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            expected = f"a session of version {VERSION}, as `Kept.to_json` writes it"
            raise InvalidDataError(expected, field="session", value=text) from None
