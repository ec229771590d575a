"""Whether the point estimate stands for the posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.model.settings import settings_of
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.plots.checks import draw_map_agreement
from bayes_tacit.review.plots.rows import lazily

NAME = "MAP against posterior"
LIMIT = float(np.sqrt(3))


def check_map_agreement(tree: xr.DataTree, fit: MapFit) -> CheckResult:
    """Compare a point estimate with the posterior means, in posterior standard deviations.

    It passes if no parameter's estimate is more than sqrt(3) sds from its posterior mean. The mode of a distribution
    with one mode is never further than that from its mean (Johnson and Rogers, 1951), so a larger distance is not
    skewness: a penalty that the posterior does not know, a second mode, or a run that went wrong. A weight near zero
    is skewed, and comes to about 1.

    Parameters
    ----------
    tree
        A posterior.
    fit
        A point estimate of the same model on the same episodes. Its penalty should be no stronger than the prior:
        `ridge = 1 / (2 n sd**2)` is a Normal(0, sd) prior on the coefficients.
    """
    _require_same_model(tree, fit)
    posterior = group_of(tree, "posterior")
    rows: dict[str, tuple[float, float, float]] = {}
    for parameter, dim in (
        ("w", "diagnostic"), ("gamma0", None), ("gamma", "feature"), ("beta0", None), ("beta", "feature"), ("s", None),
    ):  # fmt: skip
        if parameter not in posterior:
            continue
        mean, sd = (
            np.atleast_1d(getattr(posterior[parameter], how)(("chain", "draw")).values) for how in ("mean", "std")
        )
        labels = [parameter] if dim is None else [f"{parameter}[{name}]" for name in posterior[dim].values]
        rows |= dict(zip(labels, zip(np.atleast_1d(getattr(fit, parameter)), mean, sd, strict=True), strict=True))
    if "rho" in posterior:
        rows["rho"] = (fit.memory, float(posterior["rho"].mean()), float(posterior["rho"].std()))
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["map", "mean", "sd"]).rename_axis("parameter")
    table["z"] = (table["map"] - table["mean"]) / table["sd"]
    worst = str(table["z"].abs().idxmax())
    size = abs(float(table["z"][worst]))
    if size <= LIMIT:
        sentence = (
            f"The point estimate stands for the posterior: at most {size:.2f} posterior sds from the mean ({worst}; "
            f"limit {LIMIT:.2f})."
        )
        return CheckResult(NAME, True, table, sentence, figure=lazily(draw_map_agreement, table, LIMIT))
    off = int((table["z"].abs() > LIMIT).sum())
    sentence = (
        f"The point estimate of {worst} is {size:.2f} posterior sds from the mean (limit {LIMIT:.2f}; {off} of "
        f"{len(table)} parameters are beyond it)."
    )
    return CheckResult(NAME, False, table, sentence, _advice(fit), lazily(draw_map_agreement, table, LIMIT))


def _advice(fit: MapFit) -> str:
    otherwise = "look at the traces for a second mode, and decide by the posterior, not by the estimate."
    if not fit.ridge:
        return otherwise.capitalize()
    scale = 1 / np.sqrt(2 * fit.n_episodes * fit.ridge)
    return (
        f"The fit's ridge of {fit.ridge:g} is a Normal(0, {scale:.2g}) prior on the coefficients: fit again with a "
        f"smaller one. If that is not it, {otherwise}"
    )


def _require_same_model(tree: xr.DataTree, fit: MapFit) -> None:
    posterior, constant = group_of(tree, "posterior"), group_of(tree, "constant_data")
    learned = "w" in posterior
    features = constant["feature"].values.tolist() if "feature" in constant.coords else []
    diagnostics = (posterior if learned else constant)["diagnostic"].values.tolist()
    settings = settings_of(tree)
    pairs: list[tuple[str, object, object]] = [
        ("family", fit.family, settings["family"]),
        ("timing", fit.timing, settings["timing"]),
        ("unmarked", fit.unmarked, settings.get("unmarked", "outcome")),
        ("memory", "learned" if "rho" in posterior else fit.memory, settings.get("memory", 1.0)),
        ("n_episodes", fit.n_episodes, constant.sizes["episode"]),
        ("n_timed", fit.n_timed, constant.sizes["timed"]),
        ("feature_names", list(fit.feature_names), features),
        ("diagnostic_names", list(fit.diagnostic_names), diagnostics),
    ]
    if len(diagnostics) > 1:
        pairs.append(("weights_fixed", fit.weights_fixed, not learned))
    for field, given, expected in pairs:
        if given != expected:
            raise InvalidDataError(f"{expected!r}, as in the posterior", field=f"{field} of the fit", value=given)
    for field in ("feature_mean", "feature_scale"):
        if fit.feature_names and not np.allclose(getattr(fit, field), constant[field].values):
            raise InvalidDataError(
                f"{constant[field].values.tolist()}, as in the posterior: both must be fitted on the same episodes",
                field=f"{field} of the fit",
                value=np.asarray(getattr(fit, field)).tolist(),
            )
