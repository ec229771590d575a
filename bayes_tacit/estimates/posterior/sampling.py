"""NUTS on the PyMC model; what comes back is an ArviZ DataTree that knows where it came from."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from math import isqrt
from typing import Any, Literal, get_args

import numpy as np
import nutpie
import pymc as pm
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import ConvergenceError
from bayes_tacit.estimates.posterior.compiled import compiled_for
from bayes_tacit.estimates.posterior.form import FORMAT, SCHEMA_VERSION, kept_statistics
from bayes_tacit.estimates.posterior.log_likelihood import (
    AS_SEEN,
    pointwise_log_likelihood,
    rounded,
    seen_or_not,
)
from bayes_tacit.estimates.posterior.log_prior import weakly_informative
from bayes_tacit.estimates.posterior.verdict import judge
from bayes_tacit.model.build import forward_draws, model_data, state_model
from bayes_tacit.model.crossing import CrossingSteps
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import Evidence, Unmarked, Weights, ZeroMass, collect_evidence
from bayes_tacit.model.evidence.alike import warn_if_alike
from bayes_tacit.model.families import Family, family_named
from bayes_tacit.model.memory import Memory
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_to_json
from bayes_tacit.model.settings import COORDINATE, design_settings
from bayes_tacit.progress import watched

Sampler = Literal["nutpie", "pymc"]

QUICK = {"mode": "FAST_COMPILE"}
"""Forward draws are cheap; compiling them well would take longer than drawing them."""

MOST_DRAWS, MOST_CHAINS = 1_000_000, 1_000
"""More would not fit into the memory of any machine at hand."""


def sample_posterior(
    episodes: Episodes,
    prior: Prior | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    target_accept: float = 0.9,
    family: str | Family = "lognormal",
    weights: Weights | None = None,
    timing: Timing = "post_action",
    zero_mass: ZeroMass | None = None,
    sampler: Sampler = "nutpie",
    cores: int | None = None,
    predictive_draws: int = 500,
    prior_predictive: bool = False,
    progress: bool | None = None,
    memory: Memory = 1.0,
    clock: bool = False,
    unmarked: Unmarked = "due",
    features: str | Design | None = None,
    groups: str | None = None,
) -> xr.DataTree:
    """Sample the posterior of all parameters.

    Parameters
    ----------
    episodes
        Training episodes.
    prior
        A proper prior; `WeaklyInformativePrior()` by default, or one of your own
        (`bayes_tacit.model.priors.register_prior`).
    draws, tune, chains
        Kept draws and warm-up draws of each chain, and how many chains.
    seed
        The same one gives the same draws, whatever else was sampled in the process.
    target_accept
        Acceptance rate that the step size is tuned to; raise it if there are divergences.
    family
        Distribution of the threshold: "lognormal" as in the paper, "loglogistic", "weibull", "loggamma", or what was
        registered (`bayes_tacit.model.families.register_family`).
    weights
        Simplex weights to hold fixed; by default they are learned.
    timing
        "post_action", or "proposal" to align a mark after step t with the proposal at step t + 1.
    zero_mass
        What to do with a window in which no risk is added: "refuse" (the default), or "drop_window".
    sampler
        "nutpie", or "pymc" for PyMC's own.
    cores
        How many chains run at a time; by default as many as there are processors.
    predictive_draws
        How many prior draws and, at most, how many posterior predictive draws of outcomes and crossing steps are kept.
    prior_predictive
        Whether the prior's own predictions are kept, too, as group `prior_predictive`.
    progress
        Whether to show a progress bar; by default on a terminal and in a notebook.
    memory
        rho from 0 to 1: what is left of a diagnostic's leaky sum after a step; 1, the paper's, forgets nothing.
        "learned" samples it too, as `rho`; best with a clock, since every window must have mass at every memory.
    clock
        Whether the number of steps counts as one more diagnostic, "clock". Under it every window has mass.
    unmarked
        How an AB = 01 episode without a window is read: "due", as crossed by the end of its rollout, or "outcome", as
        the paper does, for its outcome alone, which makes scores too low. "due" assumes that since Strong solves the
        task and Cheap does not, the handoff was due before Cheap's rollout ended, and that the mark is missing for
        reasons that have nothing to do with when. No mark is needed then, if final risks differ between tasks: a
        warning says where they do not.
    features
        A formula on features and carried columns, such as "bs(words, df=4) + C(kind) + hardness:tools"; by default all
        features as they are.
    groups
        A carried column, such as "database", whose levels get intercepts of their own for incidence and location,
        partially pooled. Scores and routers give a known group its own, and a new one a draw from the spread: one for
        every posterior draw, so that the mean and the quantiles of q(t) are over new groups, too.

    Returns
    -------
    xarray.DataTree
        Groups `posterior`, `sample_stats`, `prior`, `posterior_predictive`, `log_likelihood`, `log_prior`,
        `observed_data`, `constant_data`, which ArviZ's functions take as they are: what was seen of an episode, its
        outcome and its interval, is one observation, `total`, and a predictive draw of it lies earlier (1), within (2)
        or later (3). The group `replicates` has drawn outcomes (`strong_success`) and crossing steps (`threshold`).
        `attrs` hold versions, seed, settings, prior, a fingerprint of the data, and the verdict (see `judge`). If
        sampling was interrupted from the keyboard, it holds what was drawn until then and `attrs` say so.

    Examples
    --------
    >>> from bayes_tacit import load_example, sample_posterior
    >>> tree = sample_posterior(load_example(), draws=500, seed=1)  # doctest: +SKIP
    >>> tree.attrs["verdict"]  # doctest: +SKIP
    'The chains agree: ...'
    """
    prior = WeaklyInformativePrior() if prior is None else checked_prior(prior, proper=True)
    draws, tune = validate.whole("draws", draws, 4, MOST_DRAWS), validate.whole("tune", tune, 1, MOST_DRAWS)
    chains, seed = validate.whole("chains", chains, 1, MOST_CHAINS), validate.whole("seed", seed, 0)
    predictive_draws = validate.whole("predictive_draws", predictive_draws, 1, MOST_DRAWS)
    target_accept = validate.probability("target_accept", target_accept)
    validate.choice("sampler", sampler, get_args(Sampler))
    evidence = collect_evidence(
        episodes,
        timing=timing,
        weights=weights,
        memory=memory,
        clock=clock,
        unmarked=unmarked,
        features=features,
        groups=groups,
    )
    evidence = evidence.settle_zero_mass(zero_mass)
    warn_if_alike(evidence)
    threshold_family = family_named(family)
    crossing = CrossingSteps(episodes, evidence, threshold_family, timing)
    data = model_data(episodes, evidence, crossing)
    model = state_model(data, evidence, crossing, prior)
    shown = watched() if progress is None else progress
    lengths: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "cores": cores}
    if sampler == "nutpie":
        compiled = compiled_for(model, data, evidence, prior, threshold_family)
        try:
            raw = nutpie.sample(
                compiled, seed=seed, target_accept=target_accept, save_warmup=False, progress_bar=shown, **lengths
            )
        except RuntimeError as error:
            raise ConvergenceError(_stopped(episodes, error)) from error
    else:
        with model, _quiet_pymc():
            raw = pm.sample(
                random_seed=seed,
                target_accept=target_accept,
                progressbar=shown,
                compute_convergence_checks=False,
                **lengths,
            )
    tree = _assemble(raw, model, evidence, threshold_family, seed, predictive_draws)
    tree["log_prior"] = xr.DataTree(_log_prior(prior, tree, model))
    if prior_predictive:
        tree["prior_predictive"] = xr.DataTree(_prior_predictive(tree, model, evidence, threshold_family, seed))
    tree.attrs = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "inference_method": "nuts",
        "sampler": sampler,
        "family": threshold_family.name,
        "timing": timing,
        "memory": evidence.memory,
        "clock": int(evidence.clock),
        "unmarked": evidence.unmarked,
        **design_settings(evidence),
        "prior": prior_to_json(prior),
        "seed": seed,
        "draws": draws,
        "tune": tune,
        "chains": chains,
        "target_accept": target_accept,
        "interrupted": int(tree["posterior"].sizes["draw"] < draws),
        "data_fingerprint": evidence.fingerprint(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{f"{name}_version": version(name) for name in ("bayes_tacit", "pymc", "pytensor", "nutpie")},
    }
    tree.attrs |= judge(tree).as_attrs()
    return tree


def _stopped(episodes: Episodes, error: RuntimeError) -> str:
    """Say in one line that the sampler gave up: mostly because a column is far from the size that the prior expects."""
    said = str(error).strip().partition("\n")[0]
    diagnostics = episodes.dataset["diagnostics"]
    largest = diagnostics.max([dim for dim in diagnostics.dims if dim != "diagnostic"])
    sizes = {str(name): float(size) for name, size in zip(episodes.diagnostic_names, largest.values, strict=True)}
    name = max(sizes, key=lambda each: abs(np.log10(sizes[each])) if sizes[each] > 0 else 0.0)
    return (
        f"the sampler stopped ({said}); expected diagnostics of about the size of 1: "
        f"the largest of {name!r} is {sizes[name]:g}; scale it"
    )


def _assemble(
    raw: xr.DataTree, model: pm.Model, evidence: Evidence, family: Family, seed: int, predictive_draws: int
) -> xr.DataTree:
    """Put all groups together, under one set of names."""
    posterior = raw["posterior"].to_dataset()
    # What was compiled may have been compiled for other names.
    names = {"feature": evidence.feature_names, "diagnostic": evidence.diagnostic_names}
    names |= {} if evidence.grouping is None else {"group": evidence.grouping.names}
    posterior = posterior.assign_coords({dim: list(map(str, names[dim])) for dim in names if dim in posterior.dims})
    thinned = _at_most(predictive_draws, posterior)
    with model, forward_draws(), _quiet_pymc():
        forward = pm.sample_prior_predictive(
            predictive_draws, var_names=_parameters(model), random_seed=seed, compile_kwargs=QUICK
        )
        predicted = _predicted(thinned, model, seed)
    statistics = raw["sample_stats"].to_dataset()
    constant = forward["constant_data"].to_dataset()
    drawn = seen_or_not(posterior, evidence, family, np.random.default_rng(seed))
    groups = {
        "posterior": posterior,
        "sample_stats": kept_statistics(statistics),
        "prior": forward["prior"].to_dataset(),
        "posterior_predictive": drawn[["total"]],
        "replicates": predicted,
        "log_likelihood": rounded(pointwise_log_likelihood(posterior, evidence, family)),
        "observed_data": xr.Dataset(
            {"total": ("episode", np.full(evidence.n, AS_SEEN, dtype="int8"))}, coords={"episode": evidence.episode}
        ),
        # What the model carries for others to read stands in the attributes here.
        "constant_data": constant.drop_vars(["settings", COORDINATE]),
    }
    for dataset in groups.values():
        dataset.attrs = {}
    return xr.DataTree.from_dict(groups)


def _parameters(model: pm.Model) -> list[str]:
    return [variable.name for variable in (*model.free_RVs, *model.deterministics)]


def _predicted(draws: xr.Dataset, model: pm.Model, seed: int) -> xr.Dataset:
    """Draw outcomes and crossing steps, in as few bytes as they take."""
    predicted = pm.sample_posterior_predictive(
        xr.DataTree.from_dict({"posterior": draws}),
        freeze_vars=[variable.name for variable in model.free_RVs],
        random_seed=seed,
        progressbar=False,
        compile_kwargs=QUICK,
    )["posterior_predictive"].to_dataset()
    return predicted.map(
        lambda array: array.astype(np.promote_types("int8", np.min_scalar_type(-int(array.max()) - 1)))
    )


def _log_prior(prior: Prior, tree: xr.DataTree, model: pm.Model) -> xr.Dataset:
    posterior = tree["posterior"].to_dataset()
    if type(prior) is WeaklyInformativePrior:
        return weakly_informative(prior, posterior, tree["constant_data"].to_dataset())
    with model, _quiet_pymc():
        found = pm.stats.compute_log_prior(
            xr.DataTree.from_dict({"posterior": posterior}),
            extend_inferencedata=False,
            progressbar=False,
            compile_kwargs=QUICK,
        )
    return xr.Dataset(dict(found.data_vars))


def _prior_predictive(tree: xr.DataTree, model: pm.Model, evidence: Evidence, family: Family, seed: int) -> xr.Dataset:
    """Predict from the prior draws that are kept, as the posterior predictive draws are made."""
    prior = tree["prior"].to_dataset()
    with model, forward_draws(), _quiet_pymc():
        predicted = _predicted(prior, model, seed)
    drawn = seen_or_not(prior, evidence, family, np.random.default_rng(seed))
    return predicted.assign(total=drawn["total"]).drop_attrs()


def _at_most(number: int, posterior: xr.Dataset) -> xr.Dataset:
    """Take evenly spaced draws, equally many of every chain; of fewer chains if they outnumber the draws."""
    chains = min(posterior.sizes["chain"], isqrt(number))
    every = -(-posterior.sizes["draw"] // (number // chains))
    return posterior.isel(chain=slice(0, chains), draw=slice(None, None, every))


@contextmanager
def _quiet_pymc() -> Iterator[None]:
    """Keep PyMC from announcing what it samples; the verdict says all that matters."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
