"""Rollouts on disk until they are paired, so that memory stays the same however many there are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.rollout import Row

CHEAP, STRONG = 0, 1
SIDES = ("cheap", "strong")

_COLUMNS = (
    "task",
    "trial",
    "success",
    "score",
    "flags",
    "nll",
    "prompt_length",
    "n_tools",
    "features",
    "input_tokens",
    "output_tokens",
    "cost",
    "step_input_tokens",
    "step_output_tokens",
    "step_cost",
    "place",
)
_BATCH = 500
_SHOWN = 5


class Store:
    """A database of rollouts in a temporary file of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        # It is thrown away in the end: nothing has to survive a crash.
        for setting in ("journal_mode = OFF", "synchronous = OFF", "temp_store = FILE", "cache_size = -32000"):
            self._connection.execute(f"PRAGMA {setting}")
        for side in SIDES:
            self._connection.execute(f"CREATE TABLE {side} (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})")

    def add(self, side: int, rows: Iterable[tuple[Row, str]]) -> None:
        """Put rollouts of one side in, in their order."""
        marks = ", ".join("?" * len(_COLUMNS))
        statement = f"INSERT INTO {SIDES[side]} ({', '.join(_COLUMNS)}) VALUES ({marks})"
        batch: list[tuple[Any, ...]] = []
        for row, place in rows:
            features = None if row[9] is None else json.dumps(row[9])
            batch.append((row[0], row[1], *row[3:9], features, *row[10:], place))
            if len(batch) >= _BATCH:
                self._connection.executemany(statement, batch)
                batch.clear()
        self._connection.executemany(statement, batch)
        self._connection.commit()

    def pair(self, *, number_trials: bool) -> None:
        """Find which rollouts belong together: the k-th of a task with the k-th of the same task.

        Raises
        ------
        InvalidDataError
            If a task comes twice on one side and nothing tells its trials apart, unless they are to be numbered.
        """
        for side in SIDES:
            self._connection.execute(f"CREATE INDEX {side}_task ON {side} (task, trial)")
            self._refuse_repeats(side, number_trials)
        ranked = (
            "SELECT id, task, row_number() OVER (PARTITION BY task ORDER BY trial IS NULL, length(trial), trial, id) "
            "AS rank FROM {}"
        )
        self._connection.execute(
            f"CREATE TABLE pair AS SELECT c.id AS cheap, s.id AS strong, c.rank AS rank "
            f"FROM ({ranked.format('cheap')}) c JOIN ({ranked.format('strong')}) s "
            "ON c.task = s.task AND c.rank = s.rank ORDER BY c.id"
        )

    def _refuse_repeats(self, side: str, number_trials: bool) -> None:
        keep = "AND trial IS NOT NULL" if number_trials else ""
        found = self._connection.execute(
            f"SELECT task, trial, min(id), max(id) FROM {side} WHERE true {keep} "
            "GROUP BY task, trial HAVING count(*) > 1 LIMIT 1"
        ).fetchone()
        if found is None:
            return
        task, trial, first, last = found
        places = [
            self._connection.execute(f"SELECT place FROM {side} WHERE id = ?", (at,)).fetchone()[0]
            for at in (first, last)
        ]
        if trial is None:
            expected = "each task once in a log, or a trial beside it (or --trials number, to number them in order)"
        else:
            expected = "each trial of a task once"
        value = task if trial is None else f"{task}, trial {trial}"
        raise InvalidDataError(expected, episode=task, field="task", value=value, where=" and ".join(places))

    def count(self, query: str) -> Any:  # noqa: ANN401  one value
        """Give the one value that a query has."""
        return self._connection.execute(query).fetchone()[0]

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Give the rows of a query, one at a time."""
        yield from self._connection.execute(query)

    def unpaired(self, side: int) -> tuple[int, list[str]]:
        """Give how many rollouts of a side have no partner, and the tasks of the first few."""
        name = SIDES[side]
        missing = f"FROM {name} WHERE id NOT IN (SELECT {name} FROM pair)"
        few = self._connection.execute(f"SELECT task {missing} ORDER BY id LIMIT {_SHOWN}").fetchall()
        return self.count(f"SELECT count(*) {missing}"), [task for (task,) in few]

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()
