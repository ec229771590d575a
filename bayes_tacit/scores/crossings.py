"""Where a score first reaches alpha, and from which step on Strong acts then."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_tacit.data.timing import NEVER, Timing, handoff_steps
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.scores.ties import reached_from


def first_crossings(scores: npt.ArrayLike | xr.DataArray, alpha: npt.ArrayLike) -> np.ndarray:
    """Find the first checkpoint at which a score reaches alpha (`bayes_tacit.scores.ties`).

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
    for row, threshold in enumerate(reached_from(thresholds.ravel())):
        # NaN is not above anything.
        above = values >= threshold
        first = above.argmax(axis=1)
        out[row] = np.where(above[np.arange(len(values)), first], first, NEVER)
    return out.reshape(*thresholds.shape, len(values))


def first_handoffs(scores: npt.ArrayLike | xr.DataArray, alpha: npt.ArrayLike, timing: Timing) -> np.ndarray:
    """Give the step from which Strong acts: `handoff_steps` of the `first_crossings`.

    Examples
    --------
    >>> first_handoffs([[0.1, 0.4, 0.6], [0.2, 0.3, np.nan]], 0.4, "post_action")
    array([ 2, -1])
    """
    return handoff_steps(first_crossings(scores, alpha), timing)


def handoffs_at(scores: npt.ArrayLike | xr.DataArray, levels: np.ndarray, timing: Timing) -> np.ndarray:
    """Give the step from which Strong acts where each step has a threshold of its own.

    Examples
    --------
    >>> handoffs_at([[0.1, 0.4, 0.6], [0.2, 0.3, np.nan]], np.array([0.5, 0.4, 0.3]), "post_action")
    array([ 2, -1])
    """
    values = as_scores(scores)
    reached = np.where(np.isnan(values), np.nan, values >= reached_from(levels))
    return handoff_steps(first_crossings(reached, 1.0), timing)


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
