"""Counterfactuals: what would have come of handing off at each step, so that any permanent handoff is a look-up."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit.data.costs import CostModel, LoggedCost
from bayes_tacit.data.counterfactuals import layout, restarts, storage
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.episodes.conversions import as_list, plain
from bayes_tacit.data.handoffs import Handoff
from bayes_tacit.data.outcomes import Outcomes
from bayes_tacit.data.timing import NEVER, as_steps
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
        self._dataset = layout.conform(dataset)
        self._n_steps = layout.n_steps(self._dataset)
        self._table, self._proposal_table = layout.lookup_tables(self._dataset)
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
        values = {name: layout.as_floats(name, given) for name, given in arrays.items()}
        inside = ~np.isnan(np.atleast_2d(values["success"]))
        values["cheap_calls"] = layout.as_floats(
            "cheap_calls", np.where(inside, np.arange(inside.shape[1]), np.nan) if cheap_calls is None else cheap_calls
        )
        values["never_calls"] = layout.as_floats(
            "never_calls", inside.sum(axis=1) if never_calls is None else never_calls
        )
        return cls(layout.with_costs(layout.assemble(episode, values), cost))

    @classmethod
    def from_restarts(
        cls,
        episodes: Episodes,
        *,
        strong_steps: str | npt.ArrayLike | None = None,
        cost: CostModel | LoggedCost,
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
            What calls cost, or `LoggedCost`: what the rollouts did cost, in tokens or money.

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
        return cls(restarts.from_pairs(episodes, strong_steps, cost).assign_attrs(handoff="restart"))

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
        dataset = layout.from_frame(table, with_cost=cost is None)
        return cls(dataset if cost is None else layout.with_costs(dataset, cost))

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
        content = storage.read(path)
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
        storage.write(self._dataset, path)

    def to_frame(self) -> pd.DataFrame:
        """Give the table that `from_frame` takes: one row for each episode and handoff.

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
        return storage.to_frame(self._dataset)

    def with_cost(self, cost: CostModel) -> Counterfactuals:
        """Give the same outcomes at the costs that a model puts on their calls."""
        return Counterfactuals(layout.with_costs(self._dataset, cost))

    def restarted(self, cost: CostModel | None = None) -> Counterfactuals:
        """Give what would come of the same handoffs if each restarted the task with Strong.

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
        return Counterfactuals(restarts.restarted(self._dataset, cost).assign_attrs(handoff="restart"))

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
        """Give everything in one array: (variable, episode, handoff).

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
        cheap = episodes.dataset["cheap_success"].values.astype(float)
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
