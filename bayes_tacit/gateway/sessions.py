"""Many sessions at once: which one a request belongs to, decided, recorded. What a server or an adapter calls."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, NamedTuple

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import Engine, Ruling
from bayes_tacit.gateway.kept import Kept, Side, marks_of, reply_mark, root_of
from bayes_tacit.gateway.log import SessionLog
from bayes_tacit.gateway.replies import Prices, Reply, record
from bayes_tacit.gateway.store import MemoryStore, Store
from bayes_tacit.logs.messages import Message
from bayes_tacit.router import Decision

HEADERS = (
    "x-tacit-session-id",
    "x-session-id",
    "x-litellm-session-id",
    "helicone-session-id",
    "x-bf-session-id",
    "x-switchyard-session-id",
    "x-claude-code-session-id",
    "x-session-affinity",
    "session-id",
    "session_id",
    "x-dynamo-session-id",
)
"""Headers that name the session, the first that is there counts. `x-session-id` is meant for our own clients."""

FIELDS = (("session_id",), ("litellm_session_id",), ("metadata", "session_id"), ("prompt_cache_key",))
"""Fields of the body that name it, after the headers. `user` is a person, not a task, and is not among them."""

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
    session
        The session's id; None where it has to be inferred from the conversation.
    source
        Where the id was found: the name of a header or field, or "inferred".
    """

    scope: str
    session: str | None
    source: str


def scope_of(headers: Mapping[str, str]) -> str:
    """Give the digest of the key in a request's headers; the key itself is kept nowhere.

    Examples
    --------
    >>> scope_of({"authorization": "Bearer a"}) == scope_of({"authorization": "Bearer b"})
    False
    """
    key = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, person=b"tacit scope").hexdigest()


def identify(headers: Mapping[str, str], body: Mapping[str, Any]) -> Identity:
    """Find the session that a request names.

    Parameters
    ----------
    headers
        By name in lower case.
    body
        The request, parsed.

    Raises
    ------
    InvalidDataError
        If the id is longer than 256 characters, or has characters that cannot be printed.

    Examples
    --------
    >>> identify({"x-session-id": "a"}, {"user": "me"})[1:], identify({}, {"metadata": {"session_id": "b"}})[1:]
    (('a', 'x-session-id'), ('b', 'metadata.session_id'))
    """
    scope = scope_of(headers)
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
        if not isinstance(content, dict):
            raise TypeError
        features = {name: float(value) for name, value in content.items() if _is_number(value)}
    except (ValueError, TypeError, RecursionError, OverflowError):
        content, features = None, {}
    if content is None or len(features) != len(content):
        expected = 'a JSON object of finite numbers, such as {"entities": 12}'
        raise InvalidDataError(expected, field=FEATURES, value=given)
    return features


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Ticket(NamedTuple):
    """One request that was decided: what `Sessions.replied` needs to know of it.

    Attributes
    ----------
    identity
        Who asked; its `session` is known now, also where it was inferred.
    ruling
        Who serves.
    """

    identity: Identity
    ruling: Ruling


class Sessions:
    """Sessions in a store, decided by an engine, with a log.

    Parameters
    ----------
    engine
        Decides.
    store
        Keeps sessions; in memory by default.
    log
        Where decisions, replies and outcomes are written.
    prices
        What calls cost.

    Attributes
    ----------
    lost_lines
        Lines that the log could not take.

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
    ) -> None:
        self.engine = engine
        self.store: Store = MemoryStore() if store is None else store
        self.log = log
        self.prices = Prices() if prices is None else prices
        self.lost_lines = 0
        self._routers = {
            "router": engine.router.settings(),
            "shadow": None if engine.shadow is None else engine.shadow.settings(),
        }

    def begin(
        self,
        identity: Identity,
        messages: Sequence[Message],
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
            As for `Engine.consider`.
        task
            A name for the task, by which the log pairs sessions.
        """
        if identity.session is None:
            identity = identity._replace(session=self._inferred(identity.scope, messages))
        session = str(identity.session)
        with self.store.opened(identity.scope, session) as kept:
            fresh = kept.root is None
            if task is not None and kept.task is None:
                kept.task = task
            ruling = self.engine.consider(kept, messages, tools, features)
            # Until the reply is known: the next request may be read elsewhere before that.
            self.engine.served(kept, ruling, ruling.side)
            kept.reply = None
            begun = fresh and kept.root is not None
            content = self._first(kept, identity) if begun else {}
            last = self._last_step(kept)
        if self.log is not None:
            if begun:
                self._write("start", identity.scope, session, content)
            self._write("step", identity.scope, session, {**_told(ruling), "diagnostics": last})
        return Ticket(identity, ruling)

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
        """Keep and log what came of a request; give its cost.

        Parameters
        ----------
        ticket
            What `begin` gave.
        side
            Who did serve.
        reply
            What is kept of the reply; None if there was none.
        status
            The answer's status, as HTTP has it.
        seconds
            How long it took.
        fault
            What went wrong with the one who should have served.
        """
        identity, ruling = ticket
        cost = alone = 0.0
        if reply is not None:
            with self.store.opened(identity.scope, str(identity.session)) as kept:
                self.engine.served(kept, ruling, side)
                record(kept, ruling, reply)
                cost, alone = self.prices.charge(kept, side, reply.usage)
        if self.log is not None:
            known = Reply() if reply is None else reply
            self._write(
                "reply",
                identity.scope,
                str(identity.session),
                {
                    "turn": ruling.turn,
                    "side": side,
                    "status": status,
                    "model": known.model,
                    "finish_reason": known.finish_reason,
                    "usage": None if known.usage is None else asdict(known.usage),
                    "nll": known.nll,
                    "cost": cost,
                    "strong_cost": alone,
                    "seconds": seconds,
                    "fault": fault,
                },
            )
        return cost

    def outcome(self, scope: str, session: str, content: object) -> dict[str, Any] | None:
        """Keep and log how a session ended; give what is known of it, None if there is no such session.

        Parameters
        ----------
        scope, session
            Which one.
        content
            An object with `success` (true or false), `score` (a number), or both, and `task` (a name) if wanted; or
            with `finished` (true) alone, which asks a policy that judges whole episodes, such as a cascade.
        """
        known = _outcome(content)
        if self.store.found(scope, session) is None:
            return None
        closing: Ruling | None = None
        with self.store.opened(scope, session) as kept:
            if known.pop("finished", False):
                closing = self.engine.finish(kept)
            if known:
                kept.outcome = known
                kept.task = known.get("task") or kept.task
            seen = described(kept)
        if self.log is not None:
            if closing is not None:
                decision = None if closing.decision is None else closing.decision._asdict()
                self._write("end", scope, session, {"closing": decision, "new_handoff": closing.new_handoff})
            if known:
                self._write("outcome", scope, session, {"task": None, "success": None, "score": None, **known})
        return {**seen, "why": closing.why} if closing is not None else seen

    def look(self, scope: str, session: str) -> dict[str, Any] | None:
        """Give what is known of a session; None if there is no such session."""
        kept = self.store.found(scope, session)
        return None if kept is None else described(kept)

    def _write(self, event: str, scope: str, session: str, content: Mapping[str, object]) -> None:
        """Log a line; a full disk does not keep a request from being served."""
        try:
            if self.log is not None:
                self.log.append(event, scope, session, content)
        except OSError:
            self.lost_lines += 1

    def _inferred(self, scope: str, messages: Sequence[Message]) -> str:
        """Find the one session that this conversation goes on; a new one if there is none, or it has only begun."""
        root, marks = root_of(messages), marks_of(messages)
        turns = [message for message in messages if message.get("role") == "assistant"]
        best, rank = f"{root}-{secrets.token_hex(6)}", 0
        for name, kept in self.store.beginning(scope, root) if turns else ():
            last = len(kept.marks) - 1
            if last < 0 or last >= len(marks) or kept.marks[last] != marks[last]:
                continue
            found = 2  # the same request once more
            if last < len(turns):
                found = 1 if kept.reply is None else 3 if kept.reply == reply_mark(turns[last]) else 0
            if found and found >= rank:  # of several, the one that waits longest
                best, rank = name, found
        return best

    def _first(self, kept: Kept, identity: Identity) -> dict[str, object]:
        return {
            "source": identity.source,
            "task": kept.task or kept.root,
            "features": kept.features,
            **self._routers,
            "handoff": self.engine.handoff,
        }

    def _last_step(self, kept: Kept) -> dict[str, float] | None:
        return self.engine.diagnostics(kept, kept.n_steps - 1) if kept.n_steps else None


def described(kept: Kept) -> dict[str, Any]:
    """Say what is known of a session, as JSON has it."""
    return {
        "steps": kept.n_steps,
        "latched": kept.latched,
        "handoff_step": kept.handoff_step,
        "shadow_step": kept.shadow_step,
        "calls": kept.calls,
        "cost": kept.cost,
        "strong_cost": kept.strong_cost,
        "features": kept.features,
        "task": kept.task or kept.root,
        "outcome": kept.outcome,
    }


def _told(ruling: Ruling) -> dict[str, object]:
    return {
        "step": ruling.step,
        "turn": ruling.turn,
        "side": ruling.side,
        "latched": ruling.latched,
        "new_handoff": ruling.new_handoff,
        "restart": ruling.restart,
        "why": ruling.why,
        "decision": _fields(ruling.decision),
        "shadow": _fields(ruling.shadow),
        "missing": ruling.missing,
        "fault": ruling.fault,
    }


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
            fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        else:
            fits = key == "task" and isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()
        if not fits:
            raise InvalidDataError(f"{expected}, and task (a name)", field=f"outcome[{key!r}]", value=value)
    if not {"success", "score", "finished"} & content.keys():
        raise InvalidDataError(expected, field="outcome", value=dict(content))
    return dict(content)
