"""Standard errors from the observed information, carried from the optimizer's coordinates to the model's parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_tacit.map_fit.newton import NewtonResult
from bayes_tacit.map_fit.objective import PaperFit, PaperObjective

BOUNDARY = 1e-6
"""A weight below this lies on the boundary of the simplex, where the observed information says nothing about it."""


def incidence_errors(objective: PaperObjective, fit: NewtonResult) -> np.ndarray:
    """Standard errors of (gamma0, gamma)."""
    size = objective.incidence.design.shape[1]
    return np.sqrt(np.diagonal(_inverse(objective.evidence.n * fit.derivatives.hessian[:size, :size])))


def threshold_errors(objective: PaperObjective, fit: PaperFit) -> dict[str, np.ndarray]:
    """Standard errors of w, (beta0, beta) and s by the delta method.

    A weight on the boundary gets none (NaN), and the others are those of the model without it. Where the information
    is singular, all are NaN.
    """
    part = objective.threshold
    _, point = objective.parts(fit.optimum.point)
    free = part.basis.shape[1]
    w = part.weights(point)
    inside = w > BOUNDARY
    if inside.all():
        hessian = fit.optimum.derivatives.hessian[-len(point) :, -len(point) :]
        basis = part.basis
    else:
        hessian, basis = _without_boundary(objective, fit, w, inside)
    information = objective.evidence.n * hessian
    location, precision = point[free:-1], point[-1]

    # Rows of the Jacobian: w, beta, s; columns: the reduced coordinates.
    kept, slopes = basis.shape[1], len(location)
    jacobian = np.zeros((inside.sum() + slopes + 1, kept + slopes + 1))
    inner = w[inside] / w[inside].sum()
    jacobian[: len(inner), :kept] = (np.diag(inner) - np.outer(inner, inner)) @ basis
    jacobian[len(inner) : -1, kept:-1] = np.eye(slopes) / precision
    jacobian[len(inner) : -1, -1] = -location / precision**2
    jacobian[-1, -1] = -1 / precision**2
    covariance = jacobian @ _inverse(information) @ jacobian.T
    errors = np.sqrt(np.diagonal(covariance))
    w_errors = np.full(len(w), np.nan)
    w_errors[inside] = errors[: len(inner)]
    return {"w": w_errors, "beta": errors[len(inner) : -1], "s": errors[-1:]}


def _without_boundary(
    objective: PaperObjective, fit: PaperFit, w: np.ndarray, inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and weight directions of the model that has only the diagnostics with a positive weight."""
    part, evidence = objective.threshold, objective.threshold.evidence
    fewer = replace(evidence, before=evidence.before[:, inside], within=evidence.within[:, inside])
    reduced = replace(part, evidence=fewer)
    _, point = objective.parts(fit.optimum.point)
    logits = reduced.basis.T @ np.log(w[inside])
    keep = ~np.isin(evidence.timed, fit.floored)
    at = np.concatenate([logits, point[part.basis.shape[1] :]])
    return reduced.derivatives(at, keep).hessian, reduced.basis


def _inverse(information: np.ndarray) -> np.ndarray:
    """Invert, or give NaN where the matrix is not safely positive definite."""
    curvature, directions = np.linalg.eigh(information)
    if curvature[0] <= 1e-9 * curvature[-1]:
        return np.full_like(information, np.nan)
    return (directions / curvature) @ directions.T
