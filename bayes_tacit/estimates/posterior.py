"""The posterior by NUTS: what `sample_posterior` returns is an ArviZ DataTree that knows where it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Unpack, get_args

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.estimates.completion import (
    FORMAT,
    SCHEMA_VERSION,
    as_seen,
    kept_statistics,
    pointwise_log_likelihood,
    prior_draws,
    prior_of,
    replicates,
    rounded,
    seen_or_not,
    thinned,
    weakly_informative,
)
from bayes_tacit.estimates.samplers import Sampler, draw_samples, quiet_pymc
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.model.evidence import Evidence, collect_evidence, warn_if_alike, warn_of_scales
from bayes_tacit.model.likelihood import CrossingSteps, Table, coords_of, crossing_steps, model_data
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_to_json
from bayes_tacit.model.spec import ModelSettings, ModelSpec, settings_of, spec_from, spec_of
from bayes_tacit.progress import watched

if TYPE_CHECKING:
    import pymc as pm

NAMED = ("feature", "diagnostic", "group")  # dims of parameters whose names come from the data
MOST_DRAWS, MOST_CHAINS = 1_000_000, 1_000  # more would not fit into the memory of any machine at hand


def sample_posterior(
    episodes: Episodes,
    prior: Prior | None = None,
    *,
    spec: ModelSpec | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    target_accept: float = 0.9,
    sampler: Sampler = "nutpie",
    cores: int | None = None,
    predictive_draws: int = 500,
    prior_predictive: bool = False,
    progress: bool | None = None,
    **settings: Unpack[ModelSettings],
) -> xr.DataTree:
    """Sample the posterior of all parameters.

    Parameters
    ----------
    episodes
        Training episodes.
    prior
        A proper prior; `WeaklyInformativePrior()` by default, or one of your own
        (`bayes_tacit.model.priors.register_prior`).
    spec, **settings
        What the model is: a `ModelSpec`, its fields by keyword, or a spec with some fields replaced. The memory may be
        "learned".
    draws, tune, chains
        Kept draws and warm-up draws of each chain, and how many chains.
    seed
        The same one gives the same draws, whatever else was sampled in the process.
    target_accept
        Acceptance rate that the step size is tuned to; raise it if there are divergences.
    sampler
        "nutpie"; "nutpie-pymc" for nutpie on what PyMC compiles, always; or "pymc" for PyMC's own NUTS. "nutpie" runs
        the paper's model on a density that was compiled ahead (the attribute `density` is then "compiled", and "pymc"
        otherwise), which is the same function and much faster: under a `WeaklyInformativePrior`, with the families
        "lognormal", "loglogistic" and "weibull", any fixed memory or weights, without groups.
    cores
        How many chains run at a time; by default as many as there are processors.
    predictive_draws
        How many prior draws and, at most, how many posterior predictive draws of outcomes and crossing steps are kept.
    prior_predictive
        Whether the prior's own predictions are kept, too, as group `prior_predictive`.
    progress
        Whether to show a progress bar; by default on a terminal and in a notebook.

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
    evidence = collect_evidence(episodes, spec_from(spec, settings)).settle_zero_mass()
    warn_if_alike(evidence)
    warn_of_scales(evidence)
    evidence.warn_of_gaps()
    crossing = crossing_steps(episodes, evidence)
    table = model_data(episodes, evidence, crossing)

    @cache
    def state() -> pm.Model:
        """State the model in PyMC, where something needs it."""
        from bayes_tacit.model.build import state_model

        return state_model(evidence, prior, crossing, table)

    try:
        trace, density = draw_samples(
            sampler,
            evidence,
            prior,
            table,
            state,
            seed=seed,
            target_accept=target_accept,
            progress=watched() if progress is None else progress,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
        )
    except ConvergenceError as error:
        raise ConvergenceError(_stopped(episodes, error)) from error
    tree = _assemble(
        trace,
        evidence,
        prior,
        crossing,
        table,
        state,
        seed=seed,
        predictive_draws=predictive_draws,
        prior_predictive=prior_predictive,
    )
    tree.attrs = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "inference_method": "nuts",
        "sampler": sampler,
        "density": density,
        **evidence.spec.as_attrs(),
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


def with_paper_memory(tree: xr.DataTree, episodes: Episodes, *, progress: bool | None = None) -> xr.DataTree:
    """Sample what a posterior would be if nothing were forgotten: rho = 1, and all else the same.

    Examples
    --------
    >>> tree = sample_posterior(episodes, memory="learned", clock=True)  # doctest: +SKIP
    >>> report(tree, episodes, "report.html", paper=with_paper_memory(tree, episodes))  # doctest: +SKIP
    """
    attrs = settings_of(tree)
    if "sampler" not in attrs:
        raise InvalidDataError("a posterior of sample_posterior", field="attributes", value=sorted(attrs))
    lengths: dict[str, Any] = {name: int(attrs[name]) for name in ("draws", "tune", "chains", "seed")}
    return sample_posterior(
        episodes,
        prior_of(tree),
        **lengths,
        target_accept=float(attrs["target_accept"]),
        spec=replace(spec_of(tree), memory=1.0, zero_mass="drop_window"),
        sampler=attrs["sampler"],
        progress=progress,
    )


def _stopped(episodes: Episodes, said: ConvergenceError) -> str:
    """Explain that the sampler gave up: mostly because a column is far from the size that the prior expects."""
    diagnostics = episodes.dataset["diagnostics"]
    largest = diagnostics.max([dim for dim in diagnostics.dims if dim != "diagnostic"])
    sizes = {str(name): float(size) for name, size in zip(episodes.diagnostic_names, largest.values, strict=True)}
    name = max(sizes, key=lambda each: abs(np.log10(sizes[each])) if sizes[each] > 0 else 0.0)
    return (
        f"the sampler stopped ({said}); expected diagnostics of about the size of 1: "
        f"the largest of {name!r} is {sizes[name]:g}; scale it"
    )


def _assemble(
    trace: xr.DataTree,
    evidence: Evidence,
    prior: Prior,
    crossing: CrossingSteps | None,
    table: Table,
    state: Callable[[], pm.Model],
    *,
    seed: int,
    predictive_draws: int,
    prior_predictive: bool,
) -> xr.DataTree:
    """Put all groups together, under one set of names."""
    posterior = trace["posterior"].to_dataset()
    # What was compiled may have been compiled for other names.
    names = {dim: list(map(str, labels)) for dim, labels in coords_of(evidence).items() if dim in NAMED}
    posterior = posterior.assign_coords({dim: labels for dim, labels in names.items() if dim in posterior.dims})
    drawn = seen_or_not(posterior, evidence, np.random.default_rng(seed))
    some = thinned(posterior, predictive_draws)
    constant = constant_data(evidence, table)
    if type(prior) is WeaklyInformativePrior:
        from_prior = prior_draws(prior, evidence, table, predictive_draws, np.random.default_rng([seed, 1]))
        log_prior = weakly_informative(prior, posterior, constant, evidence)
    else:
        from_prior, log_prior = _by_pymc(state(), posterior, seed, predictive_draws)
    groups = {
        "posterior": posterior,
        "sample_stats": kept_statistics(trace["sample_stats"].to_dataset()),
        "prior": from_prior,
        "posterior_predictive": drawn[["total"]],
        "replicates": replicates(some, evidence, crossing, np.random.default_rng([seed, 2])),
        "log_likelihood": rounded(pointwise_log_likelihood(posterior, evidence)),
        "log_prior": log_prior,
        "observed_data": as_seen(evidence),
        "constant_data": constant,
    }
    if prior_predictive:
        predicted = replicates(from_prior, evidence, crossing, np.random.default_rng([seed, 3]))
        drawn = seen_or_not(from_prior, evidence, np.random.default_rng(seed))
        groups["prior_predictive"] = predicted.assign(total=drawn["total"])
    return xr.DataTree.from_dict({name: dataset.drop_attrs() for name, dataset in groups.items()})


def constant_data(evidence: Evidence, table: Table) -> xr.Dataset:
    """Name the dimensions of what a model carries."""
    used = {dim for dims, _ in table.values() for dim in dims or ()} - {"rollout", "mass"}
    coords = {dim: names for dim, names in coords_of(evidence).items() if dim in used}
    return xr.Dataset({name: (dims or (), value) for name, (dims, value) in table.items()}, coords=coords)


def _by_pymc(model: pm.Model, posterior: xr.Dataset, seed: int, predictive_draws: int) -> tuple[xr.Dataset, xr.Dataset]:
    """Draw from a prior of a user's own, and evaluate it at the draws of the posterior."""
    import pymc as pm

    parameters = [variable.name for variable in (*model.free_RVs, *model.deterministics)]
    # Forward draws are cheap; compiling them well would take longer than drawing them.
    quick = {"mode": "FAST_COMPILE"}
    with model, quiet_pymc():
        drawn = pm.sample_prior_predictive(
            predictive_draws, var_names=parameters, random_seed=seed, compile_kwargs=quick
        )
        found = pm.stats.compute_log_prior(
            xr.DataTree.from_dict({"posterior": posterior}),
            extend_inferencedata=False,
            progressbar=False,
            compile_kwargs=quick,
        )
    return drawn["prior"].to_dataset(), xr.Dataset(dict(found.data_vars))
