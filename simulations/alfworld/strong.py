"""The Strong scripted actor: plans the subgoals and searches first where things usually are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from bayes_tacit.agents.draws import pick, uniforms
from bayes_tacit.agents.protocols import History, Proposal
from simulations.alfworld.belief import Belief
from simulations.alfworld.knowledge import Places, usual_places
from simulations.alfworld.plan import approach, next_goal
from simulations.alfworld.text import kind, read_task, receptacles
from simulations.alfworld.vocabulary import OPENABLE


@dataclass(frozen=True)
class StrongActor:
    """Plays well, by rules, seeing only what a player sees.

    Before each action it works out from the whole visible history, whoever made it, where everything was last seen,
    what it holds and what was done to it; so it can take over in the middle of an episode. Then it takes the first
    step of `plan` towards the next open subgoal. An object or a lamp that it has not seen it looks for where the
    chance of finding it for each action is greatest, by the table of `knowledge` (opening a receptacle is an action):
    it draws a receptacle with probability proportional to that chance, to the power `sharpness`.

    It is not perfect. It cannot see into what it has not opened, and each time that it reads a list it notices each
    thing that is new to it with probability 1 - `overlooks`. What it has noticed once, or has seen taken or put, it
    recognizes wherever it is shown again. When it has seen everything and found nothing, it looks again where it has
    not looked for longest. So on some games fifty actions are not enough, and long searches, two objects and crowded
    rooms are harder than others.

    Its likelihood is exact: the probability with which it draws the action, given what it has noticed.

    Parameters
    ----------
    seed
        For what it overlooks and where it looks first.
    overlooks
        Probability of not noticing a thing in a list that it does not know yet.
    sharpness
        How firmly it prefers the better places.
    places
        What it knows of where things are.
    """

    seed: int = 0
    overlooks: float = 0.5
    sharpness: float = 1.0
    places: Places = field(default_factory=usual_places, repr=False)
    name: str = "scripted-strong"

    def act(self, history: History) -> Proposal:
        """Propose the next action."""
        admissible = history.observation.admissible or ()
        belief = self._believed(history)
        goal = next_goal(read_task(history.task), belief, admissible)
        if goal.actions:
            chances = dict.fromkeys(goal.actions, 1 / len(goal.actions))
        else:
            chances = self._search(goal.looks_for, belief, admissible)
        action, probability = pick(chances, uniforms(self.seed, history, 1, "strong")[0])
        return Proposal(action, nll=max(0.0, -math.log(probability)))

    def _believed(self, history: History) -> Belief:
        """Work out what it knows: what it has noticed or handled once, it does not overlook at a later look."""
        known: set[str] = set()

        def noticed(at: int, place: str, things: tuple[str, ...]) -> list[str]:
            draws = uniforms(self.seed, history, len(things), f"strong reads {place}", at)
            pairs = zip(things, draws, strict=True)
            found = [thing for thing, draw in pairs if thing in known or draw >= self.overlooks]
            known.update(found)
            return found

        belief = Belief(receptacles(history.first.text))
        for at, step in enumerate(history.steps):
            belief.see(at, step, noticed)
            if belief.holding is not None:
                known.add(belief.holding)
        return belief

    def _search(self, kinds: Iterable[str], belief: Belief, admissible: tuple[str, ...]) -> dict[str, float]:
        """Give the probability of each first step towards a receptacle worth a look."""
        wanted = tuple(kinds)
        open_here = f"open {belief.at}"
        if open_here in admissible and belief.at not in belief.looked:
            return {open_here: 1.0}
        unseen = [place for place in belief.unseen() if place != belief.at]
        if not unseen:
            others = [place for place in belief.places if place != belief.at]
            longest = min(others, key=lambda place: belief.looked[place], default=belief.at or "")
            return {approach(longest, admissible): 1.0}
        worth: dict[str, float] = {}
        for place in unseen:
            chance = 1 - math.prod(1 - self.places.chance(thing, kind(place)) for thing in wanted)
            actions = 2 if place in belief.closed or kind(place) in OPENABLE else 1
            action = approach(place, admissible)
            worth[action] = worth.get(action, 0.0) + (chance / actions) ** self.sharpness
        total = sum(worth.values())
        return {action: value / total for action, value in worth.items()}
