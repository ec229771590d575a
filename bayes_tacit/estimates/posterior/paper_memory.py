"""The posterior of the same model with the paper's memory."""

from __future__ import annotations

import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.estimates.posterior.sampling import sample_posterior
from bayes_tacit.model.design import Design
from bayes_tacit.model.settings import settings_of


def with_paper_memory(tree: xr.DataTree, episodes: Episodes, *, progress: bool | None = None) -> xr.DataTree:
    """Sample what a posterior would be if nothing were forgotten: rho = 1, and all else the same.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes it was fitted on.
    progress
        As for `sample_posterior`.

    Examples
    --------
    >>> tree = sample_posterior(episodes, memory="learned", clock=True)  # doctest: +SKIP
    >>> report(tree, episodes, "report.html", paper=with_paper_memory(tree, episodes))  # doctest: +SKIP
    """
    attrs = settings_of(tree)
    if "sampler" not in attrs:
        raise InvalidDataError("a posterior that sample_posterior gave", field="attributes", value=sorted(attrs))
    constant = tree["constant_data"].to_dataset()
    fixed = constant["w"].values if "w" in constant and constant.sizes["diagnostic"] > 1 else None
    return sample_posterior(
        episodes,
        prior_of(tree),
        draws=int(attrs["draws"]),
        tune=int(attrs["tune"]),
        chains=int(attrs["chains"]),
        seed=int(attrs["seed"]),
        target_accept=float(attrs["target_accept"]),
        family=attrs["family"],
        weights=fixed,
        timing=attrs["timing"],
        zero_mass="drop_window",
        sampler=attrs["sampler"],
        progress=progress,
        clock=bool(attrs.get("clock", 0)),
        unmarked=attrs.get("unmarked", "outcome"),
        features=Design.from_json(attrs["design"]) if "design" in attrs else None,
        groups=attrs.get("groups"),
    )
