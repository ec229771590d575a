"""Predicted beside observed: incidence by bins, crossings by step, and the numbers that checks judge and plots draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import marked_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.review.findings import group_of
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import computed, slices

ROWS = 1 << 12
DECIMALS = 9
"""Standardizing and back moves a value by rounding; what was one value is to stay one."""
MOST_CHECKPOINTS = 400_000
"""Of more, a random part of the episodes is looked at: a fault that it does not show would not matter."""
MOST_DRAWS, FEWEST_DRAWS, MOST_PROBABILITIES = 400, 100, 4_000_000
"""How many draws are taken to see what fitting did; fewer where there are many checkpoints."""
SEED = 0
LEVEL = 0.01
"""How often a comparison with replicated shares may fail although the model is right, at most."""
ROUNDING = 1e-9
SMALLEST = 1e-12


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
    """Compare the steps at which the timed episodes cross their thresholds with the predicted ones.

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
    """Return F(R(t)), the probability of having crossed by each step, under one draw: (episode, step)."""
    location = draws.location(x)[:, None]
    scale = draws.s if draws.delta is None else draws.scale(x)[:, None]
    probability: np.ndarray = score(1.0, location, scale, draws.cumulative_risk(diagnostics), draws.family)[..., 0]
    return probability


def share_crossed(steps: np.ndarray, deadline: np.ndarray) -> np.ndarray:
    """Compute the share of episodes that have crossed by each of several deadlines.

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


def cut(values: np.ndarray, quantiles: np.ndarray, weight: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Cut values into bins at quantiles of their weights, and yield the members of each as a mask, by rising values.

    Equal values share a bin, few distinct ones have one each, values without weight are in none, and no bin is empty.
    `quantiles` are the inner ends of the bins, rising, as parts of all weight.

    Examples
    --------
    >>> [mask.tolist() for mask in cut(np.array([3.0, 1.0, 2.0]), np.array([0.5]))]
    [[False, True, True], [True, False, False]]
    """
    weight = np.ones(np.shape(values)) if weight is None else weight
    known = weight > 0
    rounded = _rounded(values)
    distinct = np.unique(rounded[known])
    ends = distinct
    if len(distinct) > len(quantiles) + 1:
        order = np.argsort(rounded[known], kind="stable")
        share = np.cumsum(weight[known][order])
        inner = rounded[known][order][np.searchsorted(share, quantiles * share[-1])]
        ends = np.unique(np.append(inner, distinct[-1]))
    place = np.searchsorted(ends, rounded, side="left")
    yield from ((place == number) & known for number in range(len(ends)))


def evenly(count: int) -> np.ndarray:
    """Return the inner ends of `count` bins of equal weight.

    Examples
    --------
    >>> evenly(4)
    array([0.25, 0.5 , 0.75])
    """
    return np.arange(1, count) / count


def span(inside: np.ndarray) -> str:
    """Return the name of a bin: the range of the values in it.

    Examples
    --------
    >>> span(np.array([0.25, 1.0])), span(np.array([2.0, 2.0]))
    ('0.25 to 1', '2')
    """
    least, most = _rounded(inside).min(), _rounded(inside).max()
    return f"{least:.4g}" if least == most else f"{least:.3g} to {most:.3g}"


def _rounded(values: np.ndarray) -> np.ndarray:
    # Adding zero takes the sign from what was rounded to zero.
    rounded: np.ndarray = np.round(values, DECIMALS) + 0.0
    return rounded


@dataclass(frozen=True)
class Envelope:
    """A band that holds all shares of a replicated data set at once, with probability 1 - LEVEL.

    Attributes
    ----------
    mean
        Predicted value of each share.
    lower, upper
        The band.
    center, spread
        Predictive mean and sd of each share on the arcsine scale.
    worst
        Of each replicate, the largest distance of a share from its mean, in predictive sds.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    worst: np.ndarray

    def p_value(self, observed: np.ndarray) -> float:
        """Return the share of replicates that lie at least as far out as the observed shares, counting these too."""
        distance = _distance(_stable(observed) - self.center, self.spread).max()
        return float((1 + (self.worst >= distance - 1e-12).sum()) / (1 + len(self.worst)))


def envelope(replicates: np.ndarray) -> Envelope:
    """Compute the band from (draw, share) replicates.

    Each share is standardized by its predictive mean and sd on the arcsine scale, where its sd hardly depends on its
    size and a share near 0 or 1 is not skewed. The half-width is the quantile 1 - LEVEL of the largest absolute value
    over the shares: one statement is made however many shares there are.
    """
    stable = _stable(replicates)
    center, spread = stable.mean(axis=0), stable.std(axis=0)
    worst = _distance(stable - center, spread).max(axis=1)
    reach = float(np.quantile(worst, 1 - LEVEL, method="higher")) * spread
    lower, upper = (np.sin((center + side * reach).clip(0, np.pi / 2)) ** 2 for side in (-1, 1))
    return Envelope(replicates.mean(axis=0), lower, upper, center, spread, worst)


def flat_draws(array: xr.DataArray) -> np.ndarray:
    """Return predictive draws as rows: (draw, item)."""
    values = array.transpose("chain", "draw", ...).values
    return values.reshape(-1, values.shape[-1])


def _stable(share: np.ndarray) -> np.ndarray:
    return np.arcsin(np.sqrt(share))


def _distance(difference: np.ndarray, spread: np.ndarray) -> np.ndarray:
    # In sds; infinite from a share that never varies, rounding aside.
    out = np.where(np.abs(difference) < ROUNDING, 0.0, np.inf)
    np.divide(np.abs(difference), spread, out=out, where=spread > ROUNDING)
    return out


@dataclass(frozen=True)
class TimedEpisodes:
    """The timed episodes, and the parameters that should explain their windows.

    Attributes
    ----------
    fitted
        Draws of the parameters; a point estimate has one.
    x, u
        Standardized features (episode, feature), and diagnostics (episode, step, diagnostic), zero past the end.
    first, last
        First and last checkpoint of the window; the number of steps where the threshold was not crossed.
    n_steps
        Of each rollout.
    """

    fitted: Fitted
    x: np.ndarray
    u: np.ndarray
    first: np.ndarray
    last: np.ndarray
    n_steps: np.ndarray

    @classmethod
    def of(
        cls, fitted: Fitted, episodes: Episodes, timed: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> TimedEpisodes:
        """Read the episodes at some positions, whose windows are [first, last]."""
        most = max(1, MOST_CHECKPOINTS // max(1, episodes.horizon))
        if len(timed) > most:
            some = np.sort(np.random.default_rng(SEED).choice(len(timed), most, replace=False))
            timed, first, last = timed[some], first[some], last[some]
        features, diagnostics = fitted.columns_of(episodes)
        x = fitted.standardize(features.values[timed])
        u = np.nan_to_num(diagnostics.isel(episode=timed).values)
        return cls(fitted, x, u, first, last, episodes.n_steps[timed])

    @classmethod
    def of_tree(cls, tree: xr.DataTree, episodes: Episodes) -> TimedEpisodes:
        """Read a posterior and the episodes that it was fitted on."""
        constant = group_of(tree, "constant_data")
        first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
        return cls.of(as_draws(tree), episodes, constant["timed_position"].values, first, last)

    @property
    def windows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First and last checkpoint of each window, and the length of the rollout."""
        return self.first, self.last, self.n_steps

    @cached_property
    def mean(self) -> Draws:
        """The mean of the parameters; that of weights is on the simplex too."""
        draws = self.fitted.draws
        memory = draws.memory.mean() if isinstance(draws.memory, np.ndarray) else draws.memory
        values = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("w", "gamma0", "gamma", "beta0")}
        slopes = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("beta", "s")}
        delta = None if draws.delta is None else draws.delta.mean(axis=0, keepdims=True)
        return Draws(**values, **slopes, family=draws.family, memory=float(memory), clock=draws.clock, delta=delta)

    @cached_property
    def crossed(self) -> np.ndarray:
        """F at the mean of the parameters: (episode, step)."""
        return probability_crossed(self.mean, self.x, self.u)

    def crossed_by_draw(self) -> Iterator[np.ndarray]:
        """Yield F under evenly spaced draws."""
        checkpoints = max(1, self.u.shape[0] * self.u.shape[1])
        most = int(np.clip(MOST_PROBABILITIES // checkpoints, FEWEST_DRAWS, MOST_DRAWS))
        draws = self.fitted.draws.thinned(most)
        for m in range(len(draws)):
            yield probability_crossed(draws.take(slice(m, m + 1)), self.x, self.u)


@dataclass(frozen=True)
class Residuals:
    r"""Observed and expected crossings at each checkpoint of each timed episode.

    With F(t) the probability that an episode has crossed by step t, a checkpoint that it reached uncrossed is expected
    to bring h(t) = (F(t) - F(t-1)) / (1 - F(t-1)) crossings. A window says in which steps the crossing was, not where,
    so the observed crossing is spread over the window as F has it, and so is the share that was still uncrossed. Under
    a right model every difference has mean zero, whatever was known at that checkpoint, and differences of different
    episodes are independent: the martingale residuals of survival analysis, averaged over the windows.

    Attributes
    ----------
    observed, expected
        (episode, step); both zero where nothing can be expected any more.
    variance
        (episode, step): of the observed crossing if its step were known, given what was seen before.
    """

    observed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> Residuals:
        """Compare F (episode, step) with windows [first, last]; without a crossing, first is at least n_steps.

        Examples
        --------
        >>> certain = Residuals.of(np.array([[0.5, 0.75]]), np.array([1]), np.array([1]), np.array([2]))
        >>> certain.observed, certain.expected
        (array([[0., 1.]]), array([[0.5, 0.5]]))
        """
        step, row = np.arange(crossed.shape[1]), np.arange(len(crossed))
        inside = step < n_steps[:, None]
        before = np.concatenate([np.zeros((len(crossed), 1)), crossed[:, :-1]], axis=1)
        mass = np.where(inside, crossed - before, 0.0)
        hazard = np.where(inside, mass / np.maximum(1 - before, SMALLEST), 0.0)
        never = (first >= n_steps)[:, None]
        start, end = np.minimum(first, n_steps - 1), np.minimum(last, n_steps - 1)
        low, high = before[row, start][:, None], crossed[row, end][:, None]
        window = (step >= start[:, None]) & (step <= end[:, None]) & ~never
        width = np.where(high > low, high - low, np.inf)
        left = np.where(window, ((high - before) / width).clip(0, 1), step < start[:, None])
        observed = np.where(window, mass / width, 0.0)
        # A window without mass under the model says nothing of where in it the crossing was.
        known = never | np.isfinite(width)
        expected = np.where(never, 1.0, left) * hazard
        return cls(*(np.where(known, part, 0.0) for part in (observed, expected, expected * (1 - hazard))))

    @property
    def difference(self) -> np.ndarray:
        """Observed less expected, (episode, step)."""
        return self.observed - self.expected


def log_mass(crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> np.ndarray:
    """Return the log probability of each window under F (episode, step): what an episode says of the parameters.

    Examples
    --------
    >>> log_mass(np.array([[0.5, 0.75]] * 2), np.array([1, 2]), np.array([1, 2]), np.array([2, 2])).round(2)
    array([-1.39, -1.39])
    """
    below, upto = window_ends(crossed, first, last, n_steps)
    return np.log(np.maximum(upto - below, SMALLEST))


def window_ends(
    crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return F just before each window and at its end; a window past the rollout ends at 1."""
    row = np.arange(len(crossed))
    never = first >= n_steps
    before = np.where(first > 0, crossed[row, np.minimum(first, n_steps) - 1], 0.0)
    return before, np.where(never, 1.0, crossed[row, np.minimum(last, n_steps - 1)])
