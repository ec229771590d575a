"""The command that plays paired rollouts: collect."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_tacit.cli.common import CHECK_FAILED, Force, new_file, show, told
from bayes_tacit.cli.players import Playing, plays

if TYPE_CHECKING:
    from bayes_tacit.agents.benchmark import Benchmark
    from bayes_tacit.agents.playing import Pair, Players

OUTCOMES = ("00", "01", "10", "11")


@plays
def collect(
    playing: Playing,
    counterfactuals: Annotated[
        Path | None,
        typer.Option(help="Play every handoff too (kept in OUT-handoffs) and write this: .csv, .parquet or .nc."),
    ] = None,
    force: Force = False,
) -> None:
    """Play tasks of a benchmark with Cheap alone and with Strong alone, and keep the transcripts.

    What the folder holds already is not played again, except for rollouts that broke off; a folder of other players is
    refused. Exit code 1 means that some rollouts broke off, such as where an endpoint gave no answer: run it again.

    Example: `bayes-tacit collect --benchmark simulations.alfworld:benchmark --data alfworld --cheap
    http://127.0.0.1:8000/v1 --cheap-model small --strong scripted --workers 2 --out rollouts`
    """
    from bayes_tacit.agents.playing import collect as play
    from bayes_tacit.agents.work import shown

    target = None if counterfactuals is None else new_file(counterfactuals, force=force)
    players = playing.players()
    benchmark, tasks = playing.opened("collect")
    with told():
        pairs = play(benchmark, playing.out, players, tasks=tasks, workers=playing.workers, progress=shown("rollouts"))
    broken = sorted(pair.task.id for pair in pairs if not pair.conclusive)
    counts = Counter(pair.outcome for pair in pairs if pair.conclusive)
    words = ", ".join(f"{counts[outcome]} with AB = {outcome}" for outcome in OUTCOMES)
    text = f"{len(pairs)} games: {words}; transcripts in {playing.out}"
    facts: dict[str, object] = {
        "games": len(pairs),
        "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
        "broken": broken,
        "out": str(playing.out),
        "counterfactuals": None,
    }
    if broken:
        text += f"\nbroke off: {', '.join(broken)}"
    elif target is not None:
        _continue(benchmark, pairs, players, playing, target)
        text += f"\nwhat comes of every handoff: {target}"
        facts["counterfactuals"] = str(target)
    show(text, facts, as_json=playing.as_json)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _continue(
    benchmark: Benchmark[Any], pairs: list[Pair[Any]], players: Players, playing: Playing, target: Path
) -> None:
    from bayes_tacit.agents.playing import Continuations
    from bayes_tacit.agents.work import shown

    # Not inside: whoever reads the folder takes every file for a transcript.
    folder = playing.out.with_name(f"{playing.out.name}-handoffs")
    played = Continuations(benchmark, pairs, folder, players, playing.workers, shown("handoffs"))
    played.counterfactuals().write(target)
