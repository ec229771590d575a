"""What a router consists of: its parameters, their shapes, and the words it knows."""

from __future__ import annotations

PARAMETERS = ("w", "gamma0", "gamma", "beta0", "beta", "s")


def shape_of(parameter: str, draws: int, diagnostics: int, features: int) -> tuple[int, ...]:
    """Give the shape of a parameter's array.

    Examples
    --------
    >>> shape_of("w", draws=1000, diagnostics=4, features=2), shape_of("s", draws=1000, diagnostics=4, features=2)
    ((1000, 4), (1000,))
    """
    columns = {"w": (diagnostics,), "gamma": (features,), "beta": (features,)}
    return (draws, *columns.get(parameter, ()))
