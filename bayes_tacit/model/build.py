"""The PyMC model: a mixture-cure, interval-censored, log-normal threshold on a learned cumulative-risk scale."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.model.crossing import CrossingSteps
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import Evidence, Unmarked, Weights, ZeroMass, collect_evidence, typical_log_threshold
from bayes_tacit.model.evidence.grid import between_nodes
from bayes_tacit.model.families import Family, family_named
from bayes_tacit.model.likelihood import threshold_log_likelihood
from bayes_tacit.model.memory import Memory
from bayes_tacit.model.priors import Prior, RidgePrior, Site, WeaklyInformativePrior, checked_prior
from bayes_tacit.model.settings import settings_to_json
from bayes_tacit.model.symbolic import PYTENSOR


def build_model(
    episodes: Episodes,
    prior: Prior | None = None,
    *,
    weights: Weights | None = None,
    floor: float | None = None,
    family: str | Family = "lognormal",
    timing: Timing = "post_action",
    zero_mass: ZeroMass | None = None,
    memory: Memory = 1.0,
    clock: bool = False,
    unmarked: Unmarked = "due",
    features: str | Design | None = None,
    groups: str | None = None,
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
    weights
        Simplex weights to hold fixed; by default they are learned.
    floor
        The paper's floor on an episode's likelihood, with a `RidgePrior` only: it has no gradient, and under it a flat
        prior's posterior is improper.
    family
        Distribution of the threshold: "lognormal" as in the paper, "loglogistic", "weibull", "loggamma", or what was
        registered (`bayes_tacit.model.families.register_family`).
    timing
        "post_action", or "proposal" to align a mark after step t with the proposal at step t + 1.
    zero_mass
        What to do with a window in which no risk is added, so that it has no mass: "refuse", or "drop_window", which
        keeps the episode's B = 1. By default it is floored if there is a floor, and refused otherwise.
    memory
        rho from 0 to 1: what is left of a diagnostic's leaky sum after a step; 1, the paper's, forgets nothing. See
        `bayes_tacit.model.memory`. "learned" makes it a parameter `rho` with a prior; the bounds are then interpolated
        between memories (`bayes_tacit.model.evidence.grid`). Best with a clock, since every window must have mass at
        every memory.
    clock
        Whether the number of steps counts as one more diagnostic, "clock". Under it every window has mass.
    unmarked
        How an AB = 01 episode without a window is read: "due", as crossed by the end of its rollout, or "outcome", as
        the paper does, for its outcome alone, which makes scores too low. "due" assumes that since Strong solves the
        task and Cheap does not, the handoff was due before Cheap's rollout ended, and that the mark is missing for
        reasons that have nothing to do with when. No mark is needed then.
    features
        A formula on features and carried columns, such as "bs(words, df=4) + C(kind) + hardness:tools"; by default all
        features as they are.
    groups
        A carried column, such as "database", whose levels get intercepts of their own for incidence and location,
        partially pooled: normal around zero with a spread that has a prior.

    Returns
    -------
    pymc.Model
        Variables `gamma0`, `gamma`, `beta0`, `beta`, `s`, `w` with dims `feature` and `diagnostic`, and `rho` if it is
        learned; observed `strong_success` (dim `episode`) and `threshold` (dim `timed`). The value of `threshold` is a
        checkpoint: the last one of the window, or the number of steps where the threshold was not crossed. Predictive
        draws of it are crossing steps on the same scale.

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
            raise InvalidDataError(
                "None: the floor is for the paper's estimate, with a RidgePrior", field="floor", value=floor
            )
    evidence = collect_evidence(
        episodes,
        timing=timing,
        weights=weights,
        memory=memory,
        clock=clock,
        unmarked=unmarked,
        features=features,
        groups=groups,
    )
    evidence = evidence.settle_zero_mass(zero_mass, floor)
    if not prior.proper:
        evidence.refuse_gaps()
    crossing = CrossingSteps(episodes, evidence, family_named(family), timing)
    return state_model(model_data(episodes, evidence, crossing), evidence, crossing, prior, floor)


def state_model(
    values: dict[str, np.ndarray], evidence: Evidence, crossing: CrossingSteps, prior: Prior, floor: float | None = None
) -> pm.Model:
    """State the model of evidence that was collected already; `values` are its `model_data`."""
    for gap in evidence.gaps():
        warnings.warn(f"{gap}; what is not learned stays as the prior has it", TacitWarning, stacklevel=3)
    coords = {
        "episode": evidence.episode,
        "timed": evidence.episode[evidence.timed],
        "feature": list(evidence.feature_names),
        "diagnostic": list(evidence.diagnostic_names),
        "risk": ["risk"],
        **({} if evidence.grouping is None else {"group": list(evidence.grouping.names)}),
        "setting": [settings_to_json(evidence, crossing.family.name, crossing.timing, prior)],
    }
    with pm.Model(coords=coords) as model:
        pm.Data("settings", np.ones(1), dims="setting")
        data = _register(values, evidence)
        rho = None if evidence.grid is None else prior.state(Site("rho", evidence.n))
        gamma0, gamma, beta0, beta, s = _coefficients(prior, evidence, data, rho)
        w = _weights(prior, evidence)
        logit = gamma0 + data["features"] @ gamma + _by_group("gamma", prior, evidence, data)
        location = (beta0 + data["features"] @ beta + _by_group("beta", prior, evidence, data))[data["timed_position"]]
        _observe_strong_success(evidence, data, logit, floor)
        _observe_threshold(evidence, data, crossing, location, s, w, rho, logit, floor)
    return model


@contextmanager
def forward_draws() -> Iterator[None]:
    """Draw outcomes from the model without a word on how: by NumPy functions, which Numba does not compile."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Numba will use object mode to run CustomDist_(threshold|strong_success)_rv"
        )
        yield


def model_data(episodes: Episodes, evidence: Evidence, crossing: CrossingSteps) -> dict[str, np.ndarray]:
    """Everything in the model that depends on the episodes, by the name it has there.

    A model compiled for some episodes serves any others with the same features and diagnostics once these are replaced.
    """
    grid = evidence.grid
    typical: float | np.ndarray
    if grid is None:
        typical = typical_log_threshold(episodes, evidence.weights, float(evidence.memory), clock=evidence.clock)
        bounds = {"diagnostics_before": evidence.before, "diagnostics_within": evidence.within}
    else:
        typical = grid.typical
        bounds = {"diagnostics_before": grid.before, "diagnostics_within": grid.within, "memory_nodes": grid.nodes}
    return {
        "features": evidence.features,
        "feature_mean": evidence.standardization.mean,
        "feature_scale": evidence.standardization.scale,
        "strong_outcome": evidence.strong_success.astype("int64"),
        "timed_position": evidence.timed,
        "window_start": crossing.first_checkpoint,
        "window_end": crossing.last_checkpoint,
        **bounds,
        **({} if evidence.grouping is None else {"group_position": evidence.grouping.position}),
        "n_left": np.array(evidence.n_left),
        "n_interval": np.array(evidence.n_interval),
        "typical_log_threshold": np.array(typical),
    }


def _register(values: dict[str, np.ndarray], evidence: Evidence) -> dict[str, TensorVariable]:
    """Make the values data of the model."""
    by_node = () if evidence.grid is None else ("node",)
    by_row = (*by_node, "timed", "diagnostic" if evidence.weights is None else "risk")
    dims: dict[str, tuple[str, ...]] = {
        "features": ("episode", "feature"),
        "feature_mean": ("feature",),
        "feature_scale": ("feature",),
        "strong_outcome": ("episode",),
        "timed_position": ("timed",),
        "group_position": ("episode",),
        "window_start": ("timed",),
        "window_end": ("timed",),
        "diagnostics_before": by_row,
        "diagnostics_within": by_row,
        "memory_nodes": by_node,
        "typical_log_threshold": by_node,
    }
    return {name: pm.Data(name, value, dims=dims.get(name)) for name, value in values.items()}


def _coefficients(
    prior: Prior, evidence: Evidence, data: dict[str, TensorVariable], rho: TensorVariable | None
) -> tuple[TensorVariable, ...]:
    typical = data["typical_log_threshold"]
    center = typical if rho is None else between_nodes(rho, data["memory_nodes"], typical)[0]
    p = len(evidence.feature_names)
    sites = [Site(name, evidence.n, center=center) for name in ("gamma0", "beta0", "s")]
    sites += [Site(name, evidence.n, p, "feature") for name in ("gamma", "beta")]
    stated = {site.name: prior.state(site) if site.size != 0 else pt.zeros(0) for site in sites}
    return tuple(stated[name] for name in ("gamma0", "gamma", "beta0", "beta", "s"))


def _by_group(name: str, prior: Prior, evidence: Evidence, data: dict[str, TensorVariable]) -> TensorVariable | float:
    """Give each episode the intercept of its group: a standard normal offset times the spread, which samples well."""
    if evidence.grouping is None:
        return 0.0
    spread = prior.state(Site(f"{name}_spread", evidence.n))
    offset = pm.Normal(f"{name}_offset", 0.0, 1.0, dims="group")
    return (spread * offset)[data["group_position"]]


def _weights(prior: Prior, evidence: Evidence) -> TensorVariable:
    """Learned weights, or fixed ones as constant data."""
    d = len(evidence.diagnostic_names)
    if evidence.weights is not None or d == 1:
        return pm.Data("w", np.ones(1) if evidence.weights is None else evidence.weights, dims="diagnostic")
    return prior.state(Site("w", evidence.n, d, "diagnostic"))


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
    """Give each timed episode the mass of its interval.

    The sums of diagnostics that bound it are data of the model, so that an evaluation does not depend on the horizon;
    the observed checkpoint only labels it. The weights are passed one by one, and a learned memory after them, which
    keeps the distribution elementwise and so the log-likelihood pointwise.
    """
    learned = evidence.weights is None
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
        log_mass = threshold_log_likelihood(bounds, simplex, mu, scale, crossing.family, PYTENSOR)
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
