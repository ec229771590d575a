"""What can go wrong because of what a user gave, and how it is said.

Every error a user can cause is a `TacitError`; its message says what was wrong, where, and what was expected.
"""

from __future__ import annotations

from functools import partial
from typing import Any


class TacitError(Exception):
    """Base class of every error that bayes_tacit raises on purpose."""


class InvalidDataError(TacitError, ValueError):
    """A value in the data is not what it must be.

    Parameters
    ----------
    expected
        What would have been right, as a phrase that follows "expected".
    episode
        Id of the episode concerned, where there is one.
    field
        The variable, column or key concerned.
    value
        The offending value, echoed in the message.
    where
        Anything that helps to find it: a file and line, a step.

    Examples
    --------
    >>> print(InvalidDataError("a finite number >= 0", episode="task-17", field="diagnostics['repeat']", value=-1.0,
    ...                        where="step 3"))
    episode 'task-17', step 3: diagnostics['repeat'] is -1.0; expected a finite number >= 0
    """

    def __init__(
        self,
        expected: str,
        *,
        episode: object = None,
        field: str | None = None,
        value: object = None,
        where: str | None = None,
    ) -> None:
        self.expected = expected
        self.episode = episode
        self.field = field
        self.value = value
        self.where = where
        place = ", ".join(part for part in (None if episode is None else f"episode {episode!r}", where) if part)
        what = "" if field is None else f"{field} is {short(value)}; "
        super().__init__(f"{place}: {what}expected {expected}" if place else f"{what}expected {expected}")

    @property
    def details(self) -> dict[str, Any]:
        """All but what was expected."""
        return {"episode": self.episode, "field": self.field, "value": self.value, "where": self.where}

    def at(self, where: str, episode: object = None) -> InvalidDataError:
        """Return the same error at another place, and of an episode if it names none."""
        named = episode if self.episode is None else self.episode
        return InvalidDataError(self.expected, **self.details | {"where": where, "episode": named})

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.details), (self.expected,)


class FileFormatError(TacitError, ValueError):
    """A file is not what its name says, is cut short, or was written by a newer version."""


class MissingFileError(TacitError, FileNotFoundError):
    """A file or folder that was named does not exist."""


class EvidenceError(TacitError, ValueError):
    """The episodes are valid, but do not say enough to fit what was asked for."""


class ConvergenceError(TacitError, RuntimeError):
    """An optimizer stopped before it reached an optimum."""


class MissingDependencyError(TacitError, ImportError):
    """An optional part was asked for whose packages are not installed."""


class TacitWarning(UserWarning):
    """Something unusual in the data or the fit that does not stop it."""


def short(value: object, width: int = 80) -> str:
    """Return the value as Python writes it, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."
