"""Episodes on which the theorem's assumptions can hold: the model itself, with everything bounded.

The paper's sufficient conditions are bounded features and diagnostics, and interval masses away from zero. Normal
features and gamma distributed risks have neither, and then the score in log s has tails like a squared normal, which no
sub-Gaussian constant bounds. So features are uniform here (mean 0, variance 1), and risks are cut to their central 98%.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import special, stats

from bayes_tacit import Episodes
from simulations.model_based import TRUTH, incidence, location, quietly

TRUE_W = (0.6, 0.4)
PARAMETERS = ("gamma0", "gamma1", "gamma2", "gamma3", "logit w", "beta0", "beta1", "beta2", "beta3", "log s")
TARGET = np.array(
    [TRUTH.gamma0, *TRUTH.gamma, np.log(TRUE_W[0] / TRUE_W[1]), TRUTH.beta0, *TRUTH.beta, np.log(TRUTH.s)]
)
"""The clean population's minimizer: without a penalty and with the model true, it is the truth."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Drawn tasks with their clean marks.

    Attributes
    ----------
    x
        Features, (episode, feature).
    totals
        Each diagnostic summed up to every step, (episode, step, diagnostic).
    strong
        B.
    mark
        Step of the crossing; the horizon where there is none.
    alone
        Whether Cheap succeeds where Strong fails.
    """

    x: np.ndarray
    totals: np.ndarray
    strong: np.ndarray
    mark: np.ndarray
    alone: np.ndarray

    @property
    def horizon(self) -> int:
        """Steps of a rollout."""
        return int(self.totals.shape[1])

    @property
    def timed(self) -> np.ndarray:
        """Positions of the episodes with a teacher's interval."""
        return np.flatnonzero(self.strong & (self.mark < self.horizon))

    def take(self, rows: np.ndarray) -> Sample:
        """Give some of them, some perhaps more than once."""
        return Sample(*(getattr(self, name)[rows] for name in ("x", "totals", "strong", "mark", "alone")))

    def episodes(self, mark: np.ndarray | None = None) -> Episodes:
        """Give them as a fit takes them, with other marks if some are given."""
        marked = self.mark if mark is None else mark
        crossed = self.mark < self.horizon
        window = np.where(self.strong & crossed, marked, np.nan)
        n, d = len(self.x), self.totals.shape[2]
        return quietly(
            xr.Dataset(
                {
                    "features": (("episode", "feature"), self.x),
                    "diagnostics": (
                        ("episode", "step", "diagnostic"),
                        np.diff(self.totals, axis=1, prepend=np.zeros((n, 1, d))),
                    ),
                    "n_steps": ("episode", np.full(n, self.horizon)),
                    "cheap_success": ("episode", np.where(self.strong, ~crossed, self.alone)),
                    "strong_success": ("episode", self.strong),
                    "window_start": ("episode", window),
                    "window_end": ("episode", window),
                },
                coords={
                    "episode": np.arange(n),
                    "step": np.arange(self.horizon),
                    "feature": [f"x{j + 1}" for j in range(self.x.shape[1])],
                    "diagnostic": [f"risk{j + 1}" for j in range(d)],
                },
            )
        )


def draw(n: int, rng: np.random.Generator) -> Sample:
    """Draw n tasks.

    The risk of a step is divided between two diagnostics at random, so that the weights `TRUE_W` give it back.
    """
    bound = np.sqrt(3)
    x = rng.uniform(-bound, bound, size=(n, len(TRUTH.gamma)))
    risk = stats.gamma(TRUTH.shape, scale=TRUTH.scale).ppf(rng.uniform(0.01, 0.99, size=(n, TRUTH.horizon)))
    first = rng.uniform(0.1, 0.9, size=risk.shape)
    diagnostics = np.stack([risk * first / TRUE_W[0], risk * (1 - first) / TRUE_W[1]], axis=2)
    strong = rng.random(n) < incidence(TRUTH, x)
    kappa = np.exp(location(TRUTH, x) + TRUTH.s * rng.normal(size=n))
    mark = (np.cumsum(risk, axis=1) < kappa[:, None]).sum(axis=1)
    alone = rng.random(n) < special.expit(TRUTH.cheap_alone)
    return Sample(x, np.cumsum(diagnostics, axis=1), strong, mark, alone)
