"""Data sets whose model is wrong, each in one respect and by a graded amount, and right ones of many shapes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from bayes_tacit import CheckResult, Episodes, WeaklyInformativePrior, credible_band, run_checks, sample_posterior
from bayes_tacit.errors import TacitWarning
from simulations.model_based import quietly

HORIZON, PROBABILITY = 15, 0.9
WEIGHTS = np.array([0.5, 0.3, 0.2])


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
    def draw(cls, rng: np.random.Generator, n: int, diagnostics: int = 3, features: int = 2) -> Tasks:
        """Draw tasks; how Strong's success depends on the first feature differs from data set to data set."""
        x = rng.normal(size=(n, features))
        shape = (n, HORIZON, diagnostics)
        u = rng.gamma(0.6, 1.0, size=shape) * (rng.random(shape) < 0.7)
        pi = special.expit(rng.normal(0.8, 0.3) + rng.normal(0.5, 0.2) * x[:, :1].sum(axis=1))
        return cls(x, u, rng.integers(8, HORIZON + 1, size=n), pi)

    @property
    def sums(self) -> np.ndarray:
        """Each diagnostic summed up to each step, (episode, step, diagnostic)."""
        return np.cumsum(self.u, axis=1)

    def risk(self, w: np.ndarray = WEIGHTS) -> np.ndarray:
        """Return cumulative risk, (episode, step)."""
        return self.sums @ w

    def due(
        self,
        rng: np.random.Generator,
        probability: np.ndarray,
        mark: Callable[[np.ndarray], np.ndarray] = lambda crossing: crossing,
        seen: Callable[[np.ndarray], np.ndarray] = lambda crossing: np.ones(len(crossing), dtype=bool),
        **carried: np.ndarray,
    ) -> Drawn:
        """Draw outcomes and marks.

        `probability` is that of being due by each step where Strong succeeds, (episode, step). The teacher marks the
        step `mark` of a crossing, which is the crossing itself unless the teacher errs, where `seen` says that it
        marks at all.
        """
        n = len(self.x)
        strong = rng.random(n) < self.pi
        inside = np.arange(HORIZON) < self.n_steps[:, None]
        crossing = (probability < rng.random((n, 1))).sum(axis=1)
        crossed = crossing < self.n_steps
        told = np.clip(mark(crossing), 0, self.n_steps - 1) // 2 * 2
        start = np.where(strong & crossed & seen(crossing), told, np.nan)
        dataset = xr.Dataset(
            {
                "features": (("episode", "feature"), self.x),
                "diagnostics": (("episode", "step", "diagnostic"), np.where(inside[..., None], self.u, np.nan)),
                "n_steps": ("episode", self.n_steps),
                "cheap_success": ("episode", np.where(strong, ~crossed, rng.random(n) < 0.4)),
                "strong_success": ("episode", strong),
                "window_start": ("episode", start),
                "window_end": ("episode", np.minimum(start + 1, self.n_steps - 1)),
                **{name: ("episode", values) for name, values in carried.items()},
            },
            coords={
                "episode": np.arange(n),
                "step": np.arange(HORIZON),
                "feature": [f"x{j + 1}" for j in range(self.x.shape[1])],
                "diagnostic": [f"u{j + 1}" for j in range(self.u.shape[-1])],
            },
        )
        return Drawn(quietly(dataset), np.where(inside, self.pi[:, None] * probability, np.nan))


def reached(risk: np.ndarray, location: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """Return the probability that a log-normal threshold is at most each risk."""
    with np.errstate(divide="ignore"):
        return special.ndtr((np.log(risk) - location[:, None]) / np.reshape(scale, (-1, 1)))


def _line(tasks: Tasks) -> np.ndarray:
    return 1 + 0.4 * tasks.x[:, 0]


def scale(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let the spread of thresholds depend on a feature."""
    tasks = Tasks.draw(rng, n)
    return tasks.due(rng, reached(tasks.risk(), _line(tasks), 0.5 * np.exp(0.6 * size * tasks.x[:, 0])))


def by_rollout(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let Strong's success depend on Cheap's first three steps."""
    tasks = Tasks.draw(rng, n)
    early = tasks.sums[:, 2] @ WEIGHTS
    logit = special.logit(tasks.pi) - 0.8 * size * (early - early.mean()) / early.std()
    tasks = replace(tasks, pi=special.expit(logit))
    return tasks.due(rng, reached(tasks.risk(), _line(tasks), 0.5))


def missing_late(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Leave late crossings without a mark."""
    tasks = Tasks.draw(rng, n)
    lost = rng.random(n) < 0.9 * size
    return tasks.due(rng, reached(tasks.risk(), _line(tasks), 0.5), seen=lambda crossing: (crossing < 5) | ~lost)


def drift(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let the teacher mark later and later along the data."""
    tasks = Tasks.draw(rng, n)
    late = np.round(4 * size * np.arange(n) / n + rng.uniform(-0.5, 0.5, n)).astype(int)
    return tasks.due(rng, reached(tasks.risk(), _line(tasks), 0.5), mark=lambda crossing: crossing + late.clip(0))


def late(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let the teacher be late by two steps in some of the long rollouts."""
    tasks = Tasks.draw(rng, n)
    lag = 2 * ((tasks.n_steps >= 12) & (rng.random(n) < size))
    return tasks.due(rng, reached(tasks.risk(), _line(tasks), 0.5), mark=lambda crossing: crossing + lag)


def clusters(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let ten tasks each have intercepts in common; a carried column says which."""
    tasks = Tasks.draw(rng, n)
    cluster = rng.permutation(np.arange(n) // 10)
    logit, shift = rng.normal(size=(2, n))[:, cluster]
    tasks = replace(tasks, pi=special.expit(special.logit(tasks.pi) + 0.8 * size * logit))
    return tasks.due(rng, reached(tasks.risk(), _line(tasks) + 0.5 * size * shift, 0.5), cluster=cluster)


def interaction(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let a diagnostic count more in some tasks than in others, by a feature."""
    tasks = Tasks.draw(rng, n)
    w = WEIGHTS * np.exp(size * tasks.x[:, :1] * np.array([1.0, -1.0, 0.0]))
    risk = np.cumsum((tasks.u * w[:, None]).sum(axis=2), axis=1)
    return tasks.due(rng, reached(risk, 1 + 0.4 * tasks.x[:, 1], 0.4))


def mixture(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let there be two kinds of tasks that nothing tells apart."""
    tasks = Tasks.draw(rng, n)
    p = [reached(tasks.risk(), _line(tasks) + side * size, 0.3) for side in (-0.6, 0.6)]
    return tasks.due(rng, (p[0] + p[1]) / 2)


def square_root(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let each diagnostic's sum count by a power below one."""
    tasks = Tasks.draw(rng, n)
    risk = (tasks.sums * np.array([1.0, 2.0, 4.0])) ** (1 - 0.7 * size) @ np.full(3, 1 / 3)
    return tasks.due(rng, reached(risk, np.log(np.median(risk) / 1.5) + 0.3 * tasks.x[:, 0], 0.2))


def log1p(rng: np.random.Generator, n: int, size: float) -> Drawn:
    """Let each diagnostic's sum count less and less, as a logarithm."""
    tasks = Tasks.draw(rng, n)
    risk = np.log1p((4 * size + 0.01) * tasks.sums) @ np.full(3, 1 / 3)
    return tasks.due(rng, reached(risk, np.log(np.median(risk) / 1.3) + 0.2 * tasks.x[:, 0], 0.15))


WRONG: dict[str, Callable[[np.random.Generator, int, float], Drawn]] = {
    "interaction": interaction,
    "mixture": mixture,
    "drift": drift,
    "late": late,
    "incidence by rollout": by_rollout,
    "missing late": missing_late,
    "clusters": clusters,
    "square root": square_root,
    "log1p": log1p,
    "scale": scale,
}
"""What the model does not have; a size of 1 is large, of 0 none (of log1p, next to none)."""


def right(
    rng: np.random.Generator, n: int, diagnostics: int = 3, features: int = 2, marked: float = 1.0, spread: float = 0.0
) -> Drawn:
    """Draw from the model itself, with a column of ten tasks each; weights, slopes and spread are drawn, too.

    `marked` is the share of crossings that the teacher marks, whenever they are; `spread` that of the intercepts of
    the column's levels.
    """
    tasks = Tasks.draw(rng, n, diagnostics, features)
    group = rng.permutation(np.arange(n) // 10)
    logit, shift = spread * rng.normal(size=(2, n))[:, group]
    location = rng.normal(1.0, 0.2) + tasks.x @ rng.normal(0.0, 0.3, size=features) + shift
    tasks = replace(tasks, pi=special.expit(special.logit(tasks.pi) + logit))
    w, known = rng.dirichlet(np.full(diagnostics, 2.0)), rng.random(n) < marked
    probability = reached(tasks.risk(w), location, rng.uniform(0.3, 0.8))
    return tasks.due(rng, probability, seen=lambda _: known, group=group)


def judged(
    episodes: Episodes,
    prior: WeaklyInformativePrior,
    seed: int,
    **settings: Any,  # noqa: ANN401  as for sample_posterior
) -> tuple[xr.DataTree, list[CheckResult]]:
    """Sample a posterior in this process, and run all checks of it."""
    tree = sampled(episodes, prior, seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return tree, run_checks(tree, episodes)


def sampled(
    episodes: Episodes,
    prior: WeaklyInformativePrior,
    seed: int,
    **settings: Any,  # noqa: ANN401  as for sample_posterior
) -> xr.DataTree:
    """Sample a posterior in this process; windows without mass are dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return sample_posterior(
            episodes, prior, cores=1, seed=seed, zero_mass="drop_window", progress=False, **settings
        )


def covered(tree: xr.DataTree, episodes: Episodes, q: np.ndarray) -> float:
    """Return the share of true q(t) in the 90% band; of fewer steps than there are, they are the last ones."""
    band = credible_band(tree, episodes, probability=PROBABILITY)
    lower, upper = (band[side].values[:, -q.shape[1] :] for side in ("lower", "upper"))
    known = np.isfinite(q)
    return float(((lower <= q) & (q <= upper))[known].mean())
