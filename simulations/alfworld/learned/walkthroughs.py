"""Walkthroughs: commands that win a game straight away, by one who knows where everything is.

Game files may hold one; where they do not, the package looks for a shortest one with a planner, which takes seconds in
a kitchen. Knowing where things are, the plan of `simulations.alfworld.plan` finds one at once that is as long,
or a command longer.
"""

from __future__ import annotations

import json

from bayes_tacit.agents.protocols import History, Proposal, Step
from bayes_tacit.errors import InvalidDataError
from simulations.alfworld.belief import Belief
from simulations.alfworld.environment import AlfworldEnvironment
from simulations.alfworld.plan import next_goal
from simulations.alfworld.text import read_task, receptacles
from simulations.alfworld.vocabulary import OPENABLE

LONGEST = 50


def walkthrough(environment: AlfworldEnvironment) -> tuple[str, ...]:
    """Give commands that win a game: those of its file, else those of one who knows where everything is.

    Raises
    ------
    InvalidDataError
        If they do not win.
    """
    given = json.loads(environment.game.read_text(encoding="utf-8")).get("walkthrough")
    commands = tuple(map(str, given)) if given else _found(environment)
    environment.reset()
    answers = [environment.step(command) for command in commands]
    if not answers or not answers[-1].success:
        raise InvalidDataError("commands that win", field="walkthrough", value=commands, where=str(environment.game))
    return commands


def _found(environment: AlfworldEnvironment) -> tuple[str, ...]:
    inside = environment.contents()
    history = History(environment.reset())
    belief = Belief(receptacles(history.first.text))
    belief.contents = {place: list(inside.get(place, ())) for place in belief.places}
    belief.closed = {place for place in belief.places if place.split()[0] in OPENABLE}
    task = read_task(history.task)
    while len(history) < LONGEST and not (history.steps and history.steps[-1].result.done):
        goal = next_goal(task, belief, history.observation.admissible or ())
        if not goal.actions:
            break
        step = Step("strong", Proposal(goal.actions[0]), environment.step(goal.actions[0]))
        belief.see(len(history), step)
        history = history.then(step)
    return history.actions
