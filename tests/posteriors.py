"""Posteriors made of random draws, in the shape that `sample_posterior` gives; nothing is sampled."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayes_tacit import Episodes


def random_posterior(
    rng: np.random.Generator,
    episodes: Episodes,
    *,
    chains: int = 2,
    draws: int = 5,
    family: str = "lognormal",
    spread: float = 0.2,
    fixed_weights: bool = False,
) -> xr.DataTree:
    """Draw parameters for the features and diagnostics of some episodes; a smaller spread makes the draws alike."""
    features, diagnostics = list(episodes.feature_names), list(episodes.diagnostic_names)
    shape = (chains, draws)
    sample = ("chain", "draw")
    variables = {
        "gamma0": (sample, rng.normal(0.5, spread, shape)),
        "beta0": (sample, rng.normal(0.3, spread, shape)),
        "s": (sample, np.exp(rng.normal(-0.5, spread, shape))),
    }
    if features:
        for name in ("gamma", "beta"):
            variables[name] = ((*sample, "feature"), rng.normal(0.2, spread, (*shape, len(features))))
    weights = rng.dirichlet(np.full(len(diagnostics), 1 / spread), shape)
    if not fixed_weights:
        variables["w"] = ((*sample, "diagnostic"), weights)
    raw = episodes.dataset["features"].values
    constant = {
        "feature_mean": ("feature", raw.mean(axis=0) + 0.1),
        "feature_scale": ("feature", raw.std(axis=0) + 0.5),
    }
    if fixed_weights:
        constant["w"] = ("diagnostic", weights[0, 0])
    names = {"feature": features, "diagnostic": diagnostics}
    coords = {"chain": np.arange(chains), "draw": np.arange(draws), **names}
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset(variables, coords=coords), "constant_data": xr.Dataset(constant, coords=names)}
    )
    tree.attrs = {"family": family, "timing": "post_action"}
    return tree


def changed(tree: xr.DataTree, group: str, **variables: object) -> xr.DataTree:
    """Copy a posterior and replace some variables of a group by values of the same shape."""
    out = tree.copy()
    dataset = tree[group].to_dataset()
    replaced = {name: (dataset[name].dims, np.asarray(values)) for name, values in variables.items()}
    out[group] = xr.DataTree(dataset.assign(replaced))
    return out


def with_attrs(tree: xr.DataTree, **attrs: object) -> xr.DataTree:
    """Copy a posterior and change some of its attributes."""
    out = tree.copy()
    out.attrs = {**tree.attrs, **attrs}
    return out
