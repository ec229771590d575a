"""What a router takes from a fit or a posterior."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.estimates.map_fit import MapFit

PROVENANCE_KEYS = ("created_by", "versions", "inference_method", "draws_available", "data_fingerprint", "seed")


def provenance(
    inference_method: str | None = None,
    draws_available: int | None = None,
    data_fingerprint: str | None = None,
    seed: int | None = None,
) -> dict[str, object]:
    """Say where parameters come from, as far as it is known, and what made the router."""
    return {
        "created_by": f"bayes_tacit {version('bayes_tacit')}",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        "inference_method": inference_method,
        "draws_available": draws_available,
        "data_fingerprint": data_fingerprint,
        "seed": seed,
    }


def check_provenance(given: object) -> dict[str, object]:
    """Check that it has the keys and types that `provenance` gives."""
    found = validate.record("provenance", given, PROVENANCE_KEYS)
    validate.text("provenance.created_by", found["created_by"])
    versions = found["versions"]
    if not isinstance(versions, Mapping):
        raise InvalidDataError("an object of version numbers", field="provenance.versions", value=versions)
    found["versions"] = {
        validate.text("a key of provenance.versions", name): validate.text(f"provenance.versions.{name}", version)
        for name, version in versions.items()
    }
    for name in ("inference_method", "data_fingerprint"):
        if found[name] is not None:
            validate.text(f"provenance.{name}", found[name])
    for name in ("draws_available", "seed"):
        if found[name] is not None:
            found[name] = validate.whole(f"provenance.{name}", found[name], 0)
    return found


def of_fit(fit: object) -> dict[str, Any]:
    """Take what a router needs from a fit."""
    from bayes_tacit.estimates.map_fit import MapFit

    if not isinstance(fit, MapFit):
        expected = "a MapFit, as fit_map gives it (Router.from_posterior takes a posterior)"
        raise InvalidDataError(expected, field="fit", value=fit)
    return {**_fitted(fit), "provenance": provenance("map", 1, fit.data_fingerprint, fit.seed)}


def of_tree(tree: object, draws: int) -> dict[str, Any]:
    """Take what a router needs from a posterior, with at most so many draws, at even distances."""
    import xarray as xr

    if not isinstance(tree, xr.DataTree):
        expected = "a DataTree, as sample_posterior gives it (Router.from_fit takes a fit)"
        raise InvalidDataError(expected, field="tree", value=tree)
    draws = validate.whole("draws", draws, 1)
    found = _fitted(tree)
    available = len(found["draws"])
    found["draws"] = found["draws"].thinned(draws)
    seed = tree.attrs.get("seed")
    origin = (tree.attrs.get("inference_method"), available, tree.attrs.get("data_fingerprint"))
    return {**found, "provenance": provenance(*origin, seed=None if seed is None else int(seed))}


def _fitted(fit_or_tree: MapFit | xr.DataTree) -> dict[str, Any]:
    from bayes_tacit.scores.fitted import as_draws

    fitted = as_draws(fit_or_tree)
    if np.any(fitted.draws.memory != 1.0) or fitted.draws.clock:
        raise InvalidDataError(
            "1 and no clock: a router does not yet forget; handoff_score does",
            field="memory and clock of the fit",
            value=(fitted.draws.memory, fitted.draws.clock),
        )
    names = ("diagnostic_names", "feature_names", "feature_mean", "feature_scale", "draws", "timing")
    return {name: getattr(fitted, name) for name in names}
