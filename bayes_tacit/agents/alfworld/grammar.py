"""Texts from the package's grammar, every rule of which is parsed once in a process.

TextWorld parses the words that it begins with and each condition anew for every text, and copies all that is known for
every symbol on the way. A rule depends only on its own words, and nothing that is copied is ever changed, so here both
are shared. What is parsed and how conditions are matched is the package's; the tests play both side by side.
"""

from __future__ import annotations

import json
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

Foreign = Any
"""A value of a package that has no types."""

_PLACE = "words"


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
        The game's, as the package has parsed it.
    """

    def __init__(self, logic: Foreign) -> None:
        self._rules = logic.grammar._rules

    def derive(self, words: str, scope: Scope) -> str:
        """Give the text that some words with symbols in them stand for."""
        return "".join(self._text(symbol, scope) for symbol in _symbols(words))

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
        raise NotImplementedError(f"symbol {symbol!r} of a game's grammar")

    def _replaced(self, name: str, scope: Scope) -> str:
        for rule in self._rules[name]:
            if not rule.condition or scope.where(rule.condition):
                return "".join(self._text(symbol, scope) for symbol in rule.rhs)
        raise NotImplementedError(f"no rule of a game's grammar for #{name}# applies")

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
def logic_of(domain: str, grammar: str) -> Foreign:
    """Parse a game's logic; games with the same rules and the same task share it."""
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
