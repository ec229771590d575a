"""Whether the draws can be trusted, and why not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.html import render, table_of

LARGEST_RHAT = 1.01
SMALLEST_ESS_PER_CHAIN = 100
SMALLEST_BFMI = 0.3
LARGEST_SATURATED_SHARE = 0.01
FEWEST_DRAWS = 4  # with fewer draws a chain, R-hat and effective sample sizes are not defined


@dataclass(frozen=True, repr=False)
class Verdict:
    """A judgement of the sampler's own diagnostics.

    Attributes
    ----------
    passed, sentence
        Whether every diagnostic is as it should be, and that in one sentence.
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

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same for Jupyter, with the table."""
        formats = {"ess_bulk": ".0f", "ess_tail": ".0f"}
        table = table_of(self.table.rename_axis("parameter"), "", formats=formats)
        return render("verdict.html", sentence=self.sentence, reasons=self.reasons, table=table)

    def as_attrs(self) -> dict[str, str | int]:
        """Return what a DataTree's `attrs` can hold."""
        return {
            "verdict": self.sentence,
            "verdict_passed": int(self.passed),
            "verdict_reasons": json.dumps(list(self.reasons)),
        }


def judge(tree: xr.DataTree) -> Verdict:
    """Judge the sampler's draws by R-hat, effective sample sizes, divergences, tree depth and energy.

    It says whether the draws are those of the posterior, and nothing of whether the model is right: that is what
    `run_checks` and the `headline` of its results say. It passes with R-hat at most 1.01, bulk and tail effective
    sample sizes of at least 100 a chain, no divergence, at most 1% of the draws at the largest tree depth, an energy
    fraction (BFMI) of at least 0.3 in every chain, more than one chain, and no interruption. Draws that are NaN or
    infinite, a chain that does not move, and a diagnostic that cannot be computed fail. The diagnostics are ArviZ's
    (`arviz_stats.diagnose`).
    """
    posterior = tree["posterior"].to_dataset()
    with warnings.catch_warnings():
        # Of sick draws ArviZ divides zero by zero; what comes of it is named below.
        warnings.simplefilter("ignore", RuntimeWarning)
        table = _parameter_table(tree)
        _, found = arviz_stats.diagnose(
            tree, bfmi_threshold=SMALLEST_BFMI, show_diagnostics=False, return_diagnostics=True
        )
    sick = {name: fault for name, values in _scalars(posterior) if (fault := _fault(values))}
    reasons = (
        *_length(tree),
        *(f"{name} {fault}" for name, fault in sick.items()),
        *_agreement(table.drop(index=list(sick)), posterior.sizes["chain"], posterior.sizes["draw"]),
        *_transitions(found),
    )
    if reasons:
        sentence = f"Do not trust these draws yet: {len(reasons)} of the sampler's diagnostics failed."
        return Verdict(False, sentence, reasons, table)
    sentence = (
        f"The chains agree: R-hat at most {table['rhat'].max():.3f}, at least "
        f"{int(table[['ess_bulk', 'ess_tail']].min().min()):,} effective draws of every parameter, no divergence."
    )
    return Verdict(True, sentence, (), table)


def _length(tree: xr.DataTree) -> Iterator[str]:
    """Say whether the run is too short, or of one chain, to be judged at all."""
    chains, draws = tree["posterior"].sizes["chain"], tree["posterior"].sizes["draw"]
    if tree.attrs.get("interrupted", 0):
        yield f"Sampling was interrupted after {draws} of {tree.attrs['draws']} draws a chain: run it to the end."
    if chains == 1:
        yield "There is one chain, so nothing shows that others would agree: use at least four."
    if draws < FEWEST_DRAWS:
        yield f"There are {draws} draws a chain, too few for any diagnostic: raise `draws` to 1000."


def _fault(values: np.ndarray) -> str:
    """Say what is wrong with the draws (chain, draw) of a parameter in themselves; nothing if they can be compared."""
    odd = int((~np.isfinite(values)).sum())
    if odd:
        return (
            f"is NaN or infinite in {odd} of {values.size} draws: the sampler broke down; look for diagnostics or "
            "features with extreme values, and sample again."
        )
    if values.shape[1] < FEWEST_DRAWS:
        return ""
    still = np.flatnonzero(np.ptp(values, axis=1) == 0)
    if not still.size:
        return ""
    which = "any chain" if still.size == len(values) else f"chain {', '.join(map(str, still))}"
    return f"does not move in {which}: the sampler is stuck; raise `tune` and sample again with another seed."


def _agreement(table: pd.DataFrame, chains: int, draws: int) -> Iterator[str]:
    """Compare R-hat and effective sample sizes with their limits; what is not a number is not within them."""
    if draws < FEWEST_DRAWS or table.empty:
        return
    if chains > 1 and not (table["rhat"] <= LARGEST_RHAT).all():
        yield (
            f"R-hat of {_worst(table['rhat'], largest=True)} is above {LARGEST_RHAT}: the chains disagree; raise "
            "`tune`, and look at the trace of that parameter for several modes."
        )
    least = SMALLEST_ESS_PER_CHAIN * chains
    for column, name in (("ess_bulk", "Bulk"), ("ess_tail", "Tail")):
        if not (table[column] >= least).all():
            yield (
                f"{name} effective sample size of {_worst(table[column], largest=False)} is below {least}: raise "
                "`draws`."
            )


def _transitions(found: dict[str, Any]) -> Iterator[str]:
    """Judge the sampler's own statistics, as `arviz_stats.diagnose` gives them; a posterior may lack some."""
    if "divergent" in found and found["divergent"]["n_divergent"]:
        yield (
            f"{found['divergent']['n_divergent']} of {found['divergent']['total_samples']} draws diverged: raise "
            "`target_accept` (0.95, 0.99); if they stay, the data say too little about some parameter and a tighter "
            "prior is needed."
        )
    if "treedepth" in found and found["treedepth"]["pct"] > 100 * LARGEST_SATURATED_SHARE:
        yield (
            f"{found['treedepth']['pct']:.1f}% of the draws reached the largest tree depth: the posterior is "
            "stretched; look for diagnostics or features that nearly determine each other."
        )
    if "bfmi" not in found:
        return
    energy = float(np.min(found["bfmi"]["bfmi_values"]))
    if np.isnan(energy):
        yield "The energy fraction (BFMI) cannot be computed: the energy of a chain is NaN or constant; sample again."
    elif energy < SMALLEST_BFMI:
        yield (
            f"The energy fraction (BFMI) is {energy:.2f}, below {SMALLEST_BFMI}: the tails are explored poorly; raise "
            "`tune`, or tighten the prior of s."
        )


def _parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    columns = {
        "rhat": arviz_stats.rhat(tree),
        "ess_bulk": arviz_stats.ess(tree, method="bulk"),
        "ess_tail": arviz_stats.ess(tree, method="tail"),
    }
    return pd.DataFrame(
        {
            column: {name: float(value) for name, value in _scalars(found.to_dataset())}
            for column, found in columns.items()
        }
    )


def _scalars(dataset: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every scalar parameter under ArviZ's name for it, such as w[repeat] or s, with what is known of it."""
    for name, array in dataset.data_vars.items():
        dims = [dim for dim in array.dims if dim not in ("chain", "draw")]
        for values in array.stack(scalar=dims).transpose("scalar", ...) if dims else [array]:  # noqa: PD013
            label = ", ".join(str(values[dim].item()) for dim in dims)
            yield f"{name}[{label}]" if dims else str(name), values.values


def _worst(column: pd.Series, *, largest: bool) -> str:
    """Name the parameter with the worst value; one that is not a number is worse than any."""
    missing = column.index[column.isna()]
    name = str(missing[0] if len(missing) else column.idxmax() if largest else column.idxmin())
    value = float(column[name])
    return f"{name} ({value:.3f})" if largest else f"{name} ({value:.0f})"
