"""What routers would come to on the sessions of a log, by the probabilities with which it chose who serves."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import PROMISE, Checkpoints
from bayes_tacit.gateway.session_state import SessionState
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES
from bayes_tacit.monitor.reading import Event, Lines
from bayes_tacit.router import Router
from bayes_tacit.router.state import NLL, OPENING

CONFIDENCE = 0.95
FOLDS = 5
RIDGE = 1.0
"""How strongly the outcome model's slopes are drawn to zero, in sessions."""

FEWEST = 20
"""Sessions that did what a router would do, below which nothing is said of it."""

Action = tuple[int, bool] | None
"""What was done: handed off after which step, and whether Strong began anew; None for Cheap to the end."""

FIXED: dict[str, Action] = {"cheap": None, "strong": (OPENING, False)}
"""What is done in sessions that no router decides, by the way that was drawn."""

CHEAP, STRONG = "Cheap to the end", "Strong from the start"

Interval = tuple[float, float, float]
"""Estimate, lower and upper end."""


@dataclass
class Trial:
    """One session as evidence: how it was to be served, what was seen of it, and what came of it."""

    task: str = ""
    arm: str = "router"
    arms: Mapping[str, float] = field(default_factory=dict)
    routers: dict[str, str | None] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    features: dict[str, float] = field(default_factory=dict)
    steps: dict[int, tuple[str, dict[str, float]]] = field(default_factory=dict)
    step: int | None = None
    restart: bool = False
    cost: float = 0.0
    success: float | None = None

    @property
    def action(self) -> Action:
        """What was done."""
        return None if self.step is None else (self.step, self.restart and self.step != OPENING)

    def kept(self, reads: str | None) -> SessionState:
        """What a router could see of it: Cheap's steps up to the handoff, and as `reads` what the log has of words."""
        kept = SessionState(features={name: value for name, value in self.features.items() if name not in FEATURES})
        said = {} if reads is None else kept.words.setdefault(reads, {})
        if reads is not None and all(name in self.features for name in FEATURES):
            said[PROMISE] = [self.features[name] for name in FEATURES]
        for number in sorted(self.steps):
            side, values = self.steps[number]
            if side == "cheap" and (self.step is None or number <= self.step):
                mean, total = values.get("uncertainty"), values.get(NLL)
                if mean is not None and total is not None and mean > 0:
                    kept.nll[kept.n_steps] = (total, max(1, round(total / mean)))
                if reads is not None and all(name in values for name in DIAGNOSTICS):
                    said[str(kept.n_steps)] = [values[name] for name in DIAGNOSTICS]
                kept.flags.append(sum(1 << bit for bit, name in enumerate(FLAGS) if values.get(name)))
        return kept


def read_trials(path: str | os.PathLike[str]) -> list[Trial]:
    """Read the sessions of a log that one router each decided, or the draw, and whose outcome is known."""
    found: dict[tuple[str, str], Trial] = {}
    for event in Lines(path):
        trial = found.setdefault((event.scope, event.session), Trial())
        if event.kind == "start":
            trial.arm, trial.arms = event.text("arm") or "router", event.numbers("arms")
            settings = {arm: event.inner(arm) for arm in ("router", "canary")}
            trial.routers = {arm: None if one is None else one.text("router") for arm, one in settings.items()}
            _about(trial, event)
        elif event.kind == "step":
            _stepped(trial, event)
        elif event.kind == "reply":
            trial.cost += event.number("cost") or 0.0
        elif event.kind == "outcome" and event.content.get("success") is not None:
            trial.success = float(event.flag("success"))
    return [one for one in found.values() if one.arms and one.success is not None and len(one.decided) == 1]


def _about(trial: Trial, event: Event) -> None:
    trial.task, trial.features = event.text("task") or event.session, event.numbers("features")


def _stepped(trial: Trial, event: Event) -> None:
    about, decided = event.inner("about"), event.text("router")
    if about is not None:
        _about(trial, about)
    if decided is not None:
        trial.decided.add(decided)
    for inner in event.steps():
        trial.steps[inner.count("step")] = (inner.text("side") or "cheap", inner.numbers("diagnostics"))
    if event.flag("new_handoff"):
        decision = event.inner("decision") if trial.arm != "strong" else None
        step = None if decision is None else decision.number("handoff_step")
        trial.step = OPENING if trial.arm == "strong" or step is None else int(step)
        trial.restart = event.flag("restart")


@dataclass(frozen=True)
class Value:
    """What a router comes to, a session: doubly robust estimates of success and cost, each with lower and upper end.

    Attributes
    ----------
    sessions, alike
        Sessions that say something of it, and those of them in which was done what it would do.
    supported
        The share of tasks on which somebody does, sometimes, what it would do; below 1 the log cannot tell of the rest.
    weighted
        Success by inverse probabilities alone.
    """

    name: str
    sessions: int
    alike: int
    supported: float
    success: Interval
    cost: Interval
    weighted: float


@dataclass(frozen=True)
class Difference:
    """By how much the second router's success and cost are above the first's: estimate, lower and upper end.

    `more` is how many more explored sessions it may take to tell them apart; None if they are.
    """

    first: str
    second: str
    success: Interval
    cost: Interval
    more: int | None


@dataclass(frozen=True)
class RouterComparison:
    """What `compare_routers` found in sessions with a known outcome, some of them explored.

    There are values of Cheap to the end, Strong from the start, and each router, and differences of each router from
    the first. Explored are those that were drawn to be served otherwise than by the router.
    """

    sessions: int
    explored: int
    values: list[Value]
    differences: list[Difference]

    @property
    def verdicts(self) -> list[str]:
        """What can be said of each router beside the first, in a sentence."""
        said = []
        values = {one.name: one for one in self.values}
        for one in self.differences:
            weak = [values[name] for name in (one.first, one.second) if not tells(values[name])]
            if one.success == (0.0, 0.0, 0.0):
                said.append(f"{one.second} and {one.first} would have done the same in every session.")
            elif weak:
                said += [_unsupported(value) for value in weak]
            elif one.more is None:
                word = "more" if one.success[0] > 0 else "fewer"
                said.append(
                    f"{one.second} solves {word} tasks than {one.first}: by {abs(one.success[0]):.1%} of all "
                    f"({one.success[1]:+.1%} to {one.success[2]:+.1%})."
                )
            else:
                said.append(
                    f"{one.second} and {one.first}: cannot tell yet; about {one.more:,} more explored sessions "
                    f"(now {one.success[1]:+.1%} to {one.success[2]:+.1%})."
                )
        return list(dict.fromkeys(said))


def tells(value: Value) -> bool:
    """Return whether the log can tell of a router."""
    return value.alike >= FEWEST and value.supported > 0.995


def _unsupported(value: Value) -> str:
    if value.supported > 0.995:
        return f"{value.name}: cannot tell yet; only {value.alike} sessions did what it would do."
    share = 1 - value.supported
    return f"{value.name}: cannot tell; on {share:.0%} of tasks it does what nobody did: serve it with --canary."


def compare_routers(log: str | os.PathLike[str], routers: Mapping[str, Router]) -> RouterComparison:
    """Estimate success and cost of routers from the sessions of a log.

    A session tells of a router if what was done is what the router would have done: the same handoff after the same
    step, or none. It counts by one over the probability of that, which the log has: the sum over the ways to serve
    that were drawn among, of those that would have done the same. An outcome model on the features, fitted to the
    other parts of the sessions, takes out what the tasks explain; the estimate is right whether or not the model is.

    Parameters
    ----------
    log
        From `bayes-tacit serve --log --explore SHARE`, with or without `--canary`.
    routers
        By name, those that served among them.

    Returns
    -------
    RouterComparison
        Intervals have 95%, over tasks.

    Raises
    ------
    InvalidDataError
        If no session has a known outcome, or a router that served is not among those that were given.
    """
    trials = read_trials(log)
    if not trials:
        expected = "at least one that one router decided, with the way that was drawn and an outcome"
        raise InvalidDataError(expected, field="sessions", value=0, where=str(log))
    known = {router.fingerprint: router for router in routers.values()}
    served = {one.routers[arm] for one in trials for arm in ("router", "canary") if one.arms.get(arm)}
    if missing := sorted(str(one) for one in served - known.keys()):
        expected = f"the routers that served, too: {', '.join(one[:12] for one in missing)}"
        raise InvalidDataError(expected, field="routers", value=list(routers))
    would = {mark: _actions(router, trials, known) for mark, router in known.items()}
    targets: dict[str, Sequence[Action]] = {CHEAP: [None] * len(trials), STRONG: [(OPENING, False)] * len(trials)}
    targets |= {name: would[router.fingerprint] for name, router in routers.items()}
    asked = {CHEAP: "cheap", STRONG: "strong", **{name: router.fingerprint for name, router in routers.items()}}
    usable = {name: _usable(trials, one) for name, one in asked.items()}
    evidence = _Evidence(trials, would, targets)
    values = [evidence.value(name, usable[name]) for name in targets]
    names = list(routers)
    differences = [evidence.difference(names[0], name, usable[names[0]] & usable[name]) for name in names[1:]]
    return RouterComparison(len(trials), sum(one.arm != "router" for one in trials), values, differences)


def _usable(trials: Sequence[Trial], asked: str) -> np.ndarray:
    """Return which sessions began while some were served so; for who never served, while any were explored."""
    ways = [{one.routers.get(arm, arm) for arm, share in one.arms.items() if share > 0} for one in trials]
    served = np.array([asked in one for one in ways])
    return served if served.any() else np.array(["cheap" in one for one in ways])


class _Evidence:
    """Sessions, what routers would have done in them, and estimates from a part of them."""

    def __init__(
        self, trials: Sequence[Trial], would: Mapping[str, list[Action]], targets: Mapping[str, Sequence[Action]]
    ) -> None:
        self._trials, self._would, self._targets = trials, would, targets
        self._weights = {name: self._weights_of(target) for name, target in targets.items()}
        outcomes = {"success": [one.success for one in trials], "cost": [one.cost for one in trials]}
        self._outcomes = {what: np.array(one, float) for what, one in outcomes.items()}
        self._design = _design(trials)
        self._groups = np.unique([one.task for one in trials], return_inverse=True)[1]

    def value(self, name: str, usable: np.ndarray) -> Value:
        """Estimate what a router comes to."""
        weights = self._weights[name][usable]
        found = {what: self._interval(self._terms(name, what, usable), usable, (name,)) for what in self._outcomes}
        return Value(
            name=name,
            sessions=int(usable.sum()),
            alike=int((weights > 0).sum()),
            supported=self._supported(self._targets[name], usable),
            success=_share(found["success"], weights),
            cost=found["cost"],
            weighted=float(weights @ self._outcomes["success"][usable] / weights.sum()) if weights.any() else math.nan,
        )

    def difference(self, first: str, second: str, usable: np.ndarray) -> Difference:
        """Estimate by how much a router is above another one, in the same sessions."""
        found = {}
        for what in self._outcomes:
            terms = self._terms(second, what, usable) - self._terms(first, what, usable)
            found[what] = self._interval(terms, usable, (first, second))
        explored = sum(one.arm != "router" for one, used in zip(self._trials, usable, strict=True) if used)
        apart = not found["success"][1] <= 0 <= found["success"][2]
        return Difference(first, second, **found, more=None if apart else _more(found["success"], explored))

    def _terms(self, name: str, what: str, usable: np.ndarray) -> np.ndarray:
        parts = (self._weights[name], self._outcomes[what], self._design, self._groups)
        return _robust(*(part[usable] for part in parts))

    def _interval(self, terms: np.ndarray, usable: np.ndarray, names: Sequence[str]) -> Interval:
        alike = min(int((self._weights[name][usable] > 0).sum()) for name in names)
        return _interval(terms, np.unique(self._groups[usable], return_inverse=True)[1], alike)

    def _weights_of(self, target: Sequence[Action]) -> np.ndarray:
        """Return one over the probability of what was done, where that is what the target would do; else 0."""
        done = [trial.action for trial in self._trials]
        return np.array([self._over(at, one) if target[at] == one else 0.0 for at, one in enumerate(done)])

    def _over(self, at: int, action: Action) -> float:
        return 1 / max(self._probability(at, action), 1e-12)

    def _probability(self, at: int, action: Action) -> float:
        """Return the probability with which a way was drawn that does this in this session."""
        trial, total = self._trials[at], 0.0
        for arm, share in trial.arms.items():
            theirs = FIXED[arm] if arm in FIXED else self._would[str(trial.routers[arm])][at]
            total += share * (theirs == action)
        return total

    def _supported(self, target: Sequence[Action], usable: np.ndarray) -> float:
        """Return the share of tasks on which some way that may be drawn does what the target would do.

        Only sessions that Cheap served to the end show all that routers would have done, so these are asked, each by
        one over its probability.
        """
        asked = [at for at, trial in enumerate(self._trials) if usable[at] and trial.action is None]
        weights = [self._over(at, None) for at in asked]
        good = [weight for at, weight in zip(asked, weights, strict=True) if self._probability(at, target[at]) > 0]
        return sum(good) / sum(weights) if weights else 0.0


def _actions(router: Router, trials: Sequence[Trial], known: Mapping[str, Router]) -> list[Action]:
    """Return what a router would do in each session, as far as it was seen."""
    checkpoints, found = Checkpoints(router), []
    reads = None if router.reader is None else checkpoints.key
    own = None if router.reader is None else router.reader.to_dict()
    for mark in {str(one.routers.get("router")) for one in trials} if own is not None else ():
        logged = known[mark].reader if mark in known else None
        if logged is None or logged.to_dict() != own:
            expected = "that of the router that served: the log has what that one says of words, and no words"
            raise InvalidDataError(
                expected, field="the reader of a router", value=f"another, of {checkpoints.key[:12]}"
            )
    for trial in trials:
        decision = checkpoints.latest(trial.kept(reads))
        handed = decision is not None and decision.handoff
        step = decision.handoff_step if handed and decision is not None else None
        restart = router.handoff == "restart" and step != OPENING
        found.append(None if step is None else (step, restart))
    return found


def _design(trials: Sequence[Trial]) -> np.ndarray:
    """Return an intercept and the features that all sessions have, standardized."""
    names = sorted(set.intersection(*(set(one.features) for one in trials)))
    table = np.array([[one.features[name] for name in names] for one in trials]).reshape(len(trials), len(names))
    scale = table.std(axis=0)
    varied = scale > 0
    standard = (table[:, varied] - table[:, varied].mean(axis=0)) / scale[varied]
    return np.column_stack([np.ones(len(trials)), standard])


def _robust(weights: np.ndarray, values: np.ndarray, design: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return each session's term, whose mean is the doubly robust estimate; the model is fitted without its task."""
    predicted = np.zeros(len(values))
    folds = groups % FOLDS
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 1e-9
    for fold in range(FOLDS):
        rest = folds != fold
        scaled = design[rest] * weights[rest, None]
        if scaled.any():
            slopes = np.linalg.solve(scaled.T @ design[rest] + penalty, scaled.T @ values[rest])
            predicted[~rest] = design[~rest] @ slopes
    terms: np.ndarray = predicted + weights * (values - predicted)
    return terms


def _interval(terms: np.ndarray, groups: np.ndarray, alike: int) -> Interval:
    """Return the mean of terms with its interval over tasks, by Student's t with as many sessions as tell something."""
    if not len(terms):
        return math.nan, -math.inf, math.inf
    mean, n = float(terms.mean()), int(groups.max()) + 1
    if alike < 2 or n < 2:
        return mean, -math.inf, math.inf
    sums = np.bincount(groups, terms - mean)
    error = math.sqrt(float(sums @ sums) * n / (n - 1)) / len(terms)
    half = float(stdtrit(alike - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, mean - half, mean + half


def _share(found: Interval, weights: np.ndarray) -> Interval:
    """Return the interval of a share, which few sessions make lopsided (after Agresti and Coull).

    The estimate is taken for a share of so many sessions as have its variance, or where they all ended alike, of so
    many as the weights are worth.
    """
    estimate, half = found[0], (found[2] - found[1]) / 2
    if not math.isfinite(half) or not weights.any():
        return found
    quantile = float(stdtrit(max(1, int((weights > 0).sum()) - 1), (1 + CONFIDENCE) / 2))
    share = min(max(estimate, 0.0), 1.0)
    worth = float(weights.sum() ** 2 / (weights**2).sum())
    counted = share * (1 - share) * (quantile / half) ** 2 if half > 0 and 0 < share < 1 else worth
    counted = min(counted, 2 * worth)
    center = (counted * share + quantile**2 / 2) / (counted + quantile**2)
    width = quantile * math.sqrt(center * (1 - center) / (counted + quantile**2))
    return estimate, max(0.0, center - width), min(1.0, center + width)


def _more(gap: Interval, explored: int) -> int:
    """Return how many more explored sessions make the interval shorter than the gap, if the gap is what it seems."""
    half = (gap[2] - gap[1]) / 2
    if half == 0:
        return 10 * FEWEST
    seen = max(abs(gap[0]), half / 10)  # a gap that may be none is taken for a tenth of the interval at least
    times = (half / seen) ** 2 - 1
    return max(1, math.ceil(max(explored, 1) * times)) if math.isfinite(times) else 10 * FEWEST
