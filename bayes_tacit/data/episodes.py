"""Episodes: the one container that logs are read into and estimators take; its splits, digest and example set."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import as_file, files
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data import formats
from bayes_tacit.data.frames import dataset_from_frames, frames_from_dataset
from bayes_tacit.data.layout import (
    DIMS,
    MISSING,
    SIDES,
    VARIABLES,
    Array,
    as_list,
    blocks,
    carried_variables,
    cheap_played,
    conform,
    freeze,
    is_lazy,
    plain,
    strong_counts,
    without_default_sides,
)
from bayes_tacit.data.validation import (
    ONE_SIDED,
    EpisodesSummary,
    check_episodes,
    describe_oddities,
    outcome_labels,
    summarize,
)
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.files import as_path
from bayes_tacit.validate import number, whole

if TYPE_CHECKING:
    from bayes_tacit.data.layout import Array

_PACKAGE = str(Path(__file__).parents[1])


class Episodes:
    """Rollouts of one set of tasks: features, diagnostics by step, outcomes and teacher windows.

    Most often both sides were played once on every task. A side may also not have been played, Strong may have been
    played several times, and Cheap too: then each of its rollouts is an episode, and a carried `task` says which belong
    together. What needs pairs refuses the others by name; `pairs` returns those that are.

    Every way to make one validates: what is wrong is refused with an `InvalidDataError` that names the episode, the
    field, the value and what was expected; what is merely unusual is a `TacitWarning`.

    Parameters
    ----------
    dataset
        Dims `episode`, `step`, `feature`, `diagnostic`, each with its coordinate (ids, 0 to H - 1, names, names), and
        the variables

        - `features` (episode, feature), finite; there may be none;
        - `diagnostics` (episode, step, diagnostic), finite and nonnegative; past `n_steps` they are never read;
        - `n_steps` (episode), how many checkpoints the Cheap rollout has;
        - `cheap_success`, `strong_success` (episode), the paired outcomes A and B, as booleans or 0 and 1; missing
          where that side was not played, and then `n_steps` is 0 without Cheap;
        - `strong_successes`, `strong_trials` (episode), in place of `strong_success` if Strong was played more often;
        - `window_start`, `window_end` (episode), the teacher's range of checkpoints, counted from 0 with both ends
          included, NaN where there is none. Only episodes with AB = 01 can have one.

        Any other variable is carried along: kept, selected and written with the rest, but not interpreted. Its dtype
        becomes float64, int64, bool or text. NumPy or Dask may back the arrays; those in memory are copied, so that
        changing the dataset later does not change the episodes.

    See Also
    --------
    Episodes.from_frames : from a table of tasks and a table of steps.
    Episodes.read : from JSON Lines, Parquet, netCDF or Zarr.

    Examples
    --------
    >>> tasks = pd.DataFrame({
    ...     "episode": ["a", "b", "c"], "cheap_success": [0, 0, 1], "strong_success": [1, 0, 1],
    ...     "window_start": [1, None, None], "window_end": [1, None, None], "entities": [12, 7, 3],
    ... })
    >>> steps = pd.DataFrame({
    ...     "episode": ["a", "a", "b", "c"], "step": [0, 1, 0, 0], "repeat": [0, 1, 1, 0], "invalid": [0, 0, 2, 1],
    ... })
    >>> episodes = Episodes.from_frames(tasks, steps)
    >>> episodes
    <Episodes: 3 episodes of up to 2 steps>
      features (1):    entities
      diagnostics (2): repeat, invalid
      outcomes AB:     00: 1, 01: 1 (1 with a window), 10: 0, 11: 1
    >>> episodes.select(["c", "a"]).outcomes.tolist()
    ['11', '01']
    """

    __slots__ = ("_dataset", "_notes")

    _dataset: xr.Dataset
    _notes: tuple[str, ...] | None

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = freeze(conform(dataset))
        self._notes = check_episodes(self._dataset)
        for note in self._notes:
            warnings.warn(note, TacitWarning, skip_file_prefixes=(_PACKAGE,))

    @classmethod
    def from_frames(
        cls,
        tasks: pd.DataFrame,
        steps: pd.DataFrame,
        *,
        features: Iterable[str] | None = None,
        diagnostics: Iterable[str] | None = None,
    ) -> Episodes:
        """Make episodes from a table with one row a task and a table with one row a step.

        Parameters
        ----------
        tasks
            Columns `episode`, `cheap_success`, `strong_success` (missing where a side was not played; a task without
            Cheap has no steps), and if there are windows `window_start` and `window_end` (missing where there is none).
            `strong_successes` and `strong_trials` may stand for `strong_success`. Every other column is a feature,
            unless `features` is given.
        steps
            Columns `episode` and `step`, which counts from 0 without gaps. Every other column is a diagnostic, unless
            `diagnostics` is given. The order of the rows does not matter.
        features, diagnostics
            The columns that are features, or diagnostics, in the order wanted. The other columns are carried along.
        """
        return cls(dataset_from_frames(tasks, steps, features, diagnostics))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, chunks: Mapping[str, int] | None = None) -> Episodes:
        """Read episodes from `.jsonl`, `.parquet` (a folder of two), `.nc` or `.zarr`.

        Parameters
        ----------
        path
            The file or folder; its suffix says the format.
        chunks
            For `.parquet`, `.nc` and `.zarr`, such as `{"episode": 1000}`: leave the arrays on disk and have Dask read
            them in chunks of this size when needed. Ten million episodes are fitted and scored so in bounded memory.

        Raises
        ------
        FileFormatError
            If the file is not what its suffix says, is cut short, or was written by a newer version.
        InvalidDataError
            If the file is well formed but its content is not.
        """
        file, sizes = as_path(path), formats.as_chunks(chunks)
        with formats.reading(file):
            return cls(formats.read(file, sizes))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the episodes to `.jsonl`, `.parquet` (a folder of two), `.nc` or `.zarr`; the suffix says which.

        An existing file or folder of the same format is replaced, in one step: it is never left half-written. Ids,
        names, order and every value come back from `Episodes.read` as they are. Attributes of the dataset are kept by
        `.nc` and `.zarr` only.
        """
        formats.write(self._dataset, as_path(path))

    @property
    def dataset(self) -> xr.Dataset:
        """The episodes as an xarray dataset.

        Its arrays cannot be written into, and variables that are put into it do not get into the episodes: to change
        something, take `dataset.copy(deep=True)` and make new episodes from it.
        """
        return self._dataset.copy()

    @property
    def ids(self) -> Array:
        """Ids by episode, as text or int64."""
        return self._dataset["episode"].values

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(self._dataset["feature"].values.tolist())

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        """Names of the diagnostics, in order."""
        return tuple(self._dataset["diagnostic"].values.tolist())

    @property
    def horizon(self) -> int:
        """Number of steps of the longest episode."""
        return self._dataset.sizes["step"]

    @property
    def n_steps(self) -> Array:
        """Number of steps by episode."""
        return self._dataset["n_steps"].values

    @property
    def outcomes(self) -> Array:
        """Paired outcomes by episode, "00", "01", "10" or "11": Cheap's success, then Strong's; "-" if not played."""
        return outcome_labels(self._dataset)

    @property
    def cheap_played(self) -> Array:
        """Whether there is a Cheap rollout, by episode."""
        return cheap_played(self._dataset)

    @property
    def strong_counts(self) -> tuple[Array, Array]:
        """How many of Strong's rollouts succeeded, and how many there are, by episode."""
        return strong_counts(self._dataset)

    def pairs(self) -> Episodes:
        """Return the episodes in which both sides were played."""
        return self.take(self.cheap_played & (self.strong_counts[1] > 0))

    def require_pairs(self, what: str) -> Episodes:
        """Return these episodes if both sides of each were played; otherwise refuse them, naming what needs pairs."""
        for name, there in (("cheap_success", self.cheap_played), ("strong_success", self.strong_counts[1] > 0)):
            if not there.all():
                expected = (
                    f"both sides of every task, which {what} needs; Episodes.pairs() returns those that have them"
                )
                first = plain(self.ids[there.argmin()])
                raise InvalidDataError(expected, episode=first, field=name, value=MISSING)
        return self

    @property
    def has_window(self) -> Array:
        """Whether an episode has a teacher window, by episode."""
        return ~np.isnan(self._dataset["window_start"].values)

    def take(self, indexer: slice | int | Sequence[int] | Array) -> Episodes:
        """Return the episodes at some positions: a slice, whole numbers in any order, or a boolean by episode."""
        try:
            chosen = np.arange(len(self))[indexer if isinstance(indexer, slice) else _positions(indexer)]
        except (IndexError, TypeError, ValueError):
            expected = f"positions of {len(self)} episodes, or a boolean for each"
            raise InvalidDataError(expected, field="indexer", value=indexer) from None
        return self._at(chosen)

    def select(self, ids: Iterable[object]) -> Episodes:
        """Return the episodes with these ids, in this order."""
        return self._at(self._locate(ids))

    def split(
        self,
        parts: Mapping[str, float | Iterable[object]],
        *,
        by: str | None = None,
        stratify: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> dict[str, Episodes]:
        """Split into named parts that share no episode.

        Parameters
        ----------
        parts
            The share of the episodes for each part, such as `{"train": 0.7, "test": 0.3}`, or the ids of each part.
            Shares sum to at most 1; sizes are rounded by largest remainder.
        by
            A feature or carried variable; episodes with the same value stay in the same part.
        stratify
            Meet the shares within each paired outcome AB.
        seed
            Decides who goes where; the same seed gives the same split.

        Returns
        -------
        dict
            Episodes of each part: in the order given for ids, in their present order for shares. No part is empty.
        """
        groups = None if by is None else self._grouping(by)
        if not isinstance(parts, Mapping) or not parts:
            raise InvalidDataError("shares or ids by the name of a part", field="parts", value=parts)
        if stratify and groups is not None:
            raise InvalidDataError("either by or stratify, not both", field="by", value=by)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(whole("seed", seed, 0))
        shares: dict[str, Any] = {name: part for name, part in parts.items() if isinstance(part, Real)}
        if len(shares) == len(parts):
            strata = self.outcomes if stratify else None
            chosen = split_by_fraction(shares, len(self), rng, groups=groups, strata=strata)
        else:
            chosen = {name: self._locate(ids) for name, ids in parts.items()}
            check_disjoint(chosen, self.ids, self.ids, "episode")
            if groups is not None:
                check_disjoint(chosen, self.ids, groups, f"{by}")
        return {name: self._at(positions) for name, positions in chosen.items()}

    def load(self) -> Episodes:
        """Return the same episodes held in memory."""
        return self._of(self._dataset.compute(), self._notes)

    def to_frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return a table of tasks and a table of steps, as `from_frames` takes them."""
        return frames_from_dataset(self._dataset)

    def notes(self) -> list[str]:
        """Return what is unusual about these episodes, one sentence each."""
        if self._notes is None:
            self._notes = describe_oddities(self._dataset)
        return list(self._notes)

    def summary(self) -> EpisodesSummary:
        """Return counts of outcomes and windows, and moments of features and diagnostics."""
        return summarize(self._dataset, tuple(self.notes()))

    def identical(self, other: Episodes) -> bool:
        """Check whether ids, names, carried variables and every value are the same; a NaN is the same as a NaN."""
        return isinstance(other, Episodes) and self.fingerprint() == other.fingerprint()

    def fingerprint(self) -> str:
        """Return a SHA-256 of the content, the same for every file format and chunking."""
        return fingerprint(self._dataset)

    def __reduce__(self) -> tuple[object, ...]:
        return Episodes._of, (self._dataset, self._notes)

    def __len__(self) -> int:
        return self._dataset.sizes["episode"]

    def __repr__(self) -> str:
        title, rows = self._lines()
        width = max(len(label) for label, _ in rows) + 2
        return "\n".join([f"<{title}>", *(f"  {label + ':':<{width}}{text}" for label, text in rows)])

    def _repr_html_(self) -> str:
        from bayes_tacit.html import render

        title, rows = self._lines()
        return render("plain_table.html", header=[title, ""], rows=rows)

    def _lines(self) -> tuple[str, list[tuple[str, str]]]:
        counts = {outcome: int((self.outcomes == outcome).sum()) for outcome in ("00", "01", "10", "11")}
        timed = {"01": f" ({self.has_window.sum()} with a window)"} if counts["01"] else {}
        rows = [
            (f"features ({len(self.feature_names)})", _shortened(self.feature_names)),
            (f"diagnostics ({len(self.diagnostic_names)})", _shortened(self.diagnostic_names)),
            ("outcomes AB", ", ".join(f"{ab}: {count}{timed.get(ab, '')}" for ab, count in counts.items())),
        ]
        single = {ab: count for ab in ONE_SIDED if (count := int((self.outcomes == ab).sum()))}
        if single:
            rows.append(("one side only", ", ".join(f"{ab}: {count}" for ab, count in single.items())))
        carried = carried_variables(self._dataset)
        if carried:
            rows.append(("carried along", _shortened(carried)))
        lazy = ", read by Dask when needed" if is_lazy(self._dataset) else ""
        return f"Episodes: {len(self)} episodes of up to {self.horizon} steps{lazy}", rows

    @classmethod
    def _of(cls, dataset: xr.Dataset, notes: tuple[str, ...] | None = None) -> Episodes:
        """Wrap what is already known to be valid."""
        episodes = cls.__new__(cls)
        episodes._dataset = freeze(dataset)
        episodes._notes = notes
        return episodes

    def _at(self, positions: Array) -> Episodes:
        if not positions.size:
            raise InvalidDataError("at least one episode", field="selection", value=[])
        if np.unique(positions).size < positions.size:
            repeated = self.ids[positions[pd.Index(positions).duplicated().argmax()]]
            first = plain(repeated)
            raise InvalidDataError("each episode at most once", episode=first, field="selection", value=first)
        dataset = without_default_sides(self._dataset.isel(episode=positions))
        return self._of(dataset.isel(step=slice(int(dataset["n_steps"].max()))))

    def _locate(self, ids: object) -> Array:
        positions = dict(zip(self.ids.tolist(), range(len(self)), strict=True))
        found = []
        for wanted in as_list(ids, "ids", "a list of ids"):
            if isinstance(wanted, bool) or not isinstance(wanted, str | Real) or wanted not in positions:
                expected, value = f"an id of these {len(self)} episodes", plain(wanted)
                raise InvalidDataError(expected, episode=value, field="episode", value=value)
            found.append(positions[wanted])
        return np.array(found, dtype=np.int64)

    def _grouping(self, by: str) -> Array:
        if isinstance(by, str) and by in self.feature_names:
            return self._dataset["features"].sel(feature=by).values
        choices = [name for name in carried_variables(self._dataset) if self._dataset[name].dims == ("episode",)]
        if not isinstance(by, str) or by not in choices:
            raise InvalidDataError(f"one of {[*self.feature_names, *choices]}", field="by", value=by)
        return self._dataset[by].values


def _positions(indexer: Any) -> Array:  # noqa: ANN401  anything that NumPy takes as an index
    array = np.asarray(indexer)
    if array.ndim > 1 or (array.size and array.dtype.kind not in ("biu" if array.ndim else "iu")):
        raise IndexError
    return np.atleast_1d(array) if array.size else array.astype(np.int64)


def _shortened(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


_TOLERANCE = 1e-9


def split_by_fraction(
    fractions: Mapping[str, float],
    n: int,
    rng: np.random.Generator,
    *,
    groups: Array | None = None,
    strata: Array | None = None,
) -> dict[str, Array]:
    """Draw parts of the given sizes out of `n` episodes, without replacement."""
    shares = _check_fractions(fractions)
    if groups is not None:
        owner = _owners_by_group(shares, groups, rng)
    else:
        owner = np.full(n, len(shares))
        for members in _members(np.zeros(n, dtype=int) if strata is None else strata):
            sizes = largest_remainder(shares, len(members))
            labels = np.repeat(np.arange(len(shares)), sizes)
            owner[rng.permutation(members)[: len(labels)]] = labels
    parts = {name: np.flatnonzero(owner == part) for part, name in enumerate(fractions)}
    for name, positions in parts.items():
        if not positions.size:
            of_what = f"{n} episodes" if groups is None else f"{len(_members(groups))} groups"
            expected = f"a share of {of_what} that gives every part at least one"
            raise InvalidDataError(expected, field=f"part {name!r}", value=fractions[name])
    return parts


def largest_remainder(shares: Array, n: int) -> Array:
    """Round `shares * n` to whole numbers that add up, giving the units left over to the largest remainders."""
    quotas = shares * n
    sizes = np.floor(quotas + _TOLERANCE).astype(int)
    left = round(float(quotas.sum())) - int(sizes.sum())
    sizes[np.argsort(sizes - quotas, kind="stable")[: max(left, 0)]] += 1
    return sizes


def check_disjoint(parts: Mapping[str, Array], ids: Array, labels: Array, what: str) -> None:
    """Refuse parts that are empty, or that share a label; `what` says what the labels are."""
    owner: dict[int, str] = {}
    codes = pd.factorize(labels, use_na_sentinel=False)[0]
    for name, positions in parts.items():
        if not len(positions):
            raise InvalidDataError("at least one episode in every part", field=f"part {name!r}", value=[])
        for position in positions:
            first = owner.setdefault(int(codes[position]), name)
            if first != name:
                raise InvalidDataError(
                    f"parts that share no {what}",
                    episode=plain(ids[position]),
                    field=what,
                    value=plain(labels[position]),
                    where=f"in both {first!r} and {name!r}",
                )


def _check_fractions(fractions: Mapping[str, float]) -> Array:
    expected = "a share above 0 and at most 1"
    shares = np.array([number(f"part {name!r}", share, expected, above=0, most=1) for name, share in fractions.items()])
    if shares.sum() > 1 + _TOLERANCE:
        raise InvalidDataError("shares that sum to at most 1", field="sum of the shares", value=float(shares.sum()))
    return shares


def _members(labels: Array) -> list[Array]:
    codes, uniques = pd.factorize(labels, use_na_sentinel=False)
    return [np.flatnonzero(codes == code) for code in range(len(uniques))]


def _owners_by_group(shares: Array, groups: Array, rng: np.random.Generator) -> Array:
    """Hand out whole groups, large ones first and equal ones in random order, each to the part that lacks most."""
    members = _members(groups)
    targets = np.append(shares, max(0.0, 1.0 - float(shares.sum()))) * len(groups)
    owner = np.empty(len(groups), dtype=int)
    shuffled = rng.permutation(len(members))
    for group in sorted(shuffled, key=lambda group: -len(members[group])):
        part = int(targets.argmax())
        owner[members[group]] = part
        targets[part] -= len(members[group])
    return owner


def fingerprint(dataset: xr.Dataset) -> str:
    """Return the SHA-256 of ids, names and every value, as 64 hexadecimal digits.

    The order of episodes, features and diagnostics matters; the order of carried variables, attributes, chunks and
    the bits of a NaN do not.
    """
    digest = hashlib.sha256(b"bayes_tacit episodes 1")
    others = sorted(str(dim) for dim in dataset.dims if dim not in DIMS and dim in dataset.coords)
    sides = [name for name in SIDES if name in dataset]
    for name in (*DIMS, *VARIABLES, *sides, *sorted(carried_variables(dataset)), *others):
        array = dataset[name]
        digest.update(repr((name, array.dims, array.shape, array.dtype.kind)).encode())
        for part in _parts(dataset, name):
            digest.update(_bytes(part))
    return digest.hexdigest()


def _parts(dataset: xr.Dataset, name: str) -> Iterator[Array]:
    array = dataset[name]
    if array.dims[:1] != ("episode",):
        yield array.values
        return
    for block in blocks(dataset):
        yield array.isel(episode=block).values


def _bytes(values: Array) -> bytes:
    if values.dtype.kind == "O":
        encoded = [text.encode() for text in values.ravel().tolist()]
        return b"".join(len(text).to_bytes(8, "little") + text for text in encoded)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values)
    return np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def load_example() -> Episodes:
    """Load 1,200 simulated episodes of an agent with four diagnostics and three task features.

    The episodes come from the model itself, so the true parameters are known; the repository's
    `simulations/example.py` holds them and made the file.

    Examples
    --------
    >>> len(load_example())
    1200
    """
    with as_file(files("bayes_tacit.data") / "example.nc") as path, warnings.catch_warnings():
        # It holds AB = 01 episodes without a window on purpose: a user who did not choose the data need not be told.
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.read(path)
