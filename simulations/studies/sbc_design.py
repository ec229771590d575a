"""The data sets and posteriors of simulation-based calibration.

Parameters are drawn from the weakly informative prior, outcomes and windows from the model given them, and the
posterior is sampled; then each true value has a rank among the draws. The memory is the paper's, or learned, with a
clock.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import special

from bayes_tacit import Episodes, build_model, judge
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.model.build import forward_draws
from bayes_tacit.model.design import Standardization
from bayes_tacit.model.families import LOGNORMAL
from bayes_tacit.model.memory import peaks, rates, with_clock
from bayes_tacit.scores.core import Draws, score
from simulations.teacher import mark_windows

N_EPISODES, HORIZON = 200, 15
FEATURES, DIAGNOSTICS = ("x1", "x2"), ("u1", "u2", "u3")
STEPS = np.array([2, 5, 8, 11, 14])
POINTS = ((0, 2), (0, 8), (50, 5), (100, 8), (150, 14))
"""Episode and step of the fixed points at which q is ranked."""
RANKED_DRAWS = 99
COVERED = (0.5, 0.9)
CHAINS, DRAWS, TUNE = 2, 500, 500
LONGER = 1000
"""Draws a chain where the memory is learned: with a clock beside them, weights mix more slowly."""


@cache
def design_of(seed: int, *, learned: bool = False) -> Design:
    """Give the design of a seed, made once a process."""
    rng = np.random.default_rng(seed)
    return Design(
        features=rng.normal(size=(N_EPISODES, len(FEATURES))),
        n_steps=rng.integers(8, HORIZON + 1, size=N_EPISODES),
        diagnostics=rng.gamma(0.6, 0.5, size=(N_EPISODES, HORIZON, len(DIAGNOSTICS))),
        learned=learned,
    )


@cache
def parameters_of(seed: int, block: int, size: int = 300, *, learned: bool = False) -> dict[str, np.ndarray]:
    """Give the parameters of replicates 0 to (block + 1) size - 1, of which a longer draw repeats the beginning."""
    return design_of(seed, learned=learned).draw_parameters((block + 1) * size, seed)


def ranks(number: int, seed: int, size: int = 300, *, learned: bool = False) -> dict[str, float | str]:
    """Compute a replicate: ranks of the truth, the share of q(t) covered, and the divergences."""
    truths = parameters_of(seed, number // size, size, learned=learned)
    truth = {name: values[number] for name, values in truths.items()}
    stream = np.random.default_rng([seed, number, 1] if learned else [seed, number])
    return design_of(seed, learned=learned).replicate(truth, stream, number)


@dataclass(frozen=True)
class Design:
    """Tasks and Cheap rollouts; of replicates that share them only thresholds, outcomes and windows differ.

    Attributes
    ----------
    features
        By (episode, feature).
    n_steps
        Of each rollout, at most the horizon.
    diagnostics
        By (episode, step, diagnostic), up to the horizon.
    learned
        Whether the memory is a parameter, and the steps count as one more diagnostic; so every window has mass.
    """

    features: np.ndarray
    n_steps: np.ndarray
    diagnostics: np.ndarray
    learned: bool = False

    @property
    def model(self) -> dict[str, Any]:
        """What the model is told besides the episodes."""
        return {"memory": "learned", "clock": True} if self.learned else {}

    @cached_property
    def x(self) -> np.ndarray:
        """The features, standardized."""
        return Standardization.of(self.features).apply(self.features)

    def draw_parameters(self, replicates: int, seed: int) -> dict[str, np.ndarray]:
        """Draw from the prior of the PyMC model itself."""
        weights = len(DIAGNOSTICS) + self.learned
        flat = {"gamma": np.zeros(2), "beta": np.zeros(2), "w": np.full(weights, 1 / weights)}
        some = flat | {name: np.array(value) for name, value in (("gamma0", 0.0), ("beta0", 0.5), ("s", 0.5))}
        some |= {"rho": np.array(0.5)} if self.learned else {}
        with build_model(self.simulate(some, np.random.default_rng(seed)), **self.model), forward_draws():
            forward = pm.sample_prior_predictive(replicates, random_seed=seed, compile_kwargs={"mode": "FAST_COMPILE"})
        return {name: values.values[0] for name, values in forward["prior"].data_vars.items()}

    def simulate(self, truth: dict[str, np.ndarray], rng: np.random.Generator) -> Episodes:
        """Draw outcomes and windows.

        No window is missing: the paper's likelihood takes an AB = 01 episode without one for its B alone, and so
        forgets that its threshold was crossed, which pushes thresholds up (the study `unmarked` shows it).
        """
        n = len(self.features)
        strong = rng.random(n) < special.expit(truth["gamma0"] + self.x @ truth["gamma"])
        kappa = np.exp(truth["beta0"] + self.x @ truth["beta"] + truth["s"] * rng.normal(size=n))
        crossing = (self.cumulative_risk(truth) < kappa[:, None]).sum(axis=1)
        crossed = crossing < self.n_steps
        marked = strong & crossed
        start, end = mark_windows(rng, crossing, self.n_steps, fineness=0.6)
        dataset = xr.Dataset(
            {
                "features": (("episode", "feature"), self.features),
                "diagnostics": (("episode", "step", "diagnostic"), self.diagnostics),
                "n_steps": ("episode", self.n_steps),
                "cheap_success": ("episode", np.where(strong, ~crossed, rng.random(n) < 0.3)),
                "strong_success": ("episode", strong),
                "window_start": ("episode", np.where(marked, start, np.nan)),
                "window_end": ("episode", np.where(marked, end, np.nan)),
            },
            coords={
                "episode": np.arange(n),
                "step": np.arange(HORIZON),
                "feature": list(FEATURES),
                "diagnostic": list(DIAGNOSTICS),
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            return Episodes(dataset)

    def cumulative_risk(self, truth: dict[str, np.ndarray]) -> np.ndarray:
        """Give R under the truth, (episode, step)."""
        if not self.learned:
            return np.cumsum(self.diagnostics @ truth["w"], axis=1)
        rho = rates(float(truth["rho"]), len(truth["w"]), clock=True)
        return peaks(with_clock(self.diagnostics), rho) @ truth["w"]

    def scores(self, draws: Draws) -> np.ndarray:
        """Give q at the chosen steps of all tasks, (episode, step, draw), as if every rollout reached the horizon."""
        if self.learned:
            risk = draws.cumulative_risk(self.diagnostics)[:, STEPS]
        else:
            risk = draws.risk(np.cumsum(self.diagnostics, axis=1)[:, STEPS])
        return score(draws.incidence(self.x)[:, None], draws.location(self.x)[:, None], draws.s, risk, draws.family)

    def true_scores(self, truth: dict[str, np.ndarray]) -> np.ndarray:
        """Give q under the truth at the same points, (episode, step)."""
        return self.scores(draws_of({name: np.asarray(value)[None] for name, value in truth.items()}))[..., 0]

    def replicate(self, truth: dict[str, np.ndarray], rng: np.random.Generator, number: int) -> dict[str, float | str]:
        """Sample one posterior; give the ranks of the truth, the share of q(t) covered, and the divergences."""
        episodes = self.simulate(truth, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            tree = sample_posterior(
                episodes,
                draws=LONGER if self.learned else DRAWS,
                tune=TUNE,
                chains=CHAINS,
                seed=number,
                predictive_draws=20,
                progress=False,
                **self.model,
            )
        flat = flat_posterior(tree)
        posterior = draws_of(flat)
        q, true_q = self.scores(posterior), self.true_scores(truth)
        thin = np.linspace(0, len(posterior) - 1, RANKED_DRAWS).astype(int)
        result: dict[str, float | str] = {"divergences": int(tree["sample_stats"]["diverging"].sum())}
        for name, values in flat.items():
            for position, rank in enumerate(np.atleast_1d((values[thin] < truth[name]).sum(axis=0))):
                result[f"{name}[{position}]" if values.ndim > 1 else name] = int(rank)
        for episode, step in POINTS:
            at = STEPS.tolist().index(step)
            result[f"q({episode}, {step})"] = int((q[episode, at, thin] < true_q[episode, at]).sum())
        for probability in COVERED:
            lower, upper = np.quantile(q, [(1 - probability) / 2, (1 + probability) / 2], axis=-1)
            result[f"coverage {probability:.0%}"] = float(((lower <= true_q) & (true_q <= upper)).mean())
        return result | (self._of_memory(tree, flat["rho"], float(truth["rho"])) if self.learned else {})

    @staticmethod
    def _of_memory(tree: xr.DataTree, rho: np.ndarray, truth: float) -> dict[str, float | str]:
        """Give the true memory, what is said of it, the sampler's own verdict, and what held the sampler up."""
        lower, upper = np.quantile(rho, [0.05, 0.95])
        verdict = judge(tree)
        size = verdict.table["ess_bulk"]
        return {
            "true rho": truth,
            "rho sd": float(rho.std()),
            "rho covered": float(lower <= truth <= upper),
            "passed": float(verdict.passed),
            "slowest": str(size.idxmin()),
            "slowest size": float(size.min()),
            "rho size": float(size["rho"]),
        }


def flat_posterior(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Give the draws of every parameter as rows, all chains one after the other."""
    posterior = tree["posterior"].data_vars
    return {str(name): values.values.reshape(-1, *values.shape[2:]) for name, values in posterior.items()}


def draws_of(parameters: dict[str, Any]) -> Draws:
    """Give parameters as rows the form that scores are computed from."""
    kept = {"memory": parameters["rho"], "clock": True} if "rho" in parameters else {}
    return Draws(
        **{name: parameters[name] for name in ("w", "gamma0", "gamma", "beta0", "beta", "s")}, family=LOGNORMAL, **kept
    )
