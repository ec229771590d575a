"""Where fitted parameters come from, as plain JSON values."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

import numpy as np
import scipy

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

KEYS = ("created_by", "versions", "inference_method", "draws_available", "data_fingerprint", "seed")


def provenance(
    inference_method: str | None = None,
    draws_available: int | None = None,
    data_fingerprint: str | None = None,
    seed: int | None = None,
) -> dict[str, object]:
    """Say where parameters come from, as far as it is known, and what reads them.

    Examples
    --------
    >>> provenance("map", draws_available=1)["inference_method"]
    'map'
    """
    return {
        "created_by": f"bayes_tacit {_own_version()}",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        "inference_method": inference_method,
        "draws_available": draws_available,
        "data_fingerprint": data_fingerprint,
        "seed": seed,
    }


@cache
def _own_version() -> str:
    return version("bayes_tacit")


def check_provenance(given: object) -> dict[str, object]:
    """Check that it has the keys and types that `provenance` gives."""
    found = validate.record("provenance", given, KEYS)
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
