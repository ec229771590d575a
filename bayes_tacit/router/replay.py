"""Computing the scores of a decision log again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError, TacitWarning
from bayes_tacit.files import regular_file, strict_json
from bayes_tacit.router.decision import Decision
from bayes_tacit.router.log import SCHEMA_VERSION

if TYPE_CHECKING:
    from bayes_tacit.router.policy_router import PolicyRouter
    from bayes_tacit.router.policy_state import PolicyState
    from bayes_tacit.router.router import Router
    from bayes_tacit.router.state import HandoffState

START = ("event", "episode", "schema_version", "router", "alpha", "rule", "timing", "shadow", "features")
SINCE_2 = ("policy", "handoff", "opening")
"""What older logs do not say at a start."""

OBSERVE = ("event", "episode", "diagnostics", *Decision._fields)
CLOSING = "closing"
CALL = "call"
"""What older logs do not say of a decision."""

RESTORE = ("event", "episode", "schema_version", "snapshot")
FINISH = ("event", "episode")


@dataclass(frozen=True)
class Mismatch:
    """A value in the log that is not what the router computes.

    Attributes
    ----------
    line
        Line of the log, from 1.
    episode, step
        The checkpoint.
    field
        Which part of the decision.
    logged, computed
        Both values.
    """

    line: int
    episode: str | int
    step: int
    field: str
    logged: object
    computed: object


@dataclass(frozen=True)
class Replay:
    """What came of a replay.

    Attributes
    ----------
    episodes
        How many were started or restored.
    decisions
        How many were computed again.
    mismatches
        Where the log says something else.
    """

    episodes: int
    decisions: int
    mismatches: tuple[Mismatch, ...]

    @property
    def agrees(self) -> bool:
        """Whether the log is what the router computes."""
        return not self.mismatches


def replay(path: str | os.PathLike[str], *routers: Router | PolicyRouter, tolerance: float = 1e-12) -> Replay:
    """Run every episode of a log through its router again, and compare.

    Parameters
    ----------
    path
        A file that a `DecisionLog` wrote. A last line that was cut short is left out, with a warning.
    routers
        The router, or routers, whose decisions are in it.
    tolerance
        How far numbers may differ, for a log from a machine whose arithmetic rounds differently.

    Raises
    ------
    FileFormatError
        If a line is not what a `DecisionLog` writes, or from a router that was not given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayes_tacit import Router, fit_map, load_example
    >>> from bayes_tacit.router import DecisionLog
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> path = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> with DecisionLog(path) as log:
    ...     state = router.start(dict.fromkeys(router.feature_names, 0), episode="task-17", log=log)
    ...     decision = state.observe(dict.fromkeys(router.diagnostic_names, 1))
    >>> replay(path, router)
    Replay(episodes=1, decisions=1, mismatches=())
    """
    known = {router.fingerprint: router for router in routers}
    running: dict[str | int, _Running] = {}
    episodes = decisions = 0
    mismatches: list[Mismatch] = []
    for number, content in _lines(path):
        try:
            event, episode = _event(content)
            if event in ("start", "restore"):
                begun = running[episode] = _begin(event, content, known)
                logged, decision = content.get("opening"), begun.state.opening if event == "start" else None
                episodes += 1
            elif episode not in running:
                raise InvalidDataError("an episode that was started in an earlier line", field="episode", value=episode)
            elif event == "finish":
                validate.record("", content, (*FINISH, CLOSING) if CLOSING in content else FINISH)
                begun = running.pop(episode)
                logged, decision = content.get(CLOSING), begun.state.finish()
            else:
                begun = running[episode]
                logged = validate.record("", content, begun.observed)
                decision = begun.state.observe(content["diagnostics"])
        except TacitError as error:
            raise FileFormatError(f"{path}, line {number}: {error}") from None
        if decision is None:
            continue
        decisions += 1
        given: Mapping[str, object] = logged if isinstance(logged, Mapping) else {}
        mismatches += [
            Mismatch(number, episode, decision.step, field, given.get(field), computed)
            for field, computed in decision._asdict().items()
            if field in begun.observed and not _same(given.get(field), computed, tolerance)
        ]
    return Replay(episodes, decisions, tuple(mismatches))


class _Running(NamedTuple):
    """An episode, and the keys of its observations."""

    state: HandoffState | PolicyState
    observed: tuple[str, ...]


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    source = regular_file(path, "a log written by DecisionLog")
    with source.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                content = strict_json(line)
            except ValueError as error:
                if line.endswith(b"\n"):
                    raise FileFormatError(f"{path}, line {number}: not valid JSON ({error})") from None
                warnings.warn(f"{path}, line {number}: cut short, left out", TacitWarning, stacklevel=3)
                continue
            if not isinstance(content, dict):
                raise FileFormatError(f"{path}, line {number}: it is {content!r}; expected an object")
            yield number, content


def _event(content: dict[str, Any]) -> tuple[str, str | int]:
    event = validate.choice("event", content.get("event"), ("start", "observe", "restore", "finish"))
    return event, validate.episode_id("episode", content.get("episode"))


def _begin(event: str, content: dict[str, Any], known: dict[str, Router | PolicyRouter]) -> _Running:
    version = content.get("schema_version")
    old = type(version) is int and version == 1
    keys = RESTORE if event == "restore" else START if old else (*START, *SINCE_2)
    line = validate.record("", content, keys)
    if not old and (type(version) is not int or version != SCHEMA_VERSION):
        raise InvalidDataError(f"1 or {SCHEMA_VERSION}", field="schema_version", value=version)
    observed = tuple(key for key in OBSERVE if key != CALL) if old else OBSERVE
    if event == "restore":
        snapshot = content["snapshot"]
        router = _router(snapshot.get("router") if isinstance(snapshot, dict) else None, known)
        return _Running(router.restore(snapshot), observed)
    router = _router(line["router"], known)
    for name, expected in router.settings().items():
        if name in line and line[name] != expected:
            raise InvalidDataError(f"{expected!r}, as its router has it", field=name, value=line[name])
    shadow = validate.flag("shadow", line["shadow"])
    episode = validate.episode_id("episode", line["episode"])
    return _Running(router.start(content["features"], shadow=shadow, episode=episode), observed)


def _router(fingerprint: object, known: dict[str, Router | PolicyRouter]) -> Router | PolicyRouter:
    if not isinstance(fingerprint, str) or fingerprint not in known:
        raise InvalidDataError(
            f"that of a router to replay with: {', '.join(known)}", field="router", value=fingerprint
        )
    return known[fingerprint]


def _same(logged: object, computed: object, tolerance: float) -> bool:
    if type(computed) is float and type(logged) in (int, float):
        return abs(logged - computed) <= tolerance * max(1.0, abs(computed))  # type: ignore[operator]
    return type(logged) is type(computed) and logged == computed
