"""From scores to decisions: where a score first reaches alpha, and from which step on Strong then acts."""

from __future__ import annotations

from typing import get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_tacit import settings
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.evidence import Timing

NEVER = -1
"""Stands for a crossing or a handoff that does not happen."""


def handoff_steps(crossings: npt.ArrayLike, timing: Timing) -> np.ndarray:
    """Give the step from which Strong acts, for the checkpoints at which scores cross.

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
    settings.choice("timing", timing, get_args(Timing))
    steps = as_steps("crossings", crossings)
    return np.where(steps == NEVER, NEVER, steps + (timing == "post_action"))


def first_crossings(scores: npt.ArrayLike | xr.DataArray, alpha: npt.ArrayLike) -> np.ndarray:
    """Find the first checkpoint at which a score is at least alpha.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode.
    alpha
        One threshold, or several.

    Returns
    -------
    numpy.ndarray
        Checkpoints by episode, `NEVER` (-1) where there is none; for several thresholds (threshold, episode).

    Examples
    --------
    >>> first_crossings([[0.1, 0.4, 0.6], [0.2, 0.3, np.nan]], [0.2, 0.5])
    array([[ 1,  0],
           [ 2, -1]])
    """
    values = as_scores(scores)
    thresholds = np.asarray(alpha, dtype=float)
    if thresholds.ndim > 1 or np.isnan(thresholds).any():
        raise InvalidDataError("a number, or a list of numbers", field="alpha", value=alpha)
    out = np.empty((thresholds.size, len(values)), dtype=np.int64)
    for row, threshold in enumerate(thresholds.ravel()):
        # NaN is not above anything.
        above = values >= threshold
        first = above.argmax(axis=1)
        out[row] = np.where(above[np.arange(len(values)), first], first, NEVER)
    return out.reshape(*thresholds.shape, len(values))


def as_scores(scores: npt.ArrayLike | xr.DataArray) -> np.ndarray:
    """Give scores as an array (episode, step), if they can be some."""
    if isinstance(scores, xr.DataArray):
        if set(scores.dims) != {"episode", "step"}:
            raise InvalidDataError(
                "('episode', 'step'); of a posterior take the mean or a quantile over chain and draw first",
                field="dims of scores",
                value=scores.dims,
            )
        scores = scores.transpose("episode", "step").values
    try:
        values = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError("numbers by episode and step", field="scores", value=scores) from None
    if values.ndim != 2 or not values.size:
        raise InvalidDataError("(episode, step), both at least 1", field="shape of scores", value=values.shape)
    inside = np.arange(values.shape[1]) < np.maximum(n_checkpoints(values), 1)[:, None]
    wrong = inside & ~np.isfinite(values)
    if wrong.any():
        row, step = (int(at) for at in np.unravel_index(wrong.argmax(), wrong.shape))
        raise InvalidDataError(
            "a finite number; only what is past the end of an episode is NaN",
            field="score",
            value=float(values[row, step]),
            where=f"row {row}, step {step}",
        )
    return values


def n_checkpoints(scores: np.ndarray) -> np.ndarray:
    """Count the checkpoints of each episode: those before its scores are NaN."""
    return np.count_nonzero(~np.isnan(scores), axis=1)


def as_steps(name: str, values: npt.ArrayLike) -> np.ndarray:
    """Give steps as whole numbers, `NEVER` where one is NaN or -1."""
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
