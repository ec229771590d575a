"""The command that chooses a threshold and makes a router: select."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayes_tacit.cli.common import AsJson, Data, Fitted, Force, new_file, read_episodes, read_fitted, show, told
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.counterfactuals import Counterfactuals
    from bayes_tacit.episodes import Episodes
    from bayes_tacit.evidence import Timing
    from bayes_tacit.map_fit import MapFit


def select(
    fitted: Fitted,
    data: Data,
    out: Annotated[Path, typer.Option(help="The router, .json.")],
    cap: Annotated[float | None, typer.Option(help="Highest mean cost of an episode.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Take this threshold instead of choosing one.")] = None,
    counterfactuals: Annotated[
        Path | None, typer.Option(help="What each handoff gives, .csv or .parquet; without it, bounds from the log.")
    ] = None,
    cheap_cost: Annotated[float, typer.Option(help="Cost of a Cheap call.")] = 1.0,
    strong_cost: Annotated[float, typer.Option(help="Cost of a Strong call.")] = 3.0,
    step_budget: Annotated[int | None, typer.Option(help="Steps an episode can have; for bounds from the log.")] = None,
    rule: Annotated[str, typer.Option(help="For a posterior: mean, or a quantile such as 0.1.")] = "mean",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the threshold alpha under a cost cap and write the router that an agent runs.

    With counterfactuals (a table with one row for each episode and handoff), alpha maximizes success within the cap.
    Without them it is the threshold that is best in its own worst case, from bounds that the paired rollouts and
    windows give; take it for a first alpha.

    Example: `bayes-tacit select fit.json episodes.jsonl --cap 50 --step-budget 30 --out router.json`
    """
    from bayes_tacit.deployment import Router
    from bayes_tacit.map_fit import MapFit

    target = new_file(out, force=force)
    if (cap is None) == (alpha is None):
        raise InvalidDataError("one of --cap and --alpha", field="--cap and --alpha", value=(cap, alpha))
    with told():
        estimate = read_fitted(fitted)
        text, content = f"alpha = {alpha}, as given", dict[str, object](alpha=alpha)
        if cap is not None:
            episodes = read_episodes(data)
            alpha, text, content = _choose(
                estimate, episodes, cap, _rule(rule), counterfactuals, (cheap_cost, strong_cost), step_budget
            )
        chosen = cast("float", alpha)
        if isinstance(estimate, MapFit):
            router = Router.from_fit(estimate, alpha=chosen)
        else:
            router = Router.from_posterior(estimate, alpha=chosen, rule=_rule(rule))
    router.save(target)
    show(f"{text}\n\nrouter written to {out}", content | {"written": str(out)}, as_json=as_json)


def _choose(
    estimate: MapFit | xr.DataTree,
    episodes: Episodes,
    cap: float,
    rule: str | float,
    counterfactuals: Path | None,
    costs: tuple[float, float],
    step_budget: int | None,
) -> tuple[float, str, dict[str, object]]:
    from bayes_tacit.bounds import bounds_from_logs, suggest_alpha
    from bayes_tacit.costs import StepCost
    from bayes_tacit.map_fit import MapFit
    from bayes_tacit.selection import choose, operating_points, score_quantiles

    cost = StepCost(*costs)
    scores = _decision_scores(estimate, episodes, rule)
    timing = cast("Timing", estimate.timing if isinstance(estimate, MapFit) else estimate.attrs["timing"])
    candidates = score_quantiles(scores)
    if counterfactuals is None:
        bounds = bounds_from_logs(scores, episodes, candidates, timing, cost=cost, step_budget=step_budget)
        suggestion = suggest_alpha(bounds, cap)
        facts: dict[str, object] = {"alpha": suggestion.alpha, "cap": cap, "bounds": dict(suggestion.bounds)}
        return suggestion.alpha, str(suggestion), facts | {"reasons": suggestion.reasons}
    table = _read_counterfactuals(counterfactuals, cost).match(episodes)
    choice = choose(operating_points(scores, table, candidates, timing), cap)
    return choice.alpha, str(choice), {"alpha": choice.alpha, "cap": cap, "point": dict(choice.point)}


def _decision_scores(estimate: MapFit | xr.DataTree, episodes: Episodes, rule: str | float) -> xr.DataArray:
    """Give the scores that the router will compare with alpha."""
    from bayes_tacit.map_fit import MapFit
    from bayes_tacit.scores import credible_band, handoff_score

    if isinstance(estimate, MapFit):
        return handoff_score(estimate, episodes)
    if rule == "mean":
        return credible_band(estimate, episodes)["mean"]
    quantile = float(rule)
    if quantile == 0.5:
        return credible_band(estimate, episodes)["median"]
    band = credible_band(estimate, episodes, probability=abs(1 - 2 * quantile))
    return band["lower" if quantile < 0.5 else "upper"]


def _rule(given: str) -> str | float:
    if given == "mean":
        return given
    try:
        return float(given)
    except ValueError:
        raise InvalidDataError("'mean' or a quantile between 0 and 1", field="--rule", value=given) from None


def _read_counterfactuals(path: Path, cost: Any) -> Counterfactuals:  # noqa: ANN401
    import pandas as pd

    from bayes_tacit.counterfactuals import Counterfactuals

    if not path.exists():
        raise MissingFileError(f"{path}: no such file; expected a table of counterfactuals")
    if path.suffix not in (".csv", ".parquet"):
        raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected .csv or .parquet")
    try:
        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except Exception as error:
        raise FileFormatError(f"{path}: cannot be read as a table ({error})") from error
    return Counterfactuals.from_frame(table, cost=None if "cost" in table else cost)
