"""How well models predict: leave-one-out, models side by side, and the memory that they need."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from scipy import sparse, special, stats

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError, TacitError, TacitWarning
from bayes_tacit.estimates.completion import (
    RESOLUTION,
    completed,
    evidence_of,
    linear_predictors,
    pointwise_log_likelihood,
    prior_of,
    scale_at,
    weakly_informative,
)
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import LOGLOGISTIC, NUMPY
from bayes_tacit.model.likelihood import threshold_log_likelihood
from bayes_tacit.model.memory import CLOCK
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review import style
from bayes_tacit.review.findings import CheckResult, group_of, unjudged
from bayes_tacit.review.plots import tails
from bayes_tacit.review.style import Panel, draw_rows, lazily

LOO, COMPARISON, MEMORY = "Leave-one-out", "Model comparison", "Memory"
BESIDE_PAPER, BY_LIKELIHOOD = "Memory beside the paper's", "Memory by likelihood"
LARGEST_K = 0.7
HIGHEST_DRAWN = 2.0
"""Pareto k above which all are drawn alike."""
MOST_MATCHED = 10
"""Of more episodes with too large a k the model is wrong about some, and no moving of draws helps."""
MOST_DRAWS, NODES = 400, 15
SHOWN = 10
CLEAR = 2.0
"""Standard errors of the difference beyond which one model is said to predict better."""
SMALL = 4.0
"""Difference in elpd below which models predict alike, and its standard error is too small (Sivula et al., 2020)."""
PROBABILITY = 0.9
FULL = 0.95
"""Memories above it count as the paper's: a tenth of a sign is left after 45 steps or more."""
FEWER = 10.0
"""By how much the data must thin out the prior above `FULL` before the paper's assumption is said not to hold."""
NARROWED = 0.8
"""Largest sd of the posterior, as a part of the prior's, at which the data are said to know the memory."""
PAPER = "rho = 1"
GAIN = 1.92
"""Gain in log likelihood that one more number brings by chance in 5% of the cases: half of chi-square's 3.84."""


def check_loo(tree: xr.DataTree) -> CheckResult:
    """Estimate leave-one-out predictive accuracy (PSIS-LOO), and name what it cannot be trusted for.

    What is left out is the episode, its outcome and its window together; of a posterior with groups it is the group,
    whose own intercepts are integrated out, since the question is how new groups are predicted. The Pareto k says how
    much the posterior would change without it. Where k is above 0.7, beyond which the importance-sampling estimate is
    unreliable (Vehtari, Gelman and Gabry, 2017), the draws are first moved to where the posterior without that episode
    lies (moment matching; Paananen and others, 2021). It passes if no k is above 0.7 then. Of groups it is a hint:
    one of few groups moves any posterior, whether the model is right or wrong.
    """
    grouped = bool(spec_of(tree).groups)
    unit = "group" if grouped else "episode"
    try:
        elpd = _matched(tree, loo_of(by_group(tree, evidence_of(tree)) if grouped else tree))
    except TacitError:
        raise
    except ValueError as error:
        # ArviZ cannot fit the tail of weights that hardly differ, which chains that do not move give.
        sentence = f"PSIS-LOO cannot be computed from these draws: {error}"
        advice = "Look at the sampler's verdict first, and sample again."
        return CheckResult(LOO, False, pd.DataFrame(), sentence, advice)
    k = _pareto_k(elpd)
    order = k.sort_values(ascending=False).index[:SHOWN]
    columns = {"pareto_k": k[order], "elpd": elpd.elpd_i.to_series()[order]}
    table = pd.DataFrame(columns, index=pd.Index(order, name=unit))
    if not grouped:
        timed = set(group_of(tree, "log_likelihood")["timed"].values.tolist())
        table["timed"] = [episode in timed for episode in order]
    bad = k[k > LARGEST_K].sort_values(ascending=False)
    summary = f"elpd {elpd.elpd:.1f} (se {elpd.se:.1f}), {elpd.p:.1f} effective parameters"
    drawn = lazily(_draw_loo, k, unit)
    if bad.empty:
        sentence = f"{summary}; no {unit} decides the fit: Pareto k is at most {k.max():.2f} (limit {LARGEST_K})."
        return CheckResult(LOO, True, table, sentence, figure=drawn)
    worst = ", ".join(f"{name} ({value:.2f})" for name, value in bad.head(5).items())
    sentence = (
        f"{summary}, not to be trusted: Pareto k is above {LARGEST_K} for {len(bad)} of {len(k)} {unit}s, worst for "
        f"{worst}."
    )
    normal = spec_of(tree).family != LOGLOGISTIC.name
    heavier = "try the log-logistic family, whose tails forgive a far window; or " if normal else ""
    advice = (
        f"Look at those {unit}s first: a wrong window or outcome, or an extreme feature, would do this. If they are "
        f"right, {heavier}refit without them, and see what moves."
    )
    return CheckResult(LOO, None if grouped else False, table, sentence, advice, drawn, hint=grouped)


def _draw_loo(k: pd.Series, unit: str) -> Figure:
    """Draw Pareto k of every unit, and name those above the limit."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    values, position = k.clip(upper=HIGHEST_DRAWN).to_numpy(), np.arange(len(k))
    bad = values > LARGEST_K
    axis.scatter(position[~bad], values[~bad], s=5, color=style.SCORE, alpha=0.6, lw=0)
    axis.scatter(position[bad], values[bad], s=16, color=style.DECISION)
    for at in position[bad][np.argsort(-values[bad])][:5]:
        name = style.literal(k.index[at])
        axis.annotate(name, (at, values[at]), xytext=(4, 3), textcoords="offset points")
    axis.axhline(LARGEST_K, color=style.DECISION, lw=1, ls="--", label=f"limit {LARGEST_K}")
    axis.set(xlabel=f"{unit}, in the order of the data", ylabel="Pareto k")
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def loo_of(tree: xr.DataTree) -> Any:  # noqa: ANN401  arviz_stats is untyped
    """Estimate leave-one-out accuracy, of whatever is the last dim of `total`."""
    total = group_of(tree, "log_likelihood")["total"].transpose("chain", "draw", ...)
    finite = np.isfinite(total.values).all(axis=(0, 1))
    if not finite.all():
        episode = total[total.dims[2]].values[~finite][0]
        raise InvalidDataError(
            "finite values in every draw", episode=episode, field="log_likelihood['total']", value="not finite"
        )
    # Large Pareto k are in the result.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter of Pareto distribution")
        return arviz_stats.loo(tree, var_name="total", pointwise=True)


def by_group(tree: xr.DataTree, evidence: Evidence) -> xr.DataTree:
    r"""Return a posterior whose `log_likelihood` is that of each group, its own intercepts integrated out.

    Outcomes and windows are independent given the parameters, and so are a group's two intercepts: each integral,
    :math:`\int \prod_i p(y_i | \theta, \sigma z) \, d\Phi(z)`, is of one dimension. Gauss-Hermite quadrature takes
    it, with nodes where the posterior of that intercept lies.
    """
    posterior = group_of(tree, "posterior")
    every = -(-posterior.sizes["draw"] * posterior.sizes["chain"] // MOST_DRAWS)
    some = posterior.isel(draw=slice(None, None, every))
    assert evidence.grouping is not None
    position, (node, weight) = evidence.grouping.position, np.polynomial.hermite_e.hermegauss(NODES)
    size = some.sizes["group"]
    members = sparse.csr_array((np.ones(evidence.n), (position, np.arange(evidence.n))), shape=(size, evidence.n))
    without = some.assign({f"{name}_offset": 0 * some[f"{name}_offset"] for name in ("gamma", "beta")})
    logit, location, flat = linear_predictors(without, evidence)
    sign = np.where(evidence.strong_success, 1.0, -1.0)

    def outcomes(draw: int, shift: np.ndarray) -> np.ndarray:
        found: np.ndarray = special.log_expit(sign * (logit[draw] + shift))
        return found

    def masses(draw: int, shift: np.ndarray) -> np.ndarray:
        at = evidence.at_memory(float(flat["rho"][draw])) if flat["rho"].size else evidence
        w = flat["w"][draw] if flat["w"].size and evidence.weights is None else np.ones(1)
        found = np.zeros(evidence.n)
        moved = location[draw] + shift[evidence.timed]
        found[evidence.timed] = threshold_log_likelihood(at, w, moved, scale_at(flat, evidence, draw), NUMPY)
        return found

    total = np.zeros((len(logit), size))
    for name, of in (("gamma", outcomes), ("beta", masses)):
        offset, spread = some[f"{name}_offset"], some[f"{name}_spread"].values.ravel()
        center, sd = (getattr(offset, how)(("chain", "draw")).values for how in ("mean", "std"))
        z = center + sd * node[:, None]
        log_weight = np.log(weight / weight.sum())[:, None] + np.log(sd) + (node[:, None] ** 2 - z**2) / 2
        for draw in range(len(logit)):
            parts = np.stack([members @ of(draw, spread[draw] * at[position]) for at in z])
            total[draw] += special.logsumexp(parts + log_weight, axis=0)
    coords = {name: some[name].values for name in ("chain", "draw", "group")}
    values = total.reshape(some.sizes["chain"], some.sizes["draw"], size)
    likelihood = xr.Dataset({"total": (("chain", "draw", "group"), values)}, coords=coords)
    return xr.DataTree.from_dict({"posterior": some, "log_likelihood": likelihood})


def _matched(tree: xr.DataTree, elpd: Any) -> Any:  # noqa: ANN401
    """Move the draws to where the posterior lies without an episode, for the few whose Pareto k is too large."""
    bad = int((_pareto_k(elpd) > LARGEST_K).sum())
    posterior, spec = group_of(tree, "posterior"), spec_of(tree)
    known = {"gamma0", "gamma", "beta0", "beta", "s", "w"}
    plain = type(prior_of(tree)) is WeaklyInformativePrior and set(map(str, posterior.data_vars)) <= known
    if not 0 < bad <= MOST_MATCHED or not plain or spec.groups or spec.memory == "learned":
        return elpd
    evidence, constant, prior = evidence_of(tree), group_of(tree, "constant_data"), prior_of(tree)
    assert isinstance(prior, WeaklyInformativePrior)
    own = pointwise_log_likelihood(posterior.isel(draw=[0]), evidence)["total"].values
    if not np.allclose(own, group_of(tree, "log_likelihood")["total"].isel(draw=[0]).values, atol=RESOLUTION):
        # A likelihood that was computed otherwise is not ours to compute at other draws.
        return elpd

    def log_density(free: xr.DataArray) -> xr.DataArray:
        given, volume = _constrained(free, posterior)
        parts = weakly_informative(prior, given, constant, evidence).data_vars.values()
        density = volume + pointwise_log_likelihood(given, evidence)["total"].sum("episode")
        for part in parts:
            density = density + part.sum([dim for dim in part.dims if dim not in ("chain", "draw")])
        return density

    def log_likelihood(free: xr.DataArray, episode: int) -> xr.DataArray:
        return pointwise_log_likelihood(_constrained(free, posterior)[0], evidence)["total"].isel(episode=episode)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return arviz_stats.loo_moment_match(
            tree, elpd, log_density, log_likelihood, _free(posterior), var_name="total", split=False
        )


def _free(posterior: xr.Dataset) -> xr.DataArray:
    """Return the draws without bounds, (chain, draw, parameter): log s, and log weights less the last one's."""
    columns = []
    for name, array in posterior.data_vars.items():
        values = array.transpose("chain", "draw", ...).values
        if name == "s":
            values = np.log(values)
        elif name == "w":
            log_w = np.log(np.maximum(values, np.finfo(float).tiny))
            values = log_w[..., :-1] - log_w[..., -1:]
        columns.append(values.reshape(*values.shape[:2], -1))
    coords = {name: posterior[name].values for name in ("chain", "draw")}
    return xr.DataArray(np.concatenate(columns, axis=2), coords=coords, dims=("chain", "draw", "parameter"))


def _constrained(free: xr.DataArray, like: xr.Dataset) -> tuple[xr.Dataset, xr.DataArray]:
    """Return the parameters, and the log of the volume that their transformation takes."""
    values, at, out = free.transpose("chain", "draw", ...).values, 0, {}
    volume = np.zeros(values.shape[:2])
    for name, array in like.data_vars.items():
        shape = tuple(array.sizes[dim] for dim in array.dims if dim not in ("chain", "draw"))
        count = int(np.prod(shape)) - (name == "w")
        part = values[..., at : at + count]
        at += count
        if name == "s":
            volume += part[..., 0]
            part = np.exp(part)
        elif name == "w":
            part = special.softmax(np.concatenate([part, np.zeros_like(part[..., :1])], axis=-1), axis=-1)
            volume += np.log(np.maximum(part, np.finfo(float).tiny)).sum(axis=-1)
        dims = [dim for dim in array.dims if dim not in ("chain", "draw")]
        out[name] = (("chain", "draw", *dims), part.reshape(*values.shape[:2], *shape))
    coords = {name: like[name].values for name in like.coords if name in like.dims and name not in ("chain", "draw")}
    coords |= {name: free[name].values for name in ("chain", "draw")}
    return xr.Dataset(out, coords=coords), xr.DataArray(volume, coords={k: coords[k] for k in ("chain", "draw")})


def _pareto_k(elpd: Any) -> pd.Series:  # noqa: ANN401
    # Infinite where the weights are so uneven that it cannot be estimated.
    return elpd.pareto_k.to_series().fillna(np.inf)


def compare_models(trees: Mapping[str, xr.DataTree]) -> CheckResult:
    """Compare models of the same episodes by leave-one-out predictive accuracy.

    The models may differ in features, diagnostics, weights, prior, threshold family, memory and clock. They must have
    seen the same outcomes and the same windows: a difference in elpd between other data means nothing. A model is said
    to predict worse than the best one if the difference is more than 4 and more than two of its standard errors.

    A window in which some model sees no risk has no mass under it, and is dropped there if it is not refused
    (`zero_mass="drop_window"`). Such episodes are left out for all models, and counted. That flatters the model that
    dropped them: to compare on all episodes, give every model a clock.

    Parameters
    ----------
    trees
        Two or more posteriors, by the name to show for each.

    Returns
    -------
    CheckResult
        `passed` is None. `table` has one row a model, best first: `elpd`, `se`, `elpd_diff` from the best and its
        `dse`, stacking `weight`, effective parameters `p`, and the number of episodes with a Pareto k above 0.7.

    Examples
    --------
    >>> compare_models({"all features": tree, "without subgoals": smaller})  # doctest: +SKIP
    """
    if len(trees) < 2:
        raise InvalidDataError("two or more posteriors", field="models to compare", value=list(trees))
    trees = {name: completed(tree) for name, tree in trees.items()}
    (reference, one), *others = trees.items()
    for name, other in others:
        _require_same_outcomes(reference, one, name, other)
    all_ids = group_of(one, "log_likelihood")["episode"].values
    dropped = _dropped(trees)
    ids = all_ids[[episode not in dropped for episode in all_ids.tolist()]]
    if not len(ids):
        raise InvalidDataError("some episodes whose windows all models use", field="episodes to compare on", value=0)
    found = {name: loo_of(_with_episodes(tree, ids)) for name, tree in trees.items()}
    table = _table(found)
    unreliable = ", ".join(map(str, table.index[table["high_k"] > 0]))
    advice = (
        f"Pareto k is above {LARGEST_K} in {unreliable}: run check_loo on it, and mind that its elpd is probably too "
        "high."
    )
    sentence = _sentence(table)
    if dropped:
        without = ", ".join(dict.fromkeys(name for names in dropped.values() for name in names))
        sentence += (
            f" Left out are {len(dropped)} of {len(all_ids)} episodes, such as {next(iter(dropped))!r}, whose windows "
            f"have no mass in {without}, which flatters it; with clock=True in every model all episodes count."
        )
    label = "elpd less than that of the best model, with one standard error"
    series = {"_": (table["elpd_diff"], table["dse"], style.SCORE)}
    drawn = lazily(draw_rows, table.index, Panel(label, series, (), 0.0))
    return CheckResult(COMPARISON, None, table, sentence, advice if unreliable else "", drawn)


def _dropped(trees: Mapping[str, xr.DataTree]) -> dict[object, list[str]]:
    """Return the episodes that have a window in some models and none in others, with the names of the others."""
    windows = {name: _windows(tree) for name, tree in trees.items()}
    bounded = dict.fromkeys(episode for tree in trees.values() for episode in _bounded_above(tree))
    without = {episode: [name for name, found in windows.items() if episode not in found] for episode in bounded}
    return {episode: names for episode, names in without.items() if names}


def _with_episodes(tree: xr.DataTree, ids: np.ndarray) -> xr.DataTree:
    # What LOO reads, with the episodes in a common order.
    return xr.DataTree.from_dict(
        {
            "posterior": group_of(tree, "posterior"),
            "log_likelihood": group_of(tree, "log_likelihood")[["total", "timed"]].sel(episode=ids),
        }
    )


def _require_same_outcomes(reference: str, one: xr.DataTree, name: str, other: xr.DataTree) -> None:
    for setting in ("unmarked", "timing"):
        read, also = (getattr(spec_of(tree), setting) for tree in (one, other))
        if read != also:
            raise InvalidDataError(
                f"{read!r} as in {reference!r}: what the windows say is not the same otherwise",
                field=f"{setting} in {name!r}",
                value=also,
            )
    kinds = [_kind(tree) for tree in (one, other)]
    if kinds[0] != kinds[1]:
        raise InvalidDataError(
            f"one of {kinds[0]}, as {reference!r}: the others' likelihood is of another part of the data "
            "(noise=Noise() states exact outcomes as a sum over strata, too)",
            field=f"kind of {name!r}",
            value=kinds[1],
        )
    for what, by_id in (("strong_success", _outcomes), ("teacher windows", _windows)):
        expected, given = by_id(one), by_id(other)
        if what == "strong_success" and expected.keys() != given.keys():
            odd = sorted(expected.keys() ^ given.keys(), key=str)[0]
            raise InvalidDataError(
                f"the episodes of {reference!r} ({len(expected)}; one has {odd!r}, the other does not)",
                field=f"number of episodes in {name!r}",
                value=len(given),
            )
        for episode, value in expected.items():
            if episode in given and given[episode] != value:
                raise InvalidDataError(
                    f"{value} as in {reference!r}: only models of the same data can be compared",
                    episode=episode,
                    field=f"{what} in {name!r}",
                    value=given[episode],
                )


def _kind(tree: xr.DataTree) -> str:
    """Say what the likelihood is of: episodes as in the paper, records, or records and whether they were marked."""
    if "record_successes" not in group_of(tree, "constant_data"):
        return "thresholds and Strong's outcomes"
    marking = {"marked", "stray"} & set(group_of(tree, "posterior").data_vars)
    return "records and whether they are marked" if marking else "records"


def _outcomes(tree: xr.DataTree) -> dict[object, int]:
    outcome = group_of(tree, "constant_data")["strong_outcome"]
    return dict(zip(outcome["episode"].values.tolist(), outcome.values.tolist(), strict=True))


def _windows(tree: xr.DataTree) -> dict[object, tuple[int, int]]:
    constant = group_of(tree, "constant_data")
    if "window_start" not in constant:  # of records, whose likelihood is a sum over what a mark may mean
        return {}
    bounds = zip(constant["window_start"].values.tolist(), constant["window_end"].values.tolist(), strict=True)
    return dict(zip(constant["timed"].values.tolist(), bounds, strict=True))


def _bounded_above(tree: xr.DataTree) -> list[object]:
    # Those with a window that ends; of those without an upper end, one that saw no risk says nothing.
    constant = group_of(tree, "constant_data")
    if "window_start" not in constant:
        return []
    timed: list[object] = constant["timed"].values.tolist()
    return timed[: int(constant["n_left"]) + int(constant["n_interval"])]


def _table(found: dict[str, Any]) -> pd.DataFrame:
    with warnings.catch_warnings():
        # Of equal models, the difference has no standard error to divide by.
        warnings.filterwarnings("ignore", message="invalid value encountered", category=RuntimeWarning)
        compared = arviz_stats.compare(found, round_to="none")
    table = compared[["elpd", "se", "elpd_diff", "dse", "weight", "p"]].astype(float)
    table["high_k"] = [int((_pareto_k(found[name]) > LARGEST_K).sum()) for name in table.index]
    return table.rename_axis("model")


def _sentence(table: pd.DataFrame) -> str:
    best = table.index[0]
    others = table.iloc[1:]
    worse = others[(others["elpd_diff"].abs() > SMALL) & (others["elpd_diff"].abs() > CLEAR * others["dse"])]
    alike = others.index.difference(worse.index, sort=False)
    parts = []
    if len(worse):
        listed = "; ".join(f"{name} by {-row['elpd_diff']:.1f} (se {row['dse']:.1f})" for name, row in worse.iterrows())
        parts.append(f"{best} predicts better than {listed}")
    if len(alike):
        parts.append(f"{', '.join(map(str, alike))} cannot be told from {best}")
    return "; ".join(parts) + "."


def check_memory(tree: xr.DataTree) -> CheckResult:
    r"""Check a learned memory, rho, and the paper's rho = 1 against the data.

    The paper's R(t) is a sum, so it forgets nothing. That assumption is said not to hold if the posterior puts less
    than a tenth of what the prior does on memories above 0.95, and to hold if it puts more there than the prior.

    It passes if the posterior of rho is narrower than its prior (sd at most 0.8 of it), whatever the memory; otherwise
    it is not judged, since the data say too little. What the paper's model loses in prediction, `compare_models` says.
    """
    posterior = group_of(tree, "posterior")
    if "rho" not in posterior:
        expected = "a posterior with a learned memory: sample_posterior(..., memory='learned', clock=True)"
        raise InvalidDataError(expected, field="memory", value=spec_of(tree).memory)
    rho, own, ends = posterior["rho"].values.ravel(), prior_of(tree), tails(PROBABILITY)
    prior = stats.beta(*(getattr(own, name, 1.0) for name in ("memory_kept", "memory_lost")))
    lower, upper = np.quantile(rho, ends)
    full, before = float((rho > FULL).mean()), float(prior.sf(FULL))
    table = pd.DataFrame(
        [[rho.mean(), rho.std(), lower, upper, full], [prior.mean(), prior.std(), *prior.ppf(ends), before]],
        index=pd.Index(["posterior", "prior"], name="rho"),
        columns=["mean", "sd", f"{ends[0]:.0%}", f"{ends[1]:.0%}", f"above {FULL}"],
    )
    mean, known = float(rho.mean()), bool(rho.std() <= NARROWED * prior.std())
    sentence = (
        f"rho is {mean:.2f} ({PROBABILITY:.0%} between {lower:.2f} and {upper:.2f}): {_left(mean)}. "
        f"{_verdict(full, before)}: {full:.1%} of its posterior is above {FULL}, and {before:.1%} of its prior."
    )
    advice = (
        "" if known else "The data say little of the memory: hold it fixed (1 is the paper's), or collect more marks."
    )
    return CheckResult(MEMORY, known or None, table, sentence, advice, lazily(_draw_memory, rho, prior.pdf))


def _draw_memory(rho: np.ndarray, prior: Callable[[np.ndarray], np.ndarray]) -> Figure:
    """Draw the posterior of a learned memory from 0 to 1, with its prior."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    inside = np.linspace(0.005, 0.995, 199)
    axis.hist(rho, bins=50, range=(0, 1), density=True, color=style.SCORE, alpha=0.75, label="posterior")
    axis.plot(inside, prior(inside), color=style.PREDICTED, linestyle="--", label="prior")
    axis.axvline(1.0, color=style.DECISION, linewidth=1.5, label="the paper: nothing is forgotten")
    axis.set(xlabel="memory rho", ylabel="density", xlim=(0, 1.01))
    style.legend_beside(axis)
    return figure


def _left(rho: float) -> str:
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


def check_beside_paper(tree: xr.DataTree, paper: xr.DataTree) -> CheckResult:
    """Compare a posterior whose memory is learned, or held below 1, with that of the paper's rho = 1 by LOO.

    Both must have seen the same outcomes and windows; where a window has no mass in one of them, its episode is left
    out for both and counted. With a clock in both there are none. `paper` is the posterior of the same model with
    `memory=1`, as `bayes_tacit.estimates.posterior.with_paper_memory` samples it. There is nothing to pass.
    """
    own, other = (spec_of(each).memory for each in (tree, paper))
    if other != 1 or own == 1:
        expected = "a posterior with memory 1, to compare one with another memory with"
        raise InvalidDataError(expected, field="memories", value=[own, other])
    name = "learned memory" if own == "learned" else f"rho = {own:g}"
    found = compare_models({name: tree, PAPER: paper})
    loss = float(found.table["elpd"][name] - found.table["elpd"][PAPER])
    by = f"{abs(loss):.1f} (se {float(found.table['dse'].max()):.1f})"
    sentence = f"{name} predicts {'better' if loss > 0 else 'worse'} than {PAPER} by {by} in leave-one-out elpd"
    if spec_of(tree).clock != spec_of(paper).clock:
        sentence += "; one of them has a clock besides, so the difference is not the memory's alone"
    return replace(found, name=BESIDE_PAPER, sentence=f"{sentence}: {found.sentence}", hint=True)


def check_by_likelihood(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """Check by the likelihood of the same evidence whether another memory than the paper's explains it better.

    It is a hint that costs no sampling: penalized point estimates at many memories, the paper's among them. Each has a
    clock, so that every window has mass at every memory, and all estimates explain the same outcomes and windows. It
    passes if no memory gains more than chance does, and is not judged otherwise. `table` has one row a memory: its log
    likelihood minus the paper's.
    """
    prior = prior_of(tree)
    slope = prior.incidence_slope if isinstance(prior, WeaklyInformativePrior) else 1.0
    options: dict[str, Any] = {"restarts": 1, "memory": "profile", "clock": True, "zero_mass": None, "weights": None}
    try:
        fit = quiet_fit(tree, episodes, ridge=1 / (2 * len(episodes) * slope**2), **options)
    except (ConvergenceError, EvidenceError) as error:
        return unjudged(BY_LIKELIHOOD, f"There is no point estimate to ask: {error}", hint=True)
    return _preferred(fit, len(episodes))


def quiet_fit(tree: xr.DataTree, episodes: Episodes, **options: Any) -> MapFit:  # noqa: ANN401  as for fit_map
    """Fit the model of a posterior by `fit_map`, without the warnings, which its checks repeat."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return fit_map(episodes, spec=spec_of(tree), floor=None, **options)


def can_profile_memory(tree: xr.DataTree) -> bool:
    """Check whether `check_by_likelihood` applies: the memory is the paper's, and a clock can be added."""
    spec = spec_of(tree)
    learned = "w" in group_of(tree, "posterior")
    weighed = group_of(tree, "posterior" if learned else "constant_data")["diagnostic"].values.tolist()
    own = weighed[:-1] if spec.clock else weighed
    plain = spec.memory == 1 and spec.groups is None and spec.spread == "same"
    return plain and (learned or len(weighed) == 1) and CLOCK not in own


def _preferred(fit: MapFit, n: int) -> CheckResult:
    gains = pd.Series({point.memory: -n * point.objective for point in fit.profile or ()})
    gains -= gains[1.0]
    gain = float(gains[fit.memory])
    table = pd.DataFrame({"log likelihood": gains}).rename_axis("rho")
    rounded = table[[memory in (1.0, fit.memory) or round(10 * memory, 9) % 1 == 0 for memory in table.index]]
    drawn = lazily(_draw_profile, gains)
    beside = "with a clock in all of them, so that the same windows count"
    if gain <= GAIN:
        where = (
            "the paper's rho = 1"
            if fit.memory == 1
            else f"rho = {fit.memory:g}, by {gain:.1f} above the paper's rho = 1, which chance may give (limit {GAIN})"
        )
        sentence = (
            f"The likelihood of outcomes and windows is highest at {where} ({beside}); nothing speaks against rho = 1."
        )
        return CheckResult(BY_LIKELIHOOD, True, rounded, sentence, figure=drawn, hint=True)
    sentence = (
        f"The likelihood of outcomes and windows is highest at rho = {fit.memory:g}, {gain:.1f} above the paper's "
        f"rho = 1, where chance gives more than {GAIN} in 5% of the cases ({beside})."
    )
    advice = 'Past signs seem to fade: sample with memory="learned" and clock=True, whose report compares both by LOO.'
    return CheckResult(BY_LIKELIHOOD, None, rounded, sentence, advice, drawn, hint=True)


def _draw_profile(gains: pd.Series) -> Figure:
    """Draw the log likelihood by memory, minus that of the paper's."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    axis.plot(gains.index, gains, "o-", color=style.SCORE, markersize=4, label="best fit at each memory")
    axis.axhline(GAIN, color=style.DECISION, linewidth=1.2, linestyle="--", label=f"limit {GAIN}")
    axis.axhline(0, color=style.CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="memory rho (1: the paper, nothing is forgotten)", ylabel="log likelihood\nabove the paper's")
    # Memories that are far worse would hide what is near.
    low, high = float(gains[np.isfinite(gains)].min()), float(gains.max())
    axis.set(xlim=(0, 1.01), ylim=(max(low, -2 * max(high, 10.0)) - 1, max(2 * GAIN, 1.1 * high)))
    style.legend_beside(axis)
    return figure
