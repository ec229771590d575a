"""Many sessions at once: which one a request belongs to, decided, recorded. What a server or an adapter calls."""

from __future__ import annotations

import json
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random, SystemRandom
from threading import Lock, RLock
from typing import Any, NamedTuple, TypeVar

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.conversation import RequestView, conversation_marks, reply_mark, root_of
from bayes_tacit.gateway.engine import Engine
from bayes_tacit.gateway.session_state import Assignment, Prices, Reply, SessionState, Side, record
from bayes_tacit.gateway.store import MemoryStore, SessionLog, Store, StoreDownError
from bayes_tacit.logs.messages import Message
from bayes_tacit.router import Decision

HEADERS = (
    *("x-tacit-session-id", "x-session-id", "x-litellm-session-id", "helicone-session-id", "x-bf-session-id"),
    *("x-switchyard-session-id", "x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"),
    "x-dynamo-session-id",
)
"""Headers that name the session, the first that is there counts. `x-session-id` is meant for our own clients."""

FIELDS = (("session_id",), ("litellm_session_id",), ("metadata", "session_id"))
"""Fields of the body that name it, after the headers. `user` is a person and `prompt_cache_key` a place in a cache."""

AGENT = "x-claude-code-agent-id"
TASK = "x-tacit-task"
FEATURES = "x-tacit-features"
LONGEST_ID = 256
INFERRED = "inferred"


class Identity(NamedTuple):
    """Who asks, and for which session.

    Attributes
    ----------
    scope
        A digest of the API key: sessions of other keys are not seen.
    session, source
        The session's id, None where it has to be inferred from the conversation; and the name of the header or field in
        which it was found, else "inferred".
    """

    scope: str
    session: str | None
    source: str


def scope_of(headers: Mapping[str, str]) -> str:
    """Return the digest of the key in a request's headers; the key itself is kept nowhere.

    Examples
    --------
    >>> scope_of({"authorization": "Bearer a"}) == scope_of({"authorization": "Bearer b"})
    False
    """
    key = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, person=b"tacit scope").hexdigest()


def identify(headers: Mapping[str, str], body: Mapping[str, Any], scope: str | None = None) -> Identity:
    """Find the session that a request names.

    Headers are by name in lower case; by default the scope is that of their key. An id that is longer than 256
    characters, or has some that cannot be printed, is refused.

    Examples
    --------
    >>> identify({"x-session-id": "a"}, {"user": "me"})[1:], identify({}, {"metadata": {"session_id": "b"}})[1:]
    (('a', 'x-session-id'), ('b', 'metadata.session_id'))
    """
    scope = scope_of(headers) if scope is None else scope
    for name in HEADERS:
        given = headers.get(name, "").strip()
        if given:
            agent = headers.get(AGENT, "").strip()
            whole = checked_id(given, name) + (f"#{checked_id(agent, AGENT)}" if agent else "")
            return Identity(scope, whole, name)
    for path in FIELDS:
        value: Any = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value.strip():
            return Identity(scope, checked_id(value.strip(), ".".join(path)), ".".join(path))
    return Identity(scope, None, INFERRED)


def named_in(headers: Mapping[str, str]) -> str | None:
    """Return what headers say of a session, as far as it tells sessions apart; None if they do not."""
    given = next((headers[name] for name in HEADERS if headers.get(name)), None)
    return None if given is None else f"{given}#{headers.get(AGENT, '')}"


def checked_id(text: str, field: str) -> str:
    """Return an id that can name a session."""
    if not 0 < len(text) <= LONGEST_ID or not text.isprintable():
        expected = f"at most {LONGEST_ID} characters that can be printed"
        raise InvalidDataError(expected, field=field, value=text)
    return text


def features_in(headers: Mapping[str, str]) -> dict[str, float]:
    """Read the header with features, a JSON object of numbers.

    Examples
    --------
    >>> features_in({"x-tacit-features": '{"entities": 12}'})
    {'entities': 12.0}
    """
    given = headers.get(FEATURES)
    if given is None:
        return {}
    try:
        content = json.loads(given)
        if isinstance(content, dict) and all(map(is_number, content.values())):
            return {name: float(value) for name, value in content.items()}
    except (ValueError, RecursionError, OverflowError):
        pass
    expected = 'a JSON object of finite numbers, such as {"entities": 12}'
    raise InvalidDataError(expected, field=FEATURES, value=given)


def is_number(value: object) -> bool:
    """Return whether a value of JSON is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_Line = tuple[str, Mapping[str, object]]


class Ticket(NamedTuple):
    """One request that was decided: what `Sessions.replied` needs to know of it.

    `identity` says who asked; its `session` is known now, also where it was inferred. Of one that had to be, there are
    the `marks` of its conversation. `ruling` says who serves.
    """

    identity: Identity
    ruling: Assignment
    marks: tuple[str, str] | None = None


@dataclass(frozen=True)
class Plan:
    """How sessions are drawn to be served: most by the router, some otherwise, with a probability that is logged.

    `explore` is the share of sessions that are served by Cheap to the end, or by Strong from the start, half of them
    each; `canary` the share of those that another router decides.

    Examples
    --------
    >>> Plan(explore=0.05, canary=0.1).arms
    {'router': 0.85, 'canary': 0.1, 'cheap': 0.025, 'strong': 0.025}
    """

    explore: float = 0.0
    canary: float = 0.0

    def __post_init__(self) -> None:
        """Check the shares."""
        for name in ("explore", "canary"):
            validate.number(name, getattr(self, name), "a share from 0 to 1", least=0, most=1)
        validate.number("explore and canary", self.explore + self.canary, "at most 1 together", most=1)

    @property
    def arms(self) -> dict[str, float]:
        """The probability of each way to serve a session."""
        half = self.explore / 2
        arms = {"canary": self.canary, "cheap": half, "strong": half}
        return {"router": round(1 - self.explore - self.canary, 12), **{name: p for name, p in arms.items() if p}}

    def draw(self, rng: Random) -> str:
        """Draw a way to serve one session."""
        arms = self.arms
        return rng.choices(list(arms), list(arms.values()))[0] if len(arms) > 1 else "router"


T = TypeVar("T")
TRIES = 50
"""How often a change of a session is tried that others change at the same time."""

CACHED = 4_096
"""Sessions that a process remembers beside a store, so as not to read them again."""


class Sessions:
    """Sessions in a store, decided by an engine, with a log. It may be used by several threads.

    Parameters
    ----------
    engine
        Decides. Another one may be put in its place at any time.
    store, log, prices
        Keeps sessions, in memory by default; takes decisions, replies and outcomes; says what calls cost.
    plan, rng
        Which sessions are served otherwise than by the router; draws them, by default from the system, which no client
        can foresee.

    Attributes
    ----------
    lost_lines, log_failure
        Lines that the log could not take, and why it could not take the last ones; None if it did.
    holds
        Whether lines of requests under way may be held back, for whoever calls `flush` now and then; those of handoffs
        and outcomes never are.

    Examples
    --------
    >>> from bayes_tacit.gateway import default_router
    >>> sessions = Sessions(Engine(default_router()))
    >>> messages = [{"role": "user", "content": "How many rows has t?"}]
    >>> ticket = sessions.begin(Identity("", "task-1", "mine"), messages)
    >>> ticket.ruling.side
    'cheap'
    >>> sessions.replied(ticket, "cheap", Reply())
    1.0
    >>> sessions.outcome("", "task-1", {"success": True})["calls"]
    {'cheap': 1}
    """

    def __init__(
        self,
        engine: Engine,
        store: Store | None = None,
        log: SessionLog | None = None,
        prices: Prices | None = None,
        plan: Plan | None = None,
        rng: Random | None = None,
    ) -> None:
        self.engine = engine
        self.store: Store = MemoryStore() if store is None else store
        self.log = log
        self.prices = Prices() if prices is None else prices
        self.plan = Plan() if plan is None else plan
        self.lost_lines = 0
        self.log_failure: str | None = None
        self._rng = SystemRandom() if rng is None else rng
        self._known: OrderedDict[tuple[str, str], tuple[int, SessionState]] = OrderedDict()
        self._locks = [RLock() for _ in range(64)]
        self._counting, self._under_way = Lock(), 0
        self.holds = False

    def begin(
        self,
        identity: Identity,
        messages: Sequence[Message] | RequestView,
        tools: object = None,
        features: Mapping[str, float] | None = None,
        task: str | None = None,
    ) -> Ticket:
        """Decide who serves a request; a handoff is kept before this returns.

        Parameters
        ----------
        identity
            Who asks; without a session, it is inferred from the conversation.
        messages, tools, features
            As for `Engine.consider`; where the session has to be inferred, the messages themselves.
        task
            A name for the task, by which the log pairs sessions.

        Raises
        ------
        StoreDownError
            If the session can be neither read nor written.
        """
        marks: tuple[str, str] | None = None
        if identity.session is None and not isinstance(messages, RequestView):
            marks = conversation_marks(messages)
            identity = identity._replace(session=self._inferred(identity.scope, messages, marks))
        session, engine = str(identity.session), self.engine

        def consider(kept: SessionState) -> tuple[Assignment, list[_Line]]:
            fresh, about = not kept.asked, (kept.features, kept.task or kept.root)
            if fresh:
                kept.arm = self.plan.draw(self._rng)
            if task is not None and kept.task is None:
                kept.task = task
            ruling = engine.consider(kept, messages, tools, features)
            if self.log is None:
                return ruling, []
            lines: list[_Line] = [("start", self._first(kept, identity, engine))] if fresh else []
            changed = not fresh and about != (kept.features, kept.task or kept.root)
            return ruling, [*lines, ("step", self._step(kept, ruling, engine, about=changed))]

        ruling, lines = self._change(identity.scope, session, consider)
        if marks is not None:
            self.store.offer(identity.scope, f"asked {marks[1]}", session)
        self._count(1)
        self._write(identity.scope, session, lines, hold=not ruling.new_handoff)
        return Ticket(identity, ruling, marks)

    def replied(
        self,
        ticket: Ticket,
        side: Side,
        reply: Reply | None,
        *,
        status: int = 200,
        seconds: float | None = None,
        fault: str | None = None,
    ) -> float:
        """Keep and log what came of a request; return its cost.

        Parameters
        ----------
        ticket, side
            What `begin` returned, and who did serve.
        reply
            What is kept of the reply, or of what came of it before it was cut; None if there was none.
        status, seconds, fault
            The answer's status, as HTTP has it; how long it took; what went wrong with the one who should have served.
        """
        identity, ruling, marks = ticket
        others = self._count(-1)
        cost = alone = 0.0
        if reply is not None:
            known = reply

            def charge(kept: SessionState) -> tuple[float, float]:
                record(kept, ruling, side, known)
                return self.prices.charge(kept, side, known.usage)

            cost, alone = self._change(identity.scope, str(identity.session), charge)
            if marks is not None and reply.mark is not None:
                self.store.offer(identity.scope, f"answered {marks[1]} {reply.mark}", str(identity.session))
        said = Reply() if reply is None else reply
        line = {
            "call": ruling.call,
            "side": side,
            "status": status,
            "model": said.model,
            "finish_reason": said.finish_reason,
            "usage": None if said.usage is None else said.usage._asdict(),
            "nll": said.nll,
            "cost": cost,
            "strong_cost": alone,
            "seconds": seconds,
            "fault": fault,
        }
        self._write(identity.scope, str(identity.session), [("reply", line)], hold=others > 0)
        return cost

    def left(self) -> None:
        """Take a request as over that was decided, and served by nobody here."""
        self._count(-1)
        self.flush()

    def outcome(self, scope: str, session: str, content: object) -> dict[str, Any] | None:
        """Keep and log how a session ended; return what is known of it, None if there is no such session.

        The content is an object with `success` (true or false), `score` (a number), or both, and `task` (a name) if
        wanted; or with `finished` (true) alone, which asks a policy that judges whole episodes, such as a cascade.
        """
        known = _outcome(content)
        finished = known.pop("finished", False)
        if self.store.get(scope, session) is None:
            return None

        def close(kept: SessionState) -> tuple[dict[str, Any], Assignment | None]:
            closing = self.engine.finish(kept) if finished else None
            if known:
                kept.outcome = known
                kept.task = known.get("task") or kept.task
            return kept.described(), closing

        seen, closing = self._change(scope, session, close)
        lines: list[_Line] = []
        if closing is not None:
            lines.append(("end", {"closing": _fields(closing.decision), "new_handoff": closing.new_handoff}))
        if known:
            lines.append(("outcome", {"task": None, "success": None, "score": None, **known}))
        self._write(scope, session, lines)
        return {**seen, "why": closing.why} if closing is not None else seen

    def look(self, scope: str, session: str) -> dict[str, Any] | None:
        """Return what is known of a session; None if there is no such session."""
        found = self.store.get(scope, session)
        return None if found is None else found[1].described()

    def remember(self, ticket: Ticket, asked: Mapping[str, Any], reply: Reply) -> None:
        """Keep an answer of OpenAI's responses, by which a later request may go on, unless `asked` says not to."""
        if reply.stored is None or asked.get("store") is False:
            return
        name, output = reply.stored
        said = {"items": [*items_in(asked.get("input")), *output], "before": asked.get("previous_response_id")}
        identity = ticket.identity
        self.store.put(identity.scope, f"response {name}", SessionState(task=identity.session, said=said), 0)

    def recalled(self, scope: str, name: str) -> tuple[list[Any], str] | None:
        """Return all items up to an answer, and its session; None if there is none of this name."""
        items: list[Any] = []
        found = self.store.get(scope, f"response {name}")
        session = None if found is None else found[1].task
        while found is not None and found[1].said is not None:
            items = [*found[1].said["items"], *items]
            before = found[1].said["before"]
            found = None if before is None else self.store.get(scope, f"response {before}")
        return None if session is None else (items, session)

    def is_latched(self, identity: Identity) -> bool:
        """Return whether this process remembers a session as handed off, without asking the store."""
        known = self._known.get((identity.scope, str(identity.session)))
        return known is not None and known[1].latched

    def _change(self, scope: str, session: str, change: Callable[[SessionState], T]) -> T:
        """Change a session and write it; where another has written it meanwhile, on what that one has left."""
        key = scope, session
        with self._locks[hash(key) % len(self._locks)]:
            known = self._known.get(key)
            for number in range(TRIES):
                found = self.store.get(scope, session) if known is None or number else known
                if known is not None and (found is None or found[0] < known[0]):
                    # A store that knows less than was written has lost it: a handoff that is known here stands.
                    found = (0 if found is None else found[0], known[1]) if known[1].latched else found
                version, kept = (0, SessionState()) if found is None else found
                try:
                    result = change(kept)
                    written = self.store.put(scope, session, kept, version)
                except StoreDownError:
                    self._remember(key, version, kept)
                    raise
                if written:
                    self._remember(key, version + 1, kept)
                    return result
        raise StoreDownError(f"the session was changed by others {TRIES} times while it was to be written")

    def _remember(self, key: tuple[str, str], version: int, kept: SessionState) -> None:
        if self.store.remote:
            self._known[key] = (version, kept)
            self._known.move_to_end(key)
            if len(self._known) > CACHED:
                self._known.popitem(last=False)

    def flush(self) -> None:
        """Write the lines that were held back; a full disk does not keep a request from being served."""
        self._write("", "", ())

    def _count(self, change: int) -> int:
        with self._counting:
            self._under_way += change
            return self._under_way

    def _write(self, scope: str, session: str, lines: Sequence[_Line], *, hold: bool = False) -> None:
        if self.log is None:
            return
        waiting = self.log.held + len(lines)
        try:
            self.log.append(scope, session, lines, hold=hold and self.holds)
            if not hold and waiting:
                self.log_failure = None
        except OSError as error:
            self.lost_lines += waiting
            self.log_failure = error.strerror or str(error)

    def _inferred(self, scope: str, messages: Sequence[Message], marks: tuple[str, str]) -> str:
        """Find the one session that this conversation goes on; a new one if there is none, or it has only begun.

        That is the session whose reply it shows; of several that said the same, the one that waits longest. Else it is
        the session that sent the same request before, or the one before this, whose reply nobody could read.
        """
        turns = [message for message in messages if message.get("role") == "assistant"]
        if turns:
            found = self.store.claim(scope, f"answered {marks[0]} {reply_mark(turns[-1])}", take=True)
            found = found or self.store.claim(scope, f"asked {marks[1]}", take=False)
            if found is None and (waiting := self.store.claim(scope, f"asked {marks[0]}", take=False)) is not None:
                kept = self.store.get(scope, waiting)
                found = waiting if kept is not None and "" in kept[1].replies else None
            if found is not None:
                return found
        return f"{root_of(messages)}-{secrets.token_hex(6)}"

    def _first(self, kept: SessionState, identity: Identity, engine: Engine) -> dict[str, object]:
        routers = {"router": engine.router, "shadow": engine.shadow, "canary": engine.canary}
        return {
            "source": identity.source,
            "task": kept.task or kept.root,
            "features": engine.checkpoints.features(kept),
            **{name: None if one is None else one.settings() for name, one in routers.items()},
            "handoff": engine.handoff,
            "arm": kept.arm,
            "arms": self.plan.arms,
        }

    def _step(self, kept: SessionState, ruling: Assignment, engine: Engine, *, about: bool) -> dict[str, object]:
        steps = [
            {
                "step": step,
                "call": kept.made_by.get(step),
                "side": "strong" if step in kept.by_strong else "cheap",
                "diagnostics": engine.diagnostics(kept, step),
            }
            for step in ruling.seen
        ]
        return {
            "router": engine.deciding(kept).fingerprint,
            **{name: getattr(ruling, name) for name in LOGGED},
            "decision": _fields(ruling.decision),
            "shadow": _fields(ruling.shadow),
            "steps": steps,
            "about": {"task": kept.task or kept.root, "features": engine.checkpoints.features(kept)} if about else None,
        }


def items_in(given: object) -> list[Any]:
    """Return the items of a request of OpenAI's responses, of which one text is one."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


LOGGED = ("step", "call", "side", "latched", "new_handoff", "restart", "why", "missing", "fault", "skipped")
"""What a line has of an assignment as it is."""


def _fields(decision: Decision | None) -> dict[str, object] | None:
    return None if decision is None else decision._asdict()


def _outcome(content: object) -> dict[str, Any]:
    """Check what is posted back of a session."""
    expected = "an object with success (true or false), score (a number) or both, or with finished (true)"
    if not isinstance(content, Mapping) or not content:
        raise InvalidDataError(expected, field="outcome", value=content)
    for key, value in content.items():
        if key in ("success", "finished"):
            fits = isinstance(value, bool) and (key == "success" or value)
        elif key == "score":
            fits = is_number(value)
        else:
            fits = key == "task" and isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()
        if not fits:
            raise InvalidDataError(f"{expected}, and task (a name)", field=f"outcome[{key!r}]", value=value)
    if not {"success", "score", "finished"} & content.keys():
        raise InvalidDataError(expected, field="outcome", value=dict(content))
    return dict(content)
