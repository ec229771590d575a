"""The numbers of a log of sessions."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.monitor import tables
from bayes_tacit.monitor.drift import Drift
from bayes_tacit.monitor.lines import EXPECTED, Lines
from bayes_tacit.monitor.reading import Training, read_into
from bayes_tacit.monitor.records import MOST_IN_MEMORY, Record, Records
from bayes_tacit.monitor.tables import Bin, Compared, Day, Spent, Succeeded
from bayes_tacit.router import PolicyRouter, Router
from bayes_tacit.router.ranges import Ranges

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

OFTEN = 0.01
"""Share of requests with an error of a server from which on it is worth a word."""


@dataclass(frozen=True)
class Summary:
    """What a log of sessions shows.

    Attributes
    ----------
    log
        The file.
    lines, cut
        How many lines it has, and how many of them were cut short and left out.
    sessions, handed
        How many sessions there were, and how many of them were handed off.
    first, last
        Times of the first and the last line, in seconds since 1970.
    requests, steps
        Totals.
    handoff_steps
        How many were handed off at each checkpoint; -1 is before the first step.
    spent
        What was spent, and what Strong alone would have cost.
    success
        Of all, of those that Cheap served to the end, and of those that were handed off.
    calibration
        Scores against outcomes, see `bayes_tacit.monitor.tables.Bin`.
    drifts
        Features and diagnostics against training; none without a router file.
    compared
        What the router in shadow would have done; none without one.
    days
        By day, the latest last.
    faults, missing, errors, fallbacks
        Requests with a fault of router or extractor, without something that the router needs, with an error of a
        server, and those that the other side served.
    routers
        What decided, by fingerprint, in words; `router` is the one that scores and drift are of.
    others
        Sessions of other routers than that one.
    latest
        The sessions that were heard of last.
    """

    log: str
    lines: int
    cut: int
    sessions: int
    handed: int
    first: float
    last: float
    requests: int
    steps: int
    handoff_steps: dict[int, int]
    spent: Spent
    success: list[Succeeded]
    calibration: list[Bin]
    drifts: list[Drift]
    compared: list[Compared]
    days: list[Day]
    faults: int
    missing: int
    errors: int
    fallbacks: int
    routers: dict[str, str]
    router: str | None
    others: int
    latest: list[Record] = field(repr=False)

    @property
    def warnings(self) -> list[str]:
        """What is worth a look, in sentences."""
        said = []
        for one in self.drifts:
            # Cheap's part of a session ends at the handoff, mostly with its worst steps still to come.
            expected = one.kind == "diagnostic" and one.verdict == "lower" and self.handed > 0
            if one.verdict != "alike" and not expected:
                gap = max(one.higher, one.lower)
                where = "higher and lower" if one.verdict == "both" else one.verdict
                said.append(
                    f"The {one.kind} `{one.name}` lies {where} than in training, by at least {gap:.0%} of all values: "
                    "the router was not made for such tasks; train it anew with these sessions."
                )
        for group, text in (
            ("handed off", "Of sessions handed off, fewer succeed than the score says"),
            ("Cheap to the end", "Of sessions that Cheap served to the end, fewer fail than the score says"),
        ):
            off = [one for one in self.calibration if one.group == group and one.exceeded]
            if off:
                bins = ", ".join(f"{one.score:.2f} against {one.share:.2f}" for one in off)
                said.append(f"{text} ({bins}): alpha means something else here than in training; train it anew.")
        counts = (self.faults, self.missing, self.errors if self.errors > OFTEN * self.requests else 0)
        words = (
            "a fault of the router or the extractor: Cheap served them; `why` and `fault` in the log say more",
            "something missing that the router looks at: give it with each request, or take a router without it",
            "an error of a server",
        )
        said += [
            f"{count:,} of {self.requests:,} requests had {text}."
            for count, text in zip(counts, words, strict=True)
            if count
        ]
        if self.cut:
            said.append(f"{self.cut:,} lines were cut short and left out: a disk was full, or a process killed.")
        return said


def summarize(
    log: str | os.PathLike[str],
    router: Router | PolicyRouter | None = None,
    *,
    training: Episodes | None = None,
    latest: int = 20,
    held: int = MOST_IN_MEMORY,
) -> Summary:
    """Read a log of sessions; memory stays the same however long it is.

    Parameters
    ----------
    log
        The log, as `bayes-tacit serve --log` or an adapter writes it.
    router
        The router that decided, for the quantiles of its training data. Without it there is no drift.
    training
        The episodes that the router was trained on, where it does not carry their quantiles.
    latest
        How many of the last sessions are listed.
    held
        How many sessions are held in memory; the rest are in a temporary file.

    Raises
    ------
    FileFormatError
        If the file is no such log, with the line.
    InvalidDataError
        If no session of the log was decided by the router, or it does not know its training data.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, Identity, Reply, SessionLog, Sessions, default_router
    >>> log = Path(tempfile.mkdtemp()) / "gateway.jsonl"
    >>> sessions = Sessions(Engine(default_router()), log=SessionLog(log))
    >>> ticket = sessions.begin(Identity("", "task-1", "mine"), [{"role": "user", "content": "Hi"}])
    >>> _ = sessions.replied(ticket, "cheap", Reply())
    >>> summary = summarize(log)
    >>> summary.sessions, summary.handed, summary.spent.cost, summary.spent.strong_cost
    (1, 0, 1.0, 10.0)
    """
    looked_at = None if router is None else Training(router, _ranges(router, training))
    lines = Lines(log)
    with tempfile.TemporaryDirectory() as folder:
        records = Records(Path(folder) / "sessions.sqlite", held)
        try:
            routers = read_into(records, lines, looked_at)
            return _summary(lines, records, routers, looked_at, latest)
        finally:
            records.close()


def _ranges(router: Router | PolicyRouter, training: Episodes | None) -> Ranges | None:
    if training is None:
        return None
    for kind, known, names in (
        ("features", training.feature_names, router.feature_names),
        ("diagnostics", training.diagnostic_names, router.diagnostic_names),
    ):
        if not set(names) <= set(known):
            raise InvalidDataError(
                f"those of the router: {list(names)}", field=f"{kind} of training", value=list(known)
            )
    return Ranges.of(training).only(router.feature_names, router.diagnostic_names)


def _summary(
    lines: Lines, records: Records, routers: dict[str, str], training: Training | None, latest: int
) -> Summary:
    totals = ("count(*)", "sum(handed)", "min(first)", "max(last)", "sum(requests)", "sum(steps)")
    faults = ("sum(faults)", "sum(missing)", "sum(errors)", "sum(fallbacks)")
    counts = records.one(f"SELECT {', '.join((*totals, *faults))} FROM record")
    if not counts[0]:
        raise FileFormatError(f"{lines.path}: holds no session; expected {EXPECTED}")
    chosen = _chosen(records, lines, training)
    others = records.one("SELECT count(*) FROM record WHERE router IS NOT ?", (chosen,))[0] if chosen else 0
    return Summary(
        log=str(lines.path),
        lines=lines.read,
        cut=lines.cut,
        sessions=counts[0],
        handed=counts[1],
        first=counts[2],
        last=counts[3],
        requests=counts[4],
        steps=counts[5],
        handoff_steps=tables.handoff_steps(records),
        spent=tables.spent(records),
        success=tables.success(records),
        calibration=tables.calibration(records, chosen),
        drifts=[] if training is None else training.drifts(),
        compared=tables.compared(records, chosen),
        days=tables.days(records),
        faults=counts[6],
        missing=counts[7],
        errors=counts[8],
        fallbacks=counts[9],
        routers=routers,
        router=chosen,
        others=others,
        latest=list(records.select(f"ORDER BY last DESC, session LIMIT {int(latest)}")),
    )


def _chosen(records: Records, lines: Lines, training: Training | None) -> str | None:
    """Give the router whose scores are looked at: the one that was given, or the one with most sessions."""
    query = "SELECT router FROM record WHERE router IS NOT NULL GROUP BY router ORDER BY count(*) DESC, router"
    found = [str(router) for (router,) in records.rows(query)]
    if training is None:
        return found[0] if found else None
    if training.fingerprint not in found:
        expected = f"that of a router in {lines.path}: {', '.join(found[:3]) or 'none is named there'}"
        raise InvalidDataError(expected, field="fingerprint of the router", value=training.fingerprint)
    return training.fingerprint
