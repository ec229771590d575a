"""TACIT-Switch's rules: the handoff score q(t), from a point estimate or draws, and with landmark incidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import rates
from bayes_tacit.router.rule import BAND, Chance, Frozen, Rule, State, register_rule
from bayes_tacit.scores.core import PARAMETERS, Draws, score
from bayes_tacit.scores.fitted import Fitted


@dataclass(frozen=True, eq=False)
class Start(Frozen):
    """Before the first step the score is c pi(x) - P(Cheap succeeds | x).

    Cheap's probability is a logistic model. Under a posterior it has a draw for each draw of the other parameters.

    Attributes
    ----------
    weight
        c, how much Strong's success counts beside Cheap's.
    intercept
        (draw,).
    slopes
        (draw, feature), on features that are standardized as the rule's are.
    """

    weight: float
    intercept: np.ndarray
    slopes: np.ndarray

    def __post_init__(self) -> None:
        """Check the weight."""
        super().__post_init__()
        validate.number("weight of the start", self.weight, "a finite number >= 0", least=0)

    def scores(self, draws: Draws, x: np.ndarray) -> np.ndarray:
        """Return the difference for standardized features (episode, feature): (episode, draw)."""
        logit = np.broadcast_to(self.intercept, (len(x), len(self.intercept))).copy()
        for j in range(x.shape[1]):
            logit += x[:, j, None] * self.slopes[:, j]
        return self.weight * draws.incidence(x) - special.expit(logit)


@register_rule
@dataclass(frozen=True, eq=False)
class HandoffScore(Rule):
    """q(t) = pi F(R(t)) under a point estimate; its posterior mean or a quantile of it under draws.

    Attributes
    ----------
    w, gamma0, gamma, beta0, beta, s
        Parameters with a leading axis of draws, of which a point estimate has one, as `bayes_tacit.scores.core.Draws`.
    family
        Name of the thresholds' distribution.
    memory
        rho: one number that all draws share, (1,), or one for each, (draw,).
    clock
        Whether the last weight is the clock's, which is not among the diagnostics.
    mean, scale
        (feature,), by which features are standardized.
    quantile
        Probability of a posterior quantile: 0.1 hands off only where 90% of the posterior agrees. None for the mean.
    start
        What is asked before the first step; None for nothing.
    delta
        (draw, feature), where the spread of thresholds depends on the features: s exp(x delta); empty elsewhere.
    """

    policy = "tacit_switch"
    w: np.ndarray
    gamma0: np.ndarray
    gamma: np.ndarray
    beta0: np.ndarray
    beta: np.ndarray
    s: np.ndarray
    family: str
    memory: np.ndarray
    clock: bool
    mean: np.ndarray
    scale: np.ndarray
    quantile: float | None = None
    start: Start | None = None
    delta: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        n, p = len(self.s), len(self.mean)
        if not n or self.w.ndim != 2 or not self.w.shape[1]:
            raise InvalidDataError("(draw, diagnostic), at least one of each", field="shape of w", value=self.w.shape)
        columns = {"w": (self.w.shape[1],), "gamma": (p,), "beta": (p,)}
        for name in PARAMETERS:
            validate.finite(name, getattr(self, name), (n, *columns.get(name, ())))
        if self.delta.size:
            validate.finite("delta", self.delta, (n, p))
        validate.finite("memory", self.memory, (n,) if len(self.memory) != 1 else (1,))
        if not ((self.memory >= 0) & (self.memory <= 1)).all():
            raise InvalidDataError("numbers from 0 to 1", field="memory", value=self.memory.tolist())
        validate.finite("feature scale", self.scale, (p,))
        validate.positive("feature scale", self.scale)
        validate.simplex("w", self.w)
        validate.positive("s", self.s)
        family_named(self.family)
        validate.flag("clock", self.clock)
        if self.quantile is not None:
            validate.rule("rule", self.quantile)
        if self.start is not None:
            validate.finite("intercept of the start", self.start.intercept, (n,))
            validate.finite("slopes of the start", self.start.slopes, (n, p))

    @classmethod
    def of(cls, fitted: Fitted, rule: str | float = "mean", start: Start | None = None) -> HandoffScore:
        """Make the rule from parameters that were read out of a fit or a posterior."""
        draws = fitted.draws
        return cls(
            **{name: getattr(draws, name) for name in PARAMETERS},
            family=draws.family.name,
            memory=np.atleast_1d(np.asarray(draws.memory, dtype=float)),
            clock=draws.clock,
            mean=fitted.feature_mean,
            scale=fitted.feature_scale,
            quantile=None if validate.rule("rule", rule) == "mean" else float(rule),
            start=start,
            delta=np.zeros(0) if draws.delta is None else draws.delta,
        )

    def thinned(self, most: int) -> HandoffScore:
        """Return the rule with at most so many draws, taken at even distances from all of them."""
        n = len(self.s)
        if validate.whole("draws", most, 1) >= n:
            return self
        some = np.arange(most) * n // most
        start = self.start
        return replace(
            self,
            **{name: getattr(self, name)[some] for name in PARAMETERS},
            memory=self.memory[some] if len(self.memory) == n else self.memory,
            delta=self.delta[some] if self.delta.size else self.delta,
            start=None if start is None else replace(start, intercept=start.intercept[some], slopes=start.slopes[some]),
        )

    @cached_property
    def draws(self) -> Draws:
        """The parameters as scores take them."""
        by_draw = len(self.memory) > 1
        return Draws(
            **{name: getattr(self, name) for name in PARAMETERS},
            family=family_named(self.family),
            memory=self.memory if by_draw else float(self.memory[0]),
            clock=self.clock,
            delta=self.delta if self.delta.size else None,
        )

    @property
    def width(self) -> int:
        """One number a draw; where each draw has a memory of its own, one a draw and diagnostic."""
        return self.w.size if len(self.memory) > 1 else max(self.w.shape)

    @cached_property
    def _rates(self) -> np.ndarray | None:
        """What is left of each sum after a step, (weight,) or (weight, draw); None where nothing is forgotten."""
        if (self.memory == 1).all():
            return None
        each = [rates(rho, self.w.shape[1], clock=self.clock) for rho in self.memory]
        return np.array(each).T if len(each) > 1 else each[0]

    def begin(self, x: np.ndarray) -> State:
        """Return pi and the location of each task, and that nothing has accumulated."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = (x - self.mean) / self.scale
            pi, location = self.draws.incidence(z), self.draws.location(z)
            begun = {} if self.start is None else {"_q": self.start.scores(self.draws, z)}
            spread: State = {"scale": self.draws.scale(z)} if self.delta.size else {}
        shape = (len(x), *(self.w.shape[1:] if self._rates is None else self._rates.shape))
        nothing = np.zeros(shape)
        sums = {"total": nothing} if self._rates is None else {"level": nothing, "peak": nothing}
        return {"pi": pi, "location": location, **sums, "risk": np.zeros(len(x)), **spread, **begun}

    def opening(self, state: State) -> np.ndarray | None:
        """Return c pi(x) - P(Cheap succeeds | x), its mean or quantile."""
        return None if self.start is None else self._summary(state["_q"])

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Add the diagnostics, and return q."""
        if self.clock:
            u = np.concatenate([u, np.ones((len(u), 1))], axis=1)
        with np.errstate(over="ignore"):
            if self._rates is None:
                sums = {"total": state["total"] + u}
                risk = self.draws.risk(sums["total"])
            else:
                by_draw = self._rates.ndim > 1
                level = self._rates * state["level"] + (u[:, :, None] if by_draw else u)
                sums = {"level": level, "peak": np.maximum(state["peak"], level)}
                risk = _by_draw(sums["peak"], self.w) if by_draw else self.draws.risk(sums["peak"])
            q = score(state["pi"], state["location"], state.get("scale", self.s), risk, self.draws.family)
            mean = risk[:, 0] if risk.shape[1] == 1 else risk.mean(axis=1)
        known: State = {name: state[name] for name in ("pi", "location", "scale") if name in state}
        reached = {**known, **sums, "risk": mean}
        return {**reached, "_added": mean - state["risk"], "_q": q}, self._summary(q)

    def _summary(self, q: np.ndarray) -> np.ndarray:
        if q.shape[1] == 1:
            return q[:, 0]
        return q.mean(axis=1) if self.quantile is None else np.quantile(q, self.quantile, axis=1)

    def facts(self, state: State) -> Mapping[str, np.ndarray]:
        """Return pi, the risk and the band."""
        found = {"pi": state["pi"].mean(axis=1)}
        if "_added" in state:
            found |= {"risk": state["_added"], "cumulative_risk": state["risk"]}
        if state["pi"].shape[1] > 1 and "_q" in state:
            found["lower"], found["upper"] = np.quantile(state["_q"], BAND, axis=1)
        return found

    def check_alpha(self, alpha: float, pace: float) -> float:
        """Return a threshold above 0, and at most 1 unless there is a pace."""
        if pace:
            return validate.number("alpha", alpha, "a number above 0", above=0)
        return validate.threshold("alpha", alpha)

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check the weights and slopes."""
        validate.finite("w", self.w, (len(self.s), diagnostics + self.clock))
        validate.finite("feature mean", self.mean, (features,))


@register_rule
@dataclass(frozen=True, eq=False)
class LandmarkScore(Rule):
    """q(t) = pi(x, seen so far) F(R(t)): Strong's chance is looked at anew at each checkpoint, so q may fall.

    Attributes
    ----------
    due
        R, F and the features' standardization, from a point estimate; its own incidence is not used.
    strong
        Strong's chance given the features and, for each weight of R, the sum or peak of its diagnostic so far.
    """

    policy = "tacit_switch_landmark"
    due: HandoffScore
    strong: Chance

    def __post_init__(self) -> None:
        """Check that it is from a point estimate."""
        super().__post_init__()
        if len(self.due.s) > 1 or self.due.start is not None:
            raise InvalidDataError("a point estimate without a start", field="due", value=len(self.due.s))

    @property
    def width(self) -> int:
        """As many as R takes."""
        return self.due.width

    def begin(self, x: np.ndarray) -> State:
        """Return that nothing has accumulated; with an incidence of 1, q is F."""
        return {**self.due.begin(x), "pi": np.ones((len(x), 1)), "x": x}

    def seen(self, state: State) -> np.ndarray:
        """Return the features and what has accumulated, (episode, column)."""
        sums = state["total"] if "total" in state else state["peak"]
        return np.concatenate([state["x"], sums], axis=1)

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Add the diagnostics, and return q."""
        reached, due = self.due.step(state, u)
        reached["x"] = state["x"]
        return reached, self.strong(self.seen(reached)) * due

    def facts(self, state: State) -> Mapping[str, np.ndarray]:
        """Return pi and the risk."""
        return {**self.due.facts(state), "pi": self.strong(self.seen(state))}

    def check_alpha(self, alpha: float, pace: float) -> float:
        """Return a threshold for q."""
        return self.due.check_alpha(alpha, pace)

    def columns(self, features: int, diagnostics: int) -> int:
        """Count the features, and the diagnostics with the clock."""
        return features + diagnostics + self.due.clock

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check both parts."""
        self.due.check_shape(features, diagnostics)
        super().check_shape(features, diagnostics)


def _by_draw(peak: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return R where every draw has a memory of its own, term by term: (episode, draw)."""
    total = w[:, 0] * peak[:, 0]
    for j in range(1, w.shape[1]):
        total = total + w[:, j] * peak[:, j]
    return total
