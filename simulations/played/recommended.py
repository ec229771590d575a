"""What is recommended: one of the policies, named from the fit and the development games alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import FittedPolicy, Recommendation, World, recommend
from bayes_tacit.policies.recommending import FEWEST
from simulations.played.policies import is_family

PURE = ("Pure Cheap", "Pure Strong")


def recommended(
    fitted: Mapping[str, FittedPolicy], training: Episodes, development: World, cap: float
) -> Recommendation | None:
    """Recommend one of the fitted policies; None where there are too few development games to say.

    They are tried from the simplest on, which Pure Cheap and Pure Strong are.
    """
    if len(development) < FEWEST:
        return None
    tried = [fitted[name] for name in (*PURE, *(name for name in fitted if name not in PURE)) if is_family(name)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return recommend(training, development, cap, policies=tried)
