"""The command that shows what a served router did: monitor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bayes_tacit.cli.common import AnySeed, AsJson, Force, new_file, read_episodes, show, working
from bayes_tacit.errors import InvalidDataError


def monitor(
    log: Annotated[Path, typer.Argument(help="A log of sessions, .jsonl, from serve.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The page to write, .html; by default beside the log, under its name.")
    ] = None,
    router: Annotated[
        Path | None, typer.Option(help="The router that decided, .json: drift from its training data.")
    ] = None,
    training: Annotated[
        Path | None, typer.Option(help="The router's training episodes, where it does not carry their quantiles.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Sessions",
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Show what came of served sessions, as one HTML page.

    Sessions and handoffs, what was spent and what Pure Strong would have cost, success where outcomes are known, scores
    against outcomes, drift of features and diagnostics from training, what a router in shadow would have done. The log
    may be of any length, and may still be written to.

    Example: `bayes-tacit monitor gateway.jsonl --router router.json`
    """
    from bayes_tacit.monitor.page import monitor as write
    from bayes_tacit.monitor.page import sentence
    from bayes_tacit.router import Router

    target = new_file(log.with_suffix(".html") if out is None else out, ".html", ".htm", force=force)
    if training is not None and router is None:
        raise InvalidDataError("a router beside training episodes", field="--router", value=None)
    episodes = None if training is None else read_episodes(training)
    with working("reading the log"):
        summary = write(log, target, None if router is None else Router.load(router), training=episodes, title=title)
    text = "\n".join([sentence(summary), *(f"note: {warning}" for warning in summary.warnings), f"written to {target}"])
    content = {**asdict(summary), "warnings": summary.warnings, "written": str(target)}
    show(text, content, as_json=as_json)
