"""What a posterior file must hold before anything is computed from it."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.errors import FileFormatError
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.model.memory import LEARNED

SCALARS = ("gamma0", "beta0", "s")


def check_contents(tree: xr.DataTree, name: str) -> None:
    """Check attributes, the standardization, and that parameters are numbers over chains and draws.

    Draws that are not finite are left to the verdict and to the scores, which say so in their own words.

    Raises
    ------
    FileFormatError
        With the name of the file, the field, its value and what was expected.
    """

    def refuse(field: str, value: object, expected: str) -> FileFormatError:
        return FileFormatError(f"{name}: {field} is {repr(value)[:80]}; expected {expected}")

    options = {"family": tuple(FAMILIES), "timing": TIMINGS}
    for attribute, known in options.items():
        given = tree.attrs.get(attribute)
        if not isinstance(given, str) or given not in known:
            raise refuse(attribute, given, " or ".join(map(repr, known)))
    memory = tree.attrs.get("memory", 1.0)
    learned = isinstance(memory, str) and memory == LEARNED
    number = isinstance(memory, int | float | np.number) and not isinstance(memory, bool)
    if not learned and not (number and 0 <= float(memory) <= 1):
        raise refuse("memory", memory, f"a number from 0 to 1, or {LEARNED!r}")
    if tree.attrs.get("clock", 0) not in (0, 1):
        raise refuse("clock", tree.attrs["clock"], "0 or 1")
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    for variable in posterior.data_vars.values():
        if variable.dtype.kind not in "fiub":
            raise refuse(f"posterior[{variable.name!r}]", variable.dtype, "numbers")
    for parameter in (*SCALARS, "rho") if learned else SCALARS:
        if parameter not in posterior or set(posterior[parameter].dims) != {"chain", "draw"}:
            raise refuse("variables of posterior", list(posterior.data_vars), f"{parameter!r} over chain and draw")
    if 0 in posterior.sizes.values():
        raise refuse("sizes of posterior", dict(posterior.sizes), "at least one of each")
    for constants, positive in (("feature_mean", False), ("feature_scale", True)):
        if constants not in constant:
            continue
        for value in np.ravel(constant[constants].values).tolist():
            fits = isinstance(value, int | float) and math.isfinite(value) and (value > 0 or not positive)
            if not fits:
                raise refuse(constants, value, "finite numbers > 0" if positive else "finite numbers")
