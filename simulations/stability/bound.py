"""The theorem's bound and its conditions, with the constants at the radius with which they hold soonest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from simulations.stability.losses import SIZE


def net_factor(delta: float) -> float:
    """Give by how much a net over all directions and a union bound over it multiply sigma, at n = 1."""
    return float(2 * np.sqrt(2 * (SIZE * np.log(5) + np.log(4 / delta))))


def radius_bound(sigma: float, influence: float, n: float, share: float, delta: float) -> float:
    """Give a_n(delta) of the theorem; `share` is rho_T, of all records.

    Examples
    --------
    >>> round(radius_bound(sigma=1.0, influence=5.0, n=10_000, share=0.01, delta=0.05), 4)
    0.178
    """
    return float(sigma * net_factor(delta) / np.sqrt(n) + influence * share)


@dataclass(frozen=True)
class Constants:
    """The constants in one kind of coordinates, at one radius.

    Attributes
    ----------
    coordinates
        Which.
    radius, mu, sigma, slope
        r, mu, sigma and L_q.
    influence, curvature
        G_T and H_T, by kind of wrong marks.
    timed
        The share of records that have a mark.
    delta
        One minus the probability with which the theorem holds.
    """

    coordinates: str
    radius: float
    mu: float
    sigma: float
    slope: float
    influence: dict[str, float]
    curvature: dict[str, float]
    timed: float
    delta: float

    @classmethod
    def of(cls, rows: pd.DataFrame, coordinates: str, delta: float) -> Constants:
        """Read them from a study's table, and choose the radius: the largest mu r."""
        own = rows[rows["coordinates"] == coordinates]
        mu = own[own["constant"] == "mu"].set_index("radius")["value"]
        radius = float(mu.index[int(np.argmax(mu * mu.index))])
        at = own[own["radius"].isin([0.0, radius])]

        def one(name: str) -> float:
            return float(at.loc[at["constant"] == name, "value"].iloc[0])

        def by_kind(name: str) -> dict[str, float]:
            return dict(at[at["constant"] == name].set_index("kind")["value"])

        return cls(
            coordinates,
            radius,
            one("mu"),
            one("sigma"),
            one("L_q"),
            by_kind("G_T"),
            by_kind("H_T"),
            one("timed"),
            delta,
        )

    @property
    def limit(self) -> float:
        """What a_n has to be below."""
        return self.mu * self.radius / 2

    @property
    def tasks_needed(self) -> float:
        """How many tasks without a wrong mark make a_n as small as that."""
        return self.tasks_below(self.radius)

    def tasks_below(self, error: float) -> float:
        """Give from how many tasks without a wrong mark on the bound is below an error."""
        return (self.bound("", 1.0, 0.0) / error) ** 2

    def wrong_allowed(self, kind: str) -> float:
        """Give the share of the marks, not of the records, up to which the conditions hold with endless tasks."""
        records = min(self.limit / self.influence[kind], self.mu / 4 / self.curvature[kind])
        return records / self.timed

    def bound(self, kind: str, n: float, share: float) -> float:
        """Give the right side of the inequality for the parameters, whether its conditions hold or not."""
        return 2 * radius_bound(self.sigma, self.influence.get(kind, 0.0), n, share, self.delta) / self.mu

    def holds(self, kind: str, n: float, share: float) -> bool:
        """Tell whether a_n < mu r / 2, that is, the bound is below r, and H_T rho_T <= mu / 4."""
        return bool(self.bound(kind, n, share) < self.radius and self.curvature.get(kind, 0.0) * share <= self.mu / 4)
