"""Simulation-based calibration: whether the posterior is as uncertain as it should be, and its bands on q(t) cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from simulations.studies.sbc_design import (
    CHAINS,
    COVERED,
    DRAWS,
    HORIZON,
    LONGER,
    N_EPISODES,
    RANKED_DRAWS,
    TUNE,
    ranks,
)
from simulations.studies.sbc_ranks import plot_ranks
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table, mean_and_half_width

PAPER = Setting("prior")
LEARNED = Setting("learned memory", {"learned": True})
BINS = 20
EDGES = (0.3, 0.8)
"""Where the page cuts true memories."""
OTHER = (
    *("setting", "replicate", "divergences", "true rho", "rho sd", "rho covered", "passed", "slowest", "slowest size"),
    "rho size",
)
"""Columns that are no ranks."""
HISTORY = (
    "This is the third design of the study. The first drew ranges around the crossing, which is informative "
    "coarsening, and the second left one window in ten missing (seed 20261116); both showed beta0 ranked too low "
    "(mean ranks 0.425 and 0.438, where chance gives 0.5 ± 0.017). This one has neither, and also another seed, so "
    "the change from the second to the third is not a controlled comparison: that missing windows caused the shift "
    "is argued from the likelihood, not isolated by these runs."
)
"""How the design came about, which a reader of the table should know."""


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Sample one posterior and rank the truth in it.

    The tasks are the same in all replicates, so the streams come from the study's seed and the replicate's number.
    """
    return [{**ranks(number, int(np.asarray(seeds.entropy)), learned=setting.values.get("learned", False))}]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Test the ranks for uniformity, and give the coverage of the bands: for the paper's memory, and a learned one."""
    known, learned = (table[table["setting"] == each.name].dropna(axis=1, how="all") for each in (PAPER, LEARNED))
    parts = [calibration(known, folder / "ranks.png"), HISTORY]
    if len(learned):
        parts += ["## A memory that is learned", *about_memory(learned, folder / "ranks_memory.png")]
    return "\n\n".join(parts)


def calibration(table: pd.DataFrame, figure: Path, draws: int = DRAWS) -> str:
    """Give coverage, divergences, ranks and their figure of one setting."""
    tested = rank_table(table)
    plot_ranks(table[list(tested.index)].astype(int), RANKED_DRAWS, figure)
    coverage = []
    for probability in COVERED:
        mean, half = mean_and_half_width(table[f"coverage {probability:.0%}"])
        coverage.append(
            ["equal-tailed", f"{probability:.0%}", f"{mean:.1%}" + ("" if half is None else f" (± {half:.1%})")]
        )
    smallest = tested["chi-square p"].min()
    diverging = table["divergences"] > 0
    return "\n\n".join(
        [
            "**Reading.** If the posterior is right, each line of the figure stays inside its grey band in 95% of such "
            "studies, and bands cover as often as they say.",
            markdown_table(["band on q(t)", "nominal", "covered (half-width of the 95% interval)"], coverage),
            f"Divergences: {int(table['divergences'].sum())} in all, in {diverging.mean():.1%} of the data sets.",
            markdown_table(
                ["quantity", "mean rank (0.5 if uniform)", "chi-square p of uniformity"],
                [[str(name), f"{row.iloc[0]:.3f}", f"{row.iloc[1]:.3f}"] for name, row in tested.iterrows()],
            ),
            f"Smallest of {len(tested)} p-values: {smallest:.4f}; a uniform truth gives one below "
            f"{0.05 / len(tested):.4f} in 5% of such studies.",
            f"![Ranks]({figure.name})",
            f"{len(table)} data sets of {N_EPISODES} episodes, parameters from `WeaklyInformativePrior()`, {CHAINS} "
            f"chains of {draws} draws each.",
        ]
    )


def about_memory(table: pd.DataFrame, figure: Path) -> list[str]:
    """Say what holds for rho, and what holds the sampler up."""
    groups = pd.cut(table["true rho"], [0, *EDGES, 1], include_lowest=True)
    rows = []
    for interval, group in table.groupby(groups, observed=True):
        mean, half = mean_and_half_width(group["rho covered"])
        covered = f"{mean:.0%}" + ("" if half is None else f" (± {half:.0%})")
        name = f"{max(interval.left, 0):g} to {interval.right:g}"
        rows.append([name, str(len(group)), covered, f"{group['rho sd'].mean():.2f}"])
    passed = table["passed"] == 1
    slowest = table["slowest"].str.replace(r"\[.*", "", regex=True).value_counts()
    told = ", ".join(f"{name} in {count / len(table):.0%}" for name, count in slowest.items())
    good = (
        ""
        if not passed.any()
        else f" (where it passed, 90% bands cover {table.loc[passed, 'coverage 90%'].mean():.1%})"
    )
    return [
        '`memory="learned"` with a clock: rho has a uniform prior and is ranked as the other parameters are.',
        calibration(table, figure, LONGER),
        markdown_table(
            ["true rho", "data sets", "90% interval of rho covers", "mean posterior sd (prior: 0.29)"], rows
        ),
        f"The sampler's own verdict, which is strict with chains as short as these, passed {passed.mean():.0%} of the "
        f"posteriors{good}. What had the smallest effective sample size: {told}. The median of rho's own is "
        f"{table['rho size'].median():.0f} of {CHAINS * LONGER}, that of the slowest parameter "
        f"{table['slowest size'].median():.0f}. So what mixes slowly are the weights beside a clock, whose sums are "
        "far larger than those of the diagnostics, and the threshold's intercept with them, not the memory: its bounds "
        "are only piecewise smooth, and it mixes best all the same. Where the verdict fails, draw more.",
        _falls_short(table),
    ]


def _falls_short(table: pd.DataFrame) -> str:
    """Say whether bands on q(t) cover what they say where the memory is learned."""
    mean, half = mean_and_half_width(table["coverage 90%"])
    if half is None or mean + half >= 0.9:
        return "Bands on q(t) cover as often as they say."
    first, second = (table.loc[half_of, "coverage 90%"].mean() for half_of in _halves(table))
    passed = table.loc[table["passed"] == 1, "coverage 90%"].mean()
    return (
        f"**What is not settled.** The ranks of the parameters are even, and 90% bands on q(t) cover {mean:.1%} (± "
        f"{half:.1%}): {first:.1%} in the first half of the data sets, {second:.1%} in the second, which was added "
        "because the first, all that there was at the time, fell short. Two reasons were looked for and not found. "
        "Bounds between memories are interpolated in the likelihood and exact in scores: over 150 of these data sets "
        "the two log-likelihoods differed by a standard deviation over the draws of 0.002 in the median and 0.045 at "
        f"most. And where the sampler's verdict passed, bands cover {passed:.1%}. Chance is the likeliest reading, and "
        "more data sets would tell; until then take such bands as one or two points too narrow."
    )


def _halves(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    second = table["replicate"] >= len(table) // 2
    return ~second, second


def rank_table(results: pd.DataFrame) -> pd.DataFrame:
    """Test every quantity's ranks for uniformity: chi-square over 20 bins."""
    ranked = [name for name in map(str, results) if name not in OTHER and not name.startswith("coverage")]
    rows = []
    for name in ranked:
        counts = np.histogram(results[name], bins=BINS, range=(0, RANKED_DRAWS + 1))[0]
        mean = (results[name].mean() + 0.5) / (RANKED_DRAWS + 1)
        rows.append((name, mean, stats.chisquare(counts).pvalue))
    return pd.DataFrame(rows, columns=["quantity", "mean rank", "chi-square p"]).set_index("quantity")


STUDY = Study(
    name="sbc",
    title="Simulation-based calibration",
    description="Whether posteriors are as wide as they should be: ranks of the true parameters, coverage of q(t).",
    settings=[PAPER, LEARNED],
    parameters={
        "episodes": N_EPISODES,
        "horizon": HORIZON,
        "chains": CHAINS,
        "draws": DRAWS,
        "tune": TUNE,
        "draws, learned memory": LONGER,
    },
    replicate=replicate,
    summarize=summarize,
    replicates=300,
    seed=20261117,
    agreement=(0.1, 12.0),
)
