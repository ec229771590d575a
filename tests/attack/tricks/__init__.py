"""Tricks that code in the sandbox may try, each a name and Python.

`tricks` gives those that are one expression, which raises or gives -1 where it is refused; many are tried in one call.
`alone` gives those that would end, fill or hold up their process: each is a call of its own.

Words in capitals stand for things outside: LABEL a file, FOLDER its folder, PORT of a server, NAMED a socket with a
name, PARENT the number of the process that runs the sandbox, PROJECT the folder of this project, TERCES, backwards, a key
in the environment of that process.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from attack.tricks import (
    burning,
    describing,
    ending,
    escaping,
    flooding,
    handles,
    meddling,
    multiplying,
    numbers,
    others,
    paths,
    reading,
    sharing,
    spaces,
    starting,
    syscalls,
    talking,
    telling,
    writing,
)
from attack.tricks.alone import Trick

FAMILIES: tuple[ModuleType, ...] = (
    reading,
    writing,
    describing,
    paths,
    handles,
    starting,
    talking,
    meddling,
    others,
    spaces,
    sharing,
    telling,
    escaping,
    syscalls,
    numbers,
)
ALONE: tuple[ModuleType, ...] = (ending, flooding, burning, multiplying)


def tricks() -> dict[str, dict[str, str]]:
    """Give the expressions by family and name."""
    return {_word(family): family.tricks() for family in FAMILIES}


def alone() -> dict[str, Trick]:
    """Give those that take a call of their own, by name."""
    return dict(_alone())


def _alone() -> Iterator[tuple[str, Trick]]:
    for family in ALONE:
        for name, trick in family.tricks().items():
            yield f"{_word(family)}: {name}", trick


def _word(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2]
