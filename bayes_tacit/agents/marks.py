"""Marks: the range of checkpoints at which handing off was due, from a table or a rule, and as windows of episodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import as_path
from bayes_tacit.logs.documents import read_table
from bayes_tacit.logs.extractor import UNCERTAINTY
from bayes_tacit.logs.reader import DIAGNOSTICS as READ

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

MarkEvidence = Literal["one_step", "range"]
"""What a mark says about the threshold: that it is crossed at the recommended checkpoint, or somewhere in the range."""

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
            value = (self.start, self.recommended, self.end)
            raise InvalidDataError("start <= recommended <= end", field="mark", value=value)

    def window(self, evidence: MarkEvidence) -> tuple[int, int]:
        """Return the window for `Episodes`."""
        if validate.choice("evidence", evidence, ("one_step", "range")) == "one_step":
            return self.recommended, self.recommended
        return self.start, self.end

    def check(self, n_steps: int, episode: str) -> None:
        """Refuse a mark that is not inside a rollout of so many checkpoints."""
        if self.end >= n_steps:
            expected = f"at most {n_steps - 1}, the last checkpoint of the Cheap rollout"
            raise InvalidDataError(expected, episode=episode, field="end of the mark", value=self.end)


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
    start, end = np.full((2, len(episodes)), np.nan)
    for name, mark in marks.items():
        if name not in positions:
            expected = f"an id of these {len(episodes)} episodes"
            raise InvalidDataError(expected, episode=name, field="episode of a mark", value=name)
        at = positions[name]
        if outcomes[at] != "01":
            expected = "'01': only such an episode can have a mark"
            raise InvalidDataError(expected, episode=name, field="paired outcome", value=str(outcomes[at]))
        mark.check(int(episodes.n_steps[at]), name)
        start[at], end[at] = mark.window(evidence)
    return Episodes(episodes.dataset.assign(window_start=("episode", start), window_end=("episode", end)))


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
        mark = first_run(clear)
        if mark is not None:
            found[str(episodes.ids[at])] = mark
    return found


def first_run(clear: Sequence[bool], longest: int | None = None) -> Mark | None:
    """Mark the first run of checkpoints at which something holds, its first as the recommended one.

    Examples
    --------
    >>> first_run([False, True, True, False, True])
    Mark(start=1, end=2, recommended=1)
    """
    if True not in clear:
        return None
    start = clear.index(True)
    end = clear.index(False, start) - 1 if False in clear[start:] else len(clear) - 1
    return Mark(start, end if longest is None else min(end, start + longest - 1), start)


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
    marks: dict[str, Mark] = {}
    seen: set[str] = set()
    for where, row in read_table(as_path(path), "a table of marks", ("episode", "window_start", "window_end"))[1]:
        episode = (row["episode"] or "").strip()
        if not episode or episode in seen:
            raise InvalidDataError("an id that comes once", field="episode", value=episode, where=where)
        seen.add(episode)
        given = {name: (row.get(name) or "").strip() for name in ("window_start", "window_end", "recommended")}
        if not any(given.values()):
            continue
        given["recommended"] = given["recommended"] or given["window_start"]
        for name, text in given.items():
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise InvalidDataError("a whole number >= 0", episode=episode, field=name, value=text, where=where)
        start, end, recommended = map(int, given.values())
        if not start <= recommended <= end:
            expected, value = "window_start <= recommended <= window_end", (start, recommended, end)
            raise InvalidDataError(expected, episode=episode, field="mark", value=value, where=where)
        marks[episode] = Mark(start, end, recommended)
    return marks
