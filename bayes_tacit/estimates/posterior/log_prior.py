"""The log density of the prior at every draw, in plain NumPy."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_from_json
from bayes_tacit.model.settings import settings_of

LOG_SQRT_2PI = float(np.log(2 * np.pi) / 2)


def log_prior(tree: xr.DataTree) -> xr.Dataset:
    """Evaluate the prior that a posterior was sampled with, parameter by parameter.

    Densities are those of the parameters themselves, without the Jacobian of the sampler's transformations, as power
    scaling wants them and as `pymc.stats.compute_log_prior` gives them.

    Returns
    -------
    xarray.Dataset
        `gamma0`, `beta0`, `s`, and where they are parameters `gamma`, `beta`, `w`, `rho` and those of groups, summed
        over features, diagnostics or groups; dims `chain` and `draw`. Of a prior of one's own it is the group
        `log_prior`, which was computed when it was sampled.
    """
    prior = prior_of(tree)
    if type(prior) is not WeaklyInformativePrior:
        if "log_prior" not in tree.children:
            expected = (
                "a group 'log_prior': for a prior of your own, pymc.stats.compute_log_prior(tree, model=model) makes it"
            )
            raise InvalidDataError(expected, field="groups of the tree", value=list(tree.children))
        return tree["log_prior"].to_dataset()
    return weakly_informative(prior, tree["posterior"].to_dataset(), tree["constant_data"].to_dataset())


def weakly_informative(prior: WeaklyInformativePrior, posterior: xr.Dataset, constant: xr.Dataset) -> xr.Dataset:
    """Evaluate the prior that comes along, in NumPy: PyMC would have to compile it."""
    center = _typical_log_threshold(posterior, constant)
    log_s = xr.apply_ufunc(np.log, posterior["s"])
    out = {
        "gamma0": _normal(posterior["gamma0"], 0.0, prior.incidence_intercept),
        "beta0": _normal(posterior["beta0"], center, prior.location_intercept),
        "s": _normal(log_s, float(np.log(prior.scale_median)), prior.scale_spread) - log_s,
    }
    for name, scale in (("gamma", prior.incidence_slope), ("beta", prior.location_slope)):
        if name in posterior:
            out[name] = _normal(posterior[name], 0.0, scale).sum("feature")
    for name, scale in (("gamma", prior.incidence_spread), ("beta", prior.location_spread)):
        if f"{name}_spread" in posterior:
            out[f"{name}_spread"] = _normal(posterior[f"{name}_spread"], 0.0, scale) + float(np.log(2.0))
    # The offsets of groups are a part of the model: what is believed of them before the data is their spread.
    if "rho" in posterior:
        out["rho"] = _beta(posterior["rho"], prior.memory_kept, prior.memory_lost)
    if "w" in posterior:
        out["w"] = _dirichlet(posterior["w"], prior.concentration)
    return xr.Dataset(out)


def prior_of(tree: xr.DataTree) -> Prior:
    """Read the prior from a posterior's provenance.

    Examples
    --------
    >>> tree = xr.DataTree()
    >>> tree.attrs["prior"] = '{"name": "WeaklyInformativePrior", "location_slope": 0.25}'
    >>> prior_of(tree).location_slope
    0.25
    """
    text = settings_of(tree).get("prior")
    try:
        return checked_prior(prior_from_json(str(text)), proper=True)
    except InvalidDataError:
        expected = (
            "a proper prior as JSON, of a class that is known (register_prior makes one of your own known); posteriors "
            "of an older bayes_tacit must be sampled again"
        )
        raise InvalidDataError(expected, field="prior of the tree", value=text) from None


def _typical_log_threshold(posterior: xr.Dataset, constant: xr.Dataset) -> float | xr.DataArray:
    """Give what beta0 was placed around, which depends on the memory where that is learned."""
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
