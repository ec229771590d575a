"""Scores of the same episodes under many numbers: what does not depend on them is computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import peaks
from bayes_tacit.policies.logistic import LogisticFit
from bayes_tacit.policies.tuned.numbers import Numbers
from bayes_tacit.policies.view import Seen
from bayes_tacit.router import Start
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import of_fit


@dataclass(frozen=True, eq=False)
class Learned:
    """What training episodes say: an estimate for each memory, and Cheap's own chance.

    Attributes
    ----------
    fits
        By memory.
    cheap
        Cheap's probability of success given the features.
    cheap_mean, cheap_scale
        Mean and standard deviation of its logit over training episodes.
    tick
        By memory, what a unit of time adds to the risk at weight one: the mean risk of a training step.
    """

    fits: Mapping[float, MapFit]
    cheap: LogisticFit
    cheap_mean: float
    cheap_scale: float
    tick: Mapping[float, float]

    def draws(self, numbers: Numbers) -> Draws:
        """Give the parameters that these numbers make of the estimate: a point estimate with other values.

        The location is linear in the features whatever the numbers are, and weights that do not sum to one are brought
        there by moving the location: what is tuned is a model of the same kind.
        """
        fit = self.fits[numbers["memory"]]
        clock = numbers["clock"]
        weights = np.append((1 - clock) * fit.w, clock * self.tick[fit.memory]) if clock else np.asarray(fit.w)
        total = weights.sum()
        by_cheap = numbers["cheap"] * fit.s / self.cheap_scale
        return Draws(
            w=(weights / total)[None],
            gamma0=np.array([fit.gamma0]),
            gamma=(numbers["incidence"] * fit.gamma)[None],
            beta0=np.array([fit.beta0 + by_cheap * (self.cheap.intercept - self.cheap_mean) - np.log(total)]),
            beta=(numbers["location"] * fit.beta + by_cheap * self.cheap.slopes)[None],
            s=np.array([fit.s]),
            family=family_named(fit.family),
            memory=fit.memory,
            clock=clock > 0,
        )

    def fitted(self, numbers: Numbers) -> Fitted:
        """Give the parameters with what applies them to episodes."""
        return replace(of_fit(self.fits[numbers["memory"]]), draws=self.draws(numbers))

    def start(self, numbers: Numbers, threshold: float) -> Start:
        """Give the decision before the first step, Cheap's chance on features as the estimate standardizes them."""
        fit, cheap = self.fits[numbers["memory"]], self.cheap
        intercept, slopes = cheap.on(np.asarray(fit.feature_mean), np.asarray(fit.feature_scale))
        return Start(numbers["start_weight"], threshold, np.array([intercept]), slopes)


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores of some episodes.

    Attributes
    ----------
    learned
        What training episodes say.
    seen
        The episodes.
    """

    learned: Learned
    seen: Seen
    _risks: dict[float, np.ndarray] = field(default_factory=dict, init=False)

    def paced(self, numbers: Numbers) -> np.ndarray:
        """Give q(t) exp(g t), which is compared with alpha: (episode, step), NaN past the end of an episode."""
        draws = self.learned.draws(numbers)
        x = self._standardized(numbers["memory"])
        risk = self._risk(numbers["memory"])
        if numbers["clock"]:
            steps = np.arange(1, risk.shape[1] + 1)
            risk = draws.w[0, :-1].sum() * risk + draws.w[0, -1] * steps
        pi, location = draws.incidence(x), draws.location(x)
        q = score(pi, location, draws.s, risk, draws.family)
        pace = numbers["pace"]
        return q * np.exp(pace * np.arange(q.shape[1])) if pace else q

    def start(self, numbers: Numbers) -> np.ndarray:
        """Give c pi(x) - P(Cheap succeeds | x), which is compared with the threshold of the start: (episode,)."""
        draws = self.learned.draws(numbers)
        pi = draws.incidence(self._standardized(numbers["memory"]))[:, 0]
        cheap = self.learned.cheap
        return numbers["start_weight"] * pi - cheap.probability(self.seen.task_columns(cheap.names))

    def _standardized(self, memory: float) -> np.ndarray:
        fit = self.learned.fits[memory]
        return (self.seen.task_columns(fit.feature_names) - fit.feature_mean) / fit.feature_scale

    def _risk(self, memory: float) -> np.ndarray:
        """Give w P(t) under the fitted weights: (episode, step)."""
        if memory not in self._risks:
            fit = self.learned.fits[memory]
            self._risks[memory] = peaks(self.seen.step_diagnostics(fit.diagnostic_names), memory) @ fit.w
        return self._risks[memory]


def learned_from(fits: Mapping[float, MapFit], cheap: LogisticFit, training: Seen) -> Learned:
    """Measure on training episodes what the numbers are relative to."""
    logit = special.logit(cheap.probability(training.task_columns(cheap.names)))
    tick = {
        memory: float(np.nanmean(training.step_diagnostics(fit.diagnostic_names) @ fit.w))
        for memory, fit in fits.items()
    }
    return Learned(fits, cheap, float(logit.mean()), float(logit.std()) or 1.0, tick)
