"""What a fit found, as plain numbers with their names: what its table, its file and its tree are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit.data.timing import Timing
from bayes_tacit.estimates.map_fit.profile import ProfilePoint
from bayes_tacit.model.evidence import Unmarked


@dataclass(frozen=True)
class Restart:
    """How one start of the optimizer ended.

    Attributes
    ----------
    objective
        The paper's objective there.
    gradient_norm
        Largest absolute component of its gradient.
    iterations
        Newton steps taken.
    floored
        How many episodes have a likelihood below the floor.
    converged
        Whether it is an optimum.
    """

    objective: float
    gradient_norm: float
    iterations: int
    floored: int
    converged: bool


@dataclass(frozen=True, repr=False, eq=False)
class FittedValues:
    """The numbers of a `MapFit`, which says what each is."""

    w: np.ndarray
    gamma0: float
    gamma: np.ndarray
    beta0: float
    beta: np.ndarray
    s: float
    standard_errors: dict[str, np.ndarray | float]
    objective: float
    gradient_norm: float
    converged: bool
    restarts: tuple[Restart, ...]
    floored: tuple[str | int, ...]
    feature_names: tuple[str, ...]
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    diagnostic_names: tuple[str, ...]
    n_episodes: int
    n_timed: int
    weights_fixed: bool
    ridge: float
    floor: float | None
    family: str
    timing: Timing
    seed: int
    data_fingerprint: str
    memory: float = 1.0
    clock: bool = False
    unmarked: Unmarked = "outcome"
    profile: tuple[ProfilePoint, ...] = ()
    prior: str | None = None
    design: str | None = None

    def __post_init__(self) -> None:
        for value in (*vars(self).values(), *self.standard_errors.values()):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
