"""Landmark: at every checkpoint, Cheap's chance to fail times Strong's to succeed, given all that was seen so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    HANDOFFS,
    TIMINGS,
    Handoff,
    Timing,
    usable_checkpoints,
)
from bayes_tacit.decisions.selection import score_quantiles
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.model.design import Standardization
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.crossings import Crossing
from bayes_tacit.policies.logistic import NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.view import Seen
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import LandmarkController
from bayes_tacit.router.control.histories import LOG_STEPS


@dataclass(frozen=True)
class Landmark:
    r"""Two logistic models, asked at every checkpoint.

    .. math:: \Pr(A = 0 \mid x, u(0), \dots, u(t)) \; \Pr(B = 1 \mid x, u(0), \dots, u(t))

    is compared with the threshold, and its first crossing hands off for good. Both models are fitted on all pairs of a
    training episode and one of its checkpoints at which a handoff is still possible. Their columns are the task's
    features, of each diagnostic the sum so far, the latest and the highest value, and log(1 + t). No marks are needed.

    Attributes
    ----------
    features
        The features to use; by default all.
    logistic
        How the models are fitted.
    timing
        What a checkpoint is, as for `handoff_steps`.
    handoff
        What Strong does then: "resume" from Cheap's state, or "restart" the task. Either way a crossing after the last
        step hands nothing off.
    n_candidates
        How many quantiles of the training scores are tried.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Landmark().fit(training)
    >>> fitted.scores(training)[1, :4].round(2)
    array([0.56, 0.59, 0.59, 0.58])
    >>> fitted.handoffs(training, {"alpha": 0.7})[:5]
    array([-1, -1,  4,  8, -1])
    """

    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    n_candidates: int = 101
    name: str = "Landmark"
    sees: ClassVar[str] = "The task's features, and the diagnostics of all steps so far."
    decides: ClassVar[str] = "At each of Cheap's checkpoints: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("timing", self.timing, TIMINGS)
        validate.choice("handoff", self.handoff, HANDOFFS)
        validate.whole("n_candidates", self.n_candidates, 2)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def fit(self, training: Episodes) -> FittedLandmark:
        """Fit both models on pooled checkpoints, and make the candidates from the scores of the same episodes."""
        seen = Seen.of(training, self.features or ())
        features = seen.feature_names if self.features is None else self.features
        columns = _columns(seen, features)
        usable = np.arange(columns.shape[1]) < usable_checkpoints(seen.n_steps, self.timing)[:, None]
        if not usable.any():
            raise EvidenceError(f"{self.name}: every rollout has one step; expected one in which a handoff can come")
        names, pairs, row = _names(seen, features), columns[usable], np.nonzero(usable)[0]
        cheap, strong = (training.dataset[f"{agent}_success"].values[row] for agent in ("cheap", "strong"))
        of = f"{self.name}: "
        models = self.logistic.fit(names, pairs, cheap, of), _of_strong(self.logistic, names, pairs, strong, of)
        known = features, seen.diagnostic_names
        fitted = FittedLandmark(*models, *known, self.timing, pd.DataFrame(), self.name, self.handoff)
        found = score_quantiles(fitted.scores(training), self.n_candidates)
        return replace(fitted, candidates=pd.DataFrame({"alpha": found.alpha, "target": found.target}))


@dataclass(frozen=True, eq=False)
class FittedLandmark(Crossing):
    """The fitted models and the thresholds to try.

    Attributes
    ----------
    cheap, strong
        Probability that each succeeds, given what was seen so far.
    features, diagnostics
        What their columns are made of.
    timing
        What a checkpoint is.
    candidates
        `alpha`, and `target`, which is not known.
    name
        That of the policy.
    handoff
        What Strong does after a handoff.
    """

    cheap: LogisticFit
    strong: LogisticFit
    features: tuple[str, ...]
    diagnostics: tuple[str, ...]
    timing: Timing
    candidates: pd.DataFrame
    name: str
    handoff: Handoff = DEFAULT_HANDOFF

    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give the product that is compared with alpha: (episode, step), NaN past the end of an episode."""
        seen = Seen.of(episodes, self.features)
        names = _names(seen, self.features)
        if names != self.cheap.names:
            raise InvalidDataError(f"{self.cheap.names}, as in training", field="columns of the episodes", value=names)
        columns = _columns(seen, self.features)
        inside = np.arange(columns.shape[1]) < seen.n_steps[:, None]
        out = np.full(inside.shape, np.nan)
        out[inside] = (1 - self.cheap.probability(columns[inside])) * self.strong.probability(columns[inside])
        return out

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), self.features, self.diagnostics)

    def controller(self, setting: Setting) -> LandmarkController:
        """Give the controller that decides so while an agent plays."""
        chances = self.cheap.chance(), self.strong.chance()
        return LandmarkController(self.diagnostics, *chances, number_in(setting, "alpha"), self.timing, self.handoff)


def _of_strong(
    logistic: L2Logistic, names: tuple[str, ...], columns: np.ndarray, success: np.ndarray, of: str
) -> LogisticFit:
    """Fit Strong's success; where all outcomes are alike, that is a rate near 0 or 1, whatever was seen."""
    if success.any() and not success.all():
        return logistic.fit(names, columns, success, of)
    rate = (success.sum() + 0.5) / (len(success) + 1)
    return LogisticFit(names, Standardization.of(columns), float(special.logit(rate)), np.zeros(len(names)), 0)


def _names(seen: Seen, features: tuple[str, ...]) -> tuple[str, ...]:
    return (*seen.names_so_far(features), LOG_STEPS)


def _columns(seen: Seen, features: tuple[str, ...]) -> np.ndarray:
    """Give what is known at each checkpoint, (episode, step, column); NaN past the end of an episode."""
    shape = seen.diagnostics.shape[:2]
    clock = np.broadcast_to(np.log1p(np.arange(shape[1]))[:, None], (*shape, 1))
    return np.concatenate([seen.so_far(features), clock], axis=2)
