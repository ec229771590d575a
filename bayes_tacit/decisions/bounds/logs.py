"""Bounds on the success and cost of each threshold, from a log of paired rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import CostModel, cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import Timing, discards_proposal
from bayes_tacit.decisions.bounds.assumptions import (
    ASSUMPTIONS,
    Assumption,
    Logged,
    Reach,
    as_assumptions,
    certain_reach,
    narrowed_reach,
)
from bayes_tacit.decisions.selection import Candidates
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.scores.crossings import as_scores, first_handoffs, n_checkpoints


@dataclass(frozen=True, eq=False, repr=False)
class Bounds:
    """What a log says about thresholds: bounds, not estimates.

    Attributes
    ----------
    certain
        One row for each alpha: `success_low`, `success_high`, `cost_low` and `cost_high`, between which the averages
        over these episodes lie whatever the handoffs would have given; `intervention_rate`, exactly; and `known`, the
        share of episodes whose success is not in doubt. A cost without a bound is infinite.
    narrowed
        The same if the assumptions hold.
    assumptions
        Their names, and what each says.
    cheap_success, cheap_cost, strong_success
        The averages of the log: Pure Cheap, exactly, and how often Strong succeeded.
    strong_cost_low, strong_cost_high
        Between which the mean cost of Pure Strong lies; the same number where the lengths of its rollouts are known.
    n_episodes
        How many episodes the log has.
    """

    certain: pd.DataFrame
    narrowed: pd.DataFrame
    assumptions: Mapping[str, str]
    cheap_success: float
    cheap_cost: float
    strong_success: float
    strong_cost_low: float
    strong_cost_high: float
    n_episodes: int

    def __repr__(self) -> str:
        assumed = ", ".join(self.assumptions) or "nothing"
        return f"<Bounds: {len(self.certain)} thresholds on {self.n_episodes} logged episodes; narrowed by {assumed}>"


def bounds_from_logs(
    scores: npt.ArrayLike | xr.DataArray,
    episodes: Episodes,
    candidates: Candidates | npt.ArrayLike,
    timing: Timing,
    *,
    cost: CostModel,
    step_budget: int | None = None,
    strong_steps: str | None = None,
    assumptions: Iterable[Assumption] | None = None,
) -> Bounds:
    """Bound what each threshold would have given on logged episodes.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode. Best those of episodes that the fit has not seen.
    episodes
        The log. A DataArray of scores must have its ids, a plain array its order.
    candidates
        Thresholds.
    timing
        What a checkpoint is: "post_action" or "proposal".
    cost
        What calls cost; one call a step is counted for each agent, and under "proposal" the discarded one.
    step_budget
        How many steps an episode can have, whoever acts. Without it nothing is certain about the highest cost.
    strong_steps
        Name of the variable, carried along in the episodes, with the length of Strong's own rollout.
    assumptions
        Names from `ASSUMPTIONS`; by default all for which the log has what they need.

    Raises
    ------
    InvalidDataError
        If neither `step_budget` nor `strong_steps` is given: nothing would bound the cost.

    Examples
    --------
    >>> from bayes_tacit import Episodes, StepCost
    >>> tasks = pd.DataFrame({
    ...     "episode": ["a", "b", "c", "d"], "cheap_success": [0, 0, 1, 0], "strong_success": [1, 1, 1, 0],
    ...     "window_start": [0, 0, None, None], "window_end": [1, 1, None, None],
    ... })
    >>> steps = pd.DataFrame({"episode": [*"aaabbbcccddd"], "step": [0, 1, 2] * 4, "stalled": 1.0})
    >>> episodes = Episodes.from_frames(tasks, steps)
    >>> q = [[0.2, 0.4, 0.6], [0.1, 0.3, 0.5], [0.1, 0.2, 0.2], [0.1, 0.3, 0.3]]
    >>> bounds = bounds_from_logs(q, episodes, [0.2, 0.3, 0.4], "post_action", cost=StepCost(1, 3), step_budget=4)
    >>> bounds.narrowed[["alpha", "success_low", "success_high", "cost_low", "cost_high"]]
       alpha  success_low  success_high  cost_low  cost_high
    0    0.2         0.75          0.75      4.75       8.50
    1    0.3         0.75          0.75      4.50       6.75
    2    0.4         0.50          0.50      3.50       4.25
    """
    values, logged = as_scores(scores), _logged(episodes, strong_steps)
    _check_match(scores, values, episodes)
    budget = _budget(step_budget, episodes, logged)
    assumed = as_assumptions(assumptions, with_lengths=logged.strong_steps is not None)
    candidates = candidates if isinstance(candidates, Candidates) else Candidates(np.asarray(candidates))
    certain, narrowed = [], []
    for handoff in first_handoffs(values, candidates.alpha, timing):
        reach = certain_reach(logged, handoff, budget, discards_proposal=discards_proposal(timing))
        certain.append(_row(reach, cost))
        narrowed.append(_row(narrowed_reach(reach, logged, handoff, assumed), cost))
    return Bounds(
        certain=pd.DataFrame({"alpha": candidates.alpha, **pd.DataFrame(certain)}),
        narrowed=pd.DataFrame({"alpha": candidates.alpha, **pd.DataFrame(narrowed)}),
        assumptions={name: ASSUMPTIONS[name] for name in assumed},
        cheap_success=float(logged.cheap_success.mean()),
        cheap_cost=float(cost_of_calls(cost, logged.n_steps, 0).mean()),
        strong_success=float(logged.strong_success.mean()),
        strong_cost_low=_strong_cost(logged, cost, 1),
        strong_cost_high=_strong_cost(logged, cost, budget),
        n_episodes=len(episodes),
    )


def _strong_cost(logged: Logged, cost: CostModel, steps: int | None) -> float:
    """Give the mean cost of Strong's own rollouts, of so many steps each where their lengths are not known."""
    calls = np.full(len(logged.n_steps), steps) if logged.strong_steps is None else logged.strong_steps
    return float(cost_of_calls(cost, 0, calls).mean())


def _row(reach: Reach, cost: CostModel) -> dict[str, float]:
    bounded = np.isfinite(reach.strong_calls_high).all()
    highest = cost_of_calls(cost, reach.cheap_calls, reach.strong_calls_high).mean() if bounded else np.inf
    return {
        "success_low": float(reach.success_low.mean()),
        "success_high": float(reach.success_high.mean()),
        "cost_low": float(cost_of_calls(cost, reach.cheap_calls, reach.strong_calls_low).mean()),
        "cost_high": float(highest),
        "intervention_rate": float((reach.strong_calls_low > 0).mean()),
        "known": float((reach.success_low == reach.success_high).mean()),
    }


def _logged(episodes: Episodes, strong_steps: str | None) -> Logged:
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes", field="episodes", value=episodes)
    dataset = episodes.require_pairs("what bounds from logs say").dataset
    return Logged(
        cheap_success=dataset["cheap_success"].values,
        strong_success=dataset["strong_success"].values,
        n_steps=episodes.n_steps,
        window_end=dataset["window_end"].values,
        strong_steps=None if strong_steps is None else _lengths(episodes, strong_steps),
    )


def _lengths(episodes: Episodes, name: str) -> np.ndarray:
    dataset = episodes.dataset
    usable = [str(one) for one, array in dataset.data_vars.items() if array.dims == ("episode",)]
    if name not in usable or dataset[name].dtype.kind not in "iuf":
        raise InvalidDataError(
            f"the name of a variable of numbers by episode, carried along; there are {usable}",
            field="strong_steps",
            value=name,
        )
    lengths = dataset[name].values.astype(float)
    wrong = ~((lengths >= 1) & (lengths == np.floor(lengths)) & np.isfinite(lengths))
    if wrong.any():
        first = int(wrong.argmax())
        value = float(lengths[first])
        raise InvalidDataError("a whole number >= 1", episode=plain(episodes.ids[first]), field=name, value=value)
    return lengths


def _budget(step_budget: int | None, episodes: Episodes, logged: Logged) -> int | None:
    if step_budget is None:
        if logged.strong_steps is None:
            raise InvalidDataError(
                "a step budget, or strong_steps with the lengths of Strong's rollouts: without either nothing bounds "
                "the cost",
                field="step_budget",
                value=None,
            )
        return None
    longest = episodes.horizon if logged.strong_steps is None else max(episodes.horizon, int(logged.strong_steps.max()))
    budget = validate.whole("step_budget", step_budget, 1)
    if budget < longest:
        raise InvalidDataError(f"at least {longest}, the longest rollout", field="step_budget", value=budget)
    return budget


def _check_match(scores: object, values: np.ndarray, episodes: Episodes) -> None:
    if len(values) != len(episodes):
        expected = f"{len(episodes)}, as there are episodes"
        raise InvalidDataError(expected, field="number of episodes in scores", value=len(values))
    if isinstance(scores, xr.DataArray) and "episode" in scores.coords:
        ids = scores["episode"].values
        if not np.array_equal(ids, episodes.ids):
            first = int(np.argmax(ids != episodes.ids))
            expected = f"{plain(episodes.ids[first])!r}, as in the episodes"
            raise InvalidDataError(expected, field=f"episode {first} of the scores", value=plain(ids[first]))
    lengths = n_checkpoints(values)
    differs = lengths != episodes.n_steps
    if differs.any():
        first = int(differs.argmax())
        raise InvalidDataError(
            f"{episodes.n_steps[first]}, its n_steps",
            episode=plain(episodes.ids[first]),
            field="number of scores",
            value=int(lengths[first]),
        )
