"""The engine: what is kept of a session and one more request in, who serves it out. It knows no transport."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, Handoff
from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.gateway.conversation import RequestView, read_conversation
from bayes_tacit.gateway.session_state import Assignment, SessionState, Side
from bayes_tacit.logs.extractor import FLAGS, IDLE, LONGEST_MESSAGE, UNCERTAINTY
from bayes_tacit.logs.messages import Message
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES
from bayes_tacit.router import Decision, HandoffState, Router
from bayes_tacit.router.rule import CALL_OF
from bayes_tacit.router.rules import Signs
from bayes_tacit.router.state import NLL, OPENING


def default_router(signs: int = 4, handoff: Handoff = DEFAULT_HANDOFF) -> Router:
    """Return a router that counts bad signs: repeated calls, cycles, tool errors and the like, all that messages show.

    It needs no features and no log-probabilities, which calls of tools often lack. Nothing in it was learned; replace
    it by what `bayes-tacit recommend` names as soon as there are logs. So many `signs` hand off, as `handoff` says.

    Examples
    --------
    >>> default_router()
    <Router: count, score >= alpha 4, post_action; 6 diagnostics, 0 features>
    """
    threshold = float(validate.whole("signs", signs, 1))
    rule = Signs(np.full(len(FLAGS), 0.5))
    return Router(rule=rule, alpha=threshold, call=CALL_OF[handoff], diagnostic_names=FLAGS)


ALWAYS = ("prompt_length", "n_tools")
"""Features that every first request has."""

KNOWN = (*FLAGS, UNCERTAINTY, NLL, *DIAGNOSTICS)
"""Diagnostics that can be had; the last two where replies carry log-probabilities."""


class NotKnownError(InvalidDataError):
    """Something that the router looks at, `names`, is not known of this session."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"{', '.join(names)}, which the router looks at")
        self.names = tuple(names)


class Checkpoints:
    """A router as a gateway asks it: features and steps of a session in, the decision after the last step out.

    One that looks at a diagnostic that messages do not give is refused.
    """

    def __init__(self, router: Router) -> None:
        known = [name for name in KNOWN if name not in DIAGNOSTICS or router.reader is not None]
        unknown = [name for name in router.diagnostic_names if name not in known]
        if unknown:
            expected = f"those that messages give: {', '.join(known)}"
            raise InvalidDataError(expected, field="diagnostics of the router", value=unknown)
        self.router = router
        self.fingerprint = router.fingerprint
        self._names = router.diagnostic_names
        self.key = self.fingerprint[:16]
        self._likelihoods = [name for name in self._names if name in (UNCERTAINTY, NLL)]
        self._plain = all(name in FLAGS for name in self._names)
        self._flags = [
            [float(flag >> FLAGS.index(name) & 1) if name in FLAGS else 0.0 for name in self._names]
            for flag in range(1 << len(FLAGS))
        ]

    @property
    def asked(self) -> tuple[str, ...]:
        """Features that only the caller can give."""
        read = () if self.router.reader is None else FEATURES
        return tuple(name for name in self.router.feature_names if name not in (*ALWAYS, *read))

    @property
    def needs_logprobs(self) -> bool:
        """Whether it looks at the likelihood of Cheap's tokens."""
        return bool(self._likelihoods)

    def latest(self, kept: SessionState) -> Decision | None:
        """Return the decision after the last of Cheap's steps; that before the first one if there is none.

        What the router has seen stays with the session, in `kept.live`, and is not shown again. If the session lacks
        something that the router looks at, that is a `NotKnownError`.
        """
        seen, features = self._steps(kept), self.features(kept)
        live: _Live | None = kept.live.get(self.fingerprint)
        if live is None or live.features != features or live.seen != seen[: len(live.seen)]:
            live = _Live(self._begin(features), features)
        for values in seen[len(live.seen) :]:
            live.decision = live.state.observe(values)
            live.seen.append(values)
        kept.live[self.fingerprint] = live
        return live.decision

    def finish(self, kept: SessionState) -> Decision | None:
        """Return what a policy says that judges the whole episode, which has ended; None if nothing."""
        self.latest(kept)
        live: _Live = kept.live.pop(self.fingerprint)
        return live.state.finish()

    def diagnostics(self, kept: SessionState, step: int) -> dict[str, float]:
        """Name all that is known of a step, whether the router looks at it or not."""
        values = {name: float(kept.flags[step] >> bit & 1) for bit, name in enumerate(FLAGS)}
        return {**values, **(_likelihoods(kept, step) or {}), **self._words(kept, step)}

    def features(self, kept: SessionState) -> Mapping[str, float]:
        """Return the features of the task, with what the router's reader says of it."""
        promise = kept.words.get(self.key, {}).get(PROMISE)
        return kept.features if promise is None else {**kept.features, **dict(zip(FEATURES, promise, strict=True))}

    def _words(self, kept: SessionState, step: int) -> dict[str, float]:
        """Return what the router's reader said of a step; nothing where it has none."""
        row = kept.words.get(self.key, {}).get(str(step))
        return {} if row is None else dict(zip(DIAGNOSTICS, row, strict=True))

    def _begin(self, features: Mapping[str, float]) -> HandoffState:
        names = self.router.feature_names
        missing = [f"features[{name!r}]" for name in names if name not in features]
        if missing:
            raise NotKnownError(missing)
        return self.router.start({name: features[name] for name in names})

    def _steps(self, kept: SessionState) -> list[list[float]]:
        """Return the router's diagnostics of each of Cheap's steps, in its order."""
        flags = kept.flags
        steps = [step for step in range(len(flags)) if step not in kept.by_strong] if kept.by_strong else None
        if self._plain:
            table = self._flags
            return [table[flag] for flag in flags] if steps is None else [table[flags[step]] for step in steps]
        found = []
        for step in range(len(flags)) if steps is None else steps:
            more = {**((_likelihoods(kept, step) or {}) if self._likelihoods else {}), **self._words(kept, step)}
            missing = [name for name in self._names if name not in FLAGS and name not in more]
            if missing:
                raise NotKnownError([f"diagnostics[{name!r}] of step {step}" for name in missing])
            values = self._flags[flags[step]]
            found.append([more.get(name, values[place]) for place, name in enumerate(self._names)])
        return found


class _Live:
    """A state of the router, and what it was shown."""

    __slots__ = ("decision", "features", "seen", "state")

    def __init__(self, state: HandoffState, features: Mapping[str, float]) -> None:
        self.state = state
        self.features = features
        self.seen: list[list[float]] = []
        self.decision = state.opening


def _likelihoods(kept: SessionState, step: int) -> dict[str, float] | None:
    """Return mean and sum over the tokens of a step; of nothing said both are 0, as in imported logs."""
    sums = kept.nll.get(step)
    if sums is not None and sums[1]:
        return {UNCERTAINTY: sums[0] / sums[1], NLL: sums[0]}
    return {UNCERTAINTY: 0.0, NLL: 0.0} if kept.flags[step] & IDLE else None


PROMISE = "promise"
"""Where what a reader says of the task is in `SessionState.words`, beside the steps."""

KNOWN_TURNS = "turns"
"""Under which name a session's turns are in `SessionState.live`; states of routers are there by their fingerprint."""

EXPLORED = {"cheap": "explored: Cheap to the end", "strong": "explored: Strong from the start"}
"""Ways to serve a session in which no router hands off."""


class Engine:
    """Decides for one request at a time.

    The result of a step first shows in the request after it, so a request is read before it is served: each turn of the
    assistant in its messages, with the answers of tools, is a step (the timing "post_action"). An adapter of a
    framework needs three calls, around its own way to keep and to send:

    1. `ruling = engine.consider(kept, messages, tools)` says who serves. `kept` is what was kept after the last
       request, a new `SessionState()` in the first, and is changed in place; keep it (`SessionState.to_json`).
    2. `forwarded(messages, ruling)` returns the messages to send.
    3. `record(kept, ruling, side, reply)` says who did serve, and what the reply tells (log-probabilities, its mark).

    `bayes_tacit.gateway.Sessions` does all of it for many sessions at once, with a store and a log.

    Parameters
    ----------
    router
        Any router.
    shadow
        A second one, which decides and is recorded, and hands off nothing.
    canary
        A third one, which decides in place of the router for the sessions whose `SessionState.arm` is "canary".
    handoff
        "resume" or "restart", in place of what the router file says.
    longest
        Most characters of one message that are read.

    Examples
    --------
    >>> from bayes_tacit.gateway import default_router
    >>> engine, kept = Engine(default_router(signs=2)), SessionState()
    >>> messages = [{"role": "user", "content": "How many rows has t?"}]
    >>> for number in range(3):
    ...     ruling = engine.consider(kept, messages)
    ...     print(ruling.step, ruling.side, "-", ruling.why)
    ...     call = {"id": str(number), "function": {"name": "sql", "arguments": '{"q": "SELECT"}'}}
    ...     messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    ...     messages.append({"role": "tool", "tool_call_id": str(number), "content": "Error: incomplete input"})
    0 cheap - nothing to judge before the first step
    1 cheap - score 1 is below alpha 2
    2 strong - score 4 reached alpha 2
    """

    def __init__(
        self,
        router: Router,
        shadow: Router | None = None,
        *,
        canary: Router | None = None,
        handoff: Handoff | None = None,
        longest: int = LONGEST_MESSAGE,
    ) -> None:
        self.router = router
        self.shadow = shadow
        self.canary = canary
        self.handoff: Handoff = router.handoff if handoff is None else validate.choice("handoff", handoff, HANDOFFS)
        routers = {"router": router, "shadow": shadow, "canary": canary}
        self._every = {name: Checkpoints(one) for name, one in routers.items() if one is not None}
        self.checkpoints = self._every["router"]
        self.readers = {one.key: one.router.reader for one in self._every.values() if one.router.reader is not None}
        self._longest = longest

    @property
    def remarks(self) -> list[str]:
        """What is to be said before the first request: what routers need that requests do not have by themselves."""
        said = []
        for name, one in self._every.items():
            if one.asked:
                said.append(f"the {name} needs the features {', '.join(one.asked)}, which the caller has to give")
            if one.needs_logprobs:
                said.append(f"the {name} needs log-probabilities in the replies; without them nothing is decided")
            if one.router.timing == "proposal":
                said.append(f"the {name} was made for proposals; here a step is judged after it was taken")
        return said

    def consider(
        self,
        kept: SessionState,
        messages: Sequence[Message] | RequestView,
        tools: object = None,
        features: Mapping[str, float] | None = None,
    ) -> Assignment:
        """Read a request and decide who serves it.

        Parameters
        ----------
        kept
            What is kept of the session; changed in place.
        messages
            The whole conversation, as the client sends it; or what was read of it already.
        tools
            The tools that are offered: definitions as OpenAI has them, or names.
        features
            Features of the task that the caller knows; a feature that is known already stays as it was.

        Returns
        -------
        Assignment
            Nothing that is wrong with messages or router raises: `fault` says it then, and nothing is handed off.
        """
        kept.asked += 1
        try:
            seen = (
                messages
                if isinstance(messages, RequestView)
                else read_conversation(messages, tools, self._longest, self.readers)
            )
            steps, new = self._read(kept, seen, features or {})
        except Exception as error:
            return _undecided(kept, fault=f"messages could not be read: {_told(error)}")
        ruling = self._decide(kept, steps, new, seen.skipped)
        # Until the reply is known: the next request may be read elsewhere before that.
        kept.replies[""] = (kept.asked, ruling.side, 0.0, 0)
        return ruling

    def finish(self, kept: SessionState) -> Assignment:
        """Judge an episode that has ended: a cascade may restart it with Strong, in the session's next request."""
        if kept.latched or kept.arm in EXPLORED:
            return _undecided(kept)
        try:
            decision = self.deciding(kept).finish(kept)
        except Exception as error:
            return _undecided(kept, fault=f"the router failed: {_told(error)}")
        if decision is None or not decision.handoff:
            return _undecided(kept, why="the episode stands")
        self._latch(kept, decision)
        return replace(_undecided(kept, why=decision.reason), decision=decision, new_handoff=True)

    def deciding(self, kept: SessionState) -> Checkpoints:
        """Return the router that decides for a session."""
        return self._every.get("canary", self.checkpoints) if kept.arm == "canary" else self.checkpoints

    def diagnostics(self, kept: SessionState, step: int) -> dict[str, float]:
        """Name all that is known of a step."""
        return self.checkpoints.diagnostics(kept, step)

    def _read(
        self, kept: SessionState, seen: RequestView, features: Mapping[str, float]
    ) -> tuple[list[int], tuple[int, ...]]:
        """Bring what is kept up to this request; return the steps of its turns, and the new ones."""
        if not kept.settled and (seen.marks or seen.tools or not kept.features.get("n_tools")):
            # The first request may be a side call, such as for a title; the conversation that goes on says more.
            kept.root, kept.settled = seen.root, bool(seen.marks)
            kept.features = {**kept.features, **seen.features}
            for key, rows in seen.words.items():
                kept.words.setdefault(key, {})[PROMISE] = rows[0]
        given = {name: float(value) for name, value in features.items() if name not in kept.features}
        kept.features = {**kept.features, **given}
        return _count(kept, seen)

    def _decide(self, kept: SessionState, steps: list[int], new: tuple[int, ...], skipped: int) -> Assignment:
        before, decision, why, shadow = kept.latched, None, "", None
        fault = f"{skipped} messages could not be read and were passed over" if skipped else None
        missing: tuple[str, ...] = ()
        if not before:
            shadow = self._shadow(kept)
            try:
                decision = self.deciding(kept).latest(kept)
                why = "nothing to judge before the first step" if decision is None else decision.reason
            except NotKnownError as error:
                missing, why = error.names, f"not decided: {', '.join(error.names)} not known"
            except Exception as error:
                fault, why = f"the router failed: {_told(error)}", "the router failed"
        explored = kept.arm in EXPLORED
        if explored and not before:
            why = EXPLORED[kept.arm]
            if kept.arm == "strong":
                kept.handoff_step = OPENING
        elif decision is not None and decision.handoff:
            self._latch(kept, decision)
        once = not explored and decision is not None and decision.call == "strong_once"
        if once and kept.n_steps - 1 in kept.by_strong:
            once, why = False, "Strong has made its one step"
        strong = kept.by_strong
        return Assignment(
            side="strong" if kept.latched or once else "cheap",
            step=kept.n_steps,
            call=kept.asked,
            latched=kept.latched,
            new_handoff=kept.latched and not before,
            restart=kept.restarted is not None,
            why=_handed_off(kept) if before else why,
            decision=decision,
            shadow=shadow,
            missing=missing,
            fault=fault,
            skipped=skipped,
            seen=new,
            by_strong=frozenset(turn for turn, step in enumerate(steps) if step in strong) if strong else frozenset(),
            cut=0 if kept.restarted is None else sum(step < kept.restarted for step in steps),
        )

    def _latch(self, kept: SessionState, decision: Decision) -> None:
        kept.handoff_step = decision.step if decision.handoff_step is None else decision.handoff_step
        handoff = self.handoff if kept.arm != "canary" else self.deciding(kept).router.handoff
        kept.restarted = kept.n_steps if handoff == "restart" else None

    def _shadow(self, kept: SessionState) -> Decision | None:
        if "shadow" not in self._every:
            return None
        try:
            decision = self._every["shadow"].latest(kept)
        except Exception:
            return None  # what the one in shadow lacks must not touch what is served
        if decision is not None and kept.shadow_step is None:
            kept.shadow_step = decision.handoff_step
        return decision


def _count(kept: SessionState, seen: RequestView) -> tuple[list[int], tuple[int, ...]]:
    """Return the step of each turn, after adding those that no request has shown before, and which these are."""
    known: dict[bytes, int]
    known, before, read = kept.live.get(KNOWN_TURNS) or ({mark: step for step, mark in enumerate(kept.turns)}, [], [])
    # Of the turns that the last request had shown, only its last one may have had more answers since.
    steps: list[int] = read[:-1] if seen.marks[: len(before)] == before else []
    new, latest = [], kept.n_steps - 1
    for turn, (said, mark) in enumerate(seen.marks[len(steps) :], start=len(steps)):
        step = known.get(mark)
        if step is None:
            step = known[mark] = kept.n_steps
            kept.turns.append(mark)
            kept.flags.append(seen.flags[turn])
            new.append(step)
            _made(kept, step, said, last=turn == len(seen.marks) - 1)
            if turn in seen.nll:
                kept.nll.setdefault(step, (seen.nll[turn], 1))
            _is_new(kept, seen, turn, step)
        elif step == latest and (turn == 0) == (step == 0) and _is_new(kept, seen, turn, step):
            # It has had more answers since; earlier ones are over.
            kept.flags[step] = seen.flags[turn]
            new.append(step)
        steps.append(step)
    kept.live[KNOWN_TURNS] = known, seen.marks, steps
    return steps, tuple(new)


def _is_new(kept: SessionState, seen: RequestView, turn: int, step: int) -> bool:
    """Keep what readers say of a turn; return whether it shows more than before."""
    changed = False
    for key, rows in seen.words.items():
        known = kept.words.setdefault(key, {})
        changed |= known.get(str(step)) != rows[turn + 1]
        known[str(step)] = rows[turn + 1]
    return changed or kept.flags[step] != seen.flags[turn]


def _made(kept: SessionState, step: int, said: str, *, last: bool) -> None:
    """Keep which call made a step: the one whose reply it is, or for the last turn, the latest that is known."""
    made = kept.replies.pop(said, None)
    if made is None and last and kept.replies:
        made = kept.replies.pop("") if "" in kept.replies else kept.replies.popitem()[1]
    if made is None:
        return
    kept.made_by[step] = made[0]
    if made[1] == "strong":
        kept.by_strong.add(step)
    if made[3]:
        kept.nll[step] = (made[2], made[3])


def _undecided(kept: SessionState, *, why: str = "", fault: str | None = None) -> Assignment:
    said = _handed_off(kept) if kept.latched else why or "not decided"
    return Assignment(
        side="strong" if kept.latched else "cheap",
        step=kept.n_steps,
        call=kept.asked,
        latched=kept.latched,
        new_handoff=False,
        restart=kept.restarted is not None,
        why=said,
        fault=fault,
    )


def _handed_off(kept: SessionState) -> str:
    when = "before the first step" if kept.handoff_step == OPENING else f"at step {kept.handoff_step}"
    return f"handed off {when}"


def _told(error: Exception) -> str:
    text = str(error) if isinstance(error, TacitError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]


FOREIGN_KEYS = frozenset(
    {
        *("reasoning", "reasoning_content", "reasoning_details", "reasoning_signature", "reasoning_items"),
        *("thinking", "thinking_blocks", "signature", "thought_signature", "encrypted_content"),
        *("provider_specific_fields", "extra_content"),
    }
)
"""Keys of a message, a part or a call that only the model that wrote them can read."""

FOREIGN_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content", "encrypted_reasoning"})
"""Types of parts that likewise go."""

_USUAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def forwarded(messages: Sequence[Message], ruling: Assignment, side: Side | None = None) -> Sequence[Message]:
    """Return the messages for the side that serves; the very same list where nothing has to be changed.

    What the other side thought is taken out of its turns: reasoning and signatures. Its calls and the answers to them
    stay, under ids that any server takes and that still belong together. Where a handoff restarts the task, the turns
    before it are cut, with the answers to their calls. By default the side is that of the ruling.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, SessionState, default_router
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?", "reasoning": "Hm."}]
    >>> ruling = Engine(default_router()).consider(SessionState(), [*messages, {"role": "user", "content": "Go on"}])
    >>> forwarded(messages, ruling) is messages, forwarded(messages, ruling, "strong")[1]
    (True, {'role': 'assistant', 'content': 'Yes?'})
    """
    side = ruling.side if side is None else side
    turns = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    first = 0
    if side == "strong" and ruling.latched and ruling.cut:
        first = ruling.cut
        # Where the answer is still to come, all turns are cut and nothing follows the task.
        rest = messages[turns[first] :] if first < len(turns) else ()
        messages = [*messages[: turns[0]], *rest]
        turns = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    foreign = {
        place for turn, place in enumerate(turns, start=first) if (turn in ruling.by_strong) != (side == "strong")
    }
    return _without(messages, foreign) if foreign else messages


def _without(messages: Sequence[Message], foreign: set[int]) -> list[Message]:
    sent: list[Message] = []
    names: dict[str, str] = {}
    used: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            calls = message.get("tool_calls")
            calls = calls if isinstance(calls, list) else []
            if place in foreign:
                message, names = _plain(message, calls, used)
            else:
                names = {}
            used.update(str(call.get("id")) for call in calls if isinstance(call, Mapping))
            used.update(names.values())
        elif role == "tool" and message.get("tool_call_id") in names:
            message = {**message, "tool_call_id": names[message["tool_call_id"]]}
        sent.append(message)
    return sent


def _plain(message: Message, calls: list[Any], used: set[str]) -> tuple[Message, dict[str, str]]:
    """Return a turn without thoughts, and the new ids of its calls where the old ones could not stay."""
    plain = {key: value for key, value in message.items() if key not in FOREIGN_KEYS}
    content = plain.get("content")
    if isinstance(content, list):
        parts = [_part(part) for part in content if not _is_thought(part)]
        plain["content"] = parts or (None if calls else "")
    names: dict[str, str] = {}
    if calls:
        named = []
        for call in calls:
            if isinstance(call, Mapping):
                call = {key: value for key, value in call.items() if key not in FOREIGN_KEYS}
                old = call.get("id")
                if isinstance(old, str) and (old in used or not _USUAL_ID.fullmatch(old)):
                    # The same in every later request, so that a server's cache of the prompt holds.
                    text = f"{len(used)}/{old}".encode("utf-8", "surrogatepass")
                    names[old] = call["id"] = f"call_{blake2b(text, digest_size=12).hexdigest()}"
            named.append(call)
        plain["tool_calls"] = named
    return plain, names


def _is_thought(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in FOREIGN_PARTS


def _part(part: object) -> object:
    return {key: value for key, value in part.items() if key not in FOREIGN_KEYS} if isinstance(part, Mapping) else part
