"""Writing a study's results: table, page and figures, each file whole or not at all."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from simulations.studies.storage import Identity
from simulations.studies.study import Study
from simulations.studies.table_file import TABLE, write_table

PAGE = "README.md"


def write_results(study: Study, table: pd.DataFrame, folder: Path, *, replicates: int, seed: int) -> None:
    """Write everything aside, then put it into the folder, the page last."""
    identity = Identity.of(study, seed)
    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as aside:
        temporary = Path(aside)
        body = study.summarize(table, temporary)
        write_table(table, asdict(identity), temporary / TABLE)
        command = f"python -m simulations {study.name}{study.arguments} --replicates {replicates} --seed {seed}"
        made = (
            f"Made by `{command}` with bayes_tacit {identity.version}; with `--fresh`, every replicate is computed "
            f"again instead of taken from [{TABLE}]({TABLE}), which has one or more rows for each."
        )
        page = "\n\n".join([f"# {study.title}", study.description, body.strip(), made])
        (temporary / PAGE).write_text(page + "\n", encoding="utf-8")
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == PAGE):
            path.replace(folder / path.name)
