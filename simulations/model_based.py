"""The model-based simulator: episodes drawn from the paper's model itself, so that the truth is known.

    B ~ Bernoulli(pi(x)),  logit pi(x) = gamma0 + x gamma,  log kappa = beta0 + x beta + s eps,  eps ~ N(0, 1)

Task features are standard normal, the risk of a step is gamma distributed, and every rollout has the same number of
steps. Where Strong succeeds, Cheap fails exactly if the cumulative risk R reaches kappa, and the teacher marks the step
at which it does; where Strong fails, a coin of its own decides on Cheap.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np
import xarray as xr
from scipy import optimize, special, stats

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning


@dataclass(frozen=True)
class Truth:
    """Parameters of the simulator, on features as they are (not standardized)."""

    # gamma0, gamma, beta0, beta, s: Those of the model.
    gamma0: float
    gamma: tuple[float, ...]
    beta0: float
    beta: tuple[float, ...]
    s: float
    # shape, scale: Of the gamma distributed risk of a step.
    shape: float
    scale: float
    horizon: int  # Steps of a rollout
    cheap_alone: float  # Log-odds that Cheap succeeds where Strong fails

    def as_record(self) -> dict[str, object]:
        """Return the parameters by name, as JSON can hold them."""
        return asdict(self)


TRUTH = Truth(
    gamma0=0.1906,
    gamma=(0.38, -0.30, 0.245),
    beta0=0.9540,
    beta=(-0.094, 0.113, 0.113),
    s=0.454,
    shape=5.89,
    scale=0.0425,
    horizon=10,
    cheap_alone=-0.2736,
)
"""What the studies use: the paper does not say, so slopes and spreads are ours, and the three intercepts are what
`with_proportions` makes of the outcome proportions that the paper reports."""


def simulate(truth: Truth, n: int, rng: np.random.Generator) -> Episodes:
    """Draw n episodes, each AB = 01 with the step of its crossing as the teacher's window."""
    x = rng.normal(size=(n, len(truth.gamma)))
    risk = rng.gamma(truth.shape, truth.scale, size=(n, truth.horizon))
    strong = rng.random(n) < incidence(truth, x)
    kappa = np.exp(location(truth, x) + truth.s * rng.normal(size=n))
    crossing = (np.cumsum(risk, axis=1) < kappa[:, None]).sum(axis=1)
    crossed = crossing < truth.horizon
    alone = rng.random(n) < special.expit(truth.cheap_alone)
    mark = np.where(strong & crossed, crossing, np.nan)
    return quietly(
        xr.Dataset(
            {
                "features": (("episode", "feature"), x),
                "diagnostics": (("episode", "step", "diagnostic"), risk[:, :, None]),
                "n_steps": ("episode", np.full(n, truth.horizon)),
                "cheap_success": ("episode", np.where(strong, ~crossed, alone)),
                "strong_success": ("episode", strong),
                "window_start": ("episode", mark),
                "window_end": ("episode", mark),
            },
            coords={
                "episode": np.arange(n),
                "step": np.arange(truth.horizon),
                "feature": [f"x{j + 1}" for j in range(len(truth.gamma))],
                "diagnostic": ["risk"],
            },
        )
    )


def quietly(dataset: xr.Dataset) -> Episodes:
    """Make episodes without being told what is unusual about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(dataset)


def incidence(truth: Truth, x: np.ndarray) -> np.ndarray:
    """Return pi(x) for features (episode, feature)."""
    return special.expit(truth.gamma0 + x @ np.array(truth.gamma))


def location(truth: Truth, x: np.ndarray) -> np.ndarray:
    """Return the mean of log kappa for features (episode, feature)."""
    return truth.beta0 + x @ np.array(truth.beta)


def true_scores(truth: Truth, episodes: Episodes) -> np.ndarray:
    """Return q(t | x) = pi(x) P(kappa <= R(t) | x, B = 1), by (episode, step)."""
    x, diagnostics = episodes.dataset["features"].values, episodes.dataset["diagnostics"].values
    z = (np.log(np.cumsum(diagnostics[:, :, 0], axis=1)) - location(truth, x)[:, None]) / truth.s
    return incidence(truth, x)[:, None] * special.ndtr(z)


def outcome_proportions(truth: Truth, nodes: int = 60) -> dict[str, float]:
    """Return the probability of each AB, by quadrature over the incidence's logit and the log of the final risk.

    Both logits are linear in normal features, hence jointly normal; given the first, the second and the threshold's
    noise integrate out, so that two dimensions are left.
    """
    gamma, beta = np.array(truth.gamma), np.array(truth.beta)
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    slope = gamma @ beta / np.sqrt(gamma @ gamma)
    spread = np.sqrt(truth.s**2 + beta @ beta - slope**2)
    pi = special.expit(truth.gamma0 + np.sqrt(gamma @ gamma) * points)
    levels, level_weights = np.polynomial.legendre.leggauss(nodes)
    final = stats.gamma(truth.shape * truth.horizon, scale=truth.scale).ppf((levels + 1) / 2)
    crossed = special.ndtr((np.log(final) - (truth.beta0 + slope * points)[:, None]) / spread) @ (level_weights / 2)
    strong, rescued, alone = weights @ pi, weights @ (pi * crossed), special.expit(truth.cheap_alone)
    return {
        "00": float((1 - strong) * (1 - alone)),
        "01": float(rescued),
        "10": float((1 - strong) * alone),
        "11": float(strong - rescued),
    }


def with_proportions(truth: Truth, proportions: dict[str, float]) -> Truth:
    """Move the three intercepts so that the outcomes AB have the given proportions, which are scaled to sum to 1.

    No random numbers are involved, so nothing that is reported can have been used.
    """
    total = sum(proportions.values())
    wanted = {ab: share / total for ab, share in proportions.items()}
    alone = float(special.logit(wanted["10"] / (wanted["10"] + wanted["00"])))

    def moved(intercepts: np.ndarray) -> Truth:
        return replace(truth, gamma0=float(intercepts[0]), beta0=float(intercepts[1]), cheap_alone=alone)

    def misses(intercepts: np.ndarray) -> list[float]:
        given = outcome_proportions(moved(intercepts))
        return [given[ab] - wanted[ab] for ab in ("01", "11")]

    return moved(optimize.root(misses, [truth.gamma0, truth.beta0], tol=1e-12).x)
