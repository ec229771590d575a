"""Data sets that the model is right about, and some that it is wrong about, each with its true q(t).

Tasks and rollouts are alike in all of them: two features, rollouts of 8 to 15 steps, diagnostics that are often zero.
What differs is when the handoff is due. The teacher names the pair of steps that holds the crossing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import special, stats

from bayes_tacit import Episodes
from simulations.model_based import quietly

HORIZON = 15
N_EPISODES = 500
WEIGHTS = np.array([0.5, 0.3, 0.2])
MANY, TELLING, FEWER_EPISODES = 20, 5, 300
"""Diagnostics in the data sets with many of them, how many of these count, and how many episodes there are."""


@dataclass(frozen=True)
class Drawn:
    """A data set, and what is true of it.

    Attributes
    ----------
    episodes
        What a model is fitted on.
    q
        pi times the probability that the handoff is due by each step, (episode, step); NaN past the end of a rollout.
    """

    episodes: Episodes
    q: np.ndarray


@dataclass(frozen=True)
class Tasks:
    """Tasks and Cheap rollouts, before anything is due.

    Attributes
    ----------
    x
        Features, (episode, feature).
    u
        Diagnostics, (episode, step, diagnostic), up to the horizon.
    n_steps
        Of each rollout.
    pi
        Probability that Strong succeeds.
    """

    x: np.ndarray
    u: np.ndarray
    n_steps: np.ndarray
    pi: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int = N_EPISODES, diagnostics: int = 3) -> Tasks:
        """Draw tasks; how Strong's success depends on the first feature differs from data set to data set."""
        x = rng.normal(size=(n, 2))
        shape = (n, HORIZON, diagnostics)
        u = rng.gamma(0.6, 1.0, size=shape) * (rng.random(shape) < 0.7)
        pi = special.expit(rng.normal(0.8, 0.3) + rng.normal(0.5, 0.2) * x[:, 0])
        return cls(x, u, rng.integers(8, HORIZON + 1, size=n), pi)

    def risk(self, w: np.ndarray = WEIGHTS) -> np.ndarray:
        """Give cumulative risk, (episode, step)."""
        total: np.ndarray = np.cumsum(self.u @ w, axis=1)
        return total

    def due(self, rng: np.random.Generator, probability: np.ndarray) -> Drawn:
        """Draw outcomes and marks; `probability` is that of being due by each step where Strong succeeds."""
        n = len(self.x)
        strong = rng.random(n) < self.pi
        inside = np.arange(HORIZON) < self.n_steps[:, None]
        crossing = (probability < rng.random((n, 1))).sum(axis=1)
        crossed = crossing < self.n_steps
        start = np.where(strong & crossed, crossing // 2 * 2, np.nan)
        dataset = xr.Dataset(
            {
                "features": (("episode", "feature"), self.x),
                "diagnostics": (("episode", "step", "diagnostic"), np.where(inside[..., None], self.u, np.nan)),
                "n_steps": ("episode", self.n_steps),
                "cheap_success": ("episode", np.where(strong, ~crossed, rng.random(n) < 0.4)),
                "strong_success": ("episode", strong),
                "window_start": ("episode", start),
                "window_end": ("episode", np.minimum(start + 1, self.n_steps - 1)),
            },
            coords={
                "episode": np.arange(n),
                "step": np.arange(HORIZON),
                "feature": ["x1", "x2"],
                "diagnostic": [f"u{j + 1}" for j in range(self.u.shape[-1])],
            },
        )
        return Drawn(quietly(dataset), np.where(inside, self.pi[:, None] * probability, np.nan))


def reached(risk: np.ndarray, location: np.ndarray, scale: float) -> np.ndarray:
    """Give the probability that a log-normal threshold is at most each risk."""
    with np.errstate(divide="ignore"):
        probability: np.ndarray = special.ndtr((np.log(risk) - location[:, None]) / scale)
    return probability


def right(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Draw from the model itself; weights, slopes and spread differ from data set to data set."""
    tasks = Tasks.draw(rng, n)
    location = rng.normal(1.0, 0.2) + tasks.x @ rng.normal(0.0, 0.3, size=2)
    return tasks.due(rng, reached(tasks.risk(rng.dirichlet([2.0, 2.0, 2.0])), location, rng.uniform(0.3, 0.8)))


def square(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the square of a feature, of which the model knows nothing, move the threshold."""
    tasks = Tasks.draw(rng, n)
    return tasks.due(rng, reached(tasks.risk(), 1 + 1.2 * (tasks.x[:, 0] ** 2 - 1), 0.3))


def interaction(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the product of two features move the threshold."""
    tasks = Tasks.draw(rng, n)
    return tasks.due(rng, reached(tasks.risk(), 1 + 0.9 * tasks.x[:, 0] * tasks.x[:, 1], 0.3))


def heavy_tails(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Draw log thresholds from a Cauchy distribution."""
    tasks = Tasks.draw(rng, n)
    location = 1 + 0.4 * tasks.x[:, 0]
    with np.errstate(divide="ignore"):
        place = (np.log(tasks.risk()) - location[:, None]) / 0.3
    return tasks.due(rng, stats.cauchy.cdf(place))


def latest_risk(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let a step's own risk decide, whatever came before it."""
    tasks = Tasks.draw(rng, n)
    highest = np.maximum.accumulate(tasks.u @ WEIGHTS, axis=1)
    return tasks.due(rng, reached(highest, 0.35 + 0.3 * tasks.x[:, 0], 0.4))


def by_the_clock(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the number of steps decide, whatever happens in them."""
    tasks = Tasks.draw(rng, n)
    steps = np.broadcast_to(np.arange(1.0, HORIZON + 1), (n, HORIZON))
    return tasks.due(rng, reached(steps, 1.9 + 0.3 * tasks.x[:, 0], 0.35))


def many_diagnostics(rng: np.random.Generator, n: int = FEWER_EPISODES) -> Drawn:
    """Draw from the model, with 20 diagnostics of which 15 count for nothing."""
    tasks = Tasks.draw(rng, n, MANY)
    w = np.zeros(MANY)
    w[:TELLING] = rng.dirichlet(np.full(TELLING, 5.0))
    return tasks.due(rng, reached(tasks.risk(w), 1 + tasks.x @ np.array([0.4, -0.2]), 0.5))


MISFITS: dict[str, Callable[..., Drawn]] = {
    "square of a feature": square,
    "two features act together": interaction,
    "heavy-tailed thresholds": heavy_tails,
    "latest risk alone": latest_risk,
    "marks by the clock": by_the_clock,
}
"""What the model does not have."""
