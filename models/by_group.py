r"""Tasks in groups, such as databases or repositories, each with intercepts of its own, partially pooled.

    logit pi_i  = gamma0 + x_i gamma + g[group_i],            g_j = gamma_spread * Normal(0, 1)
    log kappa_i ~ Normal(beta0 + x_i beta + h[group_i], s),   h_j = beta_spread * Normal(0, 1)
    gamma_spread ~ HalfNormal(1),  beta_spread ~ HalfNormal(0.5)

All else is the paper's model, with AB = 01 without a mark as due by the end. A group with few tasks stays near the
others; how near is learned. At the mode the spreads would be zero, so this one is for sampling.

The library runs a statement of its own (`groups="task_type"`); a test holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec, load_example
from models.pieces import center_of, log_between, log_phi, running, standardized, thresholds

COLUMN = "task_type"
"""The carried column that names the groups."""

SETTINGS = ModelSpec(groups=COLUMN)
"""The same model in the library."""

example = load_example


def model(episodes: Episodes, strength: float = 0.01) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty."""
    x, mean, scale = standardized(episodes)
    seen = running(episodes)
    said = thresholds(episodes, seen)
    groups, group = np.unique(episodes.dataset[COLUMN].values.astype(str), return_inverse=True)
    coords = {
        "episode": episodes.ids,
        "feature": list(episodes.feature_names),
        "diagnostic": list(episodes.diagnostic_names),
    }

    with pm.Model(coords=coords | {"group": groups}) as grouped:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")
        narrow = min(1 / np.sqrt(2 * len(x) * strength), 10.0)
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", center_of(episodes, seen), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature")
        beta = pm.Normal("beta", 0.0, narrow, dims="feature")
        w = pm.Dirichlet("w", np.ones(seen.shape[2]), dims="diagnostic")
        own = pm.HalfNormal("gamma_spread", 1.0) * pm.Normal("gamma_offset", 0.0, 1.0, dims="group")
        shift = pm.HalfNormal("beta_spread", 0.5) * pm.Normal("beta_offset", 0.0, 1.0, dims="group")

        strong = episodes.dataset["strong_success"].values.astype(int)
        logit = gamma0 + x @ gamma + own[group]
        pm.Bernoulli("strong_success", logit_p=logit, observed=strong, dims="episode")

        def z(rows: np.ndarray, steps: np.ndarray) -> pt.TensorVariable:
            return (pt.log(seen[rows, steps] @ w) - beta0 - x[rows] @ beta - shift[group[rows]]) / s

        early, between, late = said.early, said.between, said.late
        above, below = z(early, said.stop[early]), z(late, said.start[late])
        low, high = z(between, said.start[between]), z(between, said.stop[between])
        pm.CustomDist("crossed_early", above, logp=lambda _, b: log_phi(b), observed=said.stop[early])
        pm.CustomDist("crossed", low, high, logp=lambda _, a, b: log_between(a, b), observed=said.stop[between])
        pm.CustomDist("not_crossed", below, logp=lambda _, a: log_phi(-a), observed=said.start[late])
    return grouped
