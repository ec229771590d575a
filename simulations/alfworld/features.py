"""What a task is like, from its words and the first observation alone.

The paper's twelve numbers encode the requested state, the task form, the target category, the receptacle type and the
visible-entity count; it does not list them. Here:

====================  ==============================================================================================
requested state (3)   `state_clean`, `state_hot`, `state_cold`; none of them: no state is asked for
task form (2)         `form_examine` (under a lamp), `form_pick_two` (two objects of a kind); neither: place one
target category (3)   `target_food`, `target_kitchenware`, `target_household` (what a bathroom or a shelf has: soap,
                      towels, vases, pillows); none: a personal belonging such as a book, a phone or a pen
receptacle type (3)   `receptacle_openable`, `receptacle_surface`, `receptacle_appliance`; none: a bin, a toilet, a
                      lamp
visible entities (1)  `visible_entities`, how many receptacles the first observation names
====================  ==============================================================================================

All but the count are 0 or 1. A fridge or a microwave is openable and an appliance. A lamp is no receptacle.
"""

from __future__ import annotations

from bayes_tacit.agents.protocols import Observation
from models.alfworld import FEATURES
from simulations.alfworld import vocabulary
from simulations.alfworld.text import read_task, receptacles

DESCRIPTORS = ("receptacle_openable", "receptacle_surface", "needs_tool", "state_cold", "target_food")
"""Names of the task router's five binary descriptors, in the paper's order."""


def task_features(first: Observation) -> dict[str, float]:
    """Give the twelve task features.

    Examples
    --------
    >>> first = Observation("You see a fridge 1, a drawer 2, and a drawer 1.", task="put a cool apple in drawer.")
    >>> [name for name, value in task_features(first).items() if value]
    ['state_cold', 'target_food', 'receptacle_openable', 'visible_entities']
    """
    task = read_task(first.task)
    place = task.place if task.form != "look" else None
    values = (
        task.state == "clean",
        task.state == "hot",
        task.state == "cool",
        task.form == "look",
        task.form == "place_two",
        task.target in vocabulary.FOOD,
        task.target in vocabulary.KITCHENWARE,
        task.target in vocabulary.HOUSEHOLD,
        place in vocabulary.OPENABLE,
        place in vocabulary.SURFACES,
        place in vocabulary.APPLIANCES,
        len(receptacles(first.text)),
    )
    return dict(zip(FEATURES, map(float, values), strict=True))


def router_descriptors(first: Observation) -> dict[str, float]:
    """Give the task router's five binary descriptors.

    A task needs an external tool if the object must be cleaned, heated, cooled or lit.

    Examples
    --------
    >>> first = Observation("You see a desk 1.", task="look at bowl under the desklamp.")
    >>> router_descriptors(first)
    {'receptacle_openable': 0.0, 'receptacle_surface': 0.0, 'needs_tool': 1.0, 'state_cold': 0.0, 'target_food': 0.0}
    """
    task = read_task(first.task)
    known = task_features(first)
    known["needs_tool"] = float(task.state is not None or task.form == "look")
    return {name: known[name] for name in DESCRIPTORS}
