r"""Outcomes that are draws: Strong fails at times where it could have succeeded, and gets lucky elsewhere.

Z says whether Strong can solve a task. What is seen of it are Strong's k successes of m rollouts, and Cheap's rollout:

    Z_i     ~ Bernoulli(pi_i),               logit pi_i = gamma0 + x_i gamma
    k_i | Z ~ Binomial(m_i, sensitivity if Z = 1, else 1 - specificity)
    kappa_i ~ LogNormal(beta0 + x_i beta, s)
    Cheap fails exactly if kappa <= R(H-1), where Z = 1; it succeeds with probability c elsewhere

Where only Strong succeeded, a teacher marks the step with probability `marked` if a handoff was due (Z = 1), and some
step with probability `stray` if it only seemed so. Z is summed out: a task's likelihood is pi times what Z = 1 says of
all that was seen of it, plus 1 - pi times what Z = 0 says.

The library runs a statement of its own (`noise=Noise(...)`); a test holds its density and gradient to this page's.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_tacit import Episodes, ModelSpec, Noise
from models.pieces import center_of, drawn, log_between, log_phi, quietly, running, standardized, thresholds

SETTINGS = ModelSpec(noise=Noise(sensitivity=(8, 2), specificity=(8, 2)))
"""The same model in the library."""


def example() -> Episodes:
    """Return drawn episodes, of which a tenth of Strong's outcomes are wrong, and which it played up to three times."""
    clean, rng = drawn(), np.random.default_rng(1)
    trials = rng.integers(1, 4, len(clean))
    can = clean.dataset["strong_success"].values
    successes = rng.binomial(trials, np.where(can, 0.9, 0.1))
    marks = {
        name: np.where(successes > 0, clean.dataset[name].values, np.nan) for name in ("window_start", "window_end")
    }
    data = clean.dataset.drop_vars("strong_success")
    counts = {"strong_successes": successes, "strong_trials": trials}
    return quietly(data.assign({name: ("episode", values) for name, values in (counts | marks).items()}))


def model(episodes: Episodes, strength: float = 0.01) -> pm.Model:
    """State the model of some episodes; `strength` is the paper's ridge penalty."""
    x, mean, scale = standardized(episodes)
    seen = running(episodes)
    said = thresholds(episodes, seen, all_rollouts=True)
    rows, cheap = said.rows, episodes.dataset["cheap_success"].values[said.rows]
    k, m = episodes.strong_counts
    marked = episodes.has_window[rows]
    unmarked = ~cheap & ~marked & (k[rows] > 0)
    width = (episodes.dataset["window_end"].values - episodes.dataset["window_start"].values + 1)[rows]
    share = np.where(marked, width / episodes.n_steps[rows], 1.0)
    coords = {
        "episode": episodes.ids,
        "feature": list(episodes.feature_names),
        "diagnostic": list(episodes.diagnostic_names),
    }

    with pm.Model(coords=coords) as noisy:
        pm.Data("feature_mean", mean, dims="feature")
        pm.Data("feature_scale", scale, dims="feature")

        # Priors: the paper's, and what is believed of outcomes and marks.
        narrow = min(1 / np.sqrt(2 * len(x) * strength), 10.0)
        gamma0 = pm.Normal("gamma0", 0.0, 10.0)
        beta0 = pm.Normal("beta0", center_of(episodes, seen), 10.0)
        s = pm.HalfNormal("s", 10.0, initval=1.0)
        gamma = pm.Normal("gamma", 0.0, narrow, dims="feature")
        beta = pm.Normal("beta", 0.0, narrow, dims="feature")
        w = pm.Dirichlet("w", np.ones(seen.shape[2]), dims="diagnostic")
        sensitivity = pm.Beta("sensitivity", 8, 2)
        specificity = pm.Beta("specificity", 8, 2)
        c = pm.Beta("lucky", 1, 1)
        marks = pm.Beta("marked", 1, 1)
        strays = pm.Beta("stray", 1, 4)

        # What Cheap's rollout says where Z = 1: the mass of its threshold's interval.
        def z(rows: np.ndarray, steps: np.ndarray) -> pt.TensorVariable:
            return (pt.log(seen[rows, steps] @ w) - beta0 - x[rows] @ beta) / s

        early, between, late = said.early, said.between, said.late
        mass = pt.concatenate(
            [
                log_phi(z(early, said.stop[early])),
                log_between(z(between, said.start[between]), z(between, said.stop[between])),
                log_phi(-z(late, said.start[late])),
            ]
        )
        luck = pt.where(cheap, pt.log(c), pt.log1p(-c)) + np.log(share)

        # All that was seen of a task, under either Z.
        logit = gamma0 + x @ gamma
        can = -pt.softplus(-logit) + k * pt.log(sensitivity) + (m - k) * pt.log1p(-sensitivity)
        cannot = -pt.softplus(logit) + (m - k) * pt.log(specificity) + k * pt.log1p(-specificity)
        can = can[rows].inc(mass + marked * pt.log(marks) + unmarked * pt.log1p(-marks))
        cannot = cannot[rows].inc(luck + marked * pt.log(strays) + unmarked * pt.log1p(-strays))
        pm.CustomDist(
            "strong_success", can, cannot, logp=lambda _, a, b: pt.logaddexp(a, b), observed=k, dims="episode"
        )
    return noisy
