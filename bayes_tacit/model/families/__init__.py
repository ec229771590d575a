"""Threshold families: what distribution the logarithm of the handoff threshold has around its location.

A family is given by the standard distribution of z = (log kappa - location) / s, one file each. Its formulas are
written over an array namespace, so that the optimizer, the PyMC model and the router share them. Only NumPy and
`scipy.special` are imported. A family of one's own is a `Family` value, known by its name once it was registered.
"""

from __future__ import annotations

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.families.base import Family
from bayes_tacit.model.families.loggamma import LOGGAMMA, log_gamma
from bayes_tacit.model.families.loglogistic import LOGLOGISTIC
from bayes_tacit.model.families.lognormal import LOGNORMAL
from bayes_tacit.model.families.weibull import WEIBULL
from bayes_tacit.validate import text

__all__ = [
    "Family",
    "family_named",
    "log_gamma",
    "register_family",
]

OWN = {family.name: family for family in (LOGNORMAL, LOGLOGISTIC, WEIBULL, LOGGAMMA)}
"""The families that come along."""

FAMILIES = dict(OWN)
"""Every family by its name, registered ones included."""


def register_family(family: Family) -> Family:
    """Make a family known by its name, in this process: to fits, posteriors, routers, and files that are read.

    Parameters
    ----------
    family
        The family. One that was registered under its name before is replaced, but none that comes along.

    Examples
    --------
    >>> register_family(LOGNORMAL)
    <Family lognormal>
    """
    if not isinstance(family, Family):
        raise InvalidDataError("a Family", field="family", value=family)
    name = text("name of the family", family.name)
    if not name or (name in OWN and OWN[name] is not family):
        raise InvalidDataError(f"a name other than {', '.join(OWN)}", field="name of the family", value=name)
    FAMILIES[name] = family
    return family


def family_named(name: object) -> Family:
    """Look a family up; a registered `Family` is given back.

    Examples
    --------
    >>> family_named("loglogistic").label
    'log-logistic'
    """
    wanted = name.name if isinstance(name, Family) else name
    found = FAMILIES.get(wanted) if isinstance(wanted, str) else None
    if found is None or (isinstance(name, Family) and found is not name):
        known = " or ".join(map(repr, FAMILIES))
        raise InvalidDataError(f"{known}; register_family makes another one known", field="family", value=name)
    return found
