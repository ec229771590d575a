"""The command that plays paired rollouts: collect."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_tacit.cli.common import CHECK_FAILED, AsJson, Force, Seed, new_file, show
from bayes_tacit.cli.players import (
    SCRIPTED,
    Actions,
    Cheap,
    CheapKey,
    CheapModel,
    Data,
    First,
    GameList,
    Pricing,
    Seat,
    Split,
    Strong,
    StrongKey,
    StrongModel,
    Workers,
    games_of,
    players_of,
)

if TYPE_CHECKING:
    from bayes_tacit.agents.alfworld.collect import Pair, Players

OUTCOMES = ("00", "01", "10", "11")


def collect(
    out: Annotated[Path, typer.Option(help="Folder for the transcripts; a stopped run goes on from it.")],
    data: Data = None,
    split: Split = "valid_seen",
    games: GameList = None,
    first: First = None,
    cheap: Cheap = SCRIPTED,
    cheap_model: CheapModel = None,
    cheap_key: CheapKey = None,
    strong: Strong = SCRIPTED,
    strong_model: StrongModel = None,
    strong_key: StrongKey = None,
    counterfactuals: Annotated[
        Path | None,
        typer.Option(help="Play every handoff too (kept in OUT-handoffs) and write this: .csv, .parquet or .nc."),
    ] = None,
    cost: Pricing = "4b",
    actions: Actions = 50,
    workers: Workers = 1,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Play ALFWorld games with Cheap alone and with Strong alone, and keep the transcripts.

    What the folder holds already is not played again, except for rollouts that broke off; a folder of other players is
    refused. Exit code 1 means that some rollouts broke off, such as where an endpoint gave no answer: run it again.

    Example: `bayes-tacit collect --data alfworld --split valid_seen --cheap http://127.0.0.1:8000/v1
    --cheap-model small --strong scripted --workers 2 --out rollouts`
    """
    from bayes_tacit.agents.alfworld.collect import collect as play
    from bayes_tacit.agents.alfworld.progress import shown

    target = None if counterfactuals is None else new_file(counterfactuals, force=force)
    seats = Seat("cheap", cheap, cheap_model, cheap_key), Seat("strong", strong, strong_model, strong_key)
    players = players_of(*seats, cost, actions, seed)
    wanted = games_of(data, split, games, first)
    pairs = play(wanted, out, players, workers=workers, progress=shown("rollouts"))
    broken = sorted(pair.game.id for pair in pairs if not (pair.cheap.conclusive and pair.strong.conclusive))
    counts = Counter(pair.outcome for pair in pairs if pair.game.id not in broken)
    words = ", ".join(f"{counts[outcome]} with AB = {outcome}" for outcome in OUTCOMES)
    text = f"{len(pairs)} games: {words}; transcripts in {out}"
    facts: dict[str, object] = {
        "games": len(pairs),
        "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
        "broken": broken,
        "out": str(out),
        "counterfactuals": None,
    }
    if broken:
        text += f"\nbroke off: {', '.join(broken)}"
    elif target is not None:
        _continue(pairs, out, target, players, workers)
        text += f"\nwhat comes of every handoff: {target}"
        facts["counterfactuals"] = str(target)
    show(text, facts, as_json=as_json)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _continue(pairs: list[Pair], out: Path, target: Path, players: Players, workers: int) -> None:
    from bayes_tacit.agents.alfworld.continuations import Continuations
    from bayes_tacit.agents.alfworld.progress import shown

    # Not inside: whoever reads the folder takes every file for a transcript.
    played = Continuations(pairs, out.with_name(f"{out.name}-handoffs"), players, workers, shown("handoffs"))
    played.counterfactuals().write(target)
