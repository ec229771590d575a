"""What `select` says about thresholds: from counterfactuals, from bounds, or from the scores alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.data.timing import Timing
    from bayes_tacit.decisions.bounds import Bounds, Suggestion
    from bayes_tacit.decisions.selection import Candidates, Choice

SHOWN_ROWS = 15
"""Rows of the success-cost table on a terminal."""

CHOSEN_HERE = " (on which alpha was chosen too, so they flatter it a little)"


@dataclass(frozen=True, eq=False)
class Asked:
    """The scores of the episodes, the thresholds to look at, and the cap; without one, there is a single threshold."""

    scores: xr.DataArray
    candidates: Candidates
    timing: Timing
    cap: float | None

    @property
    def given(self) -> float:
        """The threshold, where it was given."""
        return float(self.candidates.alpha[0])


@dataclass(frozen=True, eq=False)
class Found:
    """A threshold, what to say about it, what every candidate gives, and what draws that."""

    alpha: float
    text: str
    content: dict[str, object]
    points: pd.DataFrame
    draw: Callable[[Figure], object]


def from_counterfactuals(asked: Asked, known: Counterfactuals, seed: int) -> Found:
    """Take the threshold that succeeds most within the cap, or the given one, and say how sure its averages are."""
    from bayes_tacit.data.timing import discards_proposal
    from bayes_tacit.decisions.evaluation import operating_points
    from bayes_tacit.decisions.selection import bootstrap, choose, first_handoffs, why_no_handoff

    points = operating_points(asked.scores, known, asked.candidates, asked.timing)
    choice = None if asked.cap is None else choose(points, asked.cap)
    row = points.iloc[0 if choice is None else choice.position]
    alpha = float(row["alpha"])
    handoffs = first_handoffs(asked.scores, alpha, asked.timing)
    outcomes = known.outcomes_at(handoffs, discards_proposal=discards_proposal(asked.timing))
    pure = {"Pure Cheap": known.pure_cheap, "Pure Strong": known.pure_strong}
    intervals = {name: bootstrap(outcomes, baseline, seed=seed) for name, baseline in pure.items()}
    named = {str(name): row for name, row in intervals["Pure Cheap"].loc[["success", "cost"]].iterrows()}
    for baseline, table in intervals.items():
        differences = table.loc[["success_difference", "cost_difference"]]
        named |= {
            f"{str(name).removesuffix('_difference')} over {baseline}": row for name, row in differences.iterrows()
        }
    averages = {name: baseline.point() for name, baseline in pure.items()}
    nothing = _unreached(asked) if choice is None else why_no_handoff(points, choice)
    lines = [
        str(choice or f"alpha = {alpha:.4g}, as given: success {row['success']:.1%} at cost {row['cost']:.4g}"),
        *(f"{name}: success {point['success']:.1%} at cost {point['cost']:.4g}" for name, point in averages.items()),
        *filter(None, [nothing]),
        "",
        f"95% intervals, from resampling these tasks{CHOSEN_HERE if choice else ''}:",
        *(f"  {name:26s} {row.estimate:9.4g}  {row.lower:.4g} to {row.upper:.4g}" for name, row in named.items()),
    ]
    if choice is not None:
        head = "What the candidates give (those that no other one beats, and the chosen one):"
        lines += ["", head, _rows(points, choice)]
    content: dict[str, object] = {
        "alpha": alpha,
        "cap": asked.cap,
        "point": {str(name): value for name, value in row.items()},
        "pure_cheap": averages["Pure Cheap"],
        "pure_strong": averages["Pure Strong"],
        "intervals": {name: row.to_dict() for name, row in named.items()},
        "points": points.to_dict("records"),
    }
    return Found(alpha, "\n".join(lines), content, points, lambda figure: _draw_points(points, choice, figure))


def from_log(
    asked: Asked, episodes: Episodes, cost: StepCost, step_budget: int | None, strong_steps: str | None
) -> Found:
    """Take the threshold that is best in its worst case, or the given one, and say its bounds."""
    from bayes_tacit.decisions.bounds import bounds_from_logs, suggest_alpha

    bounds = bounds_from_logs(
        asked.scores,
        episodes,
        asked.candidates,
        asked.timing,
        cost=cost,
        step_budget=step_budget,
        strong_steps=strong_steps,
    )
    suggestion = None if asked.cap is None else suggest_alpha(bounds, asked.cap)
    alpha = asked.given if suggestion is None else suggestion.alpha
    at = int((bounds.narrowed["alpha"] == alpha).to_numpy().argmax())
    content: dict[str, object] = {
        "alpha": alpha,
        "cap": asked.cap,
        "bounds": bounds.narrowed.iloc[at].to_dict(),
        "certain_bounds": bounds.certain.iloc[at].to_dict(),
        "pure_cheap": {"success": bounds.cheap_success, "cost": bounds.cheap_cost},
        "pure_strong": {
            "success": bounds.strong_success,
            "cost_low": bounds.strong_cost_low,
            "cost_high": bounds.strong_cost_high,
        },
        "reasons": _bounds_of_given(asked, bounds) if suggestion is None else suggestion.reasons,
    }
    text = str(suggestion or "\n- ".join([f"alpha = {alpha:.4g}, as given", *_bounds_of_given(asked, bounds)]))
    points = bounds.narrowed.join(bounds.certain.drop(columns=["alpha", "intervention_rate"]).add_prefix("certain_"))
    return Found(alpha, text, content, points, lambda figure: _draw_bounds(bounds, suggestion, figure))


def from_scores(asked: Asked) -> Found:
    """Say how much a given threshold hands off, where nothing is known of what comes of it."""
    import pandas as pd

    from bayes_tacit.data.timing import NEVER
    from bayes_tacit.decisions.selection import first_handoffs, n_checkpoints

    handoffs = first_handoffs(asked.scores, asked.given, asked.timing)
    rate = float(((handoffs != NEVER) & (handoffs < n_checkpoints(asked.scores.values))).mean())
    points = pd.DataFrame({"alpha": [asked.given], "intervention_rate": [rate]})
    lines = [
        f"alpha = {asked.given:.4g}, as given: it hands off {rate:.1%} of the {len(handoffs):,} episodes",
        *filter(None, [_unreached(asked)]),
        "What that gives: with --counterfactuals, or within bounds with --step-budget or --strong-steps.",
    ]
    content: dict[str, object] = {"alpha": asked.given, "intervention_rate": rate}
    return Found(asked.given, "\n".join(lines), content, points, lambda _: None)


def _bounds_of_given(asked: Asked, bounds: Bounds) -> tuple[str, ...]:
    from bayes_tacit.decisions.bounds import described, pure_lines

    narrowed, certain = bounds.narrowed.iloc[0], bounds.certain.iloc[0]
    cheap, strong = pure_lines(bounds)
    return (
        f"It hands off {narrowed['intervention_rate']:.1%} of the {bounds.n_episodes:,} logged episodes.",
        *filter(None, [_unreached(asked)]),
        f"For certain {described(certain)}.",
        f"If the assumptions hold, {described(narrowed)}.",
        *(f"Assumed ({name}): {text}" for name, text in bounds.assumptions.items()),
        f"{cheap}.",
        strong,
    )


def _unreached(asked: Asked) -> str:
    """Say that no score reaches the given threshold, if that is so."""
    highest = float(asked.scores.max())
    return "" if highest >= asked.given else f"It hands off nothing: the highest score is {highest:.4g}."


def _rows(points: pd.DataFrame, choice: Choice) -> str:
    """Write the efficient candidates as a table, thinned to what a screen holds, the chosen one marked."""
    import numpy as np

    from bayes_tacit.data.costs import AVERAGES
    from bayes_tacit.decisions.selection import efficient_frontier

    best = np.unique([*efficient_frontier(points).index, choice.position])
    kept = np.unique([*best[np.linspace(0, len(best) - 1, SHOWN_ROWS).round().astype(int)], choice.position])
    shown = points.loc[kept, ["alpha", *AVERAGES]].round(4)
    shown["alpha"] = [f"{alpha:.4g}" for alpha in points.loc[kept, "alpha"]]
    shown[""] = ["<- chosen" if row == choice.position else "" for row in kept]
    return shown.to_string(index=False)


def _draw_points(points: pd.DataFrame, choice: Choice | None, figure: Figure) -> None:
    from bayes_tacit.review.plots import plot_operating_points

    plot_operating_points(points, choice, ax=figure.subplots())


def _draw_bounds(bounds: Bounds, suggestion: Suggestion | None, figure: Figure) -> None:
    from bayes_tacit.review.plots import plot_bounds

    plot_bounds(bounds, suggestion, figure=figure)
