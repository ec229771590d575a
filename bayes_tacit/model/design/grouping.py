"""Which group each episode belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design.columns import level_names
from bayes_tacit.model.design.formula import columns_of


@dataclass(frozen=True, eq=False)
class Grouping:
    """A column of the episodes, read as groups.

    Attributes
    ----------
    column
        The column.
    names
        Its levels, sorted.
    position
        Which of them each episode has.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> Grouping.of("subgoals", load_example()).names
    ('1', '2', '3', '4', '5')
    """

    column: str
    names: tuple[str, ...]
    position: np.ndarray

    @classmethod
    def of(cls, column: str, episodes: Episodes) -> Grouping:
        """Read the groups of training episodes."""
        if not isinstance(column, str):
            raise InvalidDataError("the name of a column", field="groups", value=column)
        names, position = np.unique(
            level_names(columns_of(episodes, (column,))[column]).astype(str), return_inverse=True
        )
        if len(names) < 2:
            raise InvalidDataError("a column with two groups or more", field="groups", value=column)
        if len(names) == len(episodes):
            raise InvalidDataError("a column in which some episodes are alike", field="groups", value=column)
        return cls(column, tuple(names.tolist()), position)
