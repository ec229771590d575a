"""All checks of a posterior in one call, and those of the sampler, the outcomes, the priors and the estimate.

A check takes a posterior `tree`, and most the `episodes` that it was fitted on; what it returns is a `CheckResult`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError
from bayes_tacit.estimates.completion import AS_SEEN, EARLIER, completed, log_prior, prior_of
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.estimates.verdict import LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN, judge
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review import comparison, crossings, oddities, style, trends
from bayes_tacit.review.comparison import (
    check_beside_paper,
    check_by_likelihood,
    check_loo,
    check_memory,
    compare_models,
)
from bayes_tacit.review.crossings import check_crossing_steps, check_structure
from bayes_tacit.review.findings import (
    LEVEL,
    ROUNDING,
    CheckResult,
    Headline,
    cut,
    envelope,
    evenly,
    flat_draws,
    group_of,
    headline,
    names_in,
    require_same_data,
    span,
    too_few,
)
from bayes_tacit.review.oddities import bound_assumptions, check_calibration, check_data, check_dependence
from bayes_tacit.review.plots import mean_incidence
from bayes_tacit.review.style import OBSERVED, PREDICTED, SCORE, Panel, draw_rows, lazily
from bayes_tacit.review.trends import check_trends
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import computed, score_kernel

__all__ = [
    "CheckResult",
    "Headline",
    "bound_assumptions",
    "check_beside_paper",
    "check_by_likelihood",
    "check_calibration",
    "check_crossing_steps",
    "check_data",
    "check_dependence",
    "check_incidence_calibration",
    "check_loo",
    "check_map_agreement",
    "check_memory",
    "check_prior_sensitivity",
    "check_sampler",
    "check_structure",
    "check_trends",
    "check_weights",
    "compare_models",
    "headline",
    "run_checks",
]

SAMPLER, INCIDENCE, SENSITIVITY = "Sampler", "Incidence calibration", "Prior sensitivity"
AGREEMENT, WEIGHTS, RECORDS = "MAP against posterior", "Prior of the weights", "Records"
TENTHS = np.arange(1, 10) / 10
NOT_JUDGED = "The draws are not to be trusted, so nothing follows from them."
PREDICTED_PI = "predicted pi"
MOST_BINS, MOST_BINS_OF_A_FEATURE = 10, 5
FEWEST_EPISODES = 20
"""Episodes in a bin, where there are enough for two."""
LARGEST_SENSITIVITY, DECIDING_SENSITIVITY = 0.05, 0.5
"""The authors' limit, beyond which the prior matters, and where it counts against the posterior: right models of a
hundred tasks come to 0.3, and their bands hold."""
FEWEST_PER_PARAMETER = 10
"""Timed episodes for each parameter that the prior matters to, below which more data are the only good advice."""
FARTHEST = float(np.sqrt(3))
"""Posterior sds from the mean beyond which no mode of a distribution with one mode is."""
MOST_MOVED, TOO_FAR = 0.1, 0.2
"""Posterior sds of q(t) that it may move by on average when the prior's concentration is halved, and where that counts
against the posterior: right models of a hundred tasks come to 0.18, twenty diagnostics that mean little to 0.25."""
MOST_DRAWS, MOST_EPISODES = 500, 300
SMALL_WEIGHT = 0.5
"""Part of an equal weight below which a diagnostic is named as one to leave out."""
TINY = 1e-300
ENOUGH = 0.6
"""Part of the standard errors of crossings by covariate from which on a trend counts as their cause."""


def run_checks(
    tree: xr.DataTree, episodes: Episodes, fit: MapFit | None = None, paper: xr.DataTree | None = None
) -> list[CheckResult]:
    """Run every check of a posterior, the sampler's first.

    The weights are checked only where they are learned.

    Of the memory there are three: where it is learned, what its posterior says (`check_memory`); with `paper`, how well
    it predicts beside the paper's rho = 1 (`check_beside_paper`); and where it is the paper's, whether the likelihood
    prefers another one (`check_by_likelihood`), a hint that costs no sampling.

    Where there is no point estimate, as of groups, that is a hint too: it says nothing against the posterior.

    Where the sampler's check fails, no other one passes: what would have passed is not judged, and what cannot be
    computed says so.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes it was fitted on.
    fit
        The point estimate to compare with; a warning says if it names other data. By default one is made whose penalty
        is the posterior's own prior on gamma.
    paper
        For a posterior with another memory than 1, that of the same model with rho = 1
        (`bayes_tacit.estimates.posterior.with_paper_memory` samples it): both are compared by LOO.

    Raises
    ------
    InvalidDataError
        If the posterior was fitted on other episodes.

    Examples
    --------
    >>> for result in run_checks(tree, episodes):  # doctest: +SKIP
    ...     print(result)
    """
    tree = completed(tree, episodes)
    require_same_data(tree, episodes)
    if fit is not None:
        warn_of_other_data(fit, episodes)
    spec, constant, posterior = spec_of(tree), group_of(tree, "constant_data"), group_of(tree, "posterior")
    # A sum over the stratum has no crossing step of its own, no one outcome of Strong's, and no estimate of its masses.
    noisy, records = spec.noise is not None, "record_successes" in constant
    plain = not noisy and not records
    learned = "rho" in posterior
    table: list[tuple[str, bool, Callable[[], CheckResult]]] = [
        (crossings.CROSSING_STEPS, plain, lambda: check_crossing_steps(tree, episodes)),
        (crossings.BY_COVARIATE, plain, lambda: check_structure(tree, episodes)),
        (trends.TRENDS, plain, lambda: check_trends(tree, episodes)),
        (oddities.DEPENDENCE, plain, lambda: check_dependence(tree, episodes)),
        (oddities.ODDITIES, not records, lambda: check_data(tree, episodes)),
        (INCIDENCE, not records, lambda: check_incidence_calibration(tree)),
        (comparison.LOO, True, lambda: check_loo(tree)),
        (SENSITIVITY, True, lambda: check_prior_sensitivity(tree)),
        (AGREEMENT, not noisy, lambda: _agreement(tree, episodes, fit)),
        (WEIGHTS, "w" in posterior and _weakly_informed(tree), lambda: check_weights(tree, episodes)),
        (comparison.MEMORY, learned, lambda: check_memory(tree)),
        (
            comparison.BY_LIKELIHOOD,
            not noisy and not learned and comparison.can_profile_memory(tree),
            lambda: check_by_likelihood(tree, episodes),
        ),
        (comparison.BESIDE_PAPER, paper is not None and not noisy, lambda: check_beside_paper(tree, paper)),  # type: ignore[arg-type]
        (oddities.ASSUMED, True, lambda: bound_assumptions(tree, episodes)),
        (RECORDS, noisy, lambda: check_records(tree)),
    ]
    sampler = check_sampler(tree)
    due = [(name, check) for name, applies, check in table if applies]
    if sampler.passed:
        return _one_cause([sampler, *(check() for _, check in due)])
    return _one_cause([sampler, *(_of_sick_draws(name, check) for name, check in due)])


def _one_cause(results: list[CheckResult]) -> list[CheckResult]:
    """Keep the advice of one of the checks that see the same fault in their own ways.

    A trend names what is wrong with the data more closely, so it gives way only to crossings by covariate that are far
    worse; and crossing steps, which see that something is wrong and not what, give way to both.
    """
    failed = {result.name: result for result in results if result.passed is False}
    if named := [name for name in (trends.TRENDS, crossings.BY_COVARIATE) if name in failed]:
        if len(named) == 2:
            trend, covariate = (float(failed[name].table["z"].abs().max()) for name in named)
            named.sort(key=lambda name: (name == trends.TRENDS) != (trend >= ENOUGH * covariate))
        advice = f"One fault shows in many places: see {named[0]!r} first."
        weaker = {*named[1:], *([crossings.CROSSING_STEPS] if crossings.CROSSING_STEPS in failed else [])}
        return [replace(result, advice=advice) if result.name in weaker else result for result in results]
    return results


def check_records(tree: xr.DataTree) -> CheckResult:
    """Check where each record lies in its predictive distribution, for a model whose outcomes or marks are noisy.

    Records are ordered as the group `posterior_predictive` has them; the share of draws that come earlier, plus a
    random part of those that come out the same, is uniform over the records if the model is right (the randomized
    probability integral transform). It passes if a test of Kolmogorov and Smirnov has p of at least 1%.
    """
    draws = flat_draws(group_of(tree, "posterior_predictive")["total"])
    rng = np.random.default_rng(0)
    place = (draws == EARLIER).mean(axis=0) + rng.random(draws.shape[1]) * (draws == AS_SEEN).mean(axis=0)
    p_value = float(stats.kstest(place, "uniform").pvalue)
    table = pd.DataFrame({"place": np.quantile(place, TENTHS)}, index=pd.Index(TENTHS, name="share of the records"))
    passed = p_value >= LEVEL
    sentence = (
        f"The places of {len(place)} records in their predictive distributions "
        f"{'look' if passed else 'do not look'} uniform (p = {p_value:.2g}, limit {LEVEL})."
    )
    advice = "" if passed else "Try another family, or learn rates that are held fixed, and compare by LOO."
    return CheckResult(RECORDS, passed, table, sentence, advice, decisive=True, p_value=p_value)


def _weakly_informed(tree: xr.DataTree) -> bool:
    # Whether the prior is one whose weights have a concentration; a tree may have lost what it was.
    try:
        return type(prior_of(tree)) is WeaklyInformativePrior
    except InvalidDataError:
        return False


def _of_sick_draws(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    # It cannot pass, and says what it cannot compute.
    try:
        with warnings.catch_warnings():
            # Sick draws break arithmetic and libraries in ways that are not ours to list.
            warnings.simplefilter("ignore")
            found = check()
    except Exception as error:
        sentence = f"It could not be computed from these draws: {str(error).rstrip('.') or type(error).__name__}."
        return CheckResult(name, None, pd.DataFrame(), sentence)
    if not found.passed:
        return found
    return replace(found, passed=None, sentence=f"{NOT_JUDGED} As they are: {found.sentence}")


def _agreement(tree: xr.DataTree, episodes: Episodes, fit: MapFit | None) -> CheckResult:
    """Compare with a point estimate; if none was passed, make one whose penalty is the prior on gamma."""
    if fit is not None:
        return check_map_agreement(tree, fit)
    spec = spec_of(tree)
    if spec.groups is not None or spec.spread != "same":
        what = "groups" if spec.groups is not None else "a spread by features"
        sentence = f"There is no point estimate of {what} to compare with."
        return CheckResult(AGREEMENT, None, pd.DataFrame(), sentence, hint=True)
    prior = prior_of(tree)
    own = type(prior) is not WeaklyInformativePrior
    learned = "rho" in tree["posterior"]
    try:
        made = comparison.quiet_fit(
            tree,
            episodes,
            # The estimate by formulas takes a second less than the one that has to compile a prior of its own.
            ridge=0.01 if own else 1 / (2 * len(episodes) * prior.incidence_slope**2),  # type: ignore[attr-defined]
            prior=prior if own else None,
            zero_mass="drop_window" if spec.clock or not learned else None,
            memory="profile" if learned else spec.memory,
        )
    except (ConvergenceError, EvidenceError) as error:
        sentence = f"There is no point estimate to compare with: {error}"
        advice = "Decide by the posterior; nothing is wrong with it on that account."
        return CheckResult(AGREEMENT, None, pd.DataFrame(), sentence, advice, hint=True)
    return check_map_agreement(tree, made)


def check_sampler(tree: xr.DataTree) -> CheckResult:
    """Check R-hat, effective sample sizes, divergences, tree depth and energy; see `judge` for the limits."""
    group_of(tree, "sample_stats")
    verdict = judge(tree)
    chains = group_of(tree, "posterior").sizes["chain"]
    table = verdict.table.rename_axis("parameter")
    sizes = {"bulk": (table["ess_bulk"], None, SCORE), "tail": (table["ess_tail"], None, PREDICTED)}
    panels = (
        Panel("R-hat", {"_": (table["rhat"], None, SCORE)}, (LARGEST_RHAT,), np.nan),
        Panel("effective sample size", sizes, (SMALLEST_ESS_PER_CHAIN * chains,)),
    )
    drawn = lazily(draw_rows, table.index, *panels)
    return CheckResult(SAMPLER, verdict.passed, table, verdict.sentence, " ".join(verdict.reasons), drawn)


def check_incidence_calibration(tree: xr.DataTree) -> CheckResult:
    """Check the share of episodes in which Strong succeeds, by bins of predicted pi and of every feature.

    Episodes are put into bins with equally many each (up to 10 by the posterior mean of pi, up to 5 by a feature; a
    feature with few values is binned by value). The observed share in every bin is compared with the shares in
    replicated data sets from the posterior predictive distribution.

    It passes if at least 1% of the replicates have a bin as far from its predicted share, in predictive sds, as the
    worst observed one. The worst bin is compared with the worst bin, so the number of bins and features does not
    matter. The interval in the table is the band that holds 99% of the replicates in all bins at once.
    """
    draws = flat_draws(group_of(tree, "replicates")["strong_success"])
    constant = group_of(tree, "constant_data")
    observed = constant["strong_outcome"].values
    if few := too_few(INCIDENCE, draws):
        return few
    x = constant["features"].values if "features" in constant else np.zeros((len(observed), 0))
    fitted = as_draws(tree)
    if fitted.n_ungrouped < len(fitted.feature_names):
        position = constant["group_position"].values
        x = np.column_stack([x, np.eye(len(fitted.feature_names) - fitted.n_ungrouped)[position]])
    values = {PREDICTED_PI: mean_incidence(fitted.draws, x)}
    if names := names_in(constant):
        raw = constant["features"].values * constant["feature_scale"].values + constant["feature_mean"].values
        values |= dict(zip(names, raw.T, strict=True))
    bins = []
    for name, column in values.items():
        most = MOST_BINS if name == PREDICTED_PI else MOST_BINS_OF_A_FEATURE
        count = int(np.clip(len(column) // FEWEST_EPISODES, 2, most))
        bins += [(name, span(column[mask]), mask) for mask in cut(column, evenly(count))]
    members = np.stack([mask for *_, mask in bins])
    size = members.sum(axis=1)
    share = members @ observed / size
    band = envelope((draws.astype(float) @ members.T) / size)
    p_value = band.p_value(share)
    table = pd.DataFrame(
        {
            "by": [name for name, *_ in bins],
            "bin": [label for _, label, _ in bins],
            "middle": [float(values[name][mask].mean()) for name, _, mask in bins],
            "episodes": size,
            "observed": share,
            "predicted": band.mean,
            "lower": band.lower,
            "upper": band.upper,
            "inside": (share >= band.lower - ROUNDING) & (share <= band.upper + ROUNDING),
        }
    )
    passed = p_value >= LEVEL
    return CheckResult(
        INCIDENCE,
        passed,
        table,
        _incidence_sentence(table, p_value),
        "" if passed else _incidence_advice(table),
        lazily(_draw_incidence, table),
        decisive=True,
        p_value=p_value,
    )


def _incidence_sentence(table: pd.DataFrame, p_value: float) -> str:
    z = ((table["observed"] - table["predicted"]).abs() / (table["upper"] - table["lower"])).fillna(0)
    worst = table.iloc[int(z.to_numpy().argmax())]
    return (
        f"Strong's observed success rate lies in the predicted band in {int(table['inside'].sum())} of {len(table)} "
        f"bins; the worst is {worst['by']} {worst['bin']}, where {worst['observed']:.0%} succeed and "
        f"{worst['predicted']:.0%} were predicted (p = {p_value:.2g})."
    )


def _incidence_advice(table: pd.DataFrame) -> str:
    names = table.loc[~table["inside"], "by"].unique().tolist()
    features = [name for name in names if name != PREDICTED_PI]
    what = f"the effect of {', '.join(features)}" if features else "the effect of the features"
    return (
        f"pi is not to be taken at face value: {what} on Strong's success is not linear on the logit scale. Add a "
        "transformed feature (a square, a logarithm, an indicator), or one for the kind of task that is off."
    )


def _draw_incidence(table: pd.DataFrame) -> Figure:
    """Draw observed and predicted shares by bins of each variable; that of pi is predicted by itself."""
    names = table["by"].unique()
    columns = style.in_a_row(min(4, len(names)), narrow=2)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(style.page_width(), (2.2 if style.is_narrow() else 3.0) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for panel, name in zip(panels, names, strict=False):
        part = table[table["by"] == name]
        middle, predicted = part["middle"], part["predicted"]
        half = np.stack([predicted - part["lower"], part["upper"] - predicted]).clip(min=0)
        panel.errorbar(middle, predicted, yerr=half, fmt="_", color=PREDICTED, capsize=3, label="predicted, 99%")
        panel.scatter(middle, part["observed"], color=OBSERVED, s=22, zorder=3, label="observed")
        panel.set(xlabel=style.literal(name))
        if name == PREDICTED_PI:
            panel.axline((0.5, 0.5), slope=1, color=style.CEILING, linewidth=1, zorder=0)
            panel.set(xlim=(0, 1), ylim=(0, 1))
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for panel in panels[::columns]:
        panel.set_ylabel("Strong succeeds")
    style.legend_under(panels[0])
    return figure


def check_prior_sensitivity(tree: xr.DataTree) -> CheckResult:
    """Check by power scaling whether the prior matters.

    The prior is raised to powers near 1 and the draws are reweighted accordingly; the sensitivity of a parameter is
    how fast its posterior moves (Kallioinen et al., 2024). The same is done with the likelihood. It passes if no
    parameter's prior sensitivity is above 0.05, the authors' limit, and fails if one is above 0.5; between them it is
    a hint, as of few data with any proper prior. If the likelihood's is above 0.05 too, prior and data pull apart; if
    not, the data say little and the prior decides.
    """
    table = _sensitivities(tree)
    sensitive = table[table["prior"] > LARGEST_SENSITIVITY].sort_values("prior", ascending=False)
    series = {"likelihood": (table["likelihood"], None, PREDICTED), "prior": (table["prior"], None, SCORE)}
    panel = Panel("sensitivity to power scaling", series, (LARGEST_SENSITIVITY,))
    drawn = lazily(draw_rows, table.index, panel)
    if sensitive.empty:
        worst = table["prior"].idxmax()
        size = f"{table['prior'].max():.3f} ({worst}; limit {LARGEST_SENSITIVITY})"
        sentence = f"The data decide: the prior sensitivity is at most {size}."
        return CheckResult(SENSITIVITY, True, table, sentence, figure=drawn)
    listed = ", ".join(f"{name} ({value:.2f})" for name, value in sensitive["prior"].head(5).items())
    sentence = (
        f"The prior matters for {len(sensitive)} of {len(table)} parameters: {listed} (limit {LARGEST_SENSITIVITY})."
    )
    advice = _prior_advice(sensitive, int(group_of(tree, "log_likelihood").sizes["timed"]))
    little = bool(sensitive["prior"].max() <= DECIDING_SENSITIVITY)
    return CheckResult(SENSITIVITY, None if little else False, table, sentence, advice, drawn, hint=little)


def _sensitivities(tree: xr.DataTree) -> pd.DataFrame:
    posterior = group_of(tree, "posterior")
    posterior = posterior.drop_vars([name for name in posterior.data_vars if str(name).endswith("_offset")])
    groups = {"posterior": posterior, "log_likelihood": group_of(tree, "log_likelihood")[["total"]]}
    scaled = xr.DataTree.from_dict(groups | {"log_prior": log_prior(tree)})
    # The diagnosis below says more than ArviZ's own, which a threshold that nothing reaches keeps out of the log.
    found = arviz_stats.psense_summary(scaled, threshold=np.inf, likelihood_var_names="total", round_to=6)
    table = found[["prior", "likelihood"]].astype(float)
    by_prior, by_data = (table[source] > LARGEST_SENSITIVITY for source in ("prior", "likelihood"))
    told = ["prior and data pull apart", "the prior decides"]
    table["diagnosis"] = np.select([by_prior & by_data, by_prior], told, "the data decide")
    return table.rename_axis("parameter")


def _prior_advice(sensitive: pd.DataFrame, timed: int) -> str:
    if timed < FEWEST_PER_PARAMETER * len(sensitive):
        return (
            f"There are {timed} timed episodes: collect and mark more before anything else. Until then say that the "
            f"posterior of {', '.join(map(str, sensitive.index))} leans on the prior."
        )
    parts = []
    for diagnosis, what in (
        ("prior and data pull apart", "If the prior of {} was not meant to be that tight, widen it and sample again."),
        ("the prior decides", "More or narrower windows, or fewer features, would tell more about {}; until then say "
         "that its posterior leans on the prior."),
    ):  # fmt: skip
        names = sensitive.index[sensitive["diagnosis"] == diagnosis]
        if len(names):
            parts.append(what.format(", ".join(map(str, names))))
    return " ".join(parts)


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
    label = "point estimate, in posterior sds from the mean"
    panel = Panel(label, {"_": (table["z"], None, OBSERVED)}, (-FARTHEST, FARTHEST), 0.0)
    drawn = lazily(draw_rows, table.index, panel)
    if size <= FARTHEST:
        sentence = (
            f"The point estimate stands for the posterior: at most {size:.2f} posterior sds from the mean ({worst}; "
            f"limit {FARTHEST:.2f})."
        )
        return CheckResult(AGREEMENT, True, table, sentence, figure=drawn)
    off = int((table["z"].abs() > FARTHEST).sum())
    sentence = (
        f"The point estimate of {worst} is {size:.2f} posterior sds from the mean (limit {FARTHEST:.2f}; {off} of "
        f"{len(table)} parameters are beyond it)."
    )
    otherwise = "look at the traces for a second mode, and decide by the posterior, not by the estimate."
    advice = otherwise.capitalize()
    if fit.ridge:
        advice = (
            f"The fit's ridge of {fit.ridge:g} is a Normal(0, {1 / np.sqrt(2 * fit.n_episodes * fit.ridge):.2g}) prior "
            f"on the coefficients: fit again with a smaller one. If that is not it, {otherwise}"
        )
    return CheckResult(AGREEMENT, False, table, sentence, advice, drawn)


def _require_same_model(tree: xr.DataTree, fit: MapFit) -> None:
    posterior, constant = group_of(tree, "posterior"), group_of(tree, "constant_data")
    learned = "w" in posterior
    features = constant["feature"].values.tolist() if "feature" in constant.coords else []
    diagnostics = (posterior if learned else constant)["diagnostic"].values.tolist()
    spec = spec_of(tree)
    pairs: list[tuple[str, object, object]] = [
        ("family", fit.family, spec.family),
        ("timing", fit.timing, spec.timing),
        ("unmarked", fit.unmarked, spec.unmarked),
        ("memory", "learned" if "rho" in posterior else fit.memory, spec.memory),
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


def check_weights(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check how far q(t) would move if the prior let the weights differ more.

    With many diagnostics a Dirichlet(1) prior says that each weight is small and none is zero. If most mean nothing and
    the data are few, they keep a part of the weight all the same, and the bands of q(t) cover less than they say though
    every prediction looks right. Power scaling does not show it, since that prior is flat.

    Halving the concentration c moves the posterior mean of q(t), to first order, by

    .. math:: -c \log 2 \, \operatorname{Cov}(q(t), \textstyle\sum_j \log w_j).

    It passes if the average size of that, over checkpoints and in posterior sds of q(t), is at most 0.1, and fails if
    it is above 0.2; between them it is a hint.
    """
    require_same_data(tree, episodes)
    prior = prior_of(tree)
    if not isinstance(prior, WeaklyInformativePrior):
        raise InvalidDataError("a WeaklyInformativePrior", field="prior of the tree", value=prior)
    concentration = prior.concentration
    fitted = as_draws(tree).thinned(MOST_DRAWS)
    moved = moved_by_halving(fitted, episodes, concentration)
    w = group_of(tree, "posterior")["w"]
    table = pd.DataFrame(
        {"mean": w.mean(("chain", "draw")).values, "sd": w.std(("chain", "draw")).values},
        index=pd.Index(w["diagnostic"].values.tolist(), name="weight of"),
    )
    table["equal weights"] = 1 / len(table)
    passed = bool(moved <= MOST_MOVED)
    timed = int(group_of(tree, "constant_data").sizes["timed"])
    sentence = (
        f"Were the concentration of the weights' prior {concentration / 2:g} instead of {concentration:g}, q(t) would "
        f"move by {moved:.2f} of its posterior sd on average (limit {MOST_MOVED})"
        + ("." if passed else f": {len(table)} weights are not learned from {timed} timed episodes, and the bands of ")
        + ("" if passed else "q(t) cover less than they say.")
    )
    advice = "" if passed else _weights_advice(table, concentration)
    little = not passed and moved <= TOO_FAR
    equal = "equal weights"
    panel = Panel("weight w", {"mean, one sd": (table["mean"], table["sd"], SCORE)}, (1 / len(table),), None, equal)
    drawn = lazily(draw_rows, table.index, panel)
    return CheckResult(WEIGHTS, None if little else passed, table, sentence, advice, drawn, hint=little)


def moved_by_halving(fitted: Fitted, episodes: Episodes, concentration: float) -> float:
    """Compute by how many sds q(t) moves on average when the concentration is halved."""
    some = np.unique(np.linspace(0, len(episodes) - 1, MOST_EPISODES).round().astype(int))
    features, diagnostics = (array.isel(episode=some).values for array in fitted.columns_of(episodes))
    q = computed(score_kernel(fitted), fitted.draws, features, diagnostics)
    inside = np.arange(q.shape[2]) < episodes.n_steps[some][:, None]
    scores = q[:, inside]
    spread = np.log(np.maximum(fitted.draws.w, TINY)).sum(axis=1)
    covariance = (spread - spread.mean()) @ (scores - scores.mean(axis=0)) / len(scores)
    sd = scores.std(axis=0)
    known = sd > sd.max() * 1e-6
    return float(np.log(2) * concentration * np.abs(covariance[known] / sd[known]).mean())


def _weights_advice(table: pd.DataFrame, concentration: float) -> str:
    small = table.index[table["mean"] < SMALL_WEIGHT / len(table)]
    leave = f" (the smallest weights: {', '.join(map(str, table['mean'].nsmallest(3).index))})" if len(small) else ""
    sparser = concentration * min(0.5, 5 / len(table))
    return (
        f"Leave out diagnostics that mean nothing{leave} and compare by LOO, or mark more episodes. If many are likely "
        f"to mean nothing, sample with `WeaklyInformativePrior(concentration={sparser:.2g})`, which takes some three "
        "times as many draws."
    )
