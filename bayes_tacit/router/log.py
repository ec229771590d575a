"""The decision log, an event log from which every score can be computed again, and the replay that does so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError
from bayes_tacit.events import EventLog, LogFormat, read_events
from bayes_tacit.router.state import Decision, HandoffState

if TYPE_CHECKING:
    from bayes_tacit.router.router import Router

LOG = LogFormat("bayes_tacit.decisions", "a log of decisions", ("start", "restore", "step", "end"))

START = ("event", "episode", "format", "schema_version", "router", "policy", "alpha", "timing", "handoff", "shadow")
START_KEYS = (*START, "features", "opening")
RESTORE_KEYS = ("event", "episode", "format", "schema_version", "snapshot")
STEP_KEYS = ("event", "episode", "diagnostics", *Decision._fields)
END_KEYS = ("event", "episode", "closing")


class DecisionLog(EventLog):
    """Appends a line for each start, observation and end of an episode.

    One `DecisionLog` writes to a file at a time, in the process that opened it (see `bayes_tacit.events.EventLog`).

    ============  ======================================================================================================
    event         what the line holds besides the episode's name
    ============  ======================================================================================================
    start         router (fingerprint), policy, alpha, timing, handoff, shadow, features by name, opening (the decision
                  before the first step, or null)
    step          diagnostics by name, and the decision
    restore       snapshot
    end           closing: the decision of a policy that judges the whole episode, or null
    ============  ======================================================================================================

    Parameters
    ----------
    path
        The file; made if it does not exist.
    keep_going
        What happens where a line cannot be written, such as on a full disk: by default it is an error, and the episode
        stays as it was. If true, that line and all later ones are left out, with one warning, and decisions go on.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from bayes_tacit import Router, fit_map, load_example
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> path = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> with DecisionLog(path) as log:
    ...     state = router.start(dict.fromkeys(router.feature_names, 0), episode="task-17", log=log)
    ...     decision = state.observe(dict.fromkeys(router.diagnostic_names, 1))
    ...     state.finish()
    >>> [json.loads(line)["event"] for line in path.read_text().splitlines()]
    ['start', 'step', 'end']
    """

    def __init__(self, path: str | os.PathLike[str], *, keep_going: bool = False) -> None:
        super().__init__(path, LOG, keep_going=keep_going)

    def started(self, state: HandoffState) -> None:
        """Record the start of an episode: the router and its settings, the features, and what they decide."""
        router, opening = state.router, state.opening
        features = router.features.by_name(state.features)
        content = {**router.settings(), "shadow": state.shadow, "features": features}
        self.append("start", state.episode, {**content, "opening": None if opening is None else opening._asdict()})

    def restored(self, state: HandoffState) -> None:
        """Record that an episode goes on from a snapshot."""
        self.append("restore", state.episode, {"snapshot": state.snapshot()})

    def observed(self, episode: str | int | None, diagnostics: Mapping[str, float], decision: Decision) -> None:
        """Record a checkpoint and the decision there."""
        self.append("step", episode, {"diagnostics": dict(diagnostics), **decision._asdict()})

    def finished(self, episode: str | int | None, closing: Decision | None = None) -> None:
        """Record the end of an episode, and what was decided there."""
        self.append("end", episode, {"closing": None if closing is None else closing._asdict()})


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


def replay(path: str | os.PathLike[str], *routers: Router, tolerance: float = 1e-12) -> Replay:
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
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> path = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> with DecisionLog(path) as log:
    ...     state = router.start(dict.fromkeys(router.feature_names, 0), episode="task-17", log=log)
    ...     decision = state.observe(dict.fromkeys(router.diagnostic_names, 1))
    >>> replay(path, router)
    Replay(episodes=1, decisions=1, mismatches=())
    """
    known = {router.fingerprint: router for router in routers}
    running: dict[str | int, HandoffState] = {}
    episodes = decisions = 0
    mismatches: list[Mismatch] = []
    for number, content in read_events(path, LOG):
        episode = content["episode"]
        try:
            logged, decision = _again(content, running, known)
        except TacitError as error:
            raise FileFormatError(f"{path}, line {number}: {error}") from None
        episodes += content["event"] in ("start", "restore")
        if decision is None:
            continue
        decisions += 1
        mismatches += [
            Mismatch(number, episode, decision.step, field, logged.get(field), computed)
            for field, computed in decision._asdict().items()
            if not _same(logged.get(field), computed, tolerance)
        ]
    return Replay(episodes, decisions, tuple(mismatches))


def _again(
    content: dict[str, Any], running: dict[str | int, HandoffState], known: Mapping[str, Router]
) -> tuple[Mapping[str, object], Decision | None]:
    """Compute what a line says again: what was logged, and the decision."""
    event, episode = content["event"], content["episode"]
    if event == "restore":
        snapshot = validate.record("", content, RESTORE_KEYS)["snapshot"]
        router = _router(snapshot.get("router") if isinstance(snapshot, dict) else None, known)
        running[episode] = router.restore(snapshot)  # type: ignore[arg-type]
        return {}, None
    if event == "start":
        line: dict[str, Any] = validate.record("", content, START_KEYS)
        router = _router(line["router"], known)
        for name, expected in router.settings().items():
            if line[name] != expected:
                raise InvalidDataError(f"{expected!r}, as its router has it", field=name, value=line[name])
        shadow = validate.flag("shadow", line["shadow"])
        running[episode] = router.start(line["features"], shadow=shadow, episode=episode)
        return line["opening"] or {}, running[episode].opening
    if episode not in running:
        raise InvalidDataError("an episode that was started in an earlier line", field="episode", value=episode)
    if event == "end":
        validate.record("", content, END_KEYS)
        return content["closing"] or {}, running.pop(episode).finish()
    validate.record("", content, STEP_KEYS)
    return content, running[episode].observe(content["diagnostics"])


def _router(fingerprint: object, known: Mapping[str, Router]) -> Router:
    if not isinstance(fingerprint, str) or fingerprint not in known:
        expected = f"that of a router to replay with: {', '.join(known)}"
        raise InvalidDataError(expected, field="router", value=fingerprint)
    return known[fingerprint]


def _same(logged: object, computed: object, tolerance: float) -> bool:
    if type(computed) is float and type(logged) in (int, float):
        return abs(logged - computed) <= tolerance * max(1.0, abs(computed))  # type: ignore[operator]
    return type(logged) is type(computed) and logged == computed
