"""The penalized maximum likelihood estimate: the MAP of the PyMC model under a `RidgePrior`.

It minimizes the paper's objective over (w, gamma, beta, s) by Newton's method with exact derivatives, from several
starts. Nothing is compiled: the likelihood is the one that the PyMC model states, evaluated on NumPy arrays.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.estimates.map_fit.by_prior import PARAMETERS, PriorObjective
from bayes_tacit.estimates.map_fit.identifiability import refuse_degenerate, warn_of_dependence
from bayes_tacit.estimates.map_fit.newton import minimize_newton
from bayes_tacit.estimates.map_fit.objective import PaperFit, PaperObjective
from bayes_tacit.estimates.map_fit.profile import ProfilePoint, best, profile_memory
from bayes_tacit.estimates.map_fit.result import MapFit
from bayes_tacit.estimates.map_fit.standard_errors import incidence_errors, threshold_errors
from bayes_tacit.estimates.map_fit.values import Restart
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import Unmarked, Weights, ZeroMass, collect_evidence
from bayes_tacit.model.evidence.alike import warn_if_alike
from bayes_tacit.model.families import Family, family_named
from bayes_tacit.model.likelihood import log_bounds
from bayes_tacit.model.numerics import NUMPY
from bayes_tacit.model.priors import Prior, checked_prior, prior_to_json

if TYPE_CHECKING:
    import pymc as pm

TOLERANCE = 1e-9
"""Largest gradient component that Newton's method aims for."""

CONVERGED = 1e-7
"""Largest gradient component of an accepted optimum; rounding can keep a large data set above `TOLERANCE`."""


def fit_map(
    episodes: Episodes,
    *,
    ridge: float = 0.01,
    restarts: int = 5,
    seed: int = 0,
    floor: float | None = 1e-12,
    weights: Weights | None = None,
    family: str | Family = "lognormal",
    timing: Timing = "post_action",
    zero_mass: ZeroMass | None = None,
    max_iterations: int = 500,
    memory: float | Literal["profile"] = 1.0,
    clock: bool = False,
    unmarked: Unmarked = "due",
    prior: Prior | None = None,
    features: str | Design | None = None,
) -> MapFit:
    r"""Fit the model by penalized maximum likelihood.

    The objective is that of the paper,

    .. math:: -\frac1n\sum_i\log\max(\mathcal L_i, \varepsilon)
              + \lambda\left(\lVert\gamma\rVert^2 + \lVert\beta\rVert^2\right),

    with features standardized on `episodes` and intercepts `gamma0`, `beta0` not penalized.

    Parameters
    ----------
    episodes
        Training episodes. Features need no column of ones.
    ridge
        lambda; 0 gives the maximum likelihood estimate.
    restarts
        How many starts: the first from equal weights, the others from random ones. The lowest objective is kept.
    seed
        Seed of the random starts.
    floor
        epsilon, the paper's floor on an episode's likelihood; `None` for no floor. Floored episodes have no gradient;
        they are counted in the result.
    weights
        Simplex weights to hold fixed, in the order of the diagnostics or by their names; by default they are learned.
    family
        Distribution of the threshold: "lognormal" as in the paper, "loglogistic", "weibull", "loggamma", or what was
        registered (`bayes_tacit.model.families.register_family`).
    timing
        "post_action", or "proposal" to align a mark after step t with the proposal at step t + 1.
    zero_mass
        What to do with a window in which no risk is added, so that it has no mass: "refuse", or "drop_window", which
        keeps the episode's B = 1. By default it is floored if there is a floor, and refused otherwise.
    max_iterations
        Newton steps a start may take.
    memory
        rho from 0 to 1: what is left of a diagnostic's leaky sum after a step. 1, the paper's, forgets nothing; 0 keeps
        the highest value so far. See `bayes_tacit.model.memory`. "profile" takes the memory with the lowest objective,
        and `MapFit.profile` shows the others; best with a clock, since windows that have no mass at some memories
        decide the matter otherwise.
    clock
        Whether the number of steps counts as one more diagnostic, "clock", with a weight of its own: the later, the
        more due. Under it every window has mass.
    unmarked
        How an AB = 01 episode without a window is read: "due", as crossed by the end of its rollout, or "outcome", as
        the paper does, for its outcome alone, which makes scores too low. "due" assumes that since Strong solves the
        task and Cheap does not, the handoff was due before Cheap's rollout ended, and that the mark is missing for
        reasons that have nothing to do with when. No mark is needed then, if final risks differ between tasks: a
        warning says where they do not.
    prior
        The mode under this prior, in place of the ridge penalty and without the floor: any that `build_model` takes,
        one of your own included. PyMC states and differentiates it, which takes some seconds more.
    features
        A formula on features and carried columns, such as "bs(words, df=4) + C(kind) + hardness:tools"; by default all
        features as they are.

    Returns
    -------
    MapFit
        Estimates, standard errors, and a report of every start.

    Raises
    ------
    EvidenceError
        If the episodes do not say enough.
    ConvergenceError
        If the best start did not reach an optimum.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> fit = fit_map(load_example())
    >>> fit.converged, fit.w.round(2)
    (True, array([0.35, 0.3 , 0.21, 0.14]))
    """
    ridge = validate.number("ridge", ridge, "a number from 0 to 1e6", least=0, most=1e6)
    restarts = validate.whole("restarts", restarts, 1, 10_000)
    max_iterations = validate.whole("max_iterations", max_iterations, 1)
    seed = validate.whole("seed", seed, 0)
    if floor is not None:
        floor = validate.number("floor", floor, "a number between 0 and 1, or None", above=0, below=1)

    if prior is not None:
        checked_prior(prior)
        if memory == "profile":
            raise InvalidDataError("a number where there is a prior", field="memory", value=memory)
        floor = None

    def objective_at(rho: float) -> PaperObjective:
        evidence = collect_evidence(
            episodes,
            timing=timing,
            weights=weights,
            memory=rho,
            clock=clock,
            unmarked=unmarked,
            features=features,
        )
        evidence = evidence.settle_zero_mass(zero_mass, floor).refuse_gaps()
        return PaperObjective.of(evidence, ridge, floor, family_named(family))

    optimize = partial(_optimize, restarts=restarts, seed=seed, max_iterations=max_iterations)
    profile: tuple[ProfilePoint, ...] = ()
    if memory == "profile":
        if zero_mass == "drop_window" and not clock:
            expected = "a clock, or None or 'refuse': where windows are dropped likelihoods cannot be compared"
            raise InvalidDataError(expected, field="zero_mass with memory 'profile'", value=zero_mass)
        profile = profile_memory(lambda rho: _height(optimize(objective_at(rho))))
        memory = best(profile).memory
    memory = validate.number("memory", memory, "a number from 0 to 1, or 'profile'", least=0, most=1)
    objective = objective_at(memory)
    warn_of_dependence(objective)
    warn_if_alike(objective.threshold.evidence)
    fits = optimize(objective)
    lowest = min(fits, key=lambda fit: fit.optimum.derivatives.value)
    reports = tuple(_report(fit) for fit in fits)
    found = _result(objective, lowest, reports, ridge=ridge, floor=floor, timing=timing, seed=seed)
    if prior is None:
        return replace(found, profile=profile)
    # PyMC is loaded by who asks for a prior only.
    from bayes_tacit.model.build import build_model

    model = partial(
        build_model, episodes, prior, weights=weights, family=family, timing=timing, zero_mass=zero_mass, clock=clock
    )
    return _under_prior(
        found, model(memory=memory, unmarked=unmarked, features=features), prior, restarts, seed, max_iterations
    )


def _under_prior(near: MapFit, model: pm.Model, prior: Prior, restarts: int, seed: int, max_iterations: int) -> MapFit:
    """Go from the penalized estimate, and from random points around it, to the mode under a prior."""
    objective, rng = PriorObjective(model, near.n_episodes), np.random.default_rng(seed)
    guess = {name: np.asarray(getattr(near, name)) for name in PARAMETERS}
    guess["w"] = np.maximum(guess["w"], 1e-3) / np.maximum(guess["w"], 1e-3).sum()
    found = [
        minimize_newton(
            objective.derivatives,
            objective.start(guess, rng if number else None),
            tolerance=TOLERANCE,
            max_iterations=max_iterations,
        )
        for number in range(restarts)
    ]
    best_one = min(found, key=lambda result: result.derivatives.value)
    if not best_one.gradient_norm <= CONVERGED:
        raise ConvergenceError(
            f"the best of {restarts} starts stopped after {best_one.iterations} iterations with a gradient of "
            f"{best_one.gradient_norm:.1e}; expected at most {CONVERGED:.0e}: {prior} may have no mode"
        )
    values = objective.parameters(best_one.point)
    errors = objective.errors(best_one.point, best_one.derivatives.hessian)
    reports = tuple(
        Restart(each.derivatives.value, each.gradient_norm, each.iterations, 0, each.gradient_norm <= CONVERGED)
        for each in found
    )
    estimates: dict[str, Any] = {name: value if np.ndim(value) else float(value) for name, value in values.items()}
    return replace(
        near,
        **estimates,
        standard_errors=near.standard_errors
        | {name: error if np.ndim(error) else float(error) for name, error in errors.items()},
        objective=best_one.derivatives.value,
        gradient_norm=best_one.gradient_norm,
        restarts=reports,
        floored=(),
        ridge=0.0,
        prior=prior_to_json(prior),
    )


def _optimize(objective: PaperObjective, restarts: int, seed: int, max_iterations: int) -> list[PaperFit]:
    """Minimize from every start; the best one must have reached an optimum."""
    newton = partial(minimize_newton, tolerance=TOLERANCE, max_iterations=max_iterations)
    incidence = objective.fit_incidence(newton)
    rng = np.random.default_rng(seed)
    starts = [_start(objective, rng if number else None) for number in range(restarts)]
    fits = [objective.fit(incidence, start, newton) for start in starts]
    lowest = min(fits, key=lambda fit: fit.optimum.derivatives.value)
    refuse_degenerate(objective, lowest.optimum)
    if lowest.optimum.gradient_norm > CONVERGED:
        raise ConvergenceError(
            f"the best of {restarts} starts stopped after {lowest.optimum.iterations} iterations with a gradient of "
            f"{lowest.optimum.gradient_norm:.1e}; expected at most {CONVERGED:.0e}. Raise max_iterations "
            f"(now {max_iterations}), or ridge if the features nearly determine the outcome"
        )
    return fits


def _height(fits: list[PaperFit]) -> tuple[float, int]:
    """Give the lowest objective, and how many episodes are floored there."""
    lowest = min(fits, key=lambda fit: fit.optimum.derivatives.value)
    return lowest.optimum.derivatives.value, len(lowest.floored)


def _start(objective: PaperObjective, rng: np.random.Generator | None) -> np.ndarray:
    """Start from equal weights, or from random ones; then from what least squares makes of the windows' middles."""
    part = objective.threshold
    evidence = part.evidence
    d = evidence.before.shape[1]
    w = np.full(d, 1 / d) if rng is None else rng.dirichlet(np.ones(d))
    w = np.maximum(w, 1e-4) / np.maximum(w, 1e-4).sum()
    bounds = log_bounds(evidence, w, NUMPY)
    intervals = evidence.n_interval
    middle = np.concatenate(
        [bounds.upper - 0.5, bounds.lower[:intervals] + bounds.width / 2, bounds.lower[intervals:] + 0.5]
    )
    location = np.linalg.lstsq(part.design, middle, rcond=None)[0]
    scale = max(float((middle - part.design @ location).std()), 0.1)
    if rng is not None:
        location = location + rng.normal(scale=scale, size=len(location))
        scale *= np.exp(rng.normal(scale=0.5))
    return np.concatenate([part.basis.T @ np.log(w), location / scale, [1 / scale]])


def _report(fit: PaperFit) -> Restart:
    optimum = fit.optimum
    return Restart(
        objective=optimum.derivatives.value,
        gradient_norm=optimum.gradient_norm,
        iterations=optimum.iterations,
        floored=len(fit.floored),
        converged=optimum.gradient_norm <= CONVERGED,
    )


def _result(
    objective: PaperObjective,
    fit: PaperFit,
    restarts: tuple[Restart, ...],
    *,
    ridge: float,
    floor: float | None,
    timing: Timing,
    seed: int,
) -> MapFit:
    evidence = objective.evidence
    best = fit.optimum
    incidence, threshold = objective.parts(best.point)
    free = objective.threshold.basis.shape[1]
    scale = 1 / threshold[-1]
    gamma_errors = incidence_errors(objective, fit)
    errors = threshold_errors(objective, fit)

    def by_feature(values: np.ndarray, missing: float) -> np.ndarray:
        return _spread(values[1:], objective.varying, missing)

    w = evidence.weights
    w_errors = np.full(len(evidence.diagnostic_names), np.nan)
    if w is None:
        w = _spread(objective.weights(threshold), objective.active, 0.0)
        if free:
            w_errors = _spread(errors["w"], objective.active, np.nan)
    location = threshold[free:-1] * scale
    location[0] += objective.location_shift(threshold)
    return MapFit(
        w=w,
        gamma0=float(incidence[0]),
        gamma=by_feature(incidence, 0.0),
        beta0=float(location[0]),
        beta=by_feature(location, 0.0),
        s=float(scale),
        standard_errors={
            "w": w_errors,
            "gamma0": float(gamma_errors[0]),
            "gamma": by_feature(gamma_errors, np.nan),
            "beta0": float(errors["beta"][0]),
            "beta": by_feature(errors["beta"], np.nan),
            "s": float(errors["s"][0]),
        },
        objective=best.derivatives.value,
        gradient_norm=best.gradient_norm,
        converged=best.gradient_norm <= CONVERGED,
        restarts=restarts,
        floored=tuple(evidence.episode[fit.floored].tolist()),
        feature_names=evidence.feature_names,
        feature_mean=evidence.standardization.mean,
        feature_scale=evidence.standardization.scale,
        diagnostic_names=evidence.diagnostic_names,
        n_episodes=evidence.n,
        n_timed=len(evidence.timed),
        weights_fixed=evidence.weights is not None,
        ridge=float(ridge),
        floor=None if floor is None else float(floor),
        family=objective.threshold.family.name,
        timing=timing,
        seed=seed,
        data_fingerprint=evidence.fingerprint(),
        memory=float(evidence.memory),
        clock=evidence.clock,
        unmarked=evidence.unmarked,
        design=None if evidence.design is None else evidence.design.to_json(),
    )


def _spread(values: np.ndarray, where: np.ndarray, missing: float) -> np.ndarray:
    """Put the values where the mask is set, and `missing` elsewhere."""
    spread = np.full(len(where), missing)
    spread[where] = values
    return spread
