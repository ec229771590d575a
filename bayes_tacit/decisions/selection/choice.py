"""The choice under a budget: the highest success within the cap, and how ties are broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

Points = pd.DataFrame | Mapping[str, npt.ArrayLike]
"""A table of operating points, or its columns: `success` and `cost` at least."""

SAME = 1e-9
"""Relative difference below which two averages are the same number, rounded differently."""

TIES = (("cost", 1), ("intervention_rate", 1), ("target", 1), ("alpha", -1))
"""What breaks ties, in this order, and whether the lower (1) or the higher (-1) wins."""


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen.

    Attributes
    ----------
    position
        Its row in the table, from 0.
    point
        Its row: `success`, `cost` and whatever else the table has.
    cap
        The budget.
    n_points, n_within
        How many candidates there were, and how many were within the cap.
    n_tied
        How many of those succeed as often as the chosen one, itself included.
    """

    position: int
    point: Mapping[str, object]
    cap: float
    n_points: int
    n_within: int
    n_tied: int

    @property
    def alpha(self) -> float:
        """The threshold, if the table has thresholds."""
        if "alpha" not in self.point:
            raise InvalidDataError("a column 'alpha'", field="columns of the points", value=list(self.point))
        return float(self.point["alpha"])  # type: ignore[arg-type]

    @property
    def success(self) -> float:
        """Its mean success."""
        return float(self.point["success"])  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        """Its mean cost."""
        return float(self.point["cost"])  # type: ignore[arg-type]

    def __str__(self) -> str:
        name = f"alpha = {self.alpha:.4g}" if "alpha" in self.point else f"candidate {self.position}"
        tied = f", {self.n_tied} of them with this success" if self.n_tied > 1 else ""
        return (
            f"{name}: success {self.success:.1%} at cost {self.cost:.4g} "
            f"({self.n_within} of {self.n_points} candidates within the cap of {self.cap:.4g}{tied})"
        )


def choose(points: Points, cap: float) -> Choice:
    """Choose the candidate with the highest success whose cost is within the cap.

    Ties are broken by lower cost, then lower intervention rate, then lower target, as in the paper; then by higher
    alpha, which is what a lower target means where there are none; then the first row wins. Columns that are not there
    break no tie, and a missing value loses against a number.

    Parameters
    ----------
    points
        A table, or plain arrays by name: `success` and `cost`, and if there are `intervention_rate`, `target`, `alpha`.
        Each row is a candidate; what kind of policy it is does not matter.
    cap
        The highest mean cost allowed, in the unit of the costs.

    Raises
    ------
    InvalidDataError
        If no candidate is within the cap; the message says the lowest cost there is.

    Examples
    --------
    >>> print(choose({"alpha": [0.1, 0.2, 0.3], "success": [0.8, 0.7, 0.7], "cost": [19, 16, 15]}, cap=16))
    alpha = 0.3: success 70.0% at cost 15 (2 of 3 candidates within the cap of 16, 2 of them with this success)
    """
    table = table_of(points)
    cap = validate.number("cap", cap, "a finite number >= 0", least=0)
    success, cost = column(table, "success"), column(table, "cost")
    within = np.flatnonzero(cost <= cap + SAME * abs(cap))
    if not within.size:
        lowest = int(cost.argmin())
        raise InvalidDataError(
            f"at least {cost[lowest]:.6g}, the lowest cost of the {len(table)} candidates", field="cap", value=cap
        )
    best = tied = _lowest(-success, within)
    for name, sign in TIES:
        if name in table:
            best = _lowest(sign * column(table, name, missing=True), best)
    position = int(best[0])
    point = {str(name): value for name, value in table.iloc[position].items()}
    return Choice(position, point, cap, n_points=len(table), n_within=len(within), n_tied=len(tied))


def why_no_handoff(points: Points, choice: Choice) -> str:
    """Say why the chosen candidate hands off nothing; empty if it hands off something, or nobody counted.

    Examples
    --------
    >>> points = {"alpha": [0.1, 0.9], "success": [0.8, 0.5], "cost": [19, 10], "intervention_rate": [0.4, 0.0]}
    >>> print(why_no_handoff(points, choose(points, cap=12)))
    It hands off nothing: of the candidates that do, the cheapest costs 19, and the cap is 12.
    """
    table = table_of(points)
    if "intervention_rate" not in table or choice.point["intervention_rate"] != 0:
        return ""
    acting = table[table["intervention_rate"] > 0]
    within = acting[acting["cost"] <= choice.cap * (1 + SAME)]
    if acting.empty:
        why = "no score reaches any of the candidates while something is left to do"
    elif within.empty:
        why = (
            f"of the candidates that do, the cheapest costs {acting['cost'].min():.4g}, and the cap is {choice.cap:.4g}"
        )
    else:
        best = float(within["success"].max())
        why = f"of the candidates within the cap that do, the best succeeds in {best:.1%}, no more than without"
    return f"It hands off nothing: {why}."


def table_of(points: Points) -> pd.DataFrame:
    """Give points as a table with rows from 0."""
    if not isinstance(points, pd.DataFrame | Mapping):
        raise InvalidDataError(
            "a table of operating points, or a mapping with its columns", field="points", value=points
        )
    try:
        table = pd.DataFrame(points).reset_index(drop=True)
    except ValueError:
        lengths = {name: np.size(values) for name, values in points.items()}
        raise InvalidDataError("columns of one length", field="points", value=lengths) from None
    if table.empty:
        raise InvalidDataError("at least one candidate", field="points", value=[])
    return table


def column(table: pd.DataFrame, name: str, *, missing: bool = False) -> np.ndarray:
    """Give a column as numbers; NaN passes where values may be missing."""
    if name not in table:
        raise InvalidDataError(f"a column {name!r}", field="columns of the points", value=list(table))
    try:
        values = table[name].to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise InvalidDataError("numbers", field=name, value=table[name].tolist()) from None
    wrong = np.isnan(values) & (not missing)
    if wrong.any():
        first = int(wrong.argmax())
        raise InvalidDataError("a number", field=name, value=float(values[first]), where=f"row {first}")
    return values


def _lowest(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Keep the rows whose value is the lowest."""
    among = np.where(np.isnan(values), np.inf, values)[rows]
    least = among.min()
    if np.isinf(least):
        return rows[among == least]
    return rows[among <= least + SAME * abs(least)]
