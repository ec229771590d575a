"""Texts from the package's grammar, every rule of which is parsed once in a process.

TextWorld parses the words that it begins with and each condition anew for every text, and copies all that is known for
every symbol on the way. A rule depends only on its own words, and nothing that is copied is ever changed, so here both
are shared. What is parsed and how conditions are matched is the package's; the tests play both side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from textworld.envs.pddl.logic import GameLogic
from textworld.envs.pddl.textgen import (
    ConditionalSymbol,
    ContextSensitiveGrammar,
    EvalSymbol,
    ListSymbol,
    NonterminalSymbol,
    TerminalSymbol,
)
from textworld.logic import Rule

from bayes_tacit.errors import FileFormatError

Foreign = Any
"""A value of a package that has no types."""

_PLACE = "words"
_TASK = re.compile(r'"(Your task is to: [^"]*)"')

TASK = "Your task is to: do what stands here."
"""Stands for the task's words in a grammar that games share."""


@dataclass(frozen=True)
class Scope:
    """What a text may speak of.

    Attributes
    ----------
    state
        The game's, in which conditions are matched.
    infos
        Names of everything, by id.
    mapping
        What each placeholder stands for.
    """

    state: Foreign
    infos: Mapping[str, Foreign]
    mapping: Mapping[Foreign, Foreign]

    def where(self, condition: str) -> list[Scope]:
        """Give every way in which a condition holds."""
        found = self.state.all_assignments(_condition(condition), self.mapping)
        return [Scope(self.state, self.infos, {**self.mapping, **one}) for one in found]

    def value(self, expression: str) -> str:
        """Give what an expression of the grammar stands for."""
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
        """Give the text that some words with symbols in them stand for."""
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
