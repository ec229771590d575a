"""What is known about the outcome of a handoff that the log does not hold, and what may be assumed about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError

Assumption = Literal["window", "both_succeed", "both_fail", "strong_length"]

ASSUMPTIONS: dict[Assumption, str] = {
    "window": (
        "AB = 01 with a teacher window: a handoff at or before the window's last checkpoint succeeds. The teacher "
        "judged recovery feasible up to there, with both rollouts in view; it is a judgement (in the paper's "
        "simulation 85.6% of handoffs at the mark succeed)."
    ),
    "both_succeed": (
        "AB = 11: a handoff at any step succeeds. Each agent alone succeeds on the task; Strong is taken not to be "
        "misled by what Cheap began."
    ),
    "both_fail": (
        "AB = 00: a handoff at any step fails. Each agent alone fails on the task; what Cheap has done is taken not to "
        "help Strong, nor a second attempt to go better."
    ),
    "strong_length": (
        "Strong takes at most as many steps after a handoff as in its own rollout from the start: Cheap's steps are "
        "taken not to set it back."
    ),
}
"""What narrows the bounds, by name. None of them can be checked on the log."""


@dataclass(frozen=True)
class Logged:
    """What the log says of each episode.

    Attributes
    ----------
    cheap_success, strong_success
        A and B.
    n_steps
        Length of the Cheap rollout.
    window_end
        Last checkpoint of the teacher window, NaN where there is none.
    strong_steps
        Length of Strong's own rollout, if it is known.
    """

    cheap_success: np.ndarray
    strong_success: np.ndarray
    n_steps: np.ndarray
    window_end: np.ndarray
    strong_steps: np.ndarray | None


@dataclass(frozen=True)
class Reach:
    """The least and the most that is possible, by episode."""

    success_low: np.ndarray
    success_high: np.ndarray
    strong_calls_low: np.ndarray
    strong_calls_high: np.ndarray
    cheap_calls: np.ndarray


def certain_reach(logged: Logged, handoff: np.ndarray, step_budget: int | None, *, discards_proposal: bool) -> Reach:
    """Bound the outcome of handing off at a step of each episode, without assumptions."""
    never = _is_never(logged, handoff)
    from_start = handoff == 0
    success = np.where(never, logged.cheap_success, logged.strong_success).astype(float)
    known = never | from_start
    least = np.where(never, 0.0, 1.0)
    most = np.where(never, 0.0, np.inf if step_budget is None else step_budget - handoff)
    if logged.strong_steps is not None:
        least, most = (np.where(from_start, logged.strong_steps, calls) for calls in (least, most))
    return Reach(
        success_low=np.where(known, success, 0.0),
        success_high=np.where(known, success, 1.0),
        strong_calls_low=least,
        strong_calls_high=most,
        cheap_calls=np.where(never, logged.n_steps, handoff + discards_proposal).astype(float),
    )


def narrowed_reach(reach: Reach, logged: Logged, handoff: np.ndarray, assumptions: Iterable[Assumption]) -> Reach:
    """Narrow what is certain by what is assumed."""
    cheap, strong = logged.cheap_success, logged.strong_success
    unknown = ~_is_never(logged, handoff) & (handoff > 0)
    low, high, most = reach.success_low, reach.success_high, reach.strong_calls_high
    for name in assumptions:
        if name == "window":
            # A mark at t means that Strong acts from t + 1 on, under either timing; no window compares as false.
            low = np.where(unknown & ~cheap & strong & (handoff <= logged.window_end + 1), 1.0, low)
        elif name == "both_succeed":
            low = np.where(unknown & cheap & strong, 1.0, low)
        elif name == "both_fail":
            high = np.where(unknown & ~cheap & ~strong, 0.0, high)
        elif logged.strong_steps is not None:
            most = np.where(unknown, np.minimum(most, logged.strong_steps), most)
    return replace(reach, success_low=low, success_high=high, strong_calls_high=most)


def as_assumptions(given: Iterable[Assumption] | None, *, with_lengths: bool) -> tuple[Assumption, ...]:
    """Give the assumptions to make: those that were named, or all for which the log has what they need."""
    known = get_args(Assumption)
    if given is None:
        return tuple(name for name in known if with_lengths or name != "strong_length")
    if isinstance(given, str):
        raise InvalidDataError("a list of names", field="assumptions", value=given)
    wanted = tuple(dict.fromkeys(validate.choice("assumption", name, known) for name in given))
    if "strong_length" in wanted and not with_lengths:
        expected = "strong_steps, the lengths of Strong's rollouts, for the assumption 'strong_length'"
        raise InvalidDataError(expected, field="strong_steps", value=None)
    return wanted


def _is_never(logged: Logged, handoff: np.ndarray) -> np.ndarray:
    return (handoff == NEVER) | (handoff >= logged.n_steps)
