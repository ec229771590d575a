"""What a set of episodes says, as a value."""

from __future__ import annotations

import hashlib
import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import EvidenceError, TacitWarning
from bayes_tacit.model.design import Design
from bayes_tacit.model.design.grouping import Grouping
from bayes_tacit.model.evidence.grid import PeakGrid, between_nodes
from bayes_tacit.model.memory import Memory
from bayes_tacit.model.standardization import Standardization

ZeroMass = Literal["refuse", "drop_window"]
"""What to do with a window that has no mass: refuse the data, or forget the window and keep B = 1."""


Unmarked = Literal["due", "outcome"]
"""How an AB = 01 episode without a window is read: as due by the end of its rollout, or for its outcome alone."""


@dataclass(frozen=True)
class Evidence:
    """What a set of episodes says, reduced to what the likelihood needs.

    The rows of `timed`, `before` and `within` are ordered by kind: `n_left` left-censored ones, then `n_interval`
    intervals, then `n_right` right-censored ones, so that every kind is a slice.

    Attributes
    ----------
    episode
        Ids of all episodes.
    strong_success
        B, by episode.
    features
        Standardized task features, (episode, feature).
    standardization
        How they were standardized.
    timed
        Positions of the timed episodes.
    before
        Diagnostics summed over the checkpoints before the window, or over the whole rollout where it is
        right-censored, (timed, diagnostic). With fixed weights there is one column, the risk itself.
    within
        The same summed over the window; zero where right-censored. With a memory below 1, the peak of the leaky sums
        before the window, and by how much it rises over the window.
    weights
        The fixed weights, if they are not to be learned.
    zero_mass
        Positions of the episodes whose window has no mass under any weights, because every diagnostic in it is zero.
    feature_names, diagnostic_names
        The columns.
    memory, clock
        How the diagnostics were summed: rho or "learned", and whether the last of them counts the steps.
    unmarked
        How AB = 01 episodes without a window were read.
    grid
        If the memory is learned, the bounds at several memories; `before` and `within` are then those at memory 1.
    design
        How the features were made of raw columns, if a formula says so.
    grouping
        Which group each episode belongs to, if groups have intercepts of their own.
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
    memory: Memory = 1.0
    clock: bool = False
    unmarked: Unmarked = "outcome"
    grid: PeakGrid | None = None
    design: Design | None = None
    grouping: Grouping | None = None

    @property
    def n(self) -> int:
        """Number of episodes, timed or not."""
        return len(self.episode)

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
        """Give the bounds at one memory, where the memory is learned; by interpolation, as the model does."""
        if self.grid is None:
            return self
        before, within = between_nodes(rho, self.grid.nodes, self.grid.before, self.grid.within)
        return replace(self, before=before, within=within)

    def with_rows(self, timed: np.ndarray, before: np.ndarray, within: np.ndarray, open_above: np.ndarray) -> Evidence:
        """Replace the timed episodes, sorting them by kind.

        A row without risk before its window is left-censored. One that is open above and has seen no risk says nothing
        and is left out; one whose window holds no risk has no mass and goes to `zero_mass`.
        """
        # Diagnostics are nonnegative, so a sum is zero only where each of them is.
        riskless = before @ np.ones(before.shape[1]) == 0
        no_mass = ~open_above & (within @ np.ones(within.shape[1]) == 0)
        left = ~open_above & riskless & ~no_mass
        interval = ~open_above & ~riskless & ~no_mass
        right = open_above & ~riskless
        order = np.concatenate([np.flatnonzero(kind) for kind in (left, interval, right)])
        return replace(
            self,
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
        return self.with_rows(
            self.timed, self.before[:, columns] / scale, self.within[:, columns] / scale, self.open_above
        )

    def thinned(self, stride: int) -> Evidence:
        """Keep every `stride`-th timed episode of each kind."""
        ends = np.cumsum([0, self.n_left, self.n_interval, self.n_right])
        rows = np.concatenate([np.arange(first, last, stride) for first, last in itertools.pairwise(ends)])
        return self.with_rows(self.timed[rows], self.before[rows], self.within[rows], self.open_above[rows])

    def fingerprint(self) -> str:
        """Digest of everything the likelihood sees, to tell which data a fit came from."""
        digest = hashlib.sha256(repr((self.feature_names, self.diagnostic_names)).encode())
        bounds = (self.before, self.within) if self.grid is None else (self.grid.before, self.grid.within)
        for array in (self.strong_success, self.features, self.timed, *bounds, self.zero_mass):
            digest.update(np.ascontiguousarray(array).data)
        if self.grouping is not None:
            digest.update(repr((self.grouping.column, self.grouping.names, self.grouping.position.tolist())).encode())
        return digest.hexdigest()

    def gaps(self) -> list[str]:
        """Say what the evidence lacks that an estimate without a proper prior needs."""
        found = []
        if self.strong_success.all() or not self.strong_success.any():
            found.append(
                f"strong_success is {bool(self.strong_success[0])} for all {self.n} episodes; expected both outcomes, "
                "because the probability that Strong succeeds is learned from them"
            )
        if self.n_left + self.n_interval == 0:
            found.append(
                f"none of the {self.n} episodes has a usable teacher window (AB = 01 with a nonzero diagnostic inside "
                f"it); expected some, because without one the threshold could be arbitrarily high{self._or_due()}"
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

    def settle_zero_mass(self, choice: ZeroMass | None, floor: float | None = None) -> Evidence:
        """Deal with windows that have no mass: floor them if there is a floor, else refuse; or do as told."""
        if choice is not None:
            validate.choice("zero_mass", choice, ("refuse", "drop_window"))
        if len(self.zero_mass) == 0:
            return self
        if choice == "drop_window":
            return replace(self, zero_mass=self.zero_mass[:0])
        first = self.episode[self.zero_mass].tolist()[0]
        found = (
            f"episode {first!r}: {self._without_mass()} inside its teacher window, so the "
            f"window has no mass ({len(self.zero_mass)} such episodes)"
        )
        if choice is None and floor is not None:
            warnings.warn(
                f"{found}; they are floored, which leaves them out of both parts of the fit; pass "
                f"zero_mass='drop_window' to keep that Strong succeeded{self._or_a_clock()}",
                TacitWarning,
                stacklevel=3,
            )
            return self
        raise EvidenceError(
            f"{found}; pass zero_mass='drop_window' to keep only that Strong succeeded{self._or_a_clock()}"
        )

    def _or_due(self) -> str:
        return "; unmarked='due' needs no window, only AB = 01" if self.unmarked == "outcome" else ""

    def _without_mass(self) -> str:
        which = "every diagnostic" if self.weights is None else "the risk under these weights"
        if self.memory == 1:
            return f"{which} is zero"
        what = "some memories" if isinstance(self.memory, str) else f"memory {self.memory:g}"
        return f"with {what} no diagnostic reaches a new peak"

    def _or_a_clock(self) -> str:
        return "" if self.clock or self.memory == 1 else ", or clock=True, under which every window has mass"
