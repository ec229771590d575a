"""The compiled loops of the mechanism simulator: rollouts with every handoff, the teacher, and step deferral.

They compare and add; every logarithm, exponential and random number comes from NumPy. So a version of the same
simulator in plain NumPy gives the same numbers to the last bit, and every policy reads the same uniforms at a step.

Shapes: (task, state) for the probabilities of a correct action, (task, state, 2) or (state, 2) for the cumulative
probabilities of moving on track and to at most recoverable, (task, step) for uniforms and noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np


def compiled[Function: Callable[..., Any]](function: Function) -> Function:
    """Compile on the first call, keep the machine code beside the module, release the interpreter while running."""
    return numba.njit(cache=True, nogil=True)(function)


@compiled
def moved(cumulative: np.ndarray, uniform: float) -> int:
    """Return the state that a uniform number leads to."""
    if uniform < cumulative[0]:
        return 0
    return 1 if uniform < cumulative[1] else 2


@compiled
def emitted(mean: float, error: float, noise: float) -> float:
    """Return the risk that is seen."""
    return max(0.0, mean + error + noise)


@compiled
def roll_out(
    cheap_correct: np.ndarray,
    strong_correct: np.ndarray,
    cheap_moves: np.ndarray,
    strong_moves: np.ndarray,
    act: np.ndarray,
    move: np.ndarray,
    noise: np.ndarray,
    risk_mean: np.ndarray,
    risk_of_error: float,
    needed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Play Cheap to the end of each task, and Strong from each step of it.

    Returns
    -------
    risk, state
        (task, step), of the Cheap rollout, after the step; NaN and -1 past its end.
    n_steps, cheap_success
        (task,), of the Cheap rollout.
    success, strong_calls
        (task, handoff), when Strong takes over at a step of the Cheap rollout; NaN past its end.
    """
    n, steps = act.shape
    risk = np.full((n, steps), np.nan)
    states = np.full((n, steps), -1, dtype=np.int8)
    n_steps = np.full(n, steps)
    cheap_success = np.zeros(n, dtype=np.bool_)
    success = np.full((n, steps), np.nan)
    strong_calls = np.full((n, steps), np.nan)
    for task in range(n):
        state, correct = 0, 0
        for step in range(steps):
            late_state, late_correct, last = state, correct, step
            while last < steps and late_correct < needed:
                late_correct += act[task, last] < strong_correct[task, late_state]
                late_state = moved(strong_moves[late_state], move[task, last])
                last += 1
            success[task, step] = late_correct >= needed
            strong_calls[task, step] = last - step

            wrong = act[task, step] >= cheap_correct[task, state]
            state = moved(cheap_moves[task, state], move[task, step])
            risk[task, step] = emitted(risk_mean[state], risk_of_error if wrong else 0.0, noise[task, step])
            states[task, step] = state
            if not wrong:
                correct += 1
                if correct >= needed:
                    n_steps[task] = step + 1
                    cheap_success[task] = True
                    break
    return risk, states, n_steps, cheap_success, success, strong_calls


@compiled
def mark(
    risk: np.ndarray,
    state: np.ndarray,
    n_steps: np.ndarray,
    threshold: np.ndarray,
    cheap_correct: np.ndarray,
    strong_correct: np.ndarray,
    checkpoints: int,
    gain: float,
) -> np.ndarray:
    """Find the teacher's candidate on each Cheap rollout: a checkpoint from 0 on, -1 where there is none.

    It is the earliest of the first checkpoints at which the task is unfinished, cumulative risk is at or above the
    task's threshold, the state is recoverable or off track, and Strong's next action is better by the gain.
    """
    n, steps = risk.shape
    found = np.full(n, -1)
    for task in range(n):
        cumulative = 0.0
        # The last checkpoint of a rollout leaves nothing to do.
        for step in range(min(checkpoints, n_steps[task] - 1, steps)):
            cumulative += risk[task, step]
            at = state[task, step]
            better = strong_correct[task, at] - cheap_correct[task, at] >= gain
            if cumulative >= threshold[task] and at > 0 and better:
                found[task] = step
                break
    return found


@compiled
def defer_steps(
    thresholds: np.ndarray,
    offset: np.ndarray,
    slope: float,
    cheap_correct: np.ndarray,
    strong_correct: np.ndarray,
    cheap_moves: np.ndarray,
    strong_moves: np.ndarray,
    act: np.ndarray,
    move: np.ndarray,
    noise: np.ndarray,
    risk_mean: np.ndarray,
    risk_of_error: float,
    needed: int,
) -> np.ndarray:
    """Play step deferral at rising thresholds: (success, Cheap's and Strong's calls; threshold; task).

    What is compared with a threshold is the task's offset plus the slope times the risk: with 0 and 1 the risk itself.
    Neighbouring thresholds that have decided alike so far share one path, which splits where a risk lies between them.
    Parts of the path that wait to be played are kept in `waiting`: first and last threshold, step, state, correct
    actions and calls of Strong. A split adds one part at most and there are `steps` splits on a path.
    """
    n, steps = act.shape
    out = np.empty((3, len(thresholds), n))
    waiting = np.empty((steps + 2, 6), dtype=np.int64)
    for task in range(n):
        waiting[0] = 0
        waiting[0, 1] = len(thresholds)
        n_waiting = 1
        while n_waiting:
            n_waiting -= 1
            first, last, step, state, correct, strong = waiting[n_waiting]
            deferred = False
            while step < steps and correct < needed:
                if deferred:
                    correct += act[task, step] < strong_correct[task, state]
                    state = moved(strong_moves[state], move[task, step])
                    strong += 1
                    step += 1
                    deferred = False
                    continue
                wrong = act[task, step] >= cheap_correct[task, state]
                correct += not wrong
                state = moved(cheap_moves[task, state], move[task, step])
                risk = emitted(risk_mean[state], risk_of_error if wrong else 0.0, noise[task, step])
                step += 1
                # Thresholds up to it defer, those above it go on.
                compared = offset[task] + slope * risk
                split = first + np.searchsorted(thresholds[first:last], compared, side="right")
                if split == last:
                    deferred = True
                elif split > first and step < steps and correct < needed:
                    waiting[n_waiting, 0] = split
                    waiting[n_waiting, 1] = last
                    waiting[n_waiting, 2] = step
                    waiting[n_waiting, 3] = state
                    waiting[n_waiting, 4] = correct
                    waiting[n_waiting, 5] = strong
                    n_waiting += 1
                    last = split
                    deferred = True
            out[0, first:last, task] = correct >= needed
            out[1, first:last, task] = step - strong
            out[2, first:last, task] = strong
    return out
