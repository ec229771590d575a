"""The command that says what a router would have done on logs: replay."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from bayes_tacit.cli.common import AnySeed, AsJson, Force, new_file, show, told
from bayes_tacit.cli.prices import prices_of


def replay(
    router: Annotated[Path, typer.Argument(help="A router, .json, from recommend or select.", show_default=False)],
    cheap: Annotated[Path, typer.Argument(help="Cheap's log, in any format that import reads.", show_default=False)],
    out: Annotated[Path, typer.Option(help="What it would have done, .csv: task,handoff_step,success,cost.")],
    strong: Annotated[
        Path | None, typer.Argument(help="Strong's log: then success and cost of restarts.", show_default=False)
    ] = None,
    format: Annotated[str, typer.Option(help="auto, or the name of a reader of logs.")] = "auto",  # noqa: A002
    trials: Annotated[
        str, typer.Option(help="A task that comes twice without a trial: refuse, or number them.")
    ] = "refuse",
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave out records that are wrong.")] = False,
    cheap_cost: Annotated[str, typer.Option(help="Cost of a Cheap call, or a carried variable with costs.")] = "1",
    strong_cost: Annotated[str, typer.Option(help="Cost of a Strong call, or a carried variable with costs.")] = "3",
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Say from which step on Strong would have acted in each task of a log, -1 for never, had the router run.

    Each rollout is read as an agent would have shown it, step by step. With Strong's log, success and cost are those of
    a restart, and stand beside a coin flip between Cheap and Strong of the same cost.

    Example: `bayes-tacit replay router.json cheap.jsonl strong.jsonl --out handoffs.csv`
    """
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.decisions.evaluation import World
    from bayes_tacit.files import atomic_path
    from bayes_tacit.logs import import_logs
    from bayes_tacit.router import Router

    new_file(out, ".csv", force=force)
    loaded = Router.load(router)
    cost = prices_of(cheap_cost, strong_cost, restarts=True)
    how: dict[str, Any] = {"format": format, "trials": trials, "skip_broken": skip_broken}
    how |= {"words": loaded.reader is not None, "reader": loaded.reader, "unpaired": "drop"}
    known: dict[str, tuple[float, float]] = {}
    said: dict[str, Any] = {}
    with told(), tempfile.TemporaryDirectory(prefix="bayes-tacit-") as folder:
        file = Path(folder) / "episodes.jsonl"
        import_logs(cheap, cheap, file, **how)
        episodes = Episodes.read(file)
        steps = loaded.handoffs(episodes).values
        if strong is not None:
            import_logs(cheap, strong, file, **how)
            pairs = Episodes.read(file)
            world = World.from_restarts(pairs, strong_steps="strong_steps", cost=cost)
            given, table = world.outcomes(loaded), world.counterfactuals
            values = zip(given.success.tolist(), given.cost.tolist(), strict=True)
            known = dict(zip(pairs.ids.tolist(), values, strict=True))
            low, high = table.pure_cheap.point(), table.pure_strong.point()
            point, span = given.point(), high["cost"] - low["cost"]
            share = (point["cost"] - low["cost"]) / span if span else 0.0
            flip = low["success"] + share * (high["success"] - low["success"])
            said = {"pairs": len(pairs), **point, "coin_flip": flip, "above_coin": point["success"] - flip}
            said |= {"pure_cheap": low, "pure_strong": high}
    with atomic_path(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["task", "handoff_step", "success", "cost"])
        for task, step in zip(episodes.ids.tolist(), steps.tolist(), strict=True):
            success, spent = cast("tuple[object, object]", known.get(task, ("", "")))
            writer.writerow([task, step, success, spent])
    handed = int((steps >= 0).sum())
    said = {"tasks": len(episodes), "handed_off": handed, **said, "written": str(out)}
    words = f"{handed} of {len(episodes)} tasks would have been handed off"
    if strong is not None:
        words += (
            f"\n{said['success']:.1%} success at a cost of {said['cost']:.4g} on {said['pairs']} pairs, "
            f"{100 * said['above_coin']:+.1f} points against a coin flip of the same cost"
            f"\nPure Cheap {said['pure_cheap']['success']:.1%} at {said['pure_cheap']['cost']:.4g}, "
            f"Pure Strong {said['pure_strong']['success']:.1%} at {said['pure_strong']['cost']:.4g}"
        )
    show(f"{words}\nwritten to {out}", said, as_json=as_json)
