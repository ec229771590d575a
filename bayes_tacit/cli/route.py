"""The command that decides online, for agents in any language: route."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import BAD_INPUT, AnySeed, RouterFile, told_at_once
from bayes_tacit.cli.logs import Action
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError
from bayes_tacit.files import parse_json

if TYPE_CHECKING:
    import re

    from bayes_tacit.logs.reader import Conversation
    from bayes_tacit.router import Decision, DecisionLog, HandoffState, Router

_encode = json.JSONEncoder(check_circular=False).encode


MOST_OPEN = 100_000
"""Episodes that may be open at a time; each takes memory until it ends."""

OPEN_BYTES = 2**28
"""Memory that open episodes may take: where each carries many draws, fewer may be open."""

EPISODE_BYTES, NUMBER_BYTES = 1600, 32
"""What an open episode takes, and what it takes more for each number of its rule's largest array."""

LONGEST = 2**20
"""Bytes that a line may have: enough for thousands of diagnostics, and a bound on what a bad client can fill."""


def route(
    router: RouterFile,
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and record, but never hand off.")] = False,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file, .jsonl.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad line instead of answering it.")
    ] = False,
    action: Action = None,
    _seed: AnySeed = 0,
    _as_json: Annotated[
        bool, typer.Option("--json", help="Accepted by every command; answers are JSON anyway.")
    ] = False,
) -> None:
    r"""Read one JSON object a line on standard input, answer one a line on standard output.

    `{"episode": "a", "features": {...}}` begins an episode, and is answered by a decision if the router has a start;
    `{"episode": "a", "diagnostics": {...}}` is a checkpoint and is answered by the decision, whose `call` says who acts
    next; with `"last": true` beside it the task is over with this step, and nothing is handed off any more.
    `{"episode": "a", "end": true}` ends it, and is answered by a decision if the policy judges the whole of it. A bad
    line is answered by `{"error": ...}` and changes nothing; the exit code is 2 then. No answer waits for the next
    line, nor for the log: where that cannot be written, such as on a full disk, it says so once and answers on; the
    exit code is 2 then, too.

    In place of both there may be `messages`: first those before the first turn (with `tools` and more `features` beside
    them), then each turn with what was answered to it, from which signs and words are read (with signals of your own
    as `diagnostics` beside them).

    Example: `my-agent | bayes-tacit route router.json`
    """
    from bayes_tacit.router import DecisionLog, Router

    loaded = Router.load(router)
    with told_at_once(), nullcontext() if log is None else DecisionLog(log, keep_going=True) as decisions:
        stdin = cast("BufferedReader", sys.stdin.buffer)
        failed = answer(loaded, stdin, sys.stdout, shadow=shadow, log=decisions, strict=strict, action=action)
    if failed or (decisions is not None and decisions.failure is not None):
        raise typer.Exit(BAD_INPUT)


def answer(
    router: Router,
    requests: BufferedReader,
    out: IO[str],
    *,
    shadow: bool = False,
    log: DecisionLog | None = None,
    strict: bool = False,
    action: str | None = None,
) -> bool:
    """Answer every line; return whether any was bad."""
    from bayes_tacit.logs.messages import pattern_of

    desk = _Desk(router, shadow, log, pattern_of(action))
    failed = False
    number = 0
    for lines in _available(requests):
        replies: list[str] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                reply = desk.answer(line)
            except TacitError as error:
                failed = True
                if strict:
                    _send(out, replies)
                    raise FileFormatError(f"line {number}: {error}") from error
                reply = {"line": number, "error": str(error)}
            replies.append(_encode(reply))
        _send(out, replies)
    return failed


def _available(requests: BufferedReader) -> Iterator[list[bytes]]:
    """Yield all the whole lines there are at a time, so that one answer to each waits for nothing else."""
    rest = b""
    while chunk := requests.read1(LONGEST):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST:
            # What cannot be a line any more is cut there; the answer to it says that it is too long.
            rest = rest[: LONGEST + 1]
        yield lines
    if rest:
        yield [rest]


def _send(out: IO[str], replies: list[str]) -> None:
    if replies:
        out.write("\n".join(replies) + "\n")
        out.flush()


@dataclass
class _Desk:
    """The episodes that are going on, and the answer to each line."""

    router: Router
    shadow: bool
    log: DecisionLog | None
    action: re.Pattern[str] | None
    states: dict[object, HandoffState] = field(default_factory=dict)
    talks: dict[object, Conversation] = field(default_factory=dict)
    over: set[object] = field(default_factory=set)
    warned: set[tuple[str, str]] = field(default_factory=set)

    def answer(self, line: bytes) -> dict[str, object]:
        """Return the answer to a line."""
        message = _parse(line)
        episode = validate.episode_id("episode", message.get("episode"))
        state = self.states.get(episode)
        if "messages" in message:
            message = self._read(message, begun=state is not None)
        beside = {"episode", "last"} if "diagnostics" in message else {"episode"}
        kinds = sorted(message.keys() - beside)
        if len(kinds) != 1 or kinds[0] not in ("features", "diagnostics", "end"):
            expected = "one of features, diagnostics and end, or messages"
            raise InvalidDataError(expected, episode=episode, field="keys", value=kinds)
        for name in ("end", "last"):
            if name in message and message[name] is not True:
                raise InvalidDataError("true", episode=episode, field=name, value=message[name])
        given: Any = message.get(kinds[0])
        if kinds[0] == "features":
            return self._begin(episode, given)
        if state is None:
            raise InvalidDataError("an episode that was begun with features", episode=episode)
        if kinds[0] == "end":
            del self.states[episode]
            self.talks.pop(episode, None)
            closing, step = state.finish(), state.handoff_step
            if episode in self.over:
                self.over.remove(episode)
                step = None if closing is None and step == state.step - 1 else step
            return {"episode": episode, "ended": True, "handoff_step": step, **_told(closing)}
        decision = state.observe(given)
        self._look("diagnostics", given)
        if "last" in message:
            # After the last step there is nothing to hand over; a proposal that is discarded was no last step.
            self.over.add(episode)
            if decision.handoff_step in (None, decision.step):
                nothing = {"handoff": False, "handoff_step": None, "call": "cheap", "reason": "the task is over"}
                return {"episode": episode, **_told(decision), **nothing}
        return {"episode": episode, **_told(decision)}

    def _begin(self, episode: str | int, features: Any) -> dict[str, object]:  # noqa: ANN401  checked by the router
        if episode in self.states:
            raise InvalidDataError("an episode that was not begun before, or was ended", episode=episode)
        most = most_open(self.router)
        if len(self.states) >= most:
            raise InvalidDataError(f"at most {most:,} episodes that have not ended", episode=episode)
        state = self.router.start(features, shadow=self.shadow, episode=episode, log=self.log)
        self.states[episode] = state
        self._look("features", features)
        return {"episode": episode, "started": True, **_told(state.opening)}

    def _read(self, message: dict[str, object], *, begun: bool) -> dict[str, object]:
        """Return a line with messages as one with features, or with diagnostics where the episode was begun."""
        from bayes_tacit.logs.reader import Conversation

        episode, given = message["episode"], message["messages"]
        kind = "diagnostics" if begun else "features"
        more = sorted(message.keys() - {"episode", "messages", kind, *(("last",) if begun else ("tools",))})
        if more or not isinstance(given, list):
            expected = "a list of messages, and before the first step features and tools beside it"
            raise InvalidDataError(expected, episode=str(episode), field="messages", value=more or given)
        own = message.get(kind) or {}
        if not isinstance(own, dict):
            raise InvalidDataError("an object of numbers", field=kind, value=own)
        if begun:
            if episode not in self.talks:
                expected = "diagnostics, as the episode was begun with features"
                raise InvalidDataError(expected, field="messages", value=len(given))
            last = {"last": message["last"]} if "last" in message else {}
            return {"episode": episode, "diagnostics": {**self.talks[episode].step(given), **own}, **last}
        tools: Any = message.get("tools")
        talk = self.talks[episode] = Conversation(given, self.router.reader, tools, self.action)
        return {"episode": episode, "features": {**talk.features(), **own}}

    def _look(self, kind: str, given: object) -> None:
        """Say once of each feature and diagnostic that it is outside the range of training."""
        if self.router.ranges is None or not isinstance(given, dict):
            return
        for name in self.router.ranges.outside(kind, given):
            if (kind, name) not in self.warned:
                self.warned.add((kind, name))
                lowest, *_, highest = getattr(self.router.ranges, kind)[name]
                said = f"{kind}[{name!r}] is {given[name]:g}; in training it was from {lowest:g} to {highest:g}"
                typer.echo(f"warning: {said} (said once)", err=True)


def most_open(router: Router) -> int:
    """Return how many episodes of a router may be open at a time."""
    return max(1, min(MOST_OPEN, OPEN_BYTES // (EPISODE_BYTES + NUMBER_BYTES * router.rule.width)))


def _told(decision: Decision | None) -> dict[str, object]:
    return {} if decision is None else {**decision._asdict(), "reason": decision.reason}


def _parse(line: bytes) -> dict[str, object]:
    if len(line) > LONGEST:
        raise InvalidDataError(f"at most {LONGEST:,} bytes", field="length of the line", value=len(line))
    try:
        message = parse_json(line.decode("utf-8"), "the line", "a JSON object")
    except (UnicodeDecodeError, FileFormatError) as error:
        if "twice" in str(error):
            raise InvalidDataError("each key once", field="the line", value=line.decode(errors="replace")) from None
        message = None
    if not isinstance(message, dict):
        shown = line.decode(errors="replace").strip()
        raise InvalidDataError("a JSON object", field="the line", value=shown) from None
    return message
