"""L2-penalized logistic regression for the success of a Cheap rollout, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError
from bayes_tacit.model.design import Standardization
from bayes_tacit.router.rule import Chance


@dataclass(frozen=True)
class LogisticFit:
    """Probability of success as a function of named columns, which it standardizes as in training."""

    names: tuple[str, ...]
    standardization: Standardization
    intercept: float
    slopes: np.ndarray
    iterations: int

    def probability(self, columns: np.ndarray) -> np.ndarray:
        """Return the probability of success for raw columns (episode, name).

        Terms are added one after the other, so a task's number does not depend on which others are computed with it.
        """
        x = self.standardization.apply(columns)
        logit = np.full(len(x), self.intercept)
        for column, slope in zip(x.T, self.slopes, strict=True):
            logit += column * slope
        return special.expit(logit)

    def on(self, mean: np.ndarray, scale: np.ndarray) -> tuple[float, np.ndarray]:
        """Return intercept and slopes on columns that are standardized otherwise; the probabilities stay the same."""
        shift = (mean - self.standardization.mean) / self.standardization.scale
        slopes: np.ndarray = self.slopes * (scale / self.standardization.scale)
        return self.intercept + float((shift * self.slopes).sum()), slopes

    def chance(self) -> Chance:
        """Return the same probability as a rule holds it, to the same bits."""
        return Chance(self.standardization.mean, self.standardization.scale, self.intercept, self.slopes)


@dataclass(frozen=True)
class L2Logistic:
    r"""How a logistic model is fitted.

    It is the minimum of

    .. math:: -\sum_i \log p(y_i \mid x_i) + \frac\lambda2 \lVert b \rVert^2

    over the intercept, which is not penalized, and the slopes b on standardized columns. `penalty` is lambda, above 0;
    scikit-learn's C is its inverse. `tolerance` is the largest change of a parameter in Newton's last step.

    Examples
    --------
    >>> fit = NEWTON.fit(("x",), np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([False, False, True, True]))
    >>> fit.probability(np.array([[0.0], [3.0]])).round(2)
    array([0.22, 0.78])
    """

    penalty: float = 1.0
    max_iterations: int = 100
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.number("penalty", self.penalty, "a number above 0", above=0)
        validate.whole("max_iterations", self.max_iterations, 1)
        validate.number("tolerance", self.tolerance, "a number above 0", above=0)

    def fit(
        self,
        names: tuple[str, ...],
        columns: np.ndarray,
        success: np.ndarray,
        of: str = "",
        weight: np.ndarray | None = None,
    ) -> LogisticFit:
        """Fit on training episodes; a row's logarithm counts as often as its weight says, by default once."""
        if len(columns) == 0 or success.all() or not success.any():
            counts = f"{int(success.sum())} of {len(success)}"
            raise EvidenceError(
                f"{of}Cheap succeeds in {counts} training episodes; expected both outcomes to learn from"
            )
        if not np.isfinite(columns).all():
            row, column = np.argwhere(~np.isfinite(columns))[0]
            value = float(columns[row, column])
            raise InvalidDataError("a finite number", field=names[column], value=value, where=f"row {row}")
        standardization = Standardization.of(columns) if names else Standardization(*(np.zeros(0),) * 3)
        intercept, slopes, iterations = self._newton(
            standardization.apply(columns), success, of, np.ones(len(success)) if weight is None else weight
        )
        slopes.flags.writeable = False
        return LogisticFit(names, standardization, intercept, slopes, iterations)

    def laplace(self, fit: LogisticFit, columns: np.ndarray, draws: int, rng: np.random.Generator) -> list[LogisticFit]:
        """Draw from the normal approximation of the posterior, the penalty read as a normal prior of the slopes."""
        x = fit.standardization.apply(columns)
        design = np.column_stack([np.ones(len(x)), x])
        p = fit.probability(columns)
        hessian = (design.T * (p * (1 - p))) @ design + np.diag(np.append(0.0, np.full(x.shape[1], self.penalty)))
        noise = np.linalg.solve(np.linalg.cholesky(hessian).T, rng.standard_normal((design.shape[1], draws)))
        return [replace(fit, intercept=fit.intercept + float(b[0]), slopes=fit.slopes + b[1:]) for b in noise.T]

    def _newton(self, x: np.ndarray, success: np.ndarray, of: str, weight: np.ndarray) -> tuple[float, np.ndarray, int]:
        design = np.column_stack([np.ones(len(x)), x])
        penalty = np.append(0.0, np.full(x.shape[1], self.penalty))
        rate = success.mean()
        b = np.append(special.logit(rate), np.zeros(x.shape[1]))
        value = self._objective(design, success, penalty, b, weight)
        for iteration in range(1, self.max_iterations + 1):
            p = special.expit(design @ b)
            gradient = design.T @ (weight * (p - success)) + penalty * b
            hessian = (design.T * (weight * (p * (1 - p)))) @ design + np.diag(penalty)
            step = np.linalg.solve(hessian, gradient)
            trial = self._objective(design, success, penalty, b - step, weight)
            # The objective is convex, so a shorter step of a Newton direction always lowers it.
            while trial > value + 1e-12 * abs(value) and np.abs(step).max() > self.tolerance:
                step /= 2
                trial = self._objective(design, success, penalty, b - step, weight)
            b, value = b - step, trial
            if np.abs(step).max() <= self.tolerance:
                return float(b[0]), b[1:], iteration
        raise ConvergenceError(f"{of}Newton's method did not converge in {self.max_iterations} iterations")

    @staticmethod
    def _objective(
        design: np.ndarray, success: np.ndarray, penalty: np.ndarray, b: np.ndarray, weight: np.ndarray
    ) -> float:
        logit = design @ b
        likelihood = (weight * np.logaddexp(0, logit)).sum() - (weight * logit)[success].sum()
        return float(likelihood + 0.5 * (penalty * b * b).sum())


NEWTON = L2Logistic(penalty=1.0)
"""The paper's setting for ALFWorld: lambda = 1, at most 100 Newton updates, tolerance 1e-9."""

DABENCH = L2Logistic(penalty=10.0)
"""The paper's penalty for DABench, C = 0.1; the same optimum that its L-BFGS comes near to."""
