"""The log-likelihood of every episode under every draw."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.likelihood import threshold_log_likelihood
from bayes_tacit.model.numerics import NUMPY


def pointwise_log_likelihood(posterior: xr.Dataset, evidence: Evidence, family: Family) -> xr.Dataset:
    """Evaluate the model's likelihood: `strong_success` by episode, `threshold` by timed episode, `total` by episode.

    A timed episode's `total` is the sum of both; of any other episode it is the first alone.
    """
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    flat = {name: _flatten(posterior, name) for name in ("gamma0", "gamma", "beta0", "beta", "s", "w", "rho")}
    n_draws = shape[0] * shape[1]
    if "gamma" not in posterior:
        flat["gamma"] = flat["beta"] = np.zeros((n_draws, 0))
    sign = np.where(evidence.strong_success, 1.0, -1.0)
    logit = flat["gamma0"][:, None] + flat["gamma"] @ evidence.features.T
    incidence = special.log_expit(sign * logit)
    location = flat["beta0"][:, None] + flat["beta"] @ evidence.features[evidence.timed].T
    learned = evidence.weights is None and "w" in posterior
    threshold = np.stack(
        [
            threshold_log_likelihood(
                evidence if evidence.grid is None else evidence.at_memory(float(flat["rho"][draw])),
                flat["w"][draw] if learned else np.ones(1),
                location[draw],
                flat["s"][draw],
                family,
                NUMPY,
            )
            for draw in range(n_draws)
        ]
    )
    total = incidence.copy()
    total[:, evidence.timed] += threshold
    variables = {
        "strong_success": ("episode", incidence),
        "threshold": ("timed", threshold),
        "total": ("episode", total),
    }
    return xr.Dataset(
        {name: (("chain", "draw", dim), values.reshape(*shape, -1)) for name, (dim, values) in variables.items()},
        coords={
            "chain": posterior["chain"].values,
            "draw": posterior["draw"].values,
            "episode": evidence.episode,
            "timed": evidence.episode[evidence.timed],
        },
    )


def _flatten(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Draws of a parameter as rows; nothing if the model does not have it."""
    if name not in posterior:
        return np.zeros(0)
    values = posterior[name].transpose("chain", "draw", ...).values
    return values.reshape(-1, *values.shape[2:])
