"""Keeping replicates: a study's table as Parquet, and what is appended to while it runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import atomic_path
from simulations.studies.study import Row, Study

TABLE = "replicates.parquet"
_KEY = b"bayes_tacit_study"


def write_table(table: pd.DataFrame, identity: Mapping[str, object], path: Path) -> None:
    """Write the table; the same rows give the same bytes."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    described = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _KEY: json.dumps(dict(identity))})
    pq.write_table(described, path, compression="zstd")


def read_table(path: Path) -> pd.DataFrame:
    """Read the table back, every number as it was."""
    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is not a readable Parquet file: {error}") from None


def read_identity(path: Path) -> object:
    """Read what the file says of the study, version, seed and design that made it; None if it says nothing."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is not a readable Parquet file: {error}") from None
    return json.loads(metadata[_KEY]) if _KEY in metadata else None


REMEDY = "give another folder with --out, or --fresh to discard what is there and start over"


@dataclass(frozen=True)
class Identity:
    """What must be the same for replicates to belong together."""

    study: str
    version: str
    seed: int
    design: str

    @classmethod
    def of(cls, study: Study, seed: int) -> Identity:
        """Return the identity of a study as it is now."""
        return cls(study=study.name, version=version("bayes_tacit"), seed=seed, design=study.design())

    def refuse_other(self, found: object, source: Path) -> None:
        """Raise unless what a file says of itself is the same."""
        wanted = asdict(self)
        if not isinstance(found, dict) or not wanted.keys() <= found.keys():
            raise FileFormatError(f"{source} does not say which study made it; {REMEDY}")
        for name, value in wanted.items():
            if found[name] != value:
                raise FileFormatError(f"{source} has {name} {found[name]!r}, this run has {value!r}; {REMEDY}")


class Kept:
    """The kept replicates of a results folder.

    Parameters
    ----------
    folder
        Made if need be.
    study, seed
        What the replicates must belong to. If nothing is kept but the folder has a finished table, as a fresh clone
        does, its replicates are taken over.
    fresh
        Whether to discard what is there.
    """

    def __init__(self, folder: Path, study: Study, seed: int, *, fresh: bool = False) -> None:
        self._study = study
        self._identity = Identity.of(study, seed)
        self._path = folder / f"replicates-{seed}.jsonl"
        _make_folder(folder)
        if fresh:
            for old in folder.glob("replicates-*.jsonl"):
                if old.is_file():
                    old.unlink()
        for old in folder.glob("replicates-*.jsonl"):
            self._identity.refuse_other(_header(old), old)
        if not self._path.exists():
            self._begin(None if fresh else folder / TABLE)
        _cut_unfinished_line(self._path)
        self.done = {key for key, _ in self._replicates()}

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def add(self, setting: str, replicate: int, rows: Sequence[Row]) -> None:
        """Keep a finished replicate."""
        _append(self._path, {"setting": setting, "replicate": replicate, "rows": list(rows)})
        self.done.add((setting, replicate))

    def table(self, replicates: int) -> pd.DataFrame:
        """Return the rows of the first replicates of every setting, in order."""
        settings = {setting.name: position for position, setting in enumerate(self._study.settings)}
        chosen: dict[tuple[int, int], list[Row]] = {}
        for (name, number), rows in self._replicates():
            if number < self._study.count(settings[name], replicates):
                chosen[settings[name], number] = rows
        return pd.DataFrame(
            [
                {"setting": self._study.settings[setting].name, "replicate": number, **row}
                for (setting, number), rows in sorted(chosen.items(), key=lambda item: item[0])
                for row in rows
            ]
        )

    def _begin(self, finished: Path | None) -> None:
        with atomic_path(self._path) as temporary:
            _append(temporary, asdict(self._identity))
            if finished is not None and finished.exists():
                self._identity.refuse_other(read_identity(finished), finished)
                table = read_table(finished)
                for _, rows in table.groupby(["setting", "replicate"], sort=False):
                    records = rows.to_dict("records")
                    key = {name: records[0][name] for name in ("setting", "replicate")}
                    _append(temporary, {**key, "rows": rows.drop(columns=list(key)).to_dict("records")})

    def _replicates(self) -> Iterator[tuple[tuple[str, int], list[Row]]]:
        names = {setting.name for setting in self._study.settings}
        with self._path.open("rb") as file:
            file.readline()
            for number, line in enumerate(file, start=2):
                try:
                    record = json.loads(line)
                    name, replicate, rows = (record[key] for key in ("setting", "replicate", "rows"))
                    if name not in names or not isinstance(replicate, int) or not isinstance(rows, list):
                        raise ValueError
                except (ValueError, KeyError, TypeError):
                    raise FileFormatError(f"{self._path}, line {number}: not a kept replicate; {REMEDY}") from None
                yield (name, replicate), rows


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(f"{folder} cannot be the folder of the results: {error.strerror}") from None


def _append(path: Path, record: dict[str, Any]) -> None:
    """Write a whole line in one go, and hand it to the operating system, which keeps it if this process is killed."""
    with path.open("ab") as file:
        file.write(json.dumps(record).encode() + b"\n")


def _header(path: Path) -> object:
    """Read what a file says of itself; None if its first line is not whole."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        line = file.readline()
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def _cut_unfinished_line(path: Path) -> None:
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
