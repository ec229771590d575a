"""A first alpha from bounds alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.decisions.bounds.logs import Bounds
from bayes_tacit.decisions.selection import choose
from bayes_tacit.decisions.selection.choice import SAME, why_no_handoff
from bayes_tacit.errors import InvalidDataError

Using = Literal["narrowed", "certain"]

SHOWN_NO_BETTER = "these bounds do not show that handing off at this alpha is better"


@dataclass(frozen=True, repr=False)
class Suggestion:
    """A threshold that logs alone can defend, and how.

    Attributes
    ----------
    alpha
        The threshold.
    bounds
        Its row of the table.
    cap
        The budget.
    beats_cheap
        Whether its lowest possible success is above that of Pure Cheap.
    reasons
        Why this one, in sentences.
    """

    alpha: float
    bounds: Mapping[str, float]
    cap: float
    beats_cheap: bool
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"alpha = {self.alpha:.4g}", *(f"- {reason}" for reason in self.reasons)])

    __repr__ = __str__


def suggest_alpha(bounds: Bounds, cap: float, *, using: Using = "narrowed") -> Suggestion:
    """Suggest the threshold with the highest lower bound of success whose upper bound of cost is within the cap.

    It is the choice that is best in its own worst case. Ties are broken by the lower upper bound of cost, then by the
    lower intervention rate, then by the higher alpha.

    Parameters
    ----------
    bounds
        From `bounds_from_logs`.
    cap
        The highest mean cost allowed.
    using
        "narrowed", with the assumptions, or "certain", without them. Without assumptions a handoff between two actions
        has no success that is certain, so the suggestion is to hand off as little as the candidates allow.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_tacit import Episodes, StepCost, bounds_from_logs
    >>> tasks = pd.DataFrame({
    ...     "episode": ["a", "b", "c", "d"], "cheap_success": [0, 0, 1, 0], "strong_success": [1, 1, 1, 0],
    ...     "window_start": [0, 0, None, None], "window_end": [1, 1, None, None],
    ... })
    >>> steps = pd.DataFrame({"episode": [*"aaabbbcccddd"], "step": [0, 1, 2] * 4, "stalled": 1.0})
    >>> episodes = Episodes.from_frames(tasks, steps)
    >>> q = [[0.2, 0.4, 0.6], [0.1, 0.3, 0.5], [0.1, 0.2, 0.2], [0.1, 0.3, 0.3]]
    >>> bounds = bounds_from_logs(q, episodes, [0.2, 0.3, 0.4], "post_action", cost=StepCost(1, 3), step_budget=4)
    >>> suggestion = suggest_alpha(bounds, cap=7)
    >>> suggestion.alpha
    0.3
    >>> print(suggestion.reasons[1])
    It hands off 75.0% of the 4 logged episodes. Success is between 75.0% and 75.0%, cost between 4.5 and 6.75.
    """
    validate.choice("using", using, ("narrowed", "certain"))
    table = bounds.narrowed if using == "narrowed" else bounds.certain
    cap = validate.number("cap", cap, "a finite number >= 0", least=0)
    lowest = float(table["cost_high"].min())
    if np.isinf(lowest):
        expected = "finite for some alpha: give bounds_from_logs a step_budget, or use the narrowed bounds"
        raise InvalidDataError(expected, field="upper bound of the cost", value=lowest)
    if lowest > cap * (1 + SAME):
        expected = f"at least {lowest:.6g}, the lowest upper bound of the cost of the {len(table)} candidates"
        raise InvalidDataError(expected, field="cap", value=cap)
    columns = {
        "success": "success_low",
        "cost": "cost_high",
        "intervention_rate": "intervention_rate",
        "alpha": "alpha",
    }
    worst_cases = {name: table[source] for name, source in columns.items()}
    choice = choose(worst_cases, cap)
    row = {str(name): float(value) for name, value in table.iloc[choice.position].items()}
    beats_cheap = row["success_low"] > bounds.cheap_success * (1 + SAME)
    reasons = _reasons(bounds, choice.position, using, row, cap, beats_cheap)
    nothing = why_no_handoff(worst_cases, choice)
    return Suggestion(choice.alpha, row, cap, beats_cheap, (*reasons, nothing) if nothing else reasons)


def described(row: Mapping[str, float] | pd.Series) -> str:
    """Say between which bounds success and cost lie.

    Examples
    --------
    >>> described({"success_low": 0.5, "success_high": 0.75, "cost_low": 4, "cost_high": np.inf})
    'success is between 50.0% and 75.0%, cost at least 4'
    """
    return (
        f"success is between {row['success_low']:.1%} and {row['success_high']:.1%}, cost "
        f"{_range(row['cost_low'], row['cost_high'])}"
    )


def pure_lines(bounds: Bounds) -> tuple[str, str]:
    """Say what the two agents alone give, which the log knows."""
    cheap = f"Never handing off succeeds in {bounds.cheap_success:.1%} at cost {bounds.cheap_cost:.4g}, for certain"
    strong = f"Strong from the start succeeded in {bounds.strong_success:.1%}, at a cost "
    return cheap, strong + _range(bounds.strong_cost_low, bounds.strong_cost_high, exactly="of ") + "."


def _range(low: float, high: float, exactly: str = "") -> str:
    if np.isinf(high):
        return f"at least {low:.4g}"
    return f"{exactly}{low:.4g}" if exactly and low == high else f"between {low:.4g} and {high:.4g}"


def _reasons(
    bounds: Bounds, position: int, using: Using, row: Mapping[str, float], cap: float, beats_cheap: bool
) -> tuple[str, ...]:
    known = float(bounds.certain["known"].iloc[position])
    worst = "the worst case that the assumptions allow" if using == "narrowed" else "the worst case"
    reasons = [
        f"Of the candidates that cost at most {cap:.4g} in {worst}, it has the highest success there.",
        f"It hands off {row['intervention_rate']:.1%} of the {bounds.n_episodes:,} logged episodes. "
        f"S{described(row)[1:]}.",
    ]
    if using == "narrowed":
        assumed = row["known"] - known
        reasons.append(f"Without the assumptions below {described(bounds.certain.iloc[position])}.")
        reasons.append(
            f"The log decides the success of {known:.1%} of the episodes, assumptions that of {assumed:.1%}; "
            f"{1 - row['known']:.1%} stay open."
        )
        reasons += [f"Assumed ({name}): {text}" for name, text in bounds.assumptions.items()]
    else:
        reasons.append(f"Nothing is assumed: the log decides the success of {known:.1%} of the episodes.")
    cheap, strong = pure_lines(bounds)
    better = f"handing off at this alpha is better even in {worst}" if beats_cheap else SHOWN_NO_BETTER
    return (
        *reasons,
        f"{cheap}; {better}.",
        strong,
        "Bounds are no estimates: try it on some tasks before relying on it.",
    )
