"""The tables, the figure and the page of the stability study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from simulations.stability.constants import Constants, net_factor, radius_bound
from simulations.stability.contamination import PARAMETERS, WRONG_MARKS, WRONG_OUTCOMES
from simulations.studies.tables import (
    COLOURS,
    LINES,
    MARKERS,
    figure_file,
    fill,
    markdown_table,
    mean_and_half_width,
    with_half_width,
)

KINDS = (*WRONG_MARKS, WRONG_OUTCOMES)
SHOWN_RATE = 0.1
SLACK_SIZE = 8_000
DELTA = 0.05
SHOWN_RATES = (0.02, SHOWN_RATE, 0.4)


@dataclass(frozen=True)
class Cell:
    """One kind of contamination at one rate and one size, with its fits."""

    kind: str
    rate: float
    n: int
    fits: pd.DataFrame

    @property
    def share(self) -> float:
        """Return rho_T, a share of all records."""
        return float(self.fits["share"].mean())

    def mean(self, column: str) -> float:
        """Return the mean of a column over replicates."""
        return float(self.fits[column].mean())

    def text(self, column: str, digits: int) -> str:
        """Return it with its half-width."""
        return with_half_width(*mean_and_half_width(self.fits[column].dropna()), digits=digits)


def cell(fits: pd.DataFrame, kind: str, n: int, rate: float = SHOWN_RATE) -> Cell:
    """Find a cell; the clean one at any rate."""
    at = 0.0 if kind == "clean" else rate
    return Cell(kind, at, n, fits[(fits["kind"] == kind) & np.isclose(fits["rate"], at) & (fits["n"] == n)])


def cells(fits: pd.DataFrame) -> Iterator[Cell]:
    """Yield all cells."""
    for _, own in fits.groupby(["kind", "rate", "n"], sort=False):
        first = own.iloc[0]
        yield Cell(str(first["kind"]), float(first["rate"]), int(first["n"]), own)


def power(fits: pd.DataFrame, kind: str, column: str) -> tuple[float, float | None]:
    """Return the power of the share of wrong marks with which a column grows at the largest n, fitted by replicate."""
    own = fits[(fits["kind"] == kind) & (fits["n"] == fits["n"].max())]
    fitted = [np.polyfit(np.log(one["rate"]), np.log(one[column]), 1)[0] for _, one in own.groupby("replicate")]
    return mean_and_half_width(fitted)


def size_power(fits: pd.DataFrame, kind: str) -> float:
    """Return the power of n with which the mean error falls, at the shown rate."""
    sizes = sorted(fits["n"].unique())
    means = [cell(fits, kind, n).mean("error_whitened") for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(means), 1)[0])


def bias(fits: pd.DataFrame, kind: str, rate: float) -> float:
    """Return what is left of the error at the largest n when the clean error is taken off, in squares."""
    n = int(fits["n"].max())
    squares = [float((cell(fits, of, n, rate).fits["error_whitened"] ** 2).mean()) for of in (kind, "clean")]
    return float(np.sqrt(max(squares[0] - squares[1], 0.0)))


def rounded(count: float) -> str:
    """Write a count of tasks in words."""
    millions = count / 1e6
    if millions < 1:
        return f"{count:,.0f}"
    return f"{millions:,.0f} million" if millions >= 10 else f"{round(millions, 1):g} million"


def constants_table(constants: dict[str, Constants]) -> str:
    """Show every constant and from where on, and up to where, the conditions hold."""
    shown = {"neighbour": "neighbour", "anywhere": "anywhere and worst", "too late": "too late"}

    def row(label: str, values: list[str]) -> list[str]:
        return [label, *values]

    every = list(constants.values())
    rows = [
        row("radius r", [f"{c.radius:g}" for c in every]),
        row("curvature mu", [f"{c.mu:.3f}" for c in every]),
        row("spread of the score sigma", [f"{c.sigma:.2f}" for c in every]),
        row("slope of q, L_q", [f"{c.slope:.2f}" for c in every]),
        *(
            row(f"G_T and H_T, {label}", [f"{c.influence[kind]:.1f} and {c.curvature[kind]:.0f}" for c in every])
            for kind, label in shown.items()
        ),
        row("tasks from which the theorem applies, no wrong mark", [rounded(c.tasks_needed) for c in every]),
        *(
            row(
                f"share of the marks that may be wrong, endless tasks, {label}",
                [f"{c.wrong_allowed(kind):.3%}" for c in every],
            )
            for kind, label in shown.items()
        ),
    ]
    radius = "at the radius of those tried with which the theorem applies soonest"
    return markdown_table([radius, *constants], rows)


def scaling_table(fits: pd.DataFrame, constants: Constants) -> str:
    """Show the error by contamination and n, and the formula at the largest n."""
    sizes = sorted(fits["n"].unique())
    rows = []
    for kind in ("clean", *KINDS):
        for rate in [0.0] if kind == "clean" else SHOWN_RATES:
            own = [cell(fits, kind, n, rate) for n in sizes]
            bound = "none" if kind == WRONG_OUTCOMES else f"{constants.bound(kind, sizes[-1], own[-1].share):.1f}"
            label = kind if kind == "clean" else f"{kind}, {rate:.0%}"
            rows.append([label, *(one.text("error_whitened", 3) for one in own), bound])
    return markdown_table(
        ["error of the parameters", *(f"n = {n:,}" for n in sizes), f"formula at n = {sizes[-1]:,}"], rows
    )


def powers_table(fits: pd.DataFrame) -> str:
    """Show the fitted powers of n and of the share of wrong marks."""
    n = int(fits["n"].max())
    rows = [["the theorem's bound", "-0.50 to 0", "0 to 1", "1"], ["clean", f"{size_power(fits, 'clean'):.2f}", "", ""]]
    for kind in KINDS:
        fitted = [with_half_width(*power(fits, kind, f"{name}_whitened"), digits=2) for name in ("error", "moved")]
        rows.append([kind, f"{size_power(fits, kind):.2f}", *fitted])
    head = [
        "fitted power",
        f"error, of n ({SHOWN_RATE:.0%} wrong)",
        f"error, of the share (n = {n:,})",
        "distance from the clean fit of the same tasks, of the share",
    ]
    return markdown_table(head, rows)


def slack_table(fits: pd.DataFrame, constants: dict[str, Constants], n: int) -> str:
    """Show what the proof passes between the error and its bound."""
    rows = []
    for coordinates, c in constants.items():
        for kind in ("clean", *WRONG_MARKS):
            own = cell(fits, kind, n)
            error, step, slope = (own.mean(f"{name}_{coordinates}") for name in ("error", "step", "slope"))
            bound = c.bound(kind, n, own.share)
            numbers = [f"{error:.3f}", f"{step:.3f}", f"{slope / c.mu:.3f}", f"{bound:.1f}", f"{bound / error:.0f}"]
            per_record = "" if kind == "clean" else f"{record_factor(own, c):.0f}"
            rows.append([f"{coordinates}, {kind}", *numbers, per_record])
    head = [
        f"n = {n:,}, {SHOWN_RATE:.0%} of the marks wrong",
        *("error", "first Newton step", "gradient / mu", "formula 2 a_n / mu", "formula / error"),
        "G_T rho_T / what the wrong marks change of the gradient",
    ]
    return markdown_table(head, rows)


def record_factor(own: Cell, constants: Constants) -> float:
    """Return by how much the theorem's term for wrong marks exceeds what they change of the gradient."""
    return constants.influence[own.kind] * own.share / own.mean(f"pull_{constants.coordinates}")


def noise_factors(constants: Constants) -> dict[str, float]:
    """Return the factors by which the term for noise exceeds the clean error, in whitened coordinates.

    There the score has standard deviation 1 in every direction and the error is about the square root of p / n.
    """
    return {
        "the tail: sigma, where the standard deviation of the score is 1": constants.sigma,
        "all directions: a net and a union bound, where the length of the gradient is about the root of p / n": (
            net_factor(constants.delta) / np.sqrt(len(PARAMETERS))
        ),
        "curvature: mu, the lowest in the ball, where it is 1 at the target": 1 / constants.mu,
        "half of mu, for what noise and wrong marks may take from it": 2.0,
    }


def factors_table(constants: Constants, clean: Cell) -> str:
    """Show them, and that their product is what was found."""
    factors = noise_factors(constants)
    found = constants.bound("clean", clean.n, 0.0) / clean.mean("error_whitened")
    rows = [[name, f"{value:.2f}"] for name, value in sorted(factors.items(), key=lambda item: -item[1])]
    rows.append(["all together", f"{np.prod(list(factors.values())):.0f}"])
    rows.append([f"formula / clean error found at n = {clean.n:,}", f"{found:.0f}"])
    return markdown_table(["whitened, no wrong mark", "factor"], rows)


def score_table(fits: pd.DataFrame, constants: Constants) -> str:
    """Show the error of q at the largest n."""
    n = int(fits["n"].max())
    rows = []
    for kind in ("clean", *KINDS):
        own = cell(fits, kind, n)
        bound = "none" if kind == WRONG_OUTCOMES else f"{constants.slope * constants.bound(kind, n, own.share):.0f}"
        rows.append([kind, own.text("q_rmse", 4), own.text("q_max", 4), bound])
    head = [f"n = {n:,}, {SHOWN_RATE:.0%} wrong", "root mean square error of q", "largest error of q", "formula"]
    return markdown_table(head, rows)


def sizes_table(fits: pd.DataFrame, constants: dict[str, Constants]) -> str:
    """Show the conditions that depend on n."""
    sizes = sorted(fits["n"].unique())
    rows = []
    for name, c in constants.items():
        held = [float((cell(fits, "clean", n).fits[f"deviation_{name}"] <= c.mu / 4).mean()) for n in sizes]
        rows.append([f"{name}: clean Hessian within mu/4 = {c.mu / 4:.4f}", *(f"{share:.0%}" for share in held)])
        radius = [radius_bound(c.sigma, 0.0, float(n), 0.0, c.delta) for n in sizes]
        rows.append([f"{name}: a_n without a wrong mark, to be below {c.limit:.4f}", *(f"{a:.2f}" for a in radius)])
    return markdown_table(["share of replicates, and a_n", *(f"n = {n:,}" for n in sizes)], rows)


def shares_table(fits: pd.DataFrame, constants: dict[str, Constants]) -> str:
    """Show the conditions that depend on the share of wrong marks."""
    n = int(fits["n"].max())
    rates = sorted(fits.loc[fits["kind"].isin(list(WRONG_MARKS)), "rate"].unique())
    rows = []
    for name, c in constants.items():
        for kind in WRONG_MARKS:
            own = [cell(fits, kind, n, rate).share for rate in rates]
            terms = [f"{c.influence[kind] * share:.3g}; {c.curvature[kind] * share:.3g}" for share in own]
            rows.append([f"{name}, {kind}: to be below {c.limit:.4f}; {c.mu / 4:.4f}", *terms])
    return markdown_table(["G_T rho_T; H_T rho_T", *(f"{rate:.0%} of the marks" for rate in rates)], rows)


def large_table(large: pd.DataFrame, constants: Constants) -> str:
    """Put both sides of both inequalities beside each other where the conditions hold."""
    rows = []
    for one in cells(large):
        bound = constants.bound(one.kind, one.n, one.share)
        error, q = one.mean("error_whitened"), one.mean("q_max")
        label = one.kind if one.kind == "clean" else f"{one.kind}, {100 * one.rate:g}%"
        kept = "yes" if error <= bound and q <= constants.slope * bound else "**no**"
        rows.append([label, f"{error:.4f}", f"{bound:.4f}", f"{q:.4f}", f"{constants.slope * bound:.4f}", kept])
    n = int(large["n"].iloc[0])
    return markdown_table(
        [f"n = {n:,}, one sample", "error of the parameters", "bound", "largest error of q", "bound", "kept to"], rows
    )


GREY = "#777777"


def plot(grid: pd.DataFrame, large: pd.DataFrame, constants: Constants, path: Path) -> None:
    """Draw the error against n, with the bound as far as it applies, and against the share of wrong marks."""
    sizes, size = sorted(grid["n"].unique()), int(large["n"].iloc[0])
    with figure_file(path, 1, 2, size=(11.4, 4.4)) as (_, axes):
        left, right = axes[0]
        for style, kind in enumerate(("clean", *KINDS)):
            shown, along = pd.concat([grid, large]), [*sizes, size] if kind in ("clean", WRONG_OUTCOMES) else sizes
            _line(left, along, [cell(shown, kind, n).mean("error_whitened") for n in along], kind, style)
        most = float(large.loc[large["kind"] == WRONG_OUTCOMES, "rate"].max())
        there = cell(large, WRONG_OUTCOMES, size, most).mean("error_whitened")
        label = f"{WRONG_OUTCOMES}, {most:.0%}"
        left.plot([size], [there], linestyle="", color=COLOURS[6], marker=MARKERS[6], markersize=7, label=label)
        formula = np.geomspace(sizes[0], constants.tasks_needed, 20)
        applies = np.geomspace(constants.tasks_needed, 3 * size, 20)
        for tasks, line, label in ((formula, ":", "formula, clean"), (applies, "-", "the same, where it applies")):
            left.plot(tasks, [constants.bound("clean", n, 0.0) for n in tasks], color=GREY, linestyle=line, label=label)
        left.axhline(constants.radius, color=GREY, linewidth=0.8)
        left.annotate(f"r = {constants.radius:g}", (5 * sizes[-1], 0.93 * constants.radius), va="top", color=GREY)
        left.set(xscale="log", yscale="log", xlabel="training tasks n", ylabel="error of the parameters, whitened")
        left.set_title(f"{SHOWN_RATE:.0%} of the marks wrong")
        left.set_xticks([*sizes, size], [*(f"{n:,}" for n in sizes), f"{size / 1e6:g} million"])
        left.set_xticks([], minor=True)
        n = sizes[-1]
        rates = sorted(grid.loc[grid["kind"] == KINDS[0], "rate"].unique())
        for style, kind in enumerate(KINDS, start=1):
            means = [cell(grid, kind, n, rate).mean("error_whitened") for rate in rates]
            _line(right, [100 * rate for rate in rates], means, kind, style)
        right.set(xscale="log", yscale="log", xlabel="wrong, % of the marks (outcomes: of all tasks)")
        right.set_title(f"n = {n:,}")
        right.set_xticks([100 * rate for rate in rates], [f"{100 * rate:g}" for rate in rates])
        right.set_xticks([], minor=True)
        handles, labels = left.get_legend_handles_labels()
        right.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _line(ax: Axes, x: Sequence[float], y: Sequence[float], label: str, style: int) -> None:
    ax.plot(x, y, color=COLOURS[style], marker=MARKERS[style], linestyle=LINES[style], markersize=5, label=label)


def failures(grid: pd.DataFrame, large: pd.DataFrame, constants: Constants) -> str:
    """Show what wrong outcomes do to a bound that does not see them."""
    size, n = int(large["n"].iloc[0]), int(grid["n"].max())
    rows = []
    for rate in sorted(large.loc[large["kind"] == WRONG_OUTCOMES, "rate"].unique()):
        found = cell(large, WRONG_OUTCOMES, size, rate).mean("error_whitened")
        small = cell(grid, WRONG_OUTCOMES, n, rate).mean("error_whitened")
        least = rounded(max(constants.tasks_below(found), constants.tasks_needed))
        rows.append([f"{rate:.0%}", f"{small:.3f}", f"{bias(grid, WRONG_OUTCOMES, rate):.3f}", f"{found:.3f}", least])
    head = [
        "outcomes flipped",
        f"error, n = {n:,}",
        "the same, the clean error taken off in squares",
        f"error, n = {size:,}",
        "tasks from which the theorem applies and its bound is below that",
    ]
    return markdown_table(head, rows)


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put both sides of the theorem beside each other."""
    constants = {name: Constants.of(table, name, DELTA) for name in ("plain", "whitened")}
    best = constants["whitened"]
    every = table[table["rate"].notna()].copy()
    grid, large = (every[every["setting"].str.startswith("n=") == wanted].copy() for wanted in (True, False))
    grid["n"] = grid["setting"].str.removeprefix("n=").astype(int)
    large["n"] = large["size"].astype(int)
    plot(grid, large, best, folder / "stability.png")
    return fill(
        "stability",
        constants=constants_table(constants),
        scaling=scaling_table(grid, best),
        powers=powers_table(grid),
        sizes=sizes_table(grid, constants),
        shares=shares_table(grid, constants),
        large=large_table(large, best),
        failures=failures(grid, large, best),
        slack=slack_table(grid, constants, SLACK_SIZE),
        factors=factors_table(best, cell(grid, "clean", int(grid["n"].max()))),
        scores=score_table(grid, best),
    )
