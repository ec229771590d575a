"""What is recommended: one of the policies, named from the fit and the development games alone."""

from __future__ import annotations

from collections.abc import Mapping

from bayes_tacit.policies import FittedPolicy, World
from simulations.development_choice import FEWEST, Chosen, choose_policy
from simulations.played.policies import is_family

PURE = ("Pure Cheap", "Pure Strong")


def recommended(fitted: Mapping[str, FittedPolicy], development: World, cap: float) -> Chosen | None:
    """Recommend one of the fitted policies; None where there are too few development games to say.

    They are tried from the simplest on, which Pure Cheap and Pure Strong are.
    """
    if len(development) < FEWEST:
        return None
    names = (*PURE, *(name for name in fitted if name not in PURE))
    return choose_policy(development, cap, [fitted[name] for name in names if is_family(name)])
