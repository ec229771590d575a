"""The log density of the prior at every draw, in plain NumPy."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.priors import WeaklyInformativePrior, prior_from_json
from bayes_tacit.review.checks.base import group_of

LOG_SQRT_2PI = float(np.log(2 * np.pi) / 2)


def log_prior(tree: xr.DataTree) -> xr.Dataset:
    """Evaluate the prior that a posterior was sampled with, parameter by parameter.

    Densities are those of the parameters themselves, without the Jacobian of the sampler's transformations, as power
    scaling wants them and as `pymc.compute_log_prior` gives them.

    Returns
    -------
    xarray.Dataset
        `gamma0`, `beta0`, `s`, and where they are parameters `gamma`, `beta`, `w` and `rho`, summed over features or
        diagnostics; dims `chain` and `draw`.
    """
    posterior = group_of(tree, "posterior")
    center = _typical_log_threshold(tree)
    prior = prior_of(tree)
    log_s = xr.apply_ufunc(np.log, posterior["s"])
    out = {
        "gamma0": _normal(posterior["gamma0"], 0.0, prior.incidence_intercept),
        "beta0": _normal(posterior["beta0"], center, prior.location_intercept),
        "s": _normal(log_s, float(np.log(prior.scale_median)), prior.scale_spread) - log_s,
    }
    for name, scale in (("gamma", prior.incidence_slope), ("beta", prior.location_slope)):
        if name in posterior:
            out[name] = _normal(posterior[name], 0.0, scale).sum("feature")
    if "rho" in posterior:
        out["rho"] = _beta(posterior["rho"], prior.memory_kept, prior.memory_lost)
    if "w" in posterior:
        out["w"] = _dirichlet(posterior["w"], prior.concentration)
    return xr.Dataset(out)


def prior_of(tree: xr.DataTree) -> WeaklyInformativePrior:
    """Read the prior from a posterior's provenance.

    Examples
    --------
    >>> tree = xr.DataTree()
    >>> tree.attrs["prior"] = '{"name": "WeaklyInformativePrior", "location_slope": 0.25}'
    >>> prior_of(tree).location_slope
    0.25
    """
    text = tree.attrs.get("prior")
    try:
        prior = prior_from_json(str(text))
    except InvalidDataError:
        prior = None
    if not isinstance(prior, WeaklyInformativePrior):
        expected = "a WeaklyInformativePrior as JSON: posteriors of an older bayes_tacit must be sampled again"
        raise InvalidDataError(expected, field="prior of the tree", value=text)
    return prior


def _typical_log_threshold(tree: xr.DataTree) -> float | xr.DataArray:
    """Give what beta0 was placed around, which depends on the memory where that is learned."""
    constant, posterior = group_of(tree, "constant_data"), group_of(tree, "posterior")
    typical = constant["typical_log_threshold"]
    if "rho" not in posterior:
        return float(typical)
    rho = posterior["rho"]
    return rho.copy(data=np.interp(rho.values, constant["memory_nodes"].values, typical.values))


def _beta(rho: xr.DataArray, first: float, second: float) -> xr.DataArray:
    density = special.xlogy(first - 1, rho.values) + special.xlog1py(second - 1, -rho.values)
    return rho.copy(data=density - special.betaln(first, second))


def _normal(value: xr.DataArray, mean: float | xr.DataArray, sd: float) -> xr.DataArray:
    return -0.5 * ((value - mean) / sd) ** 2 - (np.log(sd) + LOG_SQRT_2PI)


def _dirichlet(w: xr.DataArray, concentration: float) -> xr.DataArray:
    d = w.sizes["diagnostic"]
    constant = float(special.gammaln(d * concentration) - d * special.gammaln(concentration))
    return xr.apply_ufunc(special.xlogy, concentration - 1, w).sum("diagnostic") + constant
