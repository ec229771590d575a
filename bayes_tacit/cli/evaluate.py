"""The command that plays policies: evaluate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_tacit.cli.common import CHECK_FAILED, show, told
from bayes_tacit.cli.players import Playing, plays
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.agents.playing import Entry
    from bayes_tacit.agents.transcript import Transcript
    from bayes_tacit.data.costs import Outcomes
    from bayes_tacit.router import Router

PURE = {"Pure Cheap": "cheap", "Pure Strong": "strong"}


@plays
def evaluate(
    routers: Annotated[list[Path], typer.Argument(help="Routers, .json, from select.", show_default=False)],
    playing: Playing,
    deferral: Annotated[
        list[float] | None,
        typer.Option(help="Step deferral at this uncertainty (DABench: NLL) of Cheap's proposal, too; repeatable."),
    ] = None,
    pages: Annotated[bool, typer.Option("--pages", help="Write a page for each episode under a router.")] = False,
    resamples: Annotated[int, typer.Option(help="Resamples of the paired bootstrap.")] = 10_000,
) -> None:
    """Play routers on tasks of a benchmark beside Pure Cheap and Pure Strong, and compare them.

    Every episode is played through the loop, with the router deciding live; what two policies have in common is played
    once. Intervals are for the first router's difference from each other policy on the same tasks. Exit code 1 means
    that some episodes broke off, such as where an endpoint gave no answer: run it again.

    Example: `bayes-tacit evaluate router.json --benchmark simulations.alfworld:benchmark --data alfworld --workers 2
    --out played`
    """
    from bayes_tacit.agents.playing import collect, outcomes_of, play_policies
    from bayes_tacit.agents.work import shown

    players = playing.players()
    entries = _entries(routers, deferral or [], playing.suite().signal)
    benchmark, tasks = playing.opened("evaluate")
    out, workers = playing.out, playing.workers
    with told():
        pairs = collect(benchmark, out / "rollouts", players, tasks=tasks, workers=workers, progress=shown("rollouts"))
        sound = [pair for pair in pairs if pair.conclusive]
        played = play_policies(
            benchmark, sound, entries, out / "played", players, workers=workers, progress=shown("policies")
        )
    whole = [at for at in range(len(sound)) if all(episodes[at].conclusive for episodes in played.values())]
    kept = {sound[at].task.id for at in whole}
    broken = [pair.task.id for pair in pairs if pair.task.id not in kept]
    if not whole:
        raise InvalidDataError("at least one game on which no episode broke off", field="games", value=broken)
    outcomes = {name: outcomes_of([episodes[at] for at in whole]) for name, episodes in played.items()}
    if pages:
        _write_pages({name: played[name] for name in _router_names(routers)}, out / "pages")
    ours = _router_names(routers)[0]
    facts = {
        "games": len(whole),
        "policies": {
            name: _facts(name, found, outcomes[ours], ours, resamples, playing.seed) for name, found in outcomes.items()
        },
        "broken": broken,
        "out": str(out),
    }
    text = _table(outcomes, facts, ours) + (f"\nbroke off: {', '.join(broken)}" if broken else "")
    show(text, facts, as_json=playing.as_json)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _entries(routers: list[Path], thresholds: list[float], signal: str) -> list[Entry]:
    from bayes_tacit.agents.playing import Entry
    from bayes_tacit.router import Router, pure
    from bayes_tacit.router.rules import Signal

    loaded = zip(_router_names(routers), map(Router.load, routers), strict=True)
    deferral = Router(rule=Signal(), call="strong_once", timing="proposal", diagnostic_names=(signal,))
    playing: dict[str, Router] = {
        "Pure Cheap": pure("cheap"),
        **dict(loaded),
        **{f"Step Deferral {level!r}": replace(deferral, alpha=level) for level in thresholds},
        "Pure Strong": pure("strong"),
    }
    return [Entry(name, router) for name, router in playing.items()]


def _router_names(routers: list[Path]) -> list[str]:
    names = [path.stem for path in routers]
    if len({*names, *PURE}) < len(names) + len(PURE):
        raise InvalidDataError("files with different names", field="routers", value=names)
    return names


def _write_pages(played: dict[str, list[Transcript]], folder: Path) -> None:
    from bayes_tacit.agents.pages import write_page

    folder.mkdir(parents=True, exist_ok=True)
    for name, transcripts in played.items():
        for transcript in transcripts:
            write_page(transcript, folder / f"{transcript.episode.replace('/', '__')}.{name}.html")


def _facts(name: str, found: Outcomes, ours: Outcomes, our_name: str, resamples: int, seed: int) -> dict[str, object]:
    from bayes_tacit.decisions.selection import bootstrap

    facts: dict[str, object] = {"successes": int(found.success.sum()), **found.point()}
    if name != our_name:
        intervals = bootstrap(ours, found, resamples=resamples, seed=seed)
        for row in ("success_difference", "cost_difference"):
            facts[row] = {end: intervals[end].to_dict()[row] for end in ("estimate", "lower", "upper")}
    return facts


def _table(outcomes: dict[str, Outcomes], facts: dict[str, object], ours: str) -> str:
    described = facts["policies"]
    assert isinstance(described, dict)
    width = max(map(len, outcomes))
    lines = [f"{'policy':<{width}}  successes  mean cost  strong share  interventions  success of {ours} minus this"]
    for name, found in outcomes.items():
        fact = described[name]
        line = (
            f"{name:<{width}}  {fact['successes']:>4}/{len(found):<4}  {fact['cost']:>9.2f}  "
            f"{fact['strong_share']:>12.1%}  {fact['intervention_rate']:>13.1%}"
        )
        if name != ours:
            gain = fact["success_difference"]
            line += f"  {gain['estimate']:+.1%} ({gain['lower']:+.1%} to {gain['upper']:+.1%})"
        lines.append(line)
    return "\n".join(lines)
