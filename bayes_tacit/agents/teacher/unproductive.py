"""A teacher by rule that needs nothing but the episodes: so many unproductive steps in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.teacher.marks import Mark

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

NOT_A_SIGN = "uncertainty"
"""The diagnostic that is above 0 in every step, and therefore no sign by itself."""


def mark_unproductive(
    episodes: Episodes, n_steps: int = 3, *, diagnostics: Sequence[str] | None = None, least: float = 0.5
) -> dict[str, Mark]:
    """Mark the first run of checkpoints at which the last `n_steps` steps were unproductive, in episodes with AB = 01.

    A step is unproductive if one of the diagnostics is at least `least`. The range ends with the run; the recommended
    checkpoint is its first. Where there is no such run there is no mark. The rule does not look at what Strong did:
    it says when failure was clear, and that recovery was possible only so far as Strong solved the task.

    Parameters
    ----------
    episodes
        Episodes, imported or played.
    n_steps
        Unproductive steps in a row.
    diagnostics
        The signs; by default all but `uncertainty`.
    least
        The value from which on a diagnostic is a sign.

    Returns
    -------
    dict
        Marks by episode, for `with_marks`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> episodes = load_example()
    >>> marks = mark_unproductive(episodes, 2, diagnostics=["stalled", "invalid"])
    >>> len(marks), int((episodes.outcomes == "01").sum())
    (538, 614)
    """
    validate.whole("n_steps", n_steps, 1)
    validate.number("least", least, "a finite number > 0", above=0)
    names = [name for name in episodes.diagnostic_names if name != NOT_A_SIGN] if diagnostics is None else diagnostics
    for name in names:
        validate.choice("diagnostic", name, episodes.diagnostic_names)
    found: dict[str, Mark] = {}
    due = np.flatnonzero(episodes.outcomes == "01")
    values = episodes.dataset["diagnostics"].isel(episode=due).sel(diagnostic=list(names)).values
    # Past the end of an episode there is NaN, which is less than nothing.
    signs = (np.nan_to_num(values, nan=-np.inf) >= least).any(axis=2)
    for row, at in zip(signs, due, strict=True):
        run = 0
        clear = [(run := run + 1 if sign else 0) >= n_steps for sign in row[: episodes.n_steps[at]].tolist()]
        if True in clear:
            start = clear.index(True)
            end = clear.index(False, start) - 1 if False in clear[start:] else len(clear) - 1
            found[str(episodes.ids[at])] = Mark(start, end, start)
    return found
