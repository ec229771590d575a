"""Whether the draws can be trusted, and why not."""

from __future__ import annotations

import json
from dataclasses import dataclass

import arviz_stats
import pandas as pd
import xarray as xr

LARGEST_RHAT = 1.01
SMALLEST_ESS_PER_CHAIN = 100
SMALLEST_BFMI = 0.3
LARGEST_SATURATED_SHARE = 0.01


@dataclass(frozen=True)
class Verdict:
    """A judgement of the sampler's own diagnostics.

    Attributes
    ----------
    passed
        Whether every diagnostic is as it should be.
    sentence
        The judgement in one sentence.
    reasons
        What is wrong and what to do about it, one sentence each; empty if it passed.
    table
        R-hat, bulk and tail effective sample size of every parameter.
    """

    passed: bool
    sentence: str
    reasons: tuple[str, ...]
    table: pd.DataFrame

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"- {reason}" for reason in self.reasons)])

    def as_attrs(self) -> dict[str, str | int]:
        """Give what a DataTree's `attrs` can hold."""
        return {
            "verdict": self.sentence,
            "verdict_passed": int(self.passed),
            "verdict_reasons": json.dumps(list(self.reasons)),
        }


def judge(tree: xr.DataTree) -> Verdict:
    """Judge a posterior by R-hat, effective sample sizes, divergences, tree depth and energy.

    It passes with R-hat at most 1.01, bulk and tail effective sample sizes of at least 100 a chain, no divergence, less
    than 1% of the draws at the largest tree depth, an energy fraction (BFMI) of at least 0.3 in every chain, more
    than one chain, and no interruption.
    """
    table = _parameter_table(tree)
    statistics = tree["sample_stats"]
    chains, draws = tree["posterior"].sizes["chain"], tree["posterior"].sizes["draw"]
    least = SMALLEST_ESS_PER_CHAIN * chains
    reasons = []
    if tree.attrs.get("interrupted", 0):
        reasons.append(
            f"Sampling was interrupted after {draws} of {tree.attrs['draws']} draws a chain: run it to the end."
        )
    if chains == 1:
        reasons.append("There is one chain, so nothing shows that others would agree: use at least four.")
    elif (table["rhat"] > LARGEST_RHAT).any():
        reasons.append(
            f"R-hat of {_worst(table['rhat'], largest=True)} is above {LARGEST_RHAT}: the chains disagree; raise "
            "`tune`, and look at the trace of that parameter for several modes."
        )
    for column, name in (("ess_bulk", "Bulk"), ("ess_tail", "Tail")):
        if (table[column] < least).any():
            reasons.append(
                f"{name} effective sample size of {_worst(table[column], largest=False)} is below {least}: raise "
                "`draws`."
            )
    divergent = int(statistics["diverging"].sum())
    if divergent:
        reasons.append(
            f"{divergent} of {chains * draws} draws diverged: raise `target_accept` (0.95, 0.99); if they stay, the "
            "data say too little about some parameter and a tighter prior is needed."
        )
    saturated = float(statistics["reached_max_treedepth"].mean()) if "reached_max_treedepth" in statistics else 0.0
    if saturated > LARGEST_SATURATED_SHARE:
        reasons.append(
            f"{saturated:.1%} of the draws reached the largest tree depth: the posterior is stretched; look for "
            "diagnostics or features that nearly determine each other."
        )
    energy = float(arviz_stats.bfmi(tree)["energy"].min())
    if energy < SMALLEST_BFMI:
        reasons.append(
            f"The energy fraction (BFMI) is {energy:.2f}, below {SMALLEST_BFMI}: the tails are explored poorly; raise "
            "`tune`, or tighten the prior of s."
        )
    if reasons:
        sentence = f"Do not trust these draws yet: {len(reasons)} of the sampler's diagnostics failed."
        return Verdict(False, sentence, tuple(reasons), table)
    sentence = (
        f"The chains agree: R-hat at most {table['rhat'].max():.3f}, at least "
        f"{int(table[['ess_bulk', 'ess_tail']].min().min()):,} effective draws of every parameter, no divergence."
    )
    return Verdict(True, sentence, (), table)


def _parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    columns = {
        "rhat": arviz_stats.rhat(tree),
        "ess_bulk": arviz_stats.ess(tree, method="bulk"),
        "ess_tail": arviz_stats.ess(tree, method="tail"),
    }
    return pd.DataFrame({name: _by_parameter(found) for name, found in columns.items()})


def _by_parameter(found: xr.DataTree | xr.Dataset) -> pd.Series:
    """Name every scalar as ArviZ does: w[repeat], s."""
    dataset = found.to_dataset() if isinstance(found, xr.DataTree) else found
    values: dict[str, float] = {}
    for name, array in dataset.data_vars.items():
        if array.ndim == 0:
            values[str(name)] = float(array)
            continue
        for label in array[array.dims[0]].values:
            values[f"{name}[{label}]"] = float(array.sel({array.dims[0]: label}))
    return pd.Series(values)


def _worst(column: pd.Series, *, largest: bool) -> str:
    name = str(column.idxmax() if largest else column.idxmin())
    value = float(column[name])
    return f"{name} ({value:.3f})" if largest else f"{name} ({value:.0f})"
