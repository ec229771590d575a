"""The router: a fitted model, a rule and a threshold, in one value that an agent asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import sources, storage
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.layout import PARAMETERS, shape_of
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.scorers import Scorer, scorers
from bayes_tacit.router.snapshots import Progress, read_snapshot
from bayes_tacit.router.state import HandoffState
from bayes_tacit.scores.core import Draws

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.estimates.map_fit import MapFit


@dataclass(frozen=True, eq=False, repr=False)
class Router:
    """Decides at each checkpoint of an episode whether Strong takes over: as soon as the score reaches alpha.

    The score is q(t) = pi F(R(t)) under a point estimate, and the posterior mean or a posterior quantile of q(t) under
    a posterior; each is nondecreasing along an episode. A router does not change, so many threads can share one;
    `dataclasses.replace(router, alpha=0.2)` gives another.

    Attributes
    ----------
    diagnostic_names, feature_names
        What it reads, in the fitted order.
    feature_mean, feature_scale
        Standardization of the features.
    draws
        Parameters; a point estimate is one draw.
    alpha
        The threshold, above 0 and at most 1. It has no default: `bayes_tacit.decisions` chooses it under a budget.
    rule
        "mean", or the probability of a posterior quantile: 0.1 hands off only when 90% of the posterior agrees.
    timing
        What a checkpoint is: "post_action" (the Cheap action was executed, Strong takes the next one) or "proposal"
        (it was not executed yet; at a handoff it is discarded and Strong acts in its place).
    provenance
        Where the parameters come from; kept, not interpreted.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> router
    <Router: a point estimate >= alpha 0.3, post_action; 4 diagnostics, 3 features>
    >>> state = router.start({"entities": 12, "subgoals": 3, "needs_tool": 0})
    >>> for stalled in (0.5, 4, 6):
    ...     decision = state.observe({"repeat": 1, "uncertainty": 0.8, "stalled": stalled, "invalid": 0})
    ...     print(decision.step, round(decision.score, 2), decision.handoff, decision.handoff_step)
    0 0.01 False None
    1 0.33 True 1
    2 0.61 True 1
    """

    diagnostic_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    draws: Draws
    alpha: float
    rule: str | float = "mean"
    timing: str = "post_action"
    provenance: Mapping[str, object] = field(default_factory=sources.provenance)

    def __post_init__(self) -> None:
        """Keep own, read-only arrays, and check everything."""
        settled = {
            "diagnostic_names": validate.names("diagnostics", self.diagnostic_names),
            "feature_names": validate.names("features", self.feature_names),
            "feature_mean": _own(self.feature_mean),
            "feature_scale": _own(self.feature_scale),
            "draws": _own_draws(self.draws),
            "rule": validate.rule("rule", self.rule),
            "alpha": validate.threshold("alpha", self.alpha),
            "timing": validate.choice("timing", self.timing, TIMINGS),
            "provenance": sources.check_provenance(self.provenance),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        self._check_numbers()

    def _check_numbers(self) -> None:
        n, d, p = len(np.atleast_1d(self.draws.s)), len(self.diagnostic_names), len(self.feature_names)
        if d == 0 or n == 0:
            raise InvalidDataError(
                "at least one", field="number of diagnostics" if d == 0 else "number of draws", value=0
            )
        validate.finite("feature mean", self.feature_mean, (p,))
        validate.finite("feature scale", self.feature_scale, (p,))
        validate.positive("feature scale", self.feature_scale)
        for name in PARAMETERS:
            validate.finite(name, getattr(self.draws, name), shape_of(name, n, d, p))
        validate.simplex("w", self.draws.w)
        validate.positive("s", self.draws.s)

    @classmethod
    def from_fit(cls, fit: MapFit, alpha: float, timing: str | None = None) -> Router:
        """Make a router from a MAP fit.

        Parameters
        ----------
        fit
            What `fit_map` returned.
        alpha
            The threshold.
        timing
            By default, the one that the fit was made with.
        """
        settings = {"alpha": alpha} if timing is None else {"alpha": alpha, "timing": timing}
        return cls(**{**sources.of_fit(fit), **settings})

    @classmethod
    def from_posterior(
        cls,
        tree: xr.DataTree,
        alpha: float,
        rule: str | float = "mean",
        draws: int = 1000,
        timing: str | None = None,
    ) -> Router:
        """Make a router from posterior draws.

        Parameters
        ----------
        tree
            What `sample_posterior` or `MapFit.to_datatree` returned.
        alpha
            The threshold.
        rule
            "mean", or the probability of a posterior quantile.
        draws
            How many draws to keep at most, taken at even distances from all chains.
        timing
            By default, the one that the posterior was made with.
        """
        settings = (
            {"alpha": alpha, "rule": rule} if timing is None else {"alpha": alpha, "rule": rule, "timing": timing}
        )
        return cls(**{**sources.of_tree(tree, draws), **settings})

    def start(
        self,
        features: Given | None = None,
        *,
        shadow: bool = False,
        episode: str | int | None = None,
        log: DecisionLog | None = None,
    ) -> HandoffState:
        """Begin an episode.

        Parameters
        ----------
        features
            The task's features, as they were before standardization: by name, or as numbers in the fitted order.
        shadow
            Decide and record, but never hand off.
        episode
            A name for messages and the log; needed with a log.
        log
            Where to write every decision. Episodes that run at the same time need different names in it.
        """
        values = self.features.read(() if features is None else features)
        name = None if episode is None else validate.episode_id("episode", episode)
        progress = Progress(values, validate.flag("shadow", shadow), name)
        state = HandoffState(self, progress, log)
        if log is not None:
            log.started(self, progress)
        return state

    def restore(self, snapshot: Mapping[str, object], *, log: DecisionLog | None = None) -> HandoffState:
        """Go on with an episode where `HandoffState.snapshot` left it, to the last bit.

        Parameters
        ----------
        snapshot
            The snapshot, taken under this very router.
        log
            Where to write every decision from here on.
        """
        progress = read_snapshot(snapshot, self)
        state = HandoffState(self, progress, log)
        if log is not None:
            log.restored(self, progress)
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, as `router.schema.json` describes it; every number is read back exactly."""
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Router:
        """Read a file that `save` wrote, checking all of it."""
        return storage.load(path, cls)

    def to_json(self) -> str:
        """Give the content of the file that `save` writes."""
        return storage.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Router:
        """Read what `to_json` gave, checking all of it."""
        return storage.from_json(text, "router", cls)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything in it: equal for routers that are equal."""
        return storage.fingerprint(self)

    @cached_property
    def features(self) -> Fields:
        """How the features of a task are read."""
        return Fields("features", self.feature_names, nonnegative=False)

    @cached_property
    def diagnostics(self) -> Fields:
        """How the diagnostics of a checkpoint are read."""
        return Fields("diagnostics", self.diagnostic_names, nonnegative=True)

    @cached_property
    def scorer(self) -> Callable[[Sequence[float]], Scorer]:
        """Makes the scorer of an episode from its features."""
        return scorers(self.draws, self.rule, self.feature_mean, self.feature_scale, self.diagnostics)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Router) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[object, ...]:
        return Router.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        what = "a point estimate"
        if len(self.draws) > 1:
            rule = self.rule if isinstance(self.rule, str) else f"{self.rule:g} quantile"
            what = f"{rule} of {len(self.draws):,} draws"
        return (
            f"<Router: {what} >= alpha {self.alpha:g}, {self.timing}; "
            f"{len(self.diagnostic_names)} diagnostics, {len(self.feature_names)} features>"
        )


def _own_draws(draws: Draws) -> Draws:
    parameters: dict[str, Any] = {name: _own(getattr(draws, name)) for name in PARAMETERS}
    return Draws(**parameters, family=draws.family)


def _own(array: np.ndarray) -> np.ndarray:
    copy = np.array(array, dtype=float)
    copy.flags.writeable = False
    return copy
