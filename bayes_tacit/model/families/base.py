"""What a threshold family is: a value that anyone can write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from bayes_tacit.model.numerics import NUMPY, Array


@dataclass(frozen=True)
class Family:
    """A log-location-scale distribution of the threshold.

    Its formulas take z = (log kappa - location) / s, an array, and an array namespace `xp`: `NUMPY` of
    `bayes_tacit.model.numerics`, or `PYTENSOR` of `bayes_tacit.model.symbolic`, of which the sampler takes gradients.
    Both have `exp`, `expm1`, `log`, `log1p`, `log1mexp`, `log_ndtr`, `softplus`, `minimum`, `maximum`, `where`,
    `apply_where` and `concatenate`. They must stay finite as far out as a start of the optimizer may lie, gradients
    included. The optimizer finds one optimum for given weights if the density is log-concave, as those of all families
    here are.

    Attributes
    ----------
    name
        How it is called in settings and files.
    label
        How it is called in reports.
    log_cdf, log_sf
        Log probability below and above z; they take z and an array namespace.
    log_mass
        Log probability of (z, z + width]; it takes z, the width and an array namespace. It should not be a difference
        of probabilities, which loses its digits in the right tail and for narrow windows.
    log_pdf, score
        Log density and its derivative, for NumPy arrays.
    draw
        Standard draws from a generator, of a given shape.
    cdf
        Probability below z, for NumPy arrays and single numbers; by default the exponential of `log_cdf`.
    """

    name: str
    label: str
    log_cdf: Callable[[Array, SimpleNamespace], Array]
    log_sf: Callable[[Array, SimpleNamespace], Array]
    log_mass: Callable[[Array, Array, SimpleNamespace], Array]
    log_pdf: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    cdf: Callable[[np.ndarray], np.ndarray] = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Derive what was not given."""
        given: object = self.cdf
        if given is None:
            object.__setattr__(self, "cdf", lambda z: np.exp(self.log_cdf(np.asarray(z, dtype=float), NUMPY)))

    def __repr__(self) -> str:
        return f"<Family {self.name}>"
