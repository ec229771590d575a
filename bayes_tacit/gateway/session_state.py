"""What is kept of a session between two requests: little, and nothing of what was said but marks to know it by."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.messages import Message

MARK = 8
"""Bytes of a mark: enough to tell the turns of one session apart."""

SHORT_ID = 9
"""Letters below which the id of a call may be one that a server counts anew, such as call_0."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


class TurnMarks:
    """Of each turn of the assistant, the mark of what it says, and one by which the turn is known again.

    The second is the same in whatever conversation the turn stands. Of turns that say the same, each has its own.

    Attributes
    ----------
    found
        Both, by turn.

    Examples
    --------
    >>> first = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    >>> one, other = TurnMarks(), TurnMarks()
    >>> one.extend([*first, *first])
    >>> other.extend([{"role": "user", "content": "Summary: none."}, first[1]])
    >>> one.found[0] == other.found[0], len(set(one.found))
    (True, 2)
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes]] = []
        self._times: Counter[str] = Counter()

    def extend(self, messages: Sequence[Message]) -> None:
        """Take messages that have come since."""
        for message in messages:
            if message.get("role") == "assistant":
                said = reply_mark(message)
                self._times[said] += 1
                mark, times = bytes.fromhex(said), self._times[said]
                again = mark if times == 1 else blake2b(mark + str(times).encode(), digest_size=MARK).digest()
                self.found.append((said, again))


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
    """Return what a task is known by where nobody named it: its system prompts and its first message of the user.

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
    if answered is not None:
        text += f"\x01{answered}"
    return _bytes(text)


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
            yield _encode({key: value for key, value in part.items() if key not in ("cache_control", "native")})
        else:
            yield _encode(part)


def _bytes(text: Any) -> bytes:  # noqa: ANN401  what should be a text
    return str(text).encode("utf-8", "surrogatepass")


Side = Literal["cheap", "strong"]
"""Who makes a turn."""

VERSION = 1
MOST_REPLIES = 8
"""Replies that may be waiting to be seen as turns; side calls, such as that for a title, never are."""


@dataclass
class SessionState:
    """All that is remembered of a session; plain values, which `to_json` writes and `from_json` reads.

    Clients send the conversation again each time, so that diagnostics can be computed anew. The state is what the
    conversation may not show: the latch, the steps that a client has compacted away, log-likelihoods, who made a turn.

    Attributes
    ----------
    flags
        One byte a step with the bits of `bayes_tacit.logs.extractor.FLAGS`; its length is the number of steps, which
        never falls.
    turns
        The mark of each step's turn, see `TurnMarks`: whatever conversation shows it, it is one step.
    made_by
        By step, the number of the call that made it; None where nobody knows.
    nll
        By step, the sum of negative log-likelihoods of its tokens and how many tokens have one.
    by_strong
        The steps that Strong made.
    replies
        Calls whose turn was not seen yet, by the mark of the reply ("" while there is none): number, side, nll.
    features
        The task's features, as far as they are known.
    settled
        Whether features and root are those of a conversation that went on; a first request may be a side call.
    handoff_step
        The latch: the checkpoint at which it was handed off, -1 for before the first step, None for not at all.
    restarted
        How many steps there were at a handoff that restarts the task; None for one that resumes.
    shadow_step
        The same as `handoff_step` for the router in shadow, which hands off nothing.
    arm
        Which of the ways to serve was drawn for it: "router", "canary", "cheap" or "strong".
    asked
        How many requests were decided: the number of the last call.
    prompts
        By side, the tokens of the last prompt it was sent: what its cache may hold.
    calls
        By side, how many calls it answered.
    cost, strong_cost
        What was spent, and what the same calls would have cost with Strong alone.
    outcome
        What was posted back of it.
    task
        The task's name, if it was given one.
    root
        What the task is known by else: a digest of how its conversation begins.
    said
        Of an answer that a client may name in place of the conversation (`previous_response_id`), and of nothing else:
        `items`, those that were new in it, and `before`, the answer that it went on from.
    words
        By reader (`Checkpoints.key`), what it says of the task and of each step.
    live
        What can be made again from the rest: states of routers that have seen all steps. Never written.

    Examples
    --------
    >>> kept = SessionState(flags=bytearray([0, 4]), handoff_step=1)
    >>> again = SessionState.from_json(kept.to_json())
    >>> again == kept, again.n_steps, again.latched
    (True, 2, True)
    """

    flags: bytearray = field(default_factory=bytearray)
    turns: list[bytes] = field(default_factory=list)
    made_by: dict[int, int] = field(default_factory=dict)
    nll: dict[int, tuple[float, int]] = field(default_factory=dict)
    by_strong: set[int] = field(default_factory=set)
    replies: dict[str, tuple[int, Side, float, int]] = field(default_factory=dict)
    features: dict[str, float] = field(default_factory=dict)
    settled: bool = False
    handoff_step: int | None = None
    restarted: int | None = None
    shadow_step: int | None = None
    arm: str = "router"
    asked: int = 0
    prompts: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    strong_cost: float = 0.0
    outcome: dict[str, Any] | None = None
    task: str | None = None
    root: str | None = None
    said: dict[str, Any] | None = None
    words: dict[str, dict[str, list[float]]] = field(default_factory=dict)
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
        """Return all of it as one line of JSON."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        steps = {
            "flags": self.flags.hex(),
            "turns": b"".join(self.turns).hex(),
            "made_by": list(self.made_by.items()),
            "nll": [[step, *sums] for step, sums in self.nll.items()],
            "by_strong": sorted(self.by_strong),
        }
        return json.dumps({"version": VERSION, **steps, **plain}, separators=(",", ":"), check_circular=False)

    @classmethod
    def from_json(cls, text: str) -> SessionState:
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            if content.pop("version") != VERSION:
                raise ValueError
            marks = bytes.fromhex(content.pop("turns"))
            return cls(
                flags=bytearray.fromhex(content.pop("flags")),
                turns=[marks[start : start + MARK] for start in range(0, len(marks), MARK)],
                made_by=dict(content.pop("made_by")),
                nll={step: (total, count) for step, total, count in content.pop("nll")},
                by_strong=set(content.pop("by_strong")),
                replies={mark: tuple(call) for mark, call in content.pop("replies").items()},
                **content,
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            expected = f"a session of version {VERSION}, as `SessionState.to_json` writes it"
            raise InvalidDataError(expected, field="session", value=text) from None


_PLAIN = (
    *("replies", "features", "settled", "handoff_step", "restarted", "shadow_step", "arm", "asked", "prompts", "calls"),
    *("cost", "strong_cost", "outcome", "task", "root", "said", "words"),
)
