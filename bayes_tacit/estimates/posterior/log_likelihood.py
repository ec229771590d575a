"""The log-likelihood of every episode under every draw, and predictive draws of what was seen of it."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.likelihood import Bounds, log_bounds, log_mass
from bayes_tacit.model.numerics import NUMPY

RESOLUTION = 2.0**-13
"""Log-likelihoods are kept as multiples of it, in single precision: a third of the bytes of all their digits."""

EARLIER, AS_SEEN, LATER = 1, 2, 3
"""Where a predictive draw lies in the order of when a handoff is due, beside what was seen of the episode."""


def pointwise_log_likelihood(posterior: xr.Dataset, evidence: Evidence, family: Family) -> xr.Dataset:
    """Evaluate the model's likelihood of each episode: its outcome and, if it is timed, its interval together.

    Returns
    -------
    xarray.Dataset
        `total` by episode; its coordinate `timed` names the timed episodes.
    """
    incidence, threshold, _ = _by_draw(posterior, evidence, family)
    total = incidence.copy()
    total[:, evidence.timed] += threshold
    return _labelled(posterior, evidence, total)


def seen_or_not(posterior: xr.Dataset, evidence: Evidence, family: Family, rng: np.random.Generator) -> xr.Dataset:
    """Draw each episode anew and say how that lies to what was seen of it: 1 earlier, 2 the same, 3 later.

    Episodes are ordered by when a handoff is due: at a step, not before the end of the rollout, or never of use since
    Strong fails. What was seen is an interval of that order (a window, the rest of the rollout, Strong's failure), and
    a draw within it is the same. The share of draws that are earlier, plus a random part of those that are the same,
    is the probability integral transform of an interval, which is uniform if the model is right.

    Returns
    -------
    xarray.Dataset
        `total` by episode.
    """
    incidence, threshold, earlier = _by_draw(posterior, evidence, family)
    pi = np.where(evidence.strong_success, np.exp(incidence), -np.expm1(incidence))
    before, same = np.where(evidence.strong_success, 0.0, pi), np.exp(incidence)
    before[:, evidence.timed] = pi[:, evidence.timed] * earlier
    same[:, evidence.timed] *= np.exp(threshold)
    u = rng.random(before.shape)
    drawn = np.where(u < before, EARLIER, np.where(u < before + same, AS_SEEN, LATER)).astype("int8")
    return _labelled(posterior, evidence, drawn)


def linear_predictors(
    posterior: xr.Dataset, evidence: Evidence
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Give the logit of pi (draw, episode), the location (draw, timed), and all parameters with draws as rows."""
    flat = {name: _flatten(posterior, name) for name in ("gamma0", "gamma", "beta0", "beta", "s", "w", "rho")}
    n_draws = len(flat["s"])
    if "gamma" not in posterior:
        flat["gamma"] = flat["beta"] = np.zeros((n_draws, 0))
    logit = flat["gamma0"][:, None] + flat["gamma"] @ evidence.features.T
    location = flat["beta0"][:, None] + flat["beta"] @ evidence.features[evidence.timed].T
    if evidence.grouping is not None:
        position = evidence.grouping.position
        logit += _group_effects(posterior, "gamma")[:, position]
        location += _group_effects(posterior, "beta")[:, position[evidence.timed]]
    return logit, location, flat


def _by_draw(posterior: xr.Dataset, evidence: Evidence, family: Family) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log probability of each B, log mass of each interval, and the probability below it: (draw, episode or timed)."""
    logit, location, flat = linear_predictors(posterior, evidence)
    n_draws, sign = len(logit), np.where(evidence.strong_success, 1.0, -1.0)
    learned = evidence.weights is None and "w" in posterior
    threshold, earlier = np.zeros((2, n_draws, len(evidence.timed)))
    for draw in range(n_draws):
        bounds = log_bounds(
            evidence if evidence.grid is None else evidence.at_memory(float(flat["rho"][draw])),
            flat["w"][draw] if learned else np.ones(1),
            NUMPY,
        ).standardized(location[draw], flat["s"][draw], evidence.n_left)
        threshold[draw] = log_mass(bounds, evidence.n_interval, family, NUMPY)
        earlier[draw] = _below(bounds, family)
    return special.log_expit(sign * logit), threshold, earlier


def _group_effects(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Give the intercepts of groups, (draw, group)."""
    return _flatten(posterior, f"{name}_spread")[:, None] * _flatten(posterior, f"{name}_offset")


def _below(bounds: Bounds, family: Family) -> np.ndarray:
    return np.concatenate([np.zeros(len(bounds.upper)), family.cdf(bounds.lower)])


def _labelled(posterior: xr.Dataset, evidence: Evidence, total: np.ndarray) -> xr.Dataset:
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    return xr.Dataset(
        {"total": (("chain", "draw", "episode"), total.reshape(shape))},
        coords={
            "chain": posterior["chain"].values,
            "draw": posterior["draw"].values,
            "episode": evidence.episode,
            "timed": evidence.episode[evidence.timed],
        },
    )


def rounded(log_likelihood: xr.Dataset) -> xr.Dataset:
    """Keep log-likelihoods to four decimals, as single-precision numbers."""
    total = log_likelihood["total"]
    return log_likelihood.assign(total=(np.round(total / RESOLUTION) * RESOLUTION).astype("float32"))


def _flatten(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Draws of a parameter as rows; nothing if the model does not have it."""
    if name not in posterior:
        return np.zeros(0)
    values = posterior[name].transpose("chain", "draw", ...).values
    return values.reshape(-1, *values.shape[2:])
