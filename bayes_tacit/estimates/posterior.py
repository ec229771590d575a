"""The posterior by NUTS: what `sample_posterior` returns is an ArviZ DataTree that knows where it came from."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import isqrt
from typing import Any, Literal, Unpack, get_args

import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from pymc.initial_point import make_initial_point_fn

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.estimates.completion import (
    FORMAT,
    SCHEMA_VERSION,
    as_seen,
    kept_statistics,
    pointwise_log_likelihood,
    prior_of,
    rounded,
    seen_or_not,
    weakly_informative,
)
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.model.build import forward_draws, state_model
from bayes_tacit.model.evidence import Evidence, collect_evidence, warn_if_alike
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_to_json
from bayes_tacit.model.spec import COORDINATE, ModelSettings, ModelSpec, settings_of, spec_from, spec_of
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
        "nutpie", or "pymc" for PyMC's own.
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
    model, data = state_model(episodes, evidence, prior)
    shown = watched() if progress is None else progress
    lengths: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "cores": cores}
    if sampler == "nutpie":
        compiled = compiled_for(model, data, evidence, prior)
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
    tree = _assemble(raw, model, evidence, seed, predictive_draws)
    tree["log_prior"] = xr.DataTree(_log_prior(prior, tree, model))
    if prior_predictive:
        tree["prior_predictive"] = xr.DataTree(_prior_predictive(tree, model, evidence, seed))
    tree.attrs = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "inference_method": "nuts",
        "sampler": sampler,
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

    Parameters
    ----------
    tree
        A posterior of `sample_posterior`.
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
        raise InvalidDataError("a posterior of sample_posterior", field="attributes", value=sorted(attrs))
    return sample_posterior(
        episodes,
        prior_of(tree),
        draws=int(attrs["draws"]),
        tune=int(attrs["tune"]),
        chains=int(attrs["chains"]),
        seed=int(attrs["seed"]),
        target_accept=float(attrs["target_accept"]),
        spec=replace(spec_of(tree), memory=1.0, zero_mass="drop_window"),
        sampler=attrs["sampler"],
        progress=progress,
    )


def _stopped(episodes: Episodes, error: RuntimeError) -> str:
    """Explain that the sampler gave up: mostly because a column is far from the size that the prior expects."""
    said = str(error).strip().partition("\n")[0]
    diagnostics = episodes.dataset["diagnostics"]
    largest = diagnostics.max([dim for dim in diagnostics.dims if dim != "diagnostic"])
    sizes = {str(name): float(size) for name, size in zip(episodes.diagnostic_names, largest.values, strict=True)}
    name = max(sizes, key=lambda each: abs(np.log10(sizes[each])) if sizes[each] > 0 else 0.0)
    return (
        f"the sampler stopped ({said}); expected diagnostics of about the size of 1: "
        f"the largest of {name!r} is {sizes[name]:g}; scale it"
    )


def _assemble(raw: xr.DataTree, model: pm.Model, evidence: Evidence, seed: int, predictive_draws: int) -> xr.DataTree:
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
    drawn = seen_or_not(posterior, evidence, np.random.default_rng(seed))
    groups = {
        "posterior": posterior,
        "sample_stats": kept_statistics(statistics),
        "prior": forward["prior"].to_dataset(),
        "posterior_predictive": drawn[["total"]],
        "replicates": predicted,
        "log_likelihood": rounded(pointwise_log_likelihood(posterior, evidence)),
        "observed_data": as_seen(evidence),
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


def _prior_predictive(tree: xr.DataTree, model: pm.Model, evidence: Evidence, seed: int) -> xr.Dataset:
    """Predict from the prior draws that are kept, as the posterior predictive draws are made."""
    prior = tree["prior"].to_dataset()
    with model, forward_draws(), _quiet_pymc():
        predicted = _predicted(prior, model, seed)
    drawn = seen_or_not(prior, evidence, np.random.default_rng(seed))
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


_kept: dict[tuple[object, ...], Any] = {}
_compiling = threading.Lock()


def compiled_for(model: pm.Model, data: dict[str, np.ndarray], evidence: Evidence, prior: Prior) -> Any:  # noqa: ANN401
    """Return a model as nutpie runs it; one of the same kind is compiled once in a process, and given these data.

    It is what compiling this very model would return, so that draws do not depend on what was sampled before.
    """
    shape = len(evidence.feature_names), len(evidence.diagnostic_names)
    groups = None if evidence.grouping is None else len(evidence.grouping.names)
    kind: tuple[object, ...] = (*shape, groups, evidence.weights is None, evidence.grid is None)
    kind += (type(prior), repr(prior), evidence.family)
    if type(prior) is not WeaklyInformativePrior:
        # One that a user wrote may have looked at these when it was stated.
        kind += (evidence.n, data["typical_log_threshold"].tobytes())
    with _compiling:
        if kind not in _kept:
            _kept[kind] = nutpie.compile_pymc_model(model, freeze_model=False)
        compiled = _kept[kind]
    used = {variable.name for variable in compiled.shared_var_keys}
    compiled = compiled.with_data(**{name: value for name, value in data.items() if name in used})
    # `with_data` leaves the chains' starts where the data before had them.
    return replace(compiled, initial_point_func=_starts(model))


def _starts(model: pm.Model) -> Callable[[Any], np.ndarray]:
    """Return where a chain starts, by its seed: around the prior's center, as nutpie has it, with these data."""
    point_at = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs), return_transformed=True)
    names = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    one_at_a_time = threading.Lock()

    def start(seed: Any) -> np.ndarray:  # noqa: ANN401
        with one_at_a_time:
            point = point_at(seed)
        return np.concatenate([np.ravel(point[name]) for name in names]).astype("float64")

    return start
