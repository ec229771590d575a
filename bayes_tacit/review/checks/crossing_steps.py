"""Whether the crossing steps that the model predicts look like those that the teacher marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.model.evidence.alike import told_if_alike
from bayes_tacit.review.checks.base import (
    CheckResult,
    group_of,
    other_families,
    replicates_of,
    require_same_data,
)
from bayes_tacit.review.checks.predictive import FEWEST_DRAWS, LEVEL, ROUNDING, envelope, flat_draws, too_few
from bayes_tacit.review.checks.residuals import log_mass, window_ends
from bayes_tacit.review.checks.timed import TimedEpisodes
from bayes_tacit.review.checks.totals import Totals, chance_of, moved_by_fitting
from bayes_tacit.review.plots.checks import draw_crossing_steps
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.review.predictions import share_crossed

NAME = "Crossing steps"
POSITIONS = np.arange(1, 11) / 10
LEVELS = np.arange(1, 20) / 20
FLIPS = 1999
SEED = 0
LARGEST_UNMARKED = 0.1
"""Share of AB = 01 episodes without a mark beyond which the bands are said not to hold."""
UNREAD = 'Mark them, or fit with `unmarked="due"` if every AB = 01 episode crosses by the end of its rollout.'
SOME_MARKS = "Have a teacher mark some of the AB = 01 episodes, or add rollouts of other lengths, and fit again."
UNMARKED = "Have a teacher mark the AB = 01 episodes (those that only Strong solves), and fit again."


def check_crossing_steps(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check predicted crossing steps against the teacher's windows, among the timed episodes.

    An observed crossing step is known up to its window [a, b]; where Cheap succeeded too, it is known to be past the
    end. Two things are compared with replicated data sets from the posterior predictive distribution:

    - **When.** The share of episodes that have crossed by 10%, 20%, ..., 100% of their rollout. The observed share is
      bounded: episodes whose window has ended have crossed for sure, those whose window has begun may have. No
      assumption about where in the window the crossing was.
    - **Calibration.** With F_i the distribution of the crossing step of episode i at the posterior mean, the crossing's
      place in it is spread evenly over (F_i(a - 1), F_i(b)], and the mean of these uniform distributions over the
      episodes should itself be uniform (the nonrandomized PIT of Czado, Gneiting and Held, 2009). This sees each
      episode at its own place, and assumes what the likelihood assumes: that a window says no more than that the
      crossing is inside it.

    It passes if the observed bounds meet the band that holds 99% of the replicates at all positions at once, and the
    largest departure of the mean PIT from uniform is exceeded by at least 1% of data sets by chance. In these every
    episode's own departure, less what fitting took from it, has a sign by chance (see `check_structure`). Replicates
    have not been fitted to, so a right model leaves their band less often than 1% of the time.

    It also fails if more than 10% of the AB = 01 episodes have no mark and the model was fitted with
    `unmarked="outcome"`: they cross too, and the likelihood does not know it. And it fails if there is no mark at all
    and the final risks of all tasks are alike: the data then say little of when to hand over.

    Parameters
    ----------
    tree
        A posterior with posterior predictive draws.
    episodes
        What it was fitted on; only the lengths of the rollouts are read.
    """
    require_same_data(tree, episodes)
    draws = flat_draws(replicates_of(tree)["threshold"])
    constant = group_of(tree, "constant_data")
    first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
    n_steps = episodes.n_steps[constant["timed_position"].values]
    if not (first < n_steps).any():
        sentence = "No episode has a mark, so nothing was learned of when to hand over: q(t) is what the prior says."
        return CheckResult(NAME, False, pd.DataFrame(), sentence, UNMARKED, decisive=True)
    if len(draws) < FEWEST_DRAWS:
        return too_few(NAME, draws)
    timing = _timing(draws, first, last, n_steps)
    calibration = _calibration(TimedEpisodes.of_tree(tree, episodes))
    fits = bool(timing["inside"].all()) and calibration.p_value >= LEVEL
    unread = _unread(tree, episodes)
    alike = _alike(constant)
    advice = "" if fits else _advice(timing, calibration, tree.attrs["family"])
    return CheckResult(
        NAME,
        fits and not unread and not alike,
        timing,
        " ".join(filter(None, (_sentence(timing, calibration, len(first)), unread, alike))),
        " ".join(filter(None, (UNREAD if unread else "", SOME_MARKS if alike else "", advice))),
        lazily(
            draw_crossing_steps,
            timing.assign(position=POSITIONS),
            pd.Series(calibration.departure, LEVELS),
            calibration.limit,
        ),
        decisive=True,
        p_value=calibration.p_value,
    )


@dataclass(frozen=True)
class _Calibration:
    """Mean PIT minus uniform, at LEVELS: of the data, and the range that chance keeps to."""

    departure: np.ndarray
    limit: float
    p_value: float


def _timing(draws: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> pd.DataFrame:
    # A crossing at step t has happened by position r of a rollout of H steps if t + 1 <= r H.
    deadline = np.floor(POSITIONS[:, None] * n_steps + 1e-9) - 1
    band = envelope(share_crossed(draws, deadline))
    surely, possibly = (share_crossed(step, deadline) for step in (last, first))
    inside = (surely <= band.upper + ROUNDING) & (possibly >= band.lower - ROUNDING)
    return pd.DataFrame(
        {
            "observed_least": surely,
            "observed_most": possibly,
            "predicted": band.mean,
            "lower": band.lower,
            "upper": band.upper,
            "inside": inside,
        },
        index=pd.Index([f"{position:.0%}" for position in POSITIONS], name="crossed by"),
    )


def _calibration(seen: TimedEpisodes) -> _Calibration:
    parts = _pit(*window_ends(seen.crossed, *seen.windows)) - LEVELS
    totals, log_likelihood = [], []
    for crossed in seen.crossed_by_draw():
        totals.append(_pit(*window_ends(crossed, *seen.windows)).sum(axis=0))
        log_likelihood.append(log_mass(crossed, *seen.windows))
    moved = moved_by_fitting(np.array(totals), np.array(log_likelihood))
    found = Totals.of(parts, moved, FLIPS, np.random.default_rng(SEED))
    n = len(parts)
    worst = np.abs(found.chance).max(axis=1) / n
    limit = float(np.quantile(worst, 1 - LEVEL, method="higher"))
    departure = found.total / n
    return _Calibration(departure, limit, chance_of(worst, float(np.abs(departure).max())))


def _pit(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Distribution functions, at LEVELS, of the uniform distributions over (lower, upper]: (episode, level)."""
    width = (upper - lower)[:, None]
    reached = LEVELS - lower[:, None]
    inside = np.divide(reached, width, out=np.where(reached >= 0, 1.0, 0.0), where=width > 0)
    return inside.clip(0, 1)


def _sentence(table: pd.DataFrame, calibration: _Calibration, n: int) -> str:
    ever = table.loc["100%"]
    observed = f"{ever['observed_most']:.0%}"
    where = (
        "at every point of the rollout the observed share lies in the predicted band"
        if table["inside"].all()
        else f"the observed share leaves the predicted band at {_listed(table.index[~table['inside']])} of the rollout"
    )
    return (
        f"Of {n} timed episodes {observed} crossed ({ever['predicted']:.0%} predicted); {where}, and the crossing's "
        f"place in its predictive distribution departs from uniform by at most "
        f"{np.abs(calibration.departure).max():.3f} (limit {calibration.limit:.3f}, p = {calibration.p_value:.2g})."
    )


def _advice(table: pd.DataFrame, calibration: _Calibration, family: str) -> str:
    return (
        f"{_direction(table, calibration)} Try the {other_families(family)} family and compare by LOO; look for a "
        "diagnostic that the teacher saw and the model does not have, for a feature with a nonlinear effect on the "
        "threshold, and for windows marked by another rule."
    )


def _direction(table: pd.DataFrame, calibration: _Calibration) -> str:
    """Say which way the model is off, as the figure shows it."""
    late = table.index[table["observed_least"] > table["upper"] + ROUNDING]
    early = table.index[table["observed_most"] < table["lower"] - ROUNDING]
    parts = [f"too {word} at {_listed(at)}" for word, at in (("late", late), ("early", early)) if len(at)]
    if parts:
        return f"The model crosses {' and '.join(parts)} of the rollout."
    # Where more than its share lies in the lower part of the predictive distribution, crossings came before predicted.
    low, high = (part.mean() for part in np.array_split(calibration.departure, 2))
    if low * high < 0:
        return f"The model is too {'sure' if low > 0 else 'unsure'} of when episodes cross."
    return f"The model has episodes cross too {'late' if low + high > 0 else 'early'}, each seen in its own place."


def _unread(tree: xr.DataTree, episodes: Episodes) -> str:
    """Say whether many episodes that only Strong solves have no mark, and so do not count as having crossed."""
    missing = (episodes.outcomes == "01") & ~episodes.has_window
    solved = int((episodes.outcomes == "01").sum())
    if tree.attrs.get("unmarked", "outcome") != "outcome" or missing.sum() <= LARGEST_UNMARKED * solved:
        return ""
    return (
        f"{int(missing.sum())} of {solved} AB = 01 episodes have no mark and are read by their outcome alone: "
        "thresholds seem higher than they are, and the bands of q(t) do not hold."
    )


def _alike(constant: xr.Dataset) -> str:
    """Say whether no threshold has two bounds, and the one that each has is the same for all."""
    before, within = (constant[f"diagnostics_{side}"].values for side in ("before", "within"))
    if before.ndim > 2:
        # Of a learned memory, as if nothing were forgotten.
        before, within = before[-1], within[-1]
    told = told_if_alike(before, within, int(constant["n_interval"]))
    return f"{told[0].upper()}{told[1:]}." if told else ""


def _listed(labels: pd.Index) -> str:
    return ", ".join(map(str, labels))
