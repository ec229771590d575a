"""What the pages share: episodes as arrays, and the normal mass of an interval."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import xarray as xr
from pytensor.tensor import TensorVariable
from scipy import special

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.model.memory import peaks

ROOT_2 = np.float64(np.sqrt(2.0))


def log_phi(z: TensorVariable) -> TensorVariable:
    """Return log Phi(z), with all digits and a finite gradient in the left tail, too."""
    low, high = pt.minimum(z, -1.0), pt.maximum(z, -1.0)
    left = pt.log(pt.erfcx(-low / ROOT_2) / 2) - low**2 / 2
    return pt.where(z < -1.0, left, pt.log1p(-pt.erfc(high / ROOT_2) / 2))


def log_between(a: TensorVariable, b: TensorVariable) -> TensorVariable:
    """Return log{Phi(b) - Phi(a)}, taken in the left tail, where differences keep their digits."""
    right = a + b > 0
    low, high = pt.where(right, -b, a), pt.where(right, -a, b)
    return log_phi(high) + pt.log1mexp(log_phi(low) - log_phi(high))


def standardized(episodes: Episodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the features with mean 0 and standard deviation 1, and the mean and scale that made them so."""
    raw = episodes.dataset["features"].values
    mean, spread = raw.mean(axis=0), raw.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    return (raw - mean) / scale, mean, scale


def running(episodes: Episodes, memory: float = 1.0, *, clock: bool = False) -> np.ndarray:
    """Return L(t), (episode, t, diagnostic), after the first t steps: what R(t - 1) weighs, so L(0) is zero.

    With a memory of 1 these are sums; else the highest that leaky sums have been.
    """
    u = np.nan_to_num(episodes.dataset["diagnostics"].values)
    seen = np.cumsum(u, axis=1) if memory == 1 else peaks(u, memory)
    if clock:
        ticks = np.broadcast_to(np.arange(1.0, u.shape[1] + 1)[:, None], (*u.shape[:2], 1))
        seen = np.concatenate([seen, ticks], axis=2)
    return np.concatenate([np.zeros_like(seen[:, :1]), seen], axis=1)


def center_of(episodes: Episodes, seen: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the log of half the median final risk, around which beta0 is placed."""
    final = seen[np.arange(len(episodes)), episodes.n_steps]
    risk = final @ (np.full(final.shape[1], 1 / final.shape[1]) if w is None else w)
    return float(np.log(np.median(risk[risk > 0]) / 2))


class Thresholds(NamedTuple):
    """What Cheap's rollouts say of kappa: by episode the first and one past the last step that it may be crossed in.

    `early` have a bound above only, `between` on both sides, `late` below only; each is an array of episodes. The sums
    up to a bound are `seen[early, stop[early]]` and so on.
    """

    start: np.ndarray
    stop: np.ndarray
    early: np.ndarray
    between: np.ndarray
    late: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """All of them, in this order."""
        return np.concatenate([self.early, self.between, self.late])


def thresholds(
    episodes: Episodes, seen: np.ndarray, *, shift: int = 0, due: bool = True, all_rollouts: bool = False
) -> Thresholds:
    """Read marks and outcomes.

    Parameters
    ----------
    episodes, seen
        The episodes, and what `running` returned.
    shift
        1 where a mark after step t is aligned with the proposal at step t + 1; minus k for a teacher who is k late.
    due
        Whether AB = 01 without a mark was due by the end; otherwise it says nothing.
    all_rollouts
        Whether rollouts speak where Strong failed or was not played, too.
    """
    data, length = episodes.dataset, episodes.n_steps
    cheap, strong = data["cheap_success"].values, data["strong_success"].values
    played, marked = episodes.cheap_played, episodes.has_window
    speaks = played & (strong | all_rollouts)
    first, last = (np.nan_to_num(data[name].values).astype(int) + shift for name in ("window_start", "window_end"))
    if shift < 0:  # a mark at the last step may have been cut off there
        last = np.where(data["window_end"].values == length - 1, length - 1, last)
    unmarked = speaks & ~marked & ~cheap & due
    start = np.where(marked, np.clip(first, 0, length), np.where(cheap, length, 0))
    stop = np.where(marked, np.minimum(last + 1, length), length)
    open_above = (cheap & speaks) | (marked & (last >= length))
    crossed = (marked | unmarked) & ~open_above & (stop > start)
    rises = (seen[np.arange(len(length)), np.maximum(stop, 0)] - seen[np.arange(len(length)), start]).sum(axis=1) > 0
    risk = seen[np.arange(len(length)), start].sum(axis=1) > 0
    kinds = (crossed & rises & ~risk, crossed & rises & risk, open_above & risk)
    return Thresholds(start, stop, *(np.flatnonzero(kind) for kind in kinds))


def quietly(dataset: xr.Dataset) -> Episodes:
    """Make episodes without being told what is unusual about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(dataset)


def drawn(
    n: int = 400,
    *,
    features: tuple[str, ...] = ("x1", "x2"),
    diagnostics: tuple[str, ...] = ("repeat", "stalled", "invalid"),
    seed: int = 0,
) -> Episodes:
    """Draw episodes from the paper's model itself, of 10 to 20 steps, every AB = 01 marked where it crossed."""
    rng, p, d = np.random.default_rng(seed), len(features), len(diagnostics)
    x, length = rng.normal(size=(n, p)), rng.integers(10, 21, n)
    u = rng.gamma(0.6, 0.5, (n, 20, d)) * (rng.random((n, 20, d)) < 0.6)
    slopes = rng.normal(scale=0.4, size=p), rng.normal(scale=0.15, size=p)
    strong = rng.random(n) < special.expit(0.5 + x @ slopes[0])
    risk = np.cumsum(u.mean(axis=2), axis=1)
    kappa = np.exp(np.log(np.median(risk[:, 12])) + x @ slopes[1] + 0.5 * rng.normal(size=n))
    crossing = (risk < kappa[:, None]).sum(axis=1)
    cheap = np.where(strong, crossing >= length, rng.random(n) < 0.4)
    mark = np.where(strong & ~cheap, crossing, np.nan)
    tasks = pd.DataFrame({"episode": range(n), "cheap_success": cheap, "strong_success": strong})
    tasks = tasks.assign(window_start=mark, window_end=mark, **dict(zip(features, x.T, strict=True)))
    row, step = np.nonzero(np.arange(20) < length[:, None])
    steps = pd.DataFrame(u[row, step], columns=list(diagnostics)).assign(episode=row, step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.from_frames(tasks, steps)
