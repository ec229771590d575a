"""What episodes must satisfy, what is unusual about them, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_tacit.data.layout import Array, blocks, carried_variables, cheap_played, plain, refuse, strong_counts
from bayes_tacit.errors import InvalidDataError


def check_episodes(dataset: xr.Dataset) -> tuple[str, ...]:
    """Refuse values that no episode can have; return notes about those that are merely unusual.

    Expects the layout of `bayes_tacit.data.layout`. Features and diagnostics are read block by block along
    `episode`, so that memory stays bounded for Dask-backed data.

    Raises
    ------
    InvalidDataError
        For a diagnostic that is negative, NaN or infinite within the rollout, a feature that is NaN or infinite, a
        window that is reversed, outside the rollout, half missing, fractional, or on an episode where not Strong alone
        succeeded (AB = 01; of several rollouts of Strong on the task, one is enough),
        and for a variable with the name of a feature or diagnostic.
    """
    for dim, dims in (("feature", ("episode",)), ("diagnostic", ("episode", "step"))):
        carried = {name for name in carried_variables(dataset) if dataset[name].dims == dims}
        for name in dataset[dim].values:
            if name in carried:
                raise InvalidDataError("a name that no carried variable has", field=f"{dim} name", value=name)
    _check_windows(dataset)
    return describe_oddities(dataset, check=True)


def _check_windows(dataset: xr.Dataset) -> None:
    ids, n_steps, outcomes = dataset["episode"].values, dataset["n_steps"].values, outcome_labels(dataset)
    start, end = dataset["window_start"].values, dataset["window_end"].values
    marked, ended = ~np.isnan(start), ~np.isnan(end)

    def checkpoint(values: Array) -> Callable[[int], float]:
        return lambda row: int(values[row]) if values[row].is_integer() else float(values[row])

    starts, ends = checkpoint(start), checkpoint(end)
    both = "both window_start and window_end, or neither"
    refuse(~marked & ended, both, "window_start", ids)
    refuse(~ended & marked, both, "window_end", ids)

    def shown(row: int) -> list[float]:
        return [starts(row), ends(row)]

    refuse(marked & (n_steps == 0), "no window, since there is no Cheap rollout to mark", "window", ids, shown)
    inside = "a whole checkpoint from 0 to {}, the last of the rollout"
    for name, there, at, value in (("window_start", marked, start, starts), ("window_end", ended, end, ends)):
        wrong = there & ~((at == np.floor(at)) & (at >= 0) & (at < n_steps))
        refuse(wrong, lambda row: inside.format(n_steps[row] - 1), name, ids, value)
    refuse(start > end, "a window that starts before it ends", "window", ids, shown)
    only = "no window, since the outcome AB is {}: only Strong's success alone (AB = 01) can have one"
    lone = ~dataset["cheap_success"].values & strong_ever(dataset)
    refuse(marked & ~lone, lambda row: only.format(outcomes[row]), "window", ids, shown)


def strong_ever(dataset: xr.Dataset) -> Array:
    """Return whether Strong succeeded at least once on the task of each episode."""
    ever: Array = strong_counts(dataset)[0] > 0
    if "task" in carried_variables(dataset) and dataset["task"].dims == ("episode",):
        _, codes = np.unique(dataset["task"].values, return_inverse=True)
        ever = (np.bincount(codes, weights=ever) > 0)[codes]
    return ever


def describe_oddities(dataset: xr.Dataset, *, check: bool = False) -> tuple[str, ...]:
    """Return what is unusual, a sentence each; with `check`, refuse values that no episode can have."""
    n_features, n_diagnostics = dataset.sizes["feature"], dataset.sizes["diagnostic"]
    lowest, highest = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    silent, empty_windows = np.ones(n_diagnostics, dtype=bool), []
    core = dataset[["features", "diagnostics", "n_steps", "window_start", "window_end"]]
    for block in blocks(core):
        part = core.isel(episode=block).compute()
        features, diagnostics, ids = part["features"].values, part["diagnostics"].values, part["episode"].values
        steps = np.arange(part.sizes["step"])
        if check:
            for name, column in zip(part["feature"].values, features.T, strict=True):
                refuse(~np.isfinite(column), "a finite number", f"features[{name!r}]", ids, column)
            inside = steps < part["n_steps"].values[:, None]
            wrong = ~(np.isfinite(diagnostics) & (diagnostics >= 0)) & inside[..., None]
            if wrong.any():
                at = int(wrong.any(axis=(0, 1)).argmax())
                field = f"diagnostics[{part['diagnostic'].values[at]!r}]"
                refuse(wrong[..., at], "a finite number >= 0", field, ids, diagnostics[..., at])
        lowest = np.minimum(lowest, features.min(axis=0))
        highest = np.maximum(highest, features.max(axis=0))
        nonzero = diagnostics > 0
        silent &= ~nonzero.any(axis=0).any(axis=0)
        start, end = part["window_start"].values[:, None], part["window_end"].values[:, None]
        moves = (nonzero.any(axis=2) & (steps >= start) & (steps <= end)).any(axis=1)
        empty_windows += ids[~moves & ~np.isnan(start[:, 0])].tolist()
    ids = dataset["episode"].values
    untimed = ids[(outcome_labels(dataset) == "01") & np.isnan(dataset["window_start"].values)]
    no_cheap, no_strong = ids[~cheap_played(dataset)], ids[strong_counts(dataset)[1] == 0]
    without_mass = "windows over which all diagnostics are zero, so that no weights give them any mass"
    found = {
        "constant features": dataset["feature"].values[lowest == highest],
        "diagnostics that are zero everywhere": dataset["diagnostic"].values[silent],
        f"AB = 01 without a window, so that nobody says when ({len(untimed)})": untimed,
        f"Cheap was not played ({len(no_cheap)})": no_cheap,
        f"Strong was not played ({len(no_strong)})": no_strong,
        f"{without_mass} ({len(empty_windows)})": empty_windows,
    }
    return tuple(f"{what}: {_listed(names)}" for what, names in found.items() if len(names))


def _listed(names: Sequence[object] | Array, limit: int = 5) -> str:
    shown = ", ".join(repr(plain(name)) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


OUTCOME_MEANINGS = {"00": "neither succeeds", "01": "only Strong succeeds", "10": "only Cheap succeeds", "11": "both"}
ONE_SIDED = {
    "0-": "Cheap fails, Strong not played",
    "1-": "Cheap succeeds, Strong not played",
    "-0": "Strong fails, Cheap not played",
    "-1": "Strong succeeds, Cheap not played",
}


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest of some counts."""

    min: int
    median: float
    max: int

    @classmethod
    def of(cls, values: Array) -> Spread:
        """Return the spread of an array that is not empty."""
        return cls(int(values.min()), float(np.median(values)), int(values.max()))

    def __str__(self) -> str:
        return f"{self.min} to {self.max}, median {self.median:g}"


@dataclass(frozen=True)
class FeatureSummary:
    """One feature over all episodes; `sd` divides by the number of episodes."""

    name: str
    mean: float
    sd: float
    min: float
    max: float


@dataclass(frozen=True)
class DiagnosticSummary:
    """One diagnostic over all steps of all episodes; `nonzero` is the share of steps where it is above zero."""

    name: str
    mean: float
    nonzero: float


@dataclass(frozen=True)
class EpisodesSummary:
    """Counts and moments of a set of episodes; prints as a page, and as a table in a notebook.

    Attributes
    ----------
    n_episodes
        Number of episodes.
    steps
        Spread of the number of steps.
    outcomes
        Number of episodes by AB (Cheap's success, then Strong's), in the order 00, 01, 10, 11, and of those where one
        side was not played ("0-", "-1") if there are some.
    one_step_windows, range_windows
        Number of AB = 01 episodes whose window has one checkpoint, or more.
    without_window
        Number of AB = 01 episodes that have no window.
    right_censored
        Number of AB = 11 episodes, whose threshold lies past the end of the rollout.
    window_width
        Spread of the number of checkpoints in a window, if there are windows.
    features, diagnostics
        One entry each.
    notes
        What is unusual, as in the warnings.
    """

    n_episodes: int
    steps: Spread
    outcomes: dict[str, int]
    one_step_windows: int
    range_windows: int
    without_window: int
    right_censored: int
    window_width: Spread | None
    features: tuple[FeatureSummary, ...]
    diagnostics: tuple[DiagnosticSummary, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [self._title()]
        for header, rows in self._tables():
            lines += ["", *_aligned([header, *rows])]
        if self.notes:
            lines += ["", "Notes", *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from bayes_tacit.html import render

        return render("summary.html", title=self._title(), tables=self._tables(), notes=self.notes)

    def _title(self) -> str:
        return f"{self.n_episodes} episodes, steps {self.steps}"

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        counted = [
            [f"{outcome}  {(OUTCOME_MEANINGS | ONE_SIDED)[outcome]}", str(count), f"{count / self.n_episodes:.1%}"]
            for outcome, count in self.outcomes.items()
        ]
        width = "" if self.window_width is None else f" (window widths {self.window_width})"
        timing = [
            ["01  window of one step", str(self.one_step_windows)],
            ["01  window of several steps", str(self.range_windows)],
            ["01  no window", str(self.without_window)],
            ["11  right-censored", str(self.right_censored)],
        ]
        features = [[f.name, *(f"{value:.4g}" for value in (f.mean, f.sd, f.min, f.max))] for f in self.features]
        diagnostics = [[d.name, f"{d.mean:.4g}", f"{d.nonzero:.1%}"] for d in self.diagnostics]
        return [
            (["Outcome (Cheap, Strong)", "episodes", "share"], counted),
            ([f"Timing{width}", "episodes"], timing),
            *([(["Feature", "mean", "sd", "min", "max"], features)] if features else []),
            (["Diagnostic", "mean", "nonzero"], diagnostics),
        ]


def summarize(dataset: xr.Dataset, notes: tuple[str, ...]) -> EpisodesSummary:
    """Summarize episodes that have the layout, reading the diagnostics block by block."""
    outcomes = outcome_labels(dataset)
    start, end = dataset["window_start"].values, dataset["window_end"].values
    widths = (end - start + 1)[~np.isnan(start)]
    counts = {outcome: int((outcomes == outcome).sum()) for outcome in OUTCOME_MEANINGS}
    counts |= {outcome: count for outcome in ONE_SIDED if (count := int((outcomes == outcome).sum()))}
    return EpisodesSummary(
        n_episodes=len(outcomes),
        steps=Spread.of(dataset["n_steps"].values),
        outcomes=counts,
        one_step_windows=int((widths == 1).sum()),
        range_windows=int((widths > 1).sum()),
        without_window=int(((outcomes == "01") & np.isnan(start)).sum()),
        right_censored=counts["11"],
        window_width=Spread.of(widths) if widths.size else None,
        features=_features(dataset),
        diagnostics=_diagnostics(dataset),
        notes=notes,
    )


def outcome_labels(dataset: xr.Dataset) -> Array:
    """Return AB as text by episode: Cheap's success, then Strong's; "-" for a side that was not played."""
    labels: Array = np.array([f"{a}{b}" for a in "01-" for b in "01-"])
    cheap = np.where(cheap_played(dataset), dataset["cheap_success"].values, 2)
    strong = np.where(strong_counts(dataset)[1] > 0, dataset["strong_success"].values, 2)
    out: Array = labels[3 * cheap + strong]
    return out


def _features(dataset: xr.Dataset) -> tuple[FeatureSummary, ...]:
    values = dataset["features"].values
    with np.errstate(over="ignore", invalid="ignore"):
        columns = [values.mean(axis=0), values.std(axis=0), values.min(axis=0), values.max(axis=0)]
        if not all(np.isfinite(column).all() for column in columns[:2]):
            # The sum of large values may be infinite; their mean and deviation are not.
            scale = np.abs(values).max(axis=0, initial=1)
            columns[:2] = [(values / scale).mean(axis=0) * scale, (values / scale).std(axis=0) * scale]
    rows = zip(dataset["feature"].values, *(column.tolist() for column in columns), strict=True)
    return tuple(FeatureSummary(*row) for row in rows)


def _diagnostics(dataset: xr.Dataset) -> tuple[DiagnosticSummary, ...]:
    total, mean, nonzero = (np.zeros(dataset.sizes["diagnostic"]) for _ in range(3))
    n = int(dataset["n_steps"].sum())
    with np.errstate(over="ignore"):
        for block in blocks(dataset):
            values = dataset["diagnostics"].isel(episode=block).values
            total += np.nansum(values, axis=(0, 1))
            mean += np.nansum(values / n, axis=(0, 1))
            nonzero += (values > 0).sum(axis=(0, 1))
    # The sum of large values may be infinite; their mean is not.
    means = np.where(np.isfinite(total), total / n, mean)
    rows = zip(dataset["diagnostic"].values, means.tolist(), (nonzero / n).tolist(), strict=True)
    return tuple(DiagnosticSummary(*row) for row in rows)


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return the rows as lines, the first column to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]
