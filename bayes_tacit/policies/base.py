"""What every policy has in common, whatever it looks at and whenever it decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import Choice, choose
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter, Router
from bayes_tacit.router.control import Controller

type Setting = Mapping[str, object] | pd.Series[Any]
"""What development data choose: a row of a fitted policy's candidates, or a mapping with its columns."""


class FittedPolicy(Protocol):
    """A policy whose settings are still open; nothing but training data has gone into it.

    Attributes
    ----------
    name
        That of the policy.
    candidates
        Settings to try, one row each.
    """

    @property
    def name(self) -> str:
        """How tables call it."""
        ...

    @property
    def candidates(self) -> pd.DataFrame:
        """Settings to try, one row each, made from training data only."""
        ...

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give success, cost, strong share and intervention rate of each setting; by default of all candidates.

        The table has a row for each setting, in the same order, and goes straight into `bayes_tacit.choose`.
        """
        ...

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        ...

    def router(self, setting: Setting) -> Router | PolicyRouter:
        """Give the router that decides so in an agent, from one JSON file."""
        ...

    def controller(self, setting: Setting) -> Controller:
        """Give the controller that decides so while an agent plays, as `bayes_tacit.agents.run_episode` takes it."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Settings of a policy that are fixed before it sees data.

    Attributes
    ----------
    name
        How tables call it.
    sees, decides
        What it looks at, and when it decides what; a sentence each.
    """

    @property
    def name(self) -> str:
        """How tables call it."""
        ...

    @property
    def sees(self) -> str:
        """What it looks at."""
        ...

    @property
    def decides(self) -> str:
        """When it decides what."""
        ...

    def fit(self, training: Episodes) -> FittedPolicy:
        """Learn from training episodes, whose outcomes are known."""
        ...


@runtime_checkable
class Searching(Protocol):
    """A fitted policy that finds its setting itself, where a table of candidates would be too long."""

    def choose(self, world: World, cap: float) -> Choice:
        """Find the setting with the most success on development tasks whose cost is within the cap."""
        ...


def chosen(fitted: FittedPolicy, development: World, cap: float) -> Choice:
    """Choose a fitted policy's setting under a budget: the best of its candidates, or what its own search finds.

    Raises
    ------
    InvalidDataError
        If nothing is within the cap; the message names the lowest cost there is.
    """
    if isinstance(fitted, Searching):
        return fitted.choose(development, cap)
    return choose(fitted.operating_points(development), cap)


def number_in(setting: Setting, name: str, *, missing: bool = False) -> float:
    """Read a number from a setting; NaN passes where it may be missing."""
    expected = f"a row of the policy's candidates, with a number {name!r}"
    if not isinstance(setting, Mapping | pd.Series):
        raise InvalidDataError(expected, field="setting", value=setting)
    given: dict[str, Any] = dict(setting)
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, Real) or (math.isnan(value) and not missing):
        raise InvalidDataError(expected, field="setting", value=given)
    return float(value)
