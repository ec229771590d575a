"""What episodes must satisfy, and what is worth telling about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes.conversions import MISSING, Array, plain
from bayes_tacit.data.episodes.layout import blocks, carried_variables
from bayes_tacit.errors import InvalidDataError


def validate(dataset: xr.Dataset) -> tuple[str, ...]:
    """Refuse values that no episode can have; return notes about those that are merely unusual.

    Expects the layout of `bayes_tacit.data.episodes.layout`. Features and diagnostics are read block by block along
    `episode`, so that memory stays bounded for Dask-backed data.

    Raises
    ------
    InvalidDataError
        For a diagnostic that is negative, NaN or infinite within the rollout, a feature that is NaN or infinite, a
        window that is reversed, outside the rollout, half missing, fractional, or on an episode that is not AB = 01,
        and for a variable with the name of a feature or diagnostic.
    """
    _check_clashes(dataset)
    _check_windows(dataset)
    return _scan(dataset, check=True)


def describe_oddities(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the notes that `validate` returns, for episodes that are already known to be valid."""
    return _scan(dataset, check=False)


def _check_clashes(dataset: xr.Dataset) -> None:
    for dim, dims in (("feature", ("episode",)), ("diagnostic", ("episode", "step"))):
        carried = {name for name in carried_variables(dataset) if dataset[name].dims == dims}
        for name in dataset[dim].values:
            if name in carried:
                raise InvalidDataError("a name that no carried variable has", field=f"{dim} name", value=name)


def _check_windows(dataset: xr.Dataset) -> None:
    start, end = dataset["window_start"].values, dataset["window_end"].values
    cheap, strong = dataset["cheap_success"].values, dataset["strong_success"].values
    n_steps = dataset["n_steps"].values
    no_start, no_end = np.isnan(start), np.isnan(end)
    whole_start, whole_end = start == np.floor(start), end == np.floor(end)

    def refuse(wrong: Array, field: str, value: Callable[[int], object], expected: str) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            episode = plain(dataset["episode"].values[i])
            expected = expected.format(last=n_steps[i] - 1, outcome=f"{cheap[i]:d}{strong[i]:d}")
            raise InvalidDataError(expected, episode=episode, field=field, value=value(i))

    def unset(_: int) -> object:
        return MISSING

    def starts(i: int) -> float | int:
        return _whole(float(start[i]))

    def ends(i: int) -> float | int:
        return _whole(float(end[i]))

    def windows(i: int) -> list[float | int]:
        return [starts(i), ends(i)]

    refuse(no_start & ~no_end, "window_start", unset, "both window_start and window_end, or neither")
    refuse(no_end & ~no_start, "window_end", unset, "both window_start and window_end, or neither")
    inside = "a whole checkpoint from 0 to {last}, the last of the rollout"
    refuse(~no_start & ~(whole_start & (start >= 0) & (start < n_steps)), "window_start", starts, inside)
    refuse(~no_end & ~(whole_end & (end >= 0) & (end < n_steps)), "window_end", ends, inside)
    refuse(start > end, "window", windows, "a window that starts before it ends")
    only_01 = "no window, since the outcome AB is {outcome}: only Strong's success alone (AB = 01) can have one"
    refuse(~no_start & ~(~cheap & strong), "window", windows, only_01)


@dataclass
class _Tally:
    """What the notes need to know, gathered block by block."""

    lowest: Array
    highest: Array
    ever_nonzero: Array
    empty_windows: list[object]


def _scan(dataset: xr.Dataset, *, check: bool) -> tuple[str, ...]:
    n_features, n_diagnostics = dataset.sizes["feature"], dataset.sizes["diagnostic"]
    tally = _Tally(np.full(n_features, np.inf), np.full(n_features, -np.inf), np.zeros(n_diagnostics, dtype=bool), [])
    core = dataset[["features", "diagnostics", "n_steps", "window_start", "window_end"]]
    for block in blocks(core):
        part = core.isel(episode=block).compute()
        if check:
            _check_features(part)
            _check_diagnostics(part)
        _count(part, tally)
    return _notes(dataset, tally)


def _check_features(part: xr.Dataset) -> None:
    wrong = ~np.isfinite(part["features"].values)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InvalidDataError(
            "a finite number",
            episode=plain(part["episode"].values[row]),
            field=f"features[{part['feature'].values[column]!r}]",
            value=plain(part["features"].values[row, column]),
        )


def _check_diagnostics(part: xr.Dataset) -> None:
    values = part["diagnostics"].values
    inside = np.arange(part.sizes["step"]) < part["n_steps"].values[:, None]
    wrong = ~(np.isfinite(values) & (values >= 0)) & inside[..., None]
    if wrong.any():
        row, step, column = np.argwhere(wrong)[0]
        raise InvalidDataError(
            "a finite number >= 0",
            episode=plain(part["episode"].values[row]),
            field=f"diagnostics[{part['diagnostic'].values[column]!r}]",
            value=plain(values[row, step, column]),
            where=f"step {step}",
        )


def _count(part: xr.Dataset, tally: _Tally) -> None:
    features, steps = part["features"].values, np.arange(part.sizes["step"])
    tally.lowest = np.minimum(tally.lowest, features.min(axis=0))
    tally.highest = np.maximum(tally.highest, features.max(axis=0))
    nonzero = part["diagnostics"].values > 0
    tally.ever_nonzero |= nonzero.any(axis=(0, 1))
    start, end = part["window_start"].values[:, None], part["window_end"].values[:, None]
    moves = (nonzero.any(axis=2) & (steps >= start) & (steps <= end)).any(axis=1)
    tally.empty_windows += part["episode"].values[~moves & ~np.isnan(start[:, 0])].tolist()


def _notes(dataset: xr.Dataset, tally: _Tally) -> tuple[str, ...]:
    notes = []
    constant = dataset["feature"].values[tally.lowest == tally.highest]
    if constant.size:
        notes.append(f"constant features: {_listed(constant)}")
    silent = dataset["diagnostic"].values[~tally.ever_nonzero]
    if silent.size:
        notes.append(f"diagnostics that are zero everywhere: {_listed(silent)}")
    untimed = ~dataset["cheap_success"] & dataset["strong_success"] & dataset["window_start"].isnull()
    if untimed.any():
        names = dataset["episode"].values[untimed.values]
        notes.append(f"AB = 01 without a window, so that nobody says when ({len(names)}): {_listed(names)}")
    if tally.empty_windows:
        notes.append(
            "windows over which all diagnostics are zero, so that no weights give them any mass "
            f"({len(tally.empty_windows)}): {_listed(tally.empty_windows)}"
        )
    return tuple(notes)


def _listed(names: Sequence[object] | Array, limit: int = 5) -> str:
    shown = ", ".join(repr(plain(name)) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _whole(value: float) -> float | int:
    return int(value) if value.is_integer() else value
