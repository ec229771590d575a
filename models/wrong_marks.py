r"""Marks that are late, or wrong.

The teacher is k steps late with probability p_k, and with probability epsilon marks anywhere, whatever happened. It is
the paper's model but for what a mark [a, b] on a rollout that failed says of kappa, where Z = B = 1:

    (1 - epsilon) sum_k p_k {F(R(b-k)) - F(R(a-k-1))} + epsilon h F(R(H-1)),     h = (b - a + 1) / H

F is the distribution function of kappa. An unmarked one was due by the end, F(R(H-1)); where B = 0, Cheap succeeds by
luck, with probability c. A mark at the last step may have been due at any of the k steps before it.

The library runs a statement of its own (`noise=Noise(...)`); a test holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec, Noise
from models.pieces import center_of, drawn, log_between, log_phi, quietly, running, standardized, thresholds

DELAYS = (2.0, 1.0, 1.0)
"""Concentrations of the prior on 0, 1 and 2 steps late."""

SETTINGS = ModelSpec(noise=Noise(mark_error=(1, 4), lateness=DELAYS))
"""The same model in the library."""


def example() -> Episodes:
    """Return drawn episodes whose marks are one step late, and of which a tenth are anywhere."""
    clean, rng = drawn(), np.random.default_rng(1)
    mark, last = clean.dataset["window_start"].values, clean.n_steps - 1
    bad = np.where(rng.random(len(clean)) < 0.1, rng.integers(0, last + 1), np.minimum(mark + 1, last))
    bad = np.where(np.isnan(mark), np.nan, bad)
    return quietly(clean.dataset.assign(window_start=("episode", bad), window_end=("episode", bad)))


def model(episodes: Episodes, strength: float = 0.01) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty."""
    x, mean, scale = standardized(episodes)
    seen, n = running(episodes), len(episodes)
    marked, cheap = episodes.has_window, episodes.dataset["cheap_success"].values
    strong = episodes.dataset["strong_success"].values
    coords = {
        "episode": episodes.ids,
        "feature": list(episodes.feature_names),
        "diagnostic": list(episodes.diagnostic_names),
    }
    width = episodes.dataset["window_end"].values - episodes.dataset["window_start"].values + 1
    share = np.where(marked, width / episodes.n_steps, 1.0)

    with pm.Model(coords=coords | {"delay": range(len(DELAYS))}) as wrong:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")

        # Priors: the paper's, and what is believed of marks.
        narrow = min(1 / np.sqrt(2 * n * strength), 10.0)
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", center_of(episodes, seen), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature")
        beta = pm.Normal("beta", 0.0, narrow, dims="feature")
        w = pm.Dirichlet("w", np.ones(seen.shape[2]), dims="diagnostic")
        c = pm.Beta("lucky", 1, 1)
        epsilon = pm.Beta("mark_error", 1, 4)
        lateness = pm.Dirichlet("lateness", np.array(DELAYS), dims="delay")

        def z(rows: np.ndarray, steps: np.ndarray) -> pt.TensorVariable:
            return (pt.log(seen[rows, steps] @ w) - beta0 - x[rows] @ beta) / s

        # Where Z = 1: a rollout that succeeded has not crossed by its end, one that failed has.
        ends = np.flatnonzero(seen[np.arange(n), episodes.n_steps].sum(axis=1) > 0)
        at_end = z(ends, episodes.n_steps[ends])
        whole = pt.zeros(n)[ends].set(pt.where(cheap[ends], log_phi(-at_end), log_phi(at_end)))

        # A mark adds when, as it would be with each delay, and as it would be anywhere.
        def late_by(k: int) -> pt.TensorVariable:
            said = thresholds(episodes, seen, shift=-k, all_rollouts=True)
            early, between = (rows[marked[rows]] for rows in (said.early, said.between))
            mass = pt.full(n, np.float64(-1e10))
            mass = mass[early].set(log_phi(z(early, said.stop[early])))
            return mass[between].set(log_between(z(between, said.start[between]), z(between, said.stop[between])))

        right = pt.stack([pt.log(lateness[k]) + pt.log1p(-epsilon) + late_by(k) for k in range(len(DELAYS))])
        anywhere = pt.log(epsilon) + np.log(share) + whole
        marks = pt.logaddexp(pt.logsumexp(right, axis=0), anywhere)
        rollout = pt.where(marked, marks, whole)
        luck = pt.where(cheap, pt.log(c), pt.log1p(-c)) + np.log(share)

        # B is exact: it says which of the two it was.
        logit = gamma0 + x @ gamma
        pm.CustomDist(
            "strong_success",
            -pt.softplus(-logit) + rollout,
            -pt.softplus(logit) + luck,
            logp=lambda b, can, cannot: pt.where(pt.eq(b, 1), can, cannot),
            observed=strong.astype(int),
            dims="episode",
        )
    return wrong
