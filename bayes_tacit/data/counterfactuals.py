"""Counterfactuals: what would have come of handing off at each step, so that any permanent handoff is a look-up.

What comes of restarting a task with Strong, paired rollouts say exactly. Files are tables (`.csv`, `.parquet`) or the
dataset (`.nc`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import CostModel, LoggedCost, Outcomes, TokenCost, cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.formats import check_netcdf, write_netcdf
from bayes_tacit.data.layout import MISSING, as_ids, as_list, carried_variables, plain, refuse
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, NEVER, Handoff, as_steps
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitWarning
from bayes_tacit.files import as_path, atomic_path, regular_file

BY_HANDOFF = ("success", "cost", "cheap_calls", "strong_calls")
OPTIONAL = ("proposal_cost", "played")
BY_EPISODE = ("never_success", "never_cost", "never_calls")
KIND = "kind"
"""The column of a table that says what kind of handoff it is about; a dataset says it in its attribute `handoff`."""


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

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = _conform(dataset)
        self._n_steps = _n_steps(self._dataset)
        self._table, self._proposal_table = _lookup_tables(self._dataset)
        for table in (self._table, self._proposal_table):
            if table is not None:
                table.flags.writeable = False

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
        inside = ~np.isnan(np.atleast_2d(_floats("success", success)))
        if cheap_calls is None:
            cheap_calls = np.where(inside, np.arange(inside.shape[1]), np.nan)
        arrays = {"success": success, "strong_calls": strong_calls, "never_success": never_success}
        arrays |= {
            "cheap_calls": cheap_calls,
            "never_calls": inside.sum(axis=1) if never_calls is None else never_calls,
        }
        arrays |= {} if played is None else {"played": played}
        values = {name: _floats(name, given) for name, given in arrays.items()}
        return cls(_with_costs(_assemble(episode, values), cost))

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
        return cls(_from_pairs(episodes, strong_steps, cost).assign_attrs(handoff="restart"))

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

        """
        dataset = _from_frame(table, with_cost=cost is None)
        return cls(dataset if cost is None else _with_costs(dataset, cost))

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
        file, (name, reads, _) = as_path(path), _form(path)
        regular_file(file, f"counterfactuals, {', '.join(FORMS)}")
        try:
            content = reads(file)
        except Exception as error:
            first = repr(str(error).strip().partition("\n")[0])[1:-1]
            raise FileFormatError(f"{file}: cannot be read as {name} ({first})") from error
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
        _, _, writes = _form(path)
        with atomic_path(as_path(path)) as temporary:
            writes(self, temporary)

    def to_frame(self) -> pd.DataFrame:
        """Return the table that `from_frame` takes: one row for each episode and handoff."""
        data = self._dataset
        ids = data["episode"].values
        episode, handoff = np.nonzero(~np.isnan(data["success"].values))
        names = [*BY_HANDOFF, *(name for name in OPTIONAL if name in data)]
        never = dict(zip(("success", "cost", "cheap_calls"), BY_EPISODE, strict=True))
        columns = {}
        for name in names:
            of_cheap = data[never[name]].values if name in never else np.zeros(len(ids))
            columns[name] = np.concatenate([data[name].values[episode, handoff], of_cheap])
        position = np.concatenate([episode, np.arange(len(ids))])
        step = pd.array(np.concatenate([handoff, np.full(len(ids), -1)]), dtype="Int64")
        step[len(handoff) :] = pd.NA
        table = pd.DataFrame({"episode": ids[position], "handoff": step, **columns})
        if data.attrs["handoff"] != DEFAULT_HANDOFF:
            table[KIND] = data.attrs["handoff"]
        return table.iloc[np.argsort(position, kind="stable")].reset_index(drop=True)

    def with_cost(self, cost: CostModel) -> Counterfactuals:
        """Return the same outcomes at the costs that a model puts on their calls."""
        return Counterfactuals(_with_costs(self._dataset, cost))

    def restarted(self, cost: CostModel | None = None) -> Counterfactuals:
        """Return what would come of the same handoffs if each restarted the task with Strong.

        A restart ends as the handoff at step 0 does, and costs the Cheap steps before it as well.

        Parameters
        ----------
        cost
            What calls cost; by default, a Cheap step costs what `proposal_cost` says of it.

        """
        if self.handoff == "restart":
            return self if cost is None else self.with_cost(cost)
        return Counterfactuals(_restarted(self._dataset, cost).assign_attrs(handoff="restart"))

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
        most = "at most {}, the length of its Cheap rollout"
        refuse(steps > self._n_steps, lambda at: most.format(self._n_steps[at]), "handoff", self.ids, steps)
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
        if "played" not in self._dataset:
            return
        rows, steps = np.broadcast_arrays(np.asarray(episode, dtype=int), np.asarray(handoff, dtype=int))
        inside = (steps >= 0) & (steps < self._n_steps[rows])
        missing = inside & (self._dataset["played"].values[rows, np.where(inside, steps, 0)] == 0)
        expected = "one that was played: play it, or choose among those that were"
        refuse(missing.ravel(), expected, "handoff", self.ids[rows.ravel()], steps.ravel())

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
            first = plain(theirs[(ours != theirs).argmax()])
            expected = f"{first}, as in the episodes: both are about the same Cheap rollout"
            refuse(ours != theirs, expected, field, out.ids, ours)
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


def _conform(dataset: xr.Dataset) -> xr.Dataset:
    """Bring a dataset into the layout that `Counterfactuals` describes, or say what keeps it from that."""
    if not isinstance(dataset, xr.Dataset):
        raise InvalidDataError("an xarray.Dataset", field="dataset", value=dataset)
    values = {}
    for name in (*BY_HANDOFF, *BY_EPISODE, *(name for name in OPTIONAL if name in dataset.data_vars)):
        dims = ("episode",) if name in BY_EPISODE else ("episode", "handoff")
        if name not in dataset.data_vars:
            raise InvalidDataError(f"a variable with dims {dims}", field=name, value=MISSING)
        if set(dataset[name].dims) != set(dims):
            raise InvalidDataError(f"dims {dims}", field=f"dims of {name}", value=dataset[name].dims)
        values[name] = _floats(name, dataset[name].transpose(*dims).values)
    if "episode" not in dataset.coords:
        raise InvalidDataError("a coordinate with the episodes' ids", field="episode", value=MISSING)
    steps = np.arange(dataset.sizes["handoff"])
    if "handoff" in dataset.coords and not np.array_equal(dataset["handoff"].values, steps):
        raise InvalidDataError("0, 1, 2, ... in order", field="handoff", value=dataset["handoff"].values.tolist())
    out = _assemble(dataset["episode"].values, values)
    out.attrs["handoff"] = validate.choice("handoff", dataset.attrs.get("handoff", DEFAULT_HANDOFF), HANDOFFS)
    _validate(out)
    out = out.isel(handoff=slice(int(_n_steps(out).max()))).copy(deep=True)
    for variable in out.variables.values():
        variable.values.flags.writeable = False
    return out


def _assemble(episode: npt.ArrayLike, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Put arrays that are in order into a dataset with coordinates."""
    ids = as_ids(np.asarray(episode))
    if ids.ndim != 1 or not ids.size:
        raise InvalidDataError("a list of at least one id", field="episode", value=episode)
    horizon = np.shape(values["success"])[-1] if np.ndim(values["success"]) else 0
    for name, array in values.items():
        shape = (len(ids),) if name in BY_EPISODE else (len(ids), horizon)
        if array.shape != shape:
            raise InvalidDataError(f"{shape}", field=f"shape of {name}", value=array.shape)
    variables = {name: (("episode", "handoff")[: array.ndim], array) for name, array in values.items()}
    return xr.Dataset(variables, coords={"episode": ids, "handoff": np.arange(horizon)})


def _with_costs(dataset: xr.Dataset, cost: CostModel) -> xr.Dataset:
    """Put the costs of its calls into a dataset, and those of one more Cheap call as `proposal_cost`."""
    cheap, strong, never = (dataset[name].values for name in ("cheap_calls", "strong_calls", "never_calls"))
    total = cost_of_calls(cost, cheap, strong)
    costs = {"cost": total, "proposal_cost": cost_of_calls(cost, cheap + 1, strong) - total}
    return dataset.assign(
        {
            **{name: (("episode", "handoff"), array) for name, array in costs.items()},
            "never_cost": ("episode", cost_of_calls(cost, never, 0)),
        }
    )


def _n_steps(dataset: xr.Dataset) -> np.ndarray:
    """Return the length of each Cheap rollout: how many handoffs can come before its end."""
    return np.count_nonzero(~np.isnan(dataset["success"].values), axis=1)


def _lookup_tables(dataset: xr.Dataset) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the values (variable, episode, handoff), without and with a discarded proposal at each handoff.

    Past the end of a rollout, and in an extra last column, the values are those of Pure Cheap. What comes of a handoff
    that nobody played is NaN.
    """
    n, horizon = dataset["success"].shape
    never = np.stack([*(dataset[name].values for name in BY_EPISODE), np.zeros(n)])
    table = np.repeat(never[:, :, None], horizon + 1, axis=2)
    inside = ~np.isnan(dataset["success"].values)
    for row, name in enumerate(BY_HANDOFF):
        table[row, :, :horizon][inside] = dataset[name].values[inside]
    if "played" in dataset:
        # How many calls Cheap has made by then is known all the same.
        unknown = [BY_HANDOFF.index(name) for name in ("success", "cost", "strong_calls")]
        table[unknown, :, :horizon] = np.where(dataset["played"].values == 0, np.nan, table[unknown, :, :horizon])
    if "proposal_cost" not in dataset:
        return table, None
    with_proposal = table.copy()
    with_proposal[BY_HANDOFF.index("cost"), :, :horizon][inside] += dataset["proposal_cost"].values[inside]
    with_proposal[BY_HANDOFF.index("cheap_calls"), :, :horizon][inside] += 1
    return table, with_proposal


def _from_frame(table: pd.DataFrame, *, with_cost: bool) -> xr.Dataset:
    """Turn one row for each episode and handoff into a dataset."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidDataError("a pandas.DataFrame", field="table", value=table)
    columns = [name for name in BY_HANDOFF if with_cost or name != "cost"]
    columns += [name for name in OPTIONAL if name in table.columns and (with_cost or name != "proposal_cost")]
    for name in ("episode", "handoff", *columns):
        if name not in table.columns:
            raise InvalidDataError(f"a column {name!r}", field="columns of the table", value=list(table.columns))
    row, index = pd.factorize(table["episode"], use_na_sentinel=False)
    ids = as_ids(index.to_numpy())
    handoff = _floats("handoff", table["handoff"])
    never = np.isnan(handoff)
    _check_rows(ids, row, handoff, never)
    shape = (len(ids), int(handoff[~never].max()) + 1)
    values: dict[str, np.ndarray] = {}
    for name in columns:
        given = _floats(name, table[name])
        values[name] = np.full(shape, np.nan)
        values[name][row[~never], handoff[~never].astype(int)] = given[~never]
        if name in ("success", "cost", "cheap_calls"):
            of_cheap = values[f"never_{'calls' if name == 'cheap_calls' else name}"] = np.full(len(ids), np.nan)
            of_cheap[row[never]] = given[never]
    kinds = table[KIND].unique().tolist() if KIND in table.columns else [DEFAULT_HANDOFF]
    if len(kinds) > 1:
        raise InvalidDataError("one of them in all rows", field=f"column {KIND!r}", value=kinds)
    return _assemble(ids, values).assign_attrs(handoff=kinds[0])


def _floats(name: str, values: npt.ArrayLike | pd.Series[Any]) -> np.ndarray:
    """Return numbers as float64, NaN where one is missing."""
    try:
        if isinstance(values, pd.Series):
            return values.to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        shown = values.tolist() if isinstance(values, pd.Series) else values
        raise InvalidDataError("numbers", field=name, value=shown) from None


def _check_rows(ids: np.ndarray, row: np.ndarray, handoff: np.ndarray, never: np.ndarray) -> None:
    # A table of every handoff up to the last is what is made of the rows.
    whole = (handoff >= 0) & (handoff == np.floor(handoff)) & (handoff < len(handoff))
    expected = "a whole number >= 0 and below the number of rows, or missing for the Cheap rollout"
    refuse(~never & ~whole, expected, "handoff", ids[row], handoff)
    repeated = pd.DataFrame({"row": row, "handoff": handoff}).duplicated().to_numpy()
    if repeated.any():
        at = int(repeated.argmax())
        value = MISSING if never[at] else int(handoff[at])
        raise InvalidDataError("one row each", episode=plain(ids[row[at]]), field="handoff", value=value)
    if never.all():
        raise InvalidDataError("rows with a handoff step", field="handoff", value=MISSING)
    without = np.bincount(row[never], minlength=len(ids)) == 0
    steps = handoff[row == without.argmax()]
    expected = "also a row whose handoff is missing, for the Cheap rollout"
    refuse(without, expected, "handoff in its rows", ids, [int(step) for step in steps if step == step])


def _validate(dataset: xr.Dataset) -> None:
    ids = dataset["episode"].values
    repeated = pd.Index(ids).duplicated()
    refuse(repeated, "ids that do not repeat", "episode", ids, ids)
    inside = np.arange(dataset.sizes["handoff"]) < np.maximum(_n_steps(dataset), 1)[:, None]
    for name, array in dataset.data_vars.items():
        values, field = array.values, str(name)
        flag = field.endswith("success") or name == "played"
        fine = np.isin(values, (0, 1)) if flag else np.isfinite(values) & (values >= 0)
        expected = "0 or 1" if flag else "a finite number >= 0"
        if name in BY_EPISODE:
            refuse(~fine, expected, field, ids, values)
            continue
        refuse(inside & ~fine, f"{expected}; only past the Cheap rollout is it NaN", field, ids, values, "handoff")
        past = "NaN, past the end of its Cheap rollout"
        refuse(~inside & ~np.isnan(values), past, field, ids, values, "handoff")
    calls = dataset["cheap_calls"].values
    none = "0: a handoff at step 0 is Pure Strong (a discarded proposal is charged when outcomes are looked up)"
    refuse(calls[:, :1] != 0, none, "cheap_calls", ids, calls, "handoff")


def _from_pairs(
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
        calls = _of_log(episodes, "strong_steps", strong_steps, inside, above=0)
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
        return _with_costs(_assemble(episodes.ids, values), cost)
    return _assemble(episodes.ids, values | _logged_costs(episodes, cost, inside))


def _restarted(dataset: xr.Dataset, cost: CostModel | None) -> xr.Dataset:
    """Make the table of restarts from one of resumed handoffs; see `Counterfactuals.restarted`."""
    inside = ~np.isnan(dataset["success"].values)
    same = {name: dataset[name].values for name in ("cheap_calls", "never_success", "never_calls")}
    anew = {name: _spread(dataset[name].values[:, 0], inside) for name in ("success", "strong_calls")}
    table = _assemble(dataset["episode"].values, {**same, **anew})
    if cost is not None:
        return _with_costs(table, cost)
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
    strong = _of_log(episodes, "cost of Strong's rollouts", cost.strong, inside)
    if strong.ndim != 1:
        raise InvalidDataError("(episode,), one for each", field="shape of the cost of Strong", value=strong.shape)
    cheap = _of_log(episodes, "cost of Cheap's steps or rollouts", cost.cheap, inside)
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


def _of_log(
    episodes: Episodes, what: str, given: str | npt.ArrayLike, inside: np.ndarray, above: float | None = None
) -> np.ndarray:
    """Return what was carried under a name, or an array: (episode,) or (episode, step), NaN past the end."""
    field = what
    if isinstance(given, str):
        field, carried = given, carried_variables(episodes.dataset)
        if given not in carried:
            expected = f"a carried variable with {what}; there are {list(carried)}"
            raise InvalidDataError(expected, field="carried variable", value=given)
        dims = episodes.dataset[given].dims
        if dims not in (("episode",), ("episode", "step")):
            raise InvalidDataError("('episode',) or ('episode', 'step')", field=f"dims of {given}", value=dims)
        given = episodes.dataset[given].values
    values = _floats(field, given)
    if values.shape not in ((len(episodes),), inside.shape):
        expected = f"({len(episodes)},), one for each episode, or {inside.shape}, one for each step"
        raise InvalidDataError(expected, field=f"shape of {field}", value=values.shape)
    values = values if values.ndim == 1 else np.where(inside, values, np.nan)
    wrong = ~np.isfinite(values) | (values < 0 if above is None else values <= above)
    wrong &= inside if values.ndim == 2 else True
    expected = "a finite number >= 0" if above is None else f"a finite number above {above:g}"
    refuse(wrong, expected, field, episodes.ids, values)
    return values


def _read_dataset(file: Path) -> xr.Dataset:
    check_netcdf(file)
    with xr.open_dataset(file, engine="h5netcdf") as dataset:
        return dataset.load()


Form = tuple[str, Callable[[Path], "pd.DataFrame | xr.Dataset"], Callable[[Counterfactuals, Path], object]]
FORMS: Mapping[str, Form] = {
    ".csv": (
        "comma-separated values",
        lambda file: pd.read_csv(file, float_precision="round_trip"),
        lambda table, file: table.to_frame().to_csv(file, index=False),
    ),
    ".parquet": ("Parquet", pd.read_parquet, lambda table, file: table.to_frame().to_parquet(file, index=False)),
    ".nc": ("netCDF", _read_dataset, lambda table, file: write_netcdf(table.dataset, file)),
}
"""By suffix: the name of a format, what reads it and what writes it."""


def _form(path: object) -> Form:
    file = as_path(path)
    if file.suffix not in FORMS:
        raise FileFormatError(f"{file}: suffix is {file.suffix!r}; expected {', '.join(FORMS)}")
    return FORMS[file.suffix]
