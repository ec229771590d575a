"""What a fit predicts beside what was observed, as small tables: incidence by bins, crossings by step."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing, mark_moves_by
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.blocks import computed, incidence_kernel, slices
from bayes_tacit.scores.core import score
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
    pi = mean_incidence(as_draws(fit_or_tree), episodes)
    strong = episodes.dataset["strong_success"].values
    # Predictions themselves are the upper ends, so that episodes with the same one stay together.
    ends = np.unique(np.quantile(pi, np.arange(1, bins + 1) / bins, method="inverted_cdf"))
    label = np.searchsorted(ends, pi, side="left")
    table = pd.DataFrame({"predicted": pi, "observed": strong}).groupby(label)
    out = table.mean()
    count, successes = table.size(), table["observed"].sum()
    tail = (1 - probability) / 2
    out["lower"], out["upper"] = (
        special.betaincinv(successes + 0.5, count - successes + 0.5, level) for level in (tail, 1 - tail)
    )
    return out.assign(episodes=count).reset_index(drop=True)


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
            risk = draws.cumulative_risk(u)
            below = score(1.0, draws.location(x)[:, None], draws.s, risk, draws.family)[..., 0]
            # Past the end of a rollout the comparison is false, and what has crossed stays crossed.
            reached = np.maximum.accumulate(below >= rng.random((len(u), 1)), axis=1)
            crossed[replicate] += reached.sum(axis=0)
    share = crossed / len(timed)
    began, ended = (_share_by_step(episodes, timed, name, fitted.timing) for name in ("window_start", "window_end"))
    tail = (1 - probability) / 2
    lower, upper = np.quantile(share, [tail, 1 - tail], axis=0)
    columns = {"began": began, "ended": ended, "predicted": share.mean(axis=0), "lower": lower, "upper": upper}
    return pd.DataFrame(columns, index=pd.RangeIndex(episodes.horizon, name="step"))


def mean_incidence(fitted: Fitted, episodes: Episodes) -> np.ndarray:
    """Average pi over the draws, by episode."""
    features, _ = fitted.columns_of(episodes)
    kernel = incidence_kernel(fitted)
    parts = [computed(kernel, fitted.draws, features[rows].values).mean(axis=0) for rows in slices(len(episodes), ROWS)]
    return np.concatenate(parts)


def _share_by_step(episodes: Episodes, timed: np.ndarray, name: str, timing: Timing) -> np.ndarray:
    """Give the share of timed episodes whose mark is at or before each step; a mark past the end is never reached."""
    mark = episodes.dataset[name].values[timed] + mark_moves_by(timing)
    mark = np.where(mark < episodes.n_steps[timed], mark, np.inf)
    return (mark <= np.arange(episodes.horizon)[:, None]).mean(axis=1)
