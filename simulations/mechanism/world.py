"""Tasks of a mechanism as a world: episodes that a policy may see, and what would come of every decision on them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from scipy.special import expit, logit

from bayes_tacit import Episodes
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.router import Router, rules
from simulations.mechanism import kernels
from simulations.mechanism.draws import Draws, draw, replicate_seeds
from simulations.mechanism.parameters import Mechanism

FEATURES = ("x1", "x2")
RISK = "risk"

SIZES = {"train": 8_000, "development": 4_000, "test": 20_000}
"""Tasks of a replicate, as in the paper."""


def simulate(mechanism: Mechanism, n: int, seed: int | np.random.SeedSequence) -> World:
    """Simulate n tasks.

    Examples
    --------
    >>> from simulations.mechanism import calibrated
    >>> simulate(calibrated(), 2_000, seed=1).counterfactuals
    <Counterfactuals: 2000 episodes, handoffs at steps 0 to 9 or never; Pure Cheap 45.4%, Pure Strong 84.7%>
    """
    return world_of(mechanism, draw(n, mechanism.steps, seed))


def simulate_replicate(
    mechanism: Mechanism, seed: int, replicate: int, sizes: dict[str, int] | None = None
) -> dict[str, World]:
    """Simulate the train, development and test tasks of one replicate, from independent streams."""
    sizes = SIZES if sizes is None else sizes
    seeds = replicate_seeds(seed, replicate)
    if set(sizes) != set(seeds):
        raise InvalidDataError(f"sizes of {list(seeds)}", field="sizes", value=sizes)
    return {split: simulate(mechanism, sizes[split], stream) for split, stream in seeds.items()}


def world_of(mechanism: Mechanism, draws: Draws) -> World:
    """Play the tasks that these random numbers make."""
    tasks = Tasks(mechanism, draws)
    risk, state, n_steps, cheap_success, success, strong_calls = kernels.roll_out(
        *tasks.actors, tasks.risk_noise, np.array(mechanism.risk_mean), mechanism.risk_of_error, mechanism.needed
    )
    candidate = kernels.mark(
        risk,
        state,
        n_steps,
        tasks.threshold,
        tasks.cheap_correct,
        tasks.strong_correct,
        mechanism.teacher_checkpoints,
        mechanism.teacher_gain,
    )
    strong_success = success[:, 0] == 1
    marked = (candidate >= 0) & ~cheap_success & strong_success
    window = np.where(marked, candidate, np.nan)
    ids = np.arange(len(draws))
    dataset = xr.Dataset(
        {
            "features": (("episode", "feature"), tasks.features),
            "diagnostics": (("episode", "step", "diagnostic"), risk[:, :, None]),
            "n_steps": ("episode", n_steps),
            "cheap_success": ("episode", cheap_success),
            "strong_success": ("episode", strong_success),
            "window_start": ("episode", window),
            "window_end": ("episode", window),
        },
        coords={"episode": ids, "feature": list(FEATURES), "diagnostic": [RISK]},
    )
    with warnings.catch_warnings():
        # That some AB = 01 tasks have no window, and some windows no risk, is part of the study.
        warnings.simplefilter("ignore", TacitWarning)
        episodes = Episodes(dataset)
    cost = StepCost(mechanism.cheap_cost, mechanism.strong_cost)
    counterfactuals = Counterfactuals.from_calls(
        ids, success=success, strong_calls=strong_calls, never_success=cheap_success, cost=cost
    )
    return World(episodes, counterfactuals, cost, SingleSteps(tasks, cost))


@dataclass(frozen=True, eq=False)
class Tasks:
    """What the parameters make of the random numbers, task by task."""

    mechanism: Mechanism
    draws: Draws

    @cached_property
    def cheap_correct(self) -> np.ndarray:
        """Probability of a correct action of Cheap, (task, state)."""
        return expit(logit(self.mechanism.cheap_correct) - self._fall(self.mechanism.difficulty_on_cheap, 0.0))

    @cached_property
    def strong_correct(self) -> np.ndarray:
        """Probability of a correct action of Strong, (task, state)."""
        fall = self._fall(self.mechanism.difficulty_on_strong, self.mechanism.resistance_on_strong)
        return expit(logit(self.mechanism.strong_correct) - fall)

    @cached_property
    def cheap_moves(self) -> np.ndarray:
        """Cumulative probabilities of Cheap's moves, (task, state, 2)."""
        drift = np.exp(self.mechanism.difficulty_on_drift * self.draws.difficulty)
        weights = np.stack([1 / drift, np.ones_like(drift), drift], axis=1)[:, None, :]
        cumulative = np.cumsum(np.array(self.mechanism.cheap_moves) * weights, axis=2)
        return cumulative[:, :, :2] / cumulative[:, :, 2:]

    @cached_property
    def strong_moves(self) -> np.ndarray:
        """Cumulative probabilities of Strong's moves, (state, 2)."""
        cumulative = np.cumsum(np.array(self.mechanism.strong_moves), axis=1)
        return cumulative[:, :2] / cumulative[:, 2:]

    @cached_property
    def risk_noise(self) -> np.ndarray:
        """Noise on the risk, (task, step)."""
        share, noise = self.mechanism.risk_persistence, self.mechanism.risk_noise
        persistent = noise * np.sqrt(share) * self.draws.task_noise
        return persistent[:, None] + noise * np.sqrt(1 - share) * self.draws.step_noise

    @cached_property
    def features(self) -> np.ndarray:
        """What is seen of the hidden traits, (task, 2)."""
        r = np.array([self.mechanism.x1_correlation, self.mechanism.x2_correlation])
        traits = np.stack([self.draws.difficulty, self.draws.resistance], axis=1)
        return r * traits + np.sqrt(1 - r**2) * self.draws.feature_noise

    @cached_property
    def threshold(self) -> np.ndarray:
        """The cumulative risk from which on the teacher may mark a handoff, (task,)."""
        of = self.mechanism
        return np.exp(
            of.threshold_center
            + of.threshold_difficulty * self.draws.difficulty
            + of.threshold_spread * self.draws.threshold_noise
        )

    @property
    def actors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels take first: how both actors act and move, and their uniforms."""
        moves = (self.cheap_moves, self.strong_moves)
        return self.cheap_correct, self.strong_correct, *moves, self.draws.act, self.draws.move

    def _fall(self, by_difficulty: float, by_resistance: float) -> np.ndarray:
        return (by_difficulty * self.draws.difficulty + by_resistance * self.draws.resistance)[:, None]


@dataclass(frozen=True, eq=False)
class SingleSteps:
    """Plays routers that call Strong for the next step only where Cheap's step scores at least the threshold.

    Called with a router and thresholds (k,), it gives an array (4, k, episode): success, cost, and the calls of Cheap
    and of Strong. Such calls leave the Cheap rollout, so what comes of them cannot be looked up. The score is the risk
    itself, or the probability that a step is wrong, logistic in features and risk.
    """

    tasks: Tasks
    cost: StepCost

    def __call__(self, router: Router, thresholds: np.ndarray) -> np.ndarray:
        """Replay."""
        given, rule = np.asarray(thresholds, dtype=float), router.rule
        if given.ndim != 1 or np.isnan(given).any():
            raise InvalidDataError("a list of numbers", field="thresholds", value=thresholds)
        if router.diagnostic_names != (RISK,):
            expected = f"{RISK!r}, the only diagnostic there is"
            raise InvalidDataError(expected, field="diagnostics of the router", value=list(router.diagnostic_names))
        offset, slope = np.zeros(len(self.tasks.draws)), 1.0
        if isinstance(rule, rules.StepChance):
            weight = rule.wrong.slopes / rule.wrong.scale
            offset += rule.wrong.intercept - float(weight @ rule.wrong.mean)
            for name, one in zip(router.feature_names, weight, strict=False):
                offset += one * self.tasks.features[:, FEATURES.index(name)]
            slope = float(weight[-1])
            # On the scale of log odds; what no probability reaches, and what all reach, is infinite there.
            given = logit(np.clip(given, 0.0, 1.0))
        elif not isinstance(rule, rules.Signal):
            expected = "one that defers steps by their risk, or by the chance that they are wrong"
            raise InvalidDataError(expected, field="policy", value=router.policy)
        return self._play(given, offset, slope)

    def _play(self, given: np.ndarray, offset: np.ndarray, slope: float) -> np.ndarray:
        of = self.tasks.mechanism
        order = np.argsort(given, kind="stable")
        played = kernels.defer_steps(
            given[order],
            offset,
            slope,
            *self.tasks.actors,
            self.tasks.risk_noise,
            np.array(of.risk_mean),
            of.risk_of_error,
            of.needed,
        )
        out = np.empty((4, *played.shape[1:]))
        out[0, order], out[2, order], out[3, order] = played
        out[1] = self.cost.cheap * out[2] + self.cost.strong * out[3]
        return out


def hidden_states(world: World) -> np.ndarray:
    """Return the state after each of Cheap's steps, (task, step); -1 past the end of its rollout."""
    if not isinstance(world.single_steps, SingleSteps):
        raise InvalidDataError("a world of the mechanism simulator", field="world", value=world)
    tasks = world.single_steps.tasks
    of = tasks.mechanism
    risk = np.array(of.risk_mean)
    _, states, *_ = kernels.roll_out(*tasks.actors, tasks.risk_noise, risk, of.risk_of_error, of.needed)
    return states
