"""The page of the stability study: what its tables say, in words that follow from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from simulations.stability.bound import Constants
from simulations.stability.constants import POPULATION, SEARCH
from simulations.stability.contamination import WRONG_MARKS, WRONG_OUTCOMES
from simulations.studies.stability_figure import plot
from simulations.studies.stability_tables import (
    cell,
    constants_table,
    factors_table,
    large_table,
    powers_table,
    scaling_table,
    score_table,
    shares_table,
    sizes_table,
    slack_table,
)
from simulations.studies.stability_words import (
    SLACK_SIZE,
    advice,
    failures,
    reading,
    what_is_above,
    what_more_tasks_do,
    what_the_estimate_is,
    what_the_large_sample_says,
    where_conditions_hold,
    where_slack_is,
)

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
