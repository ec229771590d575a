"""Cells and tables that the sections of the page share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from simulations.intercode.uncertainty import Tally
from simulations.studies.tables import markdown_table

CHEAP, STRONG = "Pure Cheap", "Pure Strong"


def differences(tally: Tally, ours: str, others: Sequence[str], shares: Sequence[float]) -> str:
    """Give a table of differences from others, paired by task."""
    rows = []
    for other in others:
        cells = []
        for share in shares:
            if not (tally.has((ours, share)) and tally.has((other, share))):
                cells.append("")
                continue
            difference = tally.success((ours, share)) - tally.success((other, share))
            cells.append(points(difference, *tally.interval((ours, share), (other, share))))
        rows.append([other, *cells])
    return markdown_table(["over", *(f"{share:.0%}" for share in shares)], rows)


def means(rows: pd.DataFrame, names: Sequence[str], shares: Sequence[float]) -> str:
    """Give mean success under each budget, with the standard deviation among splits."""
    found = rows.groupby(["policy", "share"])["success"].agg(["mean", "std"]).to_dict("index")
    cells = {key: f"{100 * one['mean']:.1f} ({100 * one['std']:.1f})" for key, one in found.items()}
    asked = [name for name in names if any((name, share) in cells for share in shares)]
    body = [[name, *(cells.get((name, share), "") for share in shares)] for name in asked]
    return markdown_table(["policy", *(f"{share:.0%}" for share in shares)], body)


def curves(table: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Give the rows of a setting that say what policies gave."""
    return table[(table["setting"] == setting) & (table["kind"] == "curve")]


def names_of(names: Sequence[str]) -> str:
    """Write names as code."""
    return ", ".join(f"`{name}`" for name in names)


def points(difference: float, low: float, high: float) -> str:
    """Write a difference in points with its interval."""
    return f"{100 * difference:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
