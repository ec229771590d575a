"""Cascade: judge the finished Cheap episode, and restart with Strong if it looks failed (FrugalGPT's shape)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes, cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.branches import probability_quantiles, two_way_outcomes, two_way_points
from bayes_tacit.policies.logistic import NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import CascadeController

Summary = Literal["total", "mean", "highest", "last"]


@dataclass(frozen=True)
class Cascade:
    """A logistic model for the success of a finished Cheap episode, from task features and its diagnostics.

    Where the probability is below the threshold, Strong starts the task anew. That costs the whole Cheap episode and
    the whole Strong one.

    Attributes
    ----------
    features
        The features to use; by default all.
    summaries
        What is taken of each diagnostic over the episode: "total", "mean", "highest", "last". The number of steps is
        not among them: where an early end means success, it would give the outcome away. Total and mean together do
        so in part.
    logistic
        How it is fitted.
    n_candidates
        How many quantiles of the training probabilities are tried.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> fitted = Cascade(summaries=("total",), n_candidates=3).fit(load_example())
    >>> fitted.candidates.round(2)
       alpha  target
    0   0.00     0.0
    1   0.22     0.5
    2   0.87     1.0
    """

    features: tuple[str, ...] | None = None
    summaries: tuple[Summary, ...] = ("total", "highest", "last")
    logistic: L2Logistic = NEWTON
    n_candidates: int = 101
    name: str = "Cascade"
    sees: ClassVar[str] = "The task's features and the diagnostics of the whole finished Cheap episode."
    decides: ClassVar[str] = "Once, after the last Cheap step: keep its result, or restart the task with Strong."

    def __post_init__(self) -> None:
        """Check the settings."""
        summaries = tuple(validate.choice("summaries", one, get_args(Summary)) for one in self.summaries)
        if not summaries or len(set(summaries)) < len(summaries):
            raise InvalidDataError(f"different ones of {get_args(Summary)}", field="summaries", value=self.summaries)
        object.__setattr__(self, "summaries", summaries)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        validate.whole("n_candidates", self.n_candidates, 2)

    def fit(self, training: Episodes) -> FittedCascade:
        """Fit the model, and make the candidates from its probabilities for the same episodes."""
        seen = Seen.of(training, self.features or ())
        features = seen.feature_names if self.features is None else self.features
        names, columns = _columns(seen, features, self.summaries)
        model = self.logistic.fit(names, columns, training.dataset["cheap_success"].values, f"{self.name}: ")
        candidates = probability_quantiles(model.probability(columns), len(training), self.n_candidates)
        return FittedCascade(model, features, self.summaries, candidates, self.name)


@dataclass(frozen=True, eq=False)
class FittedCascade:
    """The fitted model and the thresholds to try.

    Attributes
    ----------
    model
        Probability that Cheap succeeded.
    features, summaries
        What its columns are made of.
    candidates
        `alpha`, and `target`, the share of training tasks that are restarted.
    name
        That of the policy.
    """

    model: LogisticFit
    features: tuple[str, ...]
    summaries: tuple[Summary, ...]
    candidates: pd.DataFrame
    name: str

    def probability(self, episodes: Episodes) -> np.ndarray:
        """Give the probability that Cheap succeeded, by episode."""
        names, columns = _columns(Seen.of(episodes, self.features), self.features, self.summaries)
        if names != self.model.names:
            raise InvalidDataError(f"{self.model.names}, as in training", field="columns of the episodes", value=names)
        return self.model.probability(columns)

    def restarts(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Tell where Strong starts the task anew after the Cheap episode, by episode."""
        return self.probability(episodes) < number_in(setting, "alpha")

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        alpha = table["alpha"].to_numpy(float)
        return table.assign(**two_way_points(self.probability(world.episodes), alpha, *_branches(world)))

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        return two_way_outcomes(self.restarts(world.episodes, setting), *_branches(world))

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        controller = self.controller(setting)
        return PolicyRouter(controller, self.features, controller.diagnostics)

    def controller(self, setting: Setting) -> CascadeController:
        """Give the controller that judges so when an agent has played."""
        columns = self.model.names[len(self.features) :]
        first = columns[: len(columns) // len(self.summaries)]
        diagnostics = tuple(name.removeprefix(f"{self.summaries[0]} ") for name in first)
        return CascadeController(self.model.chance(), number_in(setting, "alpha"), diagnostics=diagnostics)


def _columns(
    seen: Seen, features: tuple[str, ...], summaries: tuple[Summary, ...]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Give names and numbers (episode, column) of features and summaries."""
    values, n_steps = seen.diagnostics, seen.n_steps[:, None]
    inside = (np.arange(values.shape[1]) < n_steps)[:, :, None]
    within = np.where(inside, values, 0.0)
    parts = [seen.task_columns(features)]
    for summary in summaries:
        match summary:
            case "total":
                parts.append(within.sum(axis=1))
            case "mean":
                parts.append(within.sum(axis=1) / n_steps)
            case "highest":
                parts.append(within.max(axis=1))
            case "last":
                parts.append(within[np.arange(len(within)), seen.n_steps - 1])
    names = tuple(f"{summary} {name}" for summary in summaries for name in seen.diagnostic_names)
    return (*features, *names), np.hstack(parts)


def _branches(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Give success, cost and calls (4, episode) of a restart, and of keeping the result."""
    table = world.counterfactuals.table()
    strong_success, strong_cost, _, strong_calls = table[:, :, 0]
    kept = table[:, :, NEVER]
    cheap_calls = kept[2]
    cost = world.cost
    restart_cost = kept[1] + strong_cost if cost is None else cost_of_calls(cost, cheap_calls, strong_calls)
    return np.stack([strong_success, restart_cost, cheap_calls, strong_calls]), kept
