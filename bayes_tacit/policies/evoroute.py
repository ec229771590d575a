"""EvoRoute's analogue: before each step, past episodes nearest to this one say whether Strong is worth its cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes, StepCost, averages
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    HANDOFFS,
    NEVER,
    TIMINGS,
    Handoff,
    Timing,
    discards_proposal,
    usable_checkpoints,
)
from bayes_tacit.decisions.selection import score_quantiles
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.branches import numbers
from bayes_tacit.policies.condensing import condensed
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import EvoRouteController, Experience
from bayes_tacit.router.control.experience import MOST
from bayes_tacit.router.control.experienced import LOG_SEEN, net_gain
from bayes_tacit.scores.crossings import first_crossings

STRONG_STEPS = "strong_steps"
"""The carried variable with the length of Strong's own rollouts."""

PRICES = (0.0, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class EvoRoute:
    r"""Nearest neighbours among past episodes, with what came of them and what it cost.

    It is an analogue of EvoRoute (experience-driven self-routing agents, 2026), not EvoRoute itself. There every
    subtask of a workflow of roles looks up similar ones in a growing base of experience, and of the models that no
    other one beats in success, cost and time one is selected. Kept is that before each step, the first one too, the
    past moments that are most like this one are looked up, and that their successes and costs decide. Dropped are
    roles, time, and all models but two: what is chosen is a handoff for good. The experience is that of the training
    episodes, and does not grow while a router runs.

    A moment is known by the task's features and by the history: of each diagnostic the sum so far, the latest and the
    highest value, and log(1 + steps seen), all standardized; distances are Euclidean. Over the nearest moments

    .. math:: \overline B - \overline A - \text{price} \cdot \overline{\text{extra cost}} \ge \alpha

    hands off: what Strong alone solves more often than Cheap, less the price of what it would cost more. Neither
    marks nor a model are needed. As for `Landmark`, B is how Strong did from the start: what comes of a handoff in the
    middle is in no log.

    The experience is bounded. Moments are split in halves, each time along what varies most, until there are `limit`
    places; a place keeps its mean and its sums. So a file, and the work of a decision, are bounded by `limit` times the
    number of columns, however many episodes there were, and nothing of an episode itself is in the file.

    Attributes
    ----------
    features
        The task's features to use; by default all.
    nearest
        The share of the experience that is asked.
    limit
        Places that are kept.
    prices
        Prices to try: success that is given up for what Strong costs on average.
    cost
        What steps cost. Only the ratio matters. Strong is taken to need as many steps as in its own rollout, if the
        episodes carry `strong_steps`, or else as many as Cheap still took.
    start
        Whether to decide before the first step too, from the features alone.
    timing
        What a checkpoint is, as for `handoff_steps`.
    handoff
        What Strong does then: "resume" from Cheap's state, or "restart" the task.
    n_candidates
        How many quantiles of the training scores are tried, for each price.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = EvoRoute(prices=(0, 0.1)).fit(training)
    >>> fitted.experience.places.shape, fitted.experience.nearest
    ((256, 16), 20)
    >>> fitted.scores(training)[1, :4].round(2)      # before the first step, and after the first three
    array([0.48, 0.49, 0.48, 0.52])
    >>> fitted.handoffs(training, {"price": 0, "alpha": 0.6})[:5]
    array([-1, -1, 11, 10, -1])
    """

    features: tuple[str, ...] | None = None
    nearest: float = 0.08
    limit: int = 256
    prices: tuple[float, ...] = PRICES
    cost: StepCost = StepCost(cheap=1, strong=3)  # noqa: RUF009 - a frozen value
    start: bool = True
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    n_candidates: int = 101
    name: str = "EvoRoute analogue"
    sees: ClassVar[str] = "The task's features, and the diagnostics of all steps so far, beside those of past episodes."
    decides: ClassVar[str] = "Before each of Cheap's steps: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.number("nearest", self.nearest, "a share above 0 and at most 1", above=0, most=1)
        validate.whole("limit", self.limit, 1, MOST)
        object.__setattr__(self, "prices", tuple(numbers("prices", self.prices, "numbers >= 0").tolist()))
        if not isinstance(self.cost, StepCost) or self.cost.strong == 0:
            raise InvalidDataError("a StepCost in which Strong's steps cost something", field="cost", value=self.cost)
        validate.flag("start", self.start)
        validate.choice("timing", self.timing, TIMINGS)
        validate.choice("handoff", self.handoff, HANDOFFS)
        validate.whole("n_candidates", self.n_candidates, 2)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def fit(self, training: Episodes) -> FittedEvoRoute:
        """Condense all moments of the training episodes, and make the candidates from their scores."""
        seen = Seen.of(training, (STRONG_STEPS, *(self.features or ())))
        features = seen.feature_names if self.features is None else self.features
        asked = _asked_at(seen.n_steps, self.timing, seen.diagnostics.shape[1], start=self.start)
        if not asked.any():
            raise EvidenceError(f"{self.name}: every rollout has one step; expected one in which a handoff can come")
        moments, (episode, column) = _moments(seen, features)[asked], np.nonzero(asked)
        outcomes = np.stack([training.dataset[f"{agent}_success"].values[episode] for agent in ("cheap", "strong")])
        left = seen.n_steps[episode] - _handoff_of(column, self.timing)
        carried = seen.carried.get(STRONG_STEPS)
        strong = left if carried is None else np.asarray(carried, dtype=float)[episode]
        unit = self.cost.strong * strong.mean()
        extra = (self.cost.strong * strong - self.cost.cheap * left) / unit
        experience = condensed(_names(seen, features), moments, outcomes, extra, self.limit, self.nearest)
        fitted = FittedEvoRoute(
            experience,
            features,
            seen.diagnostic_names,
            start=self.start,
            timing=self.timing,
            candidates=pd.DataFrame(),
            name=self.name,
            handoff=self.handoff,
        )
        return replace(fitted, candidates=fitted.thresholds(training, self.prices, self.n_candidates))


@dataclass(frozen=True, eq=False)
class FittedEvoRoute:
    """The experience, and prices and thresholds to try.

    Attributes
    ----------
    experience
        What is known of past moments.
    features, diagnostics
        What its columns are made of.
    start
        Whether it decides before the first step too.
    timing
        What a checkpoint is.
    candidates
        `price` and `alpha`.
    name
        That of the policy.
    handoff
        What Strong does after a handoff.
    """

    experience: Experience
    features: tuple[str, ...]
    diagnostics: tuple[str, ...]
    start: bool
    timing: Timing
    candidates: pd.DataFrame
    name: str
    handoff: Handoff = DEFAULT_HANDOFF

    def scores(self, episodes: Episodes, price: float = 0.0) -> np.ndarray:
        """Give the net gain that is compared with alpha; NaN past the end of an episode.

        It is (episode, 1 + step), before the first step and at each checkpoint; (episode, step) without a start.
        """
        return net_gain(self._asked(episodes), price)

    def _asked(self, episodes: Episodes) -> np.ndarray:
        """Ask the experience at each moment, (episode, 1 + step or step, 4)."""
        seen = Seen.of(episodes, self.features)
        names = _names(seen, self.features)
        if names != self.experience.names:
            raise InvalidDataError(
                f"{self.experience.names}, as in training", field="columns of the episodes", value=names
            )
        moments = _moments(seen, self.features)
        inside = np.arange(moments.shape[1]) <= seen.n_steps[:, None]
        inside[:, 0] = self.start
        out = np.full((*inside.shape, 4), np.nan)
        out[inside] = self.experience.ask(moments[inside])
        return out if self.start else out[:, 1:]

    def thresholds(self, training: Episodes, prices: tuple[float, ...], n: int) -> pd.DataFrame:
        """Take quantiles of the training scores at each price."""
        asked = self._asked(training)
        found = {price: score_quantiles(net_gain(asked, price), n, above=-np.inf).alpha for price in prices}
        return pd.concat(
            [pd.DataFrame({"price": price, "alpha": alpha}) for price, alpha in found.items()], ignore_index=True
        )

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode; -1 for never."""
        crossing = first_crossings(self.scores(episodes, number_in(setting, "price")), number_in(setting, "alpha"))
        return np.where(crossing == NEVER, NEVER, _handoff_of(crossing + (not self.start), self.timing))

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        asked, known = self._asked(world.episodes), self._by_moment(world.handoffs(self.handoff))
        row = np.arange(len(world))
        sums = np.empty((5, len(table)))
        for price, settings_of in table.groupby("price").groups.items():
            at = np.asarray(settings_of)
            crossings = first_crossings(net_gain(asked, float(price)), table["alpha"].to_numpy(float)[at])  # type: ignore[arg-type]
            for place, crossing in zip(at.tolist(), crossings, strict=True):
                found = known[:, row, crossing]
                sums[:4, place], sums[4, place] = found.sum(axis=1), np.count_nonzero(found[3])
        return table.assign(**averages(sums, len(world)))

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        known = world.handoffs(self.handoff)
        crossing = first_crossings(
            self.scores(world.episodes, number_in(setting, "price")), number_in(setting, "alpha")
        )
        row = np.arange(len(world))
        known.check_played(row, self.handoffs(world.episodes, setting))
        return Outcomes(*self._by_moment(known)[:, row, crossing])

    def _by_moment(self, known: Counterfactuals) -> np.ndarray:
        """Give success, cost and calls (4, episode, moment) of a handoff at each moment; the last one is never."""
        later = known.table(discards_proposal=discards_proposal(self.timing))
        if self.timing == "post_action":
            # After the last step nothing is left to hand over, which is the same as never.
            moments = np.concatenate([later, later[:, :, NEVER:]], axis=2)
        else:
            # Before the first step there is no proposal yet that could be discarded.
            moments = np.concatenate([known.table()[:, :, :1], later], axis=2)
        return moments if self.start else moments[:, :, 1:]

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), self.features, self.diagnostics)

    def controller(self, setting: Setting) -> EvoRouteController:
        """Give the controller that decides so while an agent plays."""
        return EvoRouteController(
            self.diagnostics,
            self.experience,
            number_in(setting, "price"),
            number_in(setting, "alpha"),
            self.start,
            self.timing,
            self.handoff,
        )


def _handoff_of(moment: np.ndarray, timing: Timing) -> np.ndarray:
    """Give the step from which Strong acts if it is decided at a moment: 0 before the first step, t + 1 at step t."""
    handoff: np.ndarray = moment if timing == "post_action" else np.maximum(moment - 1, 0)
    return handoff


def _asked_at(n_steps: np.ndarray, timing: Timing, horizon: int, *, start: bool) -> np.ndarray:
    """Tell at which moments, (episode, 1 + step), a decision hands something over."""
    asked = np.arange(horizon + 1) <= usable_checkpoints(n_steps, timing)[:, None]
    asked[:, 0] = start
    return asked


def _names(seen: Seen, features: tuple[str, ...]) -> tuple[str, ...]:
    return (*seen.names_so_far(features), LOG_SEEN)


def _moments(seen: Seen, features: tuple[str, ...]) -> np.ndarray:
    """Give what is known before the first step and at each checkpoint, (episode, 1 + step, column)."""
    later = seen.so_far(features)
    first = np.zeros((len(later), 1, later.shape[2]))
    first[:, 0, : len(features)] = seen.task_columns(features)
    known = np.concatenate([first, later], axis=1)
    clock = np.broadcast_to(np.log1p(np.arange(known.shape[1]))[:, None], (*known.shape[:2], 1))
    return np.concatenate([known, clock], axis=2)
