r"""The penalized objective where Strong's ability to solve a task is latent, with its exact derivatives.

A record's likelihood is a sum over its stratum, and a mark's over its delays (`bayes_tacit.model.strata`). With r the
probability of Z = 1 given all that was seen of the record, and g the gradients of the two terms' logarithms, the
gradient is :math:`r g_1 + (1 - r) g_0`, and the Hessian is that of the terms in the same proportion plus
:math:`r (1 - r)(g_1 - g_0)(g_1 - g_0)^\top` (Louis); likewise for the masses of a mark. So the pieces of the paper's
objective serve here with r as weights. Rates enter as logits, their Beta priors as they are, without a Jacobian.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.map_result import MapFit
from bayes_tacit.estimates.objective import (
    FLATTEST,
    Derivatives,
    NewtonResult,
    PaperFit,
    PaperObjective,
    delta_errors,
)
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import Bounds, records_in
from bayes_tacit.model.strata import Noise, mean_of, mixed_mass, stratum_terms, weighted_masses

VECTORS = ("lateness[", "lucky0", "lucky_slope[")


@dataclass(frozen=True)
class MixtureObjective(PaperObjective):
    """Mean of minus the log-likelihood of the records, plus the ridge penalty, minus the rates' log prior over n.

    A point is an `Incidence` point, a `Threshold` point, then the logits of the learned rates, of the delays along a
    basis, and of luck by features.
    """

    def parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split a point into its incidence and its threshold part; the rates come after."""
        return point[self._places["incidence"]], point[self._places["threshold"]]

    @cached_property
    def _records(self) -> Any:  # noqa: ANN401
        return records_in(self.threshold.evidence)

    @cached_property
    def _basis(self) -> np.ndarray:
        """Directions in which the logits of the delays move."""
        count = len(self._records.delays_learned)
        return np.linalg.qr(np.eye(count) - 1 / count)[0][:, : count - 1] if count else np.zeros((1, 0))

    @cached_property
    def _places(self) -> dict[str, slice]:
        """Where each part of a point lies."""
        p = self.incidence.design.shape[1]
        sizes = {"incidence": p, "threshold": self.threshold.basis.shape[1] + p + 1}
        sizes |= dict.fromkeys(self._records.learned, 1) | {"delays": self._basis.shape[1]}
        sizes["luck"] = p if self._records.noise.lucky_by_features else 0
        ends = np.cumsum([0, *sizes.values()])
        return {name: slice(ends[at], ends[at + 1]) for at, name in enumerate(sizes)}

    def start(self, threshold: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Return a point with this threshold part, and rates at the means of their priors, or near them."""
        point = np.zeros(list(self._places.values())[-1].stop)
        point[self._places["threshold"]] = threshold
        for name, prior in self._records.learned.items():
            point[self._places[name]] = special.logit(mean_of(prior))
        if rng is not None:
            tail = slice(self._places["threshold"].stop, None)
            point[tail] += rng.normal(scale=0.5, size=len(point[tail]))
        return point

    def point_of(self, fit: MapFit) -> np.ndarray:
        """Return the point of a fit to the same evidence."""
        free, at = self.threshold.basis.shape[1], self._places
        point = np.zeros(at["luck"].stop)
        point[at["incidence"]] = np.append(fit.gamma0, fit.gamma[self.varying])
        threshold = np.ones(at["threshold"].stop - at["threshold"].start)
        if free:
            threshold[:free] = self.threshold.basis.T @ np.log(np.maximum(fit.w[self.active] * self.scale, 1e-9))
        location = np.append(fit.beta0 - self.location_shift(threshold), fit.beta[self.varying])
        threshold[free:-1], threshold[-1] = location / fit.s, 1 / fit.s
        point[at["threshold"]] = threshold
        for name in self._records.learned:
            point[at[name]] = special.logit(np.clip(fit.rates[name][0], 1e-6, 1 - 1e-6))
        found = {kind: [value for name, (value, _) in fit.rates.items() if name.startswith(kind)] for kind in VECTORS}
        point[at["delays"]] = self._basis.T @ np.log(np.maximum(found["lateness["] or [1.0], 1e-9))
        point[at["luck"]] = [*found["lucky0"], *found["lucky_slope["]]
        return point

    def log_delays(self, point: np.ndarray) -> np.ndarray:
        """Log probability of each delay."""
        if not self._basis.shape[1]:
            return np.zeros(1)
        found: np.ndarray = special.log_softmax(self._basis @ point[self._places["delays"]])
        return found

    def logs(self, point: np.ndarray) -> dict[str, tuple[Any, Any]]:
        """Log of each rate and of its complement."""
        found: dict[str, tuple[Any, Any]] = dict(self._records.known())
        for name in self._records.learned:
            logit = float(point[self._places[name]][0])
            found[name] = (float(special.log_expit(logit)), float(special.log_expit(-logit)))
        if self._records.noise.lucky_by_features:
            logit = (self.incidence.design @ point[self._places["luck"]])[self._records.record]
            found["lucky"] = (special.log_expit(logit), special.log_expit(-logit))
        return found

    def terms(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of the two terms of every record."""
        return self._terms(point, self.threshold.log_likelihood(self.parts(point)[1]))

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log-likelihood of each record."""
        return np.logaddexp(*self.terms(point))

    def _terms(self, point: np.ndarray, log_mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        records, logs = self._records, self.logs(point)
        error = logs.get("mark_error", (0.0, 0.0))
        rollout = mixed_mass(records, records.kinds, log_mass, self.log_delays(point), error, NUMPY)
        logit = self.incidence.design @ self.parts(point)[0]
        log_pi = special.log_expit(logit), special.log_expit(-logit)
        return stratum_terms(records, records.stated, log_pi, rollout, logs, NUMPY)

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """Value, gradient and Hessian."""
        first, second = self.parts(point)
        if second[-1] <= FLATTEST:
            return Derivatives.outside(len(point))
        bounds, z, log_mass = self.threshold._evaluate(second)
        can, cannot = self._terms(point, log_mass)
        log_likelihood = np.logaddexp(can, cannot)
        r = special.expit(can - cannot)
        records, n = self._records, self.evidence.n

        within, rollout_score, by_piece = self._pieces(point, bounds, z, log_mass, r[records.record])
        hessian = within
        size = self._places["threshold"]
        _, curvature = self.threshold._likelihood_derivatives(second, bounds, z, log_mass, by_piece)
        hessian[size, size] += curvature

        one, zero = (np.zeros((len(point), n)) for _ in range(2))
        np.add.at(one.T, records.record, rollout_score.T)
        pi = special.expit(self.incidence.design @ first)
        columns, place = self.incidence.design.T, self._places["incidence"]
        one[place], zero[place] = columns * (1 - pi), -columns * pi
        hessian[place, place] -= (columns * (pi * (1 - pi))) @ columns.T
        self._rates(point, r, one, zero, hessian)
        difference = one - zero
        hessian += (difference * (r * (1 - r))) @ difference.T
        gradient = zero.sum(axis=1) + difference @ r
        value = -log_likelihood.sum()
        result = Derivatives(float(value / n), -gradient / n, -hessian / n)
        return self._penalized(point, result)

    def _pieces(
        self, point: np.ndarray, bounds: Bounds, z: Bounds, log_mass: np.ndarray, r: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the masses add to the Hessian, each rollout's score, and the weight of every mass."""
        records, place = self._records, self._places["threshold"]
        scores = np.zeros((len(point), len(log_mass)))
        scores[place] = self._scores(point[place], bounds, z, log_mass)
        hessian = np.zeros((len(point), len(point)))
        if records.kinds == 1:
            by_piece = np.zeros(len(log_mass))
            by_piece[records.pieces[:, 0]] = r
            return hessian, scores[:, records.pieces[:, 0]], by_piece
        logs, log_delays = self.logs(point), self.log_delays(point)
        error = logs.get("mark_error", (0.0, 0.0))
        weighted = weighted_masses(records, records.kinds, log_mass, log_delays, error, NUMPY)
        share = special.softmax(weighted, axis=1)
        by_piece = np.zeros(len(log_mass))
        total = np.zeros((len(point), len(r)))
        for kind in range(records.kinds):
            rows = records.pieces[:, kind]
            score = np.where(rows >= 0, scores[:, rows], 0.0)
            late = kind < len(records.noise.delays)
            if "mark_error" in records.learned:
                epsilon = np.exp(error[0])
                score[self._places["mark_error"]] = records.marked * (-epsilon if late else 1 - epsilon)
            if late and self._basis.shape[1]:
                moves = self._basis[kind] - np.exp(log_delays) @ self._basis
                score[self._places["delays"]] = np.outer(moves, records.marked)
            weight = share[:, kind] * r
            np.add.at(by_piece, rows[rows >= 0], weight[rows >= 0])
            total += share[:, kind] * score
            hessian += (score * weight) @ score.T
            if late and self._basis.shape[1]:
                p, at = np.exp(log_delays), self._places["delays"]
                spread = self._basis.T @ (np.diag(p) - np.outer(p, p)) @ self._basis
                hessian[at, at] -= (weight @ records.marked) * spread
        if "mark_error" in records.learned:
            at = self._places["mark_error"]
            hessian[at, at] -= (r @ records.marked) * np.exp(error[0] + error[1])
        hessian -= (total * r) @ total.T
        return hessian, total, by_piece

    def _scores(self, point: np.ndarray, bounds: Bounds, z: Bounds, log_mass: np.ndarray) -> np.ndarray:
        """Gradient of the log mass of each row, (parameter, row)."""
        part, evidence = self.threshold, self.threshold.evidence
        above, below, intervals = evidence.bounded_above, evidence.bounded_below, evidence.n_interval
        z_upper = np.concatenate([z.upper, z.lower[:intervals] + z.width])
        log_upper = np.concatenate([bounds.upper, bounds.lower[:intervals] + bounds.width])
        u = np.exp(evidence.family.log_pdf(z_upper) - log_mass[above])
        v = np.exp(evidence.family.log_pdf(z.lower) - log_mass[below])
        sums_above, sums_below = part._sums
        out = np.zeros((len(point), len(log_mass)))
        out[:, above] += part._side(point, above, sums_above, log_upper, u)[0] * u
        out[:, below] -= part._side(point, below, sums_below, bounds.lower, v)[0] * v
        return out

    def _rates(self, point: np.ndarray, r: np.ndarray, one: np.ndarray, zero: np.ndarray, hessian: np.ndarray) -> None:
        """Add what the learned rates have, to the scores of both terms by record and to the Hessian."""
        records, n = self._records, self.evidence.n
        by_rollout = {name: getattr(records, name).astype(float) for name in ("marked", "unmarked", "cheap_success")}
        counted = {name: np.bincount(records.record, values, minlength=n) for name, values in by_rollout.items()}
        rollouts = np.bincount(records.record, minlength=n)
        seen = {
            "sensitivity": (one, r, records.successes, records.successes + records.failures),
            "specificity": (zero, 1 - r, records.failures, records.successes + records.failures),
            "lucky": (zero, 1 - r, counted["cheap_success"], rollouts),
            "marked": (one, r, counted["marked"], counted["marked"] + counted["unmarked"]),
            "stray": (zero, 1 - r, counted["marked"], counted["marked"] + counted["unmarked"]),
        }
        for name in set(records.learned) - {"mark_error"}:
            term, probability, events, trials = seen[name]
            at = self._places[name]
            p = float(special.expit(point[at])[0])
            term[at] = events - trials * p
            hessian[at, at] -= (probability @ trials) * p * (1 - p)
        if records.noise.lucky_by_features:
            at, design = self._places["luck"], self.incidence.design
            c = special.expit(design @ point[at])
            zero[at] = design.T * (counted["cheap_success"] - rollouts * c)
            hessian[at, at] -= (design.T * ((1 - r) * rollouts * c * (1 - c))) @ design

    def _penalized(self, point: np.ndarray, likelihood: Derivatives) -> Derivatives:
        """Add the ridge penalty, and subtract the log priors of the rates."""
        ridge, n = self.incidence.ridge, self.evidence.n
        value, gradient, hessian = likelihood
        for name in ("incidence", "luck"):
            slopes = np.arange(len(point))[self._places[name]][1:]
            value += ridge * point[slopes] @ point[slopes]
            gradient[slopes] += 2 * ridge * point[slopes]
            hessian[slopes, slopes] += 2 * ridge
        at = self._places["threshold"]
        shifted = self.threshold._penalize(point[at], Derivatives(0.0, gradient[at].copy(), hessian[at, at].copy()))
        value += shifted.value
        gradient[at] = shifted.gradient
        hessian[at, at] = shifted.hessian
        for name, (a, b) in self._records.learned.items():
            at = self._places[name]
            p = float(special.expit(point[at])[0])
            value -= float(special.xlogy(a - 1, p) + special.xlog1py(b - 1, -p)) / n
            gradient[at] -= ((a - 1) * (1 - p) - (b - 1) * p) / n
            hessian[at, at] += (a + b - 2) * p * (1 - p) / n
        if self._basis.shape[1]:
            at, log_p = self._places["delays"], self.log_delays(point)
            extra, share = np.array(self._records.delays_learned) - 1, np.exp(log_p)
            value -= float(extra @ log_p) / n
            gradient[at] -= (extra - extra.sum() * share) @ self._basis / n
            hessian[at, at] += extra.sum() * self._basis.T @ (np.diag(share) - np.outer(share, share)) @ self._basis / n
        return Derivatives(float(value), gradient, hessian)

    def minimized(self, start: np.ndarray, newton: Any) -> PaperFit:  # noqa: ANN401
        """Minimize from a start."""
        return PaperFit(newton(self.derivatives, start), floored=self.evidence.zero_mass[:0])

    def parameters(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return all parameters on their own scales, of standardized features and diagnostics in their own units."""
        first, second = self.parts(point)
        free, scale = self.threshold.basis.shape[1], 1 / second[-1]
        location = second[free:-1] * scale
        found = {
            "gamma0": first[0],
            "gamma": first[1:],
            "beta0": location[0] + self.location_shift(second),
            "beta": location[1:],
            "s": scale,
            "w": self.weights(second),
        }
        return {name: np.asarray(value) for name, value in (found | self.rates(point)).items()}

    def rates(self, point: np.ndarray) -> dict[str, float]:
        """Return what is learned of outcomes and marks, each under a name of its own."""
        found = {name: float(special.expit(point[self._places[name]])[0]) for name in self._records.learned}
        for delay, log_p in enumerate(self.log_delays(point) if self._basis.shape[1] else ()):
            found[f"lateness[{delay}]"] = float(np.exp(log_p))
        if self._records.noise.lucky_by_features:
            names = np.asarray(self.evidence.feature_names)[self.varying].tolist()
            labels = ["lucky0", *(f"lucky_slope[{name}]" for name in names)]
            found |= dict(zip(labels, point[self._places["luck"]].tolist(), strict=True))
        return found

    def all_errors(self, optimum: NewtonResult) -> dict[str, np.ndarray]:
        """Standard errors of all parameters by the delta method; NaN where there is no curvature."""
        point = optimum.point
        out = delta_errors(self.parameters, point, optimum.derivatives.hessian, self.evidence.n)
        inside = self.threshold.weights(self.parts(point)[1]) > 1e-6
        out["w"] = np.where(inside, out["w"], np.nan)
        return out


def warn_of_rates(fit: MapFit) -> None:
    """Tell where learned rates say that the strata are not what they are called."""
    rates = {name: fit.rates[name][0] for name in ("sensitivity", "specificity") if name in fit.rates}
    known = fit.spec.noise or Noise()
    if rates and sum(rates.get(name, mean_of(getattr(known, name))) for name in ("sensitivity", "specificity")) <= 1:
        said = " and ".join(f"{name} {value:.2f}" for name, value in rates.items())
        warnings.warn(
            f"with {said} learned outcomes say less than nothing of the strata, so that these tell something else, "
            "such as which tasks are marked: the model does not fit; give the rates as numbers",
            TacitWarning,
            stacklevel=3,
        )
