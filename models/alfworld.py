"""ALFWorld: 12 task features, five step diagnostics, decisions after each executed action.

The paper names what the 12 features encode (requested state, task form, target category, receptacle type, and the
number of visible entities) and not how; the coding is ours (`simulations.alfworld.task_features`). Ridge 0.01
and five starts are the paper's; it optimizes by Adam with early stopping, here Newton's method goes to the optimum. A
teacher's mark is a single checkpoint in the main experiment and a range in the larger one; both are just windows in the
data.
"""

from __future__ import annotations

from models.experiment import Experiment

FEATURES = (
    "state_clean",
    "state_hot",
    "state_cold",
    "form_examine",
    "form_pick_two",
    "target_food",
    "target_kitchenware",
    "target_household",
    "receptacle_openable",
    "receptacle_surface",
    "receptacle_appliance",
    "visible_entities",
)
"""Names of the twelve task features, in order."""

DIAGNOSTICS = ("repeated_action", "short_cycle", "uncertainty", "invalid_action", "unchanged_observation")
"""Names of the five diagnostics, in order."""

ALFWORLD = Experiment(features=FEATURES, diagnostics=DIAGNOSTICS, ridge=0.01, restarts=5, timing="post_action")
