"""Ranges: what features and diagnostics were like in training, to notice when they are no longer so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

PROBABILITIES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Which quantiles are kept: the first is the smallest value, the last the largest."""


@dataclass(frozen=True)
class Ranges:
    """Quantiles of each feature over training tasks, and of each diagnostic over all their steps.

    Attributes
    ----------
    features, diagnostics
        By name, one number for each of `PROBABILITIES`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> ranges = Ranges.of(load_example())
    >>> ranges.features["subgoals"]
    (1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
    >>> ranges.outside("features", {"subgoals": 9.0, "needs_tool": 1.0})
    ('subgoals',)
    """

    features: Mapping[str, tuple[float, ...]]
    diagnostics: Mapping[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        """Check the numbers."""
        for kind in ("features", "diagnostics"):
            given = getattr(self, kind)
            for name, values in given.items():
                place = f"range of {kind}[{name!r}]"
                numbers = validate.finite(place, np.asarray(values, dtype=float), (len(PROBABILITIES),))
                if (np.diff(numbers) < 0).any():
                    raise InvalidDataError("numbers that do not fall", field=place, value=values)
            own = {name: tuple(float(value) for value in values) for name, values in given.items()}
            object.__setattr__(self, kind, own)

    @classmethod
    def of(cls, training: Episodes, columns: Sequence[str] | None = None) -> Ranges:
        """Measure training episodes: all features or, where a formula reads others, these columns."""
        features, diagnostics = (training.dataset[name].values for name in ("features", "diagnostics"))
        names = training.feature_names if columns is None else tuple(columns)
        if columns is not None:
            from bayes_tacit.model.design import columns_of

            found = columns_of(training, names)
            features = np.column_stack([np.empty((len(training), 0)), *(found[name] for name in names)])
        inside = np.arange(diagnostics.shape[1]) < training.n_steps[:, None]
        return cls(_quantiles(names, features), _quantiles(training.diagnostic_names, diagnostics[inside]))

    def only(self, features: Sequence[str], diagnostics: Sequence[str]) -> Ranges:
        """Return those of a router that looks at less.

        Examples
        --------
        >>> Ranges({"a": (0.0,) * 7, "b": (1.0,) * 7}, {}).only(["b"], []).features
        {'b': (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)}
        """
        return Ranges(
            {name: self.features[name] for name in features}, {name: self.diagnostics[name] for name in diagnostics}
        )

    def check(self, features: Sequence[str], diagnostics: Sequence[str]) -> None:
        """Check that it has the names of its router."""
        for kind, names in (("features", features), ("diagnostics", diagnostics)):
            if sorted(getattr(self, kind)) != sorted(names):
                raise InvalidDataError(
                    f"{list(names)}", field=f"names in the ranges of {kind}", value=[*getattr(self, kind)]
                )

    def outside(self, kind: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Name those of some "features" or "diagnostics" that are below or above all values in training."""
        known: Mapping[str, tuple[float, ...]] = getattr(self, kind)
        return tuple(
            name for name, value in values.items() if name in known and not known[name][0] <= value <= known[name][-1]
        )


def _quantiles(names: Sequence[str], columns: np.ndarray) -> dict[str, tuple[float, ...]]:
    levels = np.quantile(columns, PROBABILITIES, axis=0)
    # Interpolation may round two equal numbers to different ones.
    return dict(zip(names, map(tuple, np.maximum.accumulate(levels).T.tolist()), strict=True))
