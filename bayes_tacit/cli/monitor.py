"""The commands that show what served routers did, and what others would come to: monitor and compare-routers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_tacit.cli.common import AnySeed, AsJson, Force, new_file, read_episodes, show, working
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.monitor.comparing import Value


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
    compare: Annotated[
        list[Path] | None, typer.Option(help="A router file to compare, again for each; those that served among them.")
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
        known = None if router is None else Router.load(router)
        others = {name: Router.load(path) for name, path in _named(compare or []).items()}
        summary = write(log, target, known, training=episodes, compare=others, title=title)
    text = "\n".join([sentence(summary), *(f"note: {warning}" for warning in summary.warnings), f"written to {target}"])
    content = {**asdict(summary), "warnings": summary.warnings, "written": str(target)}
    show(text, content, as_json=as_json)


def compare_routers(
    log: Annotated[Path, typer.Argument(help="A log of sessions, .jsonl, from serve --explore.", show_default=False)],
    routers: Annotated[
        list[Path], typer.Argument(help="Router files, those that served among them.", show_default=False)
    ],
    _flag: Annotated[bool, typer.Option("--routers", help="May stand before the router files.")] = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Estimate what routers come to, from sessions whose way to be served was drawn.

    A session tells of every router that would have done what was done in it, and counts by one over the probability of
    that, which the log has. Beside them stand Cheap to the end and Strong from the start. Intervals have 95%.

    Example: `bayes-tacit compare-routers gateway.jsonl --routers a.json b.json`
    """
    from bayes_tacit.monitor.comparing import compare_routers as compare
    from bayes_tacit.monitor.comparing import tells
    from bayes_tacit.router import Router

    with working("reading the log"):
        found = compare(log, {name: Router.load(path) for name, path in _named(routers).items()})
    lines = [f"{found.sessions:,} sessions with an outcome, {found.explored:,} of them drawn otherwise than the router"]
    for one in found.values:
        success, cost = (f"{at[0]:{form}} ({at[1]:{form}} to {at[2]:{form}})" for at, form in _shown(one))
        doubt = "" if tells(one) else f"; {1 - one.supported:.0%} of tasks without support"
        lines.append(f"{one.name}: success {success}, cost {cost}; {one.alike:,} sessions alike{doubt}")
    show("\n".join([*lines, *found.verdicts]), {**asdict(found), "verdicts": found.verdicts}, as_json=as_json)


def _named(routers: list[Path]) -> dict[str, Path]:
    stems = [path.stem for path in routers]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in routers}


def _shown(value: Value) -> list[tuple[tuple[float, float, float], str]]:
    return [(value.success, ".1%"), (value.cost, ".4g")]
