"""The command that names the policy to use: recommend."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import (
    PICTURES,
    AsJson,
    Data,
    Force,
    Seed,
    Timing,
    Unmarked,
    about,
    new_file,
    read_episodes,
    show,
    told,
    write_figure,
    write_table,
)
from bayes_tacit.cli.prices import check_restarts, number_of, prices_of, steps_of, tokens_of
from bayes_tacit.data.timing import HANDOFFS, TIMINGS
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.progress import bars

if TYPE_CHECKING:
    from bayes_tacit.data.costs import CostModel, LoggedCost, TokenCost
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.policies import LogsRecommendation, Recommendation, World

MOST_FOLDS = 1000
"""More would only take longer."""

BUDGETS = 7
"""Budgets at which the plot shows what is recommended."""

STOPS = 21
"""Budgets at which the slider of the page stops."""


def recommend(
    data: Data,
    out: Annotated[Path, typer.Option(help="The router, .json.")],
    cap: Annotated[
        str | None, typer.Option(help="Highest mean cost of a task: a number, or a share of Pure Strong's, 50%.")
    ] = None,
    value: Annotated[
        float | None, typer.Option(help="Instead of a cap, what a success is worth: the best net value is chosen.")
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="With which probability new tasks keep the cap; 0.5 leaves nothing to spare."),
    ] = 0.5,
    certain: Annotated[
        float | None,
        typer.Option(help="Try a Bayesian policy as well: hand off where that is worth it with this probability."),
    ] = None,
    at_most: Annotated[
        float | None,
        typer.Option(help="Highest cost of a single task by a handoff; the router hands off no later than keeps it."),
    ] = None,
    handoff: Annotated[
        str, typer.Option(help="What Strong does: resume from Cheap's state, or restart the task.")
    ] = "resume",
    counterfactuals: Annotated[
        Path | None,
        typer.Option(help="What each handoff gives, .csv, .parquet or .nc; a restart is known without it."),
    ] = None,
    development: Annotated[
        Path | None, typer.Option(help="Episodes to choose and judge on; by default all are used, by cross-fitting.")
    ] = None,
    share: Annotated[float, typer.Option(help="From logs alone: the part of the episodes kept to compare on.")] = 0.5,
    strong_steps: Annotated[
        str | None, typer.Option(help="Carried variable with the steps of Strong's rollouts; by default strong_steps.")
    ] = None,
    cheap_price: Annotated[
        str | None, typer.Option(help="Of a million Cheap tokens: input,cached,output; what the log used is priced.")
    ] = None,
    strong_price: Annotated[str | None, typer.Option(help="The same of Strong's.")] = None,
    cheap_cost: Annotated[str, typer.Option(help="Cost of a Cheap call, or a carried variable with costs.")] = "1",
    strong_cost: Annotated[str, typer.Option(help="Cost of a Strong call, or a carried variable with costs.")] = "3",
    step_budget: Annotated[int | None, typer.Option(help="Steps an episode can have; for bounds from the log.")] = None,
    timing: Timing = "post_action",
    unmarked: Unmarked = "due",
    folds: Annotated[
        int | None, typer.Option(help="Parts of the cross-validation; 10 up to 200 tasks, 5 above.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Write what every policy is expected to give, .csv.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw success against cost, .png, .svg or .pdf.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with a slider for the budget, and one for alpha, .html.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Name the policy to use under a cost cap, say what to expect of it and how sure that is, and write its router.

    Every policy is fitted on all tasks and judged on those left out, its threshold too, beside a coin flip between
    Cheap and Strong of the same cost; nothing is named that does not beat the coin. What comes of handoffs must be
    known: from counterfactuals, or, if a handoff restarts the task, from the paired rollouts themselves. Otherwise
    policies are compared by bounds and by likelihood.

    Example: `bayes-tacit recommend episodes.jsonl --cap 50% --handoff restart --out router.json`
    """
    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.model.spec import Unmarked as UnmarkedName

    validate.choice("--handoff", handoff, HANDOFFS)
    share = validate.number("--share", share, "a number above 0 and below 1", above=0, below=1)
    # What is wrong is said before anything is fitted.
    if folds is not None:
        validate.whole("--folds", folds, 2, MOST_FOLDS)
    validate.whole("--seed", seed, 0)
    validate.choice("--timing", timing, TIMINGS)
    validate.choice("--unmarked", unmarked, get_args(UnmarkedName))
    if step_budget is not None:
        validate.whole("--step-budget", step_budget, 1)
    if (cap is None) == (value is None):
        raise InvalidDataError("one of --cap and --value", field="--cap and --value", value=(cap, value))
    if cap is not None:
        _cap(cap, strong=1.0)
    validate.number("--confidence", confidence, "a number from 0.5 to below 1", least=0.5, below=1)
    if certain is not None:
        validate.number("--certain", certain, "a number above 0 and below 1", above=0, below=1)
    for path, suffixes in ((out, (".json",)), (table, (".csv",)), (plot, PICTURES), (report, (".html", ".htm"))):
        if path is not None:
            new_file(path, *suffixes, force=force)
    known = counterfactuals is not None or handoff == "restart"
    for_known = {"--plot": plot, "--report": report, "--at-most": at_most, "--value": value, "--certain": certain}
    for option, given in for_known.items():
        if not known and given is not None:
            expected = "--counterfactuals or --handoff restart as well: bounds do not say what comes of a handoff"
            raise InvalidDataError(expected, field=option, value=str(given))
    fitting = {"timing": timing, "unmarked": unmarked}
    frontier = STOPS if report is not None else 0 if plot is None else BUDGETS
    with told():
        from bayes_tacit.policies import contest, recommend_from_logs
        from bayes_tacit.policies import recommend as recommend_in

        episodes = read_episodes(data)
        cost: StepCost | LoggedCost | TokenCost = prices_of(cheap_cost, strong_cost, restarts=True)
        if cheap_price is not None or strong_price is not None:
            cost = tokens_of(cheap_price, strong_price)
        result: Recommendation | LogsRecommendation
        if known:
            kept = episodes if development is None else read_episodes(development)
            if counterfactuals is None:
                kept = _paired(kept, development or data)
            steps = steps_of(kept, strong_steps)
            with about(*filter(None, (data, counterfactuals))):
                world = _world(kept, counterfactuals, cost, steps, handoff)
            training = None if development is None else episodes
            settings = {"value": value, "confidence": confidence, "at_most": at_most, "folds": folds, "seed": seed}
            budget = None if cap is None else _cap(cap, float(world.counterfactuals.pure_strong.cost.mean()))
            tried = contest(world, timing=fitting["timing"], options=fitting, certain=certain)  # type: ignore[arg-type]
            with bars() as bar:
                task = bar.add_task("fitting", total=None)
                result = recommend_in(
                    world,
                    budget,
                    training=training,
                    policies=tried,
                    frontier=frontier,
                    progress=lambda _, done, of: bar.update(task, completed=done, total=of),
                    **settings,  # type: ignore[arg-type]
                )
            router = result.router
        else:
            if not isinstance(cost, StepCost):
                expected = "numbers, or --handoff restart, whose costs a log knows"
                raise InvalidDataError(expected, field="--cheap-cost", value=cost.cheap)
            if development is not None:
                training, kept = episodes, read_episodes(development)
            else:
                training, kept = episodes.split({"training": 1 - share, "development": share}, seed=seed).values()
            result = recommend_from_logs(
                training,
                kept,
                _cap(str(cap), None),
                cost=cost,
                step_budget=step_budget,
                strong_steps=steps_of(kept, strong_steps),
                options=fitting,
            )
            router = result.router.with_ranges_of(training).with_reader_of(training)
    router.save(out)
    written = {"written": str(out)}
    if table is not None:
        write_table(result.table, table)
        written["table_written"] = str(table)
    if plot is not None:
        from matplotlib.figure import Figure

        from bayes_tacit.review.plots import plot_recommendation

        figure = Figure(figsize=(11.5, 5.0), layout="constrained")
        plot_recommendation(cast("Recommendation", result), figure=figure)
        write_figure(figure, plot)
        written["plot_written"] = str(plot)
    if report is not None:
        from bayes_tacit.review.recommendation import recommendation_page

        recommendation_page(cast("Recommendation", result), world, report)
        written["report_written"] = str(report)
    then = ("serve", out, "--cheap URL --strong URL")
    show(f"{result}\n\nwritten: {', '.join(written.values())}", result.to_dict() | written, as_json=as_json, then=then)


def _paired(episodes: Episodes, path: Path) -> Episodes:
    """Keep the tasks that both models did, on which rules are fitted and judged; ask for more where they are few."""
    from bayes_tacit.errors import TacitWarning
    from bayes_tacit.policies.recommending import FEWEST

    pairs = int((episodes.cheap_played & (episodes.strong_counts[1] > 0)).sum())
    if pairs == len(episodes):
        return episodes
    if pairs < FEWEST:
        expected = (
            f"at least {FEWEST} to judge rules on: play the missing side of {FEWEST - pairs} more tasks, "
            f"which `bayes-tacit next {path}` names"
        )
        raise InvalidDataError(expected, field="tasks that both models did", value=pairs, where=f"in {path}")
    warnings.warn(
        f"rules are fitted and judged on the {pairs} tasks that both models did; the {len(episodes) - pairs} "
        "that one did count through the reader of words alone",
        TacitWarning,
        stacklevel=2,
    )
    return episodes.pairs()


def _cap(text: str, strong: float | None) -> float:
    """Read a budget: a number, or a share of what Pure Strong costs."""
    of_share = text.endswith("%")
    number = number_of(text.removesuffix("%"))
    if number is None or (of_share and strong is None):
        expected = "a number, or a share of Pure Strong's cost such as 50%"
        if of_share and number is not None:
            expected = "a number: what Pure Strong costs is known with --handoff restart or --counterfactuals alone"
        raise InvalidDataError(expected, field="--cap", value=text)
    validate.number("--cap", number, "a finite number >= 0", least=0)
    return number / 100 * float(strong or 0) if of_share else number


def _world(
    episodes: Episodes,
    counterfactuals: Path | None,
    cost: CostModel | LoggedCost | TokenCost,
    strong_steps: str | None,
    handoff: str,
) -> World:
    from bayes_tacit.data.costs import LoggedCost, TokenCost
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.policies import World

    if counterfactuals is None:
        check_restarts(strong_steps, cost)
        return World.from_restarts(episodes, strong_steps=strong_steps, cost=cost)
    if isinstance(cost, LoggedCost | TokenCost):
        raise InvalidDataError("numbers with --counterfactuals", field="--cheap-cost", value=cost.cheap)
    known = Counterfactuals.read(counterfactuals, cost=cost).match(episodes)
    return World(episodes, known.restarted(cost) if handoff == "restart" else known, None)
