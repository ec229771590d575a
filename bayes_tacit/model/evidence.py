"""Paired outcomes and teacher windows, turned into what each episode says about its threshold.

Every episode says whether Strong succeeded. Beyond that, on the cumulative-risk scale R:

========================  =====================================  =========
episode                   what it says of the threshold kappa    kind
========================  =====================================  =========
AB = 01, window [a, b]    R(a-1) < kappa <= R(b)                 interval
the same, R(a-1) = 0      kappa <= R(b)                          left
AB = 11                   kappa > R(H-1)                         right
AB = 01 without window    "outcome": nothing
the same                  "due": kappa <= R(H-1)                 left
B = 0                     nothing
========================  =====================================  =========

How an AB = 01 episode without a window is read is a choice (`unmarked`). The paper lets it count for its outcome
alone, while every AB = 11 episode still pushes thresholds up: the more marks are missing, the lower the scores. Read as
due, it says that the threshold was crossed by the end of the rollout, which assumes that the mark is missing for
reasons that have nothing to do with when. No mark at all is needed then, if final risks differ between tasks; where
they are alike, the bands are too narrow, and a warning says so (`warn_if_alike`). A rollout in which no risk was ever
seen says nothing.

Where outcomes are noisy, repeated or missing, or marks may be wrong, every Cheap rollout says something of a threshold
(see `bayes_tacit.model.strata`), and a row is one mass of it:

==============================  ======================================================  ==============
Cheap rollout                   mass                                                    kind
==============================  ======================================================  ==============
A = 1                           kappa > R(H-1)                                          right
A = 0                           kappa <= R(H-1)                                         left
A = 0, marked [a, b]            R(a-k-1) < kappa <= R(b-k), for each delay k            interval, left
the same, marks may be wrong    kappa <= R(H-1), beside them                            left
==============================  ======================================================  ==============

R depends on the weights w that are still to be learned, but only through the diagnostics summed up to the two
bounding checkpoints. Those sums are all that the likelihood needs, whatever the horizon.
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import blocks, plain
from bayes_tacit.data.timing import Timing, marked_checkpoints
from bayes_tacit.errors import EvidenceError, InvalidDataError, TacitWarning
from bayes_tacit.model.design import Grouping, Standardization, design_matrix, design_of
from bayes_tacit.model.families import Family, family_named
from bayes_tacit.model.memory import CLOCK, LEARNED, PeakGrid, between_nodes, memory_nodes, peaks
from bayes_tacit.model.spec import ModelSettings, ModelSpec, spec_from
from bayes_tacit.model.strata import Noise, Records


@dataclass(frozen=True)
class Evidence:
    """What a set of episodes says, reduced to what the likelihood needs.

    The rows of `timed`, `before` and `within` are ordered by kind: `n_left` left-censored ones, then `n_interval`
    intervals, then `n_right` right-censored ones, so that every kind is a slice.

    Attributes
    ----------
    episode, strong_success
        Ids of all episodes, and B.
    features, standardization
        Standardized task features, (episode, feature), and how they were standardized.
    timed
        Positions of the timed episodes.
    before, within
        (timed, diagnostic): diagnostics summed over the checkpoints before the window, or over the whole rollout where
        it is right-censored, and over the window. With a memory below 1, the peak of the leaky sums, and by how much it
        rises. With fixed weights there is one column, the risk itself.
    weights
        The fixed weights, if they are not to be learned.
    zero_mass
        Positions of the episodes whose window has no mass under any weights, because every diagnostic in it is zero.
    feature_names, diagnostic_names
        The columns; the clock, if there is one, is the last diagnostic.
    spec
        How the episodes were read; a formula has become a `Design`.
    grid
        If the memory is learned, the bounds at several memories; `before` and `within` are then those at memory 1.
    grouping
        Which group each episode belongs to, if groups have intercepts of their own.
    records
        What was seen beside the rows, where outcomes are noisy, repeated or missing, or marks may be wrong. An episode
        here is then a record, all rollouts of a task; `strong_success` says whether most of Strong's succeeded.
    rollout, kind
        Which rollout of `records` each row belongs to, and which of its masses the row is.
    """

    episode: np.ndarray
    strong_success: np.ndarray
    features: np.ndarray
    standardization: Standardization
    timed: np.ndarray
    before: np.ndarray
    within: np.ndarray
    n_left: int
    n_interval: int
    n_right: int
    zero_mass: np.ndarray
    weights: np.ndarray | None
    feature_names: tuple[str, ...]
    diagnostic_names: tuple[str, ...]
    spec: ModelSpec
    grid: PeakGrid | None = None
    grouping: Grouping | None = None
    records: Records | None = None
    rollout: np.ndarray | None = None
    kind: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Number of episodes, timed or not."""
        return len(self.episode)

    @property
    def family(self) -> Family:
        """Distribution of the threshold."""
        return family_named(self.spec.family)

    @property
    def bounded_above(self) -> slice:
        """Rows with a finite upper bound: left-censored ones and intervals."""
        return slice(0, self.n_left + self.n_interval)

    @property
    def bounded_below(self) -> slice:
        """Rows with a positive lower bound: intervals and right-censored ones."""
        return slice(self.n_left, None)

    @property
    def interval(self) -> slice:
        """Rows with both."""
        return slice(self.n_left, self.n_left + self.n_interval)

    @property
    def open_above(self) -> np.ndarray:
        """Which rows have no upper bound."""
        return np.arange(len(self.timed)) >= self.n_left + self.n_interval

    def at_memory(self, rho: float) -> Evidence:
        """Return the bounds at one memory, where the memory is learned; by interpolation, as the model does."""
        if self.grid is None:
            return self
        before, within = between_nodes(rho, self.grid.nodes, self.grid.before, self.grid.within)
        return replace(self, before=before, within=within)

    def with_rows(self, timed: np.ndarray, before: np.ndarray, within: np.ndarray, open_above: np.ndarray) -> Evidence:
        """Replace the timed episodes, sorting them by kind; of those without mass `zero_mass` says so.

        A row that is open above and has seen no risk says nothing and is left out.
        """
        # Diagnostics are nonnegative, so a sum is zero only where each of them is.
        riskless = before @ np.ones(before.shape[1]) == 0
        no_mass = ~open_above & (within @ np.ones(within.shape[1]) == 0)
        left = ~open_above & riskless & ~no_mass
        interval = ~open_above & ~riskless & ~no_mass
        right = open_above & ~riskless
        order = np.concatenate([np.flatnonzero(kind) for kind in (left, interval, right)])
        kept: dict[str, Any] = {}
        if self.records is not None and self.rollout is not None and self.kind is not None:
            kept = {"rollout": self.rollout[order], "kind": self.kind[order]}
            kept["records"] = self.records.placed(**kept)
        return replace(
            self,
            **kept,
            timed=timed[order],
            before=before[order],
            within=within[order],
            n_left=int(left.sum()),
            n_interval=int(interval.sum()),
            n_right=int(right.sum()),
            zero_mass=np.concatenate([self.zero_mass, timed[no_mass]]),
        )

    def with_diagnostics(self, columns: np.ndarray, scale: np.ndarray) -> Evidence:
        """Keep some of the diagnostics, each divided by a scale."""
        before, within = self.before[:, columns] / scale, self.within[:, columns] / scale
        return self.with_rows(self.timed, before, within, self.open_above)

    def thinned(self, stride: int) -> Evidence:
        """Keep every `stride`-th timed episode of each kind."""
        ends = np.cumsum([0, self.n_left, self.n_interval, self.n_right])
        rows = np.concatenate([np.arange(first, last, stride) for first, last in itertools.pairwise(ends)])
        return self.with_rows(self.timed[rows], self.before[rows], self.within[rows], self.open_above[rows])

    def fingerprint(self) -> str:
        """Digest of everything the likelihood sees, to tell which data a fit came from."""
        digest = hashlib.sha256(repr((self.feature_names, self.diagnostic_names)).encode())
        bounds = (self.before, self.within) if self.grid is None else (self.grid.before, self.grid.within)
        seen = () if self.records is None else self.records.arrays().values()
        for array in (self.strong_success, self.features, self.timed, *bounds, self.zero_mass, *seen):
            digest.update(np.ascontiguousarray(array).data)
        if self.grouping is not None:
            digest.update(repr((self.grouping.column, self.grouping.names, self.grouping.position.tolist())).encode())
        return digest.hexdigest()

    def gaps(self) -> list[str]:
        """Return what the evidence lacks that an estimate without a proper prior needs, a sentence each."""
        found, n = [], self.n
        if (records := self.records) is not None:
            trials, failed = int((records.successes + records.failures).sum()), int((~records.cheap_success).sum())
            if not 0 < records.successes.sum() < trials:
                found.append(
                    f"{int(records.successes.sum())} of {trials} rollouts of Strong succeeded; expected some that did "
                    "and some that did not, because the probability that Strong can is learned from them"
                )
            if not 0 < failed < len(records.cheap_success):
                found.append(
                    f"{failed} of {len(records.cheap_success)} rollouts of Cheap in which risk was seen failed; "
                    "expected some that did and some that did not, because they say where the threshold lies"
                )
            return found
        if self.strong_success.all() or not self.strong_success.any():
            found.append(
                f"strong_success is {bool(self.strong_success[0])} for all {n} episodes; expected both outcomes, "
                "because the probability that Strong succeeds is learned from them"
            )
        if self.n_left + self.n_interval == 0:
            or_due = "; unmarked='due' needs no window, only AB = 01" if self.spec.unmarked == "outcome" else ""
            found.append(
                f"none of the {n} episodes has a usable teacher window (AB = 01 with a nonzero diagnostic inside "
                f"it); expected some, because without one the threshold could be arbitrarily high{or_due}"
            )
        elif self.n_interval + self.n_right == 0:
            found.append(
                f"all {self.n_left} teacher windows start before any risk was seen, and no AB = 11 episode has seen "
                "any; expected some evidence from below, because without it the threshold could be arbitrarily low"
            )
        return found

    def refuse_gaps(self) -> Evidence:
        """Raise if anything is lacking."""
        for gap in self.gaps():
            raise EvidenceError(gap)
        return self

    def warn_of_gaps(self, stacklevel: int = 3) -> None:
        """Warn of what is lacking: under a proper prior it is no reason to refuse."""
        for gap in self.gaps():
            warnings.warn(f"{gap}; what is not learned stays as the prior has it", TacitWarning, stacklevel=stacklevel)

    def settle_zero_mass(self, floor: float | None = None) -> Evidence:
        """Deal with windows that have no mass, as the spec says: by default floor them if there is a floor."""
        choice, clock, memory = self.spec.zero_mass, self.spec.clock, self.spec.memory
        if len(self.zero_mass) == 0:
            return self
        if choice == "drop_window":
            return replace(self, zero_mass=self.zero_mass[:0])
        without = f"{'every diagnostic' if self.weights is None else 'the risk under these weights'} is zero"
        if memory != 1:
            which = "some memories" if isinstance(memory, str) else f"memory {memory:g}"
            without = f"with {which} no diagnostic reaches a new peak"
        way_out = "" if clock or memory == 1 else ", or clock=True, under which every window has mass"
        first = self.episode[self.zero_mass].tolist()[0]
        found = (
            f"episode {first!r}: {without} inside its teacher window, so the "
            f"window has no mass ({len(self.zero_mass)} such episodes)"
        )
        if choice is None and floor is not None:
            warnings.warn(
                f"{found}; they are floored, which leaves them out of both parts of the fit; pass "
                f"zero_mass='drop_window' to keep that Strong succeeded{way_out}",
                TacitWarning,
                stacklevel=3,
            )
            return self
        raise EvidenceError(f"{found}; pass zero_mass='drop_window' to keep only that Strong succeeded{way_out}")


BLOCK_BYTES = 1 << 20  # size of the block of diagnostics that is summed at a time: it stays in the processor's cache

ROUNDING = 1e-12
"""A peak that rises by less than this part of itself has not risen: the difference is one of rounding."""


def collect_evidence(episodes: Episodes, spec: ModelSpec | None = None, **settings: Unpack[ModelSettings]) -> Evidence:
    """Reduce episodes to their evidence.

    At the timing "proposal" the checkpoints are proposals, and the windows are still marks after an action: a mark
    after step t is aligned with the proposal at step t + 1. Where that proposal was never made (t was the last step),
    the window is open above.

    Parameters
    ----------
    episodes
        The training episodes.
    spec, **settings
        What the model is, as a `ModelSpec` or its fields by keyword.

    Examples
    --------
    >>> import bayes_tacit
    >>> evidence = collect_evidence(bayes_tacit.load_example())
    >>> evidence.n_left + evidence.n_interval + evidence.n_right == len(evidence.timed)
    True
    """
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes; see Episodes.from_frames and Episodes.read", field="episodes", value=episodes)
    spec = spec_from(spec, settings)
    if spec.memory == "profile":
        raise InvalidDataError("a number from 0 to 1, or 'learned'", field="memory", value=spec.memory)
    names = risk_names(episodes, clock=spec.clock)
    fixed = spec.weights_for(names)
    check_range(episodes)
    paired_once = bool(episodes.cheap_played.all() and (episodes.strong_counts[1] == 1).all())
    if spec.noise is not None or not paired_once:
        return _evidence_of_records(episodes, spec, names, fixed)
    n_steps, strong = episodes.n_steps, episodes.dataset["strong_success"].values
    cheap = episodes.dataset["cheap_success"].values
    start, stop, open_above = _bounding_checkpoints(episodes, n_steps, cheap & strong, spec.timing)
    due = strong & ~cheap & (start < 0) & (spec.unmarked == "due")
    start, stop = np.where(due, 0, start), np.where(due, n_steps, stop)
    timed = np.flatnonzero(start >= 0)
    before, within = _bounding_sums(episodes, timed, start[timed], stop[timed], spec.clock, fixed, _reference(spec))
    # That no risk was ever seen is no sign of when, where nobody marked it.
    says = ~due[timed] | (within @ np.ones(within.shape[1]) > 0)
    timed, before, within = timed[says], before[says], within[says]
    evidence = _untimed(episodes, spec, names, fixed).with_rows(timed, before, within, open_above[timed])
    if spec.memory != LEARNED:
        return evidence
    at = evidence.timed
    return _with_grid(evidence, episodes, at, start[at], stop[at])


def _reference(spec: ModelSpec) -> float:
    """Return the memory at which the bounds are taken; 1 where it is learned."""
    return 1.0 if isinstance(spec.memory, str) else spec.memory


def _untimed(
    episodes: Episodes,
    spec: ModelSpec,
    names: tuple[str, ...],
    fixed: np.ndarray | None,
    one_of: np.ndarray | None = None,
) -> Evidence:
    """Return evidence without rows; of records, `one_of` their episodes stands for each."""
    design = design_of(spec.features, episodes) if isinstance(spec.features, str) else spec.features
    raw = episodes.dataset["features"].values if design is None else design_matrix(design, episodes)
    grouping = None if spec.groups is None else Grouping.of(spec.groups, episodes)
    episode, strong = episodes.ids, episodes.dataset["strong_success"].values
    if one_of is not None:
        raw, episode, strong = raw[one_of], episode[one_of], strong[one_of]
        grouping = None if grouping is None else replace(grouping, position=grouping.position[one_of])
    standardization = Standardization.of(raw)
    nothing = np.zeros(0, dtype=int)
    columns = np.zeros((0, len(names) if fixed is None else 1))
    return Evidence(
        episode=episode,
        strong_success=strong,
        features=standardization.apply(raw),
        standardization=standardization,
        timed=nothing,
        before=columns,
        within=columns,
        n_left=0,
        n_interval=0,
        n_right=0,
        zero_mass=nothing,
        weights=fixed,
        feature_names=episodes.feature_names if design is None else design.names,
        diagnostic_names=names,
        spec=replace(spec, features=design, weights=None if fixed is None else tuple(fixed.tolist())),
        grouping=grouping,
    )


def records_of(episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """Return which record each episode belongs to, and the first episode of each record.

    A record is a task: the episodes with the same carried `task`, or one episode if there is none. What is known before
    the first step must then be the same.
    """
    dataset = episodes.dataset
    if "task" not in dataset or dataset["task"].dims != ("episode",):
        return np.arange(len(episodes)), np.arange(len(episodes))
    _, first, inverse = np.unique(dataset["task"].values, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    record, first = rank[inverse], np.sort(first)
    features = dataset["features"].values
    differs = features != features[first[record]]
    if differs.any():
        row, column = np.argwhere(differs)[0]
        name, same = episodes.feature_names[column], plain(episodes.ids[first[record[row]]])
        raise InvalidDataError(
            f"{features[first[record[row]], column]:g}, as in episode {same!r} of the same task",
            episode=plain(episodes.ids[row]),
            field=f"features[{name!r}]",
            value=float(features[row, column]),
        )
    return record, first


def _evidence_of_records(
    episodes: Episodes, spec: ModelSpec, names: tuple[str, ...], fixed: np.ndarray | None
) -> Evidence:
    """Reduce episodes whose outcomes may be noisy, repeated or missing, and whose marks may be wrong."""
    if spec.unmarked == "outcome":
        expected = "'due' where a side was not played or Strong several times: every Cheap rollout says something then"
        raise InvalidDataError(expected, field="unmarked", value=spec.unmarked)
    if spec.spread != "same":
        expected = "'same' where a side was not played or Strong several times"
        raise InvalidDataError(expected, field="spread", value=spec.spread)
    if spec.memory == LEARNED and not spec.clock:
        expected = "a number, or clock=True beside 'learned', under which every mark has mass at every memory"
        raise InvalidDataError(expected, field="memory", value=spec.memory)
    noise = spec.noise or Noise()
    record, first = records_of(episodes)
    counts = [np.bincount(record, each, len(first)) for each in episodes.strong_counts]
    successes, failures = counts[0], counts[1] - counts[0]
    _refuse_contradictions(noise, episodes.ids[first], successes, failures)
    evidence = _untimed(episodes, spec, names, fixed, first)
    evidence = replace(evidence, strong_success=successes > failures)
    n_steps, cheap = episodes.n_steps, episodes.dataset["cheap_success"].values

    def sums(rows: np.ndarray, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _bounding_sums(episodes, rows, start, stop, spec.clock, fixed, _reference(spec))

    played = np.flatnonzero(episodes.cheap_played)
    totals, _ = sums(played, n_steps[played], n_steps[played])
    rollouts = played[totals @ np.ones(totals.shape[1]) > 0]
    marked = episodes.has_window[rollouts]
    windows = _mass_windows(episodes, rollouts, noise, spec.timing)
    rollout, kind, start, stop, open_above = windows
    before, within = sums(rollouts[rollout], start, stop)
    empty = np.where(open_above[:, None], before, within) @ np.ones(within.shape[1]) == 0
    lost = np.bincount(rollout[~empty], minlength=len(rollouts)) == 0
    zero_mass = record[rollouts[lost]]
    if spec.zero_mass == "drop_window" and lost.any():
        # Without its window a rollout that failed still crossed its threshold.
        marked = marked & ~lost
        due = np.flatnonzero(lost)
        rollout, kind = np.append(rollout[~empty], due), np.append(kind[~empty], 0 * due)
        start, stop = np.append(start[~empty], 0 * due), np.append(stop[~empty], n_steps[rollouts[due]])
        open_above, zero_mass = np.append(open_above[~empty], due < 0), zero_mass[:0]
        before, within = sums(rollouts[rollout], start, stop)
    elif empty.any():
        rollout, kind, start, stop, open_above = (each[~empty] for each in windows)
        before, within = before[~empty], within[~empty]
    share, share_before = np.zeros((2, len(rollouts)))
    ends = [episodes.dataset[name].values[rollouts[marked]] for name in ("window_start", "window_end")]
    share[marked] = np.log((ends[1] - ends[0] + 1) / n_steps[rollouts[marked]])
    share_before[marked] = ends[0] / n_steps[rollouts[marked]]
    failed_alone = ~cheap[rollouts] & (successes > 0)[record[rollouts]]
    records = Records(
        noise=noise,
        successes=successes.astype(float),
        failures=failures.astype(float),
        record=record[rollouts],
        cheap_success=cheap[rollouts],
        log_share=share,
        share_before=share_before,
        marked=marked,
        unmarked=failed_alone & ~marked,
        pieces=np.zeros((len(rollouts), 1), dtype=int),
    )
    # The kind of an impossible window may be beyond those of the others where no mark is left.
    evidence = replace(evidence, records=records, rollout=rollout, kind=kind, zero_mass=zero_mass)
    sorted_rows = evidence.with_rows(record[rollouts[rollout]], before, within, open_above)
    if spec.memory != LEARNED:
        return sorted_rows
    assert sorted_rows.rollout is not None
    code, wanted = rollout * 4096 + kind, sorted_rows.rollout * 4096 + np.asarray(sorted_rows.kind)
    order = np.argsort(code)
    place = order[np.searchsorted(code[order], wanted)]
    return _with_grid(sorted_rows, episodes, rollouts[rollout[place]], start[place], stop[place])


def _mass_windows(
    episodes: Episodes, rollouts: np.ndarray, noise: Noise, timing: Timing
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the masses of each rollout: its number, the kind, first checkpoint, one past the last, and if it is open.

    A mark that is k steps late was due k steps earlier, but for one at the last step, which may have been cut off.
    """
    n_steps = episodes.n_steps[rollouts]
    cheap = episodes.dataset["cheap_success"].values[rollouts]
    marked = episodes.has_window[rollouts]
    raw = [episodes.dataset[name].values[rollouts] for name in ("window_start", "window_end")]
    first, last = (marked_checkpoints(end, n_steps, timing) for end in raw)
    everyone = np.arange(len(rollouts))
    found = []
    # A rollout that succeeded is open above; one that failed without a mark crossed its threshold by the end.
    whole = ~marked
    found.append((everyone[whole], 0, np.where(cheap, n_steps, 0)[whole], n_steps[whole], cheap[whole]))
    for kind, delay in enumerate(noise.delays):
        past_the_end = last >= n_steps
        at_the_end = raw[1] >= n_steps - 1
        start = np.maximum(first - delay, 0)
        stop = np.where(at_the_end, last, last - delay) + 1
        there = marked & (stop > 0)
        stop = np.where(past_the_end, start, stop)
        found.append((everyone[there], kind, start[there], stop[there], past_the_end[there]))
    if noise.mark_error != 0:
        none = np.zeros(int(marked.sum()), dtype=int)
        found.append((everyone[marked], len(noise.delays), none, n_steps[marked], none > 0))
    rollout, start, stop, open_above = (np.concatenate([part[at] for part in found]) for at in (0, 2, 3, 4))
    kinds = np.concatenate([np.full(len(part[0]), part[1]) for part in found])
    return rollout, kinds, start, stop, open_above


def _refuse_contradictions(noise: Noise, ids: np.ndarray, successes: np.ndarray, failures: np.ndarray) -> None:
    """Refuse outcomes of Strong that no exact rate allows."""
    impossible = ((noise.sensitivity == 1) & (failures > 0)) & ((noise.specificity == 1) & (successes > 0))
    if impossible.any():
        at = int(impossible.argmax())
        raise InvalidDataError(
            "rollouts of Strong that all end alike, since outcomes are exact by default; pass "
            "noise=Noise(sensitivity=(8, 2), specificity=(8, 2)) to learn how noisy they are",
            episode=plain(ids[at]),
            field="strong_successes of strong_trials",
            value=f"{int(successes[at])} of {int(successes[at] + failures[at])}",
        )


def _with_grid(
    evidence: Evidence, episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> Evidence:
    """Add the bounds at several memories; a window that has no mass at one of them counts as one without mass.

    `rows`, `start` and `stop` say of which episodes and checkpoints the rows of the evidence are.
    """
    timed, weights, clock = evidence.timed, evidence.weights, evidence.spec.clock
    nodes = memory_nodes(episodes.horizon)
    pairs = [_bounding_sums(episodes, rows, start, stop, clock, weights, float(rho)) for rho in nodes]
    before, within = (np.stack(side) for side in zip(*pairs, strict=True))
    typical = [typical_log_threshold(episodes, weights, float(rho), clock=clock) for rho in nodes]
    if evidence.records is not None:  # under the clock every window has mass
        return replace(evidence, grid=PeakGrid(nodes, before, within, np.array(typical)))
    no_mass = ~evidence.open_above & (within.sum(axis=-1) == 0).any(axis=0)
    kept = ~no_mass
    fewer = evidence.with_rows(timed[kept], evidence.before[kept], evidence.within[kept], evidence.open_above[kept])
    return replace(
        fewer,
        zero_mass=np.concatenate([evidence.zero_mass, timed[no_mass]]),
        grid=PeakGrid(nodes, before[:, kept], within[:, kept], np.array(typical)),
    )


def risk_names(episodes: Episodes, *, clock: bool) -> tuple[str, ...]:
    """Name what the risk is made of: the diagnostics, and the clock if there is one."""
    if clock and CLOCK in episodes.diagnostic_names:
        expected = f"no diagnostic of the name {CLOCK!r}, which is taken where clock is True"
        raise InvalidDataError(expected, field="diagnostics", value=list(episodes.diagnostic_names))
    return (*episodes.diagnostic_names, CLOCK) if clock else episodes.diagnostic_names


def _bounding_checkpoints(
    episodes: Episodes, n_steps: np.ndarray, both_succeed: np.ndarray, timing: Timing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the window's first checkpoint, one past its last, and whether it is open above; start = -1 if untimed."""
    marked = episodes.has_window
    ends = (episodes.dataset[name].values for name in ("window_start", "window_end"))
    first, last = (marked_checkpoints(end, n_steps, timing) for end in ends)
    past_the_end = marked & (last >= n_steps)
    start = np.where(marked | both_succeed, first, -1)
    stop = np.where(marked & ~past_the_end, last + 1, start)
    return start, stop, both_succeed | past_the_end


def _bounding_sums(
    episodes: Episodes,
    rows: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    clock: bool,
    weights: np.ndarray | None,
    memory: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each diagnostic's peak before `start`, and by how much it rises over [start, stop).

    Under fixed weights both have one column, the risk.
    """
    before, within = (_sums if memory == 1 else _peaks)(episodes, rows, start, stop, memory)
    if clock:
        before, within = np.column_stack([before, start]), np.column_stack([within, stop - start])
    return (before, within) if weights is None else (before @ weights[:, None], within @ weights[:, None])


def _peaks(
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


def _blocks(episodes: Episodes, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield which of the rows, a few at a time, and their diagnostics, (episode, step, diagnostic).

    Chunks of Dask are read once each.
    """
    dataset = episodes.dataset
    diagnostics = dataset["diagnostics"]
    horizon, n_diagnostics = diagnostics.shape[1:]
    most = max(1, BLOCK_BYTES // (8 * (horizon + 1) * n_diagnostics))
    for chunk in blocks(dataset) if diagnostics.chunks is not None else [slice(0, len(episodes))]:
        inside = np.flatnonzero((rows >= chunk.start) & (rows < chunk.stop))
        values = diagnostics[chunk].values
        if diagnostics.chunks is not None:
            _refuse_range("diagnostics", dataset["diagnostic"].values, values)
        for first in range(0, len(inside), most):
            block = inside[first : first + most]
            yield block, values[rows[block] - chunk.start]


def _sums(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray, _: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the diagnostics over steps [0, start) and over [start, stop), a block at a time."""
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
    """Return the log of half the median cumulative risk at the end of a rollout, under equal or given weights.

    It depends on the diagnostics alone, not on outcomes or windows, so a prior may be placed around it.
    """
    rows, n_steps = np.arange(len(episodes)), episodes.n_steps
    if weights is None:
        d = len(episodes.diagnostic_names) + clock
        weights = np.full(d, 1 / d)
    risks = _bounding_sums(episodes, rows, n_steps, n_steps, clock, weights, memory)[0][:, 0]
    risks = risks[risks > 0]
    return float(np.log(np.median(risks) / 2)) if len(risks) else 0.0


def final_sums(episodes: Episodes, evidence: Evidence, memory: float = 1.0) -> np.ndarray:
    """Return what the timed episodes have summed by the end of their rollouts, in the evidence's columns."""
    n_steps, clock = episodes.n_steps[evidence.timed], evidence.spec.clock
    return _bounding_sums(episodes, evidence.timed, n_steps, n_steps, clock, evidence.weights, memory)[0]


LARGEST = 1e250  # beyond it, and below its inverse, squares and sums of products leave what double precision holds


def check_range(episodes: Episodes) -> None:
    """Refuse columns whose sums and squares double precision cannot carry; to scale them is the user's to do.

    Diagnostics that stay on disk are checked where they are read to be summed.
    """
    dataset = episodes.dataset
    _refuse_range("features", dataset["feature"].values, dataset["features"].values)
    if dataset["diagnostics"].chunks is None:
        _refuse_range("diagnostics", dataset["diagnostic"].values, dataset["diagnostics"].values)


def _refuse_range(kind: str, names: np.ndarray, values: np.ndarray) -> None:
    highest = lowest = values
    # One axis after the other: over both at once, NumPy's inner loop is as short as the last axis.
    while highest.ndim > 1:
        highest, lowest = np.fmax.reduce(highest, axis=0), np.fmin.reduce(lowest, axis=0)
    for name, value in zip(names.tolist(), np.fmax(highest, -lowest).tolist(), strict=True):
        if value > LARGEST or (kind == "diagnostics" and 0 < value < 1 / LARGEST):
            raise InvalidDataError(
                f"a column whose largest value is 0 or from {1 / LARGEST:g} to {LARGEST:g}; scale it",
                field=f"{kind}[{name!r}]",
                value=value,
            )


LEAST_SPREAD = 0.25
"""Standard deviation of the log of the bounding risks, under equal weights, below which they count as alike.

In the study `unmarked`, 90% bands covered the truth in 91% at 0.67 and in 78% at 0.07.
"""


def told_if_alike(before: np.ndarray, within: np.ndarray, n_interval: int) -> str:
    """Describe thresholds that are all bounded by one risk only, if those risks are alike; empty if they are not.

    Without a single mark, a threshold is only known to be below or above the final risk of its rollout (current-status
    data). Where those risks are all alike, the data say how often the threshold is below that one risk, and nothing of
    how fast it comes there: what the bands of q(t) say in between is the prior's, and point estimates hang on the
    family.

    `before` and `within` are as in `Evidence`; `n_interval` says how many thresholds have a bound on either side.

    Examples
    --------
    >>> told_if_alike(np.zeros((3, 1)), np.array([[1.0], [1.1], [0.9]]), 0)[:40]
    'no threshold is bounded from both sides,'
    """
    if n_interval or not len(before):
        return ""
    risk = (before + within).sum(axis=-1)
    spread = float(np.log(risk[risk > 0]).std()) if (risk > 0).any() else 0.0
    if spread >= LEAST_SPREAD:
        return ""
    return (
        f"no threshold is bounded from both sides, as a mark would, and the risks that bound them are alike (their log "
        f"has a standard deviation of {spread:.2f}, below {LEAST_SPREAD}): the data say little of when to hand over, "
        "and bands of q(t) are too narrow (in a study, 90% bands held the truth in 78%)"
    )


def warn_if_alike(evidence: Evidence, stacklevel: int = 3) -> None:
    """Warn of data that `told_if_alike` describes."""
    if told := told_if_alike(evidence.before, evidence.within, evidence.n_interval):
        advice = "; have a teacher mark some AB = 01 episodes, or add rollouts of other lengths"
        warnings.warn(told + advice, TacitWarning, stacklevel=stacklevel)


UNEVEN = 1e6
"""How many times larger one diagnostic's sums may be than another's: beyond it no sampler finds both weights."""


def warn_of_scales(evidence: Evidence, stacklevel: int = 3) -> None:
    """Warn of diagnostics that differ by many orders of magnitude, and of such that are the same but for a factor."""
    if evidence.weights is not None or not len(evidence.timed) or evidence.before.shape[1] < 2:
        return
    sums = evidence.before + evidence.within
    size, names = np.sqrt((sums**2).mean(axis=0)), evidence.diagnostic_names
    largest, seen = int(size.argmax()), np.flatnonzero(size)
    least = int(seen[size[seen].argmin()]) if len(seen) else largest
    if size[largest] > UNEVEN * size[least]:
        told = (
            f"diagnostic {names[largest]!r} is {size[largest] / size[least]:.0e} times as large as {names[least]!r}: "
            "scale them alike; weights so different are not found"
        )
        warnings.warn(told, TacitWarning, stacklevel=stacklevel)
    cosine = (sums[:, seen] / size[seen]).T @ (sums[:, seen] / size[seen]) / len(sums)
    for one, other in itertools.combinations(range(len(seen)), 2):
        if cosine[one, other] > 1 - 1e-9:
            told = (
                f"diagnostics {names[seen[one]]!r} and {names[seen[other]]!r} are the same but for a factor: only "
                "their joint effect is learned; leave one out"
            )
            warnings.warn(told, TacitWarning, stacklevel=stacklevel)
