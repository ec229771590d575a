"""Models as nutpie runs them: compiled once for each kind of model in a process, and given the data at hand."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import nutpie
import pymc as pm
from pymc.initial_point import make_initial_point_fn

from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior

_kept: dict[tuple[object, ...], Any] = {}
_compiling = threading.Lock()


def compiled_for(model: pm.Model, data: dict[str, np.ndarray], evidence: Evidence, prior: Prior, family: Family) -> Any:  # noqa: ANN401
    """Give a model as nutpie runs it; one of the same kind is not compiled again.

    What is given is what compiling this very model would give, so that draws do not depend on what was sampled before.
    """
    shape = len(evidence.feature_names), len(evidence.diagnostic_names)
    groups = None if evidence.grouping is None else len(evidence.grouping.names)
    kind: tuple[object, ...] = (*shape, groups, evidence.weights is None, evidence.grid is None)
    kind += (type(prior), repr(prior), family)
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
    return dataclasses.replace(compiled, initial_point_func=_starts(model))


def _starts(model: pm.Model) -> Callable[[Any], np.ndarray]:
    """Give where a chain starts, by its seed: around the prior's center, as nutpie has it, with these data."""
    point_at = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs), return_transformed=True)
    names = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    one_at_a_time = threading.Lock()

    def start(seed: Any) -> np.ndarray:  # noqa: ANN401
        with one_at_a_time:
            point = point_at(seed)
        return np.concatenate([np.ravel(point[name]) for name in names]).astype("float64")

    return start
