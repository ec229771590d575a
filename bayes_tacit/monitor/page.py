"""The page of a log of sessions: a sentence or two, figures and tables in each section."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bayes_tacit.files import save_page, writable_page
from bayes_tacit.html import Picture, Table, render, table_of
from bayes_tacit.monitor.summary import SURE, Summary, summarize
from bayes_tacit.review.style import CEILING, DECISION, OBSERVED, PREDICTED, SCORE, WIDE, dot_rows, embedded, lazily
from bayes_tacit.router import Router
from bayes_tacit.router.files import PROBABILITIES

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

PERCENT, MONEY = ".0%", ",.7g"
SHORT = 40
"""Characters of a session's name in the table."""
DAY = 86_400
MOST_TICKS = 7


@dataclass(frozen=True)
class Section:
    """One section of the page."""

    lead: str
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def _sessions(summary: Summary) -> Section:
    share = summary.handed / summary.sessions
    lead = (
        f"{summary.sessions:,} sessions with {summary.steps:,} steps in {summary.requests:,} requests; "
        f"{summary.handed:,} of them ({share:.0%}) were handed off."
    )
    pictures = []
    if summary.handoff_steps:
        counts = pd.Series(summary.handoff_steps)
        alt = f"Bars: sessions that were handed off at each step, from {counts.index.min()} to {counts.index.max()}."
        pictures.append(embedded(lazily(_draw_handoff_steps, counts), alt, "When sessions were handed off."))
    if len(summary.periods) > 1:
        table = pd.DataFrame(
            {
                "began": [one.number * summary.period for one in summary.periods],
                "handed": [one.handed / one.sessions for one in summary.periods],
                "ratio": [one.cost / one.strong_cost if one.strong_cost else None for one in summary.periods],
                "success": [one.succeeded / one.known if one.known else None for one in summary.periods],
            }
        ).astype(float)
        word = "day" if summary.period == DAY else "hour"
        alt = f"Lines over the last {len(table)} {word}s: shares of sessions handed off, of cost, and of success."
        caption = f"By the {word} in which a session began (UTC)."
        pictures.append(embedded(lazily(_draw_periods, table), alt, caption))
    frame = _frame(summary.served, "router", "router")
    shares = frame[["arm", "sessions", "handed"]].rename(columns={"arm": "served by", "handed": "handed off"})
    shares["cost a session"] = frame["cost"] / frame["sessions"]
    shares["success"] = frame["succeeded"] / frame["known"]
    shares.index = pd.Index([name[:12] or "not named" for name in frame.index], name="router")
    formats = {"cost a session": ",.4g", "success": ".1%"}
    return Section(lead, pictures, [table_of(shares, "By router and the way to serve that was drawn", formats=formats)])


def _latency(summary: Summary) -> Section:
    if not summary.latencies:
        return Section("No answer has its time in the log.")
    frame = _frame(summary.latencies, "side", "side").set_axis(
        ["answers", "half within", "90% within", "99% within"], axis="columns"
    )
    formats = dict.fromkeys(frame.columns[1:], ".2g")
    lead = "Seconds from a request to the end of its answer, to a tenth; streams take as long as the model speaks."
    return Section(lead, tables=[table_of(frame, "Time to the end of an answer, seconds", formats=formats)])


def _comparison(summary: Summary) -> Section:
    found = summary.routers_compared
    if found is None:
        return Section(
            "Serve a share of sessions by Cheap to the end or Strong from the start (`serve --explore 0.05`), and give "
            "the router files (`--compare`), to see what routers come to on the same tasks."
        )
    rows = _frame(found.values, "name", "router")
    frame = rows[["sessions", "alike", "supported"]].copy()
    for what in ("success", "cost"):
        ends = pd.DataFrame(rows[what].tolist(), index=rows.index, columns=["", " lower", " upper"])
        frame = frame.join(ends.add_prefix(what))
    formats = {name: ".1%" if name.startswith("su") else ",.4g" for name in frame.columns[2:]}
    lead = f"{found.sessions:,} sessions with an outcome, {found.explored:,} drawn otherwise than the router. "
    return Section(
        lead + " ".join(found.verdicts),
        tables=[table_of(frame, "What each comes to, by the logged probabilities (95%)", formats=formats)],
    )


def _cost(summary: Summary) -> Section:
    spent = summary.spent
    lead = (
        f"Spent were {spent.cost:,.7g}; the same turns with Strong alone would have cost {spent.strong_cost:,.7g}"
        + (f" ({spent.ratio:.0%} of it, 95% interval {_range(spent.lower, spent.upper)})" if spent.strong_cost else "")
        + f". Cheap made {spent.cheap_calls:,} turns, Strong {spent.strong_calls:,}. Costs are in the unit of the "
        "prices that the sessions were served with; whether Strong alone would have needed as many turns is not known."
    )
    groups = _frame(summary.success, "group", "sessions served by")
    frame = groups[["sessions", "cost"]].assign(
        **{
            "cost a session": groups["cost"] / groups["sessions"],
            "Pure Strong": groups["strong_cost"],
            "saved": groups["strong_cost"] - groups["cost"],
        }
    )
    formats = {**dict.fromkeys(("cost", "Pure Strong", "saved"), MONEY), "cost a session": ",.4g"}
    return Section(lead, tables=[table_of(frame, "Realized cost, and that of Pure Strong", formats=formats)])


def _success(summary: Summary) -> Section:
    known = summary.success[0].known
    if not known:
        lead = (
            "No outcome is known yet. Send them to `POST /v1/sessions/{id}/outcome`, or to `Sessions.outcome`: without "
            "them nothing can be said of success and calibration, and no router can be trained on this log."
        )
        return Section(lead)
    lead = f"The outcome is known of {known:,} of {summary.sessions:,} sessions. Intervals have 95%."
    frame = _frame(summary.success, "group", "sessions served by")[["known", "succeeded", "share", "lower", "upper"]]
    formats = dict.fromkeys(("share", "lower", "upper"), ".1%")
    return Section(lead, tables=[table_of(frame, "Success where it is known", formats=formats)])


def _calibration(summary: Summary) -> Section:
    if not summary.calibration:
        return Section("There is no session with a score and a known outcome yet.")
    bins = pd.DataFrame([vars(one) for one in summary.calibration])
    probability = bool(bins["pi"].notna().all())
    lead = (
        "q(t) is the probability that Strong succeeds and that the handoff is due by step t. So of sessions that were "
        "handed off at least that share should succeed, and of those that Cheap served to the end at least that share "
        f"should fail: points belong on or above the line. Intervals have {SURE:.0%}; a score above all of its "
        "interval is too high."
        if probability
        else "The score of this policy is no probability; shown is whether higher scores go with what they warn of. "
        f"Intervals have {SURE:.0%}."
    )
    bins["probability"] = probability
    alt = "Two panels: the share that succeeded after a handoff, and that failed with Cheap to the end, by score."
    picture = embedded(lazily(_draw_outcomes, bins), alt, "Scores against outcomes.")
    shown = pd.DataFrame(
        {
            "sessions": bins["n"],
            "scores": [f"{one.least:.3g} to {one.most:.3g}" for one in summary.calibration],
            "mean score": bins["score"],
            "mean pi": bins["pi"],
            "observed": bins["share"],
            "lower": bins["lower"],
            "upper": bins["upper"],
            "verdict": np.where(bins["exceeded"], "too high", "fits"),
        }
    )
    shown.index = pd.Index(bins["group"], name="served by")
    if not probability:
        shown = shown.drop(columns=["mean pi", "verdict"])
    return Section(lead, [picture], [table_of(shown, "Observed: succeeded if handed off, failed if not")])


def _drift(summary: Summary) -> Section:
    if not summary.drifts:
        return Section(
            "Give the router file (`--router`) to compare features and diagnostics with its training data: it holds "
            "their quantiles."
        )
    lead = (
        "How far the values of these sessions lie from those of training: the part of all values by which one "
        "distribution lies above the other, at least, as far as the training quantiles in the router file tell. "
        "Steps count as far as Cheap made them. Cheap's part ends at a handoff, training rollouts went to their end: "
        "where sessions are handed off, diagnostics may well lie lower."
    )
    drifts = _frame(summary.drifts, "name", "name")
    frame = drifts[["kind", "n", "higher", "lower", "limit", "outside"]].assign(
        verdict=[one.verdict if one.n else "no value" for one in summary.drifts]
    )
    frame = frame.rename(columns={"n": "values", "higher": "higher by", "lower": "lower by"})
    inner = range(1, len(PROBABILITIES) - 1)
    shares = pd.DataFrame(
        [[f"{one.training[place]:.3g} ({one.shares[place]:.0%})" for place in inner] for one in summary.drifts],
        columns=[f"{PROBABILITIES[place]:.0%}" for place in inner],
        index=frame.index,
    )
    formats = dict.fromkeys(("higher by", "lower by", "limit", "outside"), PERCENT)
    alt = "Dots by name: how much of all values lies lower or higher than in training, beside the limit."
    return Section(
        lead,
        [embedded(lazily(_draw_drift, drifts), alt, "Drift from training.")],
        [
            table_of(frame, "Drift; outside: the share beyond all values of training", formats=formats),
            table_of(shares, "Training quantiles, and in brackets the share of values up to each now"),
        ],
    )


def _shadow(summary: Summary) -> Section:
    if not summary.compared:
        return Section("No router ran in shadow.")
    lead = (
        "What the router in shadow would have done. It is not asked any more once a session is handed off. Success is "
        "that of the sessions as they were served."
    )
    counts = _frame(summary.compared, "what", "what happens")
    frame = counts[["sessions", "known"]].rename(columns={"known": "outcome known"})
    frame["success"] = counts["succeeded"] / counts["known"]
    return Section(lead, tables=[table_of(frame, "Router and shadow", formats={"success": ".1%"})])


FAULTS = {
    "faults": "router or extractor failed; Cheap served",
    "missing": "something that the router looks at was missing",
    "errors": "a server's error was passed on",
    "fallbacks": "the other side stood in",
}


def _faults(summary: Summary) -> Section:
    frame = pd.Series({words: getattr(summary, name) for name, words in FAULTS.items()}, name="requests").to_frame()
    frame = frame.rename_axis("what went wrong")
    return Section(f"Of {summary.requests:,} requests:", tables=[table_of(frame, "Faults")])


def _latest(summary: Summary) -> Section:
    unknown = "\N{EN DASH}"
    frame = pd.DataFrame(
        {
            "steps": [one.steps for one in summary.latest],
            "handed off": [_when(one.handed, one.handoff_step) for one in summary.latest],
            "why": [one.why for one in summary.latest],
            "cost": [one.cost for one in summary.latest],
            "success": [unknown if one.success is None else "yes" if one.success else "no" for one in summary.latest],
        },
        index=pd.Index([_shortened(one.session) for one in summary.latest], name="session"),
    )
    return Section(
        "The sessions that were heard of last.", tables=[table_of(frame, "Latest sessions", formats={"cost": MONEY})]
    )


def _frame(rows: Sequence[object], index: str, name: str) -> pd.DataFrame:
    return pd.DataFrame([vars(row) for row in rows]).set_index(index).rename_axis(name)


def _range(lower: float, upper: float) -> str:
    return f"{lower:.0%} to {upper:.0%}" if math.isfinite(lower) else "not known"


def _when(handed: int, step: int | None) -> str:
    if not handed:
        return "no"
    return "yes" if step is None else "at the start" if step < 0 else f"at step {step}"


def _shortened(name: str) -> str:
    return name if len(name) <= SHORT else f"{name[: SHORT - 1]}\N{HORIZONTAL ELLIPSIS}"


SECTIONS = {
    "sessions": ("Sessions and handoffs", _sessions),
    "cost": ("Cost", _cost),
    "latency": ("Latency", _latency),
    "success": ("Success", _success),
    "comparison": ("Routers compared", _comparison),
    "calibration": ("Calibration", _calibration),
    "drift": ("Drift", _drift),
    "shadow": ("Shadow", _shadow),
    "faults": ("Faults", _faults),
    "latest": ("Latest sessions", _latest),
}
PARTS = {"overview": "Overview", **{part: name for part, (name, _) in SECTIONS.items()}, "provenance": "Provenance"}
"""The sections, in their order."""


def monitor(
    log: str | os.PathLike[str],
    path: str | os.PathLike[str],
    router: Router | None = None,
    *,
    training: Episodes | None = None,
    compare: Mapping[str, Router] | None = None,
    title: str = "Sessions",
    overwrite: bool = True,
) -> Summary:
    """Write a page on a log of sessions: one HTML file that needs neither a network nor other files.

    It holds sessions and handoffs, what was spent and what Pure Strong would have cost, success where outcomes are
    known, scores against outcomes, drift of features and diagnostics from training, what a router in shadow would have
    done, faults, and the latest sessions.

    Parameters
    ----------
    log, router, training, compare
        As for `summarize`. The log may still be written to.
    path
        The file to write, .html or .htm. It appears under its name only once it is complete.
    title
        Heading of the page.
    overwrite
        Whether an existing file may be replaced.

    Returns
    -------
    Summary
        The numbers on the page.

    Examples
    --------
    >>> from bayes_tacit.monitor import monitor
    >>> monitor("gateway.jsonl", "gateway.html")  # doctest: +SKIP
    """
    target = writable_page(path, overwrite=overwrite)
    summary = summarize(log, router, training=training, compare=compare)
    save_page(target, _page(summary, title))
    return summary


def _page(summary: Summary, title: str = "Sessions") -> str:
    warnings = summary.warnings
    written = f"Written by bayes_tacit {version('bayes_tacit')} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    return render(
        "monitor.html",
        title=title,
        subtitle=f"From {_time(summary.first)} to {_time(summary.last)}. {written}",
        parts=PARTS,
        level="warning" if warnings else "good",
        sentence=sentence(summary),
        warnings=warnings,
        sections={part: make(summary) for part, (_, make) in SECTIONS.items()},
        provenance=_provenance(summary),
    )


def sentence(summary: Summary) -> str:
    """Sum a log up in one sentence."""
    said = f"{summary.sessions:,} sessions, {summary.handed / summary.sessions:.0%} of them handed off"
    if summary.spent.strong_cost:
        said += f", at {summary.spent.ratio:.0%} of what Pure Strong would have cost"
    everything = summary.success[0]
    if everything.known:
        said += f"; {everything.share:.0%} of the {everything.known:,} with a known outcome succeeded"
    return f"{said}."


def _provenance(summary: Summary) -> dict[str, object]:
    routers = [
        f"{words} ({fingerprint})" + (", looked at here" if fingerprint == summary.router and summary.others else "")
        for fingerprint, words in summary.routers.items()
    ]
    return {
        "Log": summary.log,
        "Lines": f"{summary.lines:,}, of which {summary.cut:,} were cut short",
        "Routers": "; ".join(routers) or "not named in the log",
        "Sessions of other routers": f"{summary.others:,}",
    }


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _draw_handoff_steps(counts: pd.Series) -> Figure:
    """Draw how many sessions were handed off at each step; the index is the step, -1 for before the first."""
    figure = Figure(figsize=(WIDE, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(counts.index, counts, color=DECISION, width=0.8)
    axes.set(xlabel="step of the handoff (-1: before the first)", ylabel="sessions")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _draw_outcomes(table: pd.DataFrame) -> Figure:
    """Draw what came of sessions by score; columns group, score, share, lower, upper, probability."""
    figure = Figure(figsize=(WIDE, 3.4), layout="constrained")
    words = {"handed off": "share that succeeded", "Cheap to the end": "share that failed"}
    for panel, (group, label) in zip(figure.subplots(1, 2), words.items(), strict=True):
        part = table[table["group"] == group]
        half = np.stack([part["share"] - part["lower"], part["upper"] - part["share"]]).clip(min=0)
        panel.errorbar(part["score"], part["share"], yerr=half, fmt="o", color=OBSERVED, capsize=3, label="observed")
        if table["probability"].all():
            panel.axline((0.5, 0.5), slope=1, color=CEILING, linewidth=1, zorder=0, label="as the score says")
            panel.set(xlim=(0, 1))
        panel.set(xlabel="score", ylabel=label, title=group.capitalize(), ylim=(-0.02, 1.02))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
        panel.legend(loc="lower right" if group == "handed off" else "upper left")
    return figure


def _draw_drift(table: pd.DataFrame) -> Figure:
    """Draw by how much each feature and diagnostic lies higher or lower; columns higher, lower, limit by name."""
    figure, (axes,), position = dot_rows(table.index)
    axes.hlines(position, -table["lower"], table["higher"], color=CEILING, linewidth=1, zorder=1)
    for sign, column, color in ((1, "higher", SCORE), (-1, "lower", PREDICTED)):
        axes.plot(sign * table[column], position, "o", color=color, markersize=6, label=f"lies {column}")
        axes.vlines(sign * table["limit"], position - 0.35, position + 0.35, color=DECISION, linewidth=1.2)
    axes.plot([], [], "|", color=DECISION, markersize=10, label="limit")
    reach = max(0.3, 1.15 * float(table[["higher", "lower", "limit"]].to_numpy().max()))
    axes.set(
        xlabel="part of all values that lies lower (left) or higher (right) than in training", xlim=(-reach, reach)
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_periods(table: pd.DataFrame) -> Figure:
    """Draw shares by day or hour; columns began (seconds since 1970), handed, ratio, success."""
    figure = Figure(figsize=(WIDE, 3.0), layout="constrained")
    axes = figure.subplots()
    times = table["began"].to_numpy()
    lines = (("handed", "handed off", DECISION), ("ratio", "cost, of Pure Strong's", SCORE))
    for column, label, color in (*lines, ("success", "success, where known", PREDICTED)):
        axes.plot(times, table[column], "o-", color=color, label=label)
    axes.set(ylim=(-0.02, None))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    shown = times[:: -(-len(times) // MOST_TICKS)]
    words = "%Y-%m-%d" if (times % DAY == 0).all() else "%m-%d %H:00"
    axes.set_xticks(shown, [f"{datetime.fromtimestamp(time, UTC):{words}}" for time in shown])
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
