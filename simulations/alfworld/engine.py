"""ALFWorld's games on the real engine, with the grammar of their texts computed here."""

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
from types import CodeType, SimpleNamespace
from typing import Any

import fast_downward  # type: ignore[import-untyped]
import textworld
from textworld.core import GameState
from textworld.envs.pddl import PddlEnv
from textworld.envs.pddl.logic import Atom, GameLogic, PddlState
from textworld.envs.pddl.textgen import (
    ConditionalSymbol,
    ContextSensitiveGrammar,
    EvalSymbol,
    ListSymbol,
    NonterminalSymbol,
    TerminalSymbol,
)
from textworld.logic import Placeholder, Proposition, Rule, Type, Variable

from bayes_tacit.errors import FileFormatError
from simulations.alfworld.text import NOTHING_HAPPENS

Foreign = Any
"""A value of a package that has no types."""

_PLACE = "words"
_TASK = re.compile(r'"(Your task is to: [^"]*)"')

TASK = "Your task is to: do what stands here."
"""Stands for the task's words in a grammar that games share."""


@dataclass(frozen=True)
class Scope:
    """What a text may speak of."""

    state: Foreign  # The game's, in which conditions are matched
    infos: Mapping[str, Foreign]  # Names of everything, by id
    mapping: Mapping[Foreign, Foreign]  # What each placeholder stands for

    def where(self, condition: str) -> list[Scope]:
        """Return every way in which a condition holds."""
        found = self.state.all_assignments(_condition(condition), self.mapping)
        return [Scope(self.state, self.infos, {**self.mapping, **one}) for one in found]

    def value(self, expression: str) -> str:
        """Return what an expression of the grammar stands for."""
        known = {place.name: self.infos[variable.name] for place, variable in self.mapping.items()}
        return str(eval(_compiled(expression), {}, known))


class Grammar:
    """The rules of a game's texts.

    Parameters
    ----------
    logic
        The game's, as the package has parsed it, with `TASK` where its task is.
    task
        The words of the task.
    """

    def __init__(self, logic: Foreign, task: str) -> None:
        self.logic = logic
        self._rules = logic.grammar._rules
        self._task = task

    @classmethod
    def of(cls, domain: str, grammar: str) -> Grammar:
        """Read a game's; games differ by the words of their tasks, so what is parsed is the same for most."""
        found = _TASK.findall(grammar)
        task = found[0] if len(found) == 1 else ""
        return cls(_logic(domain, grammar.replace(task, TASK) if task and grammar.count(task) == 1 else grammar), task)

    def derive(self, words: str, scope: Scope) -> str:
        """Return the text that some words with symbols in them stand for."""
        return "".join(self._text(symbol, scope) for symbol in _symbols(words)).replace(TASK, self._task)

    def _text(self, symbol: Foreign, scope: Scope) -> str:
        match symbol:
            case TerminalSymbol():
                return str(symbol)
            case NonterminalSymbol():
                return self._replaced(str(symbol), scope)
            case EvalSymbol():
                return scope.value(symbol.expression)
            case ConditionalSymbol():
                return "".join(self._each(symbol, scope))
            case ListSymbol():
                return self._listed(self._each(symbol.symbol, scope), scope)
        raise FileFormatError(f"symbol {symbol!r} in a game's grammar; expected one that TextWorld's grammars have")

    def _replaced(self, name: str, scope: Scope) -> str:
        for rule in self._rules[name]:
            if not rule.condition or scope.where(rule.condition):
                return "".join(self._text(symbol, scope) for symbol in rule.rhs)
        raise FileFormatError(f"no rule for #{name}# in a game's grammar applies; expected one")

    def _each(self, symbol: Foreign, scope: Scope) -> list[str]:
        scopes = scope.where(symbol.given) if symbol.given else [scope]
        return [self._text(symbol.expression, one) for one in scopes]

    def _listed(self, items: list[str], scope: Scope) -> str:
        if not items:
            return self._replaced("list_empty", scope)
        if len(items) == 1:
            return items[0]
        separator, last = (self._replaced(name, scope) for name in ("list_separator", "list_last_separator"))
        return separator.join(items[:-1]) + last + items[-1]


@lru_cache(maxsize=64)
def _logic(domain: str, grammar: str) -> Foreign:
    return GameLogic(domain=domain, grammar=grammar)


@lru_cache(maxsize=4096)
def _symbols(words: str) -> tuple[Foreign, ...]:
    (rule,) = ContextSensitiveGrammar.parse(json.dumps({_PLACE: [{"rhs": words}]}))._rules[_PLACE]
    return tuple(rule.rhs)


@lru_cache(maxsize=4096)
def _condition(words: str) -> Foreign:
    return Rule.parse_conjunctive_query(words)


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression.strip(), "<grammar>", "eval")


# ALFWorld sets ALFWORLD_DATA to a folder of its own when it is imported; whoever then looks for games there finds none.
_DATA = os.environ.get("ALFWORLD_DATA")
from alfworld.agents.utils.misc import Demangler  # noqa: E402

os.environ.pop("ALFWORLD_DATA", None)
if _DATA is not None:
    os.environ["ALFWORLD_DATA"] = _DATA

_WORD = re.compile(r"\w+")
LOOKED_AT = "checked"

"""A value of a package that has no types."""


@dataclass(frozen=True, eq=False)
class Translation:
    """What a state needs of a game's translation."""

    types: tuple[tuple[str, Foreign], ...]  # Names of types, with those above each
    actions: Mapping[str, Foreign]  # By name, an action's parameters
    kinds: Mapping[str, str]  # The type of each object
    # What holds at the beginning: predicates and the objects that they are about.
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    packed: bytes  # What the search library reads, compressed: hundreds of games are kept

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
        tuple((atom.predicate, tuple(atom.args)) for atom in task.init if (getattr(atom, "predicate", "=") != "=")),
        zlib.compress(sas.encode("utf-8"), 1),
    )


@dataclass(frozen=True, eq=False)
class Move:
    """Something that can be done."""

    # name, id, nb_effect_atoms: The search library's operator.
    name: str
    id: int
    nb_effect_atoms: int
    mapping: Mapping[Foreign, Foreign]  # What each placeholder of its words stands for
    # template, feedback_rule: The words of the command, and of the answer, in the grammar.
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
        """Take an action; return the state, the reward, and whether the game is over."""
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
        """Return what is where, as no player can see it: by receptacle, the things in or on it."""
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


@contextlib.contextmanager
def _argv_restored() -> Iterator[None]:
    """Keep the command line: the translator replaces it by one of its own."""
    kept = sys.argv
    try:
        yield
    finally:
        sys.argv = kept
