"""What a posterior file must hold before anything is computed from it, as two tables: attributes and variables.

What the tables do not name may be there, too: more groups, more attributes, and more variables, if they are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import xarray as xr

from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.errors import FileFormatError
from bayes_tacit.model.evidence import Unmarked
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.model.memory import CLOCK, LEARNED
from bayes_tacit.validate import SIMPLEX_TOLERANCE, sums_to_one


@dataclass(frozen=True)
class Attribute:
    """An attribute of the file: what it must be, in words and as a test, and whether every file has it."""

    expected: str
    holds: Callable[[object], bool]
    required: bool = True


@dataclass(frozen=True)
class Variable:
    """An array of numbers: its dims, whose order is free, and what its numbers must be."""

    dims: tuple[str, ...]
    expected: str = "finite numbers"
    holds: Callable[[np.ndarray], np.ndarray] = np.isfinite
    required: bool = True


def _whole(least: int) -> Attribute:
    return Attribute(
        f"a whole number >= {least}",
        lambda value: isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least,
    )


def _one_of(options: Callable[[], tuple[str, ...]], *, required: bool = True) -> Attribute:
    words = " or ".join(map(repr, options()))
    return Attribute(words, lambda value: isinstance(value, str) and value in options(), required)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


_TEXT = Attribute("text", lambda value: isinstance(value, str))
_FLAG = Attribute("0 or 1", lambda value: _is_number(value) and value in (0, 1), required=False)

ATTRIBUTES: Mapping[str, Attribute] = {
    "family": _one_of(lambda: tuple(FAMILIES)),
    "timing": _one_of(lambda: TIMINGS),
    "unmarked": _one_of(lambda: get_args(Unmarked), required=False),
    "memory": Attribute(
        f"a number from 0 to 1, or {LEARNED!r}",
        lambda value: value == LEARNED if isinstance(value, str) else _is_number(value) and 0 <= value <= 1,  # type: ignore[operator]
        required=False,
    ),
    "clock": _FLAG,
    "interrupted": _FLAG,
    "draws": _whole(1),
    "tune": replace(_whole(1), required=False),
    "chains": _whole(1),
    "seed": replace(_whole(0), required=False),
    "target_accept": Attribute(
        "a number between 0 and 1",
        lambda value: _is_number(value) and 0 < value < 1,  # type: ignore[operator]
        required=False,
    ),
    **dict.fromkeys(("sampler", "prior", "created_at", "data_fingerprint"), _TEXT),
}

_SAMPLE = ("chain", "draw")

POSTERIOR: Mapping[str, Variable] = {
    "gamma0": Variable(_SAMPLE),
    "beta0": Variable(_SAMPLE),
    "s": Variable(_SAMPLE, "finite numbers > 0", lambda values: np.isfinite(values) & (values > 0)),
    "w": Variable(
        (*_SAMPLE, "diagnostic"),
        "numbers from 0 to 1",
        lambda values: (values >= 0) & (values <= 1 + SIMPLEX_TOLERANCE),
        required=False,
    ),
    "gamma": Variable((*_SAMPLE, "feature"), required=False),
    "beta": Variable((*_SAMPLE, "feature"), required=False),
    "rho": Variable(_SAMPLE, "numbers from 0 to 1", lambda values: (values >= 0) & (values <= 1), required=False),
}
CONSTANTS: Mapping[str, Variable] = {
    "feature_mean": Variable(("feature",), required=False),
    "feature_scale": Variable(
        ("feature",), "finite numbers > 0", lambda values: np.isfinite(values) & (values > 0), required=False
    ),
    "w": Variable(("diagnostic",), "numbers from 0 to 1", POSTERIOR["w"].holds, required=False),
}


def check_contents(tree: xr.DataTree, name: str, *, finite: bool = True) -> None:
    """Check attributes, the standardization, and that parameters are numbers over chains and draws.

    Parameters
    ----------
    tree
        What a file holds.
    name
        The name of the file, for messages.
    finite
        Whether draws must be finite and within bounds.

    Raises
    ------
    FileFormatError
        With the name of the file, the field, its value and what was expected.
    """
    try:
        _check_attributes(tree.attrs)
        posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
        _check_variables("posterior", posterior, POSTERIOR, values=finite)
        _check_variables("constant_data", constant, CONSTANTS, values=True)
        _check_agreement(posterior, constant, tree.attrs, values=finite)
    except _WrongError as wrong:
        raise FileFormatError(f"{name}: {wrong}") from None


class _WrongError(Exception):
    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field} is {repr(value)[:80]}; expected {expected}")


MAY_BE_EMPTY = ("feature", "timed")
"""What a model may have none of: features, and episodes with a mark."""


def _check_attributes(attrs: Mapping[Hashable, object]) -> None:
    for name, attribute in ATTRIBUTES.items():
        given = attrs.get(name)
        if given is None and not attribute.required and name not in attrs:
            continue
        if not attribute.holds(given):
            raise _WrongError(name, given, attribute.expected)


def _check_variables(group: str, dataset: xr.Dataset, table: Mapping[str, Variable], *, values: bool) -> None:
    if any(size == 0 and dimension not in MAY_BE_EMPTY for dimension, size in dataset.sizes.items()):
        raise _WrongError(f"sizes of {group}", dict(dataset.sizes), "at least one of each")
    for name, variable in table.items():
        if name not in dataset.data_vars and variable.required:
            expected = f"{name!r} over {' and '.join(variable.dims)} among them"
            raise _WrongError(f"variables of {group}", list(dataset.data_vars), expected)
    for key, array in dataset.data_vars.items():
        field = str(key) if group == "constant_data" else f"{group}[{str(key)!r}]"
        known = table.get(str(key))
        if array.dtype.kind not in "fiub" and (group == "posterior" or known is not None):
            raise _WrongError(field, array.dtype, "numbers")
        if known is None:
            continue
        if set(array.dims) != set(known.dims):
            raise _WrongError(f"dims of {field}", array.dims, str(known.dims))
        fine = known.holds(array.values.astype(float, copy=False)) if values else np.True_
        if not fine.all():
            raise _WrongError(field, array.values[~fine].ravel()[0].item(), known.expected)


def _check_agreement(
    posterior: xr.Dataset, constant: xr.Dataset, attrs: Mapping[Hashable, object], *, values: bool
) -> None:
    """Check what concerns several variables: names, weights, and what belongs together."""
    if attrs.get("memory") == LEARNED and "rho" not in posterior:
        raise _WrongError("variables of posterior", list(posterior.data_vars), "'rho' over chain and draw among them")
    if ("feature_mean" in constant) != ("feature_scale" in constant):
        raise _WrongError("variables of constant_data", list(constant.data_vars), "feature_mean with feature_scale")
    features = _names(constant, "feature") if "feature_mean" in constant else []
    if features:
        for slopes in ("gamma", "beta"):
            if slopes not in posterior:
                raise _WrongError("variables of posterior", list(posterior.data_vars), f"{slopes!r} among them")
        if sorted(_names(posterior, "feature")) != sorted(features):
            raise _WrongError("features of posterior", _names(posterior, "feature"), f"{features}, as in constant_data")
    holder = posterior if "w" in posterior else constant
    if "w" not in holder:
        raise _WrongError("variables of posterior", list(posterior.data_vars), "'w' there or in constant_data")
    diagnostics = _names(holder, "diagnostic")
    if attrs.get("clock", 0) and diagnostics[-1] != CLOCK:
        raise _WrongError("diagnostics", diagnostics, f"{CLOCK!r} last among them")
    sums = holder["w"].sum("diagnostic").values
    if (values or holder is constant) and not np.all(sums_to_one(sums)):
        wrong = float(np.ravel(sums)[~np.ravel(sums_to_one(sums))][0])
        raise _WrongError("sum of w", wrong, f"1 within {SIMPLEX_TOLERANCE:g}")


def _names(dataset: xr.Dataset, dim: str) -> list[str]:
    given = dataset[dim].values.tolist() if dim in dataset.coords else None
    named = given is not None and all(isinstance(name, str) and name for name in given)
    if given is None or not named or len(set(given)) < len(given):
        raise _WrongError(f"coordinate {dim!r}", given, f"the names of the {dim}s, which differ")
    return given
