"""What `fit_map` returns: estimates with names, a table to read, a DataTree to analyse, a JSON file to keep."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pandas as pd
import xarray as xr

from bayes_tacit.estimates.map_fit import storage, table
from bayes_tacit.estimates.map_fit.values import FittedValues


@dataclass(frozen=True, repr=False, eq=False)
class MapFit(FittedValues):
    """A fitted model: one value for each parameter, on standardized features.

    Attributes
    ----------
    w
        Simplex weights of the diagnostics.
    gamma0, gamma
        Incidence: P(B = 1) = sigmoid(gamma0 + x gamma).
    beta0, beta
        Threshold location: E log kappa = beta0 + x beta.
    s
        Scale of log kappa: its standard deviation if the family is log-normal.
    standard_errors
        By parameter, from the inverse Hessian of n times the objective (with a ridge, the Laplace approximation's).
        NaN where the estimate is not regular: a fixed weight, one on the boundary of the simplex, a constant feature.
    objective
        Mean negative log-likelihood plus penalty.
    gradient_norm
        Largest absolute component of its gradient in the optimizer's coordinates.
    converged
        Always true: `fit_map` raises otherwise.
    restarts
        How every start ended.
    floored
        Episodes whose likelihood is below the floor.
    feature_names, feature_mean, feature_scale
        The features and their standardization.
    diagnostic_names
        The diagnostics, in the order of `w`.
    n_episodes, n_timed
        How many episodes were used, and how many said something about the threshold.
    weights_fixed, ridge, floor, family, timing, seed
        The settings.
    memory, clock
        rho, and whether the last diagnostic is the clock.
    unmarked
        How AB = 01 episodes without a window were read.
    profile
        The objective at every memory that was tried, if the memory was chosen by it.
    data_fingerprint
        Digest of the evidence it was fitted on.
    prior
        The prior as JSON, where it is not the ridge penalty.
    design
        How the features are made of raw columns, as JSON, where a formula says so.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapFit) and storage.as_record(self) == storage.as_record(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return table.as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table.as_html(self)

    def summary(self) -> pd.DataFrame:
        """Table of parameters: estimate, standard error, and the interval that 1.96 of them span."""
        return table.as_frame(self)

    def to_datatree(self) -> xr.DataTree:
        """Give the fit the shape of a posterior with one chain and one draw, so that what reads one reads the other."""
        return storage.as_datatree(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file; every number is read back exactly."""
        storage.save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> MapFit:
        """Read a file that `save` wrote."""
        return MapFit(**storage.load(path))
