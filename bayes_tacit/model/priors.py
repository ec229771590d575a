"""Priors as plain values: what is believed of the parameters before the data, on standardized features."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError


@dataclass(frozen=True)
class RidgePrior:
    r"""The prior under which the MAP is the paper's penalized maximum likelihood estimate.

    With n episodes, gamma and beta are Normal(0, :math:`1/\sqrt{2n\lambda}`), whose negative log density is
    :math:`n\lambda(\lVert\gamma\rVert^2 + \lVert\beta\rVert^2)` up to a constant: n times the paper's penalty. The
    intercepts and s > 0 are flat and w is uniform on the simplex. It depends on n and is improper, so it is for point
    estimates; use `WeaklyInformativePrior` for a posterior.

    Parameters
    ----------
    strength
        The penalty lambda; 0 makes gamma and beta flat too, which gives the maximum likelihood estimate.

    Examples
    --------
    >>> RidgePrior(strength=0.01).coefficient_scale(n_episodes=200)
    0.5
    """

    strength: float = 0.01

    def __post_init__(self) -> None:
        validate.number("RidgePrior.strength", self.strength, "a finite number >= 0", least=0)

    def coefficient_scale(self, n_episodes: int) -> float:
        """Prior standard deviation of gamma and beta; infinite without a penalty."""
        return float(1 / np.sqrt(2 * n_episodes * self.strength)) if self.strength else float("inf")


@dataclass(frozen=True)
class WeaklyInformativePrior:
    """A proper prior that rules out the absurd and leaves the rest to the data.

    Parameters
    ----------
    incidence_intercept
        Scale of gamma0 ~ Normal(0, .). At 1.5 the success probability of Strong on an average task is close to uniform
        on (0, 1), while rates beyond 0.3% or 99.7% (four sds) need data to be believed.
    incidence_slope
        Scale of gamma ~ Normal(0, .). At 1, one standard deviation of a feature multiplies the odds of success by up to
        7 either way (two sds).
    location_intercept
        Scale of beta0 ~ Normal(m, .), where m is the log of half the median cumulative risk at the end of a rollout
        under equal weights: diagnostics have no natural unit, so the threshold is placed on their scale. At 1.5, the
        typical threshold may be 20 times higher or lower (two sds).
    location_slope
        Scale of beta ~ Normal(0, .). At 0.5, one standard deviation of a feature multiplies the threshold by up to e
        either way (two sds).
    scale_median, scale_spread
        s ~ LogNormal(log(scale_median), scale_spread). At 0.7 and 0.5, thresholds of like tasks differ by a factor of
        1.3 to 7 (s from 0.26 to 1.9, two sds); s near zero, where sampling gets stuck, is unlikely.
    concentration
        w ~ Dirichlet(concentration, ..., concentration). At 1 all weights are equally likely.
    memory_kept, memory_lost
        rho ~ Beta(memory_kept, memory_lost), where the memory is learned. At 1 and 1 all memories are equally likely,
        from the highest value so far (0) to the paper's sum (1).

    Examples
    --------
    >>> WeaklyInformativePrior(location_slope=0.25)
    WeaklyInformativePrior(incidence_intercept=1.5, incidence_slope=1.0, location_intercept=1.5, location_slope=0.25, \
scale_median=0.7, scale_spread=0.5, concentration=1.0, memory_kept=1.0, memory_lost=1.0)
    """

    incidence_intercept: float = 1.5
    incidence_slope: float = 1.0
    location_intercept: float = 1.5
    location_slope: float = 0.5
    scale_median: float = 0.7
    scale_spread: float = 0.5
    concentration: float = 1.0
    memory_kept: float = 1.0
    memory_lost: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            name = f"WeaklyInformativePrior.{field.name}"
            validate.number(name, getattr(self, field.name), "a finite number > 0", above=0)


Prior = RidgePrior | WeaklyInformativePrior


def prior_to_json(prior: Prior) -> str:
    """Write a prior as data: its name and its settings.

    Examples
    --------
    >>> prior_to_json(RidgePrior(strength=0.1))
    '{"name": "RidgePrior", "strength": 0.1}'
    """
    return json.dumps({"name": type(prior).__name__} | asdict(prior))


def prior_from_json(text: str) -> Prior:
    """Read a prior that `prior_to_json` wrote.

    Examples
    --------
    >>> prior_from_json('{"name": "RidgePrior", "strength": 0.1}')
    RidgePrior(strength=0.1)
    """
    kinds = {kind.__name__: kind for kind in (RidgePrior, WeaklyInformativePrior)}
    try:
        settings = json.loads(text)
        return kinds[settings.pop("name")](**settings)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        expected = f"JSON with the name ({' or '.join(kinds)}) and settings of a prior"
        raise InvalidDataError(expected, field="prior", value=text) from error
