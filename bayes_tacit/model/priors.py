"""Priors as plain values: what is believed of the parameters before the data, on standardized features.

A prior is a frozen dataclass that states, in PyMC, each parameter that it is asked for. Your own is written in the same
way, most easily as a subclass that states some parameters otherwise, and is known once it was registered. PyMC is
loaded only where a model is stated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from pytensor.tensor import TensorVariable


@dataclass(frozen=True)
class Site:
    """A parameter that a prior states, inside the context of a `pymc.Model`.

    Attributes
    ----------
    name
        "gamma0", "gamma", "beta0", "beta", "s", "w", "rho" (a memory that is learned), "delta" (of a spread by
        features), "gamma_spread" or "beta_spread" (of groups), "lucky0" or "lucky_slope" (of luck).
    n_episodes
        How many episodes there are.
    size, dims
        How many numbers it has, and their dimension in the model; None for a single number.
    center
        Log of the typical threshold, where beta0 may be placed: data of the model or, with a learned memory, an
        expression.
    """

    name: str
    n_episodes: int
    size: int = 1
    dims: str | None = None
    center: Any = 0.0


@runtime_checkable
class Prior(Protocol):
    """What a prior must have: a frozen dataclass with this.

    Attributes
    ----------
    proper
        Whether it integrates to one, without which there is no posterior to sample.
    """

    proper: ClassVar[bool]

    def state(self, site: Site) -> TensorVariable:
        """State the parameter's distribution: a PyMC variable under the site's name and dims."""
        ...


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

    proper: ClassVar[bool] = False
    strength: float = 0.01

    def __post_init__(self) -> None:
        validate.number("RidgePrior.strength", self.strength, "a finite number >= 0", least=0)

    def coefficient_scale(self, n_episodes: int) -> float:
        """Prior standard deviation of gamma and beta; infinite without a penalty."""
        return float(1 / np.sqrt(2 * n_episodes * self.strength)) if self.strength else float("inf")

    def state(self, site: Site) -> TensorVariable:  # noqa: D102
        import pymc as pm

        match site.name:
            case "gamma0" | "lucky0":
                return pm.Flat(site.name)
            case "beta0":
                center = site.center.get_value() if hasattr(site.center, "get_value") else 0.0
                return pm.Flat(site.name, initval=float(np.mean(center)))
            case "s":
                return pm.HalfFlat(site.name)
            case "gamma" | "beta" | "lucky_slope":
                scale = self.coefficient_scale(site.n_episodes)
                if np.isinf(scale):
                    return pm.Flat(site.name, dims=site.dims)
                return pm.Normal(site.name, 0.0, scale, dims=site.dims)
            case "w":
                return pm.Dirichlet(site.name, np.ones(site.size), dims=site.dims)
            case "rho":
                return pm.Uniform(site.name, 0.0, 1.0)
        expected = "a proper prior: under a flat one the most likely spread of groups is none"
        raise InvalidDataError(expected, field=f"prior of {site.name}", value=self)


@dataclass(frozen=True)
class PaperPrior:
    r"""A proper prior whose mode is the paper's estimate to about three digits, so that one model has a MAP and NUTS.

    gamma and beta are Normal(0, :math:`1/\sqrt{2n\lambda}`), as under a `RidgePrior`, and w is uniform on the simplex.
    What is flat there is wide here: gamma0 ~ Normal(0, wide), beta0 ~ Normal(m, wide) around the log of the typical
    threshold, s ~ HalfNormal(wide), and gamma and beta where there is no penalty. Parameters that the paper does not
    have are as under `WeaklyInformativePrior()`. It depends on n, as the paper's penalty does: for a belief that does
    not, take `WeaklyInformativePrior`.

    Parameters
    ----------
    strength
        The penalty lambda.
    wide
        Standard deviation of what the paper leaves flat. At 10 it moves an estimate from 200 episodes by less than
        1e-3.

    Examples
    --------
    >>> PaperPrior(strength=0.03)
    PaperPrior(strength=0.03, wide=10.0)
    """

    proper: ClassVar[bool] = True
    strength: float = 0.01
    wide: float = 10.0

    def __post_init__(self) -> None:
        validate.number("PaperPrior.strength", self.strength, "a finite number >= 0", least=0)
        validate.number("PaperPrior.wide", self.wide, "a finite number > 0", above=0)

    def state(self, site: Site) -> TensorVariable:  # noqa: D102
        import pymc as pm

        match site.name:
            case "gamma0":
                return pm.Normal(site.name, 0.0, self.wide)
            case "beta0":
                return pm.Normal(site.name, site.center, self.wide)
            case "s":
                return pm.HalfNormal(site.name, self.wide, initval=1.0)
            case "gamma" | "beta":
                scale = min(RidgePrior(self.strength).coefficient_scale(site.n_episodes), self.wide)
                return pm.Normal(site.name, 0.0, scale, dims=site.dims)
        return WeaklyInformativePrior().state(site)


@dataclass(frozen=True)
class WeaklyInformativePrior:
    """A proper prior that rules out the absurd and leaves the rest to the data.

    Parameters
    ----------
    incidence_intercept
        Scale of gamma0 ~ Normal(0, .). At 1.5 the success probability of Strong on an average task is close to uniform
        on (0, 1), while rates beyond 0.3% or 99.7% (four sds) need data to be believed.
    incidence_slope
        Scale of gamma ~ Normal(0, .), and of luck's slopes. At 1, one standard deviation of a feature multiplies the
        odds of success by up to 7 either way (two sds).
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
        w ~ Dirichlet(concentration, ..., concentration). At 1 all weights are equally likely, which with
        many diagnostics says that each has a small one and none is zero; where most mean nothing, bands cover better
        with less (of 20 with 15 that mean nothing, 0.25; the study `power`), and sampling takes more draws.
    memory_kept, memory_lost
        rho ~ Beta(memory_kept, memory_lost), where the memory is learned. At 1 and 1 all memories are equally likely,
        from the highest value so far (0) to the paper's sum (1).
    incidence_spread, location_spread
        gamma_spread ~ HalfNormal(.) and beta_spread ~ HalfNormal(.), where there are groups: the standard deviations
        of their intercepts. At 1 and 0.5 groups may differ as much as features of one standard deviation make tasks
        differ.

    scale_slope
        Scale of delta ~ Normal(0, .), where the spread depends on the features. At 0.3, one standard deviation of a
        feature multiplies s by up to 1.8 either way (two sds).

    Examples
    --------
    >>> WeaklyInformativePrior(location_slope=0.25)
    WeaklyInformativePrior(incidence_intercept=1.5, incidence_slope=1.0, location_intercept=1.5, location_slope=0.25, \
scale_median=0.7, scale_spread=0.5, concentration=1.0, memory_kept=1.0, memory_lost=1.0, incidence_spread=1.0, \
location_spread=0.5, scale_slope=0.3)
    """

    proper: ClassVar[bool] = True
    incidence_intercept: float = 1.5
    incidence_slope: float = 1.0
    location_intercept: float = 1.5
    location_slope: float = 0.5
    scale_median: float = 0.7
    scale_spread: float = 0.5
    concentration: float = 1.0
    memory_kept: float = 1.0
    memory_lost: float = 1.0
    incidence_spread: float = 1.0
    location_spread: float = 0.5
    scale_slope: float = 0.3

    def __post_init__(self) -> None:
        for field in fields(WeaklyInformativePrior):
            name = f"{type(self).__name__}.{field.name}"
            validate.number(name, getattr(self, field.name), "a finite number > 0", above=0)

    def state(self, site: Site) -> TensorVariable:  # noqa: D102
        import pymc as pm

        match site.name:
            case "gamma0" | "lucky0":
                return pm.Normal(site.name, 0.0, self.incidence_intercept)
            case "beta0":
                return pm.Normal(site.name, site.center, self.location_intercept)
            case "s":
                return pm.LogNormal(site.name, np.log(self.scale_median), self.scale_spread)
            case "gamma" | "beta" | "lucky_slope":
                scale = self.location_slope if site.name == "beta" else self.incidence_slope
                return pm.Normal(site.name, 0.0, scale, dims=site.dims)
            case "w":
                return pm.Dirichlet(site.name, np.full(site.size, self.concentration), dims=site.dims)
            case "delta":
                return pm.Normal(site.name, 0.0, self.scale_slope, dims=site.dims)
            case "rho":
                return pm.Beta(site.name, self.memory_kept, self.memory_lost)
            case "gamma_spread" | "beta_spread":
                spread = self.incidence_spread if site.name == "gamma_spread" else self.location_spread
                return pm.HalfNormal(site.name, spread)
        raise InvalidDataError("a parameter of the model", field="name of the site", value=site.name)


OWN: tuple[type[Prior], ...] = (RidgePrior, PaperPrior, WeaklyInformativePrior)  # the library's own priors

PRIORS: dict[str, type[Prior]] = {kind.__name__: kind for kind in OWN}
"""Every prior by the name of its class, registered ones included."""


def register_prior[P: Prior](kind: type[P]) -> type[P]:
    """Make a class of priors known by its name, in this process; also as a decorator.

    It is a frozen dataclass whose fields JSON can hold, with `proper` and `state`; see `Prior`.

    Examples
    --------
    >>> register_prior(WeaklyInformativePrior)
    <class 'bayes_tacit.model.priors.WeaklyInformativePrior'>
    """
    if not all((isinstance(kind, type), is_dataclass(kind), hasattr(kind, "state"), hasattr(kind, "proper"))):
        raise InvalidDataError("a frozen dataclass with `proper` and `state`", field="class of the prior", value=kind)
    if kind.__module__ != __name__ and kind.__name__ in [own.__name__ for own in OWN]:
        raise InvalidDataError("a name that is not taken", field="name of the prior", value=kind.__name__)
    PRIORS[kind.__name__] = kind
    return kind


def checked_prior(prior: object, *, proper: bool = False) -> Prior:
    """Return a prior whose class is registered, and which is proper if it must be."""
    if not isinstance(prior, Prior) or PRIORS.get(type(prior).__name__) is not type(prior):
        expected = f"a {' or a '.join(PRIORS)}, or one whose class register_prior made known"
        raise InvalidDataError(expected, field="prior", value=prior)
    if proper and not prior.proper:
        expected = "a proper prior, such as WeaklyInformativePrior(): others are for point estimates"
        raise InvalidDataError(expected, field="prior", value=prior)
    return prior


def prior_to_json(prior: Prior) -> str:
    """Write a prior as data: its name and its settings."""
    return json.dumps({"name": type(prior).__name__} | asdict(prior))  # type: ignore[call-overload]


def prior_from_json(text: str) -> Prior:
    """Read a prior that `prior_to_json` wrote."""
    try:
        settings = json.loads(text)
        return PRIORS[settings.pop("name")](**settings)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        expected = f"JSON with the name ({' or '.join(PRIORS)}, or what was registered) and settings of a prior"
        raise InvalidDataError(expected, field="prior", value=text) from error
