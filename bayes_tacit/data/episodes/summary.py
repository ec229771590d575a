"""What a set of episodes holds, on one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes.layout import blocks
from bayes_tacit.html.rendering import render

if TYPE_CHECKING:
    from bayes_tacit.data.episodes.conversions import Array

OUTCOME_MEANINGS = {"00": "neither succeeds", "01": "only Strong succeeds", "10": "only Cheap succeeds", "11": "both"}


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
        Number of episodes by AB (Cheap's success, then Strong's), in the order 00, 01, 10, 11.
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
        return render("summary.html", title=self._title(), tables=self._tables(), notes=self.notes)

    def _title(self) -> str:
        return f"{self.n_episodes} episodes, steps {self.steps}"

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        counted = [
            [f"{outcome}  {OUTCOME_MEANINGS[outcome]}", str(count), f"{count / self.n_episodes:.1%}"]
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
    return EpisodesSummary(
        n_episodes=len(outcomes),
        steps=Spread.of(dataset["n_steps"].values),
        outcomes=counts,
        one_step_windows=int((widths == 1).sum()),
        range_windows=int((widths > 1).sum()),
        without_window=counts["01"] - len(widths),
        right_censored=counts["11"],
        window_width=Spread.of(widths) if widths.size else None,
        features=_features(dataset),
        diagnostics=_diagnostics(dataset),
        notes=notes,
    )


def outcome_labels(dataset: xr.Dataset) -> Array:
    """Return AB as text by episode: Cheap's success, then Strong's."""
    labels: Array = np.array(list(OUTCOME_MEANINGS))
    out: Array = labels[2 * dataset["cheap_success"].values + dataset["strong_success"].values]
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
