"""A logistic model's probability from numbers by name, one episode at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.router.control.pilot import chosen


@dataclass(frozen=True, repr=False)
class Chance:
    """Cheap's chance to succeed as a logistic function of numbers by name.

    Attributes
    ----------
    names
        The numbers, in order.
    mean, scale
        By which each is standardized, as in training.
    intercept, slopes
        On standardized numbers.

    Examples
    --------
    >>> chance = Chance(("entities",), mean=(10.0,), scale=(2.0,), intercept=0.0, slopes=(-1.0,))
    >>> round(chance({"entities": 14.0, "other": 1.0}), 3)
    0.119
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    intercept: float
    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the numbers."""
        n = len(validate.names("names of a chance", self.names))
        for name in ("mean", "scale", "slopes"):
            numbers = validate.finite(f"{name} of a chance", np.asarray(getattr(self, name), dtype=float), (n,))
            if name == "scale":
                validate.positive(f"{name} of a chance", numbers)
        validate.number("intercept of a chance", self.intercept)

    def __call__(self, known: Mapping[str, float]) -> float:
        """Give the probability."""
        values = chosen(known, self.names, "names")
        logit = self.intercept
        # In the order in which a whole table of episodes is computed, so that both give the same bits.
        for name, mean, scale, slope in zip(self.names, self.mean, self.scale, self.slopes, strict=True):
            logit += (values[name] - mean) / scale * slope
        return float(special.expit(logit))

    def __repr__(self) -> str:
        content = [self.names, self.mean, self.scale, self.intercept, self.slopes]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"<Chance: from {len(self.names)} numbers, {digest[:16]}>"
