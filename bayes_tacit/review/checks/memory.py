"""How long the memory is, where it is learned, and whether the paper's assumption that nothing is forgotten holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.plots.checks import draw_memory
from bayes_tacit.review.plots.rows import lazily

NAME = "Memory"
PROBABILITY = 0.9
FULL = 0.95
"""Memories above it count as the paper's: a tenth of a sign is left after 45 steps or more."""
FEWER = 10.0
"""By how much the data must thin out the prior above `FULL` before the paper's assumption is said not to hold."""
NARROWED = 0.8
"""Largest sd of the posterior, as a part of the prior's, at which the data are said to know the memory."""


def check_memory(tree: xr.DataTree) -> CheckResult:
    r"""Check what the data say of a learned memory, rho, and of the paper's rho = 1.

    The paper's R(t) is a sum, so it forgets nothing. That assumption is said not to hold if the posterior puts less
    than a tenth of what the prior does on memories above 0.95, and to hold if it puts more there than the prior.

    It passes if the posterior of rho is narrower than its prior (sd at most 0.8 of it), whatever the memory; otherwise
    it is not judged, since the data say too little. What the paper's model loses in prediction, `compare_models` says.

    Parameters
    ----------
    tree
        A posterior that was sampled with `memory="learned"`.
    """
    posterior = group_of(tree, "posterior")
    if "rho" not in posterior:
        expected = "a posterior with a learned memory: sample_posterior(..., memory='learned', clock=True)"
        raise InvalidDataError(expected, field="memory", value=tree.attrs.get("memory", 1.0))
    rho = posterior["rho"].values.ravel()
    own = prior_of(tree)
    prior = stats.beta(*(getattr(own, name, 1.0) for name in ("memory_kept", "memory_lost")))
    tails = [(1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2]
    lower, upper = np.quantile(rho, tails)
    full, before = float((rho > FULL).mean()), float(prior.sf(FULL))
    table = pd.DataFrame(
        [
            [rho.mean(), rho.std(), lower, upper, full],
            [prior.mean(), prior.std(), *prior.ppf(tails), before],
        ],
        index=pd.Index(["posterior", "prior"], name="rho"),
        columns=["mean", "sd", f"{tails[0]:.0%}", f"{tails[1]:.0%}", f"above {FULL}"],
    )
    mean, known = float(rho.mean()), bool(rho.std() <= NARROWED * prior.std())
    sentence = (
        f"rho is {mean:.2f} ({PROBABILITY:.0%} between {lower:.2f} and {upper:.2f}): {_left(mean)}. "
        f"{_verdict(full, before)}: {full:.1%} of its posterior is above {FULL}, and {before:.1%} of its prior."
    )
    advice = (
        "" if known else "The data say little of the memory: hold it fixed (1 is the paper's), or collect more marks."
    )
    return CheckResult(NAME, True if known else None, table, sentence, advice, lazily(draw_memory, rho, prior.pdf))


def _left(rho: float) -> str:
    """Say what a memory means for a sign that was seen."""
    after = np.log(0.5) / np.log(rho) if 0 < rho < 1 else 0.0
    return (
        f"half of a sign is forgotten after {after:.1f} steps" if after >= 1 else "most of a sign is gone a step later"
    )


def _verdict(posterior: float, prior: float) -> str:
    subject = "The paper's assumption that nothing is forgotten (rho = 1)"
    if posterior < prior / FEWER:
        return f"{subject} does not hold on these data"
    if posterior > prior:
        return f"{subject} agrees with these data"
    return f"{subject} can be neither upheld nor ruled out by these data"
