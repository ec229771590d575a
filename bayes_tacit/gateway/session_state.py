"""What is kept of a session between two requests: little, and nothing of what was said but marks to know it by."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from bayes_tacit.data.costs import MILLION, Price
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.conversation import MARK
from bayes_tacit.router import Decision

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
        The mark of each step's turn: whatever conversation shows it, it is one step.
    made_by
        By step, the number of the call that made it; None where nobody knows.
    nll
        By step, the sum of negative log-likelihoods of its tokens and how many tokens have one.
    by_strong
        The steps that Strong made.
    replies
        Calls whose turn was not seen yet, by the mark of the reply ("" while there is none): number, side, nll.
    features, settled
        The task's features, as far as they are known; whether they and the root are those of a conversation that went
        on, as a first request may be a side call.
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
    prompts, calls
        By side, the tokens of the last prompt it was sent, which its cache may hold; and how many calls it answered.
    cost, strong_cost
        What was spent, and what the same calls would have cost with Strong alone.
    outcome
        What was posted back of it.
    task, root
        The task's name, if it was given one; what it is known by else, a digest of how its conversation begins.
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
        own = self.__dict__
        steps = {
            "version": VERSION,
            "flags": self.flags.hex(),
            "turns": b"".join(self.turns).hex(),
            "made_by": list(self.made_by.items()),
            "nll": [[step, *sums] for step, sums in self.nll.items()],
            "by_strong": sorted(self.by_strong),
        }
        return _encode({**steps, **{name: own[name] for name in _PLAIN}})

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

    def described(self) -> dict[str, Any]:
        """Return what a client may know of it, as JSON has it."""
        names = ("latched", "handoff_step", "shadow_step", "arm", "calls", "cost", "strong_cost", "features", "outcome")
        return {"steps": self.n_steps, "task": self.task or self.root} | {name: getattr(self, name) for name in names}


_PLAIN = tuple(
    name
    for name in SessionState.__dataclass_fields__
    if name not in ("flags", "turns", "made_by", "nll", "by_strong", "live")
)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who serves a request, and why.

    Attributes
    ----------
    side
        "cheap" or "strong".
    step, call
        How many steps the session has had, the reply being the next; the number of this request in it, from 1 on.
    latched, new_handoff
        Whether the session was handed off, now or before; whether it was now.
    restart
        Whether Strong begins the task anew, so that Cheap's turns are cut from the conversation.
    why
        The reason in a few words.
    decision, shadow
        What the router and the one in shadow say; None where nothing is said yet.
    missing
        What the router looks at and the session does not have.
    fault
        What went wrong in router or extractor; the request is served all the same.
    skipped
        How many messages could not be read, and were passed over.
    seen
        The steps that this request shows for the first time, or now in full.
    by_strong
        Which of the conversation's turns Strong made, counted from 0 in this request.
    cut
        With `restart`, how many of the conversation's turns are cut.
    """

    side: Side
    step: int
    call: int
    latched: bool
    new_handoff: bool
    restart: bool
    why: str
    decision: Decision | None = None
    shadow: Decision | None = None
    missing: tuple[str, ...] = ()
    fault: str | None = None
    skipped: int = 0
    seen: tuple[int, ...] = ()
    by_strong: frozenset[int] = frozenset()
    cut: int = 0

    @property
    def handoff(self) -> str | None:
        """What Strong does after the handoff, "restart" or "resume"; None where there was none."""
        return None if not self.latched else "restart" if self.restart else "resume"


class Usage(NamedTuple):
    """The tokens of one call.

    Attributes
    ----------
    prompt, completion
        Tokens in and out.
    cached
        How many of those in were cached; None where the server does not say.
    estimated
        Whether nobody counted, and they were taken from the letters.
    """

    prompt: int
    completion: int
    cached: int | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What is kept of a reply.

    Attributes
    ----------
    mark
        What it is known by when the client sends it back; None if it could not be read.
    model, finish_reason
        As the server says them.
    usage
        Its tokens, if the server says.
    nll
        Sum of negative log-likelihoods and number of tokens that have one; None without log-probabilities.
    letters
        How long its text and the arguments of its calls are.
    error
        What the server says went wrong after it had begun to answer.
    stored
        Of OpenAI's responses, the id and the items by which a later request may go on from it.
    """

    mark: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    nll: tuple[float, int] | None = None
    letters: int = 0
    error: str | None = None
    stored: tuple[str, list[Any]] | None = None


def record(kept: SessionState, ruling: Assignment, side: Side, reply: Reply) -> None:
    """Keep who made a call, and what the request that shows its turn will not say."""
    waiting = kept.replies
    if "" in waiting and waiting[""][0] == ruling.call:
        del waiting[""]
    total, count = reply.nll or (0.0, 0)
    waiting[reply.mark or ""] = (ruling.call, side, total, count)
    while len(waiting) > MOST_REPLIES:
        del waiting[next(iter(waiting))]


@dataclass(frozen=True)
class Prices:
    """What both models cost; by default 1 and 10 a call.

    A handoff sends Strong a conversation that its cache does not hold: the first call after it pays for one whole
    prefix. Where a server does not say what was cached, it is the prompt that the same model was sent before.

    Examples
    --------
    >>> prices, kept = Prices(Price(input=1.0, cached=0.1), Price(input=10.0, cached=1.0)), SessionState()
    >>> long = Usage(prompt=1_000_000, completion=0)
    >>> [prices.charge(kept, side, long)[0] for side in ("cheap", "cheap", "strong", "strong")]
    [1.0, 0.1, 10.0, 1.0]
    >>> kept.strong_cost
    13.0
    """

    cheap: Price = Price(call=1.0)  # noqa: RUF009 - a frozen value
    strong: Price = Price(call=10.0)  # noqa: RUF009 - a frozen value

    def charge(self, kept: SessionState, side: Side, usage: Usage | None) -> tuple[float, float]:
        """Add a call to what the session has cost; return its cost, and what it would have cost with Strong alone."""
        assumed = kept.prompts.get(side, 0) if usage is None or usage.cached is None else usage.cached
        cost = _cost(self.strong if side == "strong" else self.cheap, usage, assumed)
        # Strong alone would have had all that was sent before in its cache, whoever it was sent to.
        alone = _cost(self.strong, usage, max(kept.prompts.values(), default=0))
        if usage is not None:
            kept.prompts[side] = usage.prompt
        kept.cost += cost
        kept.strong_cost += alone
        kept.calls[side] = kept.calls.get(side, 0) + 1
        return cost, alone


def _cost(price: Price, usage: Usage | None, cached: int) -> float:
    """Return the cost of a call, as `Price.tokens` has it; without tokens, that of the call alone."""
    if usage is None:
        return price.call
    known = min(cached, usage.prompt)
    total = (usage.prompt - known) * price.input + known * price.cached + usage.completion * price.output
    return price.call + total / MILLION
