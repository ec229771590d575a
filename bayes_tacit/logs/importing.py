"""Two logs in, episodes out: read, pair, write."""

from __future__ import annotations

import csv
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import as_path, atomic_path, regular_file
from bayes_tacit.logs.extractor import FLAGS, LONGEST_MESSAGE, UNCERTAINTY
from bayes_tacit.logs.parallel import Placed, can_be_shared, rows_in_parallel
from bayes_tacit.logs.readers import gateway
from bayes_tacit.logs.reading import read_on, read_rollouts
from bayes_tacit.logs.report import ImportReport, Sides
from bayes_tacit.logs.results import read_results
from bayes_tacit.logs.rollout import Reading, Row, row_of
from bayes_tacit.logs.store import CHEAP, SIDES, STRONG, Store
from bayes_tacit.logs.writing import OWN_NAMES, Columns, Plan, write_episodes
from bayes_tacit.processes import tied_pool

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from bayes_tacit.data.episodes import Episodes

Trials = Literal["refuse", "number"]
"""What to do about a task that comes several times in a log that numbers no trials."""

Progress = Callable[[str, int], None]
"""Called with a side, "cheap" or "strong", and the bytes that were read since the last call."""


MOST_WORKERS = 1000
"""Processes; a number beyond it is a slip of the pen."""


def import_logs(
    cheap: str | os.PathLike[str],
    strong: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  the word of the command line
    threshold: float = 1.0,
    trials: Trials = "refuse",
    tasks: str | os.PathLike[str] | None = None,
    cheap_results: str | os.PathLike[str] | None = None,
    strong_results: str | os.PathLike[str] | None = None,
    diagnostics: Sequence[str] | None = None,
    longest: int = LONGEST_MESSAGE,
    workers: int = 1,
    progress: Progress | None = None,
) -> ImportReport:
    """Read the logs of two agents on the same tasks, pair them by task, and write the episodes.

    Rollouts are read one at a time and wait on disk until they are paired: memory does not grow with the log. Several
    trials of a task are kept as episodes of their own, the k-th of Cheap with the k-th of Strong; nothing is averaged.
    They are called `task#1`, `task#2` and so on, and carry `task` and `trial`, to be split by task.

    Parameters
    ----------
    cheap, strong
        A file, or a folder of files. Without Strong's, both are in the first: a gateway's log has sessions of either.
    out
        The episodes: `.jsonl`, written line by line; for `.parquet`, `.nc` and `.zarr` they have to fit in memory.
    format
        Name of a reader, or "auto": what the first document looks like, the same for both logs.
    threshold
        The least score that is a success, where the log has scores.
    trials
        Whether a task that comes twice without a trial is refused, or its rollouts are numbered in order.
    tasks
        A CSV with a column `task`: of the others, numbers are features and texts are carried along.
    cheap_results, strong_results
        Outcomes by task, for logs that do not have them: a CSV with `task` and `success` or `score`, or a report of
        SWE-bench (JSON with `resolved_ids`).
    diagnostics
        Those to keep; by default all that the logs give.
    longest
        Most characters of one message.
    workers
        Processes that read a large log of the generic format. With more than one, a script that calls this needs
        `if __name__ == "__main__":`, as for all that starts processes.
    progress
        Called as bytes are read.

    Returns
    -------
    ImportReport
        What was paired and what was not, and what each diagnostic looks like.

    Raises
    ------
    InvalidDataError, FileFormatError, MissingFileError
        With file and line; then nothing is written.
    """
    target = as_path(out)
    validate.choice("suffix of the output", target.suffix.lower(), (".jsonl", ".parquet", ".nc", ".zarr"))
    validate.choice("trials", trials, ("refuse", "number"))
    validate.whole("workers", workers, 1, MOST_WORKERS)
    reading = Reading(validate.number("threshold", threshold), validate.whole("longest", longest, 1))
    for name in diagnostics or ():
        validate.choice("diagnostics", name, (*FLAGS, UNCERTAINTY))
    if diagnostics is not None:
        validate.names("diagnostics", list(diagnostics))
    columns = {} if tasks is None else _read_columns(as_path(tasks))
    results = [None if given is None else read_results(as_path(given)) for given in (cheap_results, strong_results)]
    models: list[Counter[str]] = [Counter(), Counter()]
    formats: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayes-tacit-")))
        store = stack.enter_context(closing(Store(folder / "rollouts.sqlite")))
        pool = cache(lambda: stack.enter_context(tied_pool(workers)))
        places = (as_path(cheap), as_path(cheap if strong is None else strong))
        for side, log in zip((CHEAP, STRONG), places, strict=True):
            told = None if progress is None else _told(progress, SIDES[side])
            how = replace(reading, diagnose=side == CHEAP)
            used, rows = _read(log, format, how, results[side], side, workers, pool, told)
            if strong is None and used != gateway.NAME:
                raise InvalidDataError("Strong's log too: only a gateway's log has both", field="strong", value=None)
            formats.append(used)
            store.add(side, _counted(rows, models[side]))
        store.pair(number_trials=trials == "number")
        _refuse_nothing(store)
        plan = Plan.of(store, diagnostics, columns)
        if target.suffix.lower() == ".jsonl":
            with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
                tally = write_episodes(store, plan, file)
        else:
            lines = folder / "episodes.jsonl"
            with lines.open("w", encoding="utf-8", newline="\n") as file:
                tally = write_episodes(store, plan, file)
            _episodes(lines).write(target)
        report = ImportReport.of(store, plan, tally, Sides(*formats), models)
    logs = [log for log, used in zip(dict.fromkeys(places), formats, strict=False) if used == gateway.NAME]
    said = [note for log in logs for note in gateway.notes(log)]
    return replace(report, notes=(*report.notes, *said)) if said else report


def episodes_from_logs(
    cheap: str | os.PathLike[str], strong: str | os.PathLike[str] | None = None, **options: object
) -> tuple[Episodes, ImportReport]:
    """Read and pair two logs as `import_logs` does, and give the episodes in memory, with the report."""
    with tempfile.TemporaryDirectory(prefix="bayes-tacit-") as folder:
        file = Path(folder) / "episodes.jsonl"
        report = import_logs(cheap, strong, file, **options)  # type: ignore[arg-type]
        return _episodes(file), report


def _episodes(file: Path) -> Episodes:
    from bayes_tacit.data.episodes import Episodes

    return Episodes.read(file)


def _told(progress: Progress, side: str) -> Callable[[int], None]:
    return lambda size: progress(side, size)


def _read(
    log: Path,
    format: str,  # noqa: A002  the word of the command line
    reading: Reading,
    results: Mapping[str, bool] | None,
    side: int,
    workers: int,
    pool: Callable[[], ProcessPoolExecutor],
    told: Callable[[int], None] | None,
) -> tuple[str, Iterator[Placed]]:
    """Give the name of a log's format, and what is kept of its rollouts."""
    used, rollouts = read_rollouts(log, format, told)
    if results is not None:
        return used, _rows((_judged(place, one, results, side) for place, one in rollouts), reading, side)
    if workers == 1 or not can_be_shared(log, used):
        return used, _rows(rollouts, reading, side)

    def alone(start: int, before: int) -> Iterator[Placed]:
        return _rows(read_on(log, used, start, before), reading, side)

    return used, rows_in_parallel(log, reading, pool(), workers, alone, told)


def _rows(rollouts: Iterable[tuple[str, Mapping[str, object]]], reading: Reading, side: int) -> Iterator[Placed]:
    for place, rollout in rollouts:
        if rollout.get("side", SIDES[side]) != SIDES[side]:
            continue  # of a log that has rollouts of both
        try:
            yield row_of(rollout, reading), place
        except InvalidDataError as error:
            where = ", ".join(part for part in (place, error.where) if part)
            raise InvalidDataError(
                error.expected, episode=error.episode, field=error.field, value=error.value, where=where
            ) from None


def _counted(rows: Iterator[Placed], models: Counter[str]) -> Iterator[Placed]:
    """Count who played, and see to it that all rollouts have the same features."""
    names: KeysView[str] | None = None
    for row, place in rows:
        if row[9] is not None or names is not None:
            names = _same_features(row, names, place, first=not models)
        models[row[2] or ""] += 1
        yield row, place


def _same_features(row: Row, names: KeysView[str] | None, place: str, *, first: bool) -> KeysView[str]:
    """Refuse features that not every rollout has, or whose names are taken."""
    features = row[9] or {}
    if first:
        _check_names(features, "features", place)
    wanted: Set[str] = features.keys() if first else names or set()
    if features.keys() != wanted:
        expected = f"the features of the first rollout: {', '.join(wanted) or 'none'}"
        raise InvalidDataError(expected, episode=row[0], field="features", value=list(features), where=place)
    return features.keys()


def _check_names(names: Iterable[str], field: str, place: str) -> None:
    from bayes_tacit.data.layout import check_name

    for name in names:
        check_name(name, f"name in {field}", where=place)
        if name in OWN_NAMES:
            expected = f"a name other than those that an import gives: {', '.join(OWN_NAMES)}"
            raise InvalidDataError(expected, field=f"name in {field}", value=name, where=place)


def _judged(
    place: str, rollout: Mapping[str, object], results: Mapping[str, bool], side: int
) -> tuple[str, Mapping[str, object]]:
    task = str(rollout.get("task"))
    if task not in results:
        expected = f"a task of --{SIDES[side]}-results"
        raise InvalidDataError(expected, episode=task, field="task", value=task, where=place)
    return place, {**rollout, "success": results[task]}


def _refuse_nothing(store: Store) -> None:
    if store.count("SELECT count(*) FROM pair"):
        return
    (cheap, _), (strong, _) = store.unpaired(CHEAP), store.unpaired(STRONG)
    examples = [store.unpaired(side)[1] for side in (CHEAP, STRONG)]
    raise InvalidDataError(
        f"tasks that are in both logs; Cheap has {cheap} such as {examples[0][:2]}, Strong {strong} such as "
        f"{examples[1][:2]}",
        field="paired tasks",
        value=0,
    )


def _read_columns(path: Path) -> Columns:
    """Read a table of tasks: a column of numbers is numbers, any other is texts."""
    regular_file(path, "a table of tasks")
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            table = csv.DictReader(handle, strict=True)
            names = [name for name in table.fieldnames or () if name not in ("task", "task_id")]
            key = next((name for name in ("task", "task_id") if name in (table.fieldnames or ())), None)
            if key is None or not names:
                raise FileFormatError(f"{path}: columns are {table.fieldnames}; expected task and at least one more")
            _check_names(names, "columns", str(path))
            rows: dict[str, dict[str, str]] = {}
            for row in table:
                where = f"{path}:{table.line_num}"
                if None in row or None in row.values():
                    raise InvalidDataError("as many values as columns", field="row", value=row.get(key), where=where)
                if row[key] in rows:
                    raise InvalidDataError("each task once", field="task", value=row[key], where=where)
                rows[row[key]] = {name: row[name] for name in names}
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV in UTF-8 ({error}); expected a table of tasks") from None
    if not rows:
        raise FileFormatError(f"{path}: no rows; expected a table of tasks")
    numeric = [name for name in names if all(_is_number(row[name]) for row in rows.values())]
    for name in names:
        # A column of numbers with one that is none would pass for texts, and its numbers would be lost.
        for task, row in rows.items():
            if name not in numeric and _is_no_number(row[name]):
                raise InvalidDataError("a finite number", episode=task, field=name, value=row[name], where=str(path))
    return {
        task: {name: float(text) if name in numeric else text for name, text in row.items()}
        for task, row in rows.items()
    }


def _is_no_number(text: str) -> bool:
    """Tell whether a text is how a number is written that is not finite."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
