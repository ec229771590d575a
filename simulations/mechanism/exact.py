"""What the mechanism's numbers are exactly, and the best that any policy could do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from bayes_tacit import validate
from simulations.mechanism.draws import STREAM
from simulations.mechanism.parameters import STATES, Mechanism
from simulations.mechanism.world import RISK, simulate

Actor = Literal["cheap", "strong"]

NODES = 40
"""Quadrature points for each trait; more change the sixth digit at most."""


@dataclass(frozen=True)
class Expected:
    """What a fixed handoff gives on average."""

    success: float  # Probability of success
    # cheap_calls, strong_calls: Mean number of steps of each actor.
    cheap_calls: float
    strong_calls: float
    cost: float  # What they cost


def success_probability(mechanism: Mechanism, actor: Actor) -> float:
    """Return the probability that an actor succeeds alone.

    Examples
    --------
    >>> from simulations.mechanism import calibrated
    >>> round(success_probability(calibrated(), "strong"), 2)
    0.85
    """
    validate.choice("actor", actor, ("cheap", "strong"))
    return expected_outcome(mechanism, 0 if actor == "strong" else mechanism.steps).success


def expected_outcome(mechanism: Mechanism, handoff: int) -> Expected:
    """Return success, calls and cost when Strong takes over at a step of every task."""
    handoff = validate.whole("handoff", handoff, 0)
    z, v, weight = _traits(mechanism, handoff)
    alive = np.zeros((len(weight), len(STATES), mechanism.needed))
    alive[:, 0, 0] = 1.0
    success = np.zeros(len(weight))
    calls = {"cheap": 0.0, "strong": 0.0}
    for step in range(mechanism.steps):
        actor: Actor = "cheap" if step < handoff else "strong"
        calls[actor] += float(weight @ alive.sum(axis=(1, 2)))
        correct, moves = _behaviour(mechanism, actor, z, v)
        right = alive * correct[:, :, None]
        success += right[:, :, -1].sum(axis=1)
        alive = alive - right
        alive[:, :, 1:] += right[:, :, :-1]
        alive = np.einsum("tsc,tsm->tmc", alive, moves)
    cost = mechanism.cheap_cost * calls["cheap"] + mechanism.strong_cost * calls["strong"]
    return Expected(float(weight @ success), calls["cheap"], calls["strong"], cost)


def _traits(of: Mechanism, handoff: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes for z and v and their weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    if handoff >= of.steps:
        return nodes, np.zeros(NODES), weights
    if handoff == 0:
        # Strong alone depends on one combination of the two, which is normal as well.
        length = math.hypot(of.difficulty_on_strong, of.resistance_on_strong) or 1.0
        return nodes * of.difficulty_on_strong / length, nodes * of.resistance_on_strong / length, weights
    z, v = np.meshgrid(nodes, nodes, indexing="ij")
    return z.ravel(), v.ravel(), np.outer(weights, weights).ravel()


def _behaviour(of: Mechanism, actor: Actor, z: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of a correct action (node, state) and of the moves (node, state, state)."""
    if actor == "strong":
        fall = of.difficulty_on_strong * z + of.resistance_on_strong * v
        moves = np.broadcast_to(np.array(of.strong_moves), (len(z), 3, 3))
        return expit(logit(of.strong_correct) - fall[:, None]), moves
    tilt = np.exp(of.difficulty_on_drift * z[:, None] * np.array([-1.0, 0.0, 1.0]))
    weighted = np.array(of.cheap_moves) * tilt[:, None, :]
    correct = expit(logit(of.cheap_correct) - of.difficulty_on_cheap * z[:, None])
    return correct, weighted / weighted.sum(axis=2, keepdims=True)


PRICES = (5e-4, 0.5)
"""How much success a unit of cost is worth: at the lower end cost hardly matters, at the upper nothing else does."""

_APART = 1.06
"""The two prices that are mixed are this factor above and below the one that is about right."""

_ROUGH = 30_000
"""Tasks from which the price that is about right is found."""

_HALVINGS = 7
_STREAM = 1 << 20

_CHUNK = 100_000
"""Tasks simulated at a time; only what the induction needs is kept of them."""


def optimal_reference(
    mechanism: Mechanism,
    caps: float | Iterable[float] = 16.0,
    *,
    n_train: int = 300_000,
    n_test: int = 300_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Find nearly the highest success that a permanent handoff can have at given costs."""
    given = list(caps) if isinstance(caps, Iterable) else [caps]
    least = expected_outcome(mechanism, mechanism.steps).cost
    expected = f"above {least:.4g}, what Cheap alone costs"
    wanted = [validate.number("cap", cap, expected, above=least) for cap in given]
    sizes = (validate.whole("n_train", n_train, 100), -(-validate.whole("n_test", n_test, 100) // 3), n_test)
    streams = np.random.SeedSequence(validate.whole("seed", seed, 0), spawn_key=(STREAM, _STREAM)).spawn(3)
    training, development, test = (
        _collect(mechanism, size, stream) for size, stream in zip(sizes, streams, strict=True)
    )
    # On a busy machine several threads wait for each other most of the time; one also makes sums repeatable.
    with threadpool_limits(1, user_api="openmp"):
        fine = _Prices(training, development, test)
        rough = _Prices(training.first(_ROUGH), development, test) if n_train > _ROUGH else fine
        rows = [{"cap": cap, **fine.mixed(cap, rough.meeting(cap))} for cap in wanted]
    return pd.DataFrame(rows)


class _Prices:
    """Policies learned from some tasks, by the price of cost; each is learned once."""

    def __init__(self, training: _Tasks, development: _Tasks, test: _Tasks) -> None:
        self.training, self.development, self.test = training, development, test
        self.rules: dict[float, list[HistGradientBoostingRegressor]] = {}
        self.spent: dict[float, float] = {}

    def spend(self, price: float) -> float:
        """Return the cost on development tasks."""
        if price not in self.rules:
            self.rules[price] = _induce(self.training, price)
            self.spent[price] = self.development.mean(self.rules[price])[1]
        return self.spent[price]

    def meeting(self, cap: float) -> float:
        """Find a price that spends about the cap."""
        low, high = PRICES
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.spend(middle) >= cap else (low, middle)
        return math.sqrt(low * high)

    def mixed(self, cap: float, price: float) -> dict[str, float]:
        """Mix policies at two prices near the given one so that the cost on development tasks is the cap."""
        low, high = price / _APART, price * _APART
        while self.spend(low) < cap and low > PRICES[0]:
            low /= _APART**2
        while self.spend(high) > cap and high < PRICES[1]:
            high *= _APART**2
        gap = self.spend(low) - self.spend(high)
        share = min(1.0, max(0.0, (cap - self.spend(high)) / gap)) if gap > 0 else 1.0
        dear, cheap = (np.array(self.test.mean(self.rules[one])) for one in (low, high))
        success, cost = (share * dear + (1 - share) * cheap).tolist()
        return {"success": success, "cost": cost}


@dataclass(frozen=True, eq=False)
class _Tasks:
    """What the induction needs of many tasks."""

    # features, risk, n_steps: (task, feature), (task, step) and (task,), of the Cheap rollout.
    features: np.ndarray
    risk: np.ndarray
    n_steps: np.ndarray
    # success, cost: (task, handoff); the last column, and whatever is past the end of the rollout, is never handing
    # off.
    success: np.ndarray
    cost: np.ndarray

    def first(self, n: int) -> _Tasks:
        """Return the first n tasks."""
        return _Tasks(*(values[:n] for values in vars(self).values()))

    def visible(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the tasks that go on at a step, and what a policy may see of them: features, risks, their sum."""
        tasks = np.flatnonzero(self.n_steps > step)
        risk = self.risk[tasks, :step]
        return tasks, np.column_stack([self.features[tasks], risk, risk.sum(axis=1)])

    def mean(self, rules: list[HistGradientBoostingRegressor]) -> tuple[float, float]:
        """Return mean success and cost under rules by step."""
        handoff = np.full(len(self.n_steps), self.risk.shape[1])
        for step in reversed(range(len(rules))):
            tasks, seen = self.visible(step)
            handoff[tasks[rules[step].predict(seen) > 0]] = step
        at = np.arange(len(handoff)), handoff
        return float(self.success[at].mean()), float(self.cost[at].mean())


def _collect(mechanism: Mechanism, n: int, stream: np.random.SeedSequence) -> _Tasks:
    sizes = [_CHUNK] * (n // _CHUNK) + ([n % _CHUNK] if n % _CHUNK else [])
    parts: list[tuple[np.ndarray, ...]] = []
    for size, seed in zip(sizes, stream.spawn(len(sizes)), strict=True):
        world = simulate(mechanism, size, seed)
        visible = world.episodes.dataset
        risk = np.full((size, mechanism.steps), np.nan, dtype=np.float32)
        risk[:, : world.episodes.horizon] = visible["diagnostics"].sel(diagnostic=RISK).values
        success, cost = (_padded(values, mechanism.steps) for values in world.counterfactuals.table()[:2])
        parts.append((visible["features"].values.astype(np.float32), risk, world.episodes.n_steps, success, cost))
    return _Tasks(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _padded(values: np.ndarray, steps: int) -> np.ndarray:
    """Repeat the last column, never handing off, until there is one for each step and one more."""
    missing = steps + 1 - values.shape[1]
    return np.pad(values, ((0, 0), (0, missing)), mode="edge").astype(np.float32)


def _induce(tasks: _Tasks, price: float) -> list[HistGradientBoostingRegressor]:
    """Learn from the last step to the first by how much handing off now beats the best that follows."""
    steps = tasks.risk.shape[1]
    worth = tasks.success - np.float32(price) * tasks.cost
    best = worth[:, steps].copy()
    rules = []
    for step in reversed(range(steps)):
        alive, seen = tasks.visible(step)
        now = worth[alive, step]
        rule = HistGradientBoostingRegressor(
            max_iter=60, learning_rate=0.15, max_leaf_nodes=15, min_samples_leaf=200, early_stopping=False
        ).fit(seen, now - best[alive])
        best[alive] = np.where(rule.predict(seen) > 0, now, best[alive])
        rules.append(rule)
    return rules[::-1]
