"""The MAP under any prior that can be stated in PyMC, one of your own included.

The model's own log density is differentiated by PyTensor, and its Hessian is the difference of gradients, so that
nothing is asked of a prior but to state itself. Densities are those of the parameters themselves, without the Jacobian
of the transformations that make them unbounded: under a `RidgePrior` it is the estimate that `fit_map` finds by
formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayes_tacit.estimates.map_fit.newton import Derivatives

STEP = 1e-5
"""Of the central differences of gradients."""

QUICK = "FAST_COMPILE"
"""A fit takes some hundred evaluations; compiling them well would take longer."""

PARAMETERS = ("w", "gamma0", "gamma", "beta0", "beta", "s")


@dataclass(frozen=True)
class PriorObjective:
    """Minus the mean log density of data and parameters, as a function of the model's unbounded coordinates.

    Attributes
    ----------
    model
        What `build_model` gave.
    n
        How many episodes there are.
    """

    model: Any
    n: int

    @cached_property
    def _gradient(self) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
        return self.model.compile_dlogp(jacobian=False, mode=QUICK)

    @cached_property
    def _density(self) -> Callable[[dict[str, np.ndarray]], float]:
        return self.model.compile_logp(jacobian=False, mode=QUICK)

    @cached_property
    def _natural(self) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
        return self.model.compile_fn(self._known, inputs=self.model.value_vars, mode=QUICK, on_unused_input="ignore")

    @cached_property
    def _known(self) -> list[Any]:
        free = {variable.name: variable for variable in self.model.unobserved_value_vars}
        return [free[name] for name in PARAMETERS if name in free]

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        start = self.model.initial_point()
        return {variable.name: np.shape(start[variable.name]) for variable in self.model.value_vars}

    def start(self, guess: dict[str, np.ndarray], rng: np.random.Generator | None) -> np.ndarray:
        """Give the coordinates of a guess of the parameters, moved at random if there is a generator."""
        at = self.model.initial_point()
        for variable in self.model.free_RVs:
            if variable.name in guess:
                value, transform = guess[variable.name], self.model.rvs_to_transforms[variable]
                if transform is not None:
                    value = transform.forward(value, *variable.owner.inputs).eval()
                at[self.model.rvs_to_values[variable].name] = value
        point = np.concatenate([np.ravel(at[name]) for name in self._shapes]).astype(float)
        return point if rng is None else point + rng.normal(scale=0.5, size=len(point))

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """Value, gradient and Hessian."""
        value = -float(self._density(self._named(point))) / self.n
        if not np.isfinite(value):
            return Derivatives(np.inf, np.full(len(point), np.nan), np.full((len(point), len(point)), np.nan))
        moved = STEP * np.eye(len(point))
        rows = [(self._slope(point + along) - self._slope(point - along)) / (2 * STEP) for along in moved]
        hessian = np.array(rows)
        return Derivatives(value, self._slope(point), (hessian + hessian.T) / 2)

    def parameters(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Give the parameters at a point, on their own scales."""
        found = self._natural(self._named(point))
        return {variable.name: value for variable, value in zip(self._known, found, strict=True)}

    def errors(self, point: np.ndarray, hessian: np.ndarray) -> dict[str, np.ndarray]:
        """Give standard errors by the delta method; NaN where the density has no curvature."""
        curvature, directions = np.linalg.eigh(self.n * hessian)
        flat = curvature <= 1e-9 * curvature[-1]
        root = directions[:, ~flat] / np.sqrt(curvature[~flat])
        around = [
            (self.parameters(point + along), self.parameters(point - along)) for along in STEP * np.eye(len(point))
        ]
        out = {}
        for name in self.parameters(point):
            jacobian = np.stack([(above[name] - below[name]) / (2 * STEP) for above, below in around], axis=-1)
            error = np.sqrt(((jacobian @ root) ** 2).sum(axis=-1))
            out[name] = np.where((np.abs(jacobian @ directions[:, flat]) > 1e-6).any(axis=-1), np.nan, error)
        return out

    def _slope(self, point: np.ndarray) -> np.ndarray:
        return -np.asarray(self._gradient(self._named(point))) / self.n

    def _named(self, point: np.ndarray) -> dict[str, np.ndarray]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])
        parts = np.split(point, ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
