"""The logs, read where they are: two files of results, and if there is one the database of each task."""

from __future__ import annotations

import csv
import json
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bayes_tacit import Episodes
from bayes_tacit.errors import FileFormatError, MissingFileError, TacitWarning
from bayes_tacit.logs import episodes_from_logs
from simulations.intercode.marks import marked
from simulations.intercode.questions import features_of

CHEAP, STRONG, DATABASES = "sql_gpt-3.5.json", "sql_gpt-4.json", "databases.csv"
DATABASE = "database"


@dataclass(frozen=True)
class Source:
    """Where the logs are.

    Attributes
    ----------
    folder
        The folder.
    cheap, strong
        Names of the two files in it.
    """

    folder: Path
    cheap: str = CHEAP
    strong: str = STRONG

    @property
    def has_databases(self) -> bool:
        """Tell whether the database of each task is known."""
        return (self.folder / DATABASES).is_file()


@cache
def load(source: Source) -> Episodes:
    """Read, pair and mark the logs, once in a process.

    Features come from the question's words. What is in the log besides, such as a task's hardness, which comes from the
    reference query, is not looked at: a router that is running does not see it.
    """
    for name in (source.cheap, source.strong):
        if not (source.folder / name).is_file():
            raise MissingFileError(f"{source.folder / name}: no such file; expected results of InterCode")
    with tempfile.TemporaryDirectory(prefix="intercode-") as folder, warnings.catch_warnings():
        # Constant diagnostics and missing marks are told by the importer's report, and settled below.
        warnings.simplefilter("ignore", TacitWarning)
        tasks = Path(folder) / "tasks.csv"
        _write_tasks(source, tasks)
        logs = source.folder / source.cheap, source.folder / source.strong
        episodes, _ = episodes_from_logs(*logs, format="intercode", tasks=tasks)
        return marked(_with_varying_diagnostics(episodes))


def _write_tasks(source: Source, path: Path) -> None:
    """Write what is known of each task before it begins, as the importer takes it."""
    results = json.loads((source.folder / source.cheap).read_bytes())
    databases = {}
    if source.has_databases:
        with (source.folder / DATABASES).open(encoding="utf-8", newline="") as file:
            databases = {row["task_id"]: row["database"] for row in csv.DictReader(file)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = None
        for key, record in results.items():
            task = str(record.get("task_id", key))
            row: dict[str, object] = {"task": task, **features_of(record["query"])}
            if databases:
                if task not in databases:
                    raise FileFormatError(f"{source.folder / DATABASES}: has no task {task}; expected all of the logs")
                row[DATABASE] = databases[task]
            writer = writer or csv.DictWriter(file, list(row))
            if not file.tell():
                writer.writeheader()
            writer.writerow(row)


def _with_varying_diagnostics(episodes: Episodes) -> Episodes:
    """Leave out diagnostics that are the same at every step, from which nothing can be learned."""
    values = episodes.dataset["diagnostics"].values
    varies = np.nanmax(values, axis=(0, 1)) > np.nanmin(values, axis=(0, 1))
    return Episodes(episodes.dataset.isel(diagnostic=np.flatnonzero(varies)))
