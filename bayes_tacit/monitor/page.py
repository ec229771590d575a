"""Writing the page of a log of sessions."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from bayes_tacit.html.rendering import render
from bayes_tacit.monitor import sections
from bayes_tacit.monitor.summary import Summary, summarize
from bayes_tacit.review.pages import save_page, writable_page
from bayes_tacit.router import PolicyRouter, Router

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

SECTIONS = {
    "sessions": ("Sessions and handoffs", sections.sessions),
    "cost": ("Cost", sections.cost),
    "success": ("Success", sections.success),
    "calibration": ("Calibration", sections.calibration),
    "drift": ("Drift", sections.drift),
    "shadow": ("Shadow", sections.shadow),
    "faults": ("Faults", sections.faults),
    "latest": ("Latest sessions", sections.latest),
}
PARTS = {"overview": "Overview", **{part: name for part, (name, _) in SECTIONS.items()}, "provenance": "Provenance"}
"""The sections, in their order."""


def monitor(
    log: str | os.PathLike[str],
    path: str | os.PathLike[str],
    router: Router | PolicyRouter | None = None,
    *,
    training: Episodes | None = None,
    title: str = "Sessions",
    overwrite: bool = True,
) -> Summary:
    """Write a page on a log of sessions: one HTML file that needs neither a network nor other files.

    It holds sessions and handoffs, what was spent and what Pure Strong would have cost, success where outcomes are
    known, scores against outcomes, drift of features and diagnostics from training, what a router in shadow would have
    done, faults, and the latest sessions.

    Parameters
    ----------
    log
        The log, as `bayes-tacit serve --log` or an adapter of a framework writes it. It may still be written to.
    path
        The file to write, .html or .htm. It appears under its name only once it is complete.
    router
        The router that decided, for the quantiles of its training data.
    training
        The episodes that the router was trained on, where it does not carry their quantiles.
    title
        Heading of the page.
    overwrite
        Whether an existing file may be replaced.

    Returns
    -------
    Summary
        The numbers on the page.

    Raises
    ------
    FileFormatError
        If the log is none, with the line, or the page cannot be written.
    InvalidDataError
        If no session of the log was decided by the router.

    Examples
    --------
    >>> from bayes_tacit.monitor import monitor
    >>> monitor("gateway.jsonl", "gateway.html")  # doctest: +SKIP
    """
    target = writable_page(path, overwrite=overwrite)
    summary = summarize(log, router, training=training)
    save_page(target, page_of(summary, title))
    return summary


def page_of(summary: Summary, title: str = "Sessions") -> str:
    """Give the page as text."""
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
