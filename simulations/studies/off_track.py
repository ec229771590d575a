"""What no policy sees: when a task went off track, and how long after that it was handed off."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import Comparison, World
from simulations.mechanism import calibration, kernels
from simulations.mechanism.parameters import OFF_TRACK
from simulations.mechanism.world import RISK, StepDeferral
from simulations.studies.contest import ALARM, TACIT, by_policy
from simulations.studies.study import Row
from simulations.studies.tables import markdown_table, mean_and_half_width, with_half_width

LASTING = (ALARM.name, TACIT.name, "risk-only")
"""Policies that hand off for good, whose handoffs are put beside the hidden states."""


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


def handoffs_in_words(table: pd.DataFrame, checks: pd.DataFrame) -> str:
    """Say from the hidden states what First Alarm gains and what it gives up."""
    of = calibration().mechanism
    measures = ("intervention_rate", "handoff_off_track", "handoff_delay", "handoff_success")
    found = {measure: by_policy(table, measure, 1 if measure == "handoff_delay" else 100) for measure in measures}
    late = {name: found["handoff_delay"][name].mean() for name in LASTING}
    won = {name: found["handoff_success"][name].mean() for name in LASTING}
    share = {name: 100 * checks[name].mean() for name in ("alarms_off_track", "elsewhere_with_alarm")}
    auc = {name: checks[f"auc_{name}"].mean() for name in ("cumulative_risk", "latest_risk")}
    rows = [
        [name, *(with_half_width(*mean_and_half_width(found[measure][name]), digits=2) for measure in measures)]
        for name in LASTING
    ]
    return "\n\n".join(
        [
            f"One high risk nearly gives the hidden state away here: of the risks at or above First Alarm's threshold, "
            f"{share['alarms_off_track']:.0f}% come from off track, where Cheap stays with probability "
            f"{of.cheap_moves[2][2]:.3f} a step; of the risks from the other states, "
            f"{share['elsewhere_with_alarm']:.0f}% reach it. A sum has to wait for more: TACIT-Switch hands off "
            f"{late[TACIT.name]:.1f} steps after the task went off track, First Alarm {late[ALARM.name]:.1f}, and of "
            f"the tasks that they hand off Strong wins {won[TACIT.name]:.0f}% and {won[ALARM.name]:.0f}%. Where risks "
            "are noisier, one says less and the order turns: see [the study of sensitivity](../sensitivity/README.md).",
            markdown_table(
                [
                    "policy",
                    "tasks handed off, %",
                    "of these off track at the handoff, %",
                    "steps since the task first was off track",
                    "tasks handed off that are won, %",
                ],
                rows,
            ),
            f"That the sum of a whole rollout predicts Cheap's failure better than its last risk (AUC "
            f"{auc['cumulative_risk']:.2f} and {auc['latest_risk']:.2f}) says nothing of who knows it earlier.",
        ]
    )
