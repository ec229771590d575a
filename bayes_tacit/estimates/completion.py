"""What a posterior holds beside its draws, computed from them in NumPy: log-likelihoods, log prior, predictions.

`sample_posterior` adds these groups, and `completed` adds them to what was sampled from `build_model` by other means.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from math import isqrt
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special, stats

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.model.compiled import FAMILIES, row_masses
from bayes_tacit.model.design import Grouping, Standardization
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import CrossingSteps, Table, crossing_steps, log_bounds, log_mass, records_in
from bayes_tacit.model.memory import PeakGrid
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_from_json
from bayes_tacit.model.spec import COORDINATE, settings_of, spec_of
from bayes_tacit.model.strata import ARRAYS, Noise, Records, logs_of, mixed_mass, stratum_terms

FORMAT = "bayes_tacit.posterior"
SCHEMA_VERSION = 1

RESOLUTION = 2.0**-13
"""Log-likelihoods are kept as multiples of it, in single precision: a third of the bytes of all their digits."""

EARLIER, AS_SEEN, LATER = 1, 2, 3
"""Where a predictive draw lies in the order of when a handoff is due, beside what was seen of the episode."""

REPLICATES = 500
SEED = 0
EXPECTED = "as a trace of build_model(...) has it, by sample_posterior or pymc.sample"

STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "step_size": "step_size",
    "n_steps": "n_steps",
    "depth": "tree_depth",
    "tree_depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "reached_max_treedepth": "reached_max_treedepth",
    "mean_tree_accept": "acceptance_rate",
    "acceptance_rate": "acceptance_rate",
    "logp": "lp",
    "lp": "lp",
}
"""Sampler statistics that are kept, under ArviZ's names."""


def completed(tree: xr.DataTree, episodes: Episodes | None = None) -> xr.DataTree:
    """Add what `sample_posterior` would have kept, as far as the tree holds what that takes.

    Parameters
    ----------
    tree
        A posterior of `sample_posterior`, which is returned as it is, or a trace that `pymc.sample` made of
        `build_model(...)`, also after something was added to the model. The log-likelihoods of `strong_success` and
        `threshold`, and predictive draws of them, are taken from it if it has them, and computed from the model's own
        parameters otherwise.
    episodes
        The training episodes, without which crossing steps cannot be drawn.

    Raises
    ------
    InvalidDataError
        With what is missing.
    """
    if not isinstance(tree, xr.DataTree):
        raise InvalidDataError(f"a DataTree, {EXPECTED}", field="tree", value=tree)
    if tree.attrs.get("format") == FORMAT:
        return tree
    posterior, constant = _needed(tree)
    evidence = evidence_of(tree)
    groups = {name: tree[name].to_dataset() for name in tree.children}
    if "sample_stats" in groups:
        groups["sample_stats"] = kept_statistics(groups["sample_stats"])
    groups["constant_data"] = constant.drop_vars(["settings", COORDINATE], errors="ignore")
    total = _given_likelihood(groups, evidence, posterior) or pointwise_log_likelihood(posterior, evidence)
    groups["log_likelihood"] = rounded(total)
    given = groups.get("posterior_predictive", xr.Dataset())
    drawn = ["strong_success"] if evidence.records is not None else ["strong_success", "threshold"]
    if set(drawn) <= set(given.data_vars):
        groups["replicates"] = given[drawn]
    elif episodes is not None:
        crossing = crossing_steps(episodes, evidence)
        groups["replicates"] = replicates(
            thinned(posterior, REPLICATES), evidence, crossing, np.random.default_rng(SEED)
        )
    groups["posterior_predictive"] = seen_or_not(posterior, evidence, np.random.default_rng(SEED))[["total"]]
    groups["observed_data"] = as_seen(evidence)
    out = xr.DataTree.from_dict({name: group.drop_attrs() for name, group in groups.items()})
    sizes = posterior.sizes
    out.attrs = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "inference_method": str(tree.attrs.get("inference_method", "nuts")),
        "sampler": str(tree["posterior"].attrs.get("inference_library", "pymc")),
        "draws": sizes["draw"],
        "chains": sizes["chain"],
        "created_at": str(tree["posterior"].attrs.get("created_at", datetime.now(UTC).isoformat(timespec="seconds"))),
        "bayes_tacit_version": version("bayes_tacit"),
        **settings_of(tree),
    }
    prior = prior_of(out)
    if type(prior) is WeaklyInformativePrior and "log_prior" not in groups:
        out["log_prior"] = xr.DataTree(weakly_informative(prior, posterior, groups["constant_data"], evidence))
    if "sample_stats" in groups:
        out.attrs |= judge(out).as_attrs()
    return out


def _needed(tree: xr.DataTree) -> tuple[xr.Dataset, xr.Dataset]:
    for name in ("posterior", "constant_data"):
        if name not in tree.children:
            raise InvalidDataError(
                f"a group {name!r}, {EXPECTED}", field="groups of the tree", value=list(tree.children)
            )
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    settings = settings_of(tree)
    if "family" not in settings:
        expected = f"'settings' among them, {EXPECTED}"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    parameters = ["gamma0", "beta0", "s", *(["gamma", "beta"] if "feature_mean" in constant else [])]
    parameters += ["w"] if "w" not in constant else []
    parameters += ["delta"] if settings.get("spread") == "features" and "feature_mean" in constant else []
    parameters += ["rho"] if "memory_nodes" in constant else []
    parameters += ["gamma_spread", "gamma_offset", "beta_spread", "beta_offset"] if settings.get("groups") else []
    for name in parameters:
        if name not in posterior:
            expected = f"{name!r} among them, {EXPECTED}"
            raise InvalidDataError(expected, field="variables of posterior", value=list(posterior.data_vars))
    return posterior, constant


def evidence_of(tree: xr.DataTree) -> Evidence:
    """Read the evidence back from what a model carries as constant data."""
    constant, spec = tree["constant_data"].to_dataset(), spec_of(tree)
    counts = ("n_left", "n_interval")
    for name in ("strong_outcome", "timed_position", "diagnostics_before", "diagnostics_within", *counts):
        if name not in constant:
            expected = f"{name!r} among them, {EXPECTED}"
            raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    before, within = constant["diagnostics_before"].values, constant["diagnostics_within"].values
    grid = None
    if "memory_nodes" in constant:
        nodes = constant["memory_nodes"].values
        grid = PeakGrid(nodes, before, within, constant["typical_log_threshold"].values)
        before, within = before[-1], within[-1]
    episode = constant["episode"].values
    features = constant["features"].values if "features" in constant else np.zeros((len(episode), 0))
    names = tuple(constant["feature"].values.tolist()) if "feature" in constant.coords else ()
    mean, scale = (
        constant[name].values if name in constant else np.zeros(0) for name in ("feature_mean", "feature_scale")
    )
    timed, left, interval = constant["timed_position"].values, int(constant["n_left"]), int(constant["n_interval"])
    records: dict[str, Any] = {}
    if "record_successes" in constant:
        arrays = {name: constant[f"record_{name}"].values for name in ARRAYS}
        arrays |= {name: arrays[name].astype(bool) for name in ("cheap_success", "marked", "unmarked")}
        records = {"records": Records(spec.noise or Noise(), **arrays)}
        records |= {"rollout": constant["record_row"].values, "kind": constant["record_kind"].values}
    fixed = constant["w"].values if "w" in constant and before.shape[-1] == 1 else None
    return Evidence(
        episode=episode,
        strong_success=constant["strong_outcome"].values.astype(bool),
        features=features,
        standardization=Standardization(mean, scale, np.zeros(len(mean), dtype=bool)),
        timed=timed,
        before=before,
        within=within,
        n_left=left,
        n_interval=interval,
        n_right=len(timed) - left - interval,
        zero_mass=np.zeros(0, dtype=int),
        weights=fixed,
        feature_names=names,
        diagnostic_names=tuple(constant["diagnostic"].values.tolist()) if "diagnostic" in constant.coords else (),
        spec=spec,
        grid=grid,
        grouping=None if spec.groups is None else Grouping(spec.groups, (), constant["group_position"].values),
        **records,
    )


def _given_likelihood(groups: dict[str, xr.Dataset], evidence: Evidence, posterior: xr.Dataset) -> xr.Dataset | None:
    given = groups.get("log_likelihood", xr.Dataset())
    if "total" in given:
        return given
    joint = evidence.records is not None
    if not ({"strong_success"} if joint else {"strong_success", "threshold"}) <= set(given.data_vars):
        return None
    total = given["strong_success"].transpose("chain", "draw", "episode").values.copy()
    if not joint:
        total[..., evidence.timed] += given["threshold"].transpose("chain", "draw", "timed").values
    return _labelled(posterior, evidence, total=total)


def thinned(posterior: xr.Dataset, most: int) -> xr.Dataset:
    """Take evenly spaced draws, equally many of every chain; of fewer chains if they outnumber the draws."""
    chains = min(posterior.sizes["chain"], isqrt(most))
    every = -(-posterior.sizes["draw"] // (most // chains))
    return posterior.isel(chain=slice(0, chains), draw=slice(None, None, every))


def replicates(
    some: xr.Dataset, evidence: Evidence, crossing: CrossingSteps | None, rng: np.random.Generator
) -> xr.Dataset:
    """Draw outcomes and crossing steps under each draw, in as few bytes as they take.

    Of records, `strong_success` is how many of Strong's rollouts succeed, and there are no crossing steps.
    """
    if crossing is None:
        return _record_replicates(some, evidence, rng)
    logit, location, flat = linear_predictors(some, evidence)
    strong = (rng.random(logit.shape) < special.expit(logit)).astype("int8")
    fixed = np.ones(len(evidence.diagnostic_names) or 1) if evidence.weights is None else evidence.weights
    steps = np.zeros(location.shape, dtype=np.int64)
    for at in range(len(logit)):
        w = flat["w"][at] if flat["w"].size else fixed
        memory = [flat["rho"][at]] if flat["rho"].size else []
        steps[at] = crossing.draw(location[at], scale_at(flat, evidence, at), logit[at], *w, *memory, rng=rng)
    return _labelled(some, evidence, strong_success=strong, threshold=_small(steps))


def _record_replicates(some: xr.Dataset, evidence: Evidence, rng: np.random.Generator) -> xr.Dataset:
    records, (logit, _, _) = records_in(evidence), linear_predictors(some, evidence)
    known = {name: np.exp(pair[0]) for name, pair in records.known().items()}
    rates = known | {name: _flatten(some, name)[:, None] for name in records.learned}
    can = rng.random(logit.shape) < special.expit(logit)
    trials = (records.successes + records.failures).astype(int)
    counts = rng.binomial(trials, np.where(can, rates["sensitivity"], 1 - rates["specificity"]))
    return _labelled(some, evidence, strong_success=_small(counts)).drop_vars("timed")


def _small(counts: np.ndarray) -> np.ndarray:
    """Keep whole numbers in as few bytes as they take."""
    return counts.astype(np.promote_types("int8", np.min_scalar_type(-int(counts.max(initial=0)) - 1)))


def kept_statistics(statistics: xr.Dataset) -> xr.Dataset:
    """Keep the statistics that are known, under one set of names."""
    kept = {old: new for old, new in STATISTICS.items() if old in statistics}
    kept = {old: new for old, new in kept.items() if old == new or new not in kept}
    return statistics[list(kept)].rename({old: new for old, new in kept.items() if old != new})


# Likelihood and predictions of every episode under every draw.


def pointwise_log_likelihood(posterior: xr.Dataset, evidence: Evidence) -> xr.Dataset:
    """Evaluate the model's likelihood of each episode: its outcome and, if it is timed, its interval together.

    It is `total`, by episode; its coordinate `timed` names the timed episodes.
    """
    if evidence.records is not None:
        return _labelled(posterior, evidence, total=_records_by_draw(posterior, evidence)[0])
    incidence, threshold, _ = _by_draw(posterior, evidence)
    total = incidence.copy()
    total[:, evidence.timed] += threshold
    return _labelled(posterior, evidence, total=total)


def seen_or_not(posterior: xr.Dataset, evidence: Evidence, rng: np.random.Generator) -> xr.Dataset:
    """Draw each episode anew, and return where it lies beside what was seen of it: 1 earlier, 2 the same, 3 later.

    Episodes are ordered by when a handoff is due: at a step, not before the end of the rollout, or never of use since
    Strong fails. What was seen is an interval of that order (a window, the rest of the rollout, Strong's failure), and
    a draw within it is the same. The share of draws that are earlier, plus a random part of those that are the same,
    is the probability integral transform of an interval, which is uniform if the model is right.

    Records are ordered by how many of Strong's rollouts succeed, then by their Cheap rollouts: first those that are
    marked, by when, then those that fail without a mark, then those that succeed.
    """
    if evidence.records is not None:
        total, sooner = _records_by_draw(posterior, evidence)
        records = evidence.records
        trials = records.successes + records.failures
        log_ways = special.gammaln(trials + 1) - special.gammaln(records.successes + 1)
        same = np.exp(total + log_ways - special.gammaln(records.failures + 1))
        return _labelled(posterior, evidence, total=_placed(sooner, same, rng))
    incidence, threshold, earlier = _by_draw(posterior, evidence)
    pi = np.where(evidence.strong_success, np.exp(incidence), -np.expm1(incidence))
    before, same = np.where(evidence.strong_success, 0.0, pi), np.exp(incidence)
    before[:, evidence.timed] = pi[:, evidence.timed] * earlier
    same[:, evidence.timed] *= np.exp(threshold)
    return _labelled(posterior, evidence, total=_placed(before, same, rng))


def _placed(before: np.ndarray, same: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    u = rng.random(before.shape)
    return np.where(u < before, EARLIER, np.where(u < before + same, AS_SEEN, LATER)).astype("int8")


def linear_predictors(
    posterior: xr.Dataset, evidence: Evidence
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return the logit of pi (draw, episode), the location (draw, timed), and all parameters with draws as rows."""
    logit, location, flat = _predictors(posterior, evidence)
    return logit, location[:, evidence.timed], flat


def scale_at(flat: dict[str, np.ndarray], evidence: Evidence, draw: int) -> float | np.ndarray:
    """Return s of a draw, or the scale of each timed episode's threshold where it depends on the features."""
    s = float(flat["s"][draw])
    return s * np.exp(evidence.features[evidence.timed] @ flat["delta"][draw]) if flat["delta"].size else s


def _predictors(posterior: xr.Dataset, evidence: Evidence) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    flat = {name: _flatten(posterior, name) for name in ("gamma0", "gamma", "beta0", "beta", "s", "w", "rho", "delta")}
    n_draws = len(flat["s"])
    if "gamma" not in posterior:
        flat["gamma"] = flat["beta"] = np.zeros((n_draws, 0))
    logit = flat["gamma0"][:, None] + flat["gamma"] @ evidence.features.T
    location = flat["beta0"][:, None] + flat["beta"] @ evidence.features.T
    if evidence.grouping is not None:
        position = evidence.grouping.position
        gamma, beta = (
            _flatten(posterior, f"{name}_spread")[:, None] * _flatten(posterior, f"{name}_offset")
            for name in ("gamma", "beta")
        )
        logit += gamma[:, position]
        location += beta[:, position]
    return logit, location, flat


def _by_draw(posterior: xr.Dataset, evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log probability of each B, log mass of each interval, and the probability below it: (draw, episode or timed)."""
    logit, location, flat = linear_predictors(posterior, evidence)
    family, n_draws, sign = evidence.family, len(logit), np.where(evidence.strong_success, 1.0, -1.0)
    learned = evidence.weights is None and "w" in posterior
    threshold, earlier = np.zeros((2, n_draws, len(evidence.timed)))
    for draw in range(n_draws):
        at = evidence if evidence.grid is None else evidence.at_memory(float(flat["rho"][draw]))
        w = flat["w"][draw] if learned else np.ones(1)
        scale = scale_at(flat, evidence, draw)
        if evidence.spec.family in FAMILIES and isinstance(scale, float):
            row_masses(at, w, location[draw], scale, threshold[draw], earlier[draw])
        else:
            bounds = log_bounds(at, w, NUMPY).standardized(location[draw], scale, evidence.n_left)
            threshold[draw] = log_mass(bounds, evidence.n_interval, family, NUMPY)
            earlier[draw, evidence.n_left :] = family.cdf(bounds.lower)
    return special.log_expit(sign * logit), threshold, earlier


def _records_by_draw(posterior: xr.Dataset, evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood of each record, and the probability of one that comes before it: (draw, record)."""
    records = records_in(evidence)
    logit, location, flat = linear_predictors(posterior, evidence)
    learned = evidence.weights is None and "w" in posterior
    total, sooner = np.zeros((2, *logit.shape))
    single = {name: _flatten(posterior, name) for name in records.learned}
    by_features = {name: _flatten(posterior, name) for name in ("lucky0", "lucky_slope") if name in posterior}
    lateness = _flatten(posterior, "lateness") if records.delays_learned else None
    for draw in range(len(logit)):
        logs: dict[str, Any] = dict(records.known())
        logs |= {name: logs_of(float(values[draw])) for name, values in single.items()}
        if by_features:
            luck = by_features["lucky0"][draw] + evidence.features @ by_features.get("lucky_slope", flat["gamma"])[draw]
            luck = luck[records.record]
            logs["lucky"] = (special.log_expit(luck), special.log_expit(-luck))
        late = np.zeros(1) if lateness is None else np.log(lateness[draw])
        at = evidence if evidence.grid is None else evidence.at_memory(float(flat["rho"][draw]))
        w = flat["w"][draw] if learned else np.ones(1)
        bounds = log_bounds(at, w, NUMPY).standardized(location[draw], flat["s"][draw], evidence.n_left)
        mass = log_mass(bounds, evidence.n_interval, evidence.family, NUMPY)
        rollout = mixed_mass(records, records.kinds, mass, late, logs.get("mark_error", (0.0, 0.0)), NUMPY)
        log_pi = special.log_expit(logit[draw]), special.log_expit(-logit[draw])
        total[draw] = np.logaddexp(*stratum_terms(records, records.stated, log_pi, rollout, logs, NUMPY))
        below = np.zeros(len(mass))
        below[evidence.n_left :] = evidence.family.cdf(bounds.lower)
        sooner[draw] = _before(records, np.exp(log_pi), np.exp(rollout), np.exp(mass), below, logs, np.exp(late))
    return total, sooner


def _before(
    records: Records,
    pi: np.ndarray,
    seen: np.ndarray,
    mass: np.ndarray,
    below: np.ndarray,
    logs: dict[str, Any],
    late: np.ndarray,
) -> np.ndarray:
    """Return the probability of what comes before each record, in the order of `seen_or_not`."""
    luck = np.exp(logs["lucky"][0])
    error = np.exp(logs["mark_error"][0]) if "mark_error" in logs else 0.0
    rates = [np.exp(logs[name][0]) if name in logs else None for name in ("marked", "stray")]
    n, delays = len(records.successes), len(records.noise.delays)
    padded, whole = np.append(below, 0.0), np.append(mass, 0.0)
    sooner = sum(late[kind] * padded[records.pieces[:, kind]] for kind in range(min(delays, records.kinds)))
    if records.kinds > delays:
        sooner = (1 - error) * sooner + error * records.share_before * whole[records.pieces[:, delays]]
    cheap, unmarked = records.cheap_success, records.unmarked
    due = np.where(cheap, 1 - seen, seen)  # without a mark, the probability that Cheap fails
    out = np.zeros(n)
    trials = records.successes + records.failures
    strong = [np.exp(logs["sensitivity"][0]), 1 - np.exp(logs["specificity"][0])]
    by_luck = np.where(cheap, luck, 1 - luck) * np.exp(records.log_share)
    ranks = pd.Series(records.record).groupby(records.record).cumcount().to_numpy()
    for stratum, (rate, share, each, failing, inside) in enumerate(
        (
            (rates[0], strong[0], seen, due, sooner),
            (rates[1], strong[1], by_luck, (1 - luck) * np.ones(len(seen)), (1 - luck) * records.share_before),
        )
    ):
        marked = inside if rate is None else rate * inside
        earlier = np.where(records.marked, marked, np.where(cheap, failing, 0.0))
        if rate is not None:
            earlier = np.where(unmarked, rate * failing, earlier)
            each = each * np.where(records.marked, rate, np.where(unmarked, 1 - rate, 1.0))
        lexical, reached = np.zeros(n), np.ones(n)
        for rank in range(ranks.max(initial=-1) + 1):
            at = ranks == rank
            lexical[records.record[at]] += reached[records.record[at]] * earlier[at]
            reached[records.record[at]] *= each[at]
        strong_side = stats.binom(trials.astype(int), share)
        out += pi[stratum] * (strong_side.sf(records.successes) + strong_side.pmf(records.successes) * lexical)
    return out


def as_seen(evidence: Evidence) -> xr.Dataset:
    """Return what was seen of each episode, as `seen_or_not` draws it."""
    return xr.Dataset(
        {"total": ("episode", np.full(evidence.n, AS_SEEN, dtype="int8"))}, coords={"episode": evidence.episode}
    )


def _labelled(posterior: xr.Dataset, evidence: Evidence, **values: np.ndarray) -> xr.Dataset:
    """Name the dimensions of values with draws as rows: what is of thresholds is by timed episode."""
    shape, coords = (posterior.sizes["chain"], posterior.sizes["draw"], -1), {"episode": evidence.episode}
    coords |= {name: posterior[name].values for name in ("chain", "draw")}
    coords["timed"] = evidence.episode[evidence.timed]
    dims = {name: ("chain", "draw", "timed" if name == "threshold" else "episode") for name in values}
    return xr.Dataset({name: (dims[name], each.reshape(shape)) for name, each in values.items()}, coords=coords)


def rounded(log_likelihood: xr.Dataset) -> xr.Dataset:
    """Keep log-likelihoods to four decimals, as single-precision numbers."""
    total = log_likelihood["total"]
    return log_likelihood.assign(total=(np.round(total / RESOLUTION) * RESOLUTION).astype("float32"))


def _flatten(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Draws of a parameter as rows; nothing if the model does not have it."""
    if name not in posterior:
        return np.zeros(0)
    values = posterior[name].transpose("chain", "draw", ...).values
    return values.reshape(-1, *values.shape[2:])


# The prior: its log density at every draw, and draws from it, without PyMC, which would have to compile it.


def log_prior(tree: xr.DataTree) -> xr.Dataset:
    """Evaluate the prior that a posterior was sampled with, parameter by parameter.

    Densities are those of the parameters themselves, without the Jacobian of the sampler's transformations, as power
    scaling wants them and as `pymc.stats.compute_log_prior` gives them.

    Returns
    -------
    xarray.Dataset
        Every parameter that there is, summed over features and diagnostics; dims `chain` and `draw`. Of a prior of
        your own it is the group `log_prior`, which was computed when it was sampled.
    """
    prior = prior_of(tree)
    if type(prior) is WeaklyInformativePrior:
        posterior, constant = (tree[name].to_dataset() for name in ("posterior", "constant_data"))
        return weakly_informative(prior, posterior, constant, evidence_of(tree))
    if "log_prior" not in tree.children:
        expected = (
            "a group 'log_prior': for a prior of your own, pymc.stats.compute_log_prior(tree, model=model) makes it"
        )
        raise InvalidDataError(expected, field="groups of the tree", value=list(tree.children))
    return tree["log_prior"].to_dataset()


def _sites(
    prior: WeaklyInformativePrior, evidence: Evidence, center: float | np.ndarray
) -> Iterator[tuple[str, str | None, Any]]:
    """Name each parameter that the model may have, its dimension and its distribution."""
    records, d = evidence.records, len(evidence.diagnostic_names)
    yield "gamma0", None, stats.norm(0, prior.incidence_intercept)
    yield "beta0", None, stats.norm(center, prior.location_intercept)
    yield "s", None, stats.lognorm(prior.scale_spread, scale=prior.scale_median)
    if evidence.feature_names:
        yield "gamma", "feature", stats.norm(0, prior.incidence_slope)
        yield "beta", "feature", stats.norm(0, prior.location_slope)
        if evidence.spec.spread == "features":
            yield "delta", "feature", stats.norm(0, prior.scale_slope)
    if evidence.weights is None and d > 1:
        yield "w", "diagnostic", stats.dirichlet(np.full(d, prior.concentration))
    if evidence.grouping is not None:
        for name, spread in (("gamma", prior.incidence_spread), ("beta", prior.location_spread)):
            yield f"{name}_offset", "group", stats.norm(0, 1)
            yield f"{name}_spread", None, stats.halfnorm(scale=spread)
    if records is not None:
        for name, pair in records.learned.items():
            yield name, None, stats.beta(*pair)
        if records.delays_learned:
            yield "lateness", "delay", stats.dirichlet(records.delays_learned)
        if records.noise.lucky_by_features:
            yield "lucky0", None, stats.norm(0, prior.incidence_intercept)
            if evidence.feature_names:
                yield "lucky_slope", "feature", stats.norm(0, prior.incidence_slope)


def weakly_informative(
    prior: WeaklyInformativePrior, posterior: xr.Dataset, constant: xr.Dataset, evidence: Evidence
) -> xr.Dataset:
    """Evaluate the prior that comes along."""
    typical, out = constant["typical_log_threshold"].values, dict[str, np.ndarray]()
    if "rho" in posterior:  # what beta0 is placed around depends on the memory
        rho = posterior["rho"].values
        center = np.interp(rho, constant["memory_nodes"].values, typical)
        out["rho"] = stats.beta(prior.memory_kept, prior.memory_lost).logpdf(rho)
    else:
        center = float(typical)
    for name, dim, distribution in _sites(prior, evidence, center):
        # The offsets of groups are a part of the model: what is believed of them before the data is their spread.
        if name in posterior and dim != "group":
            value = posterior[name].transpose("chain", "draw", ...).values
            if dim in ("diagnostic", "delay"):
                alpha = distribution.alpha
                constant_part = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
                out[name] = special.xlogy(alpha - 1, value).sum(axis=-1) + constant_part
            else:
                density = distribution.logpdf(value)
                out[name] = density if dim is None else density.sum(axis=-1)
    coords = {name: posterior[name] for name in ("chain", "draw")}
    return xr.Dataset({name: (("chain", "draw"), values) for name, values in out.items()}, coords=coords)


def prior_draws(
    prior: WeaklyInformativePrior, evidence: Evidence, table: Table, draws: int, rng: np.random.Generator
) -> xr.Dataset:
    """Draw from the prior that comes along."""
    center = table["typical_log_threshold"][1]
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    if "memory_nodes" in table:
        rho = rng.beta(prior.memory_kept, prior.memory_lost, (1, draws))
        out["rho"], center = (("chain", "draw"), rho), np.interp(rho, table["memory_nodes"][1], center)
    coords: dict[str, Any] = {"chain": [0], "draw": np.arange(draws), "feature": list(evidence.feature_names)}
    coords["diagnostic"] = list(evidence.diagnostic_names)
    if evidence.grouping is not None:
        coords["group"] = list(evidence.grouping.names)
    for name, dim, distribution in _sites(prior, evidence, center):
        simplex = dim in ("diagnostic", "delay")
        shape = (1, draws) if dim is None or simplex else (1, draws, len(coords[dim]))
        drawn = distribution.rvs(draws if simplex else shape, random_state=rng)
        out[name] = ("chain", "draw", *([] if dim is None else [dim])), drawn[None] if simplex else drawn
    used = {dim for dims, _ in out.values() for dim in dims}
    return xr.Dataset(out, coords={dim: values for dim, values in coords.items() if dim in used})


def prior_of(tree: xr.DataTree) -> Prior:
    """Read the prior from a posterior's provenance.

    Examples
    --------
    >>> tree = xr.DataTree()
    >>> tree.attrs["prior"] = '{"name": "WeaklyInformativePrior", "location_slope": 0.25}'
    >>> prior_of(tree).location_slope
    0.25
    """
    text = settings_of(tree).get("prior")
    try:
        return checked_prior(prior_from_json(str(text)), proper=True)
    except InvalidDataError:
        expected = "a proper prior as JSON, of a class that is known (register_prior makes one of your own known)"
        raise InvalidDataError(expected, field="prior of the tree", value=text) from None
