"""What draws from the posterior: nutpie, on the compiled density or on that of the PyMC model, or PyMC's own NUTS.

The compiled density (`bayes_tacit.model.compiled`) is there for the paper's model; it starts at once and runs several
times as fast as what PyMC compiles. Every other model runs on its PyMC program, which is compiled once in a process for
each kind of model.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import nutpie
import pandas as pd
import xarray as xr
from nutpie.compile_pymc import CompiledPyMCModel

from bayes_tacit.errors import ConvergenceError
from bayes_tacit.model.compiled import callbacks, compiles, density_of
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.likelihood import Table
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior
from bayes_tacit.progress import in_notebook

if TYPE_CHECKING:
    import pymc as pm

Sampler = Literal["nutpie", "nutpie-pymc", "pymc"]


class Drawn(NamedTuple):
    """A trace with the groups `posterior` and `sample_stats`, and whose density it was drawn with."""

    trace: xr.DataTree
    density: Literal["compiled", "pymc"]


def draw_samples(
    sampler: Sampler,
    evidence: Evidence,
    prior: Prior,
    table: Table,
    state: Callable[[], pm.Model],
    *,
    seed: int,
    target_accept: float,
    progress: bool,
    **lengths: Any,  # noqa: ANN401
) -> Drawn:
    """Draw the chains; `state` returns the PyMC model, which is asked for where it is needed only."""
    if sampler == "pymc":
        import pymc as pm

        with state(), quiet_pymc():
            settings = {"compute_convergence_checks": False, "progressbar": progress, **lengths}
            return Drawn(pm.sample(random_seed=seed, target_accept=target_accept, **settings), "pymc")
    ours = sampler == "nutpie" and compiles(evidence, prior)
    with _saying("compiling the model") if progress else nullcontext():
        model = compiled_model(evidence, prior, table) if ours else compiled_for(state(), table, evidence, prior)
    settings = {"save_warmup": False, "progress_bar": progress, **lengths}
    try:
        trace = nutpie.sample(model, seed=seed, target_accept=target_accept, **settings)
    except RuntimeError as error:
        raise ConvergenceError(str(error).strip().partition("\n")[0]) from error
    return Drawn(trace, "compiled" if ours else "pymc")


def compiled_model(evidence: Evidence, prior: Prior, table: Table) -> CompiledPyMCModel:
    """Return the compiled density as nutpie runs it: by two C functions and the address of their data."""
    assert isinstance(prior, WeaklyInformativePrior)  # `compiles` said so
    density = density_of(evidence, prior, float(table["typical_log_threshold"][1]))
    shapes: dict[str, tuple[int, ...]] = {"gamma0": (), "beta0": ()}
    dims: dict[str, tuple[str, ...]] = {}
    if density.features:
        shapes |= {"gamma": (density.features,), "beta": (density.features,)}
        dims |= {"gamma": ("feature",), "beta": ("feature",)}
    shapes["s"] = ()
    if density.learned:
        shapes["w"], dims["w"] = (density.weights,), ("diagnostic",)
    coords = {"feature": evidence.feature_names, "diagnostic": evidence.diagnostic_names}
    coords["unconstrained_parameter"] = tuple(map(str, range(density.size)))
    center = np.zeros(density.size)
    center[1], center[2] = table["typical_log_threshold"][1], np.log(prior.scale_median)

    def start(seed: int) -> np.ndarray:
        """Return a point around the prior's center, as nutpie starts a model of PyMC."""
        return center + np.random.default_rng(seed).uniform(-1.0, 1.0, len(center))

    value, expanded = callbacks()
    return CompiledPyMCModel(
        dims=dims,
        _coords={name: pd.Index(names) for name, names in coords.items()},
        _shapes=shapes,
        _n_dim=density.size,
        compiled_logp_func=value,
        compiled_expand_func=expanded,
        initial_point_func=start,
        shared_data={},
        shared_var_keys={},
        user_data=density.data,
        n_expanded=sum(int(np.prod(shape)) for shape in shapes.values()),
        shape_info=(list(shapes), None, list(shapes.values())),
        logp_func=None,
        expand_func=None,
    )


_kept: dict[tuple[object, ...], Any] = {}
_compiling = threading.Lock()


def compiled_for(model: pm.Model, table: Table, evidence: Evidence, prior: Prior) -> CompiledPyMCModel:
    """Return a model of PyMC as nutpie runs it; one of the same kind is compiled once in a process, and given its data.

    It is what compiling this very model would return, so that draws do not depend on what was sampled before.
    """
    shape = len(evidence.feature_names), len(evidence.diagnostic_names)
    groups = None if evidence.grouping is None else len(evidence.grouping.names)
    kind: tuple[object, ...] = (*shape, groups, evidence.weights is None, evidence.grid is None)
    kind += (type(prior), repr(prior), evidence.family, evidence.spec.spread)
    if evidence.records is not None:
        kind += (repr(evidence.records.noise), evidence.records.any_marks)
    if type(prior) is not WeaklyInformativePrior:
        # One that a user wrote may have looked at these when it was stated.
        kind += (evidence.n, table["typical_log_threshold"][1].tobytes())
    with _compiling:
        if kind not in _kept:
            _kept[kind] = nutpie.compile_pymc_model(model, freeze_model=False)
        compiled = _kept[kind]
    used = {variable.name for variable in compiled.shared_var_keys}
    compiled = compiled.with_data(**{name: value for name, (_, value) in table.items() if name in used})
    # `with_data` leaves the chains' starts where the data before had them.
    return replace(compiled, initial_point_func=_starts(model))


def _starts(model: pm.Model) -> Callable[[Any], np.ndarray]:
    """Return where a chain starts, by its seed: around the prior's center, as nutpie has it, with these data."""
    from pymc.initial_point import make_initial_point_fn

    point_at = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs), return_transformed=True)
    names = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    one_at_a_time = threading.Lock()

    def start(seed: Any) -> np.ndarray:  # noqa: ANN401
        with one_at_a_time:
            point = point_at(seed)
        return np.concatenate([np.ravel(point[name]) for name in names]).astype("float64")

    return start


@contextmanager
def quiet_pymc() -> Iterator[None]:
    """Keep PyMC from announcing what it samples; the verdict says all that matters."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _saying(what: str) -> Iterator[None]:
    from rich.console import Console

    out = Console(stderr=True)
    # In a notebook a line that moves takes widgets, which may not be there.
    with out.status(what) if out.is_terminal and not in_notebook() else nullcontext():
        yield
