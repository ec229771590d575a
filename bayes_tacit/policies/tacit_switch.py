"""TACIT-Switch: a permanent handoff at the first crossing of the score, from a point estimate or a posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, Handoff, Timing, discards_proposal
from bayes_tacit.decisions.selection import Candidates, score_quantiles, target_switch_rates
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.crossings import crossing_points
from bayes_tacit.policies.view import Seen, visible
from bayes_tacit.policies.world import World
from bayes_tacit.router import Router
from bayes_tacit.router.control import RouterController
from bayes_tacit.scores.crossings import first_handoffs
from bayes_tacit.scores.decisive import scores_under
from bayes_tacit.scores.fitted import DRAWS, Fitted
from bayes_tacit.scores.sources import as_draws

Grid = Candidates | Literal["score_quantiles", "switch_rates"]
"""Thresholds to try, or how they are made from training scores (see `bayes_tacit.decisions.selection`)."""

View = Callable[[Episodes], Episodes]
"""Gives the same episodes, in the same order, with less information."""

SEES = "The task's features, and the diagnostics of all steps so far."
DECIDES = "At each of Cheap's checkpoints: hand over to Strong for good, or go on."


@dataclass(frozen=True, eq=False)
class TacitSwitch:
    """TACIT-Switch from a point estimate.

    Attributes
    ----------
    estimator
        Makes the fit from training episodes; by default `fit_map`.
    options
        What `fit_map` is called with, such as `{"ridge": 0.03, "timing": "proposal"}`.
    candidates
        "score_quantiles" (101 of the training scores), "switch_rates" (target rates on training episodes, as the paper
        does for DABench), or thresholds such as `fixed_grid()`.
    view
        What it is allowed to see, for ablations; by default all features and diagnostics.
    handoff
        What Strong does after a handoff: "resume" from Cheap's state, as in the paper, or "restart" the task. The model
        and its scores are the same; what a handoff gives is not. Either way a crossing after the last step hands
        nothing off.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> from bayes_tacit.decisions.selection import fixed_grid
    >>> training = load_example()
    >>> fitted = TacitSwitch(candidates=fixed_grid()).fit(training)
    >>> fitted.handoffs(training, {"alpha": 0.3})[:5]
    array([-1,  9,  5, 11, -1])
    """

    estimator: Callable[[Episodes], MapFit] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    candidates: Grid = "score_quantiles"
    view: View | None = None
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "TACIT-Switch"
    sees: str = SEES
    decides: str = DECIDES

    def __post_init__(self) -> None:
        """Check the settings."""
        _check(self.candidates, self.view, self.handoff)
        if self.estimator is not None and self.options:
            raise InvalidDataError("none with an estimator of your own", field="options", value=dict(self.options))

    def fit(self, training: Episodes) -> FittedTacitSwitch:
        """Fit the model, and make the candidates from its scores of the same episodes."""
        seen = _seen(training, self.view)
        fit = fit_map(seen, **self.options) if self.estimator is None else self.estimator(seen)
        if not isinstance(fit, MapFit):
            raise InvalidDataError("a MapFit", field="what the estimator gives", value=fit)
        return FittedTacitSwitch.of(fit, seen, self.candidates, view=self.view, name=self.name, handoff=self.handoff)


@dataclass(frozen=True, eq=False)
class PosteriorTacitSwitch:
    """TACIT-Switch from posterior draws, by their mean score or a quantile of it.

    Attributes
    ----------
    rule
        "mean", or a probability: 0.1 hands off only where 90% of the posterior agrees.
    posterior
        A posterior of the training episodes (a warning says if it names others), or a function that makes one from
        them; by default `sample_posterior`.
    options
        What `sample_posterior` is called with.
    draws
        How many draws are used at most, at even distances, as a router does.
    candidates, view, handoff
        As for `TacitSwitch`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> tree = fit_map(training).to_datatree()              # stands for sample_posterior(training)
    >>> PosteriorTacitSwitch(rule=0.1, posterior=tree).fit(training).handoffs(training, {"alpha": 0.3})[:5]
    array([-1,  9,  5, 11, -1])
    """

    rule: str | float = "mean"
    posterior: xr.DataTree | Callable[[Episodes], xr.DataTree] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    draws: int = DRAWS
    candidates: Grid = "score_quantiles"
    view: View | None = None
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = ""
    sees: str = SEES
    decides: str = DECIDES

    def __post_init__(self) -> None:
        """Check the settings, and take a name from the rule."""
        _check(self.candidates, self.view, self.handoff)
        rule = validate.rule("rule", self.rule)
        validate.whole("draws", self.draws, 1)
        if self.posterior is not None and self.options:
            raise InvalidDataError("none with a posterior of your own", field="options", value=dict(self.options))
        if not self.name:
            what = rule if isinstance(rule, str) else f"{rule:g} quantile"
            object.__setattr__(self, "name", f"TACIT-Switch, posterior {what}")

    def fit(self, training: Episodes) -> FittedTacitSwitch:
        """Sample the posterior, and make the candidates from its scores of the same episodes."""
        tree, seen = self.posterior, _seen(training, self.view)
        if tree is None:
            # Sampling takes PyMC, which nothing else here needs.
            from bayes_tacit.estimates.posterior import sample_posterior

            tree = sample_posterior(seen, **self.options)
        elif not isinstance(tree, xr.DataTree):
            tree = tree(seen)
        else:
            warn_of_other_data(tree, seen)
        if not isinstance(tree, xr.DataTree):
            raise InvalidDataError("a posterior DataTree", field="what the function gives", value=tree)
        return FittedTacitSwitch.of(
            tree, seen, self.candidates, self.rule, self.draws, self.view, self.name, self.handoff
        )


@dataclass(frozen=True, eq=False)
class FittedTacitSwitch:
    """The estimate, the rule, and the thresholds to try.

    Attributes
    ----------
    estimate
        The fit, or the posterior.
    candidates
        `alpha`, and `target`, the share of training episodes that it was meant to hand off.
    rule, draws
        How draws of a posterior become one score.
    view
        What it is allowed to see.
    name
        That of the policy.
    handoff
        What Strong does after a handoff.
    """

    estimate: MapFit | xr.DataTree
    candidates: pd.DataFrame
    rule: str | float = "mean"
    draws: int = DRAWS
    view: View | None = None
    name: str = TacitSwitch.name
    handoff: Handoff = DEFAULT_HANDOFF

    @classmethod
    def of(
        cls,
        estimate: MapFit | xr.DataTree,
        seen: Episodes,
        grid: Grid,
        rule: str | float = "mean",
        draws: int = DRAWS,
        view: View | None = None,
        name: str = TacitSwitch.name,
        handoff: Handoff = DEFAULT_HANDOFF,
    ) -> FittedTacitSwitch:
        """Take candidates from the scores of the training episodes, which the view has already been applied to."""
        fitted = cls(estimate, pd.DataFrame(), rule, draws, view, name, handoff)
        if isinstance(grid, Candidates):
            found = grid
        elif grid == "score_quantiles":
            found = score_quantiles(fitted._score(seen))
        else:
            found = target_switch_rates(fitted._score(seen), timing=fitted.timing)
        return replace(fitted, candidates=pd.DataFrame({"alpha": found.alpha, "target": found.target}))

    @cached_property
    def parameters(self) -> Fitted:
        """What the scores are computed from, and what a router keeps."""
        return as_draws(self.estimate).thinned(self.draws)

    @property
    def timing(self) -> Timing:
        """What a checkpoint is, as in the estimate."""
        return self.parameters.timing

    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give the score that is compared with alpha: (episode, step), NaN past the end of an episode."""
        return self._score(episodes if self.view is None else _seen(visible(episodes), self.view))

    def _score(self, episodes: Episodes) -> np.ndarray:
        seen, fitted = Seen.of(episodes), self.parameters
        features = xr.DataArray(seen.task_columns(fitted.feature_names), dims=("episode", "feature"))
        names = ("episode", "step", "diagnostic")
        diagnostics = xr.DataArray(seen.step_diagnostics(fitted.diagnostic_names), dims=names)
        return scores_under(fitted, self.rule, features, diagnostics, seen.n_steps)

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode; -1 for never."""
        return first_handoffs(self.scores(episodes), number_in(setting, "alpha"), self.timing)

    def router(self, setting: Setting) -> Router:
        """Give the router that decides so in an agent."""
        return Router.of(self.parameters, number_in(setting, "alpha"), self.rule, handoff=self.handoff)

    def controller(self, setting: Setting) -> RouterController:
        """Give the controller that hands off so while an agent plays.

        Raises
        ------
        InvalidDataError
            If it sees episodes through a view: a controller sees them as they are.
        """
        if self.view is not None:
            raise InvalidDataError("none: a controller sees an episode as it is", field="view", value=self.view)
        return self.router(setting).controller

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return crossing_points(table, self.scores(world.episodes), world.handoffs(self.handoff), self.timing)

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        handoffs = self.handoffs(world.episodes, setting)
        return world.handoffs(self.handoff).outcomes_at(handoffs, discards_proposal=discards_proposal(self.timing))


def _seen(episodes: Episodes, view: View | None) -> Episodes:
    if view is None:
        return episodes
    seen = view(episodes)
    if not isinstance(seen, Episodes) or not np.array_equal(seen.ids, episodes.ids):
        raise InvalidDataError("the same episodes in the same order", field="what the view gives", value=seen)
    return seen


def _check(grid: Grid, view: View | None, handoff: Handoff) -> None:
    validate.choice("handoff", handoff, HANDOFFS)
    if not isinstance(grid, Candidates):
        validate.choice("candidates", grid, ("score_quantiles", "switch_rates"))
    if view is not None and not callable(view):
        raise InvalidDataError("a function from Episodes to Episodes", field="view", value=view)
