"""Steps whose diagnostics were computed when they were taken, such as those in a gateway's log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import FLAGS, UNCERTAINTY

_KNOWN = (*FLAGS, UNCERTAINTY)


class Recorded(NamedTuple):
    """What an extractor would have given: flags, mean negative log-likelihood and what was spent, by step."""

    flags: bytearray
    nll: dict[int, float]
    spent: dict[int, Mapping[str, Any]]


def read_steps(steps: object) -> Recorded:
    r"""Read steps that carry their diagnostics.

    Parameters
    ----------
    steps
        A list of objects, each with `diagnostics` by name, and `usage` and `cost` where they are known.

    Raises
    ------
    InvalidDataError
        If a diagnostic is unknown, or is neither 0 nor 1 where it can be nothing else.

    Examples
    --------
    >>> read_steps([{"diagnostics": {"tool_error": 1.0, "uncertainty": 0.5}, "cost": 2.0}])[:2]
    (bytearray(b'\x04'), {0: 0.5})
    """
    if not isinstance(steps, list) or not steps:
        raise InvalidDataError("a list of at least one step", field="steps", value=steps)
    found = Recorded(bytearray(), {}, {})
    for number, step in enumerate(steps):
        values = step.get("diagnostics") if isinstance(step, Mapping) else None
        if not isinstance(values, Mapping):
            expected = "an object with diagnostics by name"
            raise InvalidDataError(expected, field="step", value=step, where=f"step {number}")
        found.flags.append(_flags(values, number))
        if values.get(UNCERTAINTY) is not None:
            found.nll[number] = float(values[UNCERTAINTY])
        if step.get("usage") is not None or step.get("cost") is not None:
            found.spent[number] = step
    return found


def _flags(values: Mapping[str, Any], number: int) -> int:
    flags = 0
    for name, value in values.items():
        field, where = f"diagnostics[{name!r}]", f"step {number}"
        if name not in _KNOWN:
            raise InvalidDataError(f"one of {', '.join(_KNOWN)}", field="diagnostic", value=name, where=where)
        if name in FLAGS:
            if value not in (0, 1):
                raise InvalidDataError("0 or 1", field=field, value=value, where=where)
            flags |= int(value) << FLAGS.index(name)
        elif value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
            raise InvalidDataError("a finite number >= 0", field=field, value=value, where=where)
    return flags
