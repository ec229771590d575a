"""Putting marks into episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayes_tacit.agents.teacher.marks import Evidence, Mark
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes


def with_marks(episodes: Episodes, marks: Mapping[str, Mark], evidence: Evidence = "range") -> Episodes:
    """Give the episodes with the windows of these marks in place of any they had.

    Parameters
    ----------
    episodes
        Episodes; those not marked have no window afterwards.
    marks
        Marks by id. They are marks after an action, also where checkpoints are proposals: the shift by one belongs to
        the timing of the fit.
    evidence
        Whether the window is the recommended checkpoint ("one_step", the paper's main experiments) or the whole range
        ("range", its larger study).

    Raises
    ------
    InvalidDataError
        If a mark is for no episode, for one that is not AB = 01, or not inside its rollout.
    """
    from bayes_tacit.data.episodes import Episodes

    positions = {str(name): at for at, name in enumerate(episodes.ids.tolist())}
    outcomes = episodes.outcomes
    start, end = np.full(len(episodes), np.nan), np.full(len(episodes), np.nan)
    for name, mark in marks.items():
        if name not in positions:
            raise InvalidDataError(
                f"an id of these {len(episodes)} episodes", episode=name, field="episode of a mark", value=name
            )
        at = positions[name]
        if outcomes[at] != "01":
            raise InvalidDataError(
                "'01': only such an episode can have a mark",
                episode=name,
                field="paired outcome",
                value=str(outcomes[at]),
            )
        mark.check(int(episodes.n_steps[at]), name)
        start[at], end[at] = mark.window(evidence)
    dataset = episodes.dataset.assign(window_start=("episode", start), window_end=("episode", end))
    return Episodes(dataset)
