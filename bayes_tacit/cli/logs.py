"""The command that reads logs: import."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayes_tacit.cli.common import AsJson, Force, new_file, show
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.progress import bars

if TYPE_CHECKING:
    from bayes_tacit.data.costs import Price


def import_(
    cheap: Annotated[Path, typer.Argument(help="Cheap's log: a file, or a folder of files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The episodes: .jsonl, .parquet, .nc or .zarr.")],
    strong: Annotated[
        Path | None,
        typer.Argument(help="Strong's log, of the same tasks; a gateway's log has both.", show_default=False),
    ] = None,
    format: Annotated[  # noqa: A002  the option's name
        str, typer.Option(help="auto, or the name of a reader: see the reference, page logs.")
    ] = "auto",
    threshold: Annotated[float, typer.Option(help="The least score that is a success, where there are scores.")] = 1.0,
    trials: Annotated[
        str, typer.Option(help="A task that comes twice without a trial: refuse, or number them in order.")
    ] = "refuse",
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
    diagnostics: Annotated[
        str | None, typer.Option(help="Those to keep, with commas between them; all by default.")
    ] = None,
    longest: Annotated[int, typer.Option(help="Most characters of one message.")] = 5_000_000,
    words: Annotated[
        bool, typer.Option("--words/--no-words", help="Learn more diagnostics and features from the words of the logs.")
    ] = True,
    group: Annotated[
        str | None, typer.Option(help="A column of --tasks: tasks that are alike, left out together for the words.")
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out records that are wrong, and say how many and why.")
    ] = False,
    cheap_price: Annotated[
        str | None, typer.Option(help="Of a million Cheap tokens: input,cached,output or input,cached,output,written.")
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
    different tasks are kept, too, and the report says what can be learned from them. Nothing
    is written if anything in a log is wrong; the error names its line.

    Example: `bayes-tacit import cheap.jsonl strong.jsonl --out episodes.jsonl`
    """
    from bayes_tacit.logs import import_logs

    target = new_file(out, force=force)
    wanted = None if diagnostics is None else [name.strip() for name in diagnostics.split(",")]
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
            diagnostics=wanted,
            longest=longest,
            words=words,
            group=group,
            seed=seed,
            skip_broken=skip_broken,
            prices=_prices(cheap_price, strong_price),
            workers=min(4, os.cpu_count() or 1) if workers is None else workers,
            progress=progress,
        )
    show(f"{report}\nwritten to {out}", {**asdict(report), "written": str(out)}, as_json=as_json)


def _prices(cheap: str | None, strong: str | None) -> tuple[Price, Price] | None:
    from bayes_tacit.data.costs import Price

    if (cheap is None) != (strong is None):
        raise InvalidDataError(
            "both --cheap-price and --strong-price, or neither", field="prices", value=(cheap, strong)
        )
    return None if cheap is None or strong is None else (Price.parse(cheap), Price.parse(strong))


@contextmanager
def _bar(logs: list[Path]) -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal how much of the logs was read; say nothing on a pipe."""
    with bars(of="bytes") as bar:
        tasks = {
            side: bar.add_task(side, total=_size(log)) for side, log in zip(("cheap", "strong"), logs, strict=True)
        }
        yield lambda side, size: bar.update(tasks[side], advance=size)


def _size(log: Path) -> int | None:
    """Return the bytes of a file; a folder's are not known before its files are."""
    return log.stat().st_size if log.is_file() else None
