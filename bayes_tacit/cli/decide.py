"""The command that chooses a threshold and makes a router: select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import (
    PICTURES,
    AsJson,
    Data,
    Fitted,
    Force,
    Seed,
    about,
    new_file,
    read_episodes,
    read_fitted,
    show,
    told,
    working,
    write_figure,
    write_table,
)
from bayes_tacit.cli.prices import check_restarts, prices_of, restarts_known, steps_of
from bayes_tacit.data.timing import HANDOFFS
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.data.timing import Handoff, Timing
    from bayes_tacit.decisions.bounds import Bounds
    from bayes_tacit.decisions.selection import Candidates, Choice

SHOWN_ROWS = 15
"""Rows of the success-cost table on a terminal."""

CHOSEN_HERE = " (on which alpha was chosen too, so they flatter it a little)"


def select(
    fitted: Fitted,
    data: Data,
    out: Annotated[Path, typer.Option(help="The router, .json.")],
    cap: Annotated[float | None, typer.Option(help="Highest mean cost of an episode.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Take this threshold instead of choosing one, and say what it gives.")
    ] = None,
    counterfactuals: Annotated[
        Path | None,
        typer.Option(help="What each handoff gives, .csv, .parquet or .nc; without it, bounds from the log."),
    ] = None,
    training: Annotated[
        Path | None, typer.Option(help="Episodes whose scores make the candidates; by default the same ones.")
    ] = None,
    candidates: Annotated[
        str, typer.Option(help="Thresholds to try: quantiles of the scores, a grid, or rates of handing off.")
    ] = "quantiles",
    n: Annotated[int | None, typer.Option("--n", help="How many: 101 quantiles, 9 of the others by default.")] = None,
    handoff: Annotated[
        str, typer.Option(help="What Strong does: resume from Cheap's state, or restart the task, which logs know.")
    ] = "resume",
    strong_steps: Annotated[
        str | None, typer.Option(help="Carried variable with the steps of Strong's rollouts; by default strong_steps.")
    ] = None,
    cheap_cost: Annotated[
        str | None,
        typer.Option(help="Cost of a Cheap call, 1 where no file says it; for restarts also a carried variable."),
    ] = None,
    strong_cost: Annotated[
        str | None,
        typer.Option(help="Cost of a Strong call, 3 where no file says it; for restarts also a carried variable."),
    ] = None,
    step_budget: Annotated[int | None, typer.Option(help="Steps an episode can have; for bounds from the log.")] = None,
    rule: Annotated[str, typer.Option(help="For a posterior: mean, or a quantile such as 0.1.")] = "mean",
    points: Annotated[Path | None, typer.Option(help="Write what every candidate gives, .csv.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw success and cost, .png, .svg or .pdf.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the threshold alpha under a cost cap and write the router that an agent runs.

    With counterfactuals (one row for each episode and handoff), alpha maximizes success within the cap, and the
    intervals come from resampling tasks. Without them it is the threshold that is best in its own worst case, from
    bounds that the paired rollouts and windows give; take it for a first alpha. Where a handoff restarts the task,
    paired rollouts say exactly what comes of it: they need to carry Strong's steps, or costs.

    Example: `bayes-tacit select fit.json episodes.jsonl --cap 50 --step-budget 30 --out router.json`
    """
    import numpy as np

    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.decisions.selection import Candidates
    from bayes_tacit.estimates.map_fit import MapFit
    from bayes_tacit.estimates.training import made_from, warn_of_other_data
    from bayes_tacit.router import Router
    from bayes_tacit.router.rule import CALL_OF
    from bayes_tacit.scores.fitted import as_draws
    from bayes_tacit.scores.score import decisive_scores

    for path, suffixes in ((out, (".json",)), (points, (".csv",)), (plot, PICTURES)):
        if path is not None:
            new_file(path, *suffixes, force=force)
    if (cap is None) == (alpha is None):
        raise InvalidDataError("one of --cap and --alpha", field="--cap and --alpha", value=(cap, alpha))
    if plot is not None and cap is None:
        raise InvalidDataError("--cap as well: one threshold is no curve", field="--plot", value=str(plot))
    validate.choice("--candidates", candidates, ("quantiles", "grid", "rates"))
    kind = validate.choice("--handoff", handoff, HANDOFFS)
    prices = prices_of(cheap_cost, strong_cost, restarts=kind == "restart" and counterfactuals is None)
    decision_rule = _rule(rule)
    with told(), working("scoring and choosing"):
        estimate = read_fitted(fitted)
        if isinstance(estimate, MapFit) and decision_rule != "mean":
            raise InvalidDataError("a posterior, or no rule: a fit has one score", field="--rule", value=rule)
        with about(fitted):
            parameters = as_draws(estimate).thinned()
        episodes = read_episodes(data)
        timing = parameters.timing
        with about(fitted, data):
            scores = decisive_scores(parameters, episodes, decision_rule)
        trained, of_training = scores, made_from(estimate, episodes)
        if training is not None:
            fitted_on = read_episodes(training)
            warn_of_other_data(estimate, fitted_on)
            with about(fitted, training):
                trained = decisive_scores(parameters, fitted_on, decision_rule)
        given = None if alpha is None else Candidates(np.array([validate.threshold("--alpha", alpha)]))
        asked = Asked(scores, given or _candidates(candidates, n, trained, timing), timing, cap)
        steps = steps_of(episodes, strong_steps)
        if counterfactuals is not None:
            cost = cast("StepCost", prices)
            with about(counterfactuals, data):
                known = Counterfactuals.read(counterfactuals, cost=cost).match(episodes)
            if cheap_cost is not None or strong_cost is not None:
                known = known.with_cost(cost)
            found = from_counterfactuals(asked, _of_kind(known, kind, counterfactuals), seed)
        elif kind == "restart" and (cap is not None or restarts_known(steps, prices)):
            with about(data):
                check_restarts(steps, prices)
            known = Counterfactuals.from_restarts(episodes, strong_steps=steps, cost=prices)
            found = from_counterfactuals(asked, known, seed)
        elif cap is not None or (kind == "resume" and (step_budget is not None or steps is not None)):
            found = from_log(asked, episodes, cast("StepCost", prices), step_budget, steps)
        else:
            found = from_scores(asked)
        router = Router.of(parameters, found.alpha, decision_rule, call=CALL_OF[kind])
        if training is not None or of_training:
            # What `route` compares with: known only where the training episodes are at hand.
            router = router.with_ranges_of(fitted_on if training is not None else episodes)
    router.save(out)
    if points is not None:
        write_table(found.points, points)
    if plot is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5), layout="constrained")
        found.draw(figure)
        write_figure(figure, plot)
    written = {f"{name}_written": str(path) for name, path in (("points", points), ("plot", plot)) if path is not None}
    names = ", ".join([str(out), *written.values()])
    show(
        f"{found.text}\n\nwritten: {names}",
        found.content | {"written": str(out)} | written,
        as_json=as_json,
        then=("route", out),
    )


def _of_kind(known: Counterfactuals, kind: Handoff, path: Path) -> Counterfactuals:
    """Return the table of the wanted kind of handoff; what restarts is also known where it is known what resumes."""
    if known.handoff == kind:
        return known
    if kind == "restart":
        return known.restarted()
    raise InvalidDataError(
        "'restart', the kind that the table is about", field="--handoff", value=kind, where=str(path)
    )


def _candidates(kind: str, n: int | None, scores: xr.DataArray, timing: Timing) -> Candidates:
    from bayes_tacit.decisions.selection import fixed_grid, score_quantiles, target_switch_rates

    if kind == "grid":
        return fixed_grid(n=9 if n is None else n)
    if kind == "rates":
        return target_switch_rates(scores, n=9 if n is None else n, timing=timing)
    return score_quantiles(scores, 101 if n is None else n)


def _rule(given: str) -> str | float:
    if given == "mean":
        return given
    try:
        return validate.rule("--rule", float(given))
    except ValueError:
        return validate.rule("--rule", given)


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

    def draw(figure: Figure) -> None:
        from bayes_tacit.review.plots import plot_operating_points

        plot_operating_points(points, choice, ax=figure.subplots())

    return Found(alpha, "\n".join(lines), content, points, draw)


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

    def draw(figure: Figure) -> None:
        from bayes_tacit.review.plots import plot_bounds

        plot_bounds(bounds, suggestion, figure=figure)

    return Found(alpha, text, content, points, draw)


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
