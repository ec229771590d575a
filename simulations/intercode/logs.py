"""InterCode's logs of two language models on SQL tasks: questions, rollouts, and how they are marked."""

from __future__ import annotations

import csv
import json
import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bayes_tacit import Episodes
from bayes_tacit.errors import FileFormatError, MissingFileError, TacitWarning
from bayes_tacit.logs import episodes_from_logs

TURNS = 2
"""Turns on end without anything gained that make a handoff due."""


def marked(episodes: Episodes, turns: int = TURNS) -> Episodes:
    """Mark episodes with AB = 01 where every one of the last turns showed a sign of trouble.

    A turn shows one where any diagnostic is above 0. The window is the first run of such checkpoints at which a handoff
    can still come; where there is none the episode stays without a mark.
    """
    dataset = episodes.dataset
    trouble = np.nan_to_num(dataset["diagnostics"].values).max(axis=2) > 0
    start = np.full(len(episodes), np.nan)
    end = start.copy()
    for row in np.flatnonzero(episodes.outcomes == "01"):
        due = [all(trouble[row, max(0, t - turns + 1) : t + 1]) for t in range(int(episodes.n_steps[row]) - 1)]
        due[: turns - 1] = [False] * min(turns - 1, len(due))
        if True in due:
            start[row] = first = due.index(True)
            end[row] = due.index(False, first) - 1 if False in due[first:] else len(due) - 1
    return Episodes(dataset.assign(window_start=("episode", start), window_end=("episode", end)))


def unmarked(episodes: Episodes) -> Episodes:
    """Return the same episodes without their marks."""
    blank = ("episode", np.full(len(episodes), np.nan))
    return Episodes(episodes.dataset.assign(window_start=blank, window_end=blank))


CUES: Mapping[str, str] = {
    "literals": r"\d+|'[^']+'|\"[^\"]+\"",
    "aggregates": r"\b(how many|number of|average|mean|total|sum|maximum|minimum|count)\b",
    "superlatives": r"\b(most|least|top|first|last|\w{2,}est)\b",
    "comparisons": r"\b(more|less|fewer|greater|higher|lower|older|younger|larger|before|after|between|above|below)\b",
    "negations": r"\b(not|no|never|without|except|neither|nor)\b|n't\b",
    "conjunctions": r"\b(and|or|both|each|every|all)\b",
}
"""Patterns that are counted in a question, by the name of the feature."""


def features_of(question: str) -> dict[str, int]:
    """Count the cues of a question; nothing of its answer is in them.

    Examples
    --------
    >>> features_of("How many students are older than 20 and have no pet?")["literals"]
    1
    """
    text = question.lower()
    return {name: len(re.findall(pattern, text)) for name, pattern in CUES.items()}


CHEAP, STRONG, DATABASES = "sql_gpt-3.5.json", "sql_gpt-4.json", "databases.csv"
DATABASE = "database"


@dataclass(frozen=True)
class Source:
    """Where the logs are."""

    folder: Path  # The folder
    # cheap, strong: Names of the two files in it.
    cheap: str = CHEAP
    strong: str = STRONG

    @property
    def has_databases(self) -> bool:
        """Return whether the database of each task is known."""
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
        episodes, _ = episodes_from_logs(*logs, format="intercode", tasks=tasks, words=False)
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
