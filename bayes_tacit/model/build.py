"""The PyMC model: a mixture-cure, interval-censored, log-normal threshold on a learned cumulative-risk scale."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Unpack

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.evidence import Evidence, collect_evidence
from bayes_tacit.model.likelihood import (
    CrossingSteps,
    Table,
    coords_of,
    crossing_steps,
    model_data,
    record_terms,
    records_in,
    threshold_log_likelihood,
)
from bayes_tacit.model.memory import between_nodes
from bayes_tacit.model.priors import Prior, RidgePrior, Site, WeaklyInformativePrior, checked_prior, prior_to_json
from bayes_tacit.model.spec import COORDINATE, ModelSettings, ModelSpec, spec_from
from bayes_tacit.model.strata import ARRAYS, Records


def build_model(
    episodes: Episodes,
    prior: Prior | None = None,
    *,
    spec: ModelSpec | None = None,
    floor: float | None = None,
    **settings: Unpack[ModelSettings],
) -> pm.Model:
    r"""State the model of some episodes in PyMC.

    .. math::
        B_i &\sim \mathrm{Bernoulli}(\operatorname{sigmoid}(\gamma_0 + x_i^\top\gamma)) \\
        \log\kappa_i \mid B_i = 1 &\sim \mathrm{Normal}(\beta_0 + x_i^\top\beta, s)
            \text{ (or another family)} \\
        R_i(t) &= \sum_{u \le t} w^\top u_i(t), \quad w \text{ on the simplex}

    and kappa is known through R(a-1) < kappa <= R(b) for a teacher window [a, b], or through kappa > R(H-1) where
    Cheap succeeds too.

    Parameters
    ----------
    episodes
        Training episodes; their features are standardized with their own mean and scale, kept as constant data.
    prior
        `WeaklyInformativePrior()` by default; `RidgePrior` for the paper's estimate; or one of your own
        (`bayes_tacit.model.priors.register_prior`).
    spec, **settings
        What the model is: a `ModelSpec`, its fields by keyword, or a spec with some fields replaced.
    floor
        The paper's floor on an episode's likelihood, with a `RidgePrior` only: it has no gradient, and under it a flat
        prior's posterior is improper.

    Returns
    -------
    pymc.Model
        Variables `gamma0`, `gamma`, `beta0`, `beta`, `s`, `w` with dims `feature` and `diagnostic`, and `rho` if it is
        learned; observed `strong_success` (dim `episode`) and `threshold` (dim `timed`). The value of `threshold` is a
        checkpoint: the last one of the window, or the number of steps where the threshold was not crossed. Predictive
        draws of it are crossing steps on the same scale.

        Where outcomes are noisy, repeated or missing, or marks may be wrong (`noise`), a record is a sum over whether
        Strong can solve the task: `strong_success` is then how many of Strong's rollouts succeeded, its log probability
        that of all that was seen of the record, and there is no `threshold`. Rates that are learned are variables.

    Examples
    --------
    >>> from bayes_tacit import build_model, load_example
    >>> [variable.name for variable in build_model(load_example()).observed_RVs]
    ['strong_success', 'threshold']
    """
    prior = WeaklyInformativePrior() if prior is None else checked_prior(prior)
    if floor is not None:
        floor = validate.number("floor", floor, "a number between 0 and 1, or None", above=0, below=1)
        if not isinstance(prior, RidgePrior):
            expected = "None: the floor is for the paper's estimate, with a RidgePrior"
            raise InvalidDataError(expected, field="floor", value=floor)
    evidence = collect_evidence(episodes, spec_from(spec, settings)).settle_zero_mass(floor)
    if not prior.proper:
        evidence.refuse_gaps()
    evidence.warn_of_gaps()
    crossing = crossing_steps(episodes, evidence)
    return state_model(evidence, prior, crossing, model_data(episodes, evidence, crossing), floor)


def state_model(
    evidence: Evidence, prior: Prior, crossing: CrossingSteps | None, table: Table, floor: float | None = None
) -> pm.Model:
    """Return the model of evidence that was collected already, and of its data as `model_data` returns them.

    A model compiled for some episodes serves any others with the same features and diagnostics once these are replaced.
    """
    settings = evidence.spec.as_attrs() | {"prior": prior_to_json(prior), "data_fingerprint": evidence.fingerprint()}
    coords = coords_of(evidence) | {COORDINATE: [json.dumps(settings)]}
    with pm.Model(coords=coords) as model:
        pm.Data("settings", np.ones(1), dims=COORDINATE)
        data = {name: pm.Data(name, value, dims=dims) for name, (dims, value) in table.items()}
        rho = None if evidence.grid is None else prior.state(Site("rho", evidence.n))
        typical = data["typical_log_threshold"]
        center = typical if rho is None else between_nodes(rho, data["memory_nodes"], typical)[0]
        gamma0, beta0, s = (prior.state(Site(name, evidence.n, center=center)) for name in ("gamma0", "beta0", "s"))
        p, d = len(evidence.feature_names), len(evidence.diagnostic_names)
        gamma, beta = (
            prior.state(Site(name, evidence.n, p, "feature")) if p else pt.zeros(0) for name in ("gamma", "beta")
        )
        w = data["w"] if "w" in data else prior.state(Site("w", evidence.n, d, "diagnostic"))
        logit = gamma0 + data["features"] @ gamma + _by_group("gamma", prior, evidence, data)
        location = beta0 + data["features"] @ beta + _by_group("beta", prior, evidence, data)
        if crossing is None:
            _observe_records(evidence, data, prior, location, s, w, rho, logit)
        else:
            location = location[data["timed_position"]]
            _observe_strong_success(evidence, data, logit, floor)
            scale = s
            if evidence.spec.spread == "features" and p:
                delta = prior.state(Site("delta", evidence.n, p, "feature"))
                scale = s * pt.exp(data["features"] @ delta)[data["timed_position"]]
            _observe_threshold(evidence, data, crossing, location, scale, w, rho, logit, floor)
    return model


@contextmanager
def forward_draws() -> Iterator[None]:
    """Silence the warning that Numba does not compile the functions that draw outcomes, which are NumPy's."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Numba will use object mode to run CustomDist_(threshold|strong_success)_rv"
        )
        yield


def _by_group(name: str, prior: Prior, evidence: Evidence, data: dict[str, TensorVariable]) -> TensorVariable | float:
    """State the intercept of each episode's group: a standard normal offset times the spread, which samples well."""
    if evidence.grouping is None:
        return 0.0
    spread = prior.state(Site(f"{name}_spread", evidence.n))
    offset = pm.Normal(f"{name}_offset", 0.0, 1.0, dims="group")
    return (spread * offset)[data["group_position"]]


def _observe_strong_success(
    evidence: Evidence, data: dict[str, TensorVariable], logit: TensorVariable, floor: float | None
) -> None:
    observed = data["strong_outcome"]
    if floor is None:
        pm.Bernoulli("strong_success", logit_p=logit, observed=observed, dims="episode")
        return
    log_floor = np.log(floor)
    no_mass = np.zeros(evidence.n, dtype=bool)
    no_mass[evidence.zero_mass] = True

    def logp(value: TensorVariable, eta: TensorVariable) -> TensorVariable:
        log_likelihood = -pt.softplus(pt.where(pt.eq(value, 1), -eta, eta))
        return pt.where(no_mass, log_floor, pt.maximum(log_likelihood, log_floor))

    def random(eta: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        return (rng.random(size) < special.expit(eta)).astype("int64")

    pm.CustomDist("strong_success", logit, logp=logp, random=random, observed=observed, dims="episode", dtype="int64")


def _observe_records(
    evidence: Evidence,
    data: dict[str, TensorVariable],
    prior: Prior,
    location: TensorVariable,
    s: TensorVariable,
    w: TensorVariable,
    rho: TensorVariable | None,
    logit: TensorVariable,
) -> None:
    """State the likelihood of each record, a sum over its stratum, as that of Strong's successes.

    The distribution takes its parameters by record or as single numbers, which keeps it elementwise.
    """
    records, noise = records_in(evidence), records_in(evidence).noise
    rates: dict[str, TensorVariable] = {name: pm.Beta(name, *pair) for name, pair in records.learned.items()}
    if noise.lucky_by_features:
        slopes = len(evidence.feature_names)
        luck = prior.state(Site("lucky0", evidence.n))
        luck += data["features"] @ prior.state(Site("lucky_slope", evidence.n, slopes, "feature")) if slopes else 0.0
        rates["lucky"] = pt.sigmoid(luck)
    delays = len(records.delays_learned)
    if delays:
        lateness = pm.Dirichlet("lateness", np.array(records.delays_learned), dims="delay")
    d, names = len(evidence.diagnostic_names), tuple(rates)
    given = [*(w[j] for j in range(d)), *rates.values(), *(lateness[k] for k in range(delays))]
    symbolic = replace(
        evidence,
        before=data["diagnostics_before"],
        within=data["diagnostics_within"],
        n_left=data["n_left"],
        n_interval=data["n_interval"],
        timed=data["timed_position"],
    )
    seen = Records(noise, **{name: data[f"record_{name}"] for name in ARRAYS})

    def logp(
        _: TensorVariable, eta: TensorVariable, mu: TensorVariable, scale: TensorVariable, *given: TensorVariable
    ) -> TensorVariable:
        bounds = symbolic
        if rho is not None:
            at = between_nodes(given[-1].ravel()[0], data["memory_nodes"], symbolic.before, symbolic.within)
            bounds = replace(symbolic, before=at[0], within=at[1])
        simplex = pt.stack([each.ravel()[0] for each in given[:d]]) if evidence.weights is None else np.ones(1)
        logs = dict(records.known())
        for name, each in zip(names, given[d:], strict=False):
            by_record = name == "lucky" and noise.lucky_by_features
            rate = each[data["record_record"]] if by_record else each.ravel()[0]
            logs[name] = pt.log(rate), pt.log1p(-rate)
        late = [pt.log(each.ravel()[0]) for each in given[d + len(names) : d + len(names) + delays]]
        parameters = {"w": simplex, "logit": eta, "location": mu, "s": scale.ravel()[0]}
        terms = record_terms(bounds, seen, parameters, logs, late or [np.float64(0.0)], PYTENSOR)
        return pt.logaddexp(*terms)

    trials = records.successes + records.failures

    def random(
        eta: np.ndarray,
        mu: np.ndarray,  # noqa: ARG001
        scale: np.ndarray,  # noqa: ARG001
        *given: np.ndarray,
        rng: np.random.Generator,
        size: tuple[int, ...],
    ) -> np.ndarray:
        known = {name: np.exp(pair[0]) for name, pair in records.known().items()}
        drawn = known | {name: np.ravel(each)[0] for name, each in zip(names, given[d:], strict=False)}
        can = rng.random(size) < special.expit(eta)
        return rng.binomial(trials.astype("int64"), np.where(can, drawn["sensitivity"], 1 - drawn["specificity"]))

    observed = data["record_successes"].astype("int64")
    given += [] if rho is None else [rho]
    pm.CustomDist(
        "strong_success",
        logit,
        location,
        s,
        *given,
        logp=logp,
        random=random,
        observed=observed,
        dims="episode",
        dtype="int64",
    )


def _observe_threshold(
    evidence: Evidence,
    data: dict[str, TensorVariable],
    crossing: CrossingSteps,
    location: TensorVariable,
    s: TensorVariable,
    w: TensorVariable,
    rho: TensorVariable | None,
    logit: TensorVariable,
    floor: float | None,
) -> None:
    """State the mass of each timed episode's interval.

    The sums of diagnostics that bound it are data of the model, so that an evaluation does not depend on the horizon;
    the observed checkpoint only labels it. The weights are passed one by one, and a learned memory after them, which
    keeps the distribution elementwise and so the log-likelihood pointwise.
    """
    learned = evidence.weights is None
    by_row = evidence.spec.spread == "features" and bool(evidence.feature_names)
    symbolic = replace(
        evidence,
        before=data["diagnostics_before"],
        within=data["diagnostics_within"],
        n_left=data["n_left"],
        n_interval=data["n_interval"],
    )

    def logp(
        _: TensorVariable, mu: TensorVariable, scale: TensorVariable, eta: TensorVariable, *given: TensorVariable
    ) -> TensorVariable:
        scalars = [value.ravel()[0] for value in given]
        bounds = symbolic
        if rho is not None:
            at = between_nodes(scalars.pop(), data["memory_nodes"], symbolic.before, symbolic.within)
            bounds = replace(symbolic, before=at[0], within=at[1])
        simplex = pt.stack(scalars) if learned else np.ones(1)
        # One scale comes as an array of one number, which is not one a row.
        own = scale if by_row else scale.ravel()[0]
        log_mass = threshold_log_likelihood(bounds, simplex, mu, own, PYTENSOR)
        if floor is None:
            return log_mass
        log_pi = -pt.softplus(-eta)
        return pt.maximum(log_pi + log_mass, np.log(floor)) - pt.maximum(log_pi, np.log(floor))

    pm.CustomDist(
        "threshold",
        location,
        s,
        logit[data["timed_position"]],
        *(w[j] for j in range(len(evidence.diagnostic_names))),
        *(() if rho is None else (rho,)),
        logp=logp,
        random=crossing.draw,
        observed=data["window_end"],
        dims="timed",
        dtype="int64",
    )


# The array namespace of PyTensor, in which families and the likelihood state the graph.

SQRT_2 = np.float64(np.sqrt(2.0))  # a float64 constant: `pt.sqrt(2.0)` would be single precision


def _log_ndtr(z: TensorVariable) -> TensorVariable:
    r"""Log of the standard normal distribution function, with finite gradients at any z.

    Below -1 it is :math:`\log\{\operatorname{erfcx}(-z/\sqrt2)/2\} - z^2/2`, elsewhere
    :math:`\operatorname{log1p}\{-\operatorname{erfc}(z/\sqrt2)/2\}`.
    """
    return _apply_where(
        z < -1.0,
        (z,),
        lambda z: pt.log(pt.erfcx(-z / SQRT_2) / 2.0) - z * z / 2.0,
        lambda z: pt.log1p(-pt.erfc(z / SQRT_2) / 2.0),
        (-1.0,),
        (-1.0,),
    )


def _apply_where(
    condition: TensorVariable,
    arguments: tuple[TensorVariable, ...],
    if_true: Callable[..., TensorVariable],
    if_false: Callable[..., TensorVariable],
    safe_true: tuple[float, ...],
    safe_false: tuple[float, ...],
) -> TensorVariable:
    """Apply one of two functions to each element.

    Both are computed everywhere; each is fed harmless values where the other one is taken, without which the gradient
    of the result would be NaN there.
    """
    when_true = [pt.where(condition, given, safe) for given, safe in zip(arguments, safe_true, strict=True)]
    when_false = [pt.where(condition, safe, given) for given, safe in zip(arguments, safe_false, strict=True)]
    return pt.where(condition, if_true(*when_true), if_false(*when_false))


PYTENSOR = SimpleNamespace(
    append=lambda values, one: pt.concatenate([values, pt.stack([pt.as_tensor_variable(one)])]),
    apply_where=_apply_where,
    columns=lambda columns: pt.stack(columns, axis=1),
    concatenate=pt.concatenate,
    exp=pt.exp,
    expm1=pt.expm1,
    log=pt.log,
    log1mexp=pt.log1mexp,
    log1p=pt.log1p,
    log_ndtr=_log_ndtr,
    logsumexp=lambda values: pt.logsumexp(values, axis=1),
    maximum=pt.maximum,
    minimum=pt.minimum,
    segment_sum=lambda values, index, like: pt.inc_subtensor(pt.zeros_like(like)[index], values),
    softplus=pt.softplus,
    where=pt.where,
)
