"""From episodes to evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import TIMINGS, Timing, marked_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design
from bayes_tacit.model.design.formula import design_matrix, design_of
from bayes_tacit.model.design.grouping import Grouping
from bayes_tacit.model.evidence.grid import PeakGrid, memory_nodes
from bayes_tacit.model.evidence.range import check_range
from bayes_tacit.model.evidence.record import Evidence, Unmarked
from bayes_tacit.model.evidence.simplex import Weights, simplex
from bayes_tacit.model.memory import CLOCK, LEARNED, Memory, peaks
from bayes_tacit.model.standardization import Standardization

BLOCK_BYTES = 1 << 20
"""Size of the block of diagnostics that is summed at a time: it stays in the processor's cache."""

ROUNDING = 1e-12
"""A peak that rises by less than this part of itself has not risen: the difference is one of rounding."""


def collect_evidence(
    episodes: Episodes,
    *,
    timing: Timing = "post_action",
    weights: Weights | None = None,
    memory: Memory = 1.0,
    clock: bool = False,
    unmarked: Unmarked = "due",
    features: str | Design | None = None,
    groups: str | None = None,
) -> Evidence:
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
    memory
        rho from 0 to 1, what is left of a diagnostic's leaky sum after a step; 1, the paper's, forgets nothing. With
        "learned" the bounds are kept at several memories.
    clock
        Whether the number of steps is one more diagnostic, the last one, by the name of "clock".
    unmarked
        How an AB = 01 episode without a window is read: "due", as crossed by its last checkpoint, at either timing, or
        "outcome", as the paper does, for its outcome alone.
    features
        A formula on features and carried columns, or a design that was read from one; by default all features as they
        are.
    groups
        A carried column whose levels are groups with intercepts of their own.

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
    validate.choice("unmarked", unmarked, ("due", "outcome"))
    memory = checked_memory(memory)
    names = risk_names(episodes, clock=clock)
    fixed = None if weights is None else simplex(weights, names)
    check_range(episodes)
    dataset = episodes.dataset
    n_steps = dataset["n_steps"].values
    strong = dataset["strong_success"].values
    cheap = dataset["cheap_success"].values
    start, stop, open_above = _bounding_checkpoints(episodes, n_steps, cheap & strong, timing)
    due = strong & ~cheap & (start < 0) & (unmarked == "due")
    start, stop = np.where(due, 0, start), np.where(due, n_steps, stop)
    timed = np.flatnonzero(start >= 0)
    reference = 1.0 if isinstance(memory, str) else memory
    before, within = _bounding_sums(episodes, timed, start[timed], stop[timed], reference, clock=clock)
    if fixed is not None:
        before, within = before @ fixed[:, None], within @ fixed[:, None]
    # That no risk was ever seen is no sign of when, where nobody marked it.
    says = ~due[timed] | (within @ np.ones(within.shape[1]) > 0)
    timed, before, within = timed[says], before[says], within[says]
    design = None if features is None else features if isinstance(features, Design) else design_of(features, episodes)
    raw = dataset["features"].values if design is None else design_matrix(design, episodes)
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
        feature_names=episodes.feature_names if design is None else design.names,
        diagnostic_names=names,
        memory=memory,
        clock=clock,
        unmarked=unmarked,
        design=design,
        grouping=None if groups is None else Grouping.of(groups, episodes),
    )
    evidence = untimed.with_rows(timed, before, within, open_above[timed])
    return _with_grid(evidence, episodes, start, stop) if memory == LEARNED else evidence


def _with_grid(evidence: Evidence, episodes: Episodes, start: np.ndarray, stop: np.ndarray) -> Evidence:
    """Add the bounds at several memories; a window that has no mass at one of them counts as one without mass."""
    found = _bounds_at(evidence, episodes, start, stop, memory_nodes(episodes.horizon))
    no_mass = ~evidence.open_above & (found.within.sum(axis=-1) == 0).any(axis=0)
    kept = ~no_mass
    fewer = evidence.with_rows(
        evidence.timed[kept], evidence.before[kept], evidence.within[kept], evidence.open_above[kept]
    )
    return replace(
        fewer,
        zero_mass=np.concatenate([evidence.zero_mass, evidence.timed[no_mass]]),
        grid=replace(found, before=found.before[:, kept], within=found.within[:, kept]),
    )


def _bounds_at(
    evidence: Evidence, episodes: Episodes, start: np.ndarray, stop: np.ndarray, nodes: np.ndarray
) -> PeakGrid:
    timed, weights, clock = evidence.timed, evidence.weights, evidence.clock
    pairs = [_bounding_sums(episodes, timed, start[timed], stop[timed], float(rho), clock=clock) for rho in nodes]
    before, within = (np.stack(side) for side in zip(*pairs, strict=True))
    if weights is not None:
        before, within = before @ weights[:, None], within @ weights[:, None]
    typical = [typical_log_threshold(episodes, weights, float(rho), clock=clock) for rho in nodes]
    return PeakGrid(nodes, before, within, np.array(typical))


def checked_memory(memory: object) -> Memory:
    """Return a memory from 0 to 1, or "learned"."""
    if isinstance(memory, str) and memory == LEARNED:
        return LEARNED
    return validate.number("memory", memory, "a number from 0 to 1, or 'learned'", least=0, most=1)


def risk_names(episodes: Episodes, *, clock: bool) -> tuple[str, ...]:
    """Name what the risk is made of: the diagnostics, and the clock if there is one."""
    if not isinstance(clock, bool):
        raise InvalidDataError("True or False", field="clock", value=clock)
    if clock and CLOCK in episodes.diagnostic_names:
        expected = f"no diagnostic of the name {CLOCK!r}, which is taken where clock is True"
        raise InvalidDataError(expected, field="diagnostics", value=list(episodes.diagnostic_names))
    return (*episodes.diagnostic_names, CLOCK) if clock else episodes.diagnostic_names


def _bounding_checkpoints(
    episodes: Episodes, n_steps: np.ndarray, both_succeed: np.ndarray, timing: Timing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the window's first checkpoint, one past its last, and whether it is open above; start = -1 if untimed."""
    marked = episodes.has_window
    ends = (episodes.dataset[name].values for name in ("window_start", "window_end"))
    first, last = (marked_checkpoints(end, n_steps, timing) for end in ends)
    past_the_end = marked & (last >= n_steps)
    start = np.where(marked | both_succeed, first, -1)
    stop = np.where(marked & ~past_the_end, last + 1, start)
    return start, stop, both_succeed | past_the_end


def _bounding_sums(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray, memory: float, *, clock: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Give each diagnostic's peak before `start`, and by how much it rises over [start, stop)."""
    summed = _sum_diagnostics if memory == 1 else _peak_diagnostics
    before, within = summed(episodes, rows, start, stop, memory)
    if clock:
        before, within = np.column_stack([before, start]), np.column_stack([within, stop - start])
    return before, within


def _peak_diagnostics(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray, memory: float
) -> tuple[np.ndarray, np.ndarray]:
    """Take the peaks of the leaky sums at both checkpoints, a block at a time."""
    before, until = np.zeros((2, len(rows), len(episodes.diagnostic_names)))
    for block, diagnostics in _blocks(episodes, rows):
        reached = peaks(diagnostics, memory)
        for out, step in ((before, start[block]), (until, stop[block])):
            last = np.maximum(step, 1) - 1
            at = np.take_along_axis(reached, last[:, None, None], axis=1)[:, 0]
            out[block] = np.where(step[:, None] > 0, at, 0.0)
    rise = until - before
    return before, np.where(rise > ROUNDING * until, rise, 0.0)


def _blocks(episodes: Episodes, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield pieces of the rows with their diagnostics, (episode, step, diagnostic)."""
    diagnostics = episodes.dataset["diagnostics"]
    lazy = diagnostics.chunks is not None
    horizon, n_diagnostics = diagnostics.shape[1:]
    most = max(1, BLOCK_BYTES // (8 * (horizon + 1) * n_diagnostics))
    for first in range(0, len(rows), most):
        block = slice(first, min(first + most, len(rows)))
        chosen = rows[block]
        yield block, diagnostics.isel(episode=chosen).values if lazy else diagnostics.values[chosen]


def _sum_diagnostics(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray, _: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the diagnostics over steps [0, start) and over [start, stop), for the given episodes, a block at a time."""
    before, within = np.empty((2, len(rows), len(episodes.diagnostic_names)))
    for block, diagnostics in _blocks(episodes, rows):
        size, horizon, n_diagnostics = diagnostics.shape
        # One row of zeros after each rollout, so that a segment may start where the rollout ends.
        padded = np.zeros((size, horizon + 1, n_diagnostics))
        padded[:, :horizon] = diagnostics
        origin = np.arange(size) * (horizon + 1)
        segments = np.column_stack([origin, origin + start[block], origin + stop[block]]).ravel()
        sums = np.add.reduceat(padded.reshape(-1, n_diagnostics), segments, axis=0)
        before[block], within[block] = sums[0::3], sums[1::3]
    # An empty segment sums to its first element, not to zero.
    before[start == 0] = 0.0
    within[start == stop] = 0.0
    return before, within


def typical_log_threshold(
    episodes: Episodes, weights: np.ndarray | None = None, memory: float = 1.0, *, clock: bool = False
) -> float:
    """Log of half the median cumulative risk at the end of a rollout, under equal or given weights.

    It depends on the diagnostics alone, not on outcomes or windows, so a prior may be placed around it.
    """
    rows, n_steps = np.arange(len(episodes)), episodes.dataset["n_steps"].values
    totals, _ = _bounding_sums(episodes, rows, n_steps, n_steps, memory, clock=clock)
    risks = totals @ (np.full(totals.shape[1], 1 / totals.shape[1]) if weights is None else weights)
    risks = risks[risks > 0]
    return float(np.log(np.median(risks) / 2)) if len(risks) else 0.0
