"""Marks: the range of checkpoints at which handing off was due, from a table or a rule, and as windows of episodes."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import regular_file
from bayes_tacit.logs.extractor import UNCERTAINTY
from bayes_tacit.logs.reader import DIAGNOSTICS as READ

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

MarkEvidence = Literal["one_step", "range"]
"""What a mark says about the threshold: that it is crossed at the recommended checkpoint, or somewhere in the range."""

COLUMNS = ("episode", "window_start", "window_end")

NO_SIGNS = (UNCERTAINTY, *READ)
"""Diagnostics that are above 0 in every step, and therefore no signs by themselves."""


@dataclass(frozen=True)
class Mark:
    """A range of checkpoints after an action, counted from 0 with both ends included, and the one recommended.

    A mark at t means: hand off after Cheap's action t and its result, before action t + 1.

    Examples
    --------
    >>> mark = Mark(start=3, end=6, recommended=4)
    >>> mark.window("one_step"), mark.window("range")
    ((4, 4), (3, 6))
    """

    start: int
    end: int
    recommended: int

    def __post_init__(self) -> None:
        """Check the order."""
        for name in ("start", "end", "recommended"):
            validate.whole(f"{name} of the mark", getattr(self, name), 0)
        if not self.start <= self.recommended <= self.end:
            raise InvalidDataError(
                "start <= recommended <= end", field="mark", value=(self.start, self.recommended, self.end)
            )

    def window(self, evidence: MarkEvidence) -> tuple[int, int]:
        """Return the window for `Episodes`."""
        if validate.choice("evidence", evidence, ("one_step", "range")) == "one_step":
            return self.recommended, self.recommended
        return self.start, self.end

    def check(self, n_steps: int, episode: str) -> None:
        """Refuse a mark that is not inside a rollout of so many checkpoints."""
        if self.end >= n_steps:
            raise InvalidDataError(
                f"at most {n_steps - 1}, the last checkpoint of the Cheap rollout",
                episode=episode,
                field="end of the mark",
                value=self.end,
            )


def with_marks(episodes: Episodes, marks: Mapping[str, Mark], evidence: MarkEvidence = "range") -> Episodes:
    """Return the episodes with the windows of these marks in place of any they had.

    Parameters
    ----------
    episodes
        Episodes; those not marked have no window afterwards.
    marks
        Marks by id. They are marks after an action, also where checkpoints are proposals: the shift by one belongs to
        the timing of the fit.
    evidence
        Whether the window is the recommended checkpoint ("one_step", the paper's main experiments) or the whole range
        ("range", its larger study).

    Raises
    ------
    InvalidDataError
        If a mark is for no episode, for one that is not AB = 01, or not inside its rollout.
    """
    from bayes_tacit.data.episodes import Episodes

    positions = {str(name): at for at, name in enumerate(episodes.ids.tolist())}
    outcomes = episodes.outcomes
    start, end = np.full(len(episodes), np.nan), np.full(len(episodes), np.nan)
    for name, mark in marks.items():
        if name not in positions:
            raise InvalidDataError(
                f"an id of these {len(episodes)} episodes", episode=name, field="episode of a mark", value=name
            )
        at = positions[name]
        if outcomes[at] != "01":
            raise InvalidDataError(
                "'01': only such an episode can have a mark",
                episode=name,
                field="paired outcome",
                value=str(outcomes[at]),
            )
        mark.check(int(episodes.n_steps[at]), name)
        start[at], end[at] = mark.window(evidence)
    dataset = episodes.dataset.assign(window_start=("episode", start), window_end=("episode", end))
    return Episodes(dataset)


def mark_unproductive(
    episodes: Episodes, n_steps: int = 3, *, diagnostics: Sequence[str] | None = None, least: float = 0.5
) -> dict[str, Mark]:
    """Mark the first run of checkpoints at which the last `n_steps` steps were unproductive, in episodes with AB = 01.

    A step is unproductive if one of the diagnostics is at least `least`. The range ends with the run; the recommended
    checkpoint is its first. Where there is no such run there is no mark. The rule does not look at what Strong did:
    it says when failure was clear, and that recovery was possible only so far as Strong solved the task.

    Parameters
    ----------
    episodes
        Episodes, imported or played.
    n_steps
        Unproductive steps in a row.
    diagnostics
        The signs; by default all but `uncertainty` and what is read from words.
    least
        The value from which on a diagnostic is a sign.

    Returns
    -------
    dict
        Marks by episode, for `with_marks`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> episodes = load_example()
    >>> marks = mark_unproductive(episodes, 2, diagnostics=["stalled", "invalid"])
    >>> len(marks), int((episodes.outcomes == "01").sum())
    (538, 614)
    """
    validate.whole("n_steps", n_steps, 1)
    validate.number("least", least, "a finite number > 0", above=0)
    names = [name for name in episodes.diagnostic_names if name not in NO_SIGNS] if diagnostics is None else diagnostics
    for name in names:
        validate.choice("diagnostic", name, episodes.diagnostic_names)
    found: dict[str, Mark] = {}
    due = np.flatnonzero(episodes.outcomes == "01")
    values = episodes.dataset["diagnostics"].isel(episode=due).sel(diagnostic=list(names)).values
    # Past the end of an episode there is NaN, which is less than nothing.
    signs = (np.nan_to_num(values, nan=-np.inf) >= least).any(axis=2)
    for row, at in zip(signs, due, strict=True):
        run = 0
        clear = [(run := run + 1 if sign else 0) >= n_steps for sign in row[: episodes.n_steps[at]].tolist()]
        if True in clear:
            start = clear.index(True)
            end = clear.index(False, start) - 1 if False in clear[start:] else len(clear) - 1
            found[str(episodes.ids[at])] = Mark(start, end, start)
    return found


def read_marks(path: str | os.PathLike[str]) -> dict[str, Mark]:
    """Read marks from a CSV with the columns `episode`, `window_start`, `window_end` and, if wanted, `recommended`.

    Checkpoints count from 0, both ends are included. Without a recommended checkpoint it is the first of the range.
    Other columns, such as remarks, are ignored; a row whose checkpoints are all empty is an episode without a mark.

    Raises
    ------
    InvalidDataError
        With line, column and value, for what is no whole number, for a reversed range, and for an episode that comes
        twice.
    """
    file = regular_file(path, "a table of marks")
    marks: dict[str, Mark] = {}
    seen: set[str] = set()
    try:
        # The mark at the start that some spreadsheets write is no part of the first name.
        with file.open(encoding="utf-8-sig", newline="") as handle:
            table = csv.DictReader(handle, restkey="more", strict=True)
            missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise FileFormatError(f"{file}: no column {missing[0]!r}; expected {', '.join(COLUMNS)}")
            names = list(table.fieldnames or ())
            if any("\0" in name for name in names):
                raise FileFormatError(f"{file}, line 1: a name has a NUL character; expected {', '.join(COLUMNS)}")
            repeated = [name for name in (*COLUMNS, "recommended") if names.count(name) > 1]
            if repeated:
                raise FileFormatError(f"{file}: column {repeated[0]!r} is there twice; expected it once")
            for row in table:
                where = f"{file}, line {table.line_num}"
                if any("\0" in cell for cell in row.values() if isinstance(cell, str)):
                    raise InvalidDataError("text without NUL characters", field="a cell", value="\0", where=where)
                episode = (row["episode"] or "").strip()
                if not episode or episode in seen:
                    raise InvalidDataError("an id that comes once", field="episode", value=episode, where=where)
                seen.add(episode)
                if "more" in row:
                    raise InvalidDataError("as many values as columns", episode=episode, where=where)
                mark = _mark(row, episode, where)
                if mark is not None:
                    marks[episode] = mark
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{file}: not a CSV in UTF-8 ({error}); expected a table of marks") from None
    return marks


def _mark(row: dict[str, str | None], episode: str, where: str) -> Mark | None:
    given = {name: (row.get(name) or "").strip() for name in ("window_start", "window_end", "recommended")}
    if not any(given.values()):
        return None
    numbers = {}
    for name, text in given.items():
        if not text and name == "recommended":
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidDataError("a whole number >= 0", episode=episode, field=name, value=text, where=where)
        numbers[name] = int(text)
    start, end = numbers["window_start"], numbers["window_end"]
    recommended = numbers.get("recommended", start)
    if not start <= recommended <= end:
        raise InvalidDataError(
            "window_start <= recommended <= window_end",
            episode=episode,
            field="mark",
            value=(start, recommended, end),
            where=where,
        )
    return Mark(start, end, recommended)
