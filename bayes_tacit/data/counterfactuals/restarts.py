"""What comes of restarting a task with Strong, which paired rollouts say exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_tacit.data.costs import CostModel, LoggedCost
from bayes_tacit.data.counterfactuals.layout import as_floats, assemble, with_costs
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.episodes.conversions import plain
from bayes_tacit.data.episodes.layout import carried_variables
from bayes_tacit.errors import InvalidDataError

BY_STEP = ("episode", "step")
BY_ROLLOUT = ("episode",)


def from_pairs(
    episodes: Episodes, strong_steps: str | npt.ArrayLike | None, cost: CostModel | LoggedCost
) -> xr.Dataset:
    """Make the table of all restarts; see `Counterfactuals.from_restarts`."""
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes", field="episodes", value=episodes)
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    if strong_steps is not None:
        calls = _numbers(episodes, "strong_steps", strong_steps, inside, above=0)
        if calls.ndim != 1:
            raise InvalidDataError("(episode,), one for each", field="shape of strong_steps", value=calls.shape)
    elif isinstance(cost, LoggedCost):
        calls = np.ones(len(episodes))
    else:
        expected = "the steps of Strong's rollouts, or cost=LoggedCost(...), with what they cost"
        raise InvalidDataError(expected, field="strong_steps", value=None)
    values = {
        "success": _spread(episodes.dataset["strong_success"].values.astype(float), inside),
        "strong_calls": _spread(calls, inside),
        "cheap_calls": np.where(inside, np.arange(episodes.horizon), np.nan),
        "never_success": episodes.dataset["cheap_success"].values.astype(float),
        "never_calls": episodes.n_steps.astype(float),
    }
    if not isinstance(cost, LoggedCost):
        return with_costs(assemble(episodes.ids, values), cost)
    return assemble(episodes.ids, values | _logged_costs(episodes, cost, inside))


def restarted(dataset: xr.Dataset, cost: CostModel | None) -> xr.Dataset:
    """Make the table of restarts from one of resumed handoffs; see `Counterfactuals.restarted`."""
    inside = ~np.isnan(dataset["success"].values)
    same = {name: dataset[name].values for name in ("cheap_calls", "never_success", "never_calls")}
    anew = {name: _spread(dataset[name].values[:, 0], inside) for name in ("success", "strong_calls")}
    table = assemble(dataset["episode"].values, {**same, **anew})
    if cost is not None:
        return with_costs(table, cost)
    if "proposal_cost" not in dataset:
        raise InvalidDataError(
            "a variable 'proposal_cost', what Cheap's call at each step costs, or a cost model: restarted(cost)",
            field="variables of the counterfactuals",
            value=list(dataset.data_vars),
        )
    by_step = dataset["proposal_cost"].values
    total = _spread(dataset["cost"].values[:, 0], inside) + _before(by_step)
    costs = {"cost": total, "proposal_cost": by_step, "never_cost": dataset["never_cost"].values}
    return table.assign({name: (("episode", "handoff")[: array.ndim], array) for name, array in costs.items()})


def _logged_costs(episodes: Episodes, cost: LoggedCost, inside: np.ndarray) -> dict[str, np.ndarray]:
    strong = _numbers(episodes, "cost of Strong's rollouts", cost.strong, inside)
    if strong.ndim != 1:
        raise InvalidDataError("(episode,), one for each", field="shape of the cost of Strong", value=strong.shape)
    cheap = _numbers(episodes, "cost of Cheap's steps or rollouts", cost.cheap, inside)
    by_rollout = cheap.ndim == 1
    by_step = _spread(cheap / episodes.n_steps, inside) if by_rollout else cheap
    return {
        "cost": _spread(strong, inside) + _before(by_step),
        "proposal_cost": by_step,
        # The whole is what the log says, not a sum of rounded parts.
        "never_cost": cheap if by_rollout else np.nansum(cheap, axis=1),
    }


def _spread(by_episode: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Put a number of each episode at each of its handoffs, NaN past the end of the rollout."""
    return np.where(inside, by_episode[:, None], np.nan)


def _before(by_step: np.ndarray) -> np.ndarray:
    """Sum over the steps before each: what the Cheap prefix costs."""
    return np.column_stack([np.zeros(len(by_step)), np.cumsum(by_step, axis=1)[:, :-1]])


def _numbers(
    episodes: Episodes, what: str, given: str | npt.ArrayLike, inside: np.ndarray, above: float | None = None
) -> np.ndarray:
    """Give what was carried under a name, or an array: (episode,) or (episode, step), NaN past the end."""
    field = what
    if isinstance(given, str):
        field, carried = given, carried_variables(episodes.dataset)
        if given not in carried:
            expected = f"a carried variable with {what}; there are {list(carried)}"
            raise InvalidDataError(expected, field="carried variable", value=given)
        if episodes.dataset[given].dims not in (BY_ROLLOUT, BY_STEP):
            expected = f"{BY_ROLLOUT} or {BY_STEP}"
            raise InvalidDataError(expected, field=f"dims of {given}", value=episodes.dataset[given].dims)
        given = episodes.dataset[given].values
    values = as_floats(field, given)
    if values.shape not in ((len(episodes),), inside.shape):
        expected = f"({len(episodes)},), one for each episode, or {inside.shape}, one for each step"
        raise InvalidDataError(expected, field=f"shape of {field}", value=values.shape)
    values = values if values.ndim == 1 else np.where(inside, values, np.nan)
    wrong = ~np.isfinite(values) | (values < 0 if above is None else values <= above)
    wrong &= inside if values.ndim == 2 else True
    if wrong.any():
        at = np.unravel_index(int(wrong.argmax()), wrong.shape)
        raise InvalidDataError(
            "a finite number >= 0" if above is None else f"a finite number above {above:g}",
            episode=plain(episodes.ids[at[0]]),
            field=field,
            value=float(values[at]),
            where=f"step {at[1]}" if values.ndim == 2 else None,
        )
    return values
