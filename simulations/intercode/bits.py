"""Which tasks of many: one bit each, as a short text that a table can hold."""

from __future__ import annotations

import numpy as np


def as_text(which: np.ndarray) -> str:
    """Write true and false by task as hexadecimal digits.

    Examples
    --------
    >>> as_text(np.array([True, False, True])), from_text("a0", 3)
    ('a0', array([ True, False,  True]))
    """
    return np.packbits(which.astype(bool)).tobytes().hex()


def from_text(text: str, n: int) -> np.ndarray:
    """Read n bits back."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8), count=n).astype(bool)
