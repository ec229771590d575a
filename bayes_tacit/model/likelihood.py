"""The likelihood of the threshold evidence, stated once, for NumPy arrays and PyTensor graphs alike.

With w the weights, mu the location, s the scale of log kappa and F its standard distribution, each timed episode
contributes the log mass of its interval:

- left: log F((log R(b) - mu) / s),
- interval: log {F((log R(b) - mu) / s) - F((log R(a-1) - mu) / s)},
- right: log {1 - F((log R(H-1) - mu) / s)}.

The steps at which thresholds drawn from it are crossed are what the model predicts (`CrossingSteps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import marked_checkpoints
from bayes_tacit.model.evidence import Evidence, typical_log_threshold
from bayes_tacit.model.families import Array, Family
from bayes_tacit.model.memory import peaks, rates, with_clock
from bayes_tacit.model.strata import ARRAYS, Records, mixed_mass, stratum_terms


@dataclass(frozen=True)
class Bounds:
    """Bounds on log kappa, or on its standardized value.

    `upper` is of the left-censored rows, `lower` of the interval rows and then of the right-censored ones. `width` is
    upper minus lower bound of the interval rows, computed as such: exact for windows however narrow.
    """

    upper: Array
    lower: Array
    width: Array

    def standardized(self, location: Array, scale: Array, n_left: int) -> Bounds:
        """Subtract the location of each row and divide by the scale, which is one number or has one a row."""
        by_row = getattr(scale, "ndim", 0) > 0
        left, rest = (scale[:n_left], scale[n_left:]) if by_row else (scale, scale)
        return Bounds(
            upper=(self.upper - location[:n_left]) / left,
            lower=(self.lower - location[n_left:]) / rest,
            width=self.width / (rest[: self.width.shape[0]] if by_row else rest),
        )


def log_bounds(evidence: Evidence, w: Array, xp: SimpleNamespace) -> Bounds:
    """Return bounds on log kappa for weights `w`."""
    risk_before = evidence.before[evidence.bounded_below] @ w
    risk_within = evidence.within[evidence.bounded_above] @ w
    left, interval = evidence.n_left, evidence.n_interval
    return Bounds(
        upper=xp.log(risk_within[:left]),
        lower=xp.log(risk_before),
        width=xp.log1p(risk_within[left:] / risk_before[:interval]),
    )


def log_mass(standardized: Bounds, n_interval: int, family: Family, xp: SimpleNamespace) -> Array:
    """Return the log mass of each row's interval, in the evidence's order."""
    return xp.concatenate(
        [
            family.log_cdf(standardized.upper, xp),
            family.log_mass(standardized.lower[:n_interval], standardized.width, xp),
            family.log_sf(standardized.lower[n_interval:], xp),
        ]
    )


def threshold_log_likelihood(evidence: Evidence, w: Array, location: Array, scale: Array, xp: SimpleNamespace) -> Array:
    """Return the log-likelihood of each timed episode, in the evidence's order.

    `w` are simplex weights, `location` is mu of each timed episode, `scale` is s, one number or one a row, and
    `xp` an array namespace: `bayes_tacit.model.families.NUMPY` or `bayes_tacit.model.build.PYTENSOR`.
    """
    standardized = log_bounds(evidence, w, xp).standardized(location, scale, evidence.n_left)
    return log_mass(standardized, evidence.n_interval, evidence.family, xp)


def record_terms(
    evidence: Evidence,
    records: Records,
    parameters: Mapping[str, Array],
    logs: Mapping[str, tuple[Array, Array]],
    log_delays: Array,
    xp: SimpleNamespace,
) -> tuple[Array, Array]:
    """Return the log of the two terms of every record's likelihood, for Z = 1 and for Z = 0.

    `parameters` are `w`, `logit` of pi and `location` by record, and `s`; `logs` the log of each rate and of its
    complement; `log_delays` those of the delays of a mark. In a graph the arrays of evidence and records are data.
    """
    # What a graph holds as data does not say how many kinds and rates there are; the evidence does.
    stated, kinds = records_in(evidence).stated, records_in(evidence).kinds
    location = parameters["location"][evidence.timed]
    log_rows = threshold_log_likelihood(evidence, parameters["w"], location, parameters["s"], xp)
    log_rollout = mixed_mass(records, kinds, log_rows, log_delays, logs.get("mark_error", (0.0, 0.0)), xp)
    log_pi = (-xp.softplus(-parameters["logit"]), -xp.softplus(parameters["logit"]))
    return stratum_terms(records, stated, log_pi, log_rollout, logs, xp)


def records_in(evidence: Evidence) -> Records:
    """Return the records of evidence that has some."""
    if evidence.records is None:
        raise TypeError("this evidence has no records")
    return evidence.records


class CrossingSteps:
    """Observed and drawn crossing steps of the timed episodes, in the evidence's order.

    A crossing step is the first checkpoint t with R(t) >= kappa; it is the number of steps if there is none.
    `first_checkpoint` and `last_checkpoint` are the ends of each window; the number of steps where not crossed.
    """

    def __init__(self, episodes: Episodes, evidence: Evidence) -> None:
        self._episodes, self._evidence = episodes, evidence
        self._timed, self._spec = evidence.timed, evidence.spec
        n_steps = episodes.n_steps[self._timed]
        first, last = (
            marked_checkpoints(episodes.dataset[name].values[self._timed], n_steps, self._spec.timing)
            for name in ("window_start", "window_end")
        )
        due = ~episodes.has_window[self._timed] & ~evidence.open_above
        self.first_checkpoint = np.where(due, 0, first)
        self.last_checkpoint = np.where(due, n_steps - 1, last)

    @cached_property
    def _diagnostics(self) -> np.ndarray:
        """Diagnostics of the timed episodes at every step, (timed, step, diagnostic); loaded when first drawn."""
        diagnostics: np.ndarray = self._episodes.dataset["diagnostics"].isel(episode=self._timed).values
        return with_clock(diagnostics) if self._spec.clock else diagnostics

    def draw(
        self,
        location: np.ndarray,
        scale: np.ndarray | float,
        logit: np.ndarray,  # noqa: ARG002
        *given: np.ndarray,
        rng: np.random.Generator | None = None,
        size: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Draw thresholds and return the step at which each episode's risk crosses its own.

        The arguments are those of the model's `threshold` distribution: location, scale, the logit of pi, which matters
        to its floor only, the weights, and the memory if it is learned.
        """
        rng = np.random.default_rng(rng)
        shape = (len(self._timed),) if size is None else size
        kappa = np.exp(location + scale * self._evidence.family.draw(rng, shape))
        risk = self._risk(np.array([np.ravel(value)[0] for value in given]))
        # Past the end of a rollout the risk is NaN, which is below nothing.
        return (risk < kappa[..., None]).sum(axis=-1)

    def _risk(self, given: np.ndarray) -> np.ndarray:
        """Cumulative risk of the timed episodes, (timed, step), from the weights and a learned memory."""
        if self._spec.memory == 1:
            return np.cumsum(self._diagnostics @ given, axis=1)
        if isinstance(self._spec.memory, str):
            return self._peaks_at(float(given[-1])) @ given[:-1]
        return self._peaks @ given

    @cached_property
    def _peaks(self) -> np.ndarray:
        return self._peaks_at(float(self._spec.memory))

    def _peaks_at(self, memory: float) -> np.ndarray:
        return peaks(self._diagnostics, rates(memory, self._diagnostics.shape[-1], clock=self._spec.clock))


Table = dict[str, tuple[tuple[str, ...] | None, np.ndarray]]
"""Arrays by name, each with its dims; a single number has none."""


def crossing_steps(episodes: Episodes, evidence: Evidence) -> CrossingSteps | None:
    """Return the crossing steps that the model observes; of records it observes none."""
    return CrossingSteps(episodes, evidence) if evidence.records is None else None


def model_data(episodes: Episodes, evidence: Evidence, crossing: CrossingSteps | None) -> Table:
    """Return all data of a model that depend on the episodes."""
    bounds, spec, scale = evidence.grid or evidence, evidence.spec, evidence.standardization
    by_node = () if evidence.grid is None else ("node",)
    by_row = (*by_node, "timed", "diagnostic" if evidence.weights is None else "risk")
    table: Table = {
        "features": (("episode", "feature"), evidence.features),
        "feature_mean": (("feature",), scale.mean),
        "feature_scale": (("feature",), scale.scale),
        "strong_outcome": (("episode",), evidence.strong_success.astype("int64")),
        "timed_position": (("timed",), evidence.timed),
        "diagnostics_before": (by_row, bounds.before),
        "diagnostics_within": (by_row, bounds.within),
    }
    if crossing is not None:
        table["window_start"] = ("timed",), crossing.first_checkpoint
        table["window_end"] = ("timed",), crossing.last_checkpoint
    if evidence.records is not None:
        dims: dict[str, tuple[str, ...]] = dict.fromkeys(ARRAYS, ("rollout",))
        dims |= dict.fromkeys(("successes", "failures"), ("episode",)) | {"pieces": ("rollout", "mass")}
        for name, values in evidence.records.arrays().items():
            table[f"record_{name}"] = dims[name], values.astype("int64") if values.dtype == bool else values
        table["record_row"] = ("timed",), np.asarray(evidence.rollout)
        table["record_kind"] = ("timed",), np.asarray(evidence.kind)
    if evidence.grid is None:
        typical = typical_log_threshold(episodes, evidence.weights, float(spec.memory), clock=spec.clock)
        at = np.array(typical)
    else:
        table["memory_nodes"], at = (by_node, evidence.grid.nodes), evidence.grid.typical
    if evidence.weights is not None or len(evidence.diagnostic_names) == 1:
        table["w"] = (("diagnostic",), np.ones(1) if evidence.weights is None else evidence.weights)
    if evidence.grouping is not None:
        table["group_position"] = (("episode",), evidence.grouping.position)
    return table | {
        "n_left": (None, np.array(evidence.n_left)),
        "n_interval": (None, np.array(evidence.n_interval)),
        "typical_log_threshold": (by_node, at),
    }


def coords_of(evidence: Evidence) -> dict[str, Any]:
    """Return the names along the dims of a model."""
    coords: dict[str, Any] = {"episode": evidence.episode, "timed": evidence.episode[evidence.timed]}
    coords |= {"feature": list(evidence.feature_names), "diagnostic": list(evidence.diagnostic_names), "risk": ["risk"]}
    if evidence.grouping is not None:
        coords["group"] = list(evidence.grouping.names)
    if evidence.records is not None:
        coords |= {"rollout": np.arange(len(evidence.records.record)), "mass": np.arange(evidence.records.kinds)}
        coords |= {"delay": list(evidence.records.noise.delays)} if evidence.records.delays_learned else {}
    return coords
