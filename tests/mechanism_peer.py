"""The mechanism simulator once more, in plain NumPy over all tasks at once: an independent peer for tests and timing.

It shares no code with `simulations.mechanism` beyond the parameters and the random numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from simulations.mechanism.draws import Draws
from simulations.mechanism.parameters import Mechanism


class Peer:
    """All tasks of one set of random numbers."""

    def __init__(self, mechanism: Mechanism, draws: Draws) -> None:
        self.of, self.draws, self.tasks = mechanism, draws, np.arange(len(draws))
        z, v = draws.difficulty[:, None], draws.resistance[:, None]
        self.p_cheap = expit(logit(np.array(mechanism.cheap_correct)) - mechanism.difficulty_on_cheap * z)
        fall = mechanism.difficulty_on_strong * z + mechanism.resistance_on_strong * v
        self.p_strong = expit(logit(np.array(mechanism.strong_correct)) - fall)
        of_task = mechanism.risk_noise * np.sqrt(mechanism.risk_persistence) * draws.task_noise
        of_step = mechanism.risk_noise * np.sqrt(1 - mechanism.risk_persistence) * draws.step_noise
        self.noise = of_task[:, None] + of_step

    def features(self) -> np.ndarray:
        columns = []
        for r, trait, noise in (
            (self.of.x1_correlation, self.draws.difficulty, self.draws.feature_noise[:, 0]),
            (self.of.x2_correlation, self.draws.resistance, self.draws.feature_noise[:, 1]),
        ):
            columns.append(r * trait + np.sqrt(1 - r**2) * noise)
        return np.stack(columns, axis=1)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(self.tasks), dtype=int), np.zeros(len(self.tasks), dtype=int)

    def act(self, step: int, state: np.ndarray, strong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step of every task by the actor that it has: whether it is correct, and the next state."""
        p = np.where(strong, self.p_strong[self.tasks, state], self.p_cheap[self.tasks, state])
        tilt = np.exp(self.of.difficulty_on_drift * self.draws.difficulty)
        weights = np.array(self.of.cheap_moves)[state] * np.stack([1 / tilt, np.ones_like(tilt), tilt], axis=1)
        weights = np.where(strong[:, None], np.array(self.of.strong_moves)[state], weights)
        cumulative = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
        moved = (self.draws.move[:, step, None] >= cumulative[:, :2]).sum(axis=1)
        return self.draws.act[:, step] < p, moved

    def risk(self, step: int, state: np.ndarray, correct: np.ndarray) -> np.ndarray:
        mean = np.array(self.of.risk_mean)[state] + np.where(correct, 0.0, self.of.risk_of_error)
        return np.maximum(0.0, mean + self.noise[:, step])

    def cheap(self) -> dict[str, np.ndarray]:
        """Play every task by Cheap; risks and states by step, NaN and -1 past the end."""
        state, correct = self.start()
        nobody = np.zeros(len(self.tasks), dtype=bool)
        risks, states, alive_at = [], [], []
        for step in range(self.of.steps):
            alive = correct < self.of.needed
            right, state = self.act(step, state, nobody)
            correct = correct + (right & alive)
            risks.append(np.where(alive, self.risk(step, state, right), np.nan))
            states.append(np.where(alive, state, -1))
            alive_at.append(alive)
        return {
            "risk": np.stack(risks, axis=1),
            "state": np.stack(states, axis=1),
            "n_steps": np.sum(alive_at, axis=0),
            "success": correct >= self.of.needed,
        }

    def handoff(self, at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play every task with Strong from a step on: success, Cheap's calls, Strong's calls."""
        state, correct = self.start()
        calls = np.zeros((2, len(self.tasks)), dtype=int)
        for step in range(self.of.steps):
            alive = correct < self.of.needed
            right, state = self.act(step, state, np.full(len(self.tasks), step >= at))
            correct = correct + (right & alive)
            calls[int(step >= at)] += alive
        return correct >= self.of.needed, calls[0], calls[1]

    def deferral(self, threshold: float, score=lambda risk: risk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play step deferral, by the risk or a score of it: success, Cheap's calls, Strong's calls."""
        state, correct = self.start()
        strong = np.zeros(len(self.tasks), dtype=bool)
        calls = np.zeros((2, len(self.tasks)), dtype=int)
        for step in range(self.of.steps):
            alive = correct < self.of.needed
            right, state = self.act(step, state, strong)
            correct = correct + (right & alive)
            calls[0] += alive & ~strong
            calls[1] += alive & strong
            strong = ~strong & (score(self.risk(step, state, right)) >= threshold)
        return correct >= self.of.needed, calls[0], calls[1]

    def windows(self) -> np.ndarray:
        """The teacher's marks by checkpoint from 0, NaN where there is none."""
        of, cheap = self.of, self.cheap()
        log_threshold = (
            of.threshold_center
            + of.threshold_difficulty * self.draws.difficulty
            + of.threshold_spread * self.draws.threshold_noise
        )
        total = np.cumsum(cheap["risk"], axis=1)
        steps = np.arange(of.steps)
        state = np.maximum(cheap["state"], 0)
        gain = np.take_along_axis(self.p_strong - self.p_cheap, state, axis=1)
        fine = (
            (steps < of.teacher_checkpoints)
            & (steps < cheap["n_steps"][:, None] - 1)
            & (total >= np.exp(log_threshold)[:, None])
            & (state > 0)
            & (gain >= of.teacher_gain)
        )
        only_strong = ~cheap["success"] & self.handoff(0)[0]
        return np.where(fine.any(axis=1) & only_strong, fine.argmax(axis=1), np.nan)

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Success and Strong's calls by (task, handoff), NaN past the end of the Cheap rollout."""
        inside = np.arange(self.of.steps) < self.cheap()["n_steps"][:, None]
        played = [self.handoff(at) for at in range(self.of.steps)]
        success, strong = (np.stack([one[row] for one in played], axis=1).astype(float) for row in (0, 2))
        return np.where(inside, success, np.nan), np.where(inside, strong, np.nan)
