"""The command that decides online, for agents in any language: route."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import BAD_INPUT, AnySeed, told_at_once
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError
from bayes_tacit.files import parse_json

if TYPE_CHECKING:
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
    router: Annotated[Path, typer.Argument(help="A router, .json, from select.", show_default=False)],
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and record, but never hand off.")] = False,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file, .jsonl.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad line instead of answering it.")
    ] = False,
    _seed: AnySeed = 0,
    _as_json: Annotated[
        bool, typer.Option("--json", help="Accepted by every command; answers are JSON anyway.")
    ] = False,
) -> None:
    r"""Read one JSON object a line on standard input, answer one a line on standard output.

    `{"episode": "a", "features": {...}}` begins an episode, and is answered by a decision if the router has a start;
    `{"episode": "a", "diagnostics": {...}}` is a checkpoint and is answered by the decision, whose `call` says who acts
    next; `{"episode": "a", "end": true}` ends it, and is answered by a decision if the policy judges the whole of it. A
    bad line is answered by
    `{"error": ...}` and changes nothing; the exit code is 2 then. No answer waits for the next line, nor for the log:
    where that cannot be written, such as on a full disk, it says so once and answers on; the exit code is 2 then, too.

    In place of both there may be `messages`: first those before the first turn (with `tools` and more `features` beside
    them), then each turn with what was answered to it, from which signs and words are read.

    Example: `my-agent | bayes-tacit route router.json`
    """
    from bayes_tacit.router import DecisionLog, Router

    loaded = Router.load(router)
    with told_at_once(), nullcontext() if log is None else DecisionLog(log, keep_going=True) as decisions:
        failed = answer(
            loaded, cast("BufferedReader", sys.stdin.buffer), sys.stdout, shadow=shadow, log=decisions, strict=strict
        )
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
) -> bool:
    """Answer every line; say whether any was bad."""
    states: dict[object, HandoffState] = {}
    talks: dict[object, Conversation] = {}
    usual = _Usual(router)
    failed = False
    number = 0
    for lines in _available(requests):
        replies: list[str] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                reply = _answer(router, states, line, shadow, log, usual, talks)
            except TacitError as error:
                failed = True
                if strict:
                    _send(out, replies)
                    raise FileFormatError(f"line {number}: {error}") from error
                reply = _encode({"line": number, "error": str(error)})
            replies.append(reply)
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


def _answer(
    router: Router,
    states: dict[object, HandoffState],
    line: bytes,
    shadow: bool,
    log: DecisionLog | None,
    usual: _Usual,
    talks: dict[object, Conversation],
) -> str:
    message = _parse(line)
    episode = validate.episode_id("episode", message.get("episode"))
    if "messages" in message:
        message = _spoken(router, talks, message, begun=episode in states)
    asked = sorted(message.keys() - {"episode"})
    if len(asked) != 1 or asked[0] not in ("features", "diagnostics", "end"):
        raise InvalidDataError(
            "one of features, diagnostics and end, or messages", episode=episode, field="keys", value=asked
        )
    if "end" in message and message["end"] is not True:
        raise InvalidDataError("true", episode=episode, field="end", value=message["end"])
    if "diagnostics" in message:
        state = states.get(episode)
        if state is None:
            raise InvalidDataError("an episode that was begun with features", episode=episode)
        decision = state.observe(message["diagnostics"])  # type: ignore[arg-type]
        usual.look("diagnostics", message["diagnostics"])
        return _encode({"episode": episode, **decision._asdict(), "reason": decision.reason})
    if "end" in message:
        state = states.pop(episode, None)
        talks.pop(episode, None)
        if state is None:
            raise InvalidDataError("an episode that was begun with features", episode=episode)
        closing = state.finish()
        return _encode({"episode": episode, "ended": True, "handoff_step": state.handoff_step, **_told(closing)})
    if episode in states:
        raise InvalidDataError("an episode that was not begun before, or was ended", episode=episode)
    most = most_open(router)
    if len(states) >= most:
        raise InvalidDataError(f"at most {most:,} episodes that have not ended", episode=episode)
    state = states[episode] = router.start(message["features"], shadow=shadow, episode=episode, log=log)  # type: ignore[arg-type]
    usual.look("features", message["features"])
    return _encode({"episode": episode, "started": True, **_told(state.opening)})


def _spoken(
    router: Router, talks: dict[object, Conversation], message: dict[str, object], *, begun: bool
) -> dict[str, object]:
    """Return a line with messages as one with features, or with diagnostics where the episode was begun."""
    from bayes_tacit.logs.reader import Conversation

    episode, given = message["episode"], message["messages"]
    more = sorted(message.keys() - ({"episode", "messages"} if begun else {"episode", "messages", "features", "tools"}))
    if more or not isinstance(given, list):
        expected = "a list of messages, and before the first step features and tools beside it"
        raise InvalidDataError(expected, episode=str(episode), field="messages", value=more or given)
    if begun:
        if episode not in talks:
            raise InvalidDataError(
                "diagnostics, as the episode was begun with features", field="messages", value=len(given)
            )
        return {"episode": episode, "diagnostics": talks[episode].step(given)}
    tools: Any = message.get("tools")
    talk = talks[episode] = Conversation(given, router.reader, tools)
    features = message.get("features") or {}
    if not isinstance(features, dict):
        raise InvalidDataError("an object of numbers", field="features", value=features)
    return {"episode": episode, "features": {**talk.features(), **features}}


def most_open(router: Router) -> int:
    """Tell how many episodes of a router may be open at a time."""
    return max(1, min(MOST_OPEN, OPEN_BYTES // (EPISODE_BYTES + NUMBER_BYTES * router.rule.width)))


def _told(decision: Decision | None) -> dict[str, object]:
    return {} if decision is None else {**decision._asdict(), "reason": decision.reason}


class _Usual:
    """Says once of each feature and diagnostic that it is outside the range of training."""

    def __init__(self, router: Router) -> None:
        self._ranges = router.ranges
        self._told: set[tuple[str, str]] = set()

    def look(self, kind: str, given: object) -> None:
        if self._ranges is None or not isinstance(given, dict):
            return
        for name in self._ranges.outside(kind, given):
            if (kind, name) not in self._told:
                self._told.add((kind, name))
                lowest, *_, highest = getattr(self._ranges, kind)[name]
                said = f"{kind}[{name!r}] is {given[name]:g}; in training it was from {lowest:g} to {highest:g}"
                typer.echo(f"warning: {said} (said once)", err=True)


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
