"""The numbers of a log of sessions: totals, success, calibration, drift, days, and warnings."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.special import betaincinv, ndtri

from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.monitor.comparing import RouterComparison, compare_routers
from bayes_tacit.monitor.reading import (
    BIN,
    EXPECTED,
    MOST_IN_MEMORY,
    Drift,
    Lines,
    Record,
    Records,
    Training,
    read_into,
)
from bayes_tacit.router import Router
from bayes_tacit.router.files import Ranges

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

PROBABILITY = 0.95


def share_interval(count: int, of: int, probability: float = PROBABILITY) -> tuple[float, float]:
    """Compute the equal-tailed interval of a share under Jeffreys' prior; an end without anything beyond it is 0 or 1.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(7, 10)], share_interval(0, 0)
    ([0.394, 0.907], (0.0, 1.0))
    """
    tail = (1 - probability) / 2
    lower = float(betaincinv(count + 0.5, of - count + 0.5, tail)) if count else 0.0
    upper = float(betaincinv(count + 0.5, of - count + 0.5, 1 - tail)) if count < of else 1.0
    return lower, upper


def ratio_interval(
    n: int, sums: tuple[float, float], squares: tuple[float, float, float], probability: float = PROBABILITY
) -> tuple[float, float]:
    """Compute the interval of a ratio of two totals over `n` independent sessions, by linearization.

    `sums` are the totals above and below the line; `squares` sums over sessions of the square above, of the product,
    and of the square below.

    Examples
    --------
    >>> ratio_interval(100, (100.0, 400.0), (100.0, 400.0, 1600.0))
    (0.25, 0.25)
    """
    above, below = sums
    if n < 2 or not below:
        return math.nan, math.nan
    ratio = above / below
    spread = max(0.0, squares[0] - 2 * ratio * squares[1] + ratio**2 * squares[2])
    half = float(ndtri((1 + probability) / 2)) * math.sqrt(spread * n / (n - 1)) / below
    return max(0.0, ratio - half), ratio + half


BINS = 5
SURE = 0.99
"""Mass of the intervals that scores are judged by."""

MOST_PERIODS = 72
DAY, HOUR = 86_400, 3_600
FEW_DAYS = 3
"""Days of a log below which it is shown by the hour."""


@dataclass(frozen=True)
class Spent:
    """Turns that each side made, their cost, that with Strong alone, and the one over the other with its interval."""

    cheap_calls: int
    strong_calls: int
    cost: float
    strong_cost: float
    ratio: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Succeeded:
    """Success of a group of sessions, where outcomes are known, with its 95% interval."""

    group: str
    sessions: int
    known: int
    succeeded: int
    share: float
    lower: float
    upper: float
    cost: float
    strong_cost: float


@dataclass(frozen=True)
class Bin:
    """Sessions with like scores, and the share that succeeded, or failed under "Cheap to the end", with its interval.

    q(t) is the probability that Strong succeeds and that a handoff is due by step t. So of sessions that were handed
    off at t a share of at least q(t) should succeed, and of those that Cheap served to the end at least the last q(t)
    should fail: where a handoff was due, Cheap fails. `exceeded` says that the score is a probability and above all of
    the interval; `pi` is the mean incidence, None if the policy has none.
    """

    group: str
    n: int
    least: float
    most: float
    score: float
    pi: float | None
    share: float
    lower: float
    upper: float
    exceeded: bool


@dataclass(frozen=True)
class Compared:
    """Sessions in which router and shadow stand in one relation, and what came of them."""

    what: str
    sessions: int
    known: int
    succeeded: int


@dataclass(frozen=True)
class Period:
    """One day or one hour, in coordinated universal time, of sessions that began in it: its number since 1970."""

    number: int
    sessions: int
    handed: int
    cost: float
    strong_cost: float
    known: int
    succeeded: int


@dataclass(frozen=True)
class Latency:
    """Seconds to the end of an answer, of one side: how many answers, and what so many shares of them took at most."""

    side: str
    answers: int
    half: float
    most: float
    nearly_all: float


@dataclass(frozen=True)
class Served:
    """Sessions of one router and one way to serve."""

    router: str
    arm: str
    sessions: int
    handed: int
    cost: float
    known: int
    succeeded: int


GROUPS = {"all": "true", "Cheap to the end": "handed = 0", "handed off": "handed = 1"}

RELATIONS = {
    "both hand off, at the same step": "handed = 1 AND shadow_step = coalesce(handoff_step, shadow_step)",
    "both hand off, the shadow earlier": "handed = 1 AND shadow_step < handoff_step",
    "the router hands off, the shadow had not by then": "handed = 1 AND shadow_step IS NULL",
    "only the shadow would hand off": "handed = 0 AND shadow_step IS NOT NULL",
    "neither hands off": "handed = 0 AND shadow_step IS NULL",
}


def handoff_steps(records: Records) -> dict[int, int]:
    """Count handoffs by step."""
    query = (
        "SELECT handoff_step, count(*) FROM record WHERE handed = 1 AND handoff_step IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    return {int(step): int(count) for step, count in records.rows(query)}


def spent(records: Records) -> Spent:
    """Sum up costs."""
    sums = ("cheap_calls", "strong_calls", "cost", "strong_cost", "cost * cost", "cost * strong_cost")
    wanted = ", ".join(f"sum({one})" for one in (*sums, "strong_cost * strong_cost"))
    n, cheap, strong, cost, alone, *squares = records.one(f"SELECT count(*), {wanted} FROM record")
    ends = ratio_interval(n, (cost, alone), (squares[0], squares[1], squares[2]))
    return Spent(cheap, strong, cost, alone, cost / alone if alone else math.nan, *ends)


def success(records: Records) -> list[Succeeded]:
    """Compute success by group."""
    found = []
    wanted = "count(*), count(success), total(success), total(cost), total(strong_cost)"
    for group, condition in GROUPS.items():
        n, known, good, *costs = records.one(f"SELECT {wanted} FROM record WHERE {condition}")
        share, ends = good / known if known else math.nan, share_interval(int(good), known)
        found.append(Succeeded(group, n, known, int(good), share, *ends, *costs))
    return found


def calibration(records: Records, router: str | None) -> list[Bin]:
    """Compare scores with outcomes by bins of sessions with like scores; equal scores share a bin."""
    query = (
        "WITH known AS (SELECT score, pi, success, percent_rank() OVER (ORDER BY score) AS place FROM record "
        "WHERE handed = ? AND router = ? AND success IS NOT NULL AND score IS NOT NULL) "
        f"SELECT min({BINS - 1}, CAST(place * {BINS} AS INTEGER)) AS bin, count(*), min(score), max(score), "
        "avg(score), avg(pi), count(pi), sum(success) FROM known GROUP BY bin ORDER BY bin"
    )
    found = []
    for group, handed in (("handed off", 1), ("Cheap to the end", 0)):
        for _, n, least, most, score, pi, probabilities, good in records.rows(query, (handed, router)).fetchall():
            came = good if handed else n - good
            lower, upper = share_interval(came, n, SURE)
            exceeded = probabilities == n and score > upper
            found.append(Bin(group, n, least, most, score, pi, came / n, lower, upper, exceeded))
    return found


def compared(records: Records, router: str | None) -> list[Compared]:
    """Compare the router with the one in shadow; nothing where there was none."""
    seen = "FROM record WHERE shadow IS NOT NULL AND router = ?"
    if not records.one(f"SELECT count(*) {seen}", (router,))[0]:
        return []
    query = "SELECT count(*), count(success), CAST(total(success) AS INTEGER) {} AND {}"
    return [
        Compared(what, *records.one(query.format(seen, condition), (router,))) for what, condition in RELATIONS.items()
    ]


def periods(records: Records) -> tuple[int, list[Period]]:
    """Return the last days on which sessions began, or hours if there are few days, and the seconds of one."""
    first, last = records.one("SELECT min(first), max(last) FROM record")
    size = HOUR if last - first < FEW_DAYS * DAY else DAY
    query = (
        f"SELECT CAST(first / {size} AS INTEGER) AS number, count(*), sum(handed), sum(cost), sum(strong_cost), "
        "count(success), CAST(total(success) AS INTEGER) FROM record GROUP BY number ORDER BY number DESC "
        f"LIMIT {MOST_PERIODS}"
    )
    return size, [Period(*row) for row in records.rows(query)][::-1]


def latencies(records: Records) -> list[Latency]:
    """Return how long answers took, by side."""
    found = []
    for side, counts in records.seconds.items():
        total = sum(counts.values())
        if total:
            found.append(Latency(side, total, *(_quantile(counts, share * total) for share in (0.5, 0.9, 0.99))))
    return found


def _quantile(counts: Mapping[int, int], wanted: float) -> float:
    below = 0
    for number in sorted(counts):
        below += counts[number]
        if below >= wanted:
            break
    return BIN**number


def served(records: Records) -> list[Served]:
    """Return sessions by router and way to serve."""
    query = (
        "SELECT coalesce(router, ''), arm, count(*), sum(handed), total(cost), count(success), "
        "CAST(total(success) AS INTEGER) FROM record GROUP BY 1, 2 ORDER BY 3 DESC"
    )
    return [Served(*row) for row in records.rows(query)]


OFTEN = 0.01
"""Share of requests with an error of a server from which on it is worth a word."""


@dataclass(frozen=True)
class Summary:
    """What a log of sessions shows.

    Attributes
    ----------
    log, lines, cut
        The file, how many lines it has, and how many of them were cut short and left out.
    sessions, handed, requests, steps, first, last
        Totals; times of the first and the last line, in seconds since 1970.
    handoff_steps
        How many were handed off at each checkpoint; -1 is before the first step.
    spent, success
        What was spent, and what Strong alone would have cost; success of all, and by who served.
    calibration, drifts, compared
        Scores against outcomes; features and diagnostics against training (none without a router file); what the
        router in shadow would have done.
    period, periods
        Seconds of a day or an hour, and what came of sessions that began in each, the latest last.
    latencies, served
        How long answers took, by side; sessions by router and way to serve.
    faults, missing, errors, fallbacks
        Requests with a fault of router or extractor, without something that the router needs, with an error of a
        server, and those that the other side served.
    routers, router, others
        What decided, by fingerprint, in words; the one that scores and drift are of; sessions of other routers.
    latest
        The sessions that were heard of last.
    routers_compared
        What routers come to by the probabilities with which sessions were drawn; None where that was not asked for.
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
    period: int
    periods: list[Period]
    latencies: list[Latency]
    served: list[Served]
    faults: int
    missing: int
    errors: int
    fallbacks: int
    routers: dict[str, str]
    router: str | None
    others: int
    latest: list[Record] = field(repr=False)
    routers_compared: RouterComparison | None = None

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
    router: Router | None = None,
    *,
    training: Episodes | None = None,
    compare: Mapping[str, Router] | None = None,
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
    compare
        Routers to compare by name, those that served among them, where sessions were explored.
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
            found = _summary(lines, records, routers, looked_at, latest)
        finally:
            records.close()
    return found if not compare else replace(found, routers_compared=compare_routers(log, compare))


def _ranges(router: Router, training: Episodes | None) -> Ranges | None:
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
    period, spans = periods(records)
    recent = records.rows(f"SELECT * FROM record ORDER BY last DESC, session LIMIT {latest}")
    names = ("sessions", "handed", "first", "last", "requests", "steps", "faults", "missing", "errors", "fallbacks")
    return Summary(
        log=str(lines.path),
        lines=lines.read,
        cut=lines.cut,
        **dict(zip(names, counts, strict=True)),
        handoff_steps=handoff_steps(records),
        spent=spent(records),
        success=success(records),
        calibration=calibration(records, chosen),
        drifts=[] if training is None else training.drifts(),
        compared=compared(records, chosen),
        period=period,
        periods=spans,
        latencies=latencies(records),
        served=served(records),
        routers=routers,
        router=chosen,
        others=records.one("SELECT count(*) FROM record WHERE router IS NOT ?", (chosen,))[0] if chosen else 0,
        latest=[Record(*row) for row in recent],
    )


def _chosen(records: Records, lines: Lines, training: Training | None) -> str | None:
    # The router whose scores are looked at: the one that was given, or the one with most sessions.
    query = "SELECT router FROM record WHERE router IS NOT NULL GROUP BY router ORDER BY count(*) DESC, router"
    found = [str(router) for (router,) in records.rows(query)]
    if training is None:
        return found[0] if found else None
    if training.fingerprint not in found:
        expected = f"that of a router in {lines.path}: {', '.join(found[:3]) or 'none is named there'}"
        raise InvalidDataError(expected, field="fingerprint of the router", value=training.fingerprint)
    return training.fingerprint
