"""Numbers by name: what an agent gives at the start of an episode and at each checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from operator import itemgetter
from typing import Any

import numpy as np

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design

Given = Mapping[str, float] | Sequence[float] | np.ndarray
"""Numbers by name, or in the fitted order."""


class Fields:
    """Reads numbers that are given by name or in order.

    Parameters
    ----------
    kind
        What they are, in messages.
    names
        Their names, in order.
    nonnegative
        Whether a number below zero is refused.

    Examples
    --------
    >>> fields = Fields("diagnostics", ("repeat", "invalid"), nonnegative=True)
    >>> fields.read({"invalid": 1, "repeat": 0.5})
    (0.5, 1.0)
    >>> fields.read({"invalid": 1, "repeat": -0.5})
    Traceback (most recent call last):
    bayes_tacit.errors.InvalidDataError: diagnostics['repeat'] is -0.5; expected a finite number >= 0
    """

    __slots__ = ("_by_names", "_n", "expected", "kind", "least", "names")

    def __init__(self, kind: str, names: tuple[str, ...], *, nonnegative: bool) -> None:
        self.kind = kind
        self.names = names
        self.least = 0.0 if nonnegative else -sys.float_info.max
        self.expected = "a finite number >= 0" if nonnegative else "a finite number"
        self._n = len(names)
        self._by_names = _getter(names)

    def read(self, given: Given) -> tuple[float, ...]:
        """Give the numbers in order, or raise an `InvalidDataError` that says which one is wrong."""
        try:
            values: Sequence[Any] = self.pick(given)
        except (KeyError, TypeError):
            values = self._in_order(given)
        least = self.least
        return tuple(
            [
                value if type(value) is float and least <= value < inf else self._number(value, name)
                for value, name in zip(values, self.names, strict=True)
            ]
        )

    def pick(self, given: Given) -> Sequence[float]:
        """Give the values in order, unchecked, in a fraction of the time of `read`.

        Only a dict, list or tuple of the right length passes; a KeyError or TypeError says that `read` is needed.
        """
        kind = type(given)
        if len(given) == self._n:
            if kind is dict:
                return self._by_names(given)
            if kind is list or kind is tuple:
                return given  # type: ignore[return-value]
        raise TypeError

    def by_name(self, values: Sequence[float]) -> dict[str, float]:
        """Name numbers that are in order."""
        return dict(zip(self.names, values, strict=True))

    def _in_order(self, given: Any) -> Sequence[object]:  # noqa: ANN401
        if isinstance(given, Mapping) or hasattr(given, "keys"):
            named = {key: given[key] for key in given.keys()}  # noqa: SIM118
            return self._by_their_names(named)
        if hasattr(given, "__array__"):
            given = np.asarray(given).tolist()
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            if len(given) == len(self.names):
                return given
            raise InvalidDataError(
                f"{len(self.names)}: {self._listed()}", field=f"number of {self.kind}", value=len(given)
            )
        raise InvalidDataError(
            f"a mapping by name, or numbers in order: {self._listed()}", field=self.kind, value=given
        )

    def _by_their_names(self, named: Mapping[object, object]) -> Sequence[object]:
        for name in self.names:
            if name not in named:
                raise InvalidDataError(f"{self.kind}[{name!r}], which is missing")
        for given in named:
            if given not in self.names:
                raise InvalidDataError(f"one of {self._listed()}", field=f"a name in {self.kind}", value=given)
        return [named[name] for name in self.names]

    def _number(self, value: object, name: str) -> float:
        try:
            if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
                number = float(value)
                if isfinite(number) and number >= self.least:
                    return number
        except (OverflowError, TypeError):
            pass
        shown = value.item() if isinstance(value, np.generic) else value
        raise InvalidDataError(self.expected, field=f"{self.kind}[{name!r}]", value=shown)

    def _listed(self) -> str:
        return ", ".join(self.names) or "none"


class DesignFields(Fields):
    """Reads the raw values of a task and makes its features of them; what are features already, by name, is taken too.

    Parameters
    ----------
    design
        How features are made.
    """

    __slots__ = ("design",)

    def __init__(self, design: Design) -> None:
        super().__init__("features", design.names, nonnegative=False)
        self.design = design

    def read(self, given: Given) -> tuple[float, ...]:
        """Give the features in order, or raise an `InvalidDataError` that says which value is wrong."""
        if isinstance(given, Mapping) and set(given) != set(self.names):
            return self.design.row(given)
        if isinstance(given, Mapping) or len(given) == len(self.names):
            return super().read(given)
        expected = f"a mapping by name: {', '.join(self.design.inputs)}"
        raise InvalidDataError(expected, field=self.kind, value=given)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Give what takes the values of these names out of a dict."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        (name,) = names
        return lambda given: (given[name],)
    return itemgetter(*names)
