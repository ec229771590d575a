"""What happened in an episode: a header, what happened in order, and the end; as a value and as a JSON Lines file.

The file is written as the episode goes and named only when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from bayes_tacit.agents.protocols import (
    Agent,
    BrokenTranscriptError,
    History,
    Observation,
    Proposal,
    Step,
    StepResult,
    TornTranscriptError,
)
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.events import EventLog, LogFormat, parse_event
from bayes_tacit.files import as_path, regular_file
from bayes_tacit.router import Call

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Status = Literal["done", "budget", "actor_error", "environment_error"]
"""How an episode ended: the environment said so, the budget was spent, or something broke."""

CONCLUSIVE: tuple[Status, ...] = ("done", "budget")
"""Ends that say something about the agents."""


@dataclass(frozen=True)
class RouterCall:
    """What the router said: who acts next, the calls that asking cost, and the `Decision` by name (empty for none)."""

    call: Call = "cheap"
    one_off_calls: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A call that gave no answer: what happened, and the seconds waited before the next one (None if it was given up).

    A failed call is on record but costs nothing: the paper's formula charges answers.
    """

    message: str
    waited: float | None


@dataclass(frozen=True)
class Header:
    """Who played what under which rules.

    Attributes
    ----------
    episode, policy, timing
        Id of the task, the router's policy, and where Cheap's checkpoints were.
    cheap, strong
        Names of the actors; None where there was none.
    max_actions, max_calls
        The budget.
    info
        Anything else worth keeping, as JSON values.
    """

    episode: str
    policy: str
    timing: Timing
    cheap: str | None
    strong: str | None
    max_actions: int
    max_calls: int | None
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResetRecord:
    """The environment began, for the first time (run 0) or again (run 1, without the task's features)."""

    run: int
    observation: Observation
    features: Mapping[str, float] | None
    seconds: float


@dataclass(frozen=True)
class ChoiceRecord:
    """What the router said before the first step, or when Cheap's episode had ended."""

    run: int
    step: int
    choice: RouterCall


@dataclass(frozen=True)
class StepRecord:
    """One call that was answered.

    Attributes
    ----------
    run, step
        Position: how often the environment was reset before, and how many actions were executed since.
    agent, proposal, failures
        Who was asked, the answer, and earlier attempts that gave none.
    executed, result
        Whether the action was sent to the environment, which a discarded proposal was not; what came of it, None if
        nothing did or the environment broke.
    diagnostics, choice
        Of Cheap's checkpoint, and what the router said there; None for Strong.
    cost, seconds
        What the call, and one-off calls at its checkpoint, added to the cost; how long the environment took.
    """

    run: int
    step: int
    agent: Agent
    proposal: Proposal
    executed: bool
    result: StepResult | None
    diagnostics: Mapping[str, float] | None
    choice: RouterCall | None
    failures: tuple[Failure, ...]
    cost: float
    seconds: float


@dataclass(frozen=True)
class End:
    """How it ended.

    Attributes
    ----------
    success, error, failures
        Whether the task was solved (false wherever something broke), what broke, and the attempts at the call that was
        given up.
    actions
        Executed actions of the last run; calls, cost and seconds are of the whole episode, restarts included.
    handoff_step, restarted
        The step from which Strong acted for good, None if it did not; 0 after a restart.
    """

    status: Status
    success: bool
    actions: int
    cheap_calls: int
    strong_calls: int
    one_off_calls: int
    cost: float
    handoff_step: int | None
    restarted: bool
    seconds: float
    error: str | None = None
    failures: tuple[Failure, ...] = ()


Record = ResetRecord | ChoiceRecord | StepRecord


@dataclass(frozen=True)
class Transcript:
    """A finished episode: `header`, `records` in order, and `end`."""

    header: Header
    records: tuple[Record, ...]
    end: End

    @property
    def episode(self) -> str:
        """Id of the task."""
        return self.header.episode

    @property
    def conclusive(self) -> bool:
        """Whether the end says something about the agents, and not about a server or an engine that broke."""
        return self.end.status in CONCLUSIVE

    @property
    def resets(self) -> tuple[ResetRecord, ...]:
        """The beginnings: one, two after a restart, none if the environment never began."""
        return tuple(record for record in self.records if isinstance(record, ResetRecord))

    @property
    def task(self) -> str:
        """What was to be done; empty if the environment never began."""
        return self.resets[0].observation.task if self.resets else ""

    @property
    def features(self) -> Mapping[str, float] | None:
        """The task's features, if there was an extractor."""
        return self.resets[0].features if self.resets else None

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """Every answered call, in order."""
        return tuple(record for record in self.records if isinstance(record, StepRecord))

    @property
    def executed(self) -> tuple[StepRecord, ...]:
        """The actions of the last run that have a result."""
        run = max(0, len(self.resets) - 1)
        return tuple(step for step in self.steps if step.run == run and step.result is not None)

    @property
    def checkpoints(self) -> tuple[StepRecord, ...]:
        """Cheap's checkpoints."""
        return tuple(step for step in self.steps if step.choice is not None)

    def history(self, n_steps: int | None = None) -> History:
        """Return what was seen in the last run, up to so many actions.

        Raises
        ------
        InvalidDataError
            If the environment never began.
        """
        if not self.resets:
            expected, status = "an environment that began", self.end.status
            raise InvalidDataError(expected, episode=self.episode, field="status", value=status)
        taken = self.executed[:n_steps]
        steps = tuple(Step(step.agent, step.proposal, step.result) for step in taken if step.result is not None)
        return History(self.resets[-1].observation, steps, self.episode)

    def fingerprint(self) -> str:
        """Digest all but the seconds: equal for two plays that went the same way."""
        return hashlib.sha256(json.dumps(_without_seconds(asdict(self)), sort_keys=True).encode()).hexdigest()


EVENTS: dict[str, type[Header] | type[Record] | type[End]] = {
    "start": Header,
    "reset": ResetRecord,
    "choice": ChoiceRecord,
    "step": StepRecord,
    "end": End,
}
_NAMES = {kind: event for event, kind in EVENTS.items()}


def _without_seconds(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_seconds(inner) for key, inner in value.items() if key not in ("seconds", "waited")}
    return [_without_seconds(inner) for inner in value] if isinstance(value, list | tuple) else value


LOG = LogFormat("bayes_tacit.transcript", "a transcript", tuple(EVENTS), ("start",), broken=BrokenTranscriptError)

PARTIAL = ".partial"
"""Suffix of a transcript that is being written, or was when its program stopped."""


class TranscriptWriter:
    """Writes each line at once to a file with the suffix `.partial`, which gets its name with the last line.

    So a file under its own name is whole. What a stopped program leaves has the other name and is overwritten when the
    episode is played again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        self._log = EventLog(self.path.with_name(self.path.name + PARTIAL), LOG, fresh=True)
        self._episode = ""

    def write(self, record: Header | Record | End) -> None:
        """Write a line; an end gives the file its name."""
        if isinstance(record, Header):
            self._episode = record.episode
        self._log.append(_NAMES[type(record)], self._episode, asdict(record))
        if isinstance(record, End):
            self._log.sync()
            self._log.close()
            self._log.path.replace(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def write_transcript(transcript: Transcript, path: str | os.PathLike[str]) -> None:
    """Write a finished transcript, whole or not at all."""
    with TranscriptWriter(path) as writer:
        for record in (transcript.header, *transcript.records, transcript.end):
            writer.write(record)


def read_transcripts(folder: str | os.PathLike[str]) -> dict[str, Transcript]:
    """Read the finished transcripts (`*.jsonl`) of a folder, by file name without suffix; of a broken one, warn."""
    home = as_path(folder)
    if not home.is_dir():
        raise MissingFileError(f"{home}: no such folder; expected a folder of transcripts")
    found = {}
    for path in sorted(home.glob("*.jsonl")):
        transcript = read_if_whole(path)
        if transcript is not None:
            found[path.stem] = transcript
    return found


def read_if_whole(path: str | os.PathLike[str]) -> Transcript | None:
    """Read a transcript among others: None for a torn one, and, with a warning, for a broken one."""
    try:
        return read_transcript(path)
    except TornTranscriptError:
        return None
    except BrokenTranscriptError as error:
        warnings.warn(f"{error}; passed over", TacitWarning, stacklevel=3)
        return None


def set_aside(path: Path) -> Path:
    """Rename a broken transcript, so that its episode can be played again and nothing is lost; give the new name."""
    for number in count(1):
        aside = path.with_name(f"{path.name}.broken{'' if number == 1 else number}")
        if not aside.exists():
            path.rename(aside)
            return aside
    raise AssertionError


def read_transcript(path: str | os.PathLike[str]) -> Transcript:
    """Read a transcript, checking all of it.

    Raises
    ------
    TornTranscriptError
        If it has no end, or its last line is cut short.
    BrokenTranscriptError
        If it is no transcript, or a damaged one, such as one that lacks lines.
    FileFormatError
        If it cannot be read, or was written by another version.
    """
    file = regular_file(path, LOG.words)
    try:
        whole, _, rest = file.read_bytes().rpartition(b"\n")
    except OSError as error:
        raise FileFormatError(f"{file}: cannot be read ({error}); expected a transcript") from None
    header, end, records, taken = None, None, list[Record](), list[StepRecord]()
    for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
        where = f"{file}, line {number}"
        record = _record(line, where, None if header is None else header.episode)
        event = _NAMES[type(record)]
        if end is not None:
            raise BrokenTranscriptError(f"{where}: event is {event!r}; expected nothing after the event 'end'")
        if isinstance(record, Header):
            if header is not None:
                raise BrokenTranscriptError(f"{where}: expected one start and one end, at the start and the end")
            header = record
        elif header is None:
            raise BrokenTranscriptError(f"{where}: expected the event 'start'")
        elif isinstance(record, End):
            end = record
            _check_end(end, records, taken, where)
        else:
            taken = _following(record, records, taken, where)
            records.append(record)
    if rest or header is None or end is None:
        raise TornTranscriptError(f"{file}: has no end; the program that wrote it was stopped")
    return Transcript(header, tuple(records), end)


def _record(line: bytes, where: str, episode: str | None) -> Header | Record | End:
    from pydantic import ValidationError

    content = parse_event(line, where, LOG)
    event = content.pop("event")
    if content["episode"] != episode is not None:
        raise BrokenTranscriptError(
            f"{where}: episode is {content['episode']!r}; expected {episode!r}, as at the start"
        )
    common = ("episode", "format", "schema_version") if event == "start" else ("episode",)
    unknown = sorted(content.keys() - {field.name for field in fields(EVENTS[event])} - set(common))
    if unknown:
        raise BrokenTranscriptError(f"{where}: {unknown[0]!r} is unknown; expected the keys of the event {event!r}")
    try:
        return _adapter(event).validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BrokenTranscriptError(f"{where}: {place} is {first['input']!r}; {first['msg']}") from None


@cache
def _adapter(event: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(EVENTS[event])


def _following(record: Record, before: list[Record], taken: list[StepRecord], where: str) -> list[StepRecord]:
    """Check a line against those before it; return the actions since the last reset, this one included."""
    resets = before[-1].run + 1 if before else 0
    if isinstance(record, ResetRecord):
        _agree(where, "run", record.run, resets, "the number of resets before")
        return []
    if not resets:
        _refuse_unbegun(_NAMES[type(record)], where)
    _agree(where, "run", record.run, resets - 1, "that of the last reset")
    _agree(where, "step", record.step, len(taken), "the number of actions since the last reset")
    if isinstance(record, StepRecord) and record.result is not None:
        taken.append(record)
    return taken


def _check_end(end: End, records: Sequence[Record], taken: Sequence[StepRecord], where: str) -> None:
    if not records:
        if end.status != "environment_error":  # else the environment never began
            _refuse_unbegun("end", where)
        return
    agents = [record.agent for record in records if isinstance(record, StepRecord)]
    counts = {"actions": len(taken), "cheap_calls": agents.count("cheap"), "strong_calls": agents.count("strong")}
    for name, known in counts.items():
        _agree(where, name, getattr(end, name), known, "as many as the lines before have")
    last = taken[-1].result if taken else None
    done = last is not None and last.done
    if end.status in CONCLUSIVE and (end.status == "done") != done:
        over = "was over" if end.status == "done" else "was not over"
        raise BrokenTranscriptError(
            f"{where}: status is {end.status!r}; expected a last action with which the environment {over}"
        )
    success = end.status == "done" and last is not None and last.success
    _agree(where, "success", end.success, success, "as the last action has it")


def _agree(where: str, field: str, value: object, known: object, why: str) -> None:
    if value != known:
        raise BrokenTranscriptError(f"{where}: {field} is {value!r}; expected {known!r}, {why}")


def _refuse_unbegun(event: str, where: str) -> NoReturn:
    raise BrokenTranscriptError(f"{where}: event is {event!r}; expected an event 'reset' first")
