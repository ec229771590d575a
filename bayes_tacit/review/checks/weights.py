"""Whether the bands of q(t) rest on the data or on what was believed of the weights beforehand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.review.checks.base import CheckResult, group_of, require_same_data
from bayes_tacit.review.plots.checks import draw_weights
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.scores.blocks import computed, score_kernel
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws

NAME = "Prior of the weights"
LIMIT = 0.1
"""Posterior sds of q(t) that it may move by on average when the prior's concentration is halved."""
MOST_DRAWS, MOST_EPISODES = 500, 300
SMALL = 0.5
"""Part of an equal weight below which a diagnostic is named as one to leave out."""
TINY = 1e-300


def check_weights(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check how far q(t) would move if the prior had wanted the weights less alike.

    With many diagnostics a Dirichlet(1) prior says that each weight is small and none is zero. If most mean nothing and
    the data are few, they keep a part of the weight all the same, and the bands of q(t) cover less than they say though
    every prediction looks right. Power scaling does not show it, since that prior is flat.

    Halving the concentration c moves the posterior mean of q(t), to first order, by

    .. math:: -c \log 2 \, \operatorname{Cov}(q(t), \textstyle\sum_j \log w_j).

    It passes if the average size of that, over checkpoints and in posterior sds of q(t), is at most 0.1.

    Parameters
    ----------
    tree
        A posterior with learned weights.
    episodes
        What it was fitted on; of many, evenly spaced ones are looked at.
    """
    require_same_data(tree, episodes)
    prior = prior_of(tree)
    if not isinstance(prior, WeaklyInformativePrior):
        raise InvalidDataError("a WeaklyInformativePrior", field="prior of the tree", value=prior)
    concentration = prior.concentration
    fitted = as_draws(tree).thinned(MOST_DRAWS)
    moved = _moved(fitted, episodes, concentration)
    w = group_of(tree, "posterior")["w"]
    table = pd.DataFrame(
        {"mean": w.mean(("chain", "draw")).values, "sd": w.std(("chain", "draw")).values},
        index=pd.Index(w["diagnostic"].values.tolist(), name="weight of"),
    )
    table["equal weights"] = 1 / len(table)
    passed = bool(moved <= LIMIT)
    timed = int(group_of(tree, "constant_data").sizes["timed"])
    sentence = (
        f"Were the concentration of the weights' prior {concentration / 2:g} instead of {concentration:g}, q(t) would "
        f"move by {moved:.2f} of its posterior sd on average (limit {LIMIT})"
        + ("." if passed else f": {len(table)} weights are not learned from {timed} timed episodes, and the bands of ")
        + ("" if passed else "q(t) cover less than they say.")
    )
    advice = "" if passed else _advice(table, concentration)
    return CheckResult(NAME, passed, table, sentence, advice, lazily(draw_weights, table))


def _moved(fitted: Fitted, episodes: Episodes, concentration: float) -> float:
    """Give by how many sds q(t) moves on average when the concentration is halved."""
    some = np.unique(np.linspace(0, len(episodes) - 1, MOST_EPISODES).round().astype(int))
    features, diagnostics = (array.isel(episode=some).values for array in fitted.columns_of(episodes))
    q = computed(score_kernel(fitted), fitted.draws, features, diagnostics)
    inside = np.arange(q.shape[2]) < episodes.n_steps[some][:, None]
    scores = q[:, inside]
    spread = np.log(np.maximum(fitted.draws.w, TINY)).sum(axis=1)
    covariance = (spread - spread.mean()) @ (scores - scores.mean(axis=0)) / len(scores)
    sd = scores.std(axis=0)
    known = sd > sd.max() * 1e-6
    return float(np.log(2) * concentration * np.abs(covariance[known] / sd[known]).mean())


def _advice(table: pd.DataFrame, concentration: float) -> str:
    small = table.index[table["mean"] < SMALL / len(table)]
    leave = f" (the smallest weights: {', '.join(map(str, table['mean'].nsmallest(3).index))})" if len(small) else ""
    sparser = concentration * min(0.5, 5 / len(table))
    return (
        f"Leave out diagnostics that mean nothing{leave} and compare by LOO, or mark more episodes. If many are likely "
        f"to mean nothing, sample with `WeaklyInformativePrior(concentration={sparser:.2g})`, which takes some three "
        "times as many draws."
    )
