"""Outcomes that are not in the log: a table of tasks, or a report of SWE-bench."""

from __future__ import annotations

import csv
from pathlib import Path

from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import parse_json, regular_file

OTHERS = ("submitted_ids", "completed_ids", "unresolved_ids", "error_ids", "empty_patch_ids", "incomplete_ids")
"""Lists of a report with tasks that were tried."""

_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_results(path: Path) -> dict[str, bool]:
    """Read who succeeded, by task.

    Parameters
    ----------
    path
        A CSV with the columns `task` and `success` (true or false, 1 or 0), or a report of SWE-bench: JSON with
        `resolved_ids` and, for those that were not, `submitted_ids`, `completed_ids` or `unresolved_ids`.
    """
    regular_file(path, "outcomes by task")
    return _of_report(path) if path.suffix.lower() == ".json" else _of_table(path)


def _of_report(path: Path) -> dict[str, bool]:
    content = parse_json(path.read_bytes(), str(path), "a report of SWE-bench")
    resolved = content.get("resolved_ids", content.get("resolved")) if isinstance(content, dict) else None
    if not isinstance(resolved, list):
        raise FileFormatError(f"{path}: has no list resolved_ids; expected a report of SWE-bench")
    others: list[object] = []
    for key in OTHERS:
        given = content.get(key) or []
        if not isinstance(given, list):
            raise FileFormatError(f"{path}: {key} is {repr(given)[:80]}; expected a list of tasks")
        others += given
    for name in (*resolved, *others):
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise FileFormatError(f"{path}: a task is {repr(name)[:80]}; expected a text or a whole number")
    return {**{str(name): False for name in others}, **{str(name): True for name in resolved}}


def _of_table(path: Path) -> dict[str, bool]:
    found: dict[str, bool] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            table = csv.DictReader(handle, strict=True)
            if not {"task", "success"} <= set(table.fieldnames or ()):
                raise FileFormatError(f"{path}: columns are {table.fieldnames}; expected task and success")
            for row in table:
                where = f"{path}:{table.line_num}"
                if None in row:
                    raise InvalidDataError("as many values as columns", field="row", value=row["task"], where=where)
                task, word = row["task"], (row["success"] or "").strip().lower()
                if word not in _WORDS:
                    raise InvalidDataError(
                        "true or false, or 1 or 0", episode=task, field="success", value=row["success"], where=where
                    )
                if task in found:
                    raise InvalidDataError("each task once", episode=task, field="task", value=task, where=where)
                found[task] = _WORDS[word]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV in UTF-8 ({error}); expected outcomes by task") from None
    return found
