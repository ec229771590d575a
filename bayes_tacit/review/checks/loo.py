"""How well an episode is predicted from all the others, and whether that can be told without refitting."""

from __future__ import annotations

import warnings
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.model.families.loglogistic import LOGLOGISTIC
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.plots.checks import draw_loo
from bayes_tacit.review.plots.rows import lazily

NAME = "Leave-one-out"
LARGEST_K = 0.7
SHOWN = 10


def check_loo(tree: xr.DataTree) -> CheckResult:
    """Estimate leave-one-out predictive accuracy (PSIS-LOO), and name the episodes for which it cannot be trusted.

    The unit that is left out is the episode: its outcome and, if it is timed, its window together. The Pareto k of an
    episode says how much the posterior would change without it. It passes if no k is above 0.7, beyond which the
    importance-sampling estimate of that episode is unreliable (Vehtari, Gelman and Gabry, 2017).

    Parameters
    ----------
    tree
        A posterior with `log_likelihood`.
    """
    try:
        elpd = loo(tree)
    except TacitError:
        raise
    except ValueError as error:
        # ArviZ cannot fit the tail of weights that hardly differ, which chains that do not move give.
        sentence = f"PSIS-LOO cannot be computed from these draws: {error}"
        return CheckResult(
            NAME, False, pd.DataFrame(), sentence, "Look at the sampler's verdict first, and sample again."
        )
    k = pareto_k(elpd)
    order = k.sort_values(ascending=False).index[:SHOWN]
    timed = set(group_of(tree, "log_likelihood")["timed"].values.tolist())
    table = pd.DataFrame(
        {
            "pareto_k": k[order],
            "elpd": elpd.elpd_i.to_series()[order],
            "timed": [episode in timed for episode in order],
        },
        index=pd.Index(order, name="episode"),
    )
    bad = k[k > LARGEST_K].sort_values(ascending=False)
    summary = f"elpd {elpd.elpd:.1f} (se {elpd.se:.1f}), {elpd.p:.1f} effective parameters"
    if bad.empty:
        sentence = f"{summary}; no episode decides the fit: Pareto k is at most {k.max():.2f} (limit {LARGEST_K})."
        return CheckResult(NAME, True, table, sentence, figure=lazily(draw_loo, k, LARGEST_K))
    worst = ", ".join(f"{episode} ({value:.2f})" for episode, value in bad.head(5).items())
    sentence = (
        f"{summary}, not to be trusted: Pareto k is above {LARGEST_K} for {len(bad)} of {len(k)} episodes, worst for "
        f"{worst}."
    )
    advice = (
        "Look at those episodes first: a wrong window or outcome, or an extreme feature, would do this. If they are "
        f"right, {_heavier(tree.attrs.get('family'))}refit without them, and see what moves."
    )
    return CheckResult(NAME, False, table, sentence, advice, lazily(draw_loo, k, LARGEST_K))


def _heavier(family: object) -> str:
    heavier = family != LOGLOGISTIC.name
    return "try the log-logistic family, whose tails forgive a far window; or " if heavier else ""


def loo(tree: xr.DataTree) -> Any:  # noqa: ANN401  arviz_stats is untyped
    """Compute PSIS-LOO by episode; large Pareto k are in the result, not in a warning."""
    _refuse_infinite(group_of(tree, "log_likelihood")["total"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter of Pareto distribution")
        return arviz_stats.loo(tree, var_name="total", pointwise=True)


def pareto_k(elpd: Any) -> pd.Series:  # noqa: ANN401
    """Give Pareto k by episode; infinite where the weights are so uneven that it cannot be estimated."""
    return elpd.pareto_k.to_series().fillna(np.inf)


def _refuse_infinite(total: xr.DataArray) -> None:
    finite = np.isfinite(total.transpose("chain", "draw", "episode").values).all(axis=(0, 1))
    if not finite.all():
        episode = total["episode"].values[~finite][0]
        raise InvalidDataError(
            "finite values in every draw", episode=episode, field="log_likelihood['total']", value="not finite"
        )
