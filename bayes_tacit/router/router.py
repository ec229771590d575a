"""The router: a fitted model, a rule and a threshold, in one value that an agent asks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import contents, storage
from bayes_tacit.router.common import AnyRouter
from bayes_tacit.router.control import RouterController
from bayes_tacit.router.fields import DesignFields, Fields
from bayes_tacit.router.leaky import total_length
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.pace import alpha_at, first_levels
from bayes_tacit.router.policy_router import PolicyRouter
from bayes_tacit.router.quantiles import quantiles_for, summarized
from bayes_tacit.router.ranges import Ranges
from bayes_tacit.router.scorers import Scorer, scorers
from bayes_tacit.router.snapshots import Progress
from bayes_tacit.router.start import Start
from bayes_tacit.router.state import HandoffState, Opening
from bayes_tacit.scores.fitted import DRAWS, Fitted
from bayes_tacit.scores.ties import difference_reached_from

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.data.timing import Timing
    from bayes_tacit.estimates.map_fit import MapFit


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Router(AnyRouter[HandoffState], Fitted):
    """Decides at each checkpoint of an episode whether Strong takes over: as soon as the score reaches alpha.

    The score is q(t) = pi F(R(t)) under a point estimate, and the posterior mean or a posterior quantile of q(t) under
    a posterior; each is nondecreasing along an episode. A router does not change, so many threads can share one;
    `dataclasses.replace(router, alpha=0.2)` gives another.

    Attributes
    ----------
    diagnostic_names, feature_names, feature_mean, feature_scale, draws, timing, provenance
        As for `Fitted`.
    alpha
        The threshold, above 0 and at most 1 unless there is a pace; infinite if no score is ever enough. It has no
        default: `bayes_tacit.decisions` chooses it under a budget.
    rule
        "mean", or the probability of a posterior quantile: 0.1 hands off only when 90% of the posterior agrees.
    pace
        g: at step t the score is compared with alpha exp(-g t). Above 0 the threshold falls along an episode.
    at_start
        What is decided before the first step; None for nothing.
    handoff
        What Strong does after a handoff: "resume" from Cheap's state, or "restart" the task.
    ranges
        What features and diagnostics were like in training, if that is known.

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
    1 0.34 True 1
    2 0.62 True 1
    """

    alpha: float
    rule: str | float = "mean"
    pace: float = 0.0
    at_start: Start | None = None
    handoff: Handoff = DEFAULT_HANDOFF
    ranges: Ranges | None = None

    def __post_init__(self) -> None:
        """Check everything."""
        object.__setattr__(self, "pace", validate.number("pace", self.pace))
        object.__setattr__(self, "alpha", _threshold(self.alpha, self.pace))
        object.__setattr__(self, "rule", validate.rule("rule", self.rule))
        object.__setattr__(self, "handoff", validate.choice("handoff", self.handoff, HANDOFFS))
        super().__post_init__()
        if self.at_start is not None:
            self.at_start.check(len(self.draws), len(self.feature_names))
        if self.ranges is not None:
            self.ranges.check(self.measured, self.diagnostic_names)

    @property
    def measured(self) -> tuple[str, ...]:
        """The features that a task gives as numbers: those that a formula reads, where there is one."""
        return self.feature_names if self.design is None else self.design.measured

    def with_ranges_of(self, training: Episodes) -> Router:
        """Give the same router with the ranges of the episodes that it was fitted on, which `route` looks at."""
        ranges = Ranges.of(training, None if self.design is None else self.measured)
        return replace(self, ranges=ranges.only(self.measured, self.diagnostic_names))

    @classmethod
    def of(cls, fitted: Fitted, alpha: float, rule: str | float = "mean", **settings: Any) -> Router:  # noqa: ANN401
        """Make a router from parameters that were read already, and settings by name."""
        known = {each.name: getattr(fitted, each.name) for each in fields(Fitted)}
        return cls(**known, alpha=alpha, rule=rule, **settings)

    @classmethod
    def from_fit(cls, fit: MapFit, alpha: float, timing: Timing | None = None) -> Router:
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
        from bayes_tacit.scores.sources import of_fit

        return cls.of(_timed(of_fit(fit), timing), alpha)

    @classmethod
    def from_posterior(
        cls,
        tree: xr.DataTree,
        alpha: float,
        rule: str | float = "mean",
        draws: int = DRAWS,
        timing: Timing | None = None,
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
        from bayes_tacit.scores.sources import of_tree

        return cls.of(_timed(of_tree(tree).thinned(draws), timing), alpha, rule)

    def scores(self, episodes: Episodes) -> xr.DataArray:
        """Give the score that is compared with alpha at every checkpoint, as observing them one by one would.

        Parameters
        ----------
        episodes
            Episodes with the router's features and diagnostics, in any order.

        Returns
        -------
        xarray.DataArray
            (episode, step), NaN past the end of an episode.

        See Also
        --------
        bayes_tacit.decisive_scores : the same before there is an alpha, to choose it with.

        Examples
        --------
        >>> from bayes_tacit import fit_map, load_example
        >>> episodes = load_example()
        >>> router = Router.from_fit(fit_map(episodes), alpha=0.3)
        >>> router.scores(episodes).sel(episode="task-0001").values[8:12].round(2)
        array([0.32, 0.49, 0.52, 0.63])
        """
        from bayes_tacit.scores.decisive import decisive_scores

        return decisive_scores(self, episodes, self.rule, draws=len(self.draws))

    def handoffs(self, episodes: Episodes) -> xr.DataArray:
        """Give the step from which Strong acts in each episode.

        Parameters
        ----------
        episodes
            As for `scores`.

        Returns
        -------
        xarray.DataArray
            (episode,), whole numbers: -1 for never. A crossing at the last checkpoint of H hands off at step H under
            "post_action", where nothing is left to do.

        Examples
        --------
        >>> from bayes_tacit import fit_map, load_example
        >>> episodes = load_example()
        >>> Router.from_fit(fit_map(episodes), alpha=0.3).handoffs(episodes).values[:5]
        array([-1,  9,  5, 11, -1])
        """
        from bayes_tacit.scores.crossings import handoffs_at

        scores = self.scores(episodes)
        alpha = [alpha_at(step, self.alpha, self.pace) for step in range(scores.sizes["step"])]
        levels = np.array([math.inf if each is None else each for each in alpha])
        found = handoffs_at(scores.values, levels, self.timing)
        if self.at_start is not None:
            started = self.openings(episodes) >= difference_reached_from(self.at_start.threshold)
            found = np.where(started, 0, found)
        steps = scores.isel(step=0, drop=True).copy(data=found)
        return steps.rename("handoff").assign_attrs(long_name="step from which Strong acts; -1 for never")

    def openings(self, episodes: Episodes) -> np.ndarray:
        """Give the score that is compared with the threshold of the start, by episode; NaN without a start."""
        features, _ = self.columns_of(episodes)
        if self.at_start is None:
            return np.full(len(features), np.nan)
        scores = self.at_start.scores(self.draws, self.standardize(features.values))
        return scores.mean(axis=-1) if isinstance(self.rule, str) else np.quantile(scores, self.rule, axis=-1)

    def opening(self, features: Sequence[float]) -> Opening | None:
        """Give what the features of one task say before the first step; None without a start."""
        if self.at_start is None:
            return None
        scores = self.at_start.scores(self.draws, self.standardize(np.array(features, dtype=float)))
        if not np.isfinite(scores).all():
            expected = "features for which it is finite"
            raise InvalidDataError(expected, field="score of the start", value=float(scores[~np.isfinite(scores)][0]))
        if len(scores) == 1:
            return Opening(float(scores[0]), None, None, self.at_start.threshold)
        return Opening(*summarized(scores, quantiles_for(self.rule, len(scores))), self.at_start.threshold)

    def begun(self, progress: Progress, log: DecisionLog | None) -> HandoffState:
        """Give the state of an episode that has come so far."""
        return HandoffState(self, progress, log)

    @property
    def accumulated(self) -> int:
        """How many numbers accumulate over an episode."""
        return total_length(self.draws, len(self.diagnostic_names))

    def settings(self) -> dict[str, object]:
        """Say in a log whose decisions these are."""
        return {
            "router": self.fingerprint,
            "policy": contents.TACIT_SWITCH,
            "alpha": contents.finite_or_none(self.alpha),
            "rule": self.rule,
            "timing": self.timing,
            "handoff": self.handoff,
        }

    def thinned(self, most: int = DRAWS) -> Self:
        """Keep at most so many draws, taken at even distances from all of them."""
        if self.at_start is None:
            return super().thinned(most)
        at_start = self.at_start.thinned(validate.whole("draws", most, 1))
        return replace(self, draws=self.draws.thinned(most), at_start=at_start)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Router | PolicyRouter:
        """Read a file that `save` wrote, checking all of it; that of another policy gives a `PolicyRouter`."""
        return storage.load(path, cls._read)

    def to_json(self) -> str:
        """Give the content of the file that `save` writes."""
        return storage.to_json(contents.content_of(self, self._parts(), self.fingerprint))

    @classmethod
    def from_json(cls, text: str) -> Router | PolicyRouter:
        """Read what `to_json` gave, checking all of it."""
        return storage.from_json(text, "router", cls._read)

    @classmethod
    def _read(cls, content: dict[str, Any], version: int) -> Router | PolicyRouter:
        if version > 1 and content.get("policy", contents.TACIT_SWITCH) != contents.TACIT_SWITCH:
            return PolicyRouter.of_content(content)
        return cls(**contents.parts_of(content, version))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything in it: equal for routers that are equal."""
        return contents.fingerprint(self, self._parts())

    def _parts(self) -> contents.Settings:
        return contents.Settings(self.rule, self.alpha, self.pace, self.at_start, self.handoff, self.ranges)

    @cached_property
    def controller(self) -> RouterController:
        """What plays it in a loop, as `bayes_tacit.agents.run_episode` takes it."""
        return RouterController(self)

    @cached_property
    def levels(self) -> tuple[float | None, ...]:
        """The thresholds of the first steps."""
        return first_levels(self.alpha, self.pace)

    @cached_property
    def features(self) -> Fields:
        """How the features of a task are read: raw values, where a formula or groups make features of them."""
        return super().features if self.design is None else DesignFields(self.design)

    @cached_property
    def scorer(self) -> Callable[[Sequence[float]], Scorer]:
        """Makes the scorer of an episode from its features."""
        return scorers(self.draws, self.rule, self.feature_mean, self.feature_scale, self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        return Router.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        what = "a point estimate"
        if len(self.draws) > 1:
            rule = self.rule if isinstance(self.rule, str) else f"{self.rule:g} quantile"
            what = f"{rule} of {len(self.draws):,} draws"
        more = [f"{word} {value}" for word, value in self._beyond_the_paper()]
        return (
            f"<Router: {what} >= alpha {self.alpha:g}, {', '.join([self.timing, *more])}; "
            f"{len(self.diagnostic_names)} diagnostics, {len(self.feature_names)} features>"
        )

    def _beyond_the_paper(self) -> list[tuple[str, str]]:
        memory = f"{np.mean(self.draws.memory):g}"
        told = [
            ("memory", memory, memory != "1"),
            ("clock", f"{self.draws.w[:, -1].mean():.2g}", self.draws.clock),
            ("pace", f"{self.pace:g}", self.pace != 0),
            ("start", "" if self.at_start is None else f">= {self.at_start.threshold:g}", self.at_start is not None),
            ("handoff", self.handoff, self.handoff != DEFAULT_HANDOFF),
        ]
        return [(word, value) for word, value, is_so in told if is_so]


def _threshold(alpha: object, pace: float) -> float:
    """Check alpha: with a pace it may be above 1, and it may be infinite, which nothing reaches."""
    if isinstance(alpha, float) and alpha == math.inf:
        return alpha
    return validate.number("alpha", alpha, "a number above 0", above=0) if pace else validate.threshold("alpha", alpha)


def _timed(fitted: Fitted, timing: Timing | None) -> Fitted:
    return fitted if timing is None else replace(fitted, timing=timing)
