"""Standard errors from the observed information, carried from the optimizer's coordinates to the model's parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_tacit.estimates.map_fit.objective import BOUNDARY, PaperFit, PaperObjective

LOADING = 1e-6
"""A parameter that moves more than this along a flat direction has no standard error."""


def incidence_errors(objective: PaperObjective, fit: PaperFit) -> np.ndarray:
    """Standard errors of (gamma0, gamma)."""
    size = objective.incidence.design.shape[1]
    hessian = fit.optimum.derivatives.hessian[:size, :size]
    return _errors(objective.evidence.n * hessian, np.eye(size))


def threshold_errors(objective: PaperObjective, fit: PaperFit) -> dict[str, np.ndarray]:
    """Standard errors of w, (beta0, beta) and s by the delta method.

    A weight on the boundary of the simplex gets none (NaN), and the others are those of the model without it. Nor does
    a parameter that the evidence leaves undetermined.
    """
    part = objective.threshold
    _, point = objective.parts(fit.optimum.point)
    free = part.basis.shape[1]
    v, w = part.weights(point), objective.weights(point)
    inside = v > BOUNDARY
    if inside.all():
        hessian, basis = fit.optimum.derivatives.hessian[-len(point) :, -len(point) :], part.basis
    else:
        hessian, basis = _without_boundary(objective, fit, v, inside)
    location, precision = point[free:-1], point[-1]

    # Rows of the Jacobian: w, (beta0, beta), s; columns: weight logits, (beta0, beta) / s, 1 / s.
    inner_v, inner_w = v[inside] / v[inside].sum(), w[inside] / w[inside].sum()
    kept, slopes = basis.shape[1], len(location)
    jacobian = np.zeros((len(inner_w) + slopes + 1, kept + slopes + 1))
    jacobian[: len(inner_w), :kept] = (np.diag(inner_w) - np.outer(inner_w, inner_w)) @ basis
    jacobian[len(inner_w), :kept] = (inner_v - inner_w) @ basis
    jacobian[len(inner_w) : -1, kept:-1] = np.eye(slopes) / precision
    jacobian[len(inner_w) : -1, -1] = -location / precision**2
    jacobian[-1, -1] = -1 / precision**2
    errors = _errors(objective.evidence.n * hessian, jacobian)
    w_errors = np.full(len(w), np.nan)
    w_errors[inside] = errors[: len(inner_w)]
    return {"w": w_errors, "beta": errors[len(inner_w) : -1], "s": errors[-1:]}


def _without_boundary(
    objective: PaperObjective, fit: PaperFit, v: np.ndarray, inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and weight directions of the model that has only the diagnostics with a positive weight."""
    part = objective.threshold
    fewer = part.evidence.with_diagnostics(inside, np.ones(inside.sum()))
    reduced = replace(part, evidence=fewer, design=objective.incidence.design[fewer.timed])
    _, point = objective.parts(fit.optimum.point)
    at = np.concatenate([reduced.basis.T @ np.log(v[inside]), point[part.basis.shape[1] :]])
    # Leaving the weights out of the simplex moves the location by the logarithm of what is left of it.
    at[reduced.basis.shape[1]] -= np.log(v[inside].sum()) * point[-1]
    return reduced.derivatives(at, ~np.isin(fewer.timed, fit.floored)).hessian, reduced.basis


def _errors(information: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Square roots of the diagonal of J I^-1 J', NaN for rows that move along directions of no information."""
    if not np.isfinite(information).all():
        return np.full(len(jacobian), np.nan)
    curvature, directions = np.linalg.eigh(information)
    flat = curvature <= 1e-9 * curvature[-1]
    rows = jacobian @ directions
    variance = (rows[:, ~flat] ** 2 / curvature[~flat]).sum(axis=1)
    undetermined = (np.abs(rows[:, flat]) > LOADING).any(axis=1)
    return np.where(undetermined, np.nan, np.sqrt(variance))
