"""A fit as a table that a person reads."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit.estimates.map_fit.intervals import normal_interval, weight_interval
from bayes_tacit.estimates.map_fit.values import FittedValues
from bayes_tacit.html import render, table_of
from bayes_tacit.model.families import family_named

LIMIT = float(special.chdtri(1, 0.05)) / 2
"""Nats by which a log-likelihood may be below its maximum inside a 95% interval of one parameter."""


def as_frame(fit: FittedValues) -> pd.DataFrame:
    """One row a parameter, indexed as ArviZ names them."""
    names, parts = [], []
    for parameter, labels in _labels(fit).items():
        estimate, error = np.atleast_1d(getattr(fit, parameter)), np.atleast_1d(fit.standard_errors[parameter])
        interval = weight_interval if parameter == "w" else normal_interval
        names += [parameter if label is None else f"{parameter}[{label}]" for label in labels]
        parts.append(np.column_stack([estimate, error, *interval(estimate, error)]))
    columns = ["estimate", "se", "lower_95", "upper_95"]
    return pd.DataFrame(np.concatenate(parts), columns=columns, index=pd.Index(names, name="parameter"))


def _labels(fit: FittedValues) -> dict[str, tuple[str | None, ...]]:
    return {
        "w": fit.diagnostic_names,
        "gamma0": (None,),
        "gamma": fit.feature_names,
        "beta0": (None,),
        "beta": fit.feature_names,
        "s": (None,),
    }


def as_text(fit: FittedValues) -> str:
    """Heading, table and a line on the optimizer."""
    frame = as_frame(fit).map(lambda value: f"{value: .4f}" if np.isfinite(value) else "--")
    body = frame.reset_index().to_string(index=False, justify="right")
    return "\n".join([_heading(fit), "", body, "", *_footer(fit)])


def as_html(fit: FittedValues) -> str:
    """Give the same for Jupyter."""
    frame = as_frame(fit)
    table = table_of(frame, "", formats=dict.fromkeys(frame.columns, ".4f"))
    return render("fit.html", heading=_heading(fit), table=table, footer=_footer(fit))


def _heading(fit: FittedValues) -> str:
    penalty = f"ridge {fit.ridge:g}" if fit.ridge else "no penalty"
    if fit.prior is not None:
        penalty = f"prior {json.loads(fit.prior)['name']}"
    return (
        f"MapFit: {fit.n_episodes} episodes, {fit.n_timed} of them timed, {penalty}, "
        f"{family_named(fit.family).label} threshold, {fit.timing} timing{_memory(fit)}"
    )


def _memory(fit: FittedValues) -> str:
    return (f", memory {fit.memory:.3g}" if fit.memory != 1 else "") + (", with a clock" if fit.clock else "")


def _profile(fit: FittedValues) -> str:
    """Say which memories are as likely, how far behind the paper's is, and whether windows without mass decided."""
    behind = {point.memory: fit.n_episodes * (point.objective - fit.objective) for point in fit.profile}
    near = [memory for memory, nats in behind.items() if nats <= LIMIT]
    said = (
        f"memory {fit.memory:.3g} by profile likelihood: of {len(behind)} that were tried, those from {min(near):.3g} "
        f"to {max(near):.3g} are within {LIMIT:.2g} nats of it, the limit of a 95% interval"
    )
    if fit.memory != 1:
        said += f"; memory 1 is {behind[1.0]:.1f} nats behind"
    empty = sum(point.floored > len(fit.floored) for point in fit.profile)
    if empty:
        said += (
            f"; at {empty} of them windows have no mass and count with the floor, which decides against those: with a "
            "clock every window has mass"
        )
    return said


def _footer(fit: FittedValues) -> list[str]:
    best = fit.objective
    agreeing = sum(restart.objective - best < 1e-6 for restart in fit.restarts)
    lines = [
        f"objective {best:.6f}, gradient {fit.gradient_norm:.1e}, {agreeing} of {len(fit.restarts)} starts agree, "
        f"{len(fit.floored)} episodes floored",
        "w sums to 1; gamma and beta are per standard deviation of a feature",
    ]
    if fit.profile:
        lines.append(_profile(fit))
    if fit.unmarked == "due":
        lines.append("AB = 01 without a window counts as due by the end of the rollout")
    if fit.weights_fixed:
        lines.append("w was given, not learned")
    return lines
