"""`python -m simulations intercode --data FOLDER`, and intercode_databases: compute what is missing, write results."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bayes_tacit.errors import InvalidDataError
from simulations.intercode import few_shot
from simulations.intercode.logs import CHEAP, STRONG, Source
from simulations.intercode.study import study_of
from simulations.studies.run import RESULTS, run_study

STUDIES = {"intercode": study_of, few_shot.NAME: few_shot.study_of}


def run(
    name: str,
    data: Path | None,
    folder: Path | None,
    *,
    cheap: str | None,
    strong: str | None,
    replicates: int | None,
    seed: int | None,
    only: list[str],
    jobs: int,
    fresh: bool,
    console: Console,
) -> None:
    """Run the study on logs that are read where they are."""
    if data is None:
        raise InvalidDataError("the folder of InterCode's results", field="--data", value=None)
    source = Source(data, cheap or CHEAP, strong or STRONG)
    out = folder or RESULTS / name
    study = STUDIES[name](source)
    written = run_study(
        study, out, replicates=replicates, seed=seed, only=only, jobs=jobs, fresh=fresh, console=console
    )
    said = "results in" if written else "tables and figures are written once all settings are there; kept in"
    console.print(f"{name}: {said} {out}")
