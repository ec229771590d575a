"""Standard errors from the observed information, carried from the optimizer's coordinates to the model's parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_tacit.map_fit.parts import Incidence, Threshold

BOUNDARY = 1e-6
"""A weight below this lies on the boundary of the simplex, where the observed information says nothing about it."""


def incidence_errors(part: Incidence, point: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Standard errors of (gamma0, gamma)."""
    information = len(part.design) * part.derivatives(point, keep).hessian
    return np.sqrt(np.diagonal(_inverse(information)))


def threshold_errors(part: Threshold, point: np.ndarray, keep: np.ndarray) -> dict[str, np.ndarray]:
    """Standard errors of w, (beta0, beta) and s by the delta method.

    A weight on the boundary gets none (NaN), and the others are those of the model without it. Where the information
    is singular, all are NaN.
    """
    w = part.weights(point)
    inside = w > BOUNDARY
    free = part.basis.shape[1]
    evidence = replace(part.evidence, before=part.evidence.before[:, inside], within=part.evidence.within[:, inside])
    reduced = Threshold(evidence, part.design, part.ridge)
    logits = reduced.basis.T @ np.log(w[inside])
    information = evidence.n * reduced.derivatives(np.concatenate([logits, point[free:]]), keep).hessian
    location, precision = point[free:-1], point[-1]

    # Rows of the Jacobian: w, beta, s; columns: the reduced coordinates.
    kept, slopes = len(logits), len(location)
    jacobian = np.zeros((inside.sum() + slopes + 1, kept + slopes + 1))
    inner = w[inside] / w[inside].sum()
    jacobian[: len(inner), :kept] = (np.diag(inner) - np.outer(inner, inner)) @ reduced.basis
    jacobian[len(inner) : -1, kept:-1] = np.eye(slopes) / precision
    jacobian[len(inner) : -1, -1] = -location / precision**2
    jacobian[-1, -1] = -1 / precision**2
    covariance = jacobian @ _inverse(information) @ jacobian.T
    errors = np.sqrt(np.diagonal(covariance))
    w_errors = np.full(len(w), np.nan)
    w_errors[inside] = errors[: len(inner)]
    return {"w": w_errors, "beta": errors[len(inner) : -1], "s": errors[-1:]}


def _inverse(information: np.ndarray) -> np.ndarray:
    """Invert, or give NaN where the matrix is not safely positive definite."""
    curvature, directions = np.linalg.eigh(information)
    if curvature[0] <= 1e-9 * curvature[-1]:
        return np.full_like(information, np.nan)
    return (directions / curvature) @ directions.T
