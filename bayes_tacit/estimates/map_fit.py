"""The penalized maximum likelihood estimate: the MAP of the PyMC model under a `RidgePrior`.

It minimizes the paper's objective over (w, gamma, beta, s) by Newton's method with exact derivatives, from several
starts. Nothing is compiled: the likelihood is the one that the PyMC model states, evaluated on NumPy arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from scipy import linalg

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError, TacitWarning
from bayes_tacit.estimates.map_result import PARAMETERS, MapFit, ProfilePoint, Restart
from bayes_tacit.estimates.mixture import MixtureObjective, warn_of_rates
from bayes_tacit.estimates.objective import (
    NewtonResult,
    PaperFit,
    PaperObjective,
    PriorObjective,
    delta_errors,
    minimize_newton,
)
from bayes_tacit.model.evidence import collect_evidence, warn_if_alike
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import log_bounds
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior, checked_prior, prior_to_json
from bayes_tacit.model.spec import ModelSettings, ModelSpec, spec_from
from bayes_tacit.model.strata import RATES

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["MapFit", "ProfilePoint", "Restart", "fit_map"]

TOLERANCE = 1e-9  # largest gradient component that Newton's method aims for

CONVERGED = 1e-7
"""Largest gradient component of an accepted optimum; rounding can keep a large data set above `TOLERANCE`."""

GRID = tuple(tenth / 10 for tenth in range(11))  # memories that a profile tries first, the paper's among them
FINE = 0.005  # the search between them stops at this distance

GOLDEN = (math.sqrt(5) - 1) / 2

FLAT = 1e-7  # curvature below which a coefficient of a standardized feature is running off to infinity

NEARLY = 1e-2
"""By how little a combination of standardized features may differ between tasks where they determine each other."""

VANISHING = 1e-3  # one over a scale of log kappa that no unit of a diagnostic explains
PERFECT = 0.01  # nats that the evidence must leave to be explained


def fit_map(
    episodes: Episodes,
    *,
    spec: ModelSpec | None = None,
    ridge: float = 0.01,
    restarts: int = 5,
    seed: int = 0,
    floor: float | None = 1e-12,
    max_iterations: int = 500,
    prior: Prior | None = None,
    hold_scale: bool = False,
    **settings: Unpack[ModelSettings],
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
    spec, **settings
        What the model is: a `ModelSpec`, its fields by keyword, or a spec with some fields replaced. The memory may be
        "profile"; there are no groups.
    ridge
        lambda; 0 gives the maximum likelihood estimate.
    restarts
        How many starts: the first from equal weights, the others from random ones. The lowest objective is kept.
    seed
        Seed of the random starts.
    floor
        epsilon, the paper's floor on an episode's likelihood; `None` for no floor. Floored episodes have no gradient;
        they are counted in the result.
    max_iterations
        Newton steps a start may take.
    prior
        The mode under this prior, in place of the ridge penalty and without the floor: any that `build_model` takes,
        one of your own included. PyMC states and differentiates it, which takes some seconds more.
    hold_scale
        Whether s has the proper prior of `WeaklyInformativePrior`, with which there is an optimum where all windows and
        censored rollouts can be met exactly, too.

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

    model = spec_from(spec, settings)
    if model.spread != "same":
        raise InvalidDataError(
            "'same': the point estimate has one s; sample_posterior takes a spread by features",
            field="spread",
            value=model.spread,
        )
    if model.groups is not None:
        raise InvalidDataError(
            "None: at the mode the spread of groups would be zero; sample_posterior takes them",
            field="groups",
            value=model.groups,
        )
    if model.memory == "learned" or (prior is not None and model.memory == "profile"):
        expected = "a number from 0 to 1, or 'profile'" if prior is None else "a number where there is a prior"
        raise InvalidDataError(expected, field="memory", value=model.memory)
    if prior is not None:
        checked_prior(prior)
        floor = None
    usual = WeaklyInformativePrior()

    def objective_at(rho: float) -> PaperObjective | MixtureObjective:
        evidence = collect_evidence(episodes, replace(model, memory=rho))
        if evidence.records is not None:
            return MixtureObjective.of(evidence.settle_zero_mass().refuse_gaps(), ridge)
        held = (usual.scale_median, usual.scale_spread) if hold_scale else None
        return PaperObjective.of(evidence.settle_zero_mass(floor).refuse_gaps(), ridge, floor, held)

    optimize = partial(_optimize, restarts=restarts, seed=seed, max_iterations=max_iterations)
    profile: tuple[ProfilePoint, ...] = ()
    if model.memory == "profile":
        if model.zero_mass == "drop_window" and not model.clock:
            expected = "a clock, or None or 'refuse': where windows are dropped likelihoods cannot be compared"
            raise InvalidDataError(expected, field="zero_mass with memory 'profile'", value=model.zero_mass)
        profile = profile_memory(lambda rho: optimize(objective_at(rho))[0])
        model = replace(model, memory=best(profile).memory)
    objective = objective_at(float(model.memory))
    warn_of_dependence(objective)
    warn_if_alike(objective.threshold.evidence)
    lowest, reports = optimize(objective)
    floor = None if isinstance(objective, MixtureObjective) else floor
    found = _result(objective, lowest, restarts=reports, ridge=ridge, floor=floor, seed=seed)
    warn_of_rates(found)
    if prior is None:
        return replace(found, profile=profile)
    # PyMC is loaded by who asks for a prior only.
    from bayes_tacit.model.build import build_model

    return _under_prior(found, build_model(episodes, prior, spec=model), prior, restarts, seed, max_iterations)


def _under_prior(near: MapFit, model: pm.Model, prior: Prior, restarts: int, seed: int, max_iterations: int) -> MapFit:
    """Go from the penalized estimate, and from random points around it, to the mode under a prior."""
    objective, rng = PriorObjective(model, near.n_episodes), np.random.default_rng(seed)
    guess = {name: np.asarray(getattr(near, name)) for name in PARAMETERS}
    guess["w"] = np.maximum(guess["w"], 1e-3) / np.maximum(guess["w"], 1e-3).sum()
    guess |= {name: np.clip(value, 1e-3, 1 - 1e-3) for name, (value, _) in near.rates.items() if name in RATES}
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
    errors = delta_errors(objective.parameters, best_one.point, best_one.derivatives.hessian, near.n_episodes)
    rates: dict[str, tuple[float, float]] = {}
    for name in [each for each in values if each not in PARAMETERS]:
        labels = near.feature_names if name == "lucky_slope" else range(np.size(values[name]))
        pairs = zip(labels, np.ravel(values.pop(name)), np.ravel(errors.pop(name)), strict=True)
        vector = name in ("lateness", "lucky_slope")
        rates |= {f"{name}[{at}]" if vector else name: (float(value), float(error)) for at, value, error in pairs}
    estimates, known = (
        {name: each if np.ndim(each) else float(each) for name, each in given.items()} for given in (values, errors)
    )
    return replace(
        near,
        **cast("dict[str, Any]", estimates),
        standard_errors=near.standard_errors | known,
        objective=best_one.derivatives.value,
        gradient_norm=best_one.gradient_norm,
        restarts=tuple(_report(each, 0) for each in found),
        floored=(),
        ridge=0.0,
        prior=prior_to_json(prior),
        rates=rates,
    )


def _optimize(
    objective: PaperObjective | MixtureObjective, restarts: int, seed: int, max_iterations: int
) -> tuple[PaperFit, tuple[Restart, ...]]:
    """Minimize from every start; the best one, which comes first, must have reached an optimum."""
    newton = partial(minimize_newton, tolerance=TOLERANCE, max_iterations=max_iterations)
    rng = np.random.default_rng(seed)
    sources = [rng if number else None for number in range(restarts)]
    if isinstance(objective, MixtureObjective):
        fits = [objective.minimized(objective.start(_start(objective, source), source), newton) for source in sources]
    else:
        incidence = objective.fit_incidence(newton)
        fits = [objective.fit(incidence, _start(objective, source), newton) for source in sources]
    lowest = min(fits, key=lambda fit: fit.optimum.derivatives.value)
    refuse_degenerate(objective, lowest.optimum)
    if lowest.optimum.gradient_norm > CONVERGED:
        raise ConvergenceError(
            f"the best of {restarts} starts stopped after {lowest.optimum.iterations} iterations with a gradient of "
            f"{lowest.optimum.gradient_norm:.1e}; expected at most {CONVERGED:.0e}. Raise max_iterations "
            f"(now {max_iterations}), or ridge if the features nearly determine the outcome"
        )
    return lowest, tuple(_report(fit.optimum, len(fit.floored)) for fit in fits)


def _start(objective: PaperObjective | MixtureObjective, rng: np.random.Generator | None) -> np.ndarray:
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


def _report(optimum: NewtonResult, floored: int) -> Restart:
    norm = optimum.gradient_norm
    return Restart(optimum.derivatives.value, norm, optimum.iterations, floored, converged=norm <= CONVERGED)


def _result(objective: PaperObjective | MixtureObjective, fit: PaperFit, **settings: Any) -> MapFit:  # noqa: ANN401
    evidence, best = objective.evidence, fit.optimum
    found = objective.parameters(best.point)
    errors = objective.all_errors(best) if isinstance(objective, MixtureObjective) else objective.errors(fit)
    for name in ("gamma", "beta"):
        found[name] = _spread(found[name], objective.varying, 0.0)
        errors[name] = _spread(errors[name], objective.varying, np.nan)
    found["w"] = _spread(found["w"], objective.active, 0.0) if evidence.weights is None else evidence.weights
    errors["w"] = _spread(errors["w"], objective.active, np.nan)
    if evidence.weights is not None or not objective.threshold.basis.shape[1]:
        errors["w"] = np.full(len(evidence.diagnostic_names), np.nan)
    values: dict[str, Any]
    known: dict[str, Any]
    values, known = (
        {name: each[name] if dim else float(each[name]) for name, dim in PARAMETERS.items()} for each in (found, errors)
    )
    rates = {name: (float(value), float(errors[name])) for name, value in found.items() if name not in PARAMETERS}
    return MapFit(
        **values,
        standard_errors=known,
        objective=best.derivatives.value,
        gradient_norm=best.gradient_norm,
        converged=best.gradient_norm <= CONVERGED,
        floored=tuple(evidence.episode[fit.floored].tolist()),
        feature_names=evidence.feature_names,
        feature_mean=evidence.standardization.mean,
        feature_scale=evidence.standardization.scale,
        diagnostic_names=evidence.diagnostic_names,
        n_episodes=evidence.n,
        n_timed=len(np.unique(evidence.timed)),
        spec=evidence.spec,
        rates=rates,
        data_fingerprint=evidence.fingerprint(),
        **settings,
    )


def _spread(values: np.ndarray, where: np.ndarray, missing: float) -> np.ndarray:
    """Put the values where the mask is set, and `missing` elsewhere."""
    spread = np.full(len(where), missing)
    spread[where] = values
    return spread


# The memory by profile likelihood.


def profile_memory(evaluate: Callable[[float], PaperFit]) -> tuple[ProfilePoint, ...]:
    """Look for the memory with the lowest objective: on a grid, then by golden sections around its best point.

    An episode's likelihood is the probability of the same outcome and the same window whatever the memory is, so the
    objectives can be compared; a window without mass counts with the floor, which speaks against a memory. Every one
    that was tried is returned, in order; `evaluate` returns the best fit at one.
    """
    found = {memory: _point(evaluate, memory) for memory in GRID}
    if not math.isfinite(best(found.values()).objective):
        # Nothing can be fitted: let the paper's memory say why.
        evaluate(1.0)
    center = GRID.index(best(found.values()).memory)
    low, high = GRID[max(center - 1, 0)], GRID[min(center + 1, len(GRID) - 1)]
    while high - low > FINE:
        reach = GOLDEN * (high - low)
        inner, outer = round(high - reach, 3), round(low + reach, 3)
        for memory in (inner, outer):
            if memory not in found:
                found[memory] = _point(evaluate, memory)
        if found[inner].objective <= found[outer].objective:
            high = outer
        else:
            low = inner
    return tuple(found[memory] for memory in sorted(found))


def best(points: Iterable[ProfilePoint]) -> ProfilePoint:
    """Return the lowest point; of equal ones, that with the longest memory."""
    return min(points, key=lambda point: (point.objective, -point.memory))


def _point(evaluate: Callable[[float], PaperFit], memory: float) -> ProfilePoint:
    with warnings.catch_warnings():
        # Warnings are for the memory that is chosen.
        warnings.simplefilter("ignore", TacitWarning)
        try:
            fit = evaluate(memory)
            return ProfilePoint(memory, fit.optimum.derivatives.value, len(fit.floored))
        except (ConvergenceError, EvidenceError):
            return ProfilePoint(memory, float("inf"), 0)


# What the evidence can tell apart.


def warn_of_dependence(objective: PaperObjective | MixtureObjective) -> None:
    """Name what the evidence cannot separate (features only without a penalty), and features that part the outcomes."""
    evidence, seen = objective.evidence, objective.threshold.evidence
    found = []
    if evidence.weights is None:
        sums = np.vstack([seen.before[seen.bounded_below], (seen.before + seen.within)[seen.bounded_above]])
        found.append(("diagnostic", sums, np.asarray(evidence.diagnostic_names)[objective.active]))
    if objective.incidence.ridge == 0:
        varying = np.asarray(evidence.feature_names)[objective.varying]
        found.append(("feature", objective.incidence.design[:, 1:], varying))
    for kind, columns, names in found:
        for name, others in dependent_columns(columns, names.tolist()):
            warnings.warn(
                f"{kind} {name!r} cannot be told apart from {', '.join(map(repr, others))} by this evidence: only "
                "their joint effect is learned",
                TacitWarning,
                stacklevel=3,
            )
    if objective.incidence.ridge > 0 and not isinstance(objective, MixtureObjective):
        varying = np.asarray(evidence.feature_names)[objective.varying].tolist()
        strong = objective.incidence.strong_success
        for name in parting_columns(objective.incidence.design[:, 1:], varying, strong):
            warnings.warn(
                f"every success of Strong is on one side of feature {name!r}: look whether it was known before Cheap's "
                "first step, as an outcome that leaked into a feature is of no use for new tasks",
                TacitWarning,
                stacklevel=3,
            )


UNLIKELY = 1e-4
"""Probability below which chance does not explain that a column parts outcomes."""


def parting_columns(columns: np.ndarray, names: list[str], outcome: np.ndarray) -> list[str]:
    """Name the columns that have all true outcomes on one side, beyond chance.

    A single column parts them by chance as often as one of two orders comes of all ways to place the fewer ones.
    """
    fewer = int(min(outcome.sum(), (~outcome).sum()))
    if fewer < 3 or 2 * len(names) / comb(len(outcome), min(fewer, 50)) > UNLIKELY:
        return []
    yes, no = columns[outcome], columns[~outcome]
    parted = (yes.min(axis=0) > no.max(axis=0)) | (no.min(axis=0) > yes.max(axis=0))
    return [name for name, apart in zip(names, parted.tolist(), strict=True) if apart]


def dependent_columns(matrix: np.ndarray, names: list[str]) -> list[tuple[str, list[str]]]:
    """Name each column that is a linear combination of others, with those that it combines.

    Examples
    --------
    >>> dependent_columns(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0]]), ["a", "b", "c"])
    [('b', ['a'])]
    """
    if matrix.shape[1] == 0:
        return []
    # The smallest eigenvalue of the cross products says quickly that no columns depend on each other, or perhaps.
    gram = matrix.T @ matrix
    size = np.sqrt(np.diagonal(gram))
    if np.linalg.eigvalsh(gram / np.outer(size, size))[0] > 1e-10:
        return []
    # Slightly decreasing norms make the pivoting keep the first of several equal columns as the independent one.
    scaled = matrix / np.linalg.norm(matrix, axis=0) * (1 - 1e-6 * np.arange(matrix.shape[1]))
    triangle, order = linalg.qr(np.linalg.qr(scaled, mode="r"), mode="r", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int((diagonal > 1e-9 * diagonal[0]).sum())
    combined = linalg.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    return [
        (names[column], [names[part] for part in sorted(order[:rank][np.abs(combined[:, position]) > 1e-6])])
        for position, column in enumerate(order[rank:])
    ]


def refuse_degenerate(objective: PaperObjective | MixtureObjective, fit: NewtonResult) -> None:
    """Raise if there is no finite optimum: the windows can be met exactly, or a feature determines an outcome.

    The parameters then grow until the gradient vanishes, which looks like an optimum; the perfect fit, or the
    curvature, gives it away. A direction that is flat because features depend on each other is another matter, of
    which `warn_of_dependence` warns.
    """
    incidence, threshold = objective.parts(np.arange(len(fit.point)))
    held = objective.threshold.held is not None
    if not held and objective.threshold.log_likelihood(fit.point[threshold]).sum() > -PERFECT:
        raise ConvergenceError(
            f"all {len(objective.evidence.timed)} windows and censored rollouts can be met exactly, so the scale s has "
            "no optimum above zero; expected more episodes, or fewer features and diagnostics. sample_posterior has an "
            "answer even so"
        )
    if not held and fit.point[threshold][-1] < VANISHING:
        raise ConvergenceError(
            f"the scale s grows without end: among these {len(objective.evidence.timed)} windows and censored rollouts "
            "more risk does not go with a handoff being due; expected diagnostics that do. sample_posterior has an "
            "answer even so"
        )
    if objective.incidence.ridge > 0:
        return
    names = ["the intercept", *np.asarray(objective.evidence.feature_names)[objective.varying].tolist()]
    free = objective.threshold.basis.shape[1]
    timed = len(objective.evidence.timed) / objective.evidence.n
    for what, coordinates, share in (("strong_success", incidence, 1.0), ("the threshold", threshold[free:-1], timed)):
        curvature, directions = np.linalg.eigh(fit.derivatives.hessian[np.ix_(coordinates, coordinates)])
        if curvature[0] >= FLAT * share:
            continue
        # As many flat directions as the features have dependences are harmless.
        position = len(names) - int(np.linalg.matrix_rank(objective.incidence.design))
        if curvature[position] >= FLAT * share:
            continue
        flat = directions[:, position]
        loading = np.abs(flat).argmax()
        if np.ptp(objective.incidence.design @ flat) < NEARLY:
            together = [name for name, part in zip(names, flat, strict=True) if abs(part) > NEARLY]
            raise ConvergenceError(
                f"{', '.join(map(repr, together))} nearly determine each other in these episodes, so their "
                "coefficients have no finite optimum; use ridge > 0, or leave one of them out"
            )
        raise ConvergenceError(
            f"{what} is determined by {names[loading]!r} in these episodes, so its coefficient has no finite optimum; "
            "use ridge > 0, more episodes, or leave the feature out"
        )
