"""Tables over all sessions of a log, each a query or two: what is sorted or grouped is on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bayes_tacit.monitor.records import Records
from bayes_tacit.monitor.shares import ratio_interval, share_interval

BINS = 5
SURE = 0.99
"""Mass of the intervals that scores are judged by."""

MOST_DAYS = 60
DAY = 86_400


@dataclass(frozen=True)
class Spent:
    """What was spent, in the unit of the prices.

    Attributes
    ----------
    cheap_calls, strong_calls
        Turns that each side made.
    cost
        Realized.
    strong_cost
        What the same turns would have cost with Strong alone.
    ratio, lower, upper
        One over the other, with its 95% interval over sessions.
    """

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
    """Sessions with like scores, and what came of them.

    q(t) is the probability that Strong succeeds and that a handoff is due by step t. So of sessions that were handed
    off at t a share of at least q(t) should succeed, and of those that Cheap served to the end at least the last q(t)
    should fail: where a handoff was due, Cheap fails.

    Attributes
    ----------
    group
        "handed off" or "Cheap to the end".
    n
        How many sessions.
    least, most, score
        Their scores: from, to, and the mean.
    pi
        Mean incidence: how likely Strong was to succeed at all; None if the policy has none.
    share, lower, upper
        The share that succeeded, or failed under "Cheap to the end", with its 99% interval.
    exceeded
        Whether the score is a probability and above all of that interval.
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
class Day:
    """One day, in coordinated universal time, of sessions that began on it."""

    day: int
    sessions: int
    handed: int
    cost: float
    strong_cost: float
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
    lower, upper = ratio_interval(n, (cost, alone), (squares[0], squares[1], squares[2]))
    return Spent(cheap, strong, cost, alone, cost / alone if alone else math.nan, lower, upper)


def success(records: Records) -> list[Succeeded]:
    """Give success by group."""
    found = []
    for group, condition in GROUPS.items():
        n, known, good, cost, alone = records.one(
            "SELECT count(*), count(success), total(success), total(cost), total(strong_cost) FROM record "
            f"WHERE {condition}"
        )
        share = good / known if known else math.nan
        found.append(
            Succeeded(
                group, n, known, int(good), share, *share_interval(int(good), known), cost=cost, strong_cost=alone
            )
        )
    return found


def calibration(records: Records, router: str | None) -> list[Bin]:
    """Put sessions of one router with like scores together; equal scores share a bin."""
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


def days(records: Records) -> list[Day]:
    """Give the last days on which sessions began."""
    query = (
        f"SELECT CAST(first / {DAY} AS INTEGER) AS day, count(*), sum(handed), sum(cost), sum(strong_cost), "
        f"count(success), CAST(total(success) AS INTEGER) FROM record GROUP BY day ORDER BY day DESC LIMIT {MOST_DAYS}"
    )
    return [Day(*row) for row in records.rows(query)][::-1]
