"""What the evidence can tell apart, and what to say when it cannot."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import linalg

from bayes_tacit.errors import ConvergenceError, TacitWarning
from bayes_tacit.estimates.map_fit.newton import NewtonResult
from bayes_tacit.estimates.map_fit.objective import PaperObjective

FLAT = 1e-7
"""Curvature below which a coefficient of a standardized feature is running off to infinity."""

VANISHING = 1e-3
"""One over a scale of log kappa that no unit of a diagnostic explains."""

PERFECT = 0.01
"""Nats that the evidence must leave to be explained."""


def warn_of_dependence(objective: PaperObjective) -> None:
    """Name the diagnostics, and without a penalty the features, that the evidence cannot separate."""
    evidence, seen = objective.evidence, objective.threshold.evidence
    if evidence.weights is None:
        names = np.asarray(evidence.diagnostic_names)[objective.active]
        sums = np.vstack([seen.before[seen.bounded_below], (seen.before + seen.within)[seen.bounded_above]])
        _warn("diagnostic", dependent_columns(sums, names.tolist()))
    if objective.incidence.ridge == 0:
        names = np.asarray(evidence.feature_names)[objective.varying]
        _warn("feature", dependent_columns(objective.incidence.design[:, 1:], names.tolist()))


def _warn(kind: str, dependent: list[tuple[str, list[str]]]) -> None:
    for name, others in dependent:
        warnings.warn(
            f"{kind} {name!r} cannot be told apart from {', '.join(map(repr, others))} by this evidence: only their "
            "joint effect is learned",
            TacitWarning,
            stacklevel=4,
        )


def dependent_columns(matrix: np.ndarray, names: list[str]) -> list[tuple[str, list[str]]]:
    """Find the columns that are linear combinations of others.

    Returns
    -------
    list
        One pair for each dependent column: its name, and the names of the columns that it combines.

    Examples
    --------
    >>> dependent_columns(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0]]), ["a", "b", "c"])
    [('b', ['a'])]
    """
    if matrix.shape[1] == 0:
        return []
    if _well_conditioned(matrix):
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


def _well_conditioned(matrix: np.ndarray) -> bool:
    """Say from the small cross-product matrix that no columns depend on each other; no means only perhaps."""
    gram = matrix.T @ matrix
    size = np.sqrt(np.diagonal(gram))
    return bool(np.linalg.eigvalsh(gram / np.outer(size, size))[0] > 1e-10)


def refuse_degenerate(objective: PaperObjective, fit: NewtonResult) -> None:
    """Raise if there is no finite optimum: the windows can be met exactly, or a feature determines an outcome.

    The parameters then grow until the gradient vanishes, which looks like an optimum; the perfect fit, or the
    curvature, gives it away. A direction that is flat because features depend on each other is another matter, which
    `warn_of_dependence` tells.
    """
    incidence, threshold = objective.parts(np.arange(len(fit.point)))
    if objective.threshold.log_likelihood(fit.point[threshold]).sum() > -PERFECT:
        raise ConvergenceError(
            f"all {len(objective.evidence.timed)} windows and censored rollouts can be met exactly, so the scale s has "
            "no optimum above zero; expected more episodes, or fewer features and diagnostics. sample_posterior has an "
            "answer even so"
        )
    if fit.point[-1] < VANISHING:
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
        loading = np.abs(directions[:, position]).argmax()
        raise ConvergenceError(
            f"{what} is determined by {names[loading]!r} in these episodes, so its coefficient has no finite optimum; "
            "use ridge > 0, more episodes, or leave the feature out"
        )
