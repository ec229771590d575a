"""What a fit predicts beside what was observed: incidence by bins, crossings by step, and the numbers behind them.

Checks judge these numbers, and plots draw them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import marked_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.review.bins import cut, evenly
from bayes_tacit.scores.blocks import computed, slices
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws

ROWS = 1 << 12


def incidence_calibration(
    fit_or_tree: MapFit | xr.DataTree, episodes: Episodes, *, bins: int = 10, probability: float = 0.9
) -> pd.DataFrame:
    """Compare the predicted probability that Strong succeeds with how often it did.

    Parameters
    ----------
    fit_or_tree
        A fit, or a posterior, whose mean incidence is then used.
    episodes
        Best those that the fit has not seen.
    bins
        How many bins of about equally many episodes; episodes with the same prediction share one.
    probability
        Mass of the interval of each observed share: Jeffreys' interval for a proportion.

    Returns
    -------
    pandas.DataFrame
        One row a bin, by rising prediction: `predicted` (mean pi), `observed` (share with B = 1), its `lower` and
        `upper`, and `episodes`, how many there are.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> incidence_calibration(fit_map(episodes), episodes, bins=3).round(2)
       predicted  observed  lower  upper  episodes
    0       0.53      0.50   0.46   0.54       400
    1       0.72      0.73   0.70   0.77       413
    2       0.85      0.87   0.84   0.89       387
    """
    validate.whole("bins", bins, 1)
    validate.probability("probability", probability)
    pi = incidence_of(as_draws(fit_or_tree), episodes)
    strong = episodes.dataset["strong_success"].values
    members = list(cut(pi, evenly(bins)))
    count, successes = (np.array([values[mask].sum() for mask in members]) for values in (np.ones(len(pi)), strong))
    tail = (1 - probability) / 2
    lower, upper = (special.betaincinv(successes + 0.5, count - successes + 0.5, level) for level in (tail, 1 - tail))
    return pd.DataFrame(
        {
            "predicted": [pi[mask].mean() for mask in members],
            "observed": successes / count,
            "lower": lower,
            "upper": upper,
            "episodes": count.astype(int),
        }
    )


def crossed_by_step(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    probability: float = 0.9,
    replicates: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare when the timed episodes cross their thresholds with when the model has them cross.

    Timed episodes are those with a teacher window and those where both agents succeed, which never cross. A replicate
    takes one draw of the parameters, draws a threshold for every timed episode, and sees by which step its cumulative
    risk reaches it; both uncertainties are in the interval.

    Parameters
    ----------
    fit_or_tree
        A fit, or a posterior, of which evenly spaced draws are used.
    episodes
        Any episodes with some that are timed.
    probability
        Mass of the predictive interval, equal-tailed.
    replicates
        How many sets of episodes to draw.
    seed
        Decides the draws.

    Returns
    -------
    pandas.DataFrame
        By `step`: the share of timed episodes whose window has begun (`began`) and has ended (`ended`), between which
        the observed crossings lie; the `predicted` share, its `lower` and `upper`.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> crossed_by_step(fit_map(episodes), episodes).loc[10].round(2).to_dict()
    {'began': 0.44, 'ended': 0.38, 'predicted': 0.43, 'lower': 0.41, 'upper': 0.45}
    """
    validate.whole("replicates", replicates, 1)
    validate.probability("probability", probability)
    fitted = as_draws(fit_or_tree)
    features, diagnostics = fitted.columns_of(episodes)
    timed = np.flatnonzero(episodes.has_window | (episodes.outcomes == "11"))
    if not timed.size:
        raise InvalidDataError("some with a teacher window or with AB = 11", field="timed episodes", value=[])
    chosen = np.linspace(0, len(fitted.draws) - 1, replicates).round().astype(int)
    rng = np.random.default_rng(seed)
    crossed = np.zeros((replicates, episodes.horizon))
    for rows in slices(len(timed), ROWS):
        x = fitted.standardize(features.values[timed[rows]])
        u = diagnostics.isel(episode=timed[rows]).values
        for replicate, m in enumerate(chosen):
            draws = fitted.draws.take(slice(m, m + 1))
            # Past the end of a rollout the comparison is false, and what has crossed stays crossed.
            crossed_now = probability_crossed(draws, x, u) >= rng.random((len(u), 1))
            reached = np.maximum.accumulate(crossed_now, axis=1)
            crossed[replicate] += reached.sum(axis=0)
    share = crossed / len(timed)
    n_steps = episodes.n_steps[timed]
    # What has not crossed by the last checkpoint never does.
    deadline = np.minimum(np.arange(episodes.horizon)[:, None], n_steps - 1)
    began, ended = (
        share_crossed(marked_checkpoints(episodes.dataset[name].values[timed], n_steps, fitted.timing), deadline)
        for name in ("window_start", "window_end")
    )
    tail = (1 - probability) / 2
    lower, upper = np.quantile(share, [tail, 1 - tail], axis=0)
    columns = {"began": began, "ended": ended, "predicted": share.mean(axis=0), "lower": lower, "upper": upper}
    return pd.DataFrame(columns, index=pd.RangeIndex(episodes.horizon, name="step"))


def incidence_of(fitted: Fitted, episodes: Episodes) -> np.ndarray:
    """Average pi over the draws, by episode."""
    features, _ = fitted.columns_of(episodes)
    return mean_incidence(fitted.draws, fitted.standardize(features.values))


def mean_incidence(draws: Draws, x: np.ndarray) -> np.ndarray:
    """Average pi over the draws, for standardized features (episode, feature)."""
    parts = [computed(Draws.incidence, draws, x[rows]).mean(axis=0) for rows in slices(len(x), ROWS)]
    return np.concatenate(parts)


def probability_crossed(draws: Draws, x: np.ndarray, diagnostics: np.ndarray) -> np.ndarray:
    """Give F(R(t)), the probability of having crossed by each step, under one draw: (episode, step)."""
    location = draws.location(x)[:, None]
    probability: np.ndarray = score(1.0, location, draws.s, draws.cumulative_risk(diagnostics), draws.family)[..., 0]
    return probability


def share_crossed(steps: np.ndarray, deadline: np.ndarray) -> np.ndarray:
    """Give the share of episodes that have crossed by each of several deadlines.

    Parameters
    ----------
    steps
        Crossing steps (..., episode); the number of steps of a rollout where there is no crossing.
    deadline
        The last checkpoint that counts, (deadline, episode).

    Returns
    -------
    numpy.ndarray
        (..., deadline).

    Examples
    --------
    >>> share_crossed(np.array([0, 2, 3]), np.array([[0, 0, 0], [2, 2, 2]])).round(2)
    array([0.33, 0.67])
    """
    return np.stack([(steps <= by).mean(axis=-1) for by in deadline], axis=-1)
