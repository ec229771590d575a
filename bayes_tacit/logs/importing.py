"""Two logs in, episodes out: read in their formats, paired by task, written."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError
from bayes_tacit.files import as_path, atomic_path, parse_json, regular_file
from bayes_tacit.logs.documents import LINES, Document, ImportFormat, Progress, lines_of, read_table
from bayes_tacit.logs.extractor import FLAGS, LONGEST_MESSAGE, UNCERTAINTY
from bayes_tacit.logs.formats import FORMATS, is_plain, left_out_of_gateway, missing_of
from bayes_tacit.logs.pairing import (
    CHEAP,
    OWN_NAMES,
    SIDES,
    STRONG,
    Columns,
    ImportReport,
    Plan,
    Store,
    UnpairedLogs,
    Words,
    learn_words,
    write_episodes,
)
from bayes_tacit.logs.reader import DIAGNOSTICS as READ
from bayes_tacit.logs.rollout import Reading, Rollout, Row, row_of
from bayes_tacit.processes import submit, tied_pool

if TYPE_CHECKING:
    from bayes_tacit.data.costs import Price
    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.logs.reader import Reader

SMALLEST = 32 << 20
"""Bytes of a log below which one process is as fast."""

PORTION = 4 << 20
"""Bytes that a process takes at a time."""

Placed = tuple[Row, str]
"""What is kept of a rollout, and its file and line."""

_GENERIC, _GATEWAY = "openai", "gateway"
_SUCCESS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def import_logs(
    cheap: str | os.PathLike[str],
    strong: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  the word of the command line
    threshold: float = 1.0,
    trials: Literal["refuse", "number"] = "refuse",
    unpaired: UnpairedLogs = "auto",
    tasks: str | os.PathLike[str] | None = None,
    cheap_results: str | os.PathLike[str] | None = None,
    strong_results: str | os.PathLike[str] | None = None,
    cheap_model: str | None = None,
    strong_model: str | None = None,
    diagnostics: Sequence[str] | None = None,
    signals: Sequence[str] = (),
    action: str | None = None,
    longest: int = LONGEST_MESSAGE,
    words: bool = True,
    reader: Reader | None = None,
    group: str | None = None,
    seed: int = 0,
    prices: tuple[Price, Price] | None = None,
    skip_broken: bool = False,
    workers: int = 1,
    progress: Callable[[str, int], None] | None = None,
) -> ImportReport:
    """Read the logs of two agents on the same tasks, pair them by task, and write the episodes.

    Rollouts are read one at a time and wait on disk until they are paired: memory does not grow with the log. Several
    trials of a task are kept as episodes of their own, the k-th of Cheap with the k-th of Strong; nothing is averaged.
    They are called `task#1`, `task#2` and so on, and carry `task` and `trial`, to be split by task.

    Parameters
    ----------
    cheap, strong
        A file, or a folder of files. Without Strong's, both are in the first: a gateway's log has sessions of either,
        and `cheap_model` and `strong_model` say whose rollouts are whose in any other.
    out
        The episodes: `.jsonl`, written line by line; for `.parquet`, `.nc` and `.zarr` they have to fit in memory.
    format
        Name of a format, or "auto": what the first document looks like, the same for both logs.
    threshold
        The least score that is a success, where the log has scores.
    trials
        Whether a task that comes twice without a trial is refused, or its rollouts are numbered in order.
    unpaired
        Whether rollouts without a partner are kept as tasks that one side played ("keep"), left out ("drop"), or kept
        if there are more of them than pairs ("auto").
    tasks
        A CSV with a column `task`: of the others, numbers are features and texts are carried along.
    cheap_results, strong_results
        Outcomes by task, for logs that do not have them: a CSV with `task` and `success` (true or false, 1 or 0), or a
        report of SWE-bench (JSON with `resolved_ids`).
    cheap_model, strong_model
        Only rollouts of this `model`, in a log of several.
    diagnostics
        Those to keep; by default all that the logs give.
    signals
        Own diagnostics beside them: keys that each turn of Cheap's has beside its content, with a number >= 0; or
        functions as `module:name`, which get the messages up to the end of a step and return such a number.
    action
        A regular expression for how a text-only agent writes its actions (its group `action`, or else its first group
        or all of it), where tags, "Action:" and fences are not what it uses.
    longest
        Most characters of one message.
    words
        Whether to learn a reader from the words of the conversations, where there are enough tasks: it gives more
        diagnostics and features, each task read by one that did not see its outcome, and goes along in the file.
    reader
        Reads the words in place of one that is learned: that of a router, on tasks that it did not see.
    group
        A column of `tasks`: tasks that are alike are left out together while the reader is learned. By default each
        task is alone.
    seed
        Draws which tasks are left out together.
    prices
        What Cheap's and Strong's tokens cost: then `step_cost`, `cheap_cost` and `strong_cost` come of the usage in the
        log, or where it has none of an estimate from the letters.
    skip_broken
        Whether a record that is wrong is left out, and told in the report, in place of refusing the log.
    workers
        Processes that read a large log of the generic format. With more than one, a script that calls this needs
        `if __name__ == "__main__":`, as for all that starts processes.
    progress
        Called with a side, "cheap" or "strong", and the bytes that were read since the last call.

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
    validate.choice("unpaired", unpaired, get_args(UnpairedLogs))
    validate.whole("workers", workers, 1, 1000)  # more is a slip of the pen
    threshold, longest = validate.number("threshold", threshold), validate.whole("longest", longest, 1)
    reading = Reading(threshold, longest, signals=tuple(signals), action=action)
    _check_signals(reading)
    for name in validate.names("diagnostics", list(diagnostics or ())):
        validate.choice("diagnostics", name, (*FLAGS, UNCERTAINTY, *(READ if words else ())))
    columns = {} if tasks is None else _read_columns(as_path(tasks))
    if group is not None:
        validate.choice("group", group, tuple(next(iter(columns.values()), {})))
    results = [None if path is None else _read_results(as_path(path)) for path in (cheap_results, strong_results)]
    formats: list[str] = []
    broken: list[str] | None = [] if skip_broken else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayes-tacit-")))
        store = stack.enter_context(closing(Store(folder / "rollouts.sqlite")))
        pool = cache(lambda: stack.enter_context(tied_pool(workers)))
        logs, models = (as_path(cheap), as_path(cheap if strong is None else strong)), (cheap_model, strong_model)
        for side, log in zip((CHEAP, STRONG), logs, strict=True):
            read = None if progress is None else partial(progress, SIDES[side])
            used, rollouts = found_rollouts(log, format, read, skip=skip_broken)
            # Where something is wrong, the log is closed at once, and not whenever the error is forgotten.
            stack.enter_context(closing(rollouts))  # type: ignore[type-var]
            if strong is None and used != _GATEWAY and None in models:
                raise _one_log(log, format)
            how = replace(reading, diagnose=side == CHEAP, words=words, model=models[side])
            if prices is not None:
                how = replace(how, price=prices[side])
            if results[side] is None and workers > 1 and _can_be_shared(log, used):
                rows = _rows_in_parallel(log, how, side, pool(), workers, read, broken)
            else:
                rows = _rows(rollouts, how, side, results[side], broken)
            formats.append(used)
            store.add(side, _with_same_features(rows))
        store.pair(number_trials=trials == "number", unpaired=unpaired)
        plan = Plan.of(store, diagnostics, columns)
        notes: list[str] = []
        found: Words | None = None
        if words:
            notes, found = learn_words(store, plan, group, seed) if reader is None else ([], Words(reader, {}))
        lines = folder / "episodes.jsonl"
        with lines.open("w", encoding="utf-8", newline="\n") as file:
            tally = write_episodes(store, plan, file, found)
        if target.suffix.lower() == ".jsonl":
            with atomic_path(target) as temporary:
                shutil.copyfile(lines, temporary)
        else:
            _episodes(lines).write(target)
        if broken:
            few = "; ".join(broken[:3]) + ("; ..." if len(broken) > 3 else "")
            notes.append(f"{len(broken)} broken record{'s were' if len(broken) > 1 else ' was'} skipped: {few}")
        for log, used in dict(zip(logs, formats, strict=True)).items():
            notes += left_out_of_gateway(log) if used == _GATEWAY else ()
        return ImportReport.of(store, plan, tally, formats, notes)


def _check_signals(reading: Reading) -> None:
    """Refuse signals whose names are taken or that cannot be imported, and a pattern that is none."""
    names = [name.rpartition(":")[2] for name in reading.signals]
    _check_names(validate.names("--signal", names), "--signal", "--signal")
    for name in reading.signals:
        if ":" in name:
            validate.imported("--signal", name)
    _ = reading.pattern


def _one_log(log: Path, form: str) -> InvalidDataError:
    """Say what is missing where Strong's log is: the log itself, or whose rollouts are whose."""
    models = Counter(str(rollout.get("model")) for _, rollout in read_rollouts(log, form)[1])
    known = ", ".join(f"{name!r} ({count})" for name, count in models.most_common(5))
    if len(models) > 1:
        expected = f"--cheap-model and --strong-model: the log has rollouts of {known}"
    else:
        expected = "Strong's log too: only a gateway's log has both, or one of several models"
    return InvalidDataError(expected, field="strong", value=None)


def episodes_from_logs(
    cheap: str | os.PathLike[str], strong: str | os.PathLike[str] | None = None, **options: object
) -> tuple[Episodes, ImportReport]:
    """Read and pair two logs as `import_logs` does, and return the episodes in memory, with the report."""
    with tempfile.TemporaryDirectory(prefix="bayes-tacit-") as folder:
        file = Path(folder) / "episodes.jsonl"
        report = import_logs(cheap, strong, file, **options)  # type: ignore[arg-type]
        return _episodes(file), report


def _episodes(file: Path) -> Episodes:
    from bayes_tacit.data.episodes import Episodes

    return Episodes.read(file)


# A log in any format, one rollout after the other.


def read_rollouts(
    path: Path,
    format: str = "auto",  # noqa: A002  the word of the command line
    progress: Progress | None = None,
) -> tuple[str, Iterator[tuple[str, Rollout]]]:
    """Return the name of the format, and an iterator over each rollout with its place.

    An iterator that meets a rollout that is wrong raises what is wrong with it.

    Parameters
    ----------
    path
        A file, or a folder of files.
    format
        Name of a format, or "auto": the one that the first document is of.
    progress
        Called with the bytes that were read since the last call.
    """

    def sound(found: Iterator[tuple[str, Rollout | TacitError]]) -> Iterator[tuple[str, Rollout]]:
        for place, rollout in found:
            if isinstance(rollout, TacitError):
                raise rollout
            yield place, rollout

    used, found = found_rollouts(path, format, progress)
    return used, sound(found)


def found_rollouts(
    path: Path,
    format: str,  # noqa: A002  the word of the command line
    progress: Progress | None,
    *,
    skip: bool = False,
) -> tuple[str, Iterator[tuple[str, Rollout | TacitError]]]:
    """Do what `read_rollouts` does, but with an error in place of a rollout that is wrong."""
    validate.choice("format", format, ("auto", *FORMATS))
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder; expected a log")
    if format != "auto":
        return format, _rollouts(FORMATS[format], FORMATS[format].read(path, progress))
    # In a folder, the names of files say which formats it may be. A file is JSON of any, unless one reads it otherwise.
    folder = path.is_dir()
    candidates = [
        one
        for one in FORMATS.values()
        if (
            next(path.rglob(one.pattern), None) is not None
            if folder
            else one.documents is not None and path.match(one.pattern) and one.opens(path)
        )
    ]
    first = None
    for candidate in candidates or [FORMATS[_GENERIC]]:
        found = candidate.read(path, progress)
        first = next((one for one in found if not skip or not isinstance(one.content, TacitError)), None)
        if first is not None and isinstance(first.content, TacitError):
            raise first.content
        for one in [candidate] if folder else FORMATS.values():
            if first is not None and one.recognizes(first.content):
                return one.name, _rollouts(one, chain([first], found))
    if first is None:
        raise FileFormatError(f"{path}: no log that is known in it; expected one of the formats {', '.join(FORMATS)}")
    raise FileFormatError(
        f"{first.place}: {missing_of(first.content)}; expected one of the formats {', '.join(FORMATS)}, such as an "
        "object with task, success and messages on each line"
    )


def _rollouts(used: ImportFormat, found: Iterator[Document]) -> Iterator[tuple[str, Rollout | TacitError]]:
    empty = True
    for document in found:
        place = document.place
        if isinstance(document.content, TacitError):
            yield place, document.content
            continue
        if not used.recognizes(document.content):
            yield place, FileFormatError(f"{place}: not of the format {used.name}{_but(document.content, used)}")
            continue
        try:
            for inside, rollout in used.rollouts(document):
                if isinstance(rollout, InvalidDataError):
                    yield place, _at(rollout, rollout.where or place)
                    continue
                yield f"{place}, {inside}" if inside else place, rollout
                empty = False
        except InvalidDataError as error:
            yield place, _at(error, error.where or place)
    if empty:
        more = (
            "" if used.name != _GATEWAY else ", explored or of a router that always chooses one side, with an outcome"
        )
        raise FileFormatError(f"no rollout in the log; expected at least one of the format {used.name}{more}")


def _but(content: object, used: ImportFormat) -> str:
    """Return what a document is instead, as the end of a sentence."""
    if not isinstance(content, dict | list):
        return f"; it is {str(content)[:40]!r}, expected an object"
    other = next((one.name for one in FORMATS.values() if one.recognizes(content)), None)
    if other is not None:
        return f" as what came before, but {other}: expected one format in a log"
    return f"; {missing_of(content)}" if used.name == _GENERIC else ""


def _at(error: InvalidDataError, where: str) -> InvalidDataError:
    return InvalidDataError(error.expected, episode=error.episode, field=error.field, value=error.value, where=where)


def _rows(
    rollouts: Iterable[tuple[str, Rollout | TacitError]],
    reading: Reading,
    side: int,
    results: Mapping[str, bool] | None = None,
    broken: list[str] | None = None,
) -> Iterator[Placed]:
    """Yield what is kept of the rollouts of a side, with outcomes from elsewhere where there are any.

    What is wrong is raised, or with a list of what is `broken` put there.
    """
    for place, rollout in rollouts:
        if isinstance(rollout, TacitError):
            if broken is None:
                raise rollout
            broken.append(str(rollout))
            continue
        if rollout.get("side", SIDES[side]) != SIDES[side] or _is_others(rollout, reading):
            continue  # of a log that has rollouts of both
        found = rollout
        if results is not None:
            task = str(rollout.get("task"))
            if task not in results:
                expected = f"a task of --{SIDES[side]}-results"
                raise InvalidDataError(expected, episode=task, field="task", value=task, where=place)
            found = {**rollout, "success": results[task]}
        try:
            yield row_of(found, reading), place
        except InvalidDataError as error:
            told = _at(error, ", ".join(part for part in (place, error.where) if part))
            if broken is None:
                raise told from None
            broken.append(str(told))


def _is_others(rollout: Rollout, reading: Reading) -> bool:
    return reading.model is not None and str(rollout.get("model")) != reading.model


def _with_same_features(rows: Iterator[Placed]) -> Iterator[Placed]:
    """Pass rows on, and refuse features that not every rollout has, or whose names are taken."""
    names: Set[str] | None = None
    for row, place in rows:
        features = row.features or {}
        if names is None:
            _check_names(features, "features", place)
            names = features.keys()
        if features.keys() != names:
            expected = f"the features of the first rollout: {', '.join(names) or 'none'}"
            raise InvalidDataError(expected, episode=row.task, field="features", value=list(features), where=place)
        yield row, place


def _check_names(names: Collection[str], field: str, place: str) -> None:
    if not names:
        return  # without xarray, which takes longer to load than a short log to read
    from bayes_tacit.data.layout import check_name

    for name in names:
        check_name(name, f"name in {field}", where=place)
        if name in OWN_NAMES:
            expected = f"a name other than those that an import gives: {', '.join(OWN_NAMES)}"
            raise InvalidDataError(expected, field=f"name in {field}", value=name, where=place)


# A large log of the generic format, read by several processes: each takes a portion of the file's lines.


def _can_be_shared(path: Path, format: str) -> bool:  # noqa: A002  the word of the command line
    lines = format == _GENERIC and path.is_file() and path.suffix.lower() in LINES
    return lines and path.stat().st_size >= SMALLEST


def _rows_in_parallel(
    file: Path,
    reading: Reading,
    side: int,
    pool: ProcessPoolExecutor,
    workers: int,
    progress: Progress | None,
    broken: list[str] | None,
) -> Iterator[Placed]:
    """Yield what `_rows` would, in the order of the file."""
    starts = iter(range(0, file.stat().st_size, PORTION))
    waiting: deque[tuple[int, Future[tuple[int, list[tuple[Row, int]]] | None]]] = deque()
    before = 0
    try:
        while True:
            for start in islice(starts, 2 * workers + 1 - len(waiting)):
                waiting.append((start, submit(pool, rows_between, file, start, start + PORTION, reading)))
            if not waiting:
                return
            start, future = waiting.popleft()
            found = future.result()
            if found is None:
                # Read on in this process, which says what is wrong and on which line.
                rest = _rollouts(FORMATS[_GENERIC], lines_of(file, start=start, before=before))
                yield from _rows(rest, reading, side, None, broken)
                return
            for row, line in found[1]:
                yield row, f"{file}:{before + line}"
            before += found[0]
            if progress is not None:
                progress(PORTION)
    finally:
        for _, future in waiting:
            future.cancel()


def rows_between(file: Path, start: int, stop: int, reading: Reading) -> tuple[int, list[tuple[Row, int]]] | None:
    """Read the lines that begin between two bytes; None if anything is wrong with one.

    Returns
    -------
    tuple
        How many lines there are, and what is kept of each rollout, with its line among these.
    """
    rows: list[tuple[Row, int]] = []
    line, at = 0, start
    try:
        with file.open("rb") as handle:
            if start:
                handle.seek(start - 1)
                at = start - 1 + len(handle.readline())
            for raw in handle:
                if at >= stop:
                    break
                at += len(raw)
                line += 1
                if raw.isspace():
                    continue
                content = json.loads(raw.decode())
                if not is_plain(content):
                    return None
                if not _is_others(content, reading):
                    rows.append((row_of(content, reading), line))
    except (TacitError, ValueError, RecursionError):
        return None
    return line, rows


# What the user knows of the tasks besides.


def _read_columns(path: Path) -> Columns:
    """Read a table of tasks: a column of numbers is numbers, any other is texts."""
    header, table = read_table(path, "a table of tasks")
    key = "task" if "task" in header else "task_id"
    names = [name for name in header if name not in ("task", "task_id")]
    if key not in header or not names or not table:
        raise FileFormatError(f"{path}: columns are {header}; expected rows with task and at least one more")
    _check_names(names, "columns", str(path))
    columns: dict[str, dict[str, float | str]] = {}
    for where, row in table:
        if None in row.values():
            raise InvalidDataError("as many values as columns", field="row", value=row[key], where=where)
        if row[key] in columns:
            raise InvalidDataError("each task once", field="task", value=row[key], where=where)
        columns[row[key]] = {name: row[name] for name in names}
    for name in names:
        numbers = {task: _number(row[name]) for task, row in columns.items()}
        # A column of numbers with one that is not finite would pass for texts, and its numbers would be lost.
        for task, value in numbers.items():
            if value is not None and not math.isfinite(value):
                given = columns[task][name]
                raise InvalidDataError("a finite number", episode=task, field=name, value=given, where=str(path))
        if None not in numbers.values():
            for task, value in numbers.items():
                columns[task][name] = value or 0.0
    return columns


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def _read_results(path: Path) -> dict[str, bool]:
    """Read who succeeded, by task: a table, or a report of SWE-bench."""
    if path.suffix.lower() == ".json":
        return _read_report(path)
    found: dict[str, bool] = {}
    for where, row in read_table(path, "outcomes by task", ("task", "success"))[1]:
        task, word = row["task"], (row["success"] or "").strip().lower()
        if word not in _SUCCESS:
            expected = "true or false, or 1 or 0"
            raise InvalidDataError(expected, episode=task, field="success", value=row["success"], where=where)
        if task in found:
            raise InvalidDataError("each task once", episode=task, field="task", value=task, where=where)
        found[task] = _SUCCESS[word]
    return found


def _read_report(path: Path) -> dict[str, bool]:
    content = parse_json(regular_file(path, "outcomes by task").read_bytes(), str(path), "a report of SWE-bench")
    report = content if isinstance(content, dict) else {}
    resolved = report.get("resolved_ids", report.get("resolved"))
    if not isinstance(resolved, list):
        raise FileFormatError(f"{path}: has no list resolved_ids; expected a report of SWE-bench")
    kinds = ("submitted", "completed", "unresolved", "error", "empty_patch", "incomplete")
    found: dict[str, bool] = {}
    for tasks in (*(report.get(f"{kind}_ids") or [] for kind in kinds), resolved):
        for name in tasks if isinstance(tasks, list) else [tasks]:
            if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(tasks, list):
                raise FileFormatError(f"{path}: a task is {repr(name)[:80]}; expected lists of texts or whole numbers")
            found[str(name)] = tasks is resolved
    return found
