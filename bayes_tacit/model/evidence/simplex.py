"""Weights that a user gives, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.validate import sums_to_one

Weights = Sequence[float] | np.ndarray | Mapping[str, float] | pd.Series
"""Simplex weights in the order of the diagnostics, or by their names."""


def simplex(weights: Weights, diagnostic_names: tuple[str, ...]) -> np.ndarray:
    """Return weights as an array in the order of the diagnostics.

    Examples
    --------
    >>> simplex({"invalid": 0.25, "repeat": 0.75}, ("repeat", "invalid"))
    array([0.75, 0.25])
    """
    expected = (
        f"{len(diagnostic_names)} nonnegative numbers that sum to 1, one for each of {', '.join(diagnostic_names)}"
    )
    given = dict(weights) if isinstance(weights, Mapping | pd.Series) else weights
    if isinstance(given, dict):
        if set(given) != set(diagnostic_names):
            raise InvalidDataError(expected, field="weights", value=given)
        given = [given[name] for name in diagnostic_names]
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise InvalidDataError(expected, field="weights", value=given) from error
    if values.dtype.kind not in "iuf" or values.shape != (len(diagnostic_names),):
        raise InvalidDataError(expected, field="weights", value=_plain(given))
    if not (np.isfinite(values) & (values >= 0)).all() or not sums_to_one(values.sum()):
        raise InvalidDataError(expected, field="weights", value=_plain(given))
    return values.astype(float)


def _plain(given: object) -> object:
    return given.tolist() if isinstance(given, np.ndarray) else given
