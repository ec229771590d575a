"""The real engine, made to start and step several times faster by doing nothing twice.

TextWorld's own `PddlEnv` translates a game four times before its first step (twice on load, twice on reset, each time
once more for a planner that a player has no use for), and derives every admissible command and the answer from the
grammar anew at every step. The translation depends only on the game, a command only on what it names, what can be done
only on the facts, and an answer only on the command and the facts that it leads to, so all four are kept. What is
played is the package's: its search library, its grammar, its names. The tests play both engines side by side.

This module imports TextWorld and ALFWorld; `simulations.alfworld.environment` imports it when a game is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fast_downward  # type: ignore[import-untyped]
import textworld
from textworld.core import GameState
from textworld.envs.pddl import PddlEnv
from textworld.envs.pddl.logic import Atom, PddlState
from textworld.logic import Placeholder, Proposition, Type, Variable

from simulations.alfworld.grammar import Grammar, Scope
from simulations.alfworld.text import NOTHING_HAPPENS
from simulations.alfworld.variables import unchanged

with unchanged("ALFWORLD_DATA"):
    from alfworld.agents.utils.misc import Demangler

_WORD = re.compile(r"\w+")
LOOKED_AT = "checked"

Foreign = Any
"""A value of a package that has no types."""


@dataclass(frozen=True, eq=False)
class Translation:
    """What a state needs of a game's translation.

    Attributes
    ----------
    types
        Names of types, with those above each.
    actions
        By name, an action's parameters.
    kinds
        The type of each object.
    facts
        What holds at the beginning: predicates and the objects that they are about.
    packed
        What the search library reads, compressed: hundreds of games are kept.
    """

    types: tuple[tuple[str, Foreign], ...]
    actions: Mapping[str, Foreign]
    kinds: Mapping[str, str]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    packed: bytes

    @property
    def sas(self) -> bytes:
        """What the search library reads."""
        return zlib.decompress(self.packed)


@lru_cache(maxsize=512)
def translated(domain: str, problem: str) -> Translation:
    """Translate a game, once in a process."""
    with _argv_restored():
        task, sas = fast_downward.pddl2sas(domain, problem)
    return Translation(
        tuple((one.name, one.supertype_names) for one in task.types),
        {action.name: SimpleNamespace(parameters=action.parameters) for action in task.actions},
        {one.name: one.type_name for one in task.objects},
        tuple((atom.predicate, tuple(atom.args)) for atom in task.init if _is_fact(atom)),
        zlib.compress(sas.encode("utf-8"), 1),
    )


@dataclass(frozen=True, eq=False)
class Move:
    """Something that can be done.

    Attributes
    ----------
    name, id, nb_effect_atoms
        The search library's operator.
    mapping
        What each placeholder of its words stands for.
    template, feedback_rule
        The words of the command, and of the answer, in the grammar.
    """

    name: str
    id: int
    nb_effect_atoms: int
    mapping: Mapping[Foreign, Foreign]
    template: str
    feedback_rule: str


class KeptState(PddlState):  # type: ignore[misc]
    """The state of a game whose translation is already there."""

    def __init__(self, library: Foreign, translation: Translation, logic: Foreign) -> None:
        self._facts: Any = defaultdict(set)
        self._vars_by_name: dict[str, Any] = {}
        self._vars_by_type: Any = defaultdict(set)
        self._var_counts: Counter[str] = Counter()
        self._logic = logic
        self.downward_lib = library
        self._sas = translation.sas
        self._moves: dict[tuple[int, int], Move] = {}
        self._actions = translation.actions
        self.name2type = translation.kinds
        for name, supertypes in translation.types:
            with contextlib.suppress(ValueError):  # Known from an earlier game.
                logic.types.add(Type(name, supertypes))
        library.load_sas(self._sas)
        self.add_facts([self._as_fact(*atom) for atom in translation.facts])
        atoms = (Atom * library.get_state_size())()
        library.get_state(atoms)
        facts = [atom.get_fact(self.name2type) for atom in atoms]
        self.add_facts([fact for fact in facts if not fact.is_negation])
        self._first_facts = frozenset(self.facts)
        self._beginning = self._tables()
        self._changes: set[Foreign] = set()

    def begin_again(self) -> None:
        """Go back to the beginning."""
        self.downward_lib.load_sas(self._sas)
        self._facts, self._vars_by_name, self._vars_by_type, self._var_counts = self._beginning
        self._beginning = self._tables()
        self._changes = set()

    def _tables(self) -> tuple[Any, ...]:
        """Copy what facts are kept in."""
        facts, by_type = ({key: set(some) for key, some in one.items()} for one in (self._facts, self._vars_by_type))
        return defaultdict(set, facts), dict(self._vars_by_name), defaultdict(set, by_type), self._var_counts.copy()

    @property
    def changes(self) -> frozenset[Foreign]:
        """What is otherwise than at the beginning, except for what was looked at: no text depends on that."""
        return frozenset(self._changes)

    def moves(self) -> list[Move]:
        """List what can be done here; what an operator of the search library stands for is worked out once."""
        operators = (fast_downward.Operator * self.downward_lib.get_applicable_operators_count())()
        self.downward_lib.get_applicable_operators(operators)
        found: dict[str, Move] = {}
        for operator in operators:
            key = operator.id, operator.nb_effect_atoms
            move = self._moves.get(key)
            if move is None:
                move = self._moves[key] = self._move(operator)
            found.setdefault(move.name, move)
        return list(found.values())

    def _move(self, operator: Foreign) -> Move:
        action, *arguments = operator.name.split()
        places = self._actions[action].parameters
        mapping = {
            Placeholder(place.name.strip("?"), place.type_name): Variable(argument, place.type_name)
            for place, argument in zip(places, arguments, strict=False)
        }
        words = self._logic.actions[action]
        return Move(operator.name, operator.id, operator.nb_effect_atoms, mapping, words.template, words.feedback_rule)

    def apply(self, action: Move) -> None:
        """Take an action."""
        self._operators = {action.id: action}
        for fact in super().apply(action):
            if fact.name.removeprefix("not_") == LOOKED_AT:
                continue
            self._changes.discard(fact.negate())
            if fact.is_negation == (fact.negate() in self._first_facts):
                self._changes.add(fact)

    def _as_fact(self, predicate: str, names: tuple[str, ...]) -> Foreign:
        return Proposition(predicate, [Variable(name, self.name2type[name]) for name in names])


@dataclass(frozen=True, eq=False)
class Possible:
    """What can be done in a state, and whether it is the goal."""

    won: bool
    actions: Mapping[str, Move]
    commands: tuple[str, ...]


class KeptPddlEnv(PddlEnv):  # type: ignore[misc]
    """TextWorld's environment, with one translation a game, one derivation a command and one listing a state."""

    def __init__(self) -> None:
        super().__init__(textworld.EnvInfos(feedback=True, won=True, admissible_commands=True))

    def load(self, game: str | os.PathLike[str]) -> None:
        """Open a game file."""
        data = json.loads(Path(game).read_text(encoding="utf-8"))
        self._grammar = Grammar.of(data["pddl_domain"], data["grammar"])
        self._logic = self._grammar.logic
        translation = translated(data["pddl_domain"], data["pddl_problem"])
        self._commands: dict[tuple[str, tuple[str, ...]], str] = {}
        self._answers: dict[tuple[str, frozenset[Foreign]], str] = {}
        self._known: dict[frozenset[Foreign], Possible] = {}
        self._pddl_state = KeptState(self.downward_lib, translation, self._logic)
        self._fresh = True
        self._entity_infos = self._get_entity_infos()
        names = Demangler(game_infos=self._entity_infos)
        for info in self._entity_infos.values():
            info.name = names.demangle_alfred_name(info.id)

    def reset(self) -> Foreign:
        """Start the game that is open from its beginning."""
        self._begin()
        return self._shown(self._grammar.derive("#intro#", self._scope({})))

    def step(self, command: str) -> tuple[Foreign, int, bool]:
        """Take an action; give the state, the reward, and whether the game is over."""
        action = self._apply(command)
        state = self._shown(NOTHING_HAPPENS if action is None else self._answer(command.strip(), action))
        return state, int(state["won"]), state["won"]

    def bring_to(self, path: Iterable[str]) -> None:
        """Take known actions from the beginning, without their words."""
        self._begin()
        for command in path:
            self._apply(command)

    @property
    def place(self) -> frozenset[Foreign]:
        """Where the game stands: what can be done there and what comes of it depend on nothing else."""
        changes: frozenset[Foreign] = self._pddl_state.changes
        return changes

    def contents(self) -> dict[str, list[str]]:
        """Tell what is where, as no player can see it: by receptacle, the things in or on it."""
        inside: dict[str, list[str]] = {}
        for fact in self._pddl_state.facts:
            if fact.name == "inreceptacle":
                thing, place = (self._entity_infos[one.name].name for one in fact.arguments)
                inside.setdefault(place, []).append(thing)
        return {place: sorted(things) for place, things in sorted(inside.items())}

    def _begin(self) -> None:
        if not self._fresh:
            self._pddl_state.begin_again()
        self._fresh = False

    def _shown(self, feedback: str) -> Foreign:
        possible = self._possible()
        self.state = GameState()
        self.state.feedback = feedback
        self.state["won"], self.state["lost"] = possible.won, False
        self.state["admissible_commands"] = list(possible.commands)
        return self.state

    def _apply(self, command: str) -> Move | None:
        """Take the action that a command stands for; None if there is none."""
        action = self._possible().actions.get(command.strip())
        if action is not None:
            self._pddl_state.apply(action)
        return action

    def _answer(self, command: str, action: Move) -> str:
        key = command, self._pddl_state.changes
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._grammar.derive(action.feedback_rule, self._scope(action.mapping))
        return known

    def _possible(self) -> Possible:
        key = self._pddl_state.changes
        known = self._known.get(key)
        if known is None:
            actions: dict[str, Move] = {}
            for move in self._pddl_state.moves():
                # Where two have the same words, the first is the one that is taken.
                actions.setdefault(self._command(move), move)
            won = bool(self._pddl_state.check_goal())
            known = self._known[key] = Possible(won, actions, tuple(sorted(actions)))
        return known

    def _command(self, move: Move) -> str:
        words = set(_WORD.findall(move.template))
        named = tuple(variable.name for place, variable in move.mapping.items() if place.name in words)
        known = self._commands.get((move.template, named))
        if known is None:
            derived = self._grammar.derive(move.template, self._scope(move.mapping))
            names = {place.name: self._entity_infos[one.name].name for place, one in move.mapping.items()}
            known = self._commands[move.template, named] = derived.format(**names)
        return known

    def _scope(self, mapping: Foreign) -> Scope:
        return Scope(self._pddl_state, self._entity_infos, mapping)


def _is_fact(atom: Foreign) -> bool:
    """Tell a proposition from an equality or a cost among a task's initial conditions."""
    return getattr(atom, "predicate", "=") != "="


@contextlib.contextmanager
def _argv_restored() -> Iterator[None]:
    """Keep the command line: the translator replaces it by one of its own."""
    kept = sys.argv
    try:
        yield
    finally:
        sys.argv = kept
