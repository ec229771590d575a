"""What each candidate threshold would give, and which of them no other one beats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit.data.costs import averages
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import NEVER, Timing, discards_proposal, handoff_steps
from bayes_tacit.decisions.selection.candidates import Candidates
from bayes_tacit.decisions.selection.choice import Points, column, table_of
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.scores.crossings import as_scores, n_checkpoints
from bayes_tacit.scores.ties import reached_from


def operating_points(
    scores: npt.ArrayLike | xr.DataArray,
    counterfactuals: Counterfactuals,
    candidates: Candidates | npt.ArrayLike,
    timing: Timing,
) -> pd.DataFrame:
    """Look up what each threshold gives on episodes whose counterfactuals are known.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode: development episodes. A DataArray is matched by its ids; a
        plain array must be in the order of the counterfactuals.
    counterfactuals
        What would come of each handoff. Under "proposal" the Cheap call whose proposal is discarded is charged.
    candidates
        Thresholds.
    timing
        What a checkpoint is: "post_action" or "proposal".

    Returns
    -------
    pandas.DataFrame
        One row for each candidate, by rising alpha: `alpha`, `success`, `cost`, `strong_share`, `intervention_rate`
        (as `Outcomes.point` defines them) and `target`.

    Examples
    --------
    >>> from bayes_tacit.data.costs import StepCost
    >>> counterfactuals = Counterfactuals.from_calls(
    ...     ["a", "b"], success=[[1, 1, 0], [1, 1, 1]], strong_calls=[[3, 2, 1], [3, 2, 1]], never_success=[0, 1],
    ...     cost=StepCost(cheap=1, strong=3),
    ... )
    >>> operating_points([[0.2, 0.6, 0.7], [0.1, 0.3, 0.4]], counterfactuals, [0.2, 0.5], "post_action")
       alpha  success  cost  strong_share  intervention_rate  target
    0    0.2      1.0   6.0      0.500000                1.0     NaN
    1    0.5      0.5   4.0      0.166667                0.5     NaN
    """
    if isinstance(scores, xr.DataArray) and "episode" in scores.coords:
        ids = scores["episode"].values
        counterfactuals = counterfactuals if np.array_equal(ids, counterfactuals.ids) else counterfactuals.select(ids)
    values = as_scores(scores)
    _check_lengths(values, counterfactuals)
    candidates = candidates if isinstance(candidates, Candidates) else Candidates(np.asarray(candidates))
    table = counterfactuals.table(discards_proposal=discards_proposal(timing))
    sums = _sums(values, candidates.alpha, np.stack([*table, table[3] > 0]), timing, counterfactuals.check_played)
    columns = averages(sums, len(counterfactuals))
    return pd.DataFrame({"alpha": candidates.alpha, **columns, "target": candidates.target})


def efficient_frontier(points: Points) -> pd.DataFrame:
    """Keep the points that no other point beats, by rising cost.

    A point is beaten by one that succeeds at least as often and costs no more, one of the two strictly; of points with
    the same success and cost the first is kept.

    Parameters
    ----------
    points
        As for `choose`.

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


def _sums(
    scores: np.ndarray,
    alpha: np.ndarray,
    table: np.ndarray,
    timing: Timing,
    check: Callable[[np.ndarray, np.ndarray], None],
) -> np.ndarray:
    """Sum a table (variable, episode, handoff) over episodes, at the handoffs of each of the rising thresholds.

    The thresholds that an episode first reaches at checkpoint t are neighbours: those above its highest score before t
    and not above the one at t. What a handoff there gives is put in where they begin and taken out where they end, and
    one running sum over the thresholds does the rest. The time does not depend on how many thresholds there are.
    """
    reached = np.searchsorted(reached_from(alpha), np.fmax.accumulate(scores, axis=1), side="right")
    begin = np.column_stack([np.zeros(len(scores), dtype=int), reached])
    end = np.column_stack([reached, np.full(len(scores), len(alpha))])
    # The last column is for the thresholds that are never reached, and so is the last of the table.
    handoff = np.append(handoff_steps(np.arange(scores.shape[1]), timing), NEVER)
    episode, checkpoint = np.nonzero(begin < end)
    check(episode, handoff[checkpoint])
    at = episode, checkpoint
    out = np.empty((len(table), len(alpha)))
    for row, variable in enumerate(table):
        value = variable[episode, handoff[checkpoint]]
        put_in, taken_out = (np.bincount(edge[at], value, minlength=len(alpha) + 1) for edge in (begin, end))
        out[row] = np.cumsum(put_in - taken_out)[:-1]
    return out


def _check_lengths(scores: np.ndarray, counterfactuals: Counterfactuals) -> None:
    if len(scores) != len(counterfactuals):
        expected = f"{len(counterfactuals)}, as there are counterfactuals"
        raise InvalidDataError(expected, field="number of episodes in scores", value=len(scores))
    lengths = n_checkpoints(scores)
    differs = lengths != counterfactuals.n_steps
    if differs.any():
        first = int(differs.argmax())
        raise InvalidDataError(
            f"{counterfactuals.n_steps[first]}, the length of its Cheap rollout in the counterfactuals",
            episode=plain(counterfactuals.ids[first]),
            field="number of scores",
            value=int(lengths[first]),
        )
