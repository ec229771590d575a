"""The scripted pair: Cheap errs by a known process, Strong knows where things are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bayes_tacit.agents.protocols import History, Proposal
from simulations.alfworld.plan import Belief, Places, approach, next_goal, usual_places
from simulations.alfworld.text import (
    FOOD,
    KITCHENWARE,
    OPENABLE,
    TOILETRIES,
    Task,
    kind,
    number,
    read_task,
    receptacles,
)
from simulations.draws import pick, uniforms

CHECKS = ("look", "inventory")
"""What it does when it takes the task for done."""


@dataclass(frozen=True)
class ErrorProcess:
    """What goes wrong with Cheap, as probabilities.

    Attributes
    ----------
    skips_state
        In an episode: it forgets that the object must be cleaned, heated or cooled, places it as it is, and takes the
        task for done. Strong, who can read the history, takes the object up again: recoverable while actions remain.
    settles_for_one
        In an episode with two objects: it takes the task for done after the first. Recoverable likewise.
    overlooks
        For each thing in a list: it does not notice it.
    forgets
        At each step, for each receptacle that it has seen: it no longer knows what is in it, and may go there again.
    mistakes
        At each step with empty hands before a thing of the target's category and no known target: it takes that.
    loses_composure, worn_by
        At each step: it becomes confused; `worn_by` is added for each of its last five steps that told it nothing new.
    recovers
        At each step: it is no longer confused. A step that Strong has taken ends the confusion as well.
    repeats, rambles, garbles
        At a confused step: it does one of the last three actions again; it does anything admissible; its answer is no
        admissible action. Else it follows its plan.
    slips
        At a step with composure: it does anything admissible.
    """

    skips_state: float = 0.5
    settles_for_one: float = 0.5
    overlooks: float = 0.6
    forgets: float = 0.06
    mistakes: float = 0.1
    loses_composure: float = 0.07
    worn_by: float = 0.1
    recovers: float = 0.03
    repeats: float = 0.5
    rambles: float = 0.15
    garbles: float = 0.15
    slips: float = 0.08


@dataclass(frozen=True)
class CheapActor:
    """Plays badly, by rules, seeing only what a player sees.

    It has the plan of `plan`, but no idea of where things usually are: it looks for them in any receptacle that it does
    not remember, with equal probability for each kind and then for each of the kind. And it errs as its `ErrorProcess`
    says. Whether it is confused, what it has forgotten and overlooked are functions of the seed, the game and the
    visible history, so it plays the same episode again in the same way and can be asked to go on from any history.

    Some of its failures come from the episode's difficulty (more receptacles to search, a state to bring about, two
    objects), which features foretell; others come over it on the way, and then it repeats itself, garbles commands and
    wanders, which diagnostics show. Nothing it does is beyond repair, but the actions it has used up are gone.

    Its likelihood is exact: the probability with which it draws the action, given the state it is in.

    Parameters
    ----------
    seed
        For everything that is drawn.
    errors
        What goes wrong.
    """

    seed: int = 0
    errors: ErrorProcess = ErrorProcess()
    name: str = "scripted-cheap"

    def act(self, history: History) -> Proposal:
        """Propose the next action."""
        action, probability = pick(self.chances(history), uniforms(self.seed, history, 1, "cheap acts")[0])
        return Proposal(action, nll=max(0.0, -math.log(probability)))

    def chances(self, history: History) -> dict[str, float]:
        """Return the probability of each answer."""
        admissible = history.observation.admissible or ()
        task = read_task(history.task)
        belief = self._remembered(history)
        plan = self._plan(task, belief, history, admissible)
        errors = self.errors
        anything = dict.fromkeys(admissible, 1 / len(admissible))
        if not self.confused(history):
            return _mixture((1 - errors.slips, plan), (errors.slips, anything))
        recent = [action for action in history.actions[-3:] if action in admissible]
        again = {action: recent.count(action) / len(recent) for action in recent} or plan
        rest = 1 - errors.repeats - errors.rambles - errors.garbles
        garbled = {_garbled(task, belief): 1.0}
        parts = (errors.repeats, again), (errors.rambles, anything), (errors.garbles, garbled), (rest, plan)
        return _mixture(*parts)

    def confused(self, history: History) -> bool:
        """Return whether it has lost its composure."""
        confused = False
        stale: list[bool] = []
        seen: set[tuple[str, str]] = set()
        for at in range(len(history) + 1):
            draw = uniforms(self.seed, history, 1, "cheap keeps composure", at)[0]
            if confused:
                confused = draw >= self.errors.recovers
            else:
                confused = draw < self.errors.loses_composure + self.errors.worn_by * sum(stale[-5:])
            if at < len(history):
                step = history.steps[at]
                shown = (step.proposal.action, step.result.observation.text)
                stale.append(shown in seen or not step.result.valid)
                seen.add(shown)
                confused = confused and step.agent == "cheap"
        return confused

    def _remembered(self, history: History) -> Belief:
        belief = Belief.of(history, lambda at, place, things: self._noticed(history, at, place, things))
        for place, at in list(belief.looked.items()):
            kept = (1 - self.errors.forgets) ** (len(history) - 1 - at)
            # One number for each look: what is forgotten stays forgotten as the episode goes on.
            if place != belief.at and uniforms(self.seed, history, 1, f"cheap forgets {place}", at)[0] >= kept:
                belief.forget(place)
        return belief

    def _noticed(self, history: History, at: int, place: str, things: tuple[str, ...]) -> list[str]:
        draws = uniforms(self.seed, history, len(things), f"cheap reads {place}", at)
        return [thing for thing, draw in zip(things, draws, strict=True) if draw >= self.errors.overlooks]

    def _plan(self, task: Task, belief: Belief, history: History, admissible: tuple[str, ...]) -> dict[str, float]:
        """Return the probability of each action that its idea of the task suggests."""
        skips, settles = uniforms(self.seed, history, 2, "cheap understands", 0)
        idea = task
        if skips < self.errors.skips_state:
            idea = replace(idea, state=None)
        if task.form == "place_two" and settles < self.errors.settles_for_one:
            idea = replace(idea, form="place")
        if belief.holding is None and _placed(idea, history):
            return {action: 1 / len(CHECKS) for action in CHECKS}
        goal = next_goal(idea, belief, admissible)
        if goal.actions:
            return dict.fromkeys(goal.actions, 1 / len(goal.actions))
        searched = self._search(belief, admissible)
        lookalikes = _lookalikes(task, belief, admissible)
        if not lookalikes:
            return searched
        taken = dict.fromkeys(lookalikes, 1 / len(lookalikes))
        return _mixture((1 - self.errors.mistakes, searched), (self.errors.mistakes, taken))

    def _search(self, belief: Belief, admissible: tuple[str, ...]) -> dict[str, float]:
        open_here = f"open {belief.at}"
        if open_here in admissible and belief.at not in belief.looked:
            return {open_here: 1.0}
        unknown = [place for place in belief.unseen() if place != belief.at]
        unknown = unknown or [place for place in belief.places if place != belief.at]
        kinds = {kind(place) for place in unknown}
        of_kind = {one: [place for place in unknown if kind(place) == one] for one in kinds}
        chances: dict[str, float] = {}
        for place in unknown:
            action = approach(place, admissible)
            chances[action] = chances.get(action, 0.0) + 1 / len(kinds) / len(of_kind[kind(place)])
        return chances or {"look": 1.0}


def _placed(idea: Task, history: History) -> bool:
    """Return whether it has put an object where it thinks that one belongs: then it takes the task for done."""
    if idea.form != "place":
        return False
    puts = (step.proposal.action.split() for step in history.steps if step.result.valid)
    return any(
        words[0] in ("put", "move") and len(words) == 6 and (words[1], words[4]) == (idea.target, idea.place)
        for words in puts
        if words
    )


def _lookalikes(task: Task, belief: Belief, admissible: tuple[str, ...]) -> list[str]:
    """List the ways to take a thing of the target's category here."""
    category = next((group for group in (FOOD, KITCHENWARE, TOILETRIES) if task.target in group), frozenset())
    others = category - {task.target}
    takes = (action for action in admissible if action.startswith("take "))
    return [action for action in takes if belief.holding is None and action.split()[1] in others]


def _garbled(task: Task, belief: Belief) -> str:
    """Return a command for something that is not there: the target, with a number that no object has."""
    place = belief.at or (belief.places[0] if belief.places else "room 1")
    return f"take {task.target} {90 + number(place)} from {place}"


def _mixture(*parts: tuple[float, dict[str, float]]) -> dict[str, float]:
    """Mix distributions."""
    out: dict[str, float] = {}
    for weight, chances in parts:
        for action, chance in chances.items():
            out[action] = out.get(action, 0.0) + weight * chance
    return out


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
        """Return the probability of each first step towards a receptacle worth a look."""
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
