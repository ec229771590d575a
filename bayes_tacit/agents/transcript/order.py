"""Whether the lines of a transcript belong together: one reset first, every action in its place, an end that agrees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from bayes_tacit.agents.errors import BrokenTranscriptError
from bayes_tacit.agents.transcript.record import CONCLUSIVE, End, Header, Record, ResetRecord, StepRecord, event_of


def check_order(records: Sequence[Record], end: End, file: Path) -> None:
    """Check what stands between the start and the end of a transcript, and the end against it.

    Raises
    ------
    BrokenTranscriptError
        If a line is not where it belongs; the message has the file and the line.
    """
    if not records and end.status == "environment_error":
        # The environment never began.
        return
    resets = 0
    taken: list[StepRecord] = []
    for line, record in enumerate((*records, end), 2):
        if not resets and not isinstance(record, ResetRecord):
            raise BrokenTranscriptError(
                f"{file}, line {line}: event is {event_of(record)!r}; expected an event 'reset' first"
            )
        if isinstance(record, End):
            _check_end(end, records, taken, f"{file}, line {line}")
        elif isinstance(record, ResetRecord):
            if record.run != resets:
                _refuse(f"{file}, line {line}", "run", record.run, f"{resets}, the number of resets before")
            resets, taken = resets + 1, []
        else:
            if record.run != resets - 1:
                _refuse(f"{file}, line {line}", "run", record.run, f"{resets - 1}, that of the last reset")
            if record.step != len(taken):
                expected = f"{len(taken)}, the number of actions since the last reset"
                _refuse(f"{file}, line {line}", "step", record.step, expected)
            if isinstance(record, StepRecord) and record.result is not None:
                taken.append(record)


def check_ends(records: Sequence[Header | Record | End], file: Path) -> None:
    """Check that nothing follows an end."""
    for line, (before, record) in enumerate(pairwise(records), 2):
        if isinstance(before, End):
            raise BrokenTranscriptError(
                f"{file}, line {line}: event is {event_of(record)!r}; expected nothing after the event 'end'"
            )


def _check_end(end: End, records: Sequence[Record], taken: Sequence[StepRecord], where: str) -> None:
    agents = [record.agent for record in records if isinstance(record, StepRecord)]
    counts = {"actions": len(taken), "cheap_calls": agents.count("cheap"), "strong_calls": agents.count("strong")}
    for name, count in counts.items():
        if getattr(end, name) != count:
            _refuse(where, name, getattr(end, name), f"{count}, as many as the lines before have")
    last = taken[-1].result if taken else None
    done = last is not None and last.done
    if end.status in CONCLUSIVE and (end.status == "done") != done:
        over = "was over" if end.status == "done" else "was not over"
        _refuse(where, "status", end.status, f"a last action with which the environment {over}")
    success = end.status == "done" and last is not None and last.success
    if end.success != success:
        _refuse(where, "success", end.success, f"{success}, as the last action has it")


def _refuse(where: str, field: str, value: object, expected: str) -> NoReturn:
    raise BrokenTranscriptError(f"{where}: {field} is {value!r}; expected {expected}")
