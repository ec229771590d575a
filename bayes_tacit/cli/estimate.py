"""Commands that fit and score, and say what to collect: fit, sample, score, report, next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import (
    CHECK_FAILED,
    AnySeed,
    AsJson,
    Clock,
    Data,
    Family,
    Features,
    Fitted,
    Force,
    NoiseOption,
    Seed,
    Timing,
    Unmarked,
    ZeroMass,
    about,
    memory_from,
    new_file,
    noise_from,
    read_episodes,
    read_fitted,
    read_training,
    show,
    told,
    working,
    write_table,
)
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.data.timing import Timing as TimingName
    from bayes_tacit.model.spec import Unmarked as UnmarkedName
    from bayes_tacit.model.spec import ZeroMass as ZeroMassName
    from bayes_tacit.review.checks import CheckResult


MEMORY = "What is left of a diagnostic's sum after a step, from 0 to 1 (nothing is forgotten)"


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The fit, .json.")],
    ridge: Annotated[float, typer.Option(help="Penalty lambda on gamma and beta.")] = 0.01,
    restarts: Annotated[int, typer.Option(help="Starts of the optimizer.")] = 5,
    max_iterations: Annotated[int, typer.Option(help="Steps of the optimizer from each start, at most.")] = 500,
    floor: Annotated[float, typer.Option(help="Floor on an episode's likelihood; 0 for none.")] = 1e-12,
    family: Family = "lognormal",
    timing: Timing = "post_action",
    memory: Annotated[str, typer.Option(help=f"{MEMORY}, or profile: by likelihood.")] = "1",
    clock: Clock = False,
    unmarked: Unmarked = "due",
    features: Features = None,
    noise: NoiseOption = None,
    zero_mass: ZeroMass = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit the model by penalized maximum likelihood, as the paper does.

    Example: `bayes-tacit fit episodes.jsonl --out fit.json`
    """
    from bayes_tacit.estimates.map_fit import fit_map

    target = new_file(out, ".json", force=force)
    with told(), working("fitting"):
        found = fit_map(
            read_training(data),
            ridge=ridge,
            restarts=restarts,
            max_iterations=max_iterations,
            floor=floor or None,
            family=family,
            timing=cast("TimingName", timing),
            memory=cast("float | Literal['profile']", memory_from(memory, "profile")),
            clock=clock,
            unmarked=cast("UnmarkedName", unmarked),
            features=features,
            noise=noise_from(noise),
            zero_mass=cast("ZeroMassName | None", zero_mass),
            seed=seed,
        )
    found.save(target)
    then = ("select", out, data, "--alpha 0.3 --out router.json")
    show(f"{found}\n\nwritten to {out}", json.loads(out.read_text()), as_json=as_json, then=then)


def sample(
    data: Data,
    out: Annotated[Path, typer.Option(help="The posterior, .nc or .zarr.")],
    draws: Annotated[int, typer.Option(help="Draws kept of each chain.")] = 1000,
    tune: Annotated[int, typer.Option(help="Warm-up draws of each chain.")] = 1000,
    chains: Annotated[int, typer.Option(help="Chains.")] = 4,
    target_accept: Annotated[float, typer.Option(help="Acceptance rate to tune to.")] = 0.9,
    family: Family = "lognormal",
    timing: Timing = "post_action",
    memory: Annotated[str, typer.Option(help=f"{MEMORY}, or learned: sampled too.")] = "1",
    clock: Clock = False,
    unmarked: Unmarked = "due",
    features: Features = None,
    noise: NoiseOption = None,
    groups: Annotated[
        str | None, typer.Option(help="A carried column whose levels get partially pooled intercepts of their own.")
    ] = None,
    zero_mass: ZeroMass = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Sample the posterior by NUTS and check it. Exit code 1 if the sampler's diagnostics or a check of the model fail.

    Example: `bayes-tacit sample episodes.jsonl --out posterior.nc`
    """
    from bayes_tacit.estimates.posterior import sample_posterior
    from bayes_tacit.review.checks import run_checks
    from bayes_tacit.scores.posterior_files import check_target, save_posterior

    target = new_file(out, force=force)
    check_target(target)
    with told():
        episodes = read_training(data)
        tree = sample_posterior(
            episodes,
            draws=draws,
            tune=tune,
            chains=chains,
            target_accept=target_accept,
            family=family,
            timing=cast("TimingName", timing),
            memory=cast("float | Literal['learned']", memory_from(memory, "learned")),
            clock=clock,
            unmarked=cast("UnmarkedName", unmarked),
            features=features,
            noise=noise_from(noise),
            groups=groups,
            zero_mass=cast("ZeroMassName | None", zero_mass),
            seed=seed,
        )
    save_posterior(tree, target)
    with working("checking the posterior"):
        results = run_checks(tree, episodes)
    _conclude(results, out, f"{results[0].table.round(3)}\n\n", as_json=as_json)


def next_(
    data: Data,
    n: Annotated[int, typer.Option("--n", help="How many to name.")] = 20,
    handed: Annotated[float, typer.Option(help="The budget: the share of tasks that is handed off.")] = 0.5,
    kinds: Annotated[
        str,
        typer.Option(help="What can be collected, of play Strong, play Cheap, play Strong again and mark."),
    ] = "play Strong,play Cheap,play Strong again,mark",
    ridge: Annotated[float, typer.Option(help="Penalty lambda on gamma and beta.")] = 0.01,
    family: Family = "lognormal",
    timing: Timing = "post_action",
    clock: Clock = False,
    features: Features = None,
    noise: NoiseOption = None,
    zero_mass: ZeroMass = None,
    out: Annotated[Path | None, typer.Option(help="Write the list, .csv.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Name the tasks to play, play again or mark next: those that tell most of where a handoff is worth it.

    Example: `bayes-tacit next episodes.jsonl --n 20`
    """
    from bayes_tacit.decisions.collecting import next_tasks

    target, rates = None if out is None else new_file(out, ".csv", force=force), noise_from(noise)
    with told(), working("looking at what could be collected"):
        episodes = read_training(data)
        with about(data):
            found = next_tasks(
                episodes,
                n,
                handed=handed,
                kinds=[each.strip() for each in kinds.split(",")],
                ridge=ridge,
                family=family,
                timing=cast("TimingName", timing),
                clock=clock,
                features=features,
                noise=rates,
                zero_mass=cast("ZeroMassName | None", zero_mass),
                seed=seed,
            )
    if target is not None:
        write_table(found.table, target)
    written = "" if out is None else f"\n\nwritten to {out}"
    show(f"{found}{written}", found.to_dict() | ({} if out is None else {"written": str(out)}), as_json=as_json)


def score(
    fitted: Fitted,
    data: Data,
    out: Annotated[Path, typer.Option(help="The scores, .csv or .parquet.")],
    probability: Annotated[float, typer.Option(help="Probability of the band, for a posterior.")] = 0.9,
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Score every checkpoint of every episode; with a posterior, with a credible band.

    Example: `bayes-tacit score posterior.nc episodes.jsonl --out scores.csv`
    """
    target = new_file(out, ".csv", ".parquet", force=force)
    with told(), working("scoring"):
        table = _score_table(fitted, data, probability)
    write_table(table, target)
    content = {"written": str(out), "checkpoints": len(table), "columns": list(table.columns)}
    show(
        f"{table.head(8).to_string(index=False)}\n\n{len(table)} checkpoints written to {out}",
        content,
        as_json=as_json,
        then=("select", fitted, data, "--alpha 0.3 --out router.json"),
    )


def _score_table(fitted: Path, data: Path, probability: float) -> pd.DataFrame:
    from bayes_tacit.estimates.map_fit import MapFit
    from bayes_tacit.scores.bands import credible_band
    from bayes_tacit.scores.score import handoff_score

    validate.probability("--probability", probability)
    estimate, episodes = read_fitted(fitted), read_episodes(data)
    with about(fitted, data):
        if isinstance(estimate, MapFit):
            scores = handoff_score(estimate, episodes).to_dataset(name="score")
        else:
            scores = credible_band(estimate, episodes, probability=probability).rename(mean="score")
    table = scores.to_dataframe().reset_index()
    return table.dropna(subset="score").reset_index(drop=True)


def report(
    posterior: Annotated[Path, typer.Argument(help="A posterior, .nc or .zarr.", show_default=False)],
    data: Data,
    out: Annotated[Path, typer.Option(help="The report, .html.")],
    alpha: Annotated[float | None, typer.Option(help="A decision threshold to draw into the scores.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    compare_memory: Annotated[
        bool,
        typer.Option(help="Where the memory is not 1, sample the paper's rho = 1 as well, and compare both by LOO."),
    ] = True,
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Write a self-contained HTML report on a posterior. Exit code 1 if one of its checks fails.

    Example: `bayes-tacit report posterior.nc episodes.jsonl --out report.html`
    """
    from bayes_tacit.review.checks import run_checks
    from bayes_tacit.review.reporting import report as write_report

    target = new_file(out, force=force)
    with told(), working("checking the posterior and drawing"):
        if alpha is not None:
            validate.threshold("--alpha", alpha)
        tree = _posterior(posterior)
        episodes = read_episodes(data)
        with about(posterior, data):
            results = run_checks(tree, episodes, paper=_paper(tree, episodes) if compare_memory else None)
        write_report(tree, episodes, target, alpha=alpha, title=title, results=results)
    _conclude(results, out, "", as_json=as_json)


def check(
    posterior: Annotated[Path, typer.Argument(help="A posterior, .nc or .zarr.", show_default=False)],
    data: Data,
    sbc: Annotated[
        bool,
        typer.Option("--sbc", help="Also simulate from the posterior, and see whether posteriors of that hold it."),
    ] = False,
    replicates: Annotated[int, typer.Option(help="Posteriors that --sbc samples, from 10 to 1000.")] = 50,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check a posterior as a report does, without the page. Exit code 1 if one of its checks fails.

    Example: `bayes-tacit check posterior.nc episodes.jsonl --sbc`
    """
    from bayes_tacit.review.checks import check_calibration, run_checks

    tree = _posterior(posterior)
    with told():
        episodes = read_episodes(data)
        with about(posterior, data):
            with working("checking the posterior"):
                results = run_checks(tree, episodes)
            if sbc:
                results.append(check_calibration(tree, episodes, replicates=replicates, seed=seed))
    _conclude(results, None, "", as_json=as_json)


def _posterior(path: Path) -> xr.DataTree:
    if path.suffix == ".json":
        raise InvalidDataError("a posterior (.nc or .zarr), from sample", field="posterior", value=str(path))
    return cast("xr.DataTree", read_fitted(path, finite=False))


def _paper(tree: xr.DataTree, episodes: Episodes) -> xr.DataTree | None:
    """Sample the model with the paper's memory, if the posterior has another one and can be compared at all."""
    from bayes_tacit.model.spec import spec_of
    from bayes_tacit.review.checks import check_sampler
    from bayes_tacit.review.findings import require_same_data

    if spec_of(tree).memory == 1 or not check_sampler(tree).passed:
        return None
    from bayes_tacit.estimates.posterior import with_paper_memory

    require_same_data(tree, episodes)
    return with_paper_memory(tree, episodes, progress=False)


def _conclude(results: list[CheckResult], out: Path | None, numbers: str, *, as_json: bool) -> None:
    """Print the verdict of all checks, as the report has it, and exit by it."""
    from bayes_tacit.review.checks import headline

    found = headline(results)
    failed = [result for result in results if result.passed is False]
    content = ({} if out is None else {"written": str(out)}) | {
        "passed": not failed,
        "verdict": str(found),
        "checks": {result.name: result.status for result in results},
        "reasons": [result.advice or result.sentence for result in failed],
    }
    lines = "\n".join(map(str, results))
    written = "" if out is None else f"written to {out}"
    show(f"{found}\n\n{lines}\n\n{numbers}{written}".rstrip(), content, as_json=as_json)
    if failed:
        raise typer.Exit(CHECK_FAILED)
