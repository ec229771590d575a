"""Writing the report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.posterior.completion import completed
from bayes_tacit.html.rendering import render
from bayes_tacit.review.checks import CheckResult, headline, run_checks
from bayes_tacit.review.pages import save_page, writable_page
from bayes_tacit.review.reporting import sections
from bayes_tacit.review.reporting.contents import choose, parameter_table

PARTS = {
    "verdict": "Verdict",
    "to-do": "What to do",
    "parameters": "Parameters",
    "scores": "Handoff scores",
    "checks": "Checks",
    "sampling": "Sampling",
    "data": "Data",
    "provenance": "Provenance",
}
"""The sections, in their order."""


def report(
    tree: xr.DataTree,
    episodes: Episodes,
    path: str | os.PathLike[str],
    *,
    fit: MapFit | None = None,
    alpha: float | None = None,
    chosen: Iterable[object] | None = None,
    title: str | None = None,
    overwrite: bool = True,
    results: Sequence[CheckResult] | None = None,
    paper: xr.DataTree | None = None,
) -> Path:
    """Write a report on a posterior: one HTML file that needs neither a network nor other files.

    It holds the verdict in one sentence, what to do about each warning, the parameters with a forest plot, the
    handoff scores of some episodes, every check (see `run_checks`), trace, rank and energy plots, a summary of the
    data, and where all of it came from. Of draws that are not to be trusted it says what could not be computed.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes that it was fitted on.
    path
        The file to write, .html or .htm. It appears under its name only once it is complete.
    fit
        The point estimate to compare with; by default one is made.
    alpha
        A decision threshold to draw into the scores.
    chosen
        Ids of the episodes whose scores are drawn; by default a few that differ.
    title
        Heading of the report.
    overwrite
        Whether an existing file may be replaced.
    results
        What `run_checks` gave for the same posterior and episodes, if it was run already.
    paper
        The posterior of the same model with the paper's memory, to compare one with another memory with by LOO; as for
        `run_checks`.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InvalidDataError
        If the tree is no posterior of this model or was fitted on other episodes, or an id is unknown.
    FileFormatError
        If the file cannot be written.

    Examples
    --------
    >>> from bayes_tacit import load_example, report, sample_posterior
    >>> episodes = load_example()
    >>> report(sample_posterior(episodes), episodes, "report.html", alpha=0.3)  # doctest: +SKIP
    """
    target = writable_page(path, overwrite=overwrite)
    tree = completed(tree, episodes)
    if alpha is not None:
        validate.threshold("alpha", alpha)
    shown = episodes.select(choose(episodes, chosen))
    results = run_checks(tree, episodes, fit, paper) if results is None else results
    heading = "Posterior of the handoff model" if title is None else title
    page = _page(heading, tree, episodes, shown, results, alpha)
    save_page(target, page)
    return target


def _page(
    title: str,
    tree: xr.DataTree,
    episodes: Episodes,
    shown: Episodes,
    results: Sequence[CheckResult],
    alpha: float | None,
) -> str:
    counts = f"{len(episodes):,} episodes, {tree['constant_data'].sizes['timed']:,} of them timed"
    written = f"Written by bayes_tacit {version('bayes_tacit')} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    sick = results[0].passed is False
    return render(
        "report.html",
        title=title,
        subtitle=f"{counts}. {written}",
        parts=PARTS,
        headline=headline(results),
        checks=sections.checks(results, sick=sick),
        parameters=sections.parameters(tree, parameter_table(tree, results[0].table), sick=sick),
        scores=sections.scores(tree, shown, alpha, sick=sick),
        sampling=sections.sampling(tree, sick=sick),
        data=sections.data(episodes),
        provenance=sections.provenance(tree),
    )
