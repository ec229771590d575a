"""Environment variables that stay as they were, whatever a package does with them when it is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unchanged(name: str) -> Iterator[None]:
    """Put a variable back to what it was before, or away if it was not there.

    ALFWorld sets ALFWORLD_DATA to a folder of its own when it is imported; whoever then looks for games there finds
    none.

    Examples
    --------
    >>> with unchanged("NOT_SET_BEFORE"):
    ...     os.environ["NOT_SET_BEFORE"] = "folder"
    >>> "NOT_SET_BEFORE" in os.environ
    False
    """
    before = os.environ.get(name)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
