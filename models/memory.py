r"""Risk that is forgotten: each diagnostic is a leaky sum, and what counts is the highest that it has been.

    L(t) = rho L(t-1) + u(t),    P(t) = max over s <= t of L(s),    R(t) = w . P(t),    rho ~ Uniform(0, 1)

rho = 1 is the paper. The clock, one at every step, is one more diagnostic, never forgotten: its weight says how much
time alone counts. A peak is increasing and convex in rho; its values at a few dozen memories, joined by straight lines,
stand for it, so that the graph holds a few numbers a task whatever the horizon.

The library runs a statement of its own (`memory="learned"`); a test holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec
from bayes_tacit.model.memory import memory_nodes
from models.pieces import center_of, drawn, log_between, log_phi, running, standardized, thresholds

SETTINGS = ModelSpec(memory="learned", clock=True)
"""The same model in the library."""

example = drawn


def model(episodes: Episodes, strength: float = 0.01) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty."""
    x, mean, scale = standardized(episodes)
    nodes = memory_nodes(episodes.horizon)
    seen = np.stack([running(episodes, memory, clock=True) for memory in nodes])
    said = thresholds(episodes, seen[-1])
    typical = np.array([center_of(episodes, at) for at in seen])
    names = [*episodes.diagnostic_names, "clock"]
    coords = {"episode": episodes.ids, "feature": list(episodes.feature_names), "diagnostic": names}

    with pm.Model(coords=coords) as forgetful:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")
        rho = pm.Beta("rho", 1, 1)

        def at_memory(values: np.ndarray) -> pt.TensorVariable:
            """Join the values at the memories on either side of rho by a straight line."""
            low = (rho >= nodes[1:-1]).sum()
            left, right = pt.constant(nodes)[low], pt.constant(nodes)[low + 1]
            share = (rho - left) / (right - left)
            return (1 - share) * pt.constant(values)[low] + share * pt.constant(values)[low + 1]

        narrow = min(1 / np.sqrt(2 * len(x) * strength), 10.0)
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", at_memory(typical), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature")
        beta = pm.Normal("beta", 0.0, narrow, dims="feature")
        w = pm.Dirichlet("w", np.ones(len(names)), dims="diagnostic")

        strong = episodes.dataset["strong_success"].values.astype(int)
        pm.Bernoulli("strong_success", logit_p=gamma0 + x @ gamma, observed=strong, dims="episode")

        def z(rows: np.ndarray, steps: np.ndarray) -> pt.TensorVariable:
            return (pt.log(at_memory(seen[:, rows, steps]) @ w) - beta0 - x[rows] @ beta) / s

        early, between, late = said.early, said.between, said.late
        above, below = z(early, said.stop[early]), z(late, said.start[late])
        low, high = z(between, said.start[between]), z(between, said.stop[between])
        pm.CustomDist("crossed_early", above, logp=lambda _, b: log_phi(b), observed=said.stop[early])
        pm.CustomDist("crossed", low, high, logp=lambda _, a, b: log_between(a, b), observed=said.stop[between])
        pm.CustomDist("not_crossed", below, logp=lambda _, a: log_phi(-a), observed=said.start[late])
    return forgetful
