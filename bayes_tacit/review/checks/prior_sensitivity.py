"""Whether the posterior says what the data say, or what the prior said."""

from __future__ import annotations

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.estimates.posterior.log_prior import log_prior
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.plots.checks import draw_prior_sensitivity
from bayes_tacit.review.plots.rows import lazily

NAME = "Prior sensitivity"
LIMIT = 0.05
FEWEST_PER_PARAMETER = 10
"""Timed episodes for each parameter that the prior matters to, below which more data are the only good advice."""


def check_prior_sensitivity(tree: xr.DataTree) -> CheckResult:
    """Check by power scaling whether the prior matters.

    The prior is raised to powers near 1 and the draws are reweighted accordingly; the sensitivity of a parameter is
    how fast its posterior moves (Kallioinen et al., 2024). The same is done with the likelihood. It passes if no
    parameter's prior sensitivity is above 0.05, the authors' limit. If the likelihood's is above it too, prior and
    data pull apart; if not, the data say little and the prior decides.

    Parameters
    ----------
    tree
        A posterior with `log_likelihood`.
    """
    table = _sensitivities(tree)
    sensitive = table[table["prior"] > LIMIT].sort_values("prior", ascending=False)
    if sensitive.empty:
        worst = table["prior"].idxmax()
        sentence = (
            f"The data decide: the prior sensitivity is at most {table['prior'].max():.3f} ({worst}; limit {LIMIT})."
        )
        return CheckResult(NAME, True, table, sentence, figure=lazily(draw_prior_sensitivity, table, LIMIT))
    listed = ", ".join(f"{name} ({value:.2f})" for name, value in sensitive["prior"].head(5).items())
    sentence = f"The prior matters for {len(sensitive)} of {len(table)} parameters: {listed} (limit {LIMIT})."
    return CheckResult(
        NAME, False, table, sentence, _advice(sensitive, _timed(tree)), lazily(draw_prior_sensitivity, table, LIMIT)
    )


def _sensitivities(tree: xr.DataTree) -> pd.DataFrame:
    posterior = group_of(tree, "posterior")
    posterior = posterior.drop_vars([name for name in posterior.data_vars if str(name).endswith("_offset")])
    groups = {"posterior": posterior, "log_likelihood": group_of(tree, "log_likelihood")[["total"]]}
    scaled = xr.DataTree.from_dict(groups | {"log_prior": log_prior(tree)})
    # The diagnosis below says more than ArviZ's own, which a threshold that nothing reaches keeps out of the log.
    found = arviz_stats.psense_summary(scaled, threshold=np.inf, likelihood_var_names="total", round_to=6)
    table = found[["prior", "likelihood"]].astype(float)
    table["diagnosis"] = np.select(
        [(table["prior"] > LIMIT) & (table["likelihood"] > LIMIT), table["prior"] > LIMIT],
        ["prior and data pull apart", "the prior decides"],
        "the data decide",
    )
    return table.rename_axis("parameter")


def _timed(tree: xr.DataTree) -> int:
    return int(group_of(tree, "log_likelihood").sizes["timed"])


def _advice(sensitive: pd.DataFrame, timed: int) -> str:
    if timed < FEWEST_PER_PARAMETER * len(sensitive):
        return (
            f"There are {timed} timed episodes: collect and mark more before anything else. Until then say that the "
            f"posterior of {', '.join(map(str, sensitive.index))} leans on the prior."
        )
    parts = []
    for diagnosis, what in (
        ("prior and data pull apart", "If the prior of {} was not meant to be that tight, widen it and sample again."),
        ("the prior decides", "More or narrower windows, or fewer features, would tell more about {}; until then say "
         "that its posterior leans on the prior."),
    ):  # fmt: skip
        names = sensitive.index[sensitive["diagnosis"] == diagnosis]
        if len(names):
            parts.append(what.format(", ".join(map(str, names))))
    return " ".join(parts)
