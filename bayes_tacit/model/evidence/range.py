"""What double precision carries of features and diagnostics."""

from __future__ import annotations

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import blocks
from bayes_tacit.errors import InvalidDataError

LARGEST = 1e250
"""Beyond it, and below its inverse, squares and sums of products leave what double precision holds."""


def check_range(episodes: Episodes) -> None:
    """Refuse columns whose sums and squares double precision cannot carry; to scale them is the user's to do."""
    core = episodes.dataset[["features", "diagnostics"]]
    for kind, dim in (("features", "feature"), ("diagnostics", "diagnostic")):
        largest = np.zeros(core.sizes[dim])
        for block in blocks(core):
            values = core[kind].isel(episode=block).values
            highest, lowest = (each.reduce(values, axis=tuple(range(values.ndim - 1))) for each in (np.fmax, np.fmin))
            largest = np.fmax(largest, np.fmax(highest, -lowest))
        for name, value in zip(core[dim].values.tolist(), largest.tolist(), strict=True):
            if value > LARGEST or (kind == "diagnostics" and 0 < value < 1 / LARGEST):
                raise InvalidDataError(
                    f"a column whose largest value is 0 or from {1 / LARGEST:g} to {LARGEST:g}; scale it",
                    field=f"{kind}[{name!r}]",
                    value=value,
                )
