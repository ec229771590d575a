"""Random mechanisms with the pure rates held, to see whether what holds for one parameter set is true of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from bayes_tacit import validate
from bayes_tacit.errors import ConvergenceError
from simulations.mechanism.exact import Actor, success_probability
from simulations.mechanism.parameters import Mechanism, Triple

CHEAP_RATE, STRONG_RATE = 0.446, 0.849
"""The paper's rates of Pure Cheap and Pure Strong."""

_SHIFTS = (-12.0, 12.0)
_ATTEMPTS = 100


def random_mechanism(
    seed: int | np.random.SeedSequence, *, cheap_rate: float = CHEAP_RATE, strong_rate: float = STRONG_RATE
) -> Mechanism:
    """Draw a mechanism whose actors succeed alone at given rates.

    Every number is drawn from a broad distribution:

    - falls of Cheap's logit of a correct action from on track to recoverable, and from there to off track: Exponential,
      means 1 and 1.5; of Strong's: Exponential, means 0.3 and 0.3 (Strong suffers less);
    - moves: Dirichlet rows. Cheap from on track (6, 1.5, 1.5), recoverable (1.5, 6, 1), off track (0.3, 0.7, 9);
      Strong from on track (8, 1, 0.7), recoverable (4, 5, 0.5), off track (1.5, 2.5, 5);
    - effects of the traits: difficulty on Cheap Uniform(0, 2), on drift Uniform(0, 0.8), on Strong Uniform(0, 0.6);
      resistance on Strong Uniform(0, 1.5);
    - correlations of the features with the traits: Uniform(0.05, 0.7) and Uniform(0.05, 0.95);
    - log threshold: center Normal(0, 0.7), difficulty Normal(0, 0.5), spread Uniform(0, 1);
    - risk: means Uniform(0, 0.1), Uniform(0, 0.7) and 1; of an error Uniform(0, 0.3); noise log-uniform on
      (0.1, 1), its persistent share Uniform(0, 0.9).

    Then the logits of both actors are shifted, each by one number for all states, until the rates are met exactly (by
    `exact.success_probability`). A draw whose rates no shift can meet is drawn again.

    Examples
    --------
    >>> mechanism = random_mechanism(seed=3)
    >>> round(success_probability(mechanism, "cheap"), 4), round(success_probability(mechanism, "strong"), 4)
    (0.446, 0.849)
    """
    for name, rate in (("cheap_rate", cheap_rate), ("strong_rate", strong_rate)):
        validate.number(name, rate, "a probability above 0 and below 1", above=0, below=1)
    rng = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        drawn = _draw(rng)
        cheap = _held(drawn, "cheap", cheap_rate)
        both = None if cheap is None else _held(cheap, "strong", strong_rate)
        if both is not None:
            return both
    raise ConvergenceError(f"none of {_ATTEMPTS} draws reaches the rates {cheap_rate} and {strong_rate}")


def _draw(rng: np.random.Generator) -> Mechanism:
    def falling(means: tuple[float, float]) -> Triple:
        return _triple(expit(2.0 - np.append(0.0, np.cumsum(rng.exponential(means)))))

    def rows(*weights: Triple) -> tuple[Triple, Triple, Triple]:
        first, second, third = (_triple(rng.dirichlet(row)) for row in weights)
        return first, second, third

    return Mechanism(
        cheap_correct=falling((1.0, 1.5)),
        strong_correct=falling((0.3, 0.3)),
        cheap_moves=rows((6.0, 1.5, 1.5), (1.5, 6.0, 1.0), (0.3, 0.7, 9.0)),
        strong_moves=rows((8.0, 1.0, 0.7), (4.0, 5.0, 0.5), (1.5, 2.5, 5.0)),
        difficulty_on_cheap=rng.uniform(0, 2),
        difficulty_on_drift=rng.uniform(0, 0.8),
        difficulty_on_strong=rng.uniform(0, 0.6),
        resistance_on_strong=rng.uniform(0, 1.5),
        x1_correlation=rng.uniform(0.05, 0.7),
        x2_correlation=rng.uniform(0.05, 0.95),
        threshold_center=rng.normal(0, 0.7),
        threshold_difficulty=rng.normal(0, 0.5),
        threshold_spread=rng.uniform(0, 1),
        risk_mean=(rng.uniform(0, 0.1), rng.uniform(0, 0.7), 1.0),
        risk_of_error=rng.uniform(0, 0.3),
        risk_noise=float(np.exp(rng.uniform(np.log(0.1), np.log(1.0)))),
        risk_persistence=rng.uniform(0, 0.9),
    )


def _held(mechanism: Mechanism, actor: Actor, rate: float) -> Mechanism | None:
    """Shift an actor's logits until it succeeds at the rate; None where no shift does."""
    name = f"{actor}_correct"

    def shifted(by: float) -> Mechanism:
        correct = np.clip(expit(logit(getattr(mechanism, name)) + by), 1e-9, 1 - 1e-9)
        return replace(mechanism, **{name: _triple(correct)})  # type: ignore[arg-type]

    def excess(by: float) -> float:
        return success_probability(shifted(by), actor) - rate

    lowest, highest = _SHIFTS
    if excess(lowest) > 0 or excess(highest) < 0:
        return None
    return shifted(brentq(excess, lowest, highest, xtol=1e-10))


def _triple(values: np.ndarray) -> Triple:
    first, second, third = (float(value) for value in values)
    return first, second, third
