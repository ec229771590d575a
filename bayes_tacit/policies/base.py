"""What every policy has in common: a fit makes routers, and what a router gives is evaluated one way for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import AVERAGES, Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing
from bayes_tacit.data.visible import visible
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import Choice, choose, score_quantiles
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import Router

type Setting = Mapping[str, object] | pd.Series[Any]
"""What development data choose: a row of a fitted policy's candidates, or a mapping with its columns."""

View = Callable[[Episodes], Episodes]
"""Gives the same episodes, in the same order, with less information."""


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
    def name(self) -> str: ...  # noqa: D102
    @property
    def sees(self) -> str: ...  # noqa: D102
    @property
    def decides(self) -> str: ...  # noqa: D102
    def fit(self, training: Episodes) -> FittedPolicy:
        """Learn from training episodes, whose outcomes are known."""
        ...


@dataclass(frozen=True, eq=False)
class FittedPolicy:
    """A policy whose settings are still open; nothing but training data has gone into it.

    Attributes
    ----------
    name
        That of the policy.
    candidates
        Settings to try, one row each, made from training data only.
    make
        Makes the router of a setting.
    view
        What it is allowed to see, for ablations; None for all features and diagnostics.
    estimate
        The fit or posterior behind it, where there is one.
    reference
        Whether it is one that need not keep to the budget of a comparison.
    """

    name: str
    candidates: pd.DataFrame
    make: Callable[[Setting], Router]
    view: View | None = None
    estimate: object = None
    reference: bool = False

    @classmethod
    def of(cls, name: str, router: Router, candidates: pd.DataFrame, **more: Any) -> FittedPolicy:  # noqa: ANN401
        """Make a fitted policy of a router whose alpha is still open: each setting is an `alpha`."""
        return cls(name, candidates, lambda setting: router.at(number_in(setting, "alpha")), **more)

    @classmethod
    def by_quantiles(cls, name: str, router: Router, training: Episodes, n: int = 101, **more: Any) -> FittedPolicy:  # noqa: ANN401
        """Take n quantiles of the training scores as settings of alpha."""
        found = score_quantiles(router.score(training).steps, n)
        return cls.of(name, router, pd.DataFrame({"alpha": found.alpha, "target": found.target}), **more)

    def router(self, setting: Setting) -> Router:
        """Return the router that decides so in an agent, from one JSON file.

        Raises
        ------
        InvalidDataError
            If it sees episodes through a view: a router sees them as they are.
        """
        if self.view is not None:
            raise InvalidDataError("none: a router sees an episode as it is", field="view", value=self.view)
        return self.make(setting)

    @property
    def timing(self) -> Timing:
        """What a checkpoint is."""
        return self.make(self.candidates.iloc[0]).timing

    def seen(self, episodes: Episodes) -> Episodes:
        """Return episodes as it sees them."""
        return episodes if self.view is None else through(self.view, visible(episodes))

    def scores(self, episodes: Episodes, setting: Setting | None = None) -> np.ndarray:
        """Return what is compared with alpha at each checkpoint: (episode, step), NaN past the end of an episode."""
        router = self.make(self.candidates.iloc[0] if setting is None else setting)
        return router.score(self.seen(episodes)).steps

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Return the step from which Strong acts, by episode; -1 for never."""
        return self.make(setting).handoffs(self.seen(episodes)).values

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return success, cost, strong share and intervention rate of each setting; by default of all candidates.

        The table has a row for each setting, in the same order, and goes straight into `bayes_tacit.choose`.
        """
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        rows = cast("list[dict[str, object]]", table.to_dict("records"))
        points = world.points([self.make(row) for row in rows], self._shown(world))
        return table.assign(**{str(name): points[name].to_numpy() for name in points})

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Return what comes of one setting, by episode."""
        return world.outcomes(self.make(setting), self._shown(world))

    def choose(self, world: World, cap: float) -> Choice:
        """Choose the setting with the most success on development tasks whose cost is within the cap.

        Raises
        ------
        InvalidDataError
            If nothing is within the cap; the message names the lowest cost there is.
        """
        return choose(self.operating_points(world), cap)

    def curve(self, development: World, test: World, caps: list[float]) -> pd.DataFrame:
        """Choose a setting on development tasks under each cap, and evaluate it; NaN where none is within the cap."""
        on_development = self.operating_points(development)
        lowest = on_development["cost"].min()
        # The lowest cost is within its own cap, whatever its rounding.
        rows = [choose(on_development, cap).position if cap >= lowest else -1 for cap in caps]
        needed = sorted({row for row in rows if row >= 0})
        settings = self.candidates.iloc[needed]
        found = on_development.iloc[needed].rename(
            columns={name: f"development_{name}" for name in ("success", "cost")}
        )
        found = found[[*self.candidates, "development_success", "development_cost"]]
        on_test = self.operating_points(test, settings if needed else None)
        found = found.assign(**{name: on_test[name].to_numpy() if needed else np.nan for name in AVERAGES})
        curve = found.reindex(rows).reset_index(drop=True)
        curve.insert(0, "cap", caps)
        return curve

    def in_words(self, choice: Choice) -> str:
        """Return the columns of a chosen setting that are known, such as "k = 2, alpha = 0.41"."""
        values = {str(name): number_in(choice.point, str(name), missing=True) for name in self.candidates}
        return ", ".join(f"{name} = {value:.4g}" for name, value in values.items() if not math.isnan(value))

    def _shown(self, world: World) -> Episodes | None:
        return None if self.view is None else self.seen(world.episodes)


def through(view: View | None, episodes: Episodes) -> Episodes:
    """Return episodes as a view shows them."""
    if view is None:
        return episodes
    seen = view(episodes)
    if not isinstance(seen, Episodes) or not np.array_equal(seen.ids, episodes.ids):
        raise InvalidDataError("the same episodes in the same order", field="what the view gives", value=seen)
    return seen


def number_in(setting: Setting, name: str, *, missing: bool = False) -> float:
    """Read a number from a setting; NaN passes where it may be missing."""
    expected = f"a row of the policy's candidates, with a number {name!r}"
    if not isinstance(setting, Mapping | pd.Series):
        raise InvalidDataError(expected, field="setting", value=setting)
    value: Any = setting.get(name)
    if isinstance(value, bool) or not isinstance(value, Real) or (math.isnan(value) and not missing):
        raise InvalidDataError(expected, field="setting", value=dict(setting))
    return float(value)


def numbers(name: str, given: tuple[float, ...], expected: str, most: float = np.inf) -> np.ndarray:
    """Return a setting that is a list of numbers from 0 on, in rising order."""
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError(expected, field=name, value=given) from None
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= most)).all():
        raise InvalidDataError(expected, field=name, value=given)
    return np.unique(values)
