"""Prefix router: after the first K Cheap steps, go on with Cheap or restart with Strong (SWE-Router's shape)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import AVERAGES, CostModel, Outcomes, cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.branches import probability_quantiles, two_way_outcomes, two_way_points
from bayes_tacit.policies.logistic import NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import PrefixRouterController


@dataclass(frozen=True)
class PrefixRouter:
    """A logistic model for Pure-Cheap success from task features and the first K diagnostics.

    It is asked once, after K Cheap steps, if the episode goes on; where the probability is below the threshold, Strong
    starts the task anew. A restart costs the Cheap prefix, the whole Strong episode, and one call of the value head.
    The head is also paid where Cheap goes on; an episode that has ended by then is not judged.

    Attributes
    ----------
    prefixes
        Values of K to try, each with a model of its own; K and the threshold are chosen together.
    features
        The features to use; by default all.
    logistic
        How the models are fitted.
    n_candidates
        How many quantiles of the training probabilities are tried, for each K.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> PrefixRouter(prefixes=(1, 2), n_candidates=2).fit(load_example()).candidates.round(2)
       k  alpha  target
    0  1   0.06     0.0
    1  1   0.62     1.0
    2  2   0.04     0.0
    3  2   0.64     1.0
    """

    prefixes: tuple[int, ...] = (1, 2, 3, 4)
    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    n_candidates: int = 101
    name: str = "Prefix router"
    sees: ClassVar[str] = "The task's features and the diagnostics of the first K steps."
    decides: ClassVar[str] = "Once, after K Cheap steps: go on with Cheap, or restart the task with Strong."

    def __post_init__(self) -> None:
        """Check the settings."""
        prefixes = tuple(validate.whole("prefixes", k, 1) for k in self.prefixes)
        if not prefixes or len(set(prefixes)) < len(prefixes):
            raise InvalidDataError("different whole numbers >= 1", field="prefixes", value=self.prefixes)
        object.__setattr__(self, "prefixes", prefixes)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        validate.whole("n_candidates", self.n_candidates, 2)

    def fit(self, training: Episodes) -> FittedPrefixRouter:
        """Fit a model for each K on the episodes that go on after K steps."""
        seen = Seen.of(training, self.features or ())
        features = seen.feature_names if self.features is None else self.features
        success = training.dataset["cheap_success"].values
        models, tables = {}, []
        for k in self.prefixes:
            columns, judged = _columns(seen, features, k)
            of = f"{self.name}, K = {k}: "
            models[k] = self.logistic.fit(_names(seen, features, k), columns[judged], success[judged], of)
            probability = models[k].probability(columns[judged])
            quantiles = probability_quantiles(probability, len(training), self.n_candidates)
            tables.append(quantiles.assign(k=k)[["k", "alpha", "target"]])
        return FittedPrefixRouter(models, features, pd.concat(tables, ignore_index=True), self.name)


@dataclass(frozen=True, eq=False)
class FittedPrefixRouter:
    """The fitted models, and prefixes and thresholds to try.

    Attributes
    ----------
    models
        Probability that Cheap succeeds, by K.
    features
        The task features among their columns.
    candidates
        `k`, `alpha`, and `target`, the share of training tasks that are restarted.
    name
        That of the policy.
    """

    models: Mapping[int, LogisticFit]
    features: tuple[str, ...]
    candidates: pd.DataFrame
    name: str

    def probability(self, episodes: Episodes, k: int) -> np.ndarray:
        """Give the probability that Cheap succeeds, by episode; NaN where the episode ends within K steps."""
        return self._probability(Seen.of(episodes, self.features), k)

    def _probability(self, seen: Seen, k: int) -> np.ndarray:
        model = self._model(k)
        columns, judged = _columns(seen, self.features, k)
        names = _names(seen, self.features, k)
        if names != model.names:
            raise InvalidDataError(f"{model.names}, as in training", field="columns of the episodes", value=names)
        out = np.full(len(seen), np.nan)
        out[judged] = model.probability(columns[judged])
        return out

    def _model(self, k: int) -> LogisticFit:
        if k not in self.models:
            raise InvalidDataError(f"one of {list(self.models)}, the prefixes it was fitted for", field="k", value=k)
        return self.models[k]

    def restarts(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Tell where Strong starts the task anew after K Cheap steps, by episode."""
        return self.probability(episodes, int(number_in(setting, "k"))) < number_in(setting, "alpha")

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        k, alpha = table["k"].to_numpy(int), table["alpha"].to_numpy(float)
        points = {name: np.empty(len(table)) for name in AVERAGES}
        seen = Seen.of(world.episodes, self.features)
        for one in np.unique(k).tolist():
            probability, rows = self._probability(seen, one), k == one
            for name, values in two_way_points(probability, alpha[rows], *_branches(world, one)).items():
                points[name][rows] = values
        return table.assign(**points)

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        branches = _branches(world, int(number_in(setting, "k")))
        return two_way_outcomes(self.restarts(world.episodes, setting), *branches)

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        controller = self.controller(setting)
        return PolicyRouter(controller, self.features, controller.diagnostics)

    def controller(self, setting: Setting) -> PrefixRouterController:
        """Give the controller that looks so after K steps of an agent."""
        k = int(number_in(setting, "k"))
        model = self._model(k)
        steps = model.names[len(self.features) :]
        diagnostics = tuple(name.removesuffix("[0]") for name in steps[: len(steps) // k])
        return PrefixRouterController(k, model.chance(), number_in(setting, "alpha"), diagnostics=diagnostics)


def _names(seen: Seen, features: tuple[str, ...], k: int) -> tuple[str, ...]:
    return (*features, *(f"{name}[{step}]" for step in range(k) for name in seen.diagnostic_names))


def _columns(seen: Seen, features: tuple[str, ...], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Give (episode, column) of features and the first k diagnostics, and which episodes go on after them."""
    prefix = seen.diagnostics[:, :k]
    columns = np.full((len(prefix), k * prefix.shape[2]), np.nan)
    columns[:, : prefix.shape[1] * prefix.shape[2]] = prefix.reshape(len(prefix), -1)
    return np.hstack([seen.task_columns(features), columns]), seen.n_steps > k


def _branches(world: World, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Give success, cost and calls (4, episode) of a restart after k steps, and of going on."""
    table = world.handoffs("restart").table()
    restart, goes_on = table[:, :, min(k, table.shape[2] - 1)], table[:, :, NEVER]
    judged = world.episodes.n_steps > k
    return _with_head(restart, world.cost), np.where(judged, _with_head(goes_on, world.cost), goes_on)


def _with_head(branch: np.ndarray, cost: CostModel | None) -> np.ndarray:
    """Charge one call of the value head to a branch (4, episode)."""
    if cost is None:
        return branch
    success, _, cheap_calls, strong_calls = branch
    return np.stack([success, cost_of_calls(cost, cheap_calls, strong_calls, 1), cheap_calls, strong_calls])
