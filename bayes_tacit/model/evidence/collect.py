"""From episodes to evidence."""

from __future__ import annotations

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import TIMINGS, Timing, mark_moves_by
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.evidence.record import Evidence
from bayes_tacit.model.evidence.simplex import Weights, simplex
from bayes_tacit.model.standardization import Standardization

BLOCK_BYTES = 1 << 20
"""Size of the block of diagnostics that is summed at a time: it stays in the processor's cache."""


def collect_evidence(episodes: Episodes, *, timing: Timing = "post_action", weights: Weights | None = None) -> Evidence:
    """Reduce episodes to their evidence.

    Parameters
    ----------
    episodes
        The training episodes.
    timing
        "post_action": windows and checkpoints mean the same moment. "proposal": the checkpoints are proposals, the
        windows are still marks after an action; a mark after step t is aligned with the proposal at step t + 1. Where
        that proposal was never made (t was the last step), the window is open above.
    weights
        Simplex weights to hold fixed, in the order of the diagnostics or by their names; by default they are to be
        learned.

    Examples
    --------
    >>> import bayes_tacit
    >>> evidence = collect_evidence(bayes_tacit.load_example())
    >>> evidence.n_left + evidence.n_interval + evidence.n_right == len(evidence.timed)
    True
    """
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes; see Episodes.from_frames and Episodes.read", field="episodes", value=episodes)
    validate.choice("timing", timing, TIMINGS)
    fixed = None if weights is None else simplex(weights, episodes.diagnostic_names)
    dataset = episodes.dataset
    n_steps = dataset["n_steps"].values
    strong = dataset["strong_success"].values
    start, stop, open_above = _bounding_checkpoints(episodes, n_steps, dataset["cheap_success"].values & strong, timing)
    timed = np.flatnonzero(start >= 0)
    before, within = _sum_diagnostics(episodes, timed, start[timed], stop[timed])
    if fixed is not None:
        before, within = before @ fixed[:, None], within @ fixed[:, None]
    raw = dataset["features"].values
    standardization = Standardization.of(raw)
    nothing = np.zeros(0, dtype=int)
    untimed = Evidence(
        episode=dataset["episode"].values,
        strong_success=strong,
        features=standardization.apply(raw),
        standardization=standardization,
        timed=nothing,
        before=before[:0],
        within=within[:0],
        n_left=0,
        n_interval=0,
        n_right=0,
        zero_mass=nothing,
        weights=fixed,
        feature_names=episodes.feature_names,
        diagnostic_names=episodes.diagnostic_names,
    )
    return untimed.with_rows(timed, before, within, open_above[timed])


def _bounding_checkpoints(
    episodes: Episodes, n_steps: np.ndarray, both_succeed: np.ndarray, timing: Timing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the window's first checkpoint, one past its last, and whether it is open above; start = -1 if untimed."""
    marked = episodes.has_window
    shift = mark_moves_by(timing)
    first = np.where(marked, np.nan_to_num(episodes.dataset["window_start"].values), 0).astype(int) + shift
    last = np.where(marked, np.nan_to_num(episodes.dataset["window_end"].values), 0).astype(int) + shift
    past_the_end = marked & (last >= n_steps)
    start = np.where(marked, np.minimum(first, n_steps), np.where(both_succeed, n_steps, -1))
    stop = np.where(marked & ~past_the_end, last + 1, start)
    return start, stop, both_succeed | past_the_end


def _sum_diagnostics(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the diagnostics over steps [0, start) and over [start, stop), for the given episodes, a block at a time."""
    diagnostics = episodes.dataset["diagnostics"]
    lazy = diagnostics.chunks is not None
    horizon, n_diagnostics = diagnostics.shape[1:]
    most = max(1, BLOCK_BYTES // (8 * (horizon + 1) * n_diagnostics))
    before, within = np.empty((2, len(rows), n_diagnostics))
    # One row of zeros after each rollout, so that a segment may start where the rollout ends.
    padded = np.zeros((min(most, len(rows)), horizon + 1, n_diagnostics))
    for first in range(0, len(rows), most):
        block = slice(first, min(first + most, len(rows)))
        size = block.stop - block.start
        chosen = rows[block]
        padded[:size, :horizon] = diagnostics.isel(episode=chosen).values if lazy else diagnostics.values[chosen]
        origin = np.arange(size) * (horizon + 1)
        segments = np.column_stack([origin, origin + start[block], origin + stop[block]]).ravel()
        sums = np.add.reduceat(padded[:size].reshape(-1, n_diagnostics), segments, axis=0)
        before[block], within[block] = sums[0::3], sums[1::3]
    # An empty segment sums to its first element, not to zero.
    before[start == 0] = 0.0
    within[start == stop] = 0.0
    return before, within


def typical_log_threshold(episodes: Episodes, weights: np.ndarray | None = None) -> float:
    """Log of half the median cumulative risk at the end of a rollout, under equal or given weights.

    It depends on the diagnostics alone, not on outcomes or windows, so a prior may be placed around it.
    """
    n_diagnostics = len(episodes.diagnostic_names)
    weighing = np.full(n_diagnostics, 1 / n_diagnostics) if weights is None else weights
    rows, n_steps = np.arange(len(episodes)), episodes.dataset["n_steps"].values
    totals, _ = _sum_diagnostics(episodes, rows, n_steps, n_steps)
    risks = totals @ weighing
    risks = risks[risks > 0]
    return float(np.log(np.median(risks) / 2)) if len(risks) else 0.0
