r"""Two logs of different tasks: last month's on Cheap, this month's on Strong, a few tasks played by both, no marks.

The paper's model, of which each task shows what it can. With Z = 1 where Strong can solve the task,

    Z_i     ~ Bernoulli(pi_i),               logit pi_i = gamma0 + x_i gamma
    kappa_i ~ LogNormal(beta0 + x_i beta, s)
    Strong succeeds exactly if Z = 1; Cheap succeeds if kappa > R(H-1) where Z = 1, and with probability c elsewhere

- played by Strong only: P(B), which is what teaches pi;
- played by Cheap only: pi P(A | kappa) + (1 - pi) P(A | c), a sum over the Z that nobody saw;
- played by both: one of the two terms. A few of these tell a Cheap that is lucky from a Strong that could not.

The library runs a statement of its own; a test holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec, Noise
from models.pieces import center_of, drawn, log_phi, quietly, running, standardized

SETTINGS = ModelSpec(noise=Noise())
"""The same model in the library, which takes it by itself where a side was not played."""

NEVER = np.float64(-1e10)


def example() -> Episodes:
    """Return drawn tasks: two in five played by Cheap only, two in five by Strong only, one in five by both."""
    clean = drawn(1000).dataset
    part = np.arange(1000) % 5
    cheap, strong = part != 0, part != 1
    cheap[part == 2] = strong[part == 3] = False
    hidden = {name: np.full(1000, np.nan) for name in ("window_start", "window_end")}
    hidden["cheap_success"] = np.where(cheap, clean["cheap_success"].values.astype(float), np.nan)
    hidden["strong_success"] = np.where(strong, clean["strong_success"].values.astype(float), np.nan)
    hidden["n_steps"] = np.where(cheap, clean["n_steps"].values, 0)
    return quietly(clean.assign({name: ("episode", values) for name, values in hidden.items()}))


def model(episodes: Episodes, strength: float = 0.01) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty."""
    x, mean, scale = standardized(episodes)
    seen, n = running(episodes), len(episodes)
    final = seen[np.arange(n), episodes.n_steps]
    rows = np.flatnonzero(episodes.cheap_played & (final.sum(axis=1) > 0))
    cheap = episodes.dataset["cheap_success"].values[rows]
    successes, trials = episodes.strong_counts
    coords = {
        "episode": episodes.ids,
        "feature": list(episodes.feature_names),
        "diagnostic": list(episodes.diagnostic_names),
    }

    with pm.Model(coords=coords) as unpaired:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")
        narrow = min(1 / np.sqrt(2 * n * strength), 10.0)
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", center_of(episodes, seen), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature")
        beta = pm.Normal("beta", 0.0, narrow, dims="feature")
        w = pm.Dirichlet("w", np.ones(seen.shape[2]), dims="diagnostic")
        c = pm.Beta("lucky", 1, 1)

        # What each side says under either Z; nothing if it was not played.
        z = (pt.log(final[rows] @ w) - beta0 - x[rows] @ beta) / s
        by_threshold = pt.where(cheap, log_phi(-z), log_phi(z))
        by_luck = pt.where(cheap, pt.log(c), pt.log1p(-c))
        logit = gamma0 + x @ gamma
        failures = trials - successes
        can = (-pt.softplus(-logit) + NEVER * failures)[rows].inc(by_threshold)
        cannot = (-pt.softplus(logit) + NEVER * successes)[rows].inc(by_luck)
        pm.CustomDist(
            "strong_success", can, cannot, logp=lambda _, a, b: pt.logaddexp(a, b), observed=successes, dims="episode"
        )
    return unpaired
