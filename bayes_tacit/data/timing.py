"""What a checkpoint is, from which step Strong acts after a crossing there, and whether it goes on or begins anew."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

Timing = Literal["post_action", "proposal"]
"""Cheap's action was executed before the checkpoint, or it is only proposed there."""

TIMINGS: tuple[Timing, ...] = get_args(Timing)

DEFAULT_TIMING: Timing = "post_action"
"""What is taken where nobody says otherwise."""

NEVER = -1
"""Stands for a crossing or a handoff that does not happen."""


def strong_acts_after(timing: Timing) -> int:
    """Return how many steps after a crossing Strong acts: 1 after an executed action, 0 in place of a proposal."""
    return 1 if timing == "post_action" else 0


def discards_proposal(timing: Timing) -> bool:
    """Say whether a handoff discards an action that Cheap proposed and that was not executed; the call is paid for."""
    return strong_acts_after(timing) == 0


def mark_moves_by(timing: Timing) -> int:
    """Return by how many checkpoints a teacher's mark after an action moves: 1 to the next proposal, else 0."""
    return int(discards_proposal(timing))


def marked_checkpoints(marks: np.ndarray, n_steps: np.ndarray, timing: Timing) -> np.ndarray:
    """Return the checkpoints that a teacher's marks are aligned with.

    Parameters
    ----------
    marks
        Steps after whose action something was marked, NaN where nothing was; such as one end of all windows.
    n_steps
        How many checkpoints each rollout has.
    timing
        What a checkpoint is.

    Returns
    -------
    numpy.ndarray
        Whole numbers; `n_steps`, past the last checkpoint, where nothing was marked or the proposal that would follow
        the mark was never made.
    """
    return np.fmin(marks + mark_moves_by(timing), n_steps).astype(np.int64)


def usable_checkpoints(n_steps: np.ndarray, timing: Timing) -> np.ndarray:
    """Count the checkpoints at which a crossing hands something over: after the last action nothing is left."""
    return n_steps - strong_acts_after(timing)


def handoff_steps(crossings: npt.ArrayLike, timing: Timing) -> np.ndarray:
    """Return the step from which Strong acts, for the checkpoints at which scores cross.

    ===============  ==========================================================  ==========================
    timing           at checkpoint t                                             a crossing there hands off
    ===============  ==========================================================  ==========================
    `"post_action"`  Cheap's action at step t was executed                       from step t + 1 on
    `"proposal"`     Cheap's action at step t is proposed; it is then discarded  from step t on
    ===============  ==========================================================  ==========================

    Parameters
    ----------
    crossings
        Checkpoints counted from 0; -1 or NaN where there is no crossing.
    timing
        What a checkpoint is.

    Returns
    -------
    numpy.ndarray
        Whole numbers of the same shape, `NEVER` (-1) where there is no crossing. After the last action of a rollout of
        H steps the handoff is at step H, where nothing is left to do: it is the same as none.

    Examples
    --------
    >>> handoff_steps([0, 3, np.nan], "post_action"), handoff_steps([0, 3, -1], "proposal")
    (array([ 1,  4, -1]), array([ 0,  3, -1]))
    """
    validate.choice("timing", timing, TIMINGS)
    steps = as_steps("crossings", crossings)
    return np.where(steps == NEVER, NEVER, steps + strong_acts_after(timing))


def as_steps(name: str, values: npt.ArrayLike) -> np.ndarray:
    """Return steps as whole numbers, `NEVER` where one is NaN or -1."""
    try:
        given = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError("whole numbers", field=name, value=values) from None
    steps = np.where(np.isnan(given), NEVER, given)
    wrong = (steps < NEVER) | (steps != np.floor(steps)) | np.isinf(steps)
    if wrong.any():
        raise InvalidDataError(
            "whole numbers >= 0, with -1 or NaN for never", field=name, value=float(steps[wrong].flat[0])
        )
    return steps.astype(np.int64)


Handoff = Literal["resume", "restart"]
"""Strong goes on where Cheap stands, as in the paper, or the environment is reset and Strong begins the task anew."""

HANDOFFS: tuple[Handoff, ...] = get_args(Handoff)

DEFAULT_HANDOFF: Handoff = "resume"
