"""Commands on episodes: example, validate, summary."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bayes_tacit.cli.common import AnySeed, AsJson, Data, Force, new_file, read_episodes, read_training, show, told


def example(
    out: Annotated[Path, typer.Argument(help="Where to write it: .jsonl, .parquet, .nc or .zarr.", show_default=False)],
    force: Force = False,
    as_json: AsJson = False,
    _seed: AnySeed = 0,
) -> None:
    """Write the example set, to try things on.

    Example: `bayes-tacit example episodes.jsonl`
    """
    from bayes_tacit.data.episodes import load_example

    episodes = load_example()
    episodes.write(new_file(out, force=force))
    facts = {"written": str(out), "episodes": len(episodes)}
    show(f"{len(episodes)} episodes written to {out}", facts, as_json=as_json, then=("fit", out, "--out fit.json"))


def validate(data: Data, as_json: AsJson = False, _seed: AnySeed = 0) -> None:
    """Check episodes, and say what is unusual about them.

    Example: `bayes-tacit validate episodes.jsonl`
    """
    with told() as notes:
        episodes = read_training(data)
    content = {"valid": True, "episodes": len(episodes), "notes": notes}
    text = f"{data}: {len(episodes)} valid episodes, {len(notes)} notes"
    show(text, content, as_json=as_json, then=("fit", data, "--out fit.json"))


def summary(data: Data, as_json: AsJson = False, _seed: AnySeed = 0) -> None:
    """Count and describe episodes: outcomes, windows, features, diagnostics.

    Example: `bayes-tacit summary episodes.jsonl`
    """
    with told():
        found = read_episodes(data).summary()
    show(str(found), asdict(found), as_json=as_json, then=("fit", data, "--out fit.json"))
