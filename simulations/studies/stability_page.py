"""The page of the stability study: what its tables say, in words that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from simulations.stability.constants import POPULATION, SEARCH, Constants
from simulations.stability.contamination import WRONG_MARKS, WRONG_OUTCOMES
from simulations.studies.stability_tables import (
    KINDS,
    SHOWN_RATE,
    Cell,
    bias,
    cell,
    cells,
    constants_table,
    factors_table,
    large_table,
    noise_factors,
    plot,
    power,
    powers_table,
    rounded,
    scaling_table,
    score_table,
    shares_table,
    size_power,
    sizes_table,
    slack_table,
)
from simulations.studies.tables import markdown_table

LINEAR = 0.1
"""How far from 1 a power may be that is called linear."""
SLACK_SIZE = 8_000


def reading(grid: pd.DataFrame, large: pd.DataFrame, constants: dict[str, Constants]) -> str:
    """Say in short what the study found."""
    best, n = constants["whitened"], int(grid["n"].max())
    loose = best.bound("clean", n, 0.0) / cell(grid, "clean", n).mean("error_whitened")
    broken = [one for one in cells(large) if one.mean("error_whitened") > best.bound(one.kind, one.n, one.share)]
    allowed = [f"{best.wrong_allowed(kind):.2%}" for kind in ("neighbour", "anywhere")]
    seen = [one for one in broken if one.kind != WRONG_OUTCOMES]
    words = [
        f"**Reading.** The clean error falls like n to the power {size_power(grid, 'clean'):.2f}, as the theorem has "
        f"it (-0.50). {how_it_grows(grid)}",
        f"Its constants are out of reach: its conditions hold with {rounded(best.tasks_needed)} tasks without a wrong "
        f"mark, or, with endless tasks, with at most {allowed[0]} of the marks off by one step or {allowed[1]} moved "
        "anywhere, in the best coordinates tried.",
        f"They hold in {cells_held(grid, best)} of the {len(list(cells(grid)))} cells of the grid, which ends at "
        f"n = {n:,}; there its formula is {loose:.0f} times the clean error.",
        f"In a sample of {rounded(float(large['n'].iloc[0]))} tasks, where they hold, "
        + (f"{len(seen)} kinds of wrong marks break the bound" if seen else "wrong marks keep to the bound")
        + (f"; what it does not see breaks it ({_named(broken)})." if len(broken) > len(seen) else "."),
        "A practitioner may take from it that where everything is bounded one wrong mark can only do so much harm; not "
        "a number.",
    ]
    return " ".join(words)


def cells_held(grid: pd.DataFrame, constants: Constants) -> int:
    """Count the cells in which the conditions hold that constants decide; none does where outcomes are wrong."""
    return sum(constants.holds(one.kind, one.n, one.share) for one in cells(grid) if one.kind != WRONG_OUTCOMES)


def where_conditions_hold(grid: pd.DataFrame, constants: dict[str, Constants]) -> str:
    """Say in which cells of the grid the theorem's bound is one."""
    held = {name: cells_held(grid, c) for name, c in constants.items()}
    need = f"(they need a formula below r = {constants['whitened'].radius:g})"
    if not any(held.values()):
        return f"In no cell of the grid do the theorem's conditions hold {need}: the formula is no guarantee there."
    words = listed(f"{count} in {name} coordinates" for name, count in held.items())
    return f"The theorem's conditions hold {need} in so many cells of the grid: {words}; elsewhere it is no guarantee."


def how_it_grows(grid: pd.DataFrame) -> str:
    """Say with which power of the share of wrong marks the estimate moves, and of which kinds that is linear."""
    powers = {kind: power(grid, kind, "moved_whitened")[0] for kind in WRONG_MARKS}
    words = listed(f"{value:.2f} ({kind})" for kind, value in powers.items())
    groups = {
        f"in proportion (within {LINEAR:g})": [kind for kind, value in powers.items() if abs(value - 1) <= LINEAR],
        "more slowly": [kind for kind, value in powers.items() if value < 1 - LINEAR],
        "faster": [kind for kind, value in powers.items() if value > 1 + LINEAR],
    }
    how = "; ".join(f"{manner} for {listed(own)}" for manner, own in groups.items() if own)
    return f"The estimate moves with the share of wrong marks to the power {words}, where the bound has 1: {how}."


def what_more_tasks_do(grid: pd.DataFrame) -> str:
    """Say where the error stays, and where it falls, from the last but one to the largest n."""
    n, before = sorted(grid["n"].unique())[-1], sorted(grid["n"].unique())[-2]

    def both(kind: str) -> str:
        return " to ".join(f"{cell(grid, kind, size).mean('error_whitened'):.3f}" for size in (before, n))

    clean = cell(grid, "clean", before).mean("error_whitened") / cell(grid, "clean", n).mean("error_whitened")
    falls = {
        kind: cell(grid, kind, before).mean("error_whitened") / cell(grid, kind, n).mean("error_whitened")
        for kind in WRONG_MARKS
    }
    stay = [kind for kind, ratio in falls.items() if ratio < 1.1]
    fall = [kind for kind, ratio in falls.items() if ratio > 0.8 * clean]
    words = [
        f"Whether more tasks cure a fixed share of wrong marks an upper bound cannot say. With {SHOWN_RATE:.0%} wrong, "
        f"from n = {before:,} to {n:,}, the error"
    ]
    if stay:
        words.append(f"stays for {listed(f'{kind} ({both(kind)})' for kind in stay)};")
    if fall:
        words.append(f"falls as the clean one does for {listed(f'{kind} ({both(kind)})' for kind in fall)};")
    rest = [kind for kind in WRONG_MARKS if kind not in stay and kind not in fall]
    if rest:
        words.append(f"is between for {listed(f'{kind} ({both(kind)})' for kind in rest)};")
    return " ".join(words).removesuffix(";") + "."


def what_the_large_sample_says(large: pd.DataFrame, constants: Constants) -> str:
    """Return whether the bound holds where the conditions do that the constants decide."""
    marks = [one for one in cells(large) if one.kind != WRONG_OUTCOMES]
    held = [one for one in marks if constants.holds(one.kind, one.n, one.share)]
    ratios = [constants.bound(one.kind, one.n, one.share) / one.mean("error_whitened") for one in held]
    kept = sum(ratio >= 1 for ratio in ratios)
    return (
        f"The conditions on a_n and H_T hold in {len(held)} of the {len(marks)} rows without wrong outcomes, and "
        f"{kept} of these keep to the bound, which is {min(ratios):.0f} to {max(ratios):.0f} times the error. The one "
        "on the Hessian is in the first table, for fewer tasks. Outcomes have the bound of rho_T = 0."
    )


def what_is_above(grid: pd.DataFrame, constants: dict[str, Constants]) -> str:
    """Say how many fits are above the formula, though it is no guarantee there."""
    fits = above = scores = 0
    for one in cells(grid[grid["kind"] != WRONG_OUTCOMES]):
        for name, c in constants.items():
            bound = c.bound(one.kind, one.n, one.share)
            fits += len(one.fits)
            above += int((one.fits[f"error_{name}"] > bound).sum())
            scores += int((one.fits["q_max"] > c.slope * bound).sum())
    words = [f"{count:,} are" if count else "none is" for count in (above, scores)]
    return (
        f"Of {fits:,} errors of the grid's fits with clean or wrong marks, in both coordinates, {words[0]} above "
        f"the formula, and of their largest errors of q {words[1]} above that for q."
    )


def failures(grid: pd.DataFrame, large: pd.DataFrame, constants: Constants) -> str:
    """Show what wrong outcomes do to a bound that does not see them."""
    size, n = int(large["n"].iloc[0]), int(grid["n"].max())
    rows = []
    for rate in sorted(large.loc[large["kind"] == WRONG_OUTCOMES, "rate"].unique()):
        stays = bias(grid, WRONG_OUTCOMES, rate)
        found = cell(large, WRONG_OUTCOMES, size, rate).mean("error_whitened")
        small = cell(grid, WRONG_OUTCOMES, n, rate).mean("error_whitened")
        least = rounded(max(constants.tasks_below(found), constants.tasks_needed))
        rows.append([f"{rate:.0%}", f"{small:.3f}", f"{stays:.3f}", f"{found:.3f}", least])
    head = [
        "outcomes flipped",
        f"error, n = {n:,}",
        "the same, the clean error taken off in squares",
        f"error, n = {size:,}",
        "tasks from which the theorem applies and its bound is below that",
    ]
    beyond = [row[0] for row in rows if float(row[3]) > constants.radius]
    words = (
        f"With {listed(beyond)} flipped, the error is beyond r itself, so a bound read with rho_T = 0 is wrong as soon "
        "as it applies; with fewer, from the tasks in the last column on."
        if beyond
        else "A bound read with rho_T = 0 is wrong from the tasks in the last column on."
    )
    return "\n\n".join(
        [
            "It fails where outcomes are wrong. No interval is replaced then, so rho_T = 0, but the assumption that "
            "all other fields are clean is broken. Wherever the theorem applies, its bound is below "
            f"r = {constants.radius:g}, and falls with n; this error does not:",
            markdown_table(head, rows),
            words,
        ]
    )


def where_slack_is(grid: pd.DataFrame, constants: Constants) -> str:
    """Say where the proof loses most."""
    factors = sorted(noise_factors(constants).items(), key=lambda item: -item[1])
    tops = [name.split(":")[0] for name, _ in factors[:2]]
    ratio = {
        kind: own.mean("step_whitened") / own.mean("error_whitened")
        for kind in ("clean", *WRONG_MARKS)
        for own in [cell(grid, kind, SLACK_SIZE)]
    }
    near = [kind for kind, value in ratio.items() if abs(value - 1) <= LINEAR]
    far = [f"{kind} ({value:.1f} times)" for kind, value in ratio.items() if value > 1 + LINEAR]
    words = (
        "The proof goes from the gradient of the contaminated objective at the target, through the curvature, to the "
        f"error. The first step of Newton's method from the target is within {LINEAR:.0%} of the error for "
        f"{listed(near)}"
    )
    if far:
        words += f"; it is longer for {listed(far)}, whose push weakens as the estimate moves away"
    return (
        f"{words}. Of the noise's term, most is lost to {tops[0]} (a factor of {factors[0][1]:.1f}), then to {tops[1]} "
        f"({factors[1][1]:.1f}). The wrong marks' term bounds each wrong record by the worst there could be, and all "
        "as if they pushed the same way: the last column of the first table. Plain coordinates lose more, since one "
        "curvature, the lowest, stands for all directions, and the data say little of the weights."
    )


def what_the_estimate_is(grid: pd.DataFrame, constants: Constants) -> str:
    """Say which reading of the theorem's estimate was taken, and how often it is not in the ball."""
    outside = int((grid["error_whitened"] > constants.radius).sum())
    return (
        "- **The estimate.** The theorem speaks of the stationary point in the ball. Here it is what the library's fit "
        "finds from one start, in the large sample what Newton's method finds from the target; "
        f"{outside:,} of the {len(grid):,} fits of the grid are more than r = {constants.radius:g} away and so not in "
        "the ball, in whitened coordinates."
    )


def advice(grid: pd.DataFrame) -> str:
    """Say what a user may take from the simulation, which says more than the bound."""
    n, small = int(grid["n"].max()), int(grid["n"].min())

    def ratio(kind: str, size: int) -> float:
        return cell(grid, kind, size).mean("q_rmse") / cell(grid, "clean", size).mean("q_rmse")

    ratios = {kind: ratio(kind, n) for kind in KINDS}
    worst = power(grid, "worst", "moved_whitened")[0]
    lines = [
        f"Marks that are off by one step matter little: {SHOWN_RATE:.0%} of them multiply the error of q by "
        f"{ratio('neighbour', small):.2f} at n = {small:,} and by {ratios['neighbour']:.2f} at n = {n:,}.",
        "Marks that are wrong by many steps matter, the more so the more tasks there are, since what they do stays "
        f"while the rest of the error falls: {SHOWN_RATE:.0%} of them multiply it by {ratios['anywhere']:.1f} "
        f"(anywhere) and {ratios['too late']:.1f} (too late) at n = {n:,}.",
        f"{SHOWN_RATE:.0%} of the marks chosen to do harm multiply it by {ratios['worst']:.0f}. They move the estimate "
        f"by their share to the power {worst:.2f}"
        + (": the first do most. " if worst < 1 - LINEAR else ". ")
        + "Look at the records with the largest influence.",
        "Wrong outcomes, of which the theorem does not speak, multiply it by "
        f"{ratios[WRONG_OUTCOMES]:.1f} at the same rate of all tasks.",
        "That more tasks do not cure wrong marks is what the simulation shows, where they are far off, and not the "
        "theorem; nor are its numbers of use at such sizes. Simulate instead, as here.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def listed(words: Iterable[str]) -> str:
    """Join words as a sentence does."""
    every = list(words)
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}"


def _named(found: Iterable[Cell]) -> str:
    return listed(f"{one.kind}, {one.rate:.0%}" for one in found)


DELTA = 0.05

ESTIMATED = f"""\
All are computed from one sample of {POPULATION:,} clean tasks in the place of the population. G_T is the maximum over
all its marked records and all wrong marks of a kind. So is H_T at the target, and L_q over all its tasks and steps; for
other points of the ball, the {SEARCH["screened"]:,} largest of either are looked at on 30 points of the sphere, and the
sphere is climbed from the {SEARCH["climbs"]} largest of these. For mu, the search descends from the {SEARCH["starts"]}
lowest of 50 points of the sphere ({SEARCH["rough"]:,} records say which) with {SEARCH["records"]:,} records; all say
which end is lowest, and the search goes on from there with all. sigma is the largest, over directions that were
climbed to from 30 others, of what bounds the sample's log moment generating function. A search may miss the extreme,
and a sample has not the rarest records: the true mu may be lower and the other constants higher, which makes the bound
looser still."""

READINGS = """\
- **Coordinates.** The theorem takes "unconstrained local coordinates" and any smooth one for s, and its constants
  depend on the choice. *Plain* are gamma and beta per unit of a feature, the logit of the first of two weights (one
  logit is fixed) and log s. *Whitened* are linear combinations of these in which the population's Hessian at the
  target is the unit matrix: the best that a linear choice can do for the curvature there.
- **The target** theta† is the truth itself: nothing is penalized here and the model is true.
- **The fraction of wrong intervals** rho_T counts all n records, as the paper says in its appendix. Rates on this page
  are shares of the marks, as in the paper's experiments with noise.
- **Clean intervals.** To the paper, every range that contains the crossing is clean. Here every clean mark is the one
  step of the crossing. Ranges say less, so the curvature at the target would be lower; they were not tried.
- **G_T and H_T** hold for every record, so they are maxima over records and wrong marks of a kind, not means.
- **sigma.** The score is sub-Gaussian only in a bounded design. In the paper's own simulations (normal features) the
  part of log s has tails like a squared normal, which no sigma bounds for all lambda; so features and risks are
  bounded here.
- **The Hessian** of item (iii) is compared with the population's at the target alone, which is the least that is
  asked, and its probability is the share of replicates."""


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put both sides of the theorem beside each other."""
    constants = {name: Constants.of(table, name, DELTA) for name in ("plain", "whitened")}
    best = constants["whitened"]
    every = table[table["rate"].notna()].copy()
    grid, large = (every[every["setting"].str.startswith("n=") == wanted].copy() for wanted in (True, False))
    grid["n"] = grid["setting"].str.removeprefix("n=").astype(int)
    large["n"] = large["size"].astype(int)
    plot(grid, large, best, folder / "stability.png")
    held = where_conditions_hold(grid, constants)
    kinds = "; ".join(f"*{name}*: {words}" for name, words in WRONG_MARKS.items())
    return "\n\n".join(
        [
            reading(grid, large, constants),
            "![Error against n and against the share of wrong marks, with the bound](stability.png)",
            "## The constants",
            constants_table(constants),
            ESTIMATED,
            "## How the error scales",
            scaling_table(grid, best),
            f"Means over replicates, in whitened coordinates; rates are shares of the marks. {held} A wrong mark may "
            f"be {kinds}. *{WRONG_OUTCOMES}* flips outcomes of Strong at the same rate of all tasks, of which the "
            "theorem does not speak.",
            powers_table(grid),
            what_more_tasks_do(grid),
            "## Whether the conditions hold",
            sizes_table(grid, constants),
            shares_table(grid, constants),
            f"{held} So one sample was made so large that they hold, with few wrong marks; *kept to* says whether both "
            "errors are within their bounds:",
            large_table(large, best),
            what_the_large_sample_says(large, best),
            "## Where it fails",
            what_is_above(grid, constants),
            failures(grid, large, best),
            "## How tight it is, and where the slack comes from",
            slack_table(grid, constants, SLACK_SIZE),
            factors_table(best, cell(grid, "clean", int(grid["n"].max()))),
            where_slack_is(grid, best),
            "## The handoff score",
            score_table(grid, best),
            "The formula for q says nothing here, since no q differs by more than 1 from another; where the theorem "
            "applies, it does (the table of the large sample).",
            "## Readings taken",
            f"{READINGS}\n{what_the_estimate_is(grid, best)}",
            "## What follows for a user",
            advice(grid),
        ]
    )
