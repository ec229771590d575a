"""The real engine, made to start and step several times faster by doing nothing twice.

TextWorld's own `PddlEnv` translates a game four times before its first step (twice on load, twice on reset, each time
once more for a planner that a player has no use for), and derives every admissible command and the answer from the
grammar anew at every step. The translation depends only on the game, a command only on what it names, and an answer
only on the command and the facts that it leads to, so all three are kept. What is played is the package's: its search
library, its grammar, its names. The tests play both engines side by side.

This module imports TextWorld and ALFWorld; `bayes_tacit.agents.alfworld.environment` imports it when a game is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import fast_downward  # type: ignore[import-untyped]
import textworld
from textworld.core import GameState
from textworld.envs.pddl import PddlEnv
from textworld.envs.pddl.logic import Atom, GameLogic, PddlState
from textworld.logic import Proposition, Type, Variable

from bayes_tacit.agents.alfworld.text import NOTHING_HAPPENS
from bayes_tacit.agents.alfworld.variables import unchanged

with unchanged("ALFWORLD_DATA"):
    from alfworld.agents.utils.misc import Demangler

_WORD = re.compile(r"\w+")
LOOKED_AT = "checked"

Foreign = Any
"""A value of a package that has no types."""


class KeptState(PddlState):  # type: ignore[misc]
    """The state of a game whose translation is already there."""

    def __init__(self, library: Foreign, task: Foreign, sas: str, logic: Foreign) -> None:
        self._facts: Any = defaultdict(set)
        self._vars_by_name: dict[str, Any] = {}
        self._vars_by_type: Any = defaultdict(set)
        self._var_counts: Counter[str] = Counter()
        self._logic = logic
        self.downward_lib = library
        self.task, self.sas = task, sas
        self._actions = {action.name: action for action in task.actions}
        self.name2type = {one.name: one.type_name for one in task.objects}
        for kind in task.types:
            with contextlib.suppress(ValueError):  # Known from an earlier state of the same game.
                logic.types.add(Type(kind.name, kind.supertype_names))
        library.load_sas(sas.encode("utf-8"))
        self.add_facts([self._as_fact(atom) for atom in task.init if _is_fact(atom)])
        atoms = (Atom * library.get_state_size())()
        library.get_state(atoms)
        facts = [atom.get_fact(self.name2type) for atom in atoms]
        self.add_facts([fact for fact in facts if not fact.is_negation])
        self._first_facts = frozenset(self.facts)
        self._changes: set[Foreign] = set()

    @property
    def changes(self) -> frozenset[Foreign]:
        """What is otherwise than at the beginning, except for what was looked at: no text depends on that."""
        return frozenset(self._changes)

    def apply(self, action: Foreign) -> None:
        """Take an action."""
        for fact in super().apply(action):
            if fact.name.removeprefix("not_") == LOOKED_AT:
                continue
            self._changes.discard(fact.negate())
            if fact.is_negation == (fact.negate() in self._first_facts):
                self._changes.add(fact)

    def _as_fact(self, atom: Foreign) -> Foreign:
        return Proposition(atom.predicate, [Variable(name, self.name2type[name]) for name in atom.args])


class KeptPddlEnv(PddlEnv):  # type: ignore[misc]
    """TextWorld's environment, with one translation a game and one derivation a command."""

    def __init__(self) -> None:
        super().__init__(textworld.EnvInfos(feedback=True, won=True, admissible_commands=True))

    def load(self, game: str | os.PathLike[str]) -> None:
        """Open a game file."""
        data = json.loads(Path(game).read_text(encoding="utf-8"))
        self._logic = GameLogic(domain=data["pddl_domain"], grammar=data["grammar"])
        with _argv_restored():
            self._translation = fast_downward.pddl2sas(data["pddl_domain"], data["pddl_problem"])
        self._commands: dict[tuple[str, tuple[str, ...]], str] = {}
        self._answers: dict[tuple[str, frozenset[Foreign]], str] = {}
        self._pddl_state = self._first_state()
        self._entity_infos = self._get_entity_infos()
        names = Demangler(game_infos=self._entity_infos)
        for info in self._entity_infos.values():
            info.name = names.demangle_alfred_name(info.id)

    def reset(self) -> Foreign:
        """Start the game that is open from its beginning."""
        self._pddl_state = self._first_state()
        self.state = GameState()
        self.state.feedback = self._logic.grammar.derive("#intro#", self._context({}))
        self._gather_infos()
        return self.state

    def step(self, command: str) -> tuple[Foreign, int, bool]:
        """Take an action; give the state, the reward, and whether the game is over."""
        action = self._apply(command)
        feedback = NOTHING_HAPPENS if action is None else self._answer(command.strip(), action)
        self.state = GameState()
        self.state.feedback = feedback
        self._gather_infos()
        return self.state, int(self.state["won"]), self.state["won"]

    def bring_to(self, path: Iterable[str]) -> None:
        """Take known actions from the beginning, without their words."""
        self._pddl_state = self._first_state()
        self.state = GameState()
        self._gather_infos()
        for command in path:
            if self._apply(command) is not None:
                self.state = GameState()
                self._gather_infos()

    def _apply(self, command: str) -> Foreign | None:
        """Take the action that a command stands for; None if there is none."""
        commands = self.state["_valid_commands"]
        if command.strip() not in commands:
            return None
        action = self.state["_valid_actions"][commands.index(command.strip())]
        self._pddl_state.apply(action)
        return action

    def _answer(self, command: str, action: Foreign) -> str:
        key = command, self._pddl_state.changes
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._logic.grammar.derive(action.feedback_rule, self._context(action.mapping))
        return known

    def _first_state(self) -> KeptState:
        task, sas = self._translation
        return KeptState(self.downward_lib, task, sas, self._logic)

    def _gather_infos(self) -> None:
        state = self.state
        state["won"], state["lost"] = self._pddl_state.check_goal(), False
        actions = state["_valid_actions"] = self._pddl_state.all_applicable_actions()
        commands = state["_valid_commands"] = [self._command(action) for action in actions]
        state["admissible_commands"] = sorted(set(commands))

    def _command(self, action: Foreign) -> str:
        template = action.command_template
        words = set(_WORD.findall(template))
        named = tuple(variable.name for place, variable in action.mapping.items() if place.name in words)
        known = self._commands.get((template, named))
        if known is None:
            action.command_template = self._logic.grammar.derive(template, self._context(action.mapping))
            names = {key: info.name for key, info in self._entity_infos.items()}
            known = self._commands[template, named] = action.format_command(names)
        return known

    def _context(self, mapping: Foreign) -> dict[str, Any]:
        return {
            "state": self._pddl_state,
            "facts": list(self._pddl_state.facts),
            "variables": {place.name: self._entity_infos[variable.name] for place, variable in mapping.items()},
            "mapping": mapping,
            "entity_infos": self._entity_infos,
        }


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
