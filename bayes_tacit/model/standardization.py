"""Task features on a common scale: the training split's mean and scale, kept with whatever was fitted on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of each task feature.

    A constant feature carries no information; its scale is set to 1, so that it standardizes to zero.

    Attributes
    ----------
    mean, scale
        One number a feature; the scale is the standard deviation with denominator n.
    constant
        Which features do not vary.

    Examples
    --------
    >>> standardization = Standardization.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> standardization.apply(np.array([[5.0, 5.0]]))
    array([[3., 0.]])
    """

    mean: np.ndarray
    scale: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> Standardization:
        """Take mean and scale from the rows of an (episode, feature) array."""
        columns = np.ascontiguousarray(features.T)
        constant = columns.max(axis=1) == columns.min(axis=1)
        # Dividing by the largest value first keeps squares from overflowing.
        largest = np.maximum(np.abs(columns).max(axis=1), np.finfo(float).tiny)
        mean = np.where(constant, columns[:, 0], (columns / largest[:, None]).mean(axis=1) * largest)
        scale = np.where(constant, 1.0, (columns / largest[:, None]).std(axis=1) * largest)
        return cls(mean, scale, constant)

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Standardize the last axis."""
        return (features - self.mean) / self.scale
