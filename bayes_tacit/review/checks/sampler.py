"""Whether the sampler did its work."""

from __future__ import annotations

import xarray as xr

from bayes_tacit.estimates.posterior import judge
from bayes_tacit.estimates.posterior.verdict import LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.plots.checks import draw_sampler
from bayes_tacit.review.plots.rows import lazily

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
        lazily(draw_sampler, table, LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN * chains),
    )
