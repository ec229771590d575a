"""What no policy sees: when a task went off track, and how long after that it was handed off."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import Comparison, World
from simulations.mechanism import kernels
from simulations.mechanism.parameters import OFF_TRACK
from simulations.mechanism.world import RISK, StepDeferral
from simulations.studies.study import Row


def hidden_states(world: World) -> np.ndarray:
    """Give the state after each of Cheap's steps, (task, step); -1 past the end of its rollout."""
    if not isinstance(world.deferral, StepDeferral):
        raise InvalidDataError("a world of the mechanism simulator", field="world", value=world)
    tasks = world.deferral.tasks
    of = tasks.mechanism
    _, states, *_ = kernels.roll_out(
        *tasks.actors, tasks.risk_noise, np.array(of.risk_mean), of.risk_of_error, of.needed
    )
    return states


def of_handoffs(result: Comparison, states: np.ndarray, policies: Iterable[str]) -> dict[str, Row]:
    """Measure the handoffs of policies that hand off for good, on the tasks where anything was left to do.

    Returns
    -------
    dict
        By policy: `handoff_off_track`, the share of handoffs that come when the task is off track; `handoff_delay`, how
        many steps after it first was, on average over the handoffs that come after that; `handoff_success`, how often
        the tasks that were handed off are won.
    """
    off = states == OFF_TRACK
    first_off = np.where(off.any(axis=1), off.argmax(axis=1), states.shape[1])
    found: dict[str, Row] = {}
    for name in policies:
        outcomes = result.outcomes[name]
        handed_off = np.flatnonzero(outcomes.strong_calls > 0)
        # Cheap's last step before the handoff, counted from 0.
        last = outcomes.cheap_calls[handed_off].astype(int) - 1
        delay = last - first_off[handed_off]
        found[name] = {
            "handoff_off_track": float(off[handed_off, last].mean()),
            "handoff_delay": float(delay[delay >= 0].mean()),
            "handoff_success": float(outcomes.success[handed_off].mean()),
        }
    return found


def of_alarms(test: World, states: np.ndarray, alpha: float) -> dict[str, float]:
    """Tell how well one risk of at least alpha gives the state away.

    Returns
    -------
    dict
        `alarms_off_track`, the share of such risks that come from off track; `off_track_with_alarm` and
        `elsewhere_with_alarm`, the share of all risks from off track, and from the other states, that are such ones.
    """
    risk = test.episodes.dataset["diagnostics"].sel(diagnostic=RISK).values
    inside = ~np.isnan(risk)
    alarm, off = risk[inside] >= alpha, states[:, : risk.shape[1]][inside] == OFF_TRACK
    return {
        "alarms_off_track": float(off[alarm].mean()),
        "off_track_with_alarm": float(alarm[off].mean()),
        "elsewhere_with_alarm": float(alarm[~off].mean()),
    }
