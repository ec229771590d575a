"""Whether the sampler did its work."""

from __future__ import annotations

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from bayes_tacit.estimates.posterior import judge
from bayes_tacit.estimates.posterior.verdict import LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.checks.drawing import dot_rows, lazily
from bayes_tacit.review.plots.style import DECISION, PREDICTED, SCORE

NAME = "Sampler"


def check_sampler(tree: xr.DataTree) -> CheckResult:
    """Check R-hat, effective sample sizes, divergences, tree depth and energy; see `judge` for the limits.

    Parameters
    ----------
    tree
        A posterior with `sample_stats`.
    """
    group_of(tree, "sample_stats")
    verdict = judge(tree)
    chains = group_of(tree, "posterior").sizes["chain"]
    table = verdict.table.rename_axis("parameter")
    return CheckResult(
        NAME,
        verdict.passed,
        table,
        verdict.sentence,
        " ".join(verdict.reasons),
        lazily(_draw, table, SMALLEST_ESS_PER_CHAIN * chains),
    )


def _draw(table: pd.DataFrame, least: int) -> Figure:
    figure, (left, right), position = dot_rows(table.index, panels=2)
    left.plot(table["rhat"], position, "o", color=SCORE, markersize=6)
    right.plot(table["ess_bulk"], position, "o", color=SCORE, markersize=6, label="bulk")
    right.plot(table["ess_tail"], position, "o", color=PREDICTED, markersize=6, label="tail")
    for axis, limit in ((left, LARGEST_RHAT), (right, least)):
        axis.axvline(limit, color=DECISION, linewidth=1.2, linestyle="--", label="limit")
    left.set(xlabel="R-hat")
    right.set(xlabel="effective sample size", xlim=(0, None))
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
