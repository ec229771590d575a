"""What was sampled from `build_model` by other means, brought into the form that `sample_posterior` gives."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.form import FORMAT, SCHEMA_VERSION, kept_statistics
from bayes_tacit.estimates.posterior.log_likelihood import (
    AS_SEEN,
    linear_predictors,
    pointwise_log_likelihood,
    rounded,
    seen_or_not,
)
from bayes_tacit.estimates.posterior.log_prior import prior_of, weakly_informative
from bayes_tacit.estimates.posterior.verdict import judge
from bayes_tacit.model.crossing import CrossingSteps
from bayes_tacit.model.design import Design
from bayes_tacit.model.design.grouping import Grouping
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.evidence.grid import PeakGrid
from bayes_tacit.model.families import family_named
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.model.settings import COORDINATE, settings_of
from bayes_tacit.model.standardization import Standardization

REPLICATES = 500
SEED = 0
EXPECTED = "as a trace of build_model(...) has it, by sample_posterior or pymc.sample"


def completed(tree: xr.DataTree, episodes: Episodes | None = None) -> xr.DataTree:
    """Add what `sample_posterior` would have kept, as far as the tree holds what that takes.

    Parameters
    ----------
    tree
        A posterior of `sample_posterior`, which is given back, or a trace that `pymc.sample` made of
        `build_model(...)`, also after something was added to the model. The log-likelihoods of `strong_success` and
        `threshold`, and predictive draws of them, are taken from it if it has them, and computed from the model's own
        parameters otherwise.
    episodes
        The training episodes, without which crossing steps cannot be drawn.

    Raises
    ------
    InvalidDataError
        With what is missing.
    """
    if not isinstance(tree, xr.DataTree):
        raise InvalidDataError(f"a DataTree, {EXPECTED}", field="tree", value=tree)
    if tree.attrs.get("format") == FORMAT:
        return tree
    posterior, constant = _needed(tree)
    settings = settings_of(tree)
    evidence, family = evidence_of(constant, settings), family_named(settings["family"])
    groups = {name: tree[name].to_dataset() for name in tree.children}
    if "sample_stats" in groups:
        groups["sample_stats"] = kept_statistics(groups["sample_stats"])
    groups["constant_data"] = constant.drop_vars(["settings", COORDINATE], errors="ignore")
    groups["log_likelihood"] = rounded(_given_likelihood(groups, evidence, posterior) or _computed(tree, evidence))
    given = groups.get("posterior_predictive", xr.Dataset())
    if {"strong_success", "threshold"} <= set(given.data_vars):
        groups["replicates"] = given[["strong_success", "threshold"]]
    elif episodes is not None:
        crossing = CrossingSteps(episodes, evidence, family, settings["timing"])
        groups["replicates"] = _replicates(posterior, evidence, crossing)
    rng = np.random.default_rng(SEED)
    groups["posterior_predictive"] = seen_or_not(posterior, evidence, family, rng)[["total"]]
    seen = np.full(evidence.n, AS_SEEN, dtype="int8")
    groups["observed_data"] = xr.Dataset({"total": ("episode", seen)}, coords={"episode": evidence.episode})
    out = xr.DataTree.from_dict({name: group.drop_attrs() for name, group in groups.items()})
    sizes = posterior.sizes
    out.attrs = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "inference_method": "nuts",
        "sampler": str(tree["posterior"].attrs.get("inference_library", "pymc")),
        "draws": sizes["draw"],
        "chains": sizes["chain"],
        "created_at": str(tree["posterior"].attrs.get("created_at", datetime.now(UTC).isoformat(timespec="seconds"))),
        "bayes_tacit_version": version("bayes_tacit"),
        **settings,
    }
    prior = prior_of(out)
    if type(prior) is WeaklyInformativePrior and "log_prior" not in groups:
        out["log_prior"] = xr.DataTree(weakly_informative(prior, posterior, groups["constant_data"]))
    if "sample_stats" in groups:
        out.attrs |= judge(out).as_attrs()
    return out


def _needed(tree: xr.DataTree) -> tuple[xr.Dataset, xr.Dataset]:
    for name in ("posterior", "constant_data"):
        if name not in tree.children:
            raise InvalidDataError(
                f"a group {name!r}, {EXPECTED}", field="groups of the tree", value=list(tree.children)
            )
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    settings = settings_of(tree)
    if "family" not in settings:
        expected = f"'settings' among them, {EXPECTED}"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    parameters = ["gamma0", "beta0", "s", *(["gamma", "beta"] if "feature_mean" in constant else [])]
    parameters += ["w"] if "w" not in constant else []
    parameters += ["rho"] if "memory_nodes" in constant else []
    parameters += ["gamma_spread", "gamma_offset", "beta_spread", "beta_offset"] if settings.get("groups") else []
    for name in parameters:
        if name not in posterior:
            expected = f"{name!r} among them, {EXPECTED}"
            raise InvalidDataError(expected, field="variables of posterior", value=list(posterior.data_vars))
    return posterior, constant


def evidence_of(constant: xr.Dataset, settings: dict[str, object]) -> Evidence:
    """Read the evidence back from what a model carries as constant data."""
    for name in (
        "strong_outcome",
        "timed_position",
        "diagnostics_before",
        "diagnostics_within",
        "n_left",
        "n_interval",
    ):
        if name not in constant:
            expected = f"{name!r} among them, {EXPECTED}"
            raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    before, within = constant["diagnostics_before"].values, constant["diagnostics_within"].values
    grid = None
    if "memory_nodes" in constant:
        nodes = constant["memory_nodes"].values
        grid = PeakGrid(nodes, before, within, constant["typical_log_threshold"].values)
        before, within = before[-1], within[-1]
    episode = constant["episode"].values
    features = constant["features"].values if "features" in constant else np.zeros((len(episode), 0))
    names = tuple(constant["feature"].values.tolist()) if "feature" in constant.coords else ()
    mean, scale = (
        constant[name].values if name in constant else np.zeros(0) for name in ("feature_mean", "feature_scale")
    )
    timed, left, interval = constant["timed_position"].values, int(constant["n_left"]), int(constant["n_interval"])
    fixed = constant["w"].values if "w" in constant and before.shape[-1] == 1 else None
    groups = settings.get("groups")
    return Evidence(
        episode=episode,
        strong_success=constant["strong_outcome"].values.astype(bool),
        features=features,
        standardization=Standardization(mean, scale, np.zeros(len(mean), dtype=bool)),
        timed=timed,
        before=before,
        within=within,
        n_left=left,
        n_interval=interval,
        n_right=len(timed) - left - interval,
        zero_mass=np.zeros(0, dtype=int),
        weights=fixed,
        feature_names=names,
        diagnostic_names=tuple(constant["diagnostic"].values.tolist()) if "diagnostic" in constant.coords else (),
        memory=settings.get("memory", 1.0),  # type: ignore[arg-type]
        clock=bool(settings.get("clock", False)),
        unmarked=settings.get("unmarked", "outcome"),  # type: ignore[arg-type]
        grid=grid,
        design=Design.from_json(settings["design"]) if "design" in settings else None,
        grouping=None if groups is None else Grouping(str(groups), (), constant["group_position"].values),
    )


def _given_likelihood(groups: dict[str, xr.Dataset], evidence: Evidence, posterior: xr.Dataset) -> xr.Dataset | None:
    given = groups.get("log_likelihood", xr.Dataset())
    if "total" in given:
        return given
    if not {"strong_success", "threshold"} <= set(given.data_vars):
        return None
    total = given["strong_success"].transpose("chain", "draw", "episode").values.copy()
    total[..., evidence.timed] += given["threshold"].transpose("chain", "draw", "timed").values
    coords = {"chain": posterior["chain"].values, "draw": posterior["draw"].values}
    coords |= {"episode": evidence.episode, "timed": evidence.episode[evidence.timed]}
    return xr.Dataset({"total": (("chain", "draw", "episode"), total)}, coords=coords)


def _computed(tree: xr.DataTree, evidence: Evidence) -> xr.Dataset:
    family = family_named(settings_of(tree)["family"])
    return pointwise_log_likelihood(tree["posterior"].to_dataset(), evidence, family)


def _replicates(posterior: xr.Dataset, evidence: Evidence, crossing: CrossingSteps) -> xr.Dataset:
    """Draw outcomes and crossing steps under evenly spaced draws."""
    every = -(-posterior.sizes["draw"] * posterior.sizes["chain"] // REPLICATES)
    some = posterior.isel(draw=slice(None, None, every))
    logit, location, flat = linear_predictors(some, evidence)
    rng = np.random.default_rng(SEED)
    strong = (rng.random(logit.shape) < special.expit(logit)).astype("int8")
    d = len(evidence.diagnostic_names) or 1
    steps = np.stack(
        [
            crossing.draw(
                location[at],
                flat["s"][at],
                logit[at],
                *(
                    flat["w"][at]
                    if flat["w"].size
                    else evidence.weights
                    if evidence.weights is not None
                    else np.ones(d)
                ),
                *([flat["rho"][at]] if flat["rho"].size else []),
                rng=rng,
            )
            for at in range(len(logit))
        ]
    ).astype("int32")
    shape = (some.sizes["chain"], some.sizes["draw"], -1)
    coords = {"chain": some["chain"].values, "draw": some["draw"].values, "episode": evidence.episode}
    coords["timed"] = evidence.episode[evidence.timed]
    return xr.Dataset(
        {
            "strong_success": (("chain", "draw", "episode"), strong.reshape(shape)),
            "threshold": (("chain", "draw", "timed"), steps.reshape(shape)),
        },
        coords=coords,
    )
