"""The command that chooses a threshold and makes a router: select."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import (
    AsJson,
    Data,
    Fitted,
    Force,
    Seed,
    new_file,
    read_episodes,
    read_fitted,
    show,
    told,
    working,
)
from bayes_tacit.cli.prices import prices_of, steps_of
from bayes_tacit.data.handoffs import HANDOFFS
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import atomic_path

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.data.handoffs import Handoff
    from bayes_tacit.data.timing import Timing
    from bayes_tacit.decisions.selection import Candidates, Choice

SHOWN_ROWS = 15
"""Rows of the success-cost table on a terminal."""


def select(
    fitted: Fitted,
    data: Data,
    out: Annotated[Path, typer.Option(help="The router, .json.")],
    cap: Annotated[float | None, typer.Option(help="Highest mean cost of an episode.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Take this threshold instead of choosing one.")] = None,
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
        str | None, typer.Option(help="Carried variable with the steps of Strong's rollouts; for restarts.")
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
    plot: Annotated[Path | None, typer.Option(help="Draw success against cost, .png, .svg or .pdf.")] = None,
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
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.estimates.map_fit import MapFit
    from bayes_tacit.estimates.training import warn_of_other_data
    from bayes_tacit.router import Router
    from bayes_tacit.scores.decisive import decisive_scores
    from bayes_tacit.scores.sources import as_draws

    for path, suffixes in ((out, (".json",)), (points, (".csv",)), (plot, (".png", ".svg", ".pdf"))):
        if path is not None and new_file(path, force=force).suffix not in suffixes:
            raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected {', '.join(suffixes)}")
    if (cap is None) == (alpha is None):
        raise InvalidDataError("one of --cap and --alpha", field="--cap and --alpha", value=(cap, alpha))
    for name, path in (("--points", points), ("--plot", plot)):
        known_exactly = counterfactuals is not None or handoff == "restart"
        if path is not None and (cap is None or (name == "--plot" and not known_exactly)):
            needs = "--cap and --counterfactuals, or --handoff restart," if name == "--plot" else "--cap"
            raise InvalidDataError(f"{needs} as well", field=name, value=str(path))
    validate.choice("--candidates", candidates, ("quantiles", "grid", "rates"))
    kind = validate.choice("--handoff", handoff, HANDOFFS)
    prices = prices_of(cheap_cost, strong_cost, restarts=kind == "restart" and counterfactuals is None)
    decision_rule = _rule(rule)
    with told(), working("scoring and choosing"):
        estimate = read_fitted(fitted)
        if isinstance(estimate, MapFit) and decision_rule != "mean":
            raise InvalidDataError("a posterior, or no rule: a fit has one score", field="--rule", value=rule)
        parameters = as_draws(estimate).thinned()
        if cap is None:
            read_episodes(data)
            found = Found(cast("float", alpha), f"alpha = {alpha}, as given", {"alpha": alpha})
        else:
            episodes = read_episodes(data)
            timing = parameters.timing
            scores = decisive_scores(parameters, episodes, decision_rule)
            trained = scores
            if training is not None:
                fitted_on = read_episodes(training)
                warn_of_other_data(estimate, fitted_on)
                trained = decisive_scores(parameters, fitted_on, decision_rule)
            tried = _candidates(candidates, n, trained, timing)
            if counterfactuals is not None:
                cost = cast("StepCost", prices)
                known = Counterfactuals.read(counterfactuals, cost=cost).match(episodes)
                if cheap_cost is not None or strong_cost is not None:
                    known = known.with_cost(cost)
                known = _of_kind(known, kind, counterfactuals)
                found = _from_counterfactuals(scores, known, tried, timing, cap, seed)
            elif kind == "restart":
                steps = steps_of(episodes, strong_steps)
                known = Counterfactuals.from_restarts(episodes, strong_steps=steps, cost=prices)
                found = _from_counterfactuals(scores, known, tried, timing, cap, seed)
            else:
                found = _from_log(scores, episodes, tried, timing, cast("StepCost", prices), step_budget, cap)
        router = Router.of(parameters, found.alpha, decision_rule, handoff=kind)
    router.save(out)
    if points is not None and found.points is not None:
        with atomic_path(points) as temporary:
            found.points.to_csv(temporary, index=False)
    if plot is not None and found.points is not None:
        _draw(found.points, found.choice, plot)
    written = {f"{name}_written": str(path) for name, path in (("points", points), ("plot", plot)) if path is not None}
    names = ", ".join([str(out), *written.values()])
    show(f"{found.text}\n\nwritten: {names}", found.content | {"written": str(out)} | written, as_json=as_json)


@dataclass(frozen=True)
class Found:
    """A threshold, what to say about it, and what every candidate gives."""

    alpha: float
    text: str
    content: dict[str, object]
    points: pd.DataFrame | None = None
    choice: Choice | None = None


def _of_kind(known: Counterfactuals, kind: Handoff, path: Path) -> Counterfactuals:
    """Give the table of the wanted kind of handoff; what restarts is also known where it is known what resumes."""
    if known.handoff == kind:
        return known
    if kind == "restart":
        return known.restarted()
    raise InvalidDataError(
        "'restart', the kind that the table is about", field="--handoff", value=kind, where=str(path)
    )


def _from_log(
    scores: xr.DataArray,
    episodes: Episodes,
    candidates: Candidates,
    timing: Timing,
    cost: StepCost,
    step_budget: int | None,
    cap: float,
) -> Found:
    """Take the threshold that is best in its worst case."""
    from bayes_tacit.decisions.bounds import bounds_from_logs, suggest_alpha

    bounds = bounds_from_logs(scores, episodes, candidates, timing, cost=cost, step_budget=step_budget)
    suggestion = suggest_alpha(bounds, cap)
    content: dict[str, object] = {"alpha": suggestion.alpha, "cap": cap, "bounds": dict(suggestion.bounds)}
    content["reasons"] = suggestion.reasons
    return Found(suggestion.alpha, str(suggestion), content, bounds.narrowed)


def _from_counterfactuals(
    scores: xr.DataArray, known: Counterfactuals, candidates: Candidates, timing: Timing, cap: float, seed: int
) -> Found:
    """Take the threshold that succeeds most within the cap, and say how sure its averages are."""
    from bayes_tacit.data.timing import discards_proposal
    from bayes_tacit.decisions.selection import bootstrap, choose, operating_points
    from bayes_tacit.scores.crossings import first_handoffs

    points = operating_points(scores, known, candidates, timing)
    choice = choose(points, cap)
    handoffs = first_handoffs(scores, choice.alpha, timing)
    outcomes = known.outcomes_at(handoffs, discards_proposal=discards_proposal(timing))
    intervals = {
        name: bootstrap(outcomes, baseline, seed=seed)
        for name, baseline in (("Pure Cheap", known.pure_cheap), ("Pure Strong", known.pure_strong))
    }
    named = {str(name): row for name, row in intervals["Pure Cheap"].loc[["success", "cost"]].iterrows()}
    for baseline, table in intervals.items():
        differences = table.loc[["success_difference", "cost_difference"]]
        named |= {
            f"{str(name).removesuffix('_difference')} over {baseline}": row for name, row in differences.iterrows()
        }
    lines = [
        str(choice),
        "",
        "95% intervals, from resampling these tasks (on which alpha was chosen too, so they flatter it a little):",
    ]
    lines += [f"  {name:26s} {row.estimate:9.4g}  {row.lower:.4g} to {row.upper:.4g}" for name, row in named.items()]
    lines += [
        "",
        "What the candidates give (those that no other one beats, and the chosen one):",
        _rows(points, choice),
    ]
    content = {
        "alpha": choice.alpha,
        "cap": cap,
        "point": dict(choice.point),
        "intervals": {name: row.to_dict() for name, row in named.items()},
        "points": points.to_dict("records"),
    }
    return Found(choice.alpha, "\n".join(lines), content, points, choice)


def _rows(points: pd.DataFrame, choice: Choice) -> str:
    """Write the efficient candidates as a table, thinned to what a screen holds, the chosen one marked."""
    import numpy as np

    from bayes_tacit.data.outcomes import AVERAGES
    from bayes_tacit.decisions.selection import efficient_frontier

    best = np.unique([*efficient_frontier(points).index, choice.position])
    kept = np.unique([*best[np.linspace(0, len(best) - 1, SHOWN_ROWS).round().astype(int)], choice.position])
    shown = points.loc[kept, ["alpha", *AVERAGES]].round(4)
    shown["alpha"] = [f"{alpha:.4g}" for alpha in points.loc[kept, "alpha"]]
    shown[""] = ["<- chosen" if row == choice.position else "" for row in kept]
    return shown.to_string(index=False)


def _draw(points: pd.DataFrame, choice: Choice | None, path: Path) -> None:
    from matplotlib.figure import Figure

    from bayes_tacit.review.plots import plot_operating_points

    figure = Figure(figsize=(7, 5), layout="constrained")
    plot_operating_points(points, choice, ax=figure.subplots())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


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
