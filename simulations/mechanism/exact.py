"""Success and steps of a fixed handoff without simulation: dynamic programming over states and correct actions.

Given a task's traits, state and number of correct actions form a Markov chain. The traits are integrated out by
Gauss-Hermite quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit

from bayes_tacit import validate
from simulations.mechanism.parameters import STATES, Mechanism

Actor = Literal["cheap", "strong"]

NODES = 40
"""Quadrature points for each trait; more change the sixth digit at most."""


@dataclass(frozen=True)
class Expected:
    """What a fixed handoff gives on average.

    Attributes
    ----------
    success
        Probability of success.
    cheap_calls, strong_calls
        Mean number of steps of each actor.
    cost
        What they cost.
    """

    success: float
    cheap_calls: float
    strong_calls: float
    cost: float


def success_probability(mechanism: Mechanism, actor: Actor) -> float:
    """Give the probability that an actor succeeds alone.

    Examples
    --------
    >>> from simulations.mechanism import calibrated
    >>> round(success_probability(calibrated(), "strong"), 2)
    0.85
    """
    validate.choice("actor", actor, ("cheap", "strong"))
    return expected_outcome(mechanism, 0 if actor == "strong" else mechanism.steps).success


def expected_outcome(mechanism: Mechanism, handoff: int) -> Expected:
    """Give success, calls and cost when Strong takes over at a step of every task.

    Parameters
    ----------
    mechanism
        The parameters.
    handoff
        The step from which Strong acts: 0 is Pure Strong, the number of steps is Pure Cheap.
    """
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
    """Give nodes for z and v and their weights."""
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
    """Give the probabilities of a correct action (node, state) and of the moves (node, state, state)."""
    if actor == "strong":
        fall = of.difficulty_on_strong * z + of.resistance_on_strong * v
        moves = np.broadcast_to(np.array(of.strong_moves), (len(z), 3, 3))
        return expit(logit(of.strong_correct) - fall[:, None]), moves
    tilt = np.exp(of.difficulty_on_drift * z[:, None] * np.array([-1.0, 0.0, 1.0]))
    weighted = np.array(of.cheap_moves) * tilt[:, None, :]
    correct = expit(logit(of.cheap_correct) - of.difficulty_on_cheap * z[:, None])
    return correct, weighted / weighted.sum(axis=2, keepdims=True)
