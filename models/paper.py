r"""The paper's model: whether Strong can, and how much risk Cheap may run before it is time to hand over.

For task i with features x, Strong's success B, and Cheap's diagnostics u(0), u(1), ...

    B_i     ~ Bernoulli(pi_i),               logit pi_i = gamma0 + x_i gamma
    kappa_i ~ LogNormal(beta0 + x_i beta, s)      the threshold, where B_i = 1
    R_i(t)  = w . (u_i(0) + ... + u_i(t))         the risk so far, w on the simplex

kappa is never seen. A teacher who marks steps a to b of a rollout that failed says R(a-1) < kappa <= R(b); a rollout
that succeeds, though Strong could have taken over, says kappa > R(H-1). The score is q(t) = pi P(kappa <= R(t)).

The library runs a statement of its own (`bayes_tacit.build_model`, compiled in `bayes_tacit.model.compiled`); a test
holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec, load_example
from models.pieces import center_of, log_between, log_phi, running, standardized, thresholds

SETTINGS = ModelSpec(unmarked="outcome")
"""The same model in the library."""

example = load_example


def model(
    episodes: Episodes,
    strength: float = 0.01,
    *,
    weights: tuple[float, ...] | None = None,
    timing: str = "post_action",
    memory: float = 1.0,
    clock: bool = False,
) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty, `weights` are fixed if given."""
    x, mean, scale = standardized(episodes)
    seen = running(episodes, memory, clock=clock)
    fixed = np.array(weights) if weights is not None else (np.ones(1) if seen.shape[2] == 1 else None)
    said = thresholds(episodes, seen, shift=int(timing == "proposal"), due=False)
    names = [*episodes.diagnostic_names, *(["clock"] if clock else [])]
    coords = {"episode": episodes.ids, "feature": list(episodes.feature_names), "diagnostic": names}

    with pm.Model(coords=coords) as paper:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")

        # Priors: the penalty as a normal, the rest wide.
        narrow = min(1 / np.sqrt(2 * len(x) * strength), 10.0) if strength else 10.0
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", center_of(episodes, seen, fixed), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature") if x.shape[1] else pt.zeros(0)
        beta = pm.Normal("beta", 0.0, narrow, dims="feature") if x.shape[1] else pt.zeros(0)
        if fixed is not None:
            w = pm.Data("w", fixed, dims="diagnostic")
        else:
            w = pm.Dirichlet("w", np.ones(len(names)), dims="diagnostic")

        # Whether Strong can.
        strong = episodes.dataset["strong_success"].values.astype(int)
        pm.Bernoulli("strong_success", logit_p=gamma0 + x @ gamma, observed=strong, dims="episode")

        # When it was due: z is log R, standardized by each task's own threshold.
        def z(rows: np.ndarray, steps: np.ndarray) -> pt.TensorVariable:
            return (pt.log(seen[rows, steps] @ w) - beta0 - x[rows] @ beta) / s

        early, between, late = said.early, said.between, said.late
        above, below = z(early, said.stop[early]), z(late, said.start[late])
        low, high = z(between, said.start[between]), z(between, said.stop[between])
        pm.CustomDist("crossed_early", above, logp=lambda _, b: log_phi(b), observed=said.stop[early])
        pm.CustomDist("crossed", low, high, logp=lambda _, a, b: log_between(a, b), observed=said.stop[between])
        pm.CustomDist("not_crossed", below, logp=lambda _, a: log_phi(-a), observed=said.start[late])
    return paper
