"""The commands that read logs: import, and replay of a router on them."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayes_tacit.cli.common import AnySeed, AsJson, Force, RouterFile, listed, new_file, show, told
from bayes_tacit.cli.prices import prices_of, tokens_of
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.progress import bars

if TYPE_CHECKING:
    from bayes_tacit.decisions.evaluation import World
    from bayes_tacit.router import Router

Format = Annotated[str, typer.Option(help="auto, or the name of a reader: see the reference, page logs.")]
Trials = Annotated[str, typer.Option(help="A task that comes twice without a trial: refuse, or number them in order.")]
Threshold = Annotated[float, typer.Option(help="The least score that is a success, where there are scores.")]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out records that are wrong, and say how many and why.")
]
CheapModel = Annotated[str | None, typer.Option(help="Only rollouts of this model, in a log of several.")]
StrongModel = Annotated[str | None, typer.Option(help="The same of Strong's log.")]
Signal = Annotated[
    list[str] | None,
    typer.Option(
        help="A diagnostic of your own: a key of each turn in the log, or module:name of a function; repeatable."
    ),
]
Action = Annotated[
    str | None,
    typer.Option(help="How a text-only agent writes its actions, as a regular expression; the usual ways are known."),
]


def import_(
    cheap: Annotated[Path, typer.Argument(help="Cheap's log: a file, or a folder of files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The episodes: .jsonl, .parquet, .nc or .zarr.")],
    strong: Annotated[
        Path | None,
        typer.Argument(help="Strong's log, of the same tasks, unless the first has both.", show_default=False),
    ] = None,
    format: Format = "auto",  # noqa: A002  the option's name
    threshold: Threshold = 1.0,
    trials: Trials = "refuse",
    unpaired: Annotated[
        str,
        typer.Option(help="Tasks of one log only: keep them, drop them, or auto: keep where they outnumber the pairs."),
    ] = "auto",
    tasks: Annotated[
        Path | None, typer.Option(help="More columns by task, .csv: numbers are features, texts are carried along.")
    ] = None,
    cheap_results: Annotated[
        Path | None, typer.Option(help="Outcomes that Cheap's log lacks: .csv (task, success) or SWE-bench's report.")
    ] = None,
    strong_results: Annotated[Path | None, typer.Option(help="The same for Strong's log.")] = None,
    cheap_model: CheapModel = None,
    strong_model: StrongModel = None,
    diagnostics: Annotated[
        str | None, typer.Option(help="Those to keep, with commas between them; all by default.")
    ] = None,
    signal: Signal = None,
    action: Action = None,
    longest: Annotated[int, typer.Option(help="Most characters of one message.")] = 5_000_000,
    words: Annotated[
        bool, typer.Option("--words/--no-words", help="Learn more diagnostics and features from the words of the logs.")
    ] = True,
    group: Annotated[
        str | None, typer.Option(help="A column of --tasks: tasks that are alike, left out together for the words.")
    ] = None,
    skip_broken: SkipBroken = False,
    cheap_price: Annotated[
        str | None, typer.Option(help="Of a million Cheap tokens: in,cached,out or in,cached,out,written.")
    ] = None,
    strong_price: Annotated[str | None, typer.Option(help="The same of Strong's.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that read a large log; by default one a core, at most four.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Draws which tasks are left out together for the words.")] = 0,
) -> None:
    """Read the logs of two agents on the same tasks, and write them as paired episodes.

    Trials of a task are kept as episodes of their own, the first of Cheap with the first of Strong and so on. Logs of
    different tasks are kept, too, and the report says what can be learned from them. Nothing is written if anything in
    a log is wrong; the error names its line.

    Example: `bayes-tacit import cheap.jsonl strong.jsonl --out episodes.jsonl`
    """
    from bayes_tacit.logs import import_logs

    target = new_file(out, force=force)
    prices = tokens_of(cheap_price, strong_price) if cheap_price or strong_price else None
    with _bar([cheap, cheap if strong is None else strong]) as progress:
        report = import_logs(
            cheap,
            strong,
            target,
            format=format,
            threshold=threshold,
            trials=cast("Any", trials),
            unpaired=cast("Any", unpaired),
            tasks=tasks,
            cheap_results=cheap_results,
            strong_results=strong_results,
            cheap_model=cheap_model,
            strong_model=strong_model,
            diagnostics=listed(diagnostics),
            signals=signal or (),
            action=action,
            longest=longest,
            words=words,
            group=group,
            seed=seed,
            skip_broken=skip_broken,
            prices=None if prices is None else (prices.cheap, prices.strong),
            workers=min(4, os.cpu_count() or 1) if workers is None else workers,
            progress=progress,
        )
    paired = any(count for outcome, count in report.outcomes.items() if "-" not in outcome)
    then = (
        ("recommend", out, "--handoff restart --cap 50% --out router.json")
        if paired
        else ("fit", out, "--out fit.json")
    )
    show(f"{report}\nwritten to {out}", {**asdict(report), "written": str(out)}, as_json=as_json, then=then)


@contextmanager
def _bar(logs: list[Path]) -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal how much of the logs was read; a folder's size is not known before its files are."""
    with bars(of="bytes") as bar:
        sizes = [log.stat().st_size if log.is_file() else None for log in logs]
        tasks = {side: bar.add_task(side, total=size) for side, size in zip(("cheap", "strong"), sizes, strict=True)}
        yield lambda side, size: bar.update(tasks[side], advance=size)


def replay(
    router: RouterFile,
    cheap: Annotated[Path, typer.Argument(help="Cheap's log, in any format that import reads.", show_default=False)],
    strong: Annotated[
        Path | None, typer.Argument(help="Strong's log: then success and cost of restarts.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="What it would have done, .csv: task,handoff_step,success,cost.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="The same as a page, .html: the coin flip, when it hands off, the tasks.")
    ] = None,
    format: Format = "auto",  # noqa: A002
    threshold: Threshold = 1.0,
    trials: Trials = "refuse",
    cheap_model: CheapModel = None,
    strong_model: StrongModel = None,
    signal: Signal = None,
    action: Action = None,
    skip_broken: SkipBroken = False,
    cheap_cost: Annotated[str, typer.Option(help="Cost of a Cheap call, or a carried variable with costs.")] = "1",
    strong_cost: Annotated[str, typer.Option(help="Cost of a Strong call, or a carried variable with costs.")] = "3",
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Say from which step on Strong would have acted in each task of a log, -1 for never, had the router run.

    Each rollout is read as an agent would have shown it, step by step. With Strong's log, success and cost are those of
    a restart, and stand beside a coin flip between Cheap and Strong of the same cost.

    Example: `bayes-tacit replay router.json cheap.jsonl strong.jsonl --out handoffs.csv --report page.html`
    """
    import numpy as np
    import pandas as pd

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.decisions.evaluation import World
    from bayes_tacit.files import atomic_path
    from bayes_tacit.logs import import_logs
    from bayes_tacit.router import Router

    if out is None and report is None:
        raise InvalidDataError("one of them, or both", field="--out and --report", value=None)
    for path, suffixes in ((out, (".csv",)), (report, (".html", ".htm"))):
        if path is not None:
            new_file(path, *suffixes, force=force)
    loaded = Router.load(router)
    cost = prices_of(cheap_cost, strong_cost, restarts=True)
    how: dict[str, Any] = {"format": format, "threshold": threshold, "trials": trials, "skip_broken": skip_broken}
    how |= {"signals": signal or (), "action": action, "unpaired": "drop"}
    how |= {"words": loaded.reader is not None, "reader": loaded.reader}
    known: dict[str, tuple[float, float]] = {}
    said: dict[str, Any] = {}
    words = ""
    with told(), tempfile.TemporaryDirectory(prefix="bayes-tacit-") as folder:
        file = Path(folder) / "episodes.jsonl"
        read = import_logs(cheap, cheap, file, cheap_model=cheap_model, strong_model=cheap_model, **how)
        episodes = Episodes.read(file)
        steps = loaded.handoffs(episodes).values
        if strong is not None:
            read = import_logs(cheap, strong, file, cheap_model=cheap_model, strong_model=strong_model, **how)
            pairs = Episodes.read(file)
            world = World.from_restarts(pairs, strong_steps="strong_steps", cost=cost)
            given = world.outcomes(loaded)
            values = zip(given.success.tolist(), given.cost.tolist(), strict=True)
            known = dict(zip(pairs.ids.tolist(), values, strict=True))
            words, said = _beside_the_coin(world, loaded, len(pairs))
    if out is not None:
        with atomic_path(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["task", "handoff_step", "success", "cost"])
            for task, step in zip(episodes.ids.tolist(), steps.tolist(), strict=True):
                writer.writerow([task, step, *known.get(task, ("", ""))])
    # Where a score is reached only after Cheap's last step, there is nothing left to hand over.
    acts = (steps >= 0) & ((steps < episodes.n_steps) | loaded.rule.closes)
    handed = int(acts.sum())
    said = {"tasks": len(episodes), "handed_off": handed, **said}
    if report is not None:
        from bayes_tacit.review.recommendation import replay_page

        both = [known.get(task, (float("nan"), float("nan"))) for task in episodes.ids.tolist()]
        table = pd.DataFrame(both, columns=["success", "cost"], index=pd.Index(episodes.ids, name="task"))
        table.insert(0, "steps", episodes.n_steps)
        table.insert(1, "handoff_step", np.where(acts, steps, -1))
        replay_page(table, said, report)
    said |= {name: str(path) for name, path in (("written", out), ("report_written", report)) if path is not None}
    lines = [f"{handed} of {len(episodes)} tasks would have been handed off", *filter(None, [words])]
    lines += [f"note: {note}" for note in read.notes if "skipped" in note]
    lines += [f"written to {path}" for path in (out, report) if path is not None]
    show("\n".join(lines), said, as_json=as_json, then=("serve", router, "--cheap URL --strong URL"))


def _beside_the_coin(world: World, router: Router, pairs: int) -> tuple[str, dict[str, Any]]:
    """Say what restarts by a router come to, beside a coin flip between Cheap and Strong of the same cost."""
    table, point = world.counterfactuals, world.outcomes(router).point()
    low, high = table.pure_cheap.point(), table.pure_strong.point()
    span = high["cost"] - low["cost"]
    share = (point["cost"] - low["cost"]) / span if span else 0.0
    flip = low["success"] + share * (high["success"] - low["success"])
    above = point["success"] - flip
    words = (
        f"{point['success']:.1%} success at a cost of {point['cost']:.4g} on {pairs} pairs, "
        f"{100 * above:+.1f} points against a coin flip of the same cost\n"
        f"Pure Cheap {low['success']:.1%} at {low['cost']:.4g}, Pure Strong {high['success']:.1%} at {high['cost']:.4g}"
    )
    facts = {"pairs": pairs, **point, "coin_flip": flip, "above_coin": above, "pure_cheap": low, "pure_strong": high}
    return words, facts
