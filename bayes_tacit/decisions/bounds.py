"""What logs alone say about a threshold: bounds on its success and cost, and a first alpha to try.

A log holds both full rollouts of each task and no handoff in between, so what a handoff would have given is not known.
What is certain and what is possible, for an episode whose score crosses so that Strong acts from step k on:

==========================  ==================  ==============================================================
handoff                     success             calls
==========================  ==================  ==============================================================
never, or after the last    A, as in the log    as in the log
action
k = 0 (first proposal       B, as in the log    Strong's own rollout, and the discarded proposal
discarded)
0 < k < H                   0 or 1              k of Cheap (and the discarded proposal); of Strong at least 1,
                                                at most what the step budget leaves
==========================  ==================  ==============================================================

The first two rows hold for the realized rollouts: another run of the same agent on the same task may end differently.
`ASSUMPTIONS` names what narrows the third row. All bounds are about the average over the episodes of the log; how far
that is from the average over all tasks is another question, which more episodes answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import CostModel, cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import NEVER, Timing, discards_proposal
from bayes_tacit.decisions.selection import (
    SAME,
    Candidates,
    as_scores,
    check_scores,
    choose,
    first_handoffs,
    why_no_handoff,
)
from bayes_tacit.errors import InvalidDataError

Assumption = Literal["window", "both_succeed", "both_fail", "strong_length"]

ASSUMPTIONS: dict[Assumption, str] = {
    "window": (
        "AB = 01 with a teacher window: a handoff at or before the window's last checkpoint succeeds. The teacher "
        "judged recovery feasible up to there, with both rollouts in view; it is a judgement (in the paper's "
        "simulation 85.6% of handoffs at the mark succeed)."
    ),
    "both_succeed": (
        "AB = 11: a handoff at any step succeeds. Each agent alone succeeds on the task; Strong is taken not to be "
        "misled by what Cheap began."
    ),
    "both_fail": (
        "AB = 00: a handoff at any step fails. Each agent alone fails on the task; what Cheap has done is taken not to "
        "help Strong, nor a second attempt to go better."
    ),
    "strong_length": (
        "Strong takes at most as many steps after a handoff as in its own rollout from the start: Cheap's steps are "
        "taken not to set it back."
    ),
}
"""What narrows the bounds, by name. None of them can be checked on the log."""


@dataclass(frozen=True)
class _Log:
    """What the log says of each episode; the last checkpoint of the window is NaN where there is none."""

    cheap_success: np.ndarray
    strong_success: np.ndarray
    n_steps: np.ndarray
    window_end: np.ndarray
    strong_steps: np.ndarray | None

    def reach(self, handoff: np.ndarray, budget: int | None, assumed: Iterable[str], timing: Timing) -> np.ndarray:
        """Return the least and the most success and Strong calls, and Cheap's calls, of a handoff: (5, episode)."""
        cheap, strong, own = self.cheap_success, self.strong_success, self.strong_steps
        never = (handoff == NEVER) | (handoff >= self.n_steps)
        success = np.where(never, cheap, strong).astype(float)
        known = never | (handoff == 0)
        low, high = np.where(known, success, 0.0), np.where(known, success, 1.0)
        least = np.where(never, 0.0, 1.0)
        most = np.where(never, 0.0, np.inf if budget is None else budget - handoff)
        if own is not None:
            least, most = (np.where(~never & known, own, calls) for calls in (least, most))
        for name in assumed:
            if name == "window":
                # A mark at t means that Strong acts from t + 1 on, under either timing; no window compares as false.
                low = np.where(~known & ~cheap & strong & (handoff <= self.window_end + 1), 1.0, low)
            elif name == "both_succeed":
                low = np.where(~known & cheap & strong, 1.0, low)
            elif name == "both_fail":
                high = np.where(~known & ~cheap & ~strong, 0.0, high)
            elif own is not None:
                most = np.where(~known, np.minimum(most, own), most)
        calls = np.where(never, self.n_steps, handoff + discards_proposal(timing)).astype(float)
        return np.stack([low, high, least, most, calls])


@dataclass(frozen=True, eq=False, repr=False)
class Bounds:
    """What a log says about thresholds: bounds, not estimates.

    Attributes
    ----------
    certain
        One row for each alpha: `success_low`, `success_high`, `cost_low` and `cost_high`, between which the averages
        over these episodes lie whatever the handoffs would have given; `intervention_rate`, exactly; and `known`, the
        share of episodes whose success is not in doubt. A cost without a bound is infinite.
    narrowed
        The same if the assumptions hold.
    assumptions
        Their names, and what each says.
    cheap_success, cheap_cost, strong_success
        The averages of the log: Pure Cheap, exactly, and how often Strong succeeded.
    strong_cost_low, strong_cost_high
        Between which the mean cost of Pure Strong lies; the same number where the lengths of its rollouts are known.
    n_episodes
        How many episodes the log has.
    """

    certain: pd.DataFrame
    narrowed: pd.DataFrame
    assumptions: Mapping[str, str]
    cheap_success: float
    cheap_cost: float
    strong_success: float
    strong_cost_low: float
    strong_cost_high: float
    n_episodes: int

    def __repr__(self) -> str:
        assumed = ", ".join(self.assumptions) or "nothing"
        return f"<Bounds: {len(self.certain)} thresholds on {self.n_episodes} logged episodes; narrowed by {assumed}>"


def bounds_from_logs(
    scores: npt.ArrayLike | xr.DataArray,
    episodes: Episodes,
    candidates: Candidates | npt.ArrayLike,
    timing: Timing,
    *,
    cost: CostModel,
    step_budget: int | None = None,
    strong_steps: str | None = None,
    assumptions: Iterable[Assumption] | None = None,
) -> Bounds:
    """Bound what each threshold would have given on logged episodes.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode. Best those of episodes that the fit has not seen.
    episodes
        The log. A DataArray of scores must have its ids, a plain array its order.
    candidates
        Thresholds.
    timing
        What a checkpoint is: "post_action" or "proposal".
    cost
        What calls cost; one call a step is counted for each agent, and under "proposal" the discarded one.
    step_budget
        How many steps an episode can have, whoever acts. Without it nothing is certain about the highest cost.
    strong_steps
        Name of the variable, carried along in the episodes, with the length of Strong's own rollout.
    assumptions
        Names from `ASSUMPTIONS`; by default all for which the log has what they need.

    Raises
    ------
    InvalidDataError
        If neither `step_budget` nor `strong_steps` is given: nothing would bound the cost.

    Examples
    --------
    >>> from bayes_tacit import Episodes, StepCost
    >>> tasks = pd.DataFrame({
    ...     "episode": ["a", "b", "c", "d"], "cheap_success": [0, 0, 1, 0], "strong_success": [1, 1, 1, 0],
    ...     "window_start": [0, 0, None, None], "window_end": [1, 1, None, None],
    ... })
    >>> steps = pd.DataFrame({"episode": [*"aaabbbcccddd"], "step": [0, 1, 2] * 4, "stalled": 1.0})
    >>> episodes = Episodes.from_frames(tasks, steps)
    >>> q = [[0.2, 0.4, 0.6], [0.1, 0.3, 0.5], [0.1, 0.2, 0.2], [0.1, 0.3, 0.3]]
    >>> bounds = bounds_from_logs(q, episodes, [0.2, 0.3, 0.4], "post_action", cost=StepCost(1, 3), step_budget=4)
    >>> bounds.narrowed[["alpha", "success_low", "success_high", "cost_low", "cost_high"]]
       alpha  success_low  success_high  cost_low  cost_high
    0    0.2         0.75          0.75      4.75       8.50
    1    0.3         0.75          0.75      4.50       6.75
    2    0.4         0.50          0.50      3.50       4.25
    """
    values, logged = as_scores(scores), _logged(episodes, strong_steps)
    ids = scores["episode"].values if isinstance(scores, xr.DataArray) and "episode" in scores.coords else None
    check_scores(values, episodes.ids, episodes.n_steps, ids)
    budget = _budget(step_budget, episodes, logged)
    assumed = _assumptions(assumptions, with_lengths=logged.strong_steps is not None)
    candidates = candidates if isinstance(candidates, Candidates) else Candidates(np.asarray(candidates))
    handoffs = first_handoffs(values, candidates.alpha, timing)
    certain, narrowed = (
        pd.DataFrame([_row(logged.reach(handoff, budget, names, timing), cost) for handoff in handoffs])
        for names in ((), assumed)
    )
    return Bounds(
        certain=pd.DataFrame({"alpha": candidates.alpha, **certain}),
        narrowed=pd.DataFrame({"alpha": candidates.alpha, **narrowed}),
        assumptions={name: ASSUMPTIONS[name] for name in assumed},
        cheap_success=float(logged.cheap_success.mean()),
        cheap_cost=float(cost_of_calls(cost, logged.n_steps, 0).mean()),
        strong_success=float(logged.strong_success.mean()),
        strong_cost_low=_strong_cost(logged, cost, 1),
        strong_cost_high=_strong_cost(logged, cost, budget),
        n_episodes=len(episodes),
    )


def _strong_cost(logged: _Log, cost: CostModel, steps: int | None) -> float:
    """Return the mean cost of Strong's own rollouts, of so many steps each where their lengths are not known."""
    calls = np.full(len(logged.n_steps), steps) if logged.strong_steps is None else logged.strong_steps
    return float(cost_of_calls(cost, 0, calls).mean())


def _row(reach: np.ndarray, cost: CostModel) -> dict[str, float]:
    low, high, least, most, cheap = reach
    return {
        "success_low": float(low.mean()),
        "success_high": float(high.mean()),
        "cost_low": float(cost_of_calls(cost, cheap, least).mean()),
        "cost_high": float(cost_of_calls(cost, cheap, most).mean()) if np.isfinite(most).all() else np.inf,
        "intervention_rate": float((least > 0).mean()),
        "known": float((low == high).mean()),
    }


def _assumptions(given: Iterable[Assumption] | None, *, with_lengths: bool) -> tuple[Assumption, ...]:
    """Return the assumptions to make: those that were named, or all for which the log has what they need."""
    known = get_args(Assumption)
    if given is None:
        return tuple(name for name in known if with_lengths or name != "strong_length")
    if isinstance(given, str):
        raise InvalidDataError("a list of names", field="assumptions", value=given)
    wanted = tuple(dict.fromkeys(validate.choice("assumption", name, known) for name in given))
    if "strong_length" in wanted and not with_lengths:
        expected = "strong_steps, the lengths of Strong's rollouts, for the assumption 'strong_length'"
        raise InvalidDataError(expected, field="strong_steps", value=None)
    return wanted


def _logged(episodes: Episodes, strong_steps: str | None) -> _Log:
    if not isinstance(episodes, Episodes):
        raise InvalidDataError("Episodes", field="episodes", value=episodes)
    dataset = episodes.require_pairs("what bounds from logs say").dataset
    return _Log(
        cheap_success=dataset["cheap_success"].values,
        strong_success=dataset["strong_success"].values,
        n_steps=episodes.n_steps,
        window_end=dataset["window_end"].values,
        strong_steps=None if strong_steps is None else _lengths(episodes, strong_steps),
    )


def _lengths(episodes: Episodes, name: str) -> np.ndarray:
    dataset = episodes.dataset
    usable = [str(one) for one, array in dataset.data_vars.items() if array.dims == ("episode",)]
    if name not in usable or dataset[name].dtype.kind not in "iuf":
        raise InvalidDataError(
            f"the name of a variable of numbers by episode, carried along; there are {usable}",
            field="strong_steps",
            value=name,
        )
    lengths = dataset[name].values.astype(float)
    wrong = ~((lengths >= 1) & (lengths == np.floor(lengths)) & np.isfinite(lengths))
    if wrong.any():
        first = int(wrong.argmax())
        value = float(lengths[first])
        raise InvalidDataError("a whole number >= 1", episode=plain(episodes.ids[first]), field=name, value=value)
    return lengths


def _budget(step_budget: int | None, episodes: Episodes, logged: _Log) -> int | None:
    if step_budget is None:
        if logged.strong_steps is None:
            raise InvalidDataError(
                "a step budget, or strong_steps with the lengths of Strong's rollouts: without either nothing bounds "
                "the cost",
                field="step_budget",
                value=None,
            )
        return None
    longest = episodes.horizon if logged.strong_steps is None else max(episodes.horizon, int(logged.strong_steps.max()))
    budget = validate.whole("step_budget", step_budget, 1)
    if budget < longest:
        raise InvalidDataError(f"at least {longest}, the longest rollout", field="step_budget", value=budget)
    return budget


Using = Literal["narrowed", "certain"]

SHOWN_NO_BETTER = "these bounds do not show that handing off at this alpha is better"


@dataclass(frozen=True, repr=False)
class Suggestion:
    """A threshold that logs alone can defend, and how.

    `bounds` is its row of the table, `beats_cheap` whether its lowest possible success is above that of Pure Cheap.
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
    """Say between which bounds success and cost lie."""
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
