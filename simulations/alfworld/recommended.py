"""What is recommended: one of the policies, named from the fit and the development games alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import FittedPolicy, Recommendation, World, recommend
from bayes_tacit.policies.recommending.recommend import FEWEST
from simulations.alfworld.policies import is_family
from simulations.studies.tables import markdown_table

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


def advice_table(advice: Recommendation) -> str:
    """Give what each policy is expected to do on new games, by cross-validation on the development games."""
    rows = [
        [
            f"**{row['policy']}**" if row["policy"] == advice.name else str(row["policy"]),
            f"{100 * row['success']:.1f}% ({100 * row['success_lower']:.1f} to {100 * row['success_upper']:.1f})",
            f"{row['cost']:.1f}",
            f"{100 * row['ahead']:+.1f} ({100 * row['ahead_lower']:+.1f} to {100 * row['ahead_upper']:+.1f})",
            f"{100 * row['probability_best']:.0f}%",
        ]
        for row in advice.table.to_dict("records")
    ]
    head = ["policy", "held-out success (95% interval)", "cost", "named one ahead by, points", "is the best"]
    return markdown_table(head, rows)


def advice_words(advice: Recommendation) -> str:
    """Say which policy is named, and why."""
    expected = advice.expected
    why = "it has the highest held-out success"
    if advice.too_little:
        why = (
            f"{advice.best} has the highest held-out success, but {advice.n_tasks} games cannot tell the two apart to "
            f"a point, and {advice.name} is the simplest policy within one standard error of it"
        )
    return (
        f"`recommend` names **{advice.name}**: {why}. Of whatever it names on such games it expects "
        f"{100 * expected['success']:.1f}% ({100 * expected['success_lower']:.1f} to "
        f"{100 * expected['success_upper']:.1f}) at a cost of {expected['cost']:.1f}."
    )
