"""The command that decides online, for agents in any language: route."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from bayes_tacit.cli.common import BAD_INPUT
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError

if TYPE_CHECKING:
    from bayes_tacit.deployment import HandoffState, Router


def route(
    router: Annotated[Path, typer.Argument(help="A router, .json, from select.", show_default=False)],
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and record, but never hand off.")] = False,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file, .jsonl.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad line instead of answering it.")
    ] = False,
) -> None:
    r"""Read one JSON object a line on standard input, answer one a line on standard output.

    `{"episode": "a", "features": {...}}` begins an episode, `{"episode": "a", "diagnostics": {...}}` is a checkpoint
    and is answered by the decision, `{"episode": "a", "end": true}` ends it. A bad line is answered by
    `{"error": ...}` and changes nothing; the exit code is 2 then.

    Example: `my-agent | bayes-tacit route router.json`
    """
    from bayes_tacit.deployment import DecisionLog, Router

    loaded = Router.load(router)
    decisions = None if log is None else DecisionLog(log)
    failed = answer(loaded, sys.stdin, sys.stdout, shadow=shadow, log=decisions, strict=strict)
    if failed:
        raise typer.Exit(BAD_INPUT)


def answer(
    router: Router, lines: IO[str], out: IO[str], *, shadow: bool = False, log: object = None, strict: bool = False
) -> bool:
    """Answer every line; say whether any was bad."""
    states: dict[object, HandoffState] = {}
    failed = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reply = _answer(router, states, line, shadow, log)
        except TacitError as error:
            failed = True
            if strict:
                raise FileFormatError(f"line {number}: {error}") from error
            reply = json.dumps({"line": number, "error": str(error)})
        out.write(reply + "\n")
        out.flush()
    return failed


def _answer(router: Router, states: dict[object, HandoffState], line: str, shadow: bool, log: object) -> str:
    message = _parse(line)
    episode = message.get("episode")
    if isinstance(episode, bool) or not isinstance(episode, str | int):
        raise InvalidDataError("a text or a whole number", field="episode", value=episode)
    if "diagnostics" in message:
        state = states.get(episode)
        if state is None:
            raise InvalidDataError("an episode that was begun with features", episode=episode)
        decision = state.observe(message["diagnostics"])  # type: ignore[arg-type]
        return json.dumps({"episode": episode, **decision._asdict(), "reason": decision.reason})
    if message.get("end"):
        state = states.pop(episode, None)
        if state is None:
            raise InvalidDataError("an episode that was begun with features", episode=episode)
        state.finish()
        return json.dumps({"episode": episode, "ended": True, "handoff_step": state.handoff_step})
    if "features" in message:
        if episode in states:
            raise InvalidDataError("an episode that was not begun before, or was ended", episode=episode)
        states[episode] = router.start(message["features"], shadow=shadow, episode=episode, log=log)  # type: ignore[arg-type]
        return json.dumps({"episode": episode, "started": True})
    raise InvalidDataError("one of features, diagnostics and end", episode=episode, field="keys", value=sorted(message))


def _parse(line: str) -> dict[str, object]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise InvalidDataError("a JSON object", field="the line", value=line.strip()) from error
    if not isinstance(message, dict):
        raise InvalidDataError("a JSON object", field="the line", value=line.strip())
    return message
