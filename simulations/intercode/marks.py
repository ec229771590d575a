"""Marks by rule: the handoff was due once Cheap had been unproductive for some turns on end."""

from __future__ import annotations

import numpy as np

from bayes_tacit import Episodes

TURNS = 2
"""Turns on end without anything gained that make a handoff due."""


def marked(episodes: Episodes, turns: int = TURNS) -> Episodes:
    """Mark episodes with AB = 01 where every one of the last turns showed a sign of trouble.

    A turn shows one where any diagnostic is above 0. The window is the first run of such checkpoints at which a handoff
    can still come; where there is none the episode stays without a mark.

    Parameters
    ----------
    episodes
        Paired rollouts; marks that they have are replaced.
    turns
        How many turns on end.
    """
    dataset = episodes.dataset
    trouble = np.nan_to_num(dataset["diagnostics"].values).max(axis=2) > 0
    start = np.full(len(episodes), np.nan)
    end = start.copy()
    for row in np.flatnonzero(episodes.outcomes == "01"):
        due = [all(trouble[row, max(0, t - turns + 1) : t + 1]) for t in range(int(episodes.n_steps[row]) - 1)]
        due[: turns - 1] = [False] * min(turns - 1, len(due))
        if True in due:
            start[row] = first = due.index(True)
            end[row] = due.index(False, first) - 1 if False in due[first:] else len(due) - 1
    return Episodes(dataset.assign(window_start=("episode", start), window_end=("episode", end)))


def unmarked(episodes: Episodes) -> Episodes:
    """Give the same episodes without their marks."""
    blank = ("episode", np.full(len(episodes), np.nan))
    return Episodes(episodes.dataset.assign(window_start=blank, window_end=blank))
