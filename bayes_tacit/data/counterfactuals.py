"""Counterfactuals: what would have come of handing off at each step, so that any permanent handoff is a look-up.

What comes of restarting a task with Strong, paired rollouts say exactly.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit.data import counterfactual_files
from bayes_tacit.data.costs import CostModel, LoggedCost, Outcomes, TokenCost
from bayes_tacit.data.counterfactual_files import as_floats, assemble, with_costs
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import as_list, carried_variables, plain
from bayes_tacit.data.timing import NEVER, Handoff, as_steps
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitWarning


class Counterfactuals:
    """Success, cost and calls of each episode for every step at which Strong could have taken over.

    A handoff at step k means that Cheap acts before step k and Strong from it on: k = 0 is Pure Strong. Never handing
    off is Pure Cheap. Simulators fill the table, and environments that can replay a rollout up to a step. Where a
    handoff restarts the task with Strong, paired rollouts alone fill it: see `from_restarts`.

    Parameters
    ----------
    dataset
        Dims `episode` (with ids) and `handoff` (0, 1, 2, ...), and the variables

        - `success` (episode, handoff), 0 or 1;
        - `cost` (episode, handoff), in any unit;
        - `cheap_calls`, `strong_calls` (episode, handoff); at handoff 0 there are no Cheap calls;
        - `never_success`, `never_cost`, `never_calls` (episode), the Cheap rollout;
        - `proposal_cost` (episode, handoff), optional: what Cheap's call at the step of the handoff costs. It is added
          where that call was made and its proposal discarded;
        - `played` (episode, handoff), optional: 0 where nobody played the handoff, so that what stands there means
          nothing and looking it up is an error.

        A handoff that comes after the Cheap rollout has ended is NaN in each of them. The attribute `handoff` says what
        a handoff does: "resume" (by default; Strong goes on from Cheap's state) or "restart" (it begins anew).

    See Also
    --------
    Counterfactuals.from_calls : from arrays of successes and calls, with a cost model.
    Counterfactuals.from_restarts : from paired rollouts, if a handoff restarts the task.
    Counterfactuals.from_frame : from a table with one row for each episode and handoff.
    Counterfactuals.read : from a file.

    Examples
    --------
    >>> from bayes_tacit.data.costs import StepCost
    >>> counterfactuals = Counterfactuals.from_calls(
    ...     ["a", "b"],
    ...     success=[[1, 1, 0], [1, 1, np.nan]],    # by handoff step; the Cheap rollout of "b" has two steps
    ...     strong_calls=[[4, 3, 2], [3, 2, np.nan]],
    ...     never_success=[0, 1],
    ...     cost=StepCost(cheap=1, strong=3),
    ... )
    >>> counterfactuals
    <Counterfactuals: 2 episodes, handoffs at steps 0 to 2 or never; Pure Cheap 50.0%, Pure Strong 100.0%>
    >>> counterfactuals.outcomes_at([1, -1]).cost
    array([10.,  2.])
    """

    __slots__ = ("_dataset", "_n_steps", "_played", "_proposal_table", "_table")

    _dataset: xr.Dataset
    _n_steps: np.ndarray
    _played: np.ndarray | None
    _table: np.ndarray
    _proposal_table: np.ndarray | None

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = counterfactual_files.conform(dataset)
        self._n_steps = counterfactual_files.n_steps(self._dataset)
        self._table, self._proposal_table = counterfactual_files.lookup_tables(self._dataset)
        self._played = self._dataset["played"].values if "played" in self._dataset else None

    @classmethod
    def from_calls(
        cls,
        episode: npt.ArrayLike,
        *,
        success: npt.ArrayLike,
        strong_calls: npt.ArrayLike,
        never_success: npt.ArrayLike,
        cost: CostModel,
        cheap_calls: npt.ArrayLike | None = None,
        never_calls: npt.ArrayLike | None = None,
        played: npt.ArrayLike | None = None,
    ) -> Counterfactuals:
        """Make the table from successes and calls.

        Parameters
        ----------
        episode
            Ids.
        success, strong_calls
            (episode, handoff), NaN past the end of the Cheap rollout.
        never_success
            (episode,), the outcomes of the Cheap rollouts.
        cost
            What calls cost.
        cheap_calls, never_calls
            (episode, handoff) and (episode,); one call a step by default.
        played
            (episode, handoff), 0 where a handoff was not played and may not be looked up; by default all were.
        """
        arrays = {"success": success, "strong_calls": strong_calls, "never_success": never_success}
        arrays |= {} if played is None else {"played": played}
        values = {name: counterfactual_files.as_floats(name, given) for name, given in arrays.items()}
        inside = ~np.isnan(np.atleast_2d(values["success"]))
        values["cheap_calls"] = counterfactual_files.as_floats(
            "cheap_calls", np.where(inside, np.arange(inside.shape[1]), np.nan) if cheap_calls is None else cheap_calls
        )
        values["never_calls"] = counterfactual_files.as_floats(
            "never_calls", inside.sum(axis=1) if never_calls is None else never_calls
        )
        return cls(counterfactual_files.with_costs(counterfactual_files.assemble(episode, values), cost))

    @classmethod
    def from_restarts(
        cls,
        episodes: Episodes,
        *,
        strong_steps: str | npt.ArrayLike | None = None,
        cost: CostModel | LoggedCost | TokenCost,
    ) -> Counterfactuals:
        """Make the table from paired rollouts alone, for handoffs that restart the task with Strong.

        Where the environment can be reset, a handoff after t Cheap steps ends as Strong's own rollout did, and costs
        those t steps and the whole of that rollout. Nothing is assumed, but that Strong does as it did in the log.

        After the last Cheap step there is no handoff here either: that rollout has ended, and whether its result is
        kept is another question, asked once, of a finished episode. `bayes_tacit.policies.Cascade` asks it.

        Parameters
        ----------
        episodes
            Both rollouts of each task.
        strong_steps
            (episode,), how many steps Strong's rollout has, or the name of a variable that the episodes carry. With
            `LoggedCost` it may be left out; a Strong rollout then counts as one call.
        cost
            What calls cost; `LoggedCost`: what the rollouts did cost; or `TokenCost`: the prices of their tokens.

        Examples
        --------
        >>> from bayes_tacit import StepCost, load_example
        >>> episodes = load_example()
        >>> table = Counterfactuals.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(1, 3))
        >>> table.handoff, int(episodes.n_steps[0])
        ('restart', 10)
        >>> table.table()[1, 0, [0, 1, 2, -1]]                  # cost of handing off at steps 0, 1, 2, and never
        array([30., 31., 32., 10.])
        """
        return cls(from_pairs(episodes, strong_steps, cost).assign_attrs(handoff="restart"))

    @classmethod
    def from_frame(cls, table: pd.DataFrame, *, cost: CostModel | None = None) -> Counterfactuals:
        """Make the table from one row for each episode and handoff.

        Parameters
        ----------
        table
            Columns `episode`, `handoff` (missing for the Cheap rollout, which each episode needs), `success`,
            `cheap_calls`, `strong_calls`, `cost` unless a model is given, and if wanted `proposal_cost` and `kind`,
            which is "restart" in all rows where handoffs restart the task.
        cost
            What calls cost.

        Examples
        --------
        >>> table = pd.DataFrame({
        ...     "episode": ["a", "a", "a"], "handoff": [0, 1, None], "success": [1, 1, 0],
        ...     "cheap_calls": [0, 1, 2], "strong_calls": [2, 2, 0], "cost": [6, 7, 2],
        ... })
        >>> Counterfactuals.from_frame(table)
        <Counterfactuals: 1 episode, handoffs at steps 0 to 1 or never; Pure Cheap 0.0%, Pure Strong 100.0%>
        """
        dataset = counterfactual_files.from_frame(table, with_cost=cost is None)
        return cls(dataset if cost is None else counterfactual_files.with_costs(dataset, cost))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, cost: CostModel | None = None) -> Counterfactuals:
        """Read a file: `.csv` or `.parquet` with the table of `from_frame`, or `.nc`.

        Parameters
        ----------
        path
            The file.
        cost
            What calls cost, for a table without a column `cost`. Where the file says costs, those count.
        """
        content = counterfactual_files.read_counterfactuals(path)
        try:
            if isinstance(content, pd.DataFrame):
                return cls.from_frame(content, cost=None if "cost" in content else cost)
            return cls(content)
        except InvalidDataError as error:
            raise FileFormatError(f"{path}: {error}") from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file, by its suffix: `.csv`, `.parquet` or `.nc`. Reading it gives the same table, to the last bit.

        Only `.csv` does not say whether ids are numbers or text: ids that look like numbers come back as numbers.
        """
        counterfactual_files.write_counterfactuals(self._dataset, path)

    def to_frame(self) -> pd.DataFrame:
        """Return the table that `from_frame` takes: one row for each episode and handoff.

        Examples
        --------
        >>> from bayes_tacit.data.costs import StepCost
        >>> Counterfactuals.from_calls(
        ...     ["a"], success=[[1, 0]], strong_calls=[[2, 1]], never_success=[0], cost=StepCost(1, 3)
        ... ).to_frame()
          episode  handoff  success  cost  cheap_calls  strong_calls  proposal_cost
        0       a        0      1.0   6.0          0.0           2.0            1.0
        1       a        1      0.0   4.0          1.0           1.0            1.0
        2       a     <NA>      0.0   2.0          2.0           0.0            0.0
        """
        return counterfactual_files.to_frame(self._dataset)

    def with_cost(self, cost: CostModel) -> Counterfactuals:
        """Return the same outcomes at the costs that a model puts on their calls."""
        return Counterfactuals(counterfactual_files.with_costs(self._dataset, cost))

    def restarted(self, cost: CostModel | None = None) -> Counterfactuals:
        """Return what would come of the same handoffs if each restarted the task with Strong.

        A restart ends as the handoff at step 0 does, and costs the Cheap steps before it as well.

        Parameters
        ----------
        cost
            What calls cost; by default, a Cheap step costs what `proposal_cost` says of it.

        Examples
        --------
        >>> from bayes_tacit.data.costs import StepCost
        >>> resumed = Counterfactuals.from_calls(
        ...     ["a"], success=[[1, 0]], strong_calls=[[4, 1]], never_success=[0], cost=StepCost(1, 3)
        ... )
        >>> resumed.outcomes_at([1]).cost, resumed.restarted().outcomes_at([1]).cost
        (array([4.]), array([13.]))
        """
        if self.handoff == "restart":
            return self if cost is None else self.with_cost(cost)
        return Counterfactuals(restarted(self._dataset, cost).assign_attrs(handoff="restart"))

    @property
    def handoff(self) -> Handoff:
        """What a handoff does: "resume" or "restart"."""
        return cast("Handoff", self._dataset.attrs["handoff"])

    @property
    def dataset(self) -> xr.Dataset:
        """The table as an xarray dataset."""
        return self._dataset.copy()

    @property
    def ids(self) -> np.ndarray:
        """Ids by episode."""
        return self._dataset["episode"].values

    @property
    def n_steps(self) -> np.ndarray:
        """Number of steps of the Cheap rollout, by episode."""
        return self._n_steps.copy()

    @property
    def pure_cheap(self) -> Outcomes:
        """What comes of never handing off."""
        return self.outcomes_at(np.full(len(self), NEVER))

    @property
    def pure_strong(self) -> Outcomes:
        """What comes of having Strong act from the start."""
        return self.outcomes_at(np.zeros(len(self)))

    def outcomes_at(self, handoff: npt.ArrayLike, *, discards_proposal: bool = False) -> Outcomes:
        """Look up what comes of handing off at a step of each episode.

        Parameters
        ----------
        handoff
            (episode,), the step from which Strong acts; -1 or NaN for never. The number of steps of the Cheap rollout
            is the same as never: nothing is left to do.
        discards_proposal
            Whether Cheap was asked for the step of the handoff and its proposal discarded, as under the timing
            "proposal". That call is then counted, and charged by `proposal_cost`.
        """
        steps = as_steps("handoff", handoff)
        table = self.table(discards_proposal=discards_proposal)
        if steps.shape != (len(self),):
            raise InvalidDataError(f"({len(self)},), one for each episode", field="shape of handoff", value=steps.shape)
        late = steps > self._n_steps
        if late.any():
            first = int(late.argmax())
            raise InvalidDataError(
                f"at most {self._n_steps[first]}, the length of its Cheap rollout",
                episode=plain(self.ids[first]),
                field="handoff",
                value=int(steps[first]),
            )
        self.check_played(np.arange(len(self)), steps)
        # Never is -1, the last column.
        success, cost, cheap, strong = table[:, np.arange(len(self)), steps]
        return Outcomes(success=success, cost=cost, cheap_calls=cheap, strong_calls=strong)

    def check_played(self, episode: npt.ArrayLike, handoff: npt.ArrayLike) -> None:
        """Refuse to look up handoffs that nobody played.

        Parameters
        ----------
        episode
            Positions of episodes.
        handoff
            The step of each; -1 for never, which is always known.

        Raises
        ------
        InvalidDataError
            With the first episode and step that was not played.
        """
        if self._played is None:
            return
        rows, steps = np.broadcast_arrays(np.asarray(episode, dtype=int), np.asarray(handoff, dtype=int))
        inside = (steps >= 0) & (steps < self._n_steps[rows])
        missing = inside & (self._played[rows, np.where(inside, steps, 0)] == 0)
        if missing.any():
            first = int(missing.argmax())
            raise InvalidDataError(
                "one that was played: play it, or choose among those that were",
                episode=plain(self.ids[rows[first]]),
                field="handoff",
                value=int(steps[first]),
            )

    def table(self, *, discards_proposal: bool = False) -> np.ndarray:
        """Return everything in one array: (variable, episode, handoff).

        The variables are success, cost, Cheap's and Strong's calls. A handoff past the end of a rollout, and the extra
        one at the end, are Pure Cheap. What comes of a handoff that nobody played is NaN. `discards_proposal` is as for
        `outcomes_at`.
        """
        if not discards_proposal:
            return self._table
        if self._proposal_table is None:
            raise InvalidDataError(
                "a variable 'proposal_cost', what the discarded Cheap call costs, or with_cost(StepCost(...))",
                field="variables of the counterfactuals",
                value=list(self._dataset.data_vars),
            )
        return self._proposal_table

    def select(self, ids: Iterable[object]) -> Counterfactuals:
        """Return the episodes with these ids, in this order."""
        positions = dict(zip(self.ids.tolist(), range(len(self)), strict=True))
        wanted = [plain(one) for one in as_list(ids, "ids", "a list of ids")]
        unknown = next((one for one in wanted if one not in positions), None)
        if unknown is not None:
            expected = f"an id of these {len(self)} episodes"
            raise InvalidDataError(expected, episode=unknown, field="episode", value=unknown)
        return Counterfactuals(self._dataset.isel(episode=[positions[one] for one in wanted]))

    def match(self, episodes: Episodes) -> Counterfactuals:
        """Return the table for these episodes, in their order, if it was made from their Cheap rollouts.

        A handoff at step 0 should be the Strong rollout of the episode; where it ends differently, as when Strong was
        run again, a warning says so.
        """
        out = self.select(episodes.ids)
        cheap = episodes.require_pairs("a table of counterfactuals").dataset["cheap_success"].values.astype(float)
        for field, ours, theirs in (
            ("n_steps", out.n_steps, episodes.n_steps),
            ("never_success", out.dataset["never_success"].values, cheap),
        ):
            differs = ours != theirs
            if differs.any():
                first = int(differs.argmax())
                expected = f"{plain(theirs[first])}, as in the episodes: both are about the same Cheap rollout"
                value: Any = plain(ours[first])
                raise InvalidDataError(expected, episode=plain(out.ids[first]), field=field, value=value)
        differs = out.table()[0, :, 0] != episodes.dataset["strong_success"].values
        if differs.any():
            told = f"{int(differs.sum())} of {len(out)}, first {plain(out.ids[differs.argmax()])!r}"
            message = f"a handoff at step 0 does not end as the episode's Strong rollout did ({told})"
            warnings.warn(message, TacitWarning, stacklevel=2)
        return out

    def __len__(self) -> int:
        return self._dataset.sizes["episode"]

    def __repr__(self) -> str:
        cheap, strong = (outcomes.success.mean() for outcomes in (self.pure_cheap, self.pure_strong))
        count = f"{len(self)} episode{'s' if len(self) > 1 else ''}"
        kind = "restarts" if self.handoff == "restart" else "handoffs"
        steps = f"{kind} at steps 0 to {self._dataset.sizes['handoff'] - 1} or never"
        return f"<Counterfactuals: {count}, {steps}; Pure Cheap {cheap:.1%}, Pure Strong {strong:.1%}>"


BY_STEP = ("episode", "step")
BY_ROLLOUT = ("episode",)


def from_pairs(
    episodes: Episodes, strong_steps: str | npt.ArrayLike | None, cost: CostModel | LoggedCost | TokenCost
) -> xr.Dataset:
    """Make the table of all restarts; see `Counterfactuals.from_restarts`."""
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes", field="episodes", value=episodes)
    episodes.require_pairs("the table of restarts")
    if isinstance(cost, TokenCost):
        cost = cost.logged(episodes.dataset)
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
    """Return what was carried under a name, or an array: (episode,) or (episode, step), NaN past the end."""
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
