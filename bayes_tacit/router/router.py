"""The router: a rule, its thresholds and the names it reads, in one value that an agent asks and one file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import (
    DEFAULT_TIMING,
    NEVER,
    TIMINGS,
    Handoff,
    Timing,
    handoff_steps,
    strong_acts_after,
    usable_checkpoints,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import files
from bayes_tacit.router.files import Ranges
from bayes_tacit.router.rule import Call, Rule, Scores, reached_from, scan, start_reached_from
from bayes_tacit.router.state import Fields, Given, HandoffState
from bayes_tacit.router.tacit import HandoffScore, Start
from bayes_tacit.scores.fitted import DRAWS, check_provenance, provenance

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.estimates.map_fit import MapFit
    from bayes_tacit.logs.reader import Reader
    from bayes_tacit.model.design import Design
    from bayes_tacit.router.log import DecisionLog
    from bayes_tacit.scores.fitted import Fitted

CALLS: tuple[Call, ...] = ("strong", "strong_once", "restart")

SMALLEST = 5e-324
"""A threshold above zero never falls to zero: a score of 0 says that nothing has happened yet."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Router:
    """Decides at each checkpoint of an episode whether Strong is called: as soon as a rule's score reaches alpha.

    TACIT-Switch's score is q(t) = pi F(R(t)) under a point estimate, and the posterior mean or a posterior quantile of
    q(t) under a posterior; other policies have other rules. A router does not change, so many threads can share one;
    `dataclasses.replace(router, alpha=0.2)` makes another. Equal ones have the same content.

    Attributes
    ----------
    rule
        Makes the score.
    alpha
        The threshold; infinite if no score is ever enough. For TACIT-Switch above 0 and, unless there is a pace, at
        most 1. `bayes_tacit.decisions` chooses it under a budget.
    alpha_start
        The threshold of the score before the first step; infinite for no decision there.
    pace
        g: at step t the score is compared with alpha exp(-g t). Above 0 the threshold falls along an episode.
    last_handoff
        The last step from which Strong may take over, by which a single task keeps a limit of its cost; None for any.
    call
        What is called: "strong", for good from Cheap's state on; "restart", for good on the task begun anew; or
        "strong_once", for one step.
    timing
        What a checkpoint is: "post_action" (the Cheap action was executed, Strong takes the next one) or "proposal" (it
        was not executed yet; where Strong is called it is discarded and Strong acts in its place).
    feature_names, diagnostic_names
        What the rule looks at, in its order.
    design
        How the features are made of raw columns, where a formula or groups say so.
    reader
        Reads some of the features and diagnostics from the words of a conversation, where that is needed.
    ranges
        What features and diagnostics were like in training, if that is known.
    provenance
        Where the numbers come from; kept, not interpreted.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> router
    <Router: tacit_switch, a point estimate >= alpha 0.3, post_action; 4 diagnostics, 3 features>
    >>> state = router.start({"entities": 12, "subgoals": 3, "needs_tool": 0})
    >>> for stalled in (0.5, 4, 6):
    ...     decision = state.observe({"repeat": 1, "uncertainty": 0.8, "stalled": stalled, "invalid": 0})
    ...     print(decision.step, round(decision.score, 2), decision.handoff, decision.handoff_step)
    0 0.01 False None
    1 0.34 True 1
    2 0.62 True 1
    """

    rule: Rule
    alpha: float = math.inf
    alpha_start: float = math.inf
    pace: float = 0.0
    last_handoff: int | None = None
    call: Call = "strong"
    timing: Timing = DEFAULT_TIMING
    feature_names: tuple[str, ...] = ()
    diagnostic_names: tuple[str, ...] = ()
    design: Design | None = None
    reader: Reader | None = None
    ranges: Ranges | None = None
    provenance: Mapping[str, object] = field(default_factory=provenance)

    def __post_init__(self) -> None:
        """Check everything."""
        if not isinstance(self.rule, Rule):
            raise InvalidDataError("a Rule", field="rule", value=self.rule)
        pace = validate.number("pace", self.pace)
        settled = {
            "pace": pace,
            "alpha": self.alpha if self.alpha == math.inf else self.rule.check_alpha(self.alpha, pace),
            "alpha_start": self.alpha_start
            if self.alpha_start == math.inf
            else validate.number("alpha_start", self.alpha_start),
            "last_handoff": self.last_handoff
            if self.last_handoff is None
            else validate.whole("last_handoff", self.last_handoff, 0),
            "call": validate.choice("call", self.call, CALLS),
            "timing": validate.choice("timing", self.timing, TIMINGS),
            "feature_names": validate.names("features", self.feature_names),
            "diagnostic_names": validate.names("diagnostics", self.diagnostic_names),
            "provenance": check_provenance(self.provenance),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        if self.call == "strong_once" and self.last_handoff is not None:
            raise InvalidDataError(
                "None where Strong is called for single steps", field="last_handoff", value=self.last_handoff
            )
        self.rule.check_shape(len(self.feature_names), len(self.diagnostic_names))
        if self.design is not None and self.design.names != self.feature_names:
            expected = f"{list(self.feature_names)}, the features"
            raise InvalidDataError(expected, field="columns of the design", value=list(self.design.names))
        if self.ranges is not None:
            self.ranges.check(self.measured, self.diagnostic_names)

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        alpha: float,
        rule: str | float = "mean",
        *,
        start: Start | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Router:
        """Make TACIT-Switch's router from parameters that were read out of an estimate, and settings by name."""
        known = {name: getattr(fitted, name) for name in ("feature_names", "diagnostic_names", "design", "provenance")}
        settings = {"timing": fitted.timing, **known, **settings}
        return cls(rule=HandoffScore.of(fitted, rule, start), alpha=alpha, **settings)

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
        from bayes_tacit.scores.fitted import of_fit

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
            "mean", or the probability of a posterior quantile: 0.1 hands off only when 90% of the posterior agrees.
        draws
            How many draws to keep at most, taken at even distances from all chains.
        timing
            By default, the one that the posterior was made with.
        """
        from bayes_tacit.scores.fitted import of_tree

        return cls.of(_timed(of_tree(tree).thinned(draws), timing), alpha, rule)

    @property
    def policy(self) -> str:
        """Which policy it is, as files name it."""
        return self.rule.policy

    @property
    def handoff(self) -> Handoff:
        """What Strong does after a handoff: "resume" from Cheap's state, or "restart" the task."""
        return "restart" if self.call == "restart" else "resume"

    @property
    def measured(self) -> tuple[str, ...]:
        """The features that a task gives as numbers: those that a formula reads, where there is one."""
        return self.feature_names if self.design is None else self.design.measured

    def settings(self) -> dict[str, object]:
        """Return what a log says of whose decisions it holds."""
        settings = {"policy": self.policy, "alpha": self.alpha_at(0), "timing": self.timing}
        return {"router": self.fingerprint, **settings, "handoff": self.handoff}

    def with_ranges_of(self, training: Episodes) -> Router:
        """Return the same router with the ranges of the episodes that it was fitted on, which `route` looks at."""
        ranges = Ranges.of(training, None if self.design is None else self.measured)
        return replace(self, ranges=ranges.only(self.measured, self.diagnostic_names))

    def with_reader_of(self, training: Episodes) -> Router:
        """Return the same router with the reader of its training episodes, if it looks at what that gives."""
        from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES, Reader

        needed = {*FEATURES, *DIAGNOSTICS}.intersection((*self.measured, *self.diagnostic_names))
        return replace(self, reader=Reader.of(training)) if needed else self

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
            The task's features, as they were before standardization: by name, or as numbers in the router's order.
            Names that the router does not look at are left out.
        shadow
            Decide and record, but never hand off.
        episode
            A name for messages and the log; needed with a log.
        log
            Where to write every decision. Episodes that run at the same time need different names in it.
        """
        values = self.features.read({} if features is None else features)
        name = None if episode is None else validate.episode_id("episode", episode)
        state = HandoffState(self, values, shadow=validate.flag("shadow", shadow), episode=name)
        if log is not None:
            log.started(state)
            state.log = log
        return state

    def restore(self, snapshot: Mapping[str, object], *, log: DecisionLog | None = None) -> HandoffState:
        """Go on with an episode where its state's `snapshot` left it, to the last bit.

        Parameters
        ----------
        snapshot
            The snapshot, taken under this very router.
        log
            Where to write every decision from here on.
        """
        try:
            state = HandoffState.restored(self, snapshot)
        except InvalidDataError as error:
            raise error.at("snapshot") from None
        if log is not None:
            log.restored(state)
            state.log = log
        return state

    def at(self, alpha: float | None = None, alpha_start: float | None = None) -> Router:
        """Return the same router with other thresholds, in a fraction of the time of `dataclasses.replace`."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__getstate__())
        if alpha is not None:
            checked = alpha if alpha == math.inf else self.rule.check_alpha(alpha, self.pace)
            object.__setattr__(made, "alpha", checked)
        if alpha_start is not None:
            checked = alpha_start if alpha_start == math.inf else validate.number("alpha_start", alpha_start)
            object.__setattr__(made, "alpha_start", checked)
        return made

    def alpha_at(self, step: int) -> float | None:
        """Return the threshold at a checkpoint; None where nothing reaches it or it is too late for a handoff."""
        if self.alpha == math.inf or self.too_late(step + strong_acts_after(self.timing)):
            return None
        if not self.pace:
            return self.alpha
        try:
            value = self.alpha * math.exp(-self.pace * step)
        except OverflowError:
            return None
        return None if value == math.inf else max(value, SMALLEST) if self.alpha > 0 else value

    def too_late[N: (int, np.ndarray)](self, step: N) -> Any:  # noqa: ANN401
        """Check whether Strong may no longer take over from a step on."""
        return step > (math.inf if self.last_handoff is None else self.last_handoff)

    @cached_property
    def features(self) -> Fields:
        """How the features of a task are read."""
        return Fields("features", self.feature_names, nonnegative=False, design=self.design)

    @cached_property
    def diagnostics(self) -> Fields:
        """How the diagnostics of a checkpoint are read."""
        return Fields("diagnostics", self.diagnostic_names, nonnegative=True)

    def score(self, episodes: Episodes) -> Scores:
        """Score episodes as observing them one by one would, before the first step and after the last one too.

        Parameters
        ----------
        episodes
            Episodes with the router's features and diagnostics, in any order and among others; carried variables with
            a number for each episode or step count as such.
        """
        from bayes_tacit.data.visible import Visible

        visible = Visible.of(episodes, (*self.feature_names, *self.diagnostic_names))
        if self.design is None:
            x = visible.task_columns(self.feature_names)
        else:
            from bayes_tacit.model.design import design_matrix

            x = design_matrix(self.design, episodes)
        return scan(self.rule, x, visible.step_columns(self.diagnostic_names), visible.n_steps)

    def scores(self, episodes: Episodes) -> xr.DataArray:
        """Return the score that is compared with alpha at every checkpoint.

        Returns
        -------
        xarray.DataArray
            (episode, step), NaN past the end of an episode and where nothing is asked.

        See Also
        --------
        bayes_tacit.decisive_scores : TACIT-Switch's before there is an alpha, to choose it with.

        Examples
        --------
        >>> from bayes_tacit import fit_map, load_example
        >>> episodes = load_example()
        >>> router = Router.from_fit(fit_map(episodes), alpha=0.3)
        >>> router.scores(episodes).sel(episode="task-0001").values[8:12].round(2)
        array([0.32, 0.49, 0.52, 0.63])
        """
        import xarray as xr

        coords = {dim: episodes.dataset[dim] for dim in ("episode", "step")}
        attrs = {"long_name": "score that is compared with alpha"}
        scores = self.score(episodes).steps
        return xr.DataArray(scores, coords=coords, dims=("episode", "step"), name="score", attrs=attrs)

    def handoffs(self, episodes: Episodes) -> xr.DataArray:
        """Return the step from which Strong acts in each episode.

        Returns
        -------
        xarray.DataArray
            (episode,), whole numbers: -1 for never. A crossing at the last checkpoint of H hands off at step H under
            "post_action", where nothing is left to do; a policy that judges the finished episode hands off at step H
            too. For a router that calls Strong for single steps, the first of them.

        Examples
        --------
        >>> from bayes_tacit import fit_map, load_example
        >>> episodes = load_example()
        >>> Router.from_fit(fit_map(episodes), alpha=0.3).handoffs(episodes).values[:5]
        array([-1,  9,  5, 11, -1])
        """
        import xarray as xr

        found = self.score(episodes)
        reached = self.reached(found)
        first = reached.argmax(axis=1)
        crossings = np.where(reached[np.arange(len(first)), first], first, NEVER)
        steps = handoff_steps(crossings, self.timing)
        if found.closing is not None:
            late = (steps == NEVER) & (found.closing >= reached_from(self.alpha)) & ~self.too_late(episodes.n_steps)
            steps = np.where(late, episodes.n_steps, steps)
        if found.opening is not None:
            steps = np.where(found.opening >= start_reached_from(self.alpha_start), 0, steps)
        attrs = {"long_name": "step from which Strong acts; -1 for never"}
        coords = {"episode": episodes.dataset["episode"]}
        return xr.DataArray(steps, coords=coords, dims=("episode",), name="handoff", attrs=attrs)

    def reached(self, scores: Scores) -> np.ndarray:
        """Return at which checkpoints scores reach their threshold, (episode, step); NaN reaches none."""
        alpha = [self.alpha_at(step) for step in range(scores.steps.shape[1])]
        levels = np.array([math.inf if each is None else each for each in alpha])
        own = scores.thresholds
        return scores.steps >= reached_from(levels if own is None else own[:, None])

    def usable(self, scores: np.ndarray, n_steps: np.ndarray) -> np.ndarray:
        """Return scores (episode, step) without those of checkpoints after which nothing is left to hand over."""
        inside = np.arange(scores.shape[1]) < usable_checkpoints(n_steps, self.timing)[:, None]
        return np.where(inside, scores, np.nan)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, which any language reads; every number is read back exactly."""
        files.save(self.to_json(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Router:
        """Read a file that `save` wrote, checking all of it."""
        return files.load(path, cls)

    def to_json(self) -> str:
        """Return the content of the file that `save` writes."""
        return files.to_json({**self._content, "fingerprint": self.fingerprint})

    @classmethod
    def from_json(cls, text: str) -> Router:
        """Read what `to_json` returned, checking all of it."""
        return files.from_json(text, "router", cls)

    @cached_property
    def _content(self) -> dict[str, object]:
        return files.content_of(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything in it: equal for routers that are equal."""
        return files.digest(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Router) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        what = [] if self.alpha == math.inf else [f"score >= alpha {self.alpha:g}"]
        if isinstance(self.rule, HandoffScore):
            what = [f"{_estimate(self.rule)} >= alpha {self.alpha:g}"]
        more: Sequence[tuple[str, str, bool]] = [
            ("start >=", f"{self.alpha_start:g}", self.alpha_start != math.inf),
            ("pace", f"{self.pace:g}", self.pace != 0),
            ("no handoff after step", str(self.last_handoff), self.last_handoff is not None),
            ("call", self.call, self.call != "strong"),
        ]
        said = [self.policy, *what, self.timing, *(f"{word} {value}" for word, value, is_so in more if is_so)]
        counts = {"diagnostic": len(self.diagnostic_names), "feature": len(self.feature_names)}
        seen = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items())
        return f"<Router: {', '.join(said)}; {seen}>"


def _timed(fitted: Fitted, timing: Timing | None) -> Fitted:
    return fitted if timing is None else replace(fitted, timing=timing)


def _estimate(rule: HandoffScore) -> str:
    n, memory = len(rule.s), rule.memory.mean()
    how = "mean" if rule.quantile is None else f"{rule.quantile:g} quantile"
    what = "a point estimate" if n == 1 else f"{how} of {n:,} draws"
    return what + (f" with memory {memory:g}" if memory != 1 else "") + (" and a clock" if rule.clock else "")


Agent = Literal["cheap", "strong"]


def pure(agent: Agent, timing: Timing = DEFAULT_TIMING) -> Router:
    """Make the router with which one agent plays from start to end; the timing says where Cheap's checkpoints are.

    Examples
    --------
    >>> pure("strong").start().opening.call
    'strong'
    """
    from bayes_tacit.router.rules import Always, Never

    if validate.choice("agent", agent, ("cheap", "strong")) == "cheap":
        return Router(rule=Never(), timing=timing)
    return Router(rule=Always(), alpha_start=1.0, timing=timing)


def handoff_at(step: int, *, timing: Timing = DEFAULT_TIMING, discards: bool = False) -> Router:
    """Make the router that hands off for good at a given step: Cheap acts before it, Strong from it on.

    No proposal is discarded, unless it is asked to, as by a policy that looks at Cheap's proposal for that step.

    Examples
    --------
    >>> state = handoff_at(1).start()
    >>> [state.observe({}).call for _ in range(2)]
    ['strong', 'strong']
    """
    from bayes_tacit.router.rules import FixedStep

    step = validate.whole("step of the handoff", step, 0)
    if discards and timing != "proposal":
        raise InvalidDataError("'proposal' where one is discarded", field="timing", value=timing)
    checkpoint = step if discards else step - 1
    timing = timing if discards else DEFAULT_TIMING
    return Router(rule=FixedStep(checkpoint), alpha=1.0, alpha_start=1.0, timing=timing)
