"""TACIT-Switch: a permanent handoff at the first crossing of the score, from a point estimate or a posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, Handoff
from bayes_tacit.data.visible import Visible
from bayes_tacit.decisions.selection import Candidates, score_quantiles, target_switch_rates
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.policies.base import FittedPolicy, View, through
from bayes_tacit.policies.logistic import NEWTON, L2Logistic
from bayes_tacit.router import Router, Start
from bayes_tacit.router.rule import CALL_OF, Chance
from bayes_tacit.router.tacit import HandoffScore, LandmarkScore
from bayes_tacit.scores.fitted import DRAWS, Fitted, as_draws

Grid = Candidates | Literal["score_quantiles", "switch_rates"]
"""Thresholds to try, or how they are made from training scores (see `bayes_tacit.decisions.selection`)."""

SEES = "The task's features, and the diagnostics of all steps so far."
DECIDES = "At each of Cheap's checkpoints: hand over to Strong for good, or go on."


@dataclass(frozen=True, eq=False)
class TacitSwitch:
    """TACIT-Switch from a point estimate.

    Attributes
    ----------
    estimator, options
        Makes the fit from training episodes, by default `fit_map`, which is called with the options, such as
        `{"ridge": 0.03, "timing": "proposal"}`.
    candidates
        "score_quantiles" (101 of the training scores), "switch_rates" (target rates on training episodes, as the paper
        does for DABench), or thresholds such as `fixed_grid()`.
    view
        What it is allowed to see, for ablations; by default all features and diagnostics.
    handoff
        What Strong does after a handoff: "resume" from Cheap's state, as in the paper, or "restart" the task. The model
        and its scores are the same; what a handoff gives is not. Either way a crossing after the last step hands
        nothing off.
    landmark
        Whether Strong's chance also depends on what has been seen of the rollout: q(t) = pi(x, seen so far) F(R(t)).
        That pi is a ridge logistic model of Strong's success on the features and each diagnostic's sum (under a memory,
        its peak) so far, fitted on all checkpoints of the training episodes, each episode weighted once, after R and F.
        Such a score may fall; a handoff comes where it first reaches alpha.

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
    landmark: bool = False
    name: str = "TACIT-Switch"
    sees: str = SEES
    decides: str = DECIDES

    def __post_init__(self) -> None:
        """Check the settings."""
        _check(self.candidates, self.view, self.handoff)
        validate.flag("landmark", self.landmark)
        if self.estimator is not None and self.options:
            raise InvalidDataError("none with an estimator of your own", field="options", value=dict(self.options))

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit the model, and make the candidates from its scores of the same episodes."""
        seen = through(self.view, training)
        fit = fit_map(seen, **self.options) if self.estimator is None else self.estimator(seen)
        if not isinstance(fit, MapFit):
            raise InvalidDataError("a MapFit", field="what the estimator gives", value=fit)
        router = Router.of(as_draws(fit), np.inf, call=CALL_OF[self.handoff])
        if self.landmark:
            router = replace(router, rule=_landmark(as_draws(fit), seen))
        return _fitted(router, seen, self.candidates, name=self.name, view=self.view, estimate=fit)


def _landmark(fitted: Fitted, training: Episodes, logistic: L2Logistic = NEWTON) -> LandmarkScore:
    """Fit Strong's success on what is seen at each checkpoint of the episodes that Strong played."""
    successes, trials = map(np.asarray, training.strong_counts)
    if not 0 < successes.sum() < trials.sum():
        counts = f"{successes.sum():.0f} of {trials.sum():.0f}"
        raise EvidenceError(f"Landmark: Strong succeeds in {counts} training rollouts; expected both outcomes")
    due = HandoffScore.of(fitted)
    x, u = (each.values for each in fitted.columns_of(training))
    width, n_steps = x.shape[1] + due.w.shape[1], training.n_steps
    rule = LandmarkScore(due, Chance(np.zeros(width), np.ones(width), 0.0, np.zeros(width)))
    state, found = rule.begin(x), []
    for t in range(u.shape[1]):
        state, _ = rule.step(state, np.nan_to_num(u[:, t]))
        found.append(rule.seen(state))
    episode, step = np.nonzero(np.arange(u.shape[1]) < n_steps[:, None])
    columns = np.stack(found, axis=1)[episode, step]
    won, lost = (counts[episode] / n_steps[episode] for counts in (successes, trials - successes))
    weight = np.concatenate([won, lost])
    rows = np.flatnonzero(weight)
    success = np.repeat([True, False], len(columns))[rows]
    names = tuple(f"c{number}" for number in range(width))
    model = logistic.fit(names, np.concatenate([columns, columns])[rows], success, "Landmark: ", weight[rows])
    return LandmarkScore(due, model.chance())


@dataclass(frozen=True, eq=False)
class PosteriorTacitSwitch:
    """TACIT-Switch from posterior draws, by their mean score or a quantile of it; the rest is as for `TacitSwitch`.

    Attributes
    ----------
    rule
        "mean", or a probability: 0.1 hands off only where 90% of the posterior agrees.
    posterior, options
        A posterior of the training episodes (a warning says if it names others), or a function that makes one from
        them; by default `sample_posterior`, which is called with the options.
    draws
        How many draws are used at most, at even distances, as a router does.

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

    def fit(self, training: Episodes) -> FittedPolicy:
        """Sample the posterior, and make the candidates from its scores of the same episodes."""
        tree, seen = self.posterior, through(self.view, training)
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
        fitted = as_draws(tree).thinned(self.draws)
        router = Router.of(fitted, np.inf, self.rule, call=CALL_OF[self.handoff])
        return _fitted(router, seen, self.candidates, name=self.name, view=self.view, estimate=tree)


def _fitted(router: Router, seen: Episodes, grid: Grid, *, name: str, **more: Any) -> FittedPolicy:  # noqa: ANN401
    """Take candidates from the scores of the training episodes, which the view has already been applied to."""
    if isinstance(grid, Candidates):
        found = grid
    elif grid == "score_quantiles":
        found = score_quantiles(router.score(seen).steps)
    else:
        found = target_switch_rates(router.score(seen).steps, timing=router.timing)
    return FittedPolicy.of(name, router, pd.DataFrame({"alpha": found.alpha, "target": found.target}), **more)


def _check(grid: Grid, view: View | None, handoff: Handoff) -> None:
    validate.choice("handoff", handoff, HANDOFFS)
    if not isinstance(grid, Candidates):
        validate.choice("candidates", grid, ("score_quantiles", "switch_rates"))
    if view is not None and not callable(view):
        raise InvalidDataError("a function from Episodes to Episodes", field="view", value=view)


def start_from(
    training: Episodes,
    router: Router,
    *,
    threshold: float,
    weight: float = 1.0,
    logistic: L2Logistic = NEWTON,
    seed: int = 0,
) -> Router:
    """Return a TACIT-Switch router that also decides before the first step, by Cheap's own chance given the features.

    Strong has the task from the start where c pi(x) - P(Cheap succeeds | x) is at least `threshold`; c, the `weight`,
    is how much Strong's success counts beside Cheap's. Beside a posterior Cheap's chance has as many draws, from the
    normal approximation of its own posterior: the two models share no parameters, so any draw of one goes with any
    other.

    Examples
    --------
    >>> from bayes_tacit import Router, fit_map, load_example
    >>> training = load_example()
    >>> router = start_from(training, Router.from_fit(fit_map(training), alpha=0.3), threshold=0.5)
    >>> router.handoffs(training).values[:5]
    array([-1,  0,  0,  0, -1])
    """
    rule = router.rule
    if not isinstance(rule, HandoffScore):
        raise InvalidDataError("TACIT-Switch's router", field="router", value=router)
    columns = Visible.of(training).task_columns(router.feature_names)
    success = training.dataset["cheap_success"].values
    fit = logistic.fit(router.feature_names, columns, success, "Start: ")
    n = len(rule.s)
    models = [fit] if n == 1 else logistic.laplace(fit, columns, n, np.random.default_rng(seed))
    intercept, slopes = zip(*(model.on(rule.mean, rule.scale) for model in models), strict=True)
    start = Start(weight, np.array(intercept), np.array(slopes))
    return replace(router, rule=replace(rule, start=start), alpha_start=validate.number("threshold", threshold))
