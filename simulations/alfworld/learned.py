"""Actors that learned what they know: rankers of admissible commands, cloned from walkthroughs of the games.

Cheap is a small one, which has few games and no memory; Strong a large one, which has all of them and knows what was
seen. Both say how likely their action was, by their own softmax. Cross-fitted, each game is played by rankers that were
trained on games in other rooms.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np
from scipy import optimize, sparse, special

from bayes_tacit import validate
from bayes_tacit.agents.protocols import ActorError, History, Proposal, Step
from bayes_tacit.errors import ConvergenceError, EvidenceError, FileFormatError, InvalidDataError
from bayes_tacit.files import as_path, atomic_path
from simulations.alfworld.benchmark import AlfworldEnvironment
from simulations.alfworld.plan import Belief, next_goal
from simulations.alfworld.text import LAMPS, OPENABLE, Task, kind, read_task, receptacles
from simulations.draws import uniforms

Size = Literal["small", "large"]
CUES: tuple[Size, ...] = get_args(Size)
"""The sets of cues: "small" needs no memory, "large" knows what was seen."""

PREPOSITIONS = ("from", "in/on", "to", "with")


@dataclass(frozen=True)
class Command:
    """A command in parts: "take mug 1 from shelf 2" is take, "mug 1", "shelf 2"; empty where there is none."""

    verb: str
    thing: str
    place: str

    @classmethod
    @lru_cache(maxsize=65536)
    def read(cls, words: str) -> Command:
        """Take a command apart.

        Examples
        --------
        >>> Command.read("put mug 1 in/on shelf 2")
        Command(verb='put', thing='mug 1', place='shelf 2')
        >>> Command.read("go to shelf 2"), Command.read("use desklamp 1").thing, Command.read("look").verb
        (Command(verb='go', thing='', place='shelf 2'), 'desklamp 1', 'look')
        """
        verb, *rest = words.split() or [""]
        between = next((at for at, word in enumerate(rest) if word in PREPOSITIONS), len(rest))
        thing, place = " ".join(rest[:between]), " ".join(rest[between + 1 :])
        if verb in ("open", "close"):
            thing, place = "", thing
        return cls("put" if verb == "move" else verb, thing, place)


def cues(history: History, size: Size) -> list[tuple[str, ...]]:
    """Return the cues of each admissible command, in their order.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> first = Observation("You see a shelf 1.", ("go to shelf 1", "look"), task="put a mug in shelf.")
    >>> cues(History(first), "small")[1]
    ('look', 'look|place', 'look|empty-handed', 'look|place|empty-handed', ' > look')
    """
    validate.choice("size", size, CUES)
    admissible = history.observation.admissible or ()
    seen = _Seen.of(history)
    memory = _Memory.of(history, seen) if size == "large" else None
    out = []
    for words in admissible:
        command = Command.read(words)
        found = [*_small(command, words, seen)]
        if memory is not None:
            found += _large(command, seen, memory)
        out.append(tuple(found))
    return out


@dataclass(frozen=True)
class _Seen:
    """What needs no memory: the task, what is in hand, the action before."""

    task: Task
    aim: str
    hand: str
    held: str
    last: Command
    last_words: str

    @classmethod
    def of(cls, history: History) -> _Seen:
        task = read_task(history.task)
        puts = (Command.read(one) for one in history.observation.admissible or () if one.startswith(("put ", "move ")))
        held = next((one.thing for one in puts), "")
        hand = "empty-handed" if not held else "with target" if kind(held) == task.target else "with other"
        last = history.actions[-1] if history.actions else ""
        return cls(task, task.state or task.form, hand, held, Command.read(last), last)


def _small(command: Command, words: str, seen: _Seen) -> Iterator[str]:
    verb, task = command.verb, seen.task
    yield verb
    yield f"{verb}|{seen.aim}"
    yield f"{verb}|{seen.hand}"
    yield f"{verb}|{seen.aim}|{seen.hand}"
    yield f"{seen.last.verb} > {verb}"
    if seen.last_words == words:
        yield f"{verb} again"
    if command.thing:
        what = "target" if kind(command.thing) == task.target else "lamp" if kind(command.thing) in LAMPS else "other"
        yield f"{verb} {what}|{seen.hand}"
        yield f"{verb} {what}|{seen.aim}"
    if command.place:
        where = kind(command.place)
        yield f"{verb} {where}"
        yield f"{verb} {where}|{seen.aim}|{seen.hand}"
        if where == task.place:
            yield f"{verb} goal|{seen.hand}"
            yield f"{verb} goal|{seen.aim}|{seen.hand}|{seen.last.verb}"
        if verb == "go" and seen.hand == "empty-handed":
            yield f"go {where}|{task.target}"


@dataclass(frozen=True)
class _Memory:
    """What was seen on the way: the state of the task, and what is known of each receptacle."""

    belief: Belief
    phase: str
    with_target: frozenset[str]
    with_lamp: frozenset[str]

    @classmethod
    def of(cls, history: History, seen: _Seen) -> _Memory:
        belief, task = Belief.of(history), seen.task

        def ready(thing: str) -> bool:
            return task.state is None or task.state in belief.states.get(thing, ())

        known = belief.where([task.target])
        home = sum(kind(place) == task.place and ready(thing) for thing, place in known)
        done = "done" if ready(seen.held) else "not done"
        phase = f"{seen.aim}|{seen.hand}"
        if task.form != "look":
            phase += f"|{done}|{min(home, 2)} there"
        lamps = frozenset(place for _, place in belief.where(LAMPS))
        return cls(belief, phase, frozenset(place for _, place in known), lamps)


def _large(command: Command, seen: _Seen, memory: _Memory) -> Iterator[str]:
    verb, task, place, phase = command.verb, seen.task, command.place, memory.phase
    yield f"{verb}|{phase}"
    if verb == "use" and seen.hand == "with target":
        yield "use with target"
    if not place:
        return
    where = kind(place)
    goal = "goal" if where == task.place else "no goal"
    yield f"{verb} {goal}|{phase}"
    yield f"{verb} {where}|{phase}"
    new = place not in memory.belief.looked
    visited = "not been" if new else "been"
    shut = "shut" if place in memory.belief.closed else "open"
    yield f"{verb}|{visited}|{seen.hand}"
    yield f"{verb}|{visited}|{shut}|{phase}"
    if place in memory.with_target:
        yield f"{verb} where target is|{goal}|{phase}"
        yield f"{verb} where target is|{seen.hand}"
    if place in memory.with_lamp:
        yield f"{verb} where lamp is|{seen.hand}|{seen.aim}"
    if new and seen.hand == "empty-handed":
        yield f"{verb} new {where}|{task.target}"
        yield f"{verb} new {where}"


FIRST_DETOURS, LATER_DETOURS = 8, 2
"""At most how many receptacles a copy visits before something was found, and after."""


@dataclass(frozen=True)
class Lesson:
    """A place in a game.

    Attributes
    ----------
    history
        How the player came there.
    command
        What is right there; one of the admissible commands.
    """

    history: History
    command: str

    @property
    def place(self) -> int:
        """The position of the right command among the admissible ones."""
        return (self.history.observation.admissible or ()).index(self.command)


def lessons_of(environment: AlfworldEnvironment, walkthrough: Sequence[str], copies: int, seed: int) -> list[Lesson]:
    """Make the lessons of a game: its walkthrough as it is, and copies with detours."""
    validate.whole("copies", copies, 0)
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    history = History(environment.reset())
    lessons = []
    for command in walkthrough:
        lessons.append(Lesson(history, command))
        history = _after(environment, history, command)
    for _ in range(copies):
        lessons += _with_detours(environment, walkthrough, rng)
    return lessons


def _with_detours(
    environment: AlfworldEnvironment, walkthrough: Sequence[str], rng: np.random.Generator
) -> list[Lesson]:
    history = History(environment.reset())
    places = receptacles(history.first.text)
    lessons = []
    found = False
    for command in walkthrough:
        if command.startswith("go to "):
            most = LATER_DETOURS if found else FIRST_DETOURS
            for place in rng.permutation(len(places))[: rng.integers(most + 1)]:
                led = _detour(environment, history, places[place], command)
                if led is not None:
                    history = led
                    lessons.append(Lesson(history, command))
        elif command in (history.observation.admissible or ()):
            lessons.append(Lesson(history, command))
        else:
            # A detour has opened it already.
            continue
        found = found or command.startswith("take ")
        history = _after(environment, history, command)
    return lessons


def _detour(environment: AlfworldEnvironment, history: History, place: str, command: str) -> History | None:
    """Go to a receptacle and look into it; None if that cannot be, shows what is wanted, or is in the way of a command.

    The engine is brought back to the history first: a detour that is not taken has not happened.
    """
    admissible = history.observation.admissible or ()
    if f"go to {place}" not in admissible or f"go to {place}" == command:
        return None
    led = _after(environment, _again(environment, history), f"go to {place}")
    if f"open {place}" in (led.observation.admissible or ()):
        led = _after(environment, led, f"open {place}")
    target = read_task(history.task).target
    now = led.observation.admissible or ()
    if command not in now or any(one.startswith(f"take {target} ") for one in now):
        _again(environment, history)
        return None
    return led


def _again(environment: AlfworldEnvironment, history: History) -> History:
    environment.reset()
    for action in history.actions:
        environment.step(action)
    return history


def _after(environment: AlfworldEnvironment, history: History, command: str) -> History:
    return history.then(Step("strong", Proposal(command), environment.step(command)))


ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class Ranker:
    r"""Gives each admissible command a probability.

    .. math:: \Pr(c) = \frac{\exp \sum_{j \in \mathrm{cues}(c)} v_j}{\sum_{c'} \exp \sum_{j \in \mathrm{cues}(c')} v_j}

    Attributes
    ----------
    size
        Which cues it looks at, "small" or "large".
    weights
        v, by cue; a cue that it never met weighs nothing.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> first = Observation("You see a shelf 1.", ("go to shelf 1", "look"), task="put a mug in shelf.")
    >>> Ranker("small", {"go shelf": 1.0}).chances(History(first)).round(2)
    array([0.73, 0.27])
    """

    size: Size
    weights: Mapping[str, float]

    def scores(self, history: History) -> np.ndarray:
        """Return the score of each admissible command."""
        return np.array([sum(self.weights.get(cue, 0.0) for cue in one) for one in cues(history, self.size)])

    def chances(self, history: History, sharpness: float = 1.0) -> np.ndarray:
        """Return the probability of each admissible command, its score times `sharpness` being the log-odds."""
        return np.asarray(special.softmax(sharpness * self.scores(history)))

    @cached_property
    def fingerprint(self) -> str:
        """Tell it from other rankers."""
        content = json.dumps([self.size, sorted((cue, round(value, 9)) for cue, value in self.weights.items())])
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def fit_ranker(lessons: Sequence[Lesson], size: Size, ridge: float = 1e-3) -> Ranker:
    """Learn the weights: those under which the right commands are most likely, with a ridge penalty.

    The objective is the mean negative log-likelihood of the right commands plus `ridge` times the sum of squares. It is
    strictly convex, so the same lessons give the same ranker.
    """
    validate.choice("size", size, CUES)
    validate.number("ridge", ridge, "a number above 0", above=0)
    if not lessons:
        raise EvidenceError("no lesson to learn from; expected at least one")
    names: dict[str, int] = {}
    columns: list[int] = []
    row_ends, group_starts, right = [0], [], []
    for lesson in lessons:
        group_starts.append(len(row_ends) - 1)
        right.append(len(row_ends) - 1 + lesson.place)
        for one in cues(lesson.history, size):
            columns += [names.setdefault(cue, len(names)) for cue in one]
            row_ends.append(len(columns))
    shape = (len(row_ends) - 1, len(names))
    table = sparse.csr_array((np.ones(len(columns)), np.array(columns), np.array(row_ends)), shape=shape)
    starts, chosen = np.array(group_starts), np.array(right)
    sizes = np.diff(np.append(starts, shape[0]))
    of_right = table[chosen].sum(axis=0)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = table @ weights
        highest = np.repeat(np.maximum.reduceat(scores, starts), sizes)
        raised = np.exp(scores - highest)
        totals = np.repeat(np.add.reduceat(raised, starts), sizes)
        loss = (np.log(totals[chosen]) + highest[chosen] - scores[chosen]).mean()
        slope = (table.T @ (raised / totals) - of_right) / len(starts)
        return float(loss + ridge * weights @ weights), slope + 2 * ridge * weights

    found = optimize.minimize(
        objective,
        np.zeros(shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-5, "ftol": 1e-10},
    )
    if not found.success:
        raise ConvergenceError(f"the ranker's weights did not converge in {found.nit} iterations: {found.message}")
    return Ranker(size, dict(zip(names, found.x.tolist(), strict=True)))


def fold_of(first: str, folds: int) -> int:
    """Return which fold a game belongs to, from the room that its first observation shows.

    Games in the same room, as a player sees it, are in the same fold, whatever their tasks are.

    Examples
    --------
    >>> fold_of("You see a shelf 1, and a desk 1. Your task is to: look.", 5)
    3
    """
    room = ",".join(sorted(receptacles(first)))
    return zlib.crc32(room.encode("utf-8")) % validate.whole("folds", folds, 1)


@dataclass(frozen=True, eq=False)
class LearnedActor:
    """Draws an admissible command by its ranker's softmax.

    What it draws is a function of the seed, the game and the step, so it plays the same episode again in the same way
    and can go on from any history. Its likelihood is the softmax's: what it thinks of its own command, right or wrong.

    Attributes
    ----------
    name
        For transcripts.
    rankers
        One for each fold of games (`fold_of`): the one that plays a game was trained without that game's fold. A single
        one plays all.
    seed
        For what is drawn.
    sharpness
        By what the ranker's scores are multiplied; above 1 it leaves less to chance.
    """

    name: str
    rankers: tuple[Ranker, ...] = field(repr=False)
    seed: int = 0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.whole("number of rankers", len(self.rankers), 1)
        validate.whole("seed", self.seed, 0)
        validate.number("sharpness", self.sharpness, "a number above 0", above=0)

    def __repr__(self) -> str:
        """Say what its recordings depend on."""
        known = "-".join(ranker.fingerprint for ranker in self.rankers)
        return f"LearnedActor({self.name!r}, seed={self.seed}, sharpness={self.sharpness:g}, rankers={known})"

    def ranker(self, history: History) -> Ranker:
        """Return the one that plays a game."""
        return self.rankers[fold_of(history.first.text, len(self.rankers))]

    def act(self, history: History) -> Proposal:
        """Propose the next command."""
        admissible = history.observation.admissible or ()
        if not admissible:
            raise ActorError(f"{self.name}: no admissible command is listed; expected at least one")
        chances = self.ranker(history).chances(history, self.sharpness)
        drawn = uniforms(self.seed, history, 1, self.name)[0]
        at = min(int(np.searchsorted(np.cumsum(chances), drawn, side="right")), len(admissible) - 1)
        return Proposal(admissible[at], nll=max(0.0, -math.log(max(float(chances[at]), 1e-300))))


NAMES = {"cheap": "learned-cheap", "strong": "learned-strong"}


@dataclass(frozen=True)
class LearnedPair:
    """Both actors, and what they learned from.

    Attributes
    ----------
    cheap, strong
        The actors.
    cheap_games, strong_games
        By fold, the ids of the games that each one's ranker for it was trained on.
    """

    cheap: LearnedActor
    strong: LearnedActor
    cheap_games: tuple[tuple[str, ...], ...]
    strong_games: tuple[tuple[str, ...], ...]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Keep both actors in a JSON file."""
        content = {
            agent: {
                "seed": actor.seed,
                "sharpness": actor.sharpness,
                "rankers": [{"size": one.size, "weights": dict(one.weights)} for one in actor.rankers],
                "games": games,
            }
            for agent, actor, games in (
                ("cheap", self.cheap, self.cheap_games),
                ("strong", self.strong, self.strong_games),
            )
        }
        with atomic_path(as_path(path)) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LearnedPair:
        """Read what `write` has written."""
        try:
            content = json.loads(as_path(path).read_text(encoding="utf-8"))
            actors, games = {}, {}
            for agent in ("cheap", "strong"):
                one = content[agent]
                rankers = tuple(
                    Ranker(ranker["size"], {str(cue): float(value) for cue, value in ranker["weights"].items()})
                    for ranker in one["rankers"]
                )
                actors[agent] = LearnedActor(NAMES[agent], rankers, one["seed"], one["sharpness"])
                games[agent] = tuple(tuple(map(str, some)) for some in one["games"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{path}: {error!r}; expected a learned pair, as this program writes it") from error
        return cls(actors["cheap"], actors["strong"], games["cheap"], games["strong"])


def learn_pair(
    lessons: Mapping[str, Sequence[Lesson]],
    folds: Mapping[str, int],
    *,
    cheap_games: int = 8,
    seed: int = 0,
    cheap_sharpness: float = 1.0,
    strong_sharpness: float = 1.0,
) -> LearnedPair:
    """Train both actors, cross-fitted."""
    count = max(folds.values()) + 1
    validate.whole("cheap_games", cheap_games, 1)
    if set(folds) != set(lessons) or set(folds.values()) != set(range(count)) or count < 2:
        expected = "a fold from 0 on for every game with lessons, at least two folds, none of them empty"
        raise InvalidDataError(expected, field="folds", value=sorted(set(folds.values())))
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    few, many = [], []
    for fold in range(count):
        others = sorted(game for game, of in folds.items() if of != fold)
        many.append(tuple(others))
        few.append(tuple(sorted(rng.permutation(others)[:cheap_games].tolist())))
    small = tuple(fit_ranker(_of(lessons, games), "small") for games in few)
    large = tuple(fit_ranker(_of(lessons, games), "large") for games in many)
    cheap = LearnedActor(NAMES["cheap"], small, seed, cheap_sharpness)
    strong = LearnedActor(NAMES["strong"], large, seed, strong_sharpness)
    return LearnedPair(cheap, strong, tuple(few), tuple(many))


def _of(lessons: Mapping[str, Sequence[Lesson]], games: Sequence[str]) -> list[Lesson]:
    return [lesson for game in games for lesson in lessons[game]]


LONGEST = 50


def walkthrough(environment: AlfworldEnvironment) -> tuple[str, ...]:
    """Return commands that win a game: those of its file, else those of one who knows where everything is."""
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
