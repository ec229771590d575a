"""The threshold under a budget: which ones to try, where scores reach them, and the choice among what each gives.

A policy that was run some other way needs only its `Outcomes`: a table of their averages (`Outcomes.point`) is what
`choose`, `efficient_frontier` and `plot_operating_points` take, and `bootstrap` takes the outcomes themselves. What
thresholds give where it is known what comes of handoffs is computed in `bayes_tacit.decisions.evaluation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import NEVER, Timing, handoff_steps, usable_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.rule import reached_from


def first_crossings(scores: npt.ArrayLike | xr.DataArray, alpha: npt.ArrayLike) -> np.ndarray:
    """Find the first checkpoint at which a score reaches alpha (`bayes_tacit.router.rule.reached_from`).

    Scores are (episode, step), NaN past the end of an episode; the result is (episode,), `NEVER` (-1) where there is
    none, and (threshold, episode) for several alphas.

    Examples
    --------
    >>> first_crossings([[0.1, 0.4, 0.6], [0.2, 0.3, np.nan]], [0.2, 0.5])
    array([[ 1,  0],
           [ 2, -1]])
    """
    values = as_scores(scores)
    thresholds = np.asarray(alpha, dtype=float)
    if thresholds.ndim > 1 or np.isnan(thresholds).any():
        raise InvalidDataError("a number, or a list of numbers", field="alpha", value=alpha)
    out = np.empty((thresholds.size, len(values)), dtype=np.int64)
    for row, threshold in enumerate(reached_from(thresholds.ravel())):
        # NaN is not above anything.
        above = values >= threshold
        first = above.argmax(axis=1)
        out[row] = np.where(above[np.arange(len(values)), first], first, NEVER)
    return out.reshape(*thresholds.shape, len(values))


def first_handoffs(scores: npt.ArrayLike | xr.DataArray, alpha: npt.ArrayLike, timing: Timing) -> np.ndarray:
    """Return the step from which Strong acts: `handoff_steps` of the `first_crossings`.

    Examples
    --------
    >>> first_handoffs([[0.1, 0.4, 0.6], [0.2, 0.3, np.nan]], 0.4, "post_action")
    array([ 2, -1])
    """
    return handoff_steps(first_crossings(scores, alpha), timing)


def as_scores(scores: npt.ArrayLike | xr.DataArray) -> np.ndarray:
    """Return scores as an array (episode, step), if they can be some."""
    if isinstance(scores, xr.DataArray):
        if set(scores.dims) != {"episode", "step"}:
            raise InvalidDataError(
                "('episode', 'step'); of a posterior take the mean or a quantile over chain and draw first",
                field="dims of scores",
                value=scores.dims,
            )
        scores = scores.transpose("episode", "step").values
    try:
        values = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError("numbers by episode and step", field="scores", value=scores) from None
    if values.ndim != 2 or not values.size:
        raise InvalidDataError("(episode, step), both at least 1", field="shape of scores", value=values.shape)
    inside = np.arange(values.shape[1]) < np.maximum(n_checkpoints(values), 1)[:, None]
    wrong = inside & ~np.isfinite(values)
    if wrong.any():
        row, step = (int(at) for at in np.unravel_index(wrong.argmax(), wrong.shape))
        raise InvalidDataError(
            "a finite number; only what is past the end of an episode is NaN",
            field="score",
            value=float(values[row, step]),
            where=f"row {row}, step {step}",
        )
    return values


def n_checkpoints(scores: np.ndarray) -> np.ndarray:
    """Count the checkpoints of each episode: those before its scores are NaN."""
    return np.count_nonzero(~np.isnan(scores), axis=1)


def check_scores(values: np.ndarray, ids: np.ndarray, n_steps: np.ndarray, named: np.ndarray | None = None) -> None:
    """Check that scores are those of some episodes: as many, of the same ids where they have any, and as long."""
    if len(values) != len(ids):
        raise InvalidDataError(
            f"{len(ids)}, as there are episodes", field="number of episodes in scores", value=len(values)
        )
    if named is not None and not np.array_equal(named, ids):
        first = int(np.argmax(named != ids))
        expected = f"{plain(ids[first])!r}, as in the episodes"
        raise InvalidDataError(expected, field=f"episode {first} of the scores", value=plain(named[first]))
    lengths = n_checkpoints(values)
    if (lengths != n_steps).any():
        first = int((lengths != n_steps).argmax())
        expected, value = f"{n_steps[first]}, its n_steps", int(lengths[first])
        raise InvalidDataError(expected, episode=plain(ids[first]), field="number of scores", value=value)


TENTHS = tuple(tenth / 10 for tenth in range(11))

MOST = 100_000
"""Candidates that are still tried in seconds."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Thresholds to try, in rising order, and the share of training episodes that each was meant to hand off, or NaN.

    Examples
    --------
    >>> Candidates([0.4, 0.2])
    Candidates(alpha=array([0.2, 0.4]), target=array([nan, nan]))
    """

    alpha: np.ndarray
    target: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Sort, and check the numbers."""
        alpha = _array("alpha", self.alpha)
        target = np.full(len(alpha), np.nan) if self.target is None else _array("target", self.target)
        if np.isnan(alpha).any():
            raise InvalidDataError("numbers", field="alpha", value=alpha.tolist())
        if target.shape != alpha.shape:
            raise InvalidDataError(f"{len(alpha)}, one for each alpha", field="number of targets", value=len(target))
        order = np.argsort(alpha, kind="stable")
        object.__setattr__(self, "alpha", alpha[order])
        object.__setattr__(self, "target", target[order])

    def __len__(self) -> int:
        return len(self.alpha)


def fixed_grid(lowest: float = 0.1, highest: float = 0.9, n: int = 9) -> Candidates:
    """Space thresholds evenly; by default 0.1, 0.2, ..., 0.9, as the paper does for ALFWorld.

    Examples
    --------
    >>> fixed_grid(0.2, 0.4, n=3).alpha
    array([0.2, 0.3, 0.4])
    """
    lowest = validate.threshold("lowest", lowest)
    highest = validate.number("highest", highest, f"a number from {lowest:g} to 1", least=lowest, most=1)
    # A threshold of 0.3 is 0.3 to its reader, not 0.30000000000000004.
    return Candidates(np.unique(np.linspace(lowest, highest, validate.whole("n", n, 1, MOST)).round(12)))


def score_quantiles(scores: npt.ArrayLike | xr.DataArray, n: int = 101, *, above: float = 0.0) -> Candidates:
    """Take n evenly spaced quantiles of training scores, the smallest and the largest among them.

    The scores (episode, step), NaN past the end of an episode, are those of all checkpoints of all episodes, pooled.
    The last scores alone would space the candidates evenly by how many episodes they hand off, but would have just one
    that hands off all of them; scores of all checkpoints also tell apart how early that happens, which is what a large
    budget has to decide. Quantiles at or below `above` become the smallest score above it: a router needs an alpha
    above 0. Use `-numpy.inf` for scores that may be negative.

    Examples
    --------
    >>> score_quantiles([[0.0, 0.1, 0.2], [0.0, 0.4, np.nan]], n=3).alpha
    array([0.1, 0.4])
    """
    values = as_scores(scores)
    pooled = values[~np.isnan(values)]
    levels = np.linspace(0, 1, validate.whole("n", n, 2, MOST))
    return Candidates(np.unique(_lifted(np.quantile(pooled, levels), pooled, above)))


def target_switch_rates(
    scores: npt.ArrayLike | xr.DataArray,
    rates: npt.ArrayLike = TENTHS,
    *,
    quantiles: npt.ArrayLike = TENTHS,
    n: int = 9,
    timing: Timing = "post_action",
    above: float = 0.0,
) -> Candidates:
    """Find thresholds that hand off given shares of the training episodes, as the paper does for DABench.

    1. For each rate r of m episodes, alpha is the round(r m)-th largest of the episodes' highest scores; for rate 0 it
       is 1 (infinite, should a score reach 1), which none reaches. Under "post_action" the last score does not count.
    2. Quantiles of all scores join them; the target of each is the share of episodes that it hands off.
    3. Of candidates that hand off every training episode at the same step, the first is kept: rates before quantiles,
       lower ones first.
    4. If more than n are left, n are kept that are evenly spaced in their order by alpha, both ends included.

    Examples
    --------
    >>> scores = [[0.1, 0.2, 0.9], [0.1, 0.4, 0.9], [0.0, 0.1, 0.9]]      # no handoff after the last action
    >>> target_switch_rates(scores, [0, 0.33, 0.67, 1], quantiles=[])
    Candidates(alpha=array([0.1, 0.2, 0.4, 1. ]), target=array([1.  , 0.67, 0.33, 0.  ]))
    """
    values = as_scores(scores)
    n = validate.whole("n", n, 2, MOST)
    rates, quantiles = _shares("rates", rates), _shares("quantiles", quantiles)
    if not rates.size + quantiles.size:
        raise InvalidDataError("at least one rate or quantile", field="rates", value=[])
    pooled = values[~np.isnan(values)]
    alpha = np.concatenate(
        [
            _lifted(_rate_thresholds(values, rates, timing), pooled, above),
            _lifted(np.quantile(pooled, quantiles), pooled, above),
        ]
    )
    handoffs = first_handoffs(values, alpha, timing)
    handoffs[handoffs == n_checkpoints(values)] = NEVER
    target = np.concatenate([rates, (handoffs[len(rates) :] != NEVER).mean(axis=1)])
    _, first = np.unique(handoffs, axis=0, return_index=True)
    distinct = first[np.argsort(alpha[first])]
    kept = distinct[np.unique(np.linspace(0, len(distinct) - 1, n).round().astype(int))]
    return Candidates(alpha[kept], target[kept])


def _rate_thresholds(scores: np.ndarray, rates: np.ndarray, timing: Timing) -> np.ndarray:
    """Return the threshold that hands off each share of the episodes, or a little more where scores are equal."""
    usable = usable_checkpoints(n_checkpoints(scores), timing)
    inside = np.arange(scores.shape[1]) < usable[:, None]
    highest = np.sort(np.where(inside, scores, -np.inf).max(axis=1))[::-1]
    unreached = 1.0 if highest[0] < reached_from(1.0) else np.inf
    counts = np.floor(rates * len(highest) + 0.5).astype(int)
    return np.append(unreached, highest)[counts]


def _lifted(alpha: np.ndarray, scores: np.ndarray, above: float) -> np.ndarray:
    """Replace thresholds that are too low by the lowest score that is not."""
    enough = scores[scores > above]
    if not enough.size:
        raise InvalidDataError(f"a score above {above:g}", field="largest score", value=float(scores.max()))
    return np.where(alpha > above, alpha, enough.min())


def _shares(name: str, given: npt.ArrayLike) -> np.ndarray:
    values = _array(name, given, least=0)
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidDataError("numbers from 0 to 1", field=name, value=values.tolist())
    return np.unique(values)


def _array(name: str, given: npt.ArrayLike, least: int = 1) -> np.ndarray:
    try:
        values = np.atleast_1d(np.array(given, dtype=float))
    except (TypeError, ValueError):
        raise InvalidDataError("a list of numbers", field=name, value=given) from None
    if values.ndim != 1 or values.size < least:
        raise InvalidDataError("a list of at least one number", field=name, value=given)
    return values


Points = pd.DataFrame | Mapping[str, npt.ArrayLike]
"""A table of operating points, or its columns: `success` and `cost` at least."""

SAME = 1e-9
"""Relative difference below which two averages are the same number, rounded differently."""

TIES = (("cost", 1), ("intervention_rate", 1), ("target", 1), ("alpha", -1))
"""What breaks ties, in this order, and whether the lower (1) or the higher (-1) wins."""


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen under a cap.

    `position` is its row in the table, `point` that row; `n_points` and `n_within` say how many candidates there were
    and were within the cap, `n_tied` how many of those succeed as often as the chosen one, itself included.
    """

    position: int
    point: Mapping[str, object]
    cap: float
    n_points: int
    n_within: int
    n_tied: int

    @property
    def alpha(self) -> float:
        """The threshold, if the table has thresholds."""
        if "alpha" not in self.point:
            raise InvalidDataError("a column 'alpha'", field="columns of the points", value=list(self.point))
        return float(self.point["alpha"])  # type: ignore[arg-type]

    @property
    def success(self) -> float:
        """Its mean success."""
        return float(self.point["success"])  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        """Its mean cost."""
        return float(self.point["cost"])  # type: ignore[arg-type]

    def __str__(self) -> str:
        name = f"alpha = {self.alpha:.4g}" if "alpha" in self.point else f"candidate {self.position}"
        tied = f", {self.n_tied} of them with this success" if self.n_tied > 1 else ""
        return (
            f"{name}: success {self.success:.1%} at cost {self.cost:.4g} "
            f"({self.n_within} of {self.n_points} candidates within the cap of {self.cap:.4g}{tied})"
        )


def choose(points: Points, cap: float) -> Choice:
    """Choose the candidate with the highest success whose cost is within the cap.

    Ties are broken by lower cost, then lower intervention rate, then lower target, as in the paper; then by higher
    alpha, which is what a lower target means where there are none; then the first row wins. Columns that are not there
    break no tie, and a missing value loses against a number.

    Parameters
    ----------
    points
        A table, or plain arrays by name: `success` and `cost`, and if there are `intervention_rate`, `target`, `alpha`.
        Each row is a candidate; what kind of policy it is does not matter.
    cap
        The highest mean cost allowed, in the unit of the costs.

    Raises
    ------
    InvalidDataError
        If no candidate is within the cap; the message says the lowest cost there is.

    Examples
    --------
    >>> print(choose({"alpha": [0.1, 0.2, 0.3], "success": [0.8, 0.7, 0.7], "cost": [19, 16, 15]}, cap=16))
    alpha = 0.3: success 70.0% at cost 15 (2 of 3 candidates within the cap of 16, 2 of them with this success)
    """
    table = table_of(points)
    cap = validate.number("cap", cap, "a finite number >= 0", least=0)
    success, cost = column(table, "success"), column(table, "cost")
    within = np.flatnonzero(cost <= cap + SAME * abs(cap))
    if not within.size:
        lowest = int(cost.argmin())
        raise InvalidDataError(
            f"at least {cost[lowest]:.6g}, the lowest cost of the {len(table)} candidates", field="cap", value=cap
        )
    best = tied = _lowest(-success, within)
    for name, sign in TIES:
        if name in table:
            best = _lowest(sign * column(table, name, missing=True), best)
    position = int(best[0])
    point = {str(name): value for name, value in table.iloc[position].items()}
    return Choice(position, point, cap, n_points=len(table), n_within=len(within), n_tied=len(tied))


def why_no_handoff(points: Points, choice: Choice) -> str:
    """Say why the chosen candidate hands off nothing; empty if it hands off something, or nobody counted."""
    table = table_of(points)
    if "intervention_rate" not in table or choice.point["intervention_rate"] != 0:
        return ""
    acting = table[table["intervention_rate"] > 0]
    within = acting[acting["cost"] <= choice.cap * (1 + SAME)]
    if acting.empty:
        why = "no score reaches any of the candidates while something is left to do"
    elif within.empty:
        why = (
            f"of the candidates that do, the cheapest costs {acting['cost'].min():.4g}, and the cap is {choice.cap:.4g}"
        )
    else:
        best = float(within["success"].max())
        why = f"of the candidates within the cap that do, the best succeeds in {best:.1%}, no more than without"
    return f"It hands off nothing: {why}."


def table_of(points: Points) -> pd.DataFrame:
    """Return points as a table with rows from 0."""
    if not isinstance(points, pd.DataFrame | Mapping):
        raise InvalidDataError(
            "a table of operating points, or a mapping with its columns", field="points", value=points
        )
    try:
        table = pd.DataFrame(points).reset_index(drop=True)
    except ValueError:
        lengths = {name: np.size(values) for name, values in points.items()}
        raise InvalidDataError("columns of one length", field="points", value=lengths) from None
    if table.empty:
        raise InvalidDataError("at least one candidate", field="points", value=[])
    return table


def column(table: pd.DataFrame, name: str, *, missing: bool = False) -> np.ndarray:
    """Return a column as numbers; NaN passes where values may be missing."""
    if name not in table:
        raise InvalidDataError(f"a column {name!r}", field="columns of the points", value=list(table))
    try:
        values = table[name].to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise InvalidDataError("numbers", field=name, value=table[name].tolist()) from None
    wrong = np.isnan(values) & (not missing)
    if wrong.any():
        first = int(wrong.argmax())
        raise InvalidDataError("a number", field=name, value=float(values[first]), where=f"row {first}")
    return values


def _lowest(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Keep the rows whose value is the lowest."""
    among = np.where(np.isnan(values), np.inf, values)[rows]
    least = among.min()
    if np.isinf(least):
        return rows[among == least]
    return rows[among <= least + SAME * abs(least)]


def efficient_frontier(points: Points) -> pd.DataFrame:
    """Keep the points that no other point beats, by rising cost.

    A point is beaten by one that succeeds at least as often and costs no more, one of the two strictly; of points with
    the same success and cost the first is kept.

    Examples
    --------
    >>> efficient_frontier({"success": [0.5, 0.7, 0.6, 0.7], "cost": [10, 14, 15, 16]})
       success  cost
    0      0.5    10
    1      0.7    14
    """
    table = table_of(points)
    success, cost = column(table, "success"), column(table, "cost")
    order = np.lexsort((-success, cost))
    best_so_far = np.maximum.accumulate(np.append(-np.inf, success[order]))
    return table.iloc[order[success[order] > best_so_far[:-1]]]


def bootstrap(
    outcomes: Outcomes,
    baseline: Outcomes | None = None,
    *,
    resamples: int = 10_000,
    probability: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute percentile intervals by resampling tasks with replacement.

    A resample takes a task with everything that was done on it, so a difference compares the two policies on the same
    tasks. The interval is about which tasks were drawn; it does not know that a candidate was chosen on them. Rows are
    `success` and `cost`, and with a baseline on the same episodes `success_difference` and `cost_difference`; columns
    `estimate`, `lower` and `upper`.

    Examples
    --------
    >>> ours = Outcomes(success=[1, 1, 1, 0], cost=[5, 4, 5, 6], cheap_calls=[2, 1, 2, 3], strong_calls=[1, 1, 1, 1])
    >>> theirs = Outcomes(success=[1, 0, 1, 0], cost=[3, 3, 3, 3], cheap_calls=[3, 3, 3, 3], strong_calls=[0, 0, 0, 0])
    >>> bootstrap(ours, theirs, seed=1)
                        estimate  lower  upper
    success                 0.75   0.25   1.00
    cost                    5.00   4.25   5.75
    success_difference      0.25   0.00   0.75
    cost_difference         2.00   1.25   2.75
    """
    resamples = validate.whole("resamples", resamples, 1, 10_000_000)
    probability = validate.probability("probability", probability)
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    columns = _columns(outcomes, baseline)
    values = np.column_stack(list(columns.values()))
    n = len(values)
    means = np.empty((resamples, values.shape[1]))
    for mean in means:
        times_drawn = np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
        mean[:] = times_drawn @ values / n
    tail = (1 - probability) / 2
    lower, upper = np.quantile(means, [tail, 1 - tail], axis=0)
    return pd.DataFrame({"estimate": values.mean(axis=0), "lower": lower, "upper": upper}, index=list(columns))


def _columns(outcomes: Outcomes, baseline: Outcomes | None) -> dict[str, np.ndarray]:
    given = {"outcomes": outcomes} if baseline is None else {"outcomes": outcomes, "baseline": baseline}
    for name, value in given.items():
        if not isinstance(value, Outcomes):
            raise InvalidDataError("Outcomes", field=name, value=value)
    columns = {"success": outcomes.success, "cost": outcomes.cost}
    if baseline is None:
        return columns
    if len(baseline) != len(outcomes):
        expected = f"{len(outcomes)}, the same as of the other policy: they are paired"
        raise InvalidDataError(expected, field="number of episodes of the baseline", value=len(baseline))
    differences = {f"{name}_difference": ours - getattr(baseline, name) for name, ours in columns.items()}
    return columns | differences
