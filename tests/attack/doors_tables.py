"""Bad tables: episodes as Parquet, and what comes of handoffs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
from attack import base
from attack.case import EITHER, REFUSE, Case, Door, Prepare
from attack.putting import case_of, cleared, foreign, no_files
from attack.stores import broken_netcdf
from attack.ways import command, python

from bayes_tacit import Counterfactuals


def episodes_in_tables(home: Path, rng: Random) -> Iterator[Case]:
    """Episodes as a folder of two Parquet tables."""
    folder = base.written(home / "parquet", "e.parquet")
    door = Door("episodes .parquet", command("summary", "e.parquet", "--json"), folder, ("e.parquet",))
    for table in ("tasks", "steps"):
        file = f"e.parquet/{table}.parquet"
        content = (folder / file).read_bytes()
        frame = pd.read_parquet(folder / file)
        yield from foreign(door, file)
        yield from no_files(door, file)
        for _ in range(8):
            cut = rng.randrange(1, len(content))
            yield case_of(door, file, f"{table} cut after {cut} bytes", content[:cut])
        for _ in range(20):
            place = rng.randrange(len(content))
            changed = content[:place] + rng.randbytes(3) + content[place + 3 :]
            yield case_of(door, file, f"{table} changed at {place}", changed, EITHER)
        for column in frame.columns:
            for what, altered, expects in _columns(frame, column, rng):
                yield Case(door, f"{table}: {what}", _frame(file, altered), expects, (), f"{table} {what}")
        doubled = pd.concat([frame, frame.iloc[:1]])
        yield Case(door, f"{table}: a row twice", _frame(file, doubled))
        yield Case(door, f"{table}: no rows", _frame(file, frame.iloc[:0]))
        yield Case(
            door,
            f"{table}: rows missing",
            _frame(file, frame.iloc[1:] if table == "tasks" else frame.drop(frame.index[1])),
        )
    yield from no_files(door, "e.parquet")


def _columns(frame: pd.DataFrame, column: str, rng: Random) -> Iterator[tuple[str, pd.DataFrame, str]]:
    carried = column in ("task_type",)
    whole = EITHER if carried or column in ("window_start", "window_end") else REFUSE
    yield f"no {column}", frame.drop(columns=column), EITHER if carried else REFUSE
    yield f"{column} is text", frame.assign(**{column: "x"}), EITHER if carried else REFUSE
    yield (
        f"{column} is missing everywhere",
        frame.assign(**{column: pd.Series([None] * len(frame), dtype=object)}),
        whole,
    )
    yield f"{column} is lists", frame.assign(**{column: [[1]] * len(frame)}), REFUSE
    if carried or column == "episode":
        return
    for value in (np.nan, np.inf, -1.0, 0.5, 1e300):
        changed = frame.copy()
        changed[column] = changed[column].astype(object)
        changed.iloc[rng.randrange(len(frame)), changed.columns.get_loc(column)] = value
        fine = column in ("entities", "subgoals", "needs_tool", "repeat", "uncertainty", "stalled", "invalid")
        allowed = fine and (value in (0.5, 1e300) or (value == -1 and column in ("entities", "subgoals", "needs_tool")))
        half = column.startswith("window") and value != value
        yield (
            f"{column} is {value}",
            changed.assign(**{column: pd.to_numeric(changed[column])}),
            EITHER if allowed or half else REFUSE,
        )


def _frame(file: str, frame: pd.DataFrame) -> Prepare:
    def prepare(folder: Path) -> None:
        frame.to_parquet(cleared(folder / file), index=False)

    return prepare


def tables_of_counterfactuals(home: Path, rng: Random) -> Iterator[Case]:
    """What comes of handoffs, as .csv, .parquet and .nc."""
    frame = base.counterfactuals().to_frame()
    for suffix in ("csv", "parquet", "nc"):
        name = f"c.{suffix}"
        folder = base.written(home / f"c{suffix}", name, "fit.json", "few.jsonl")
        words = (
            "select",
            "fit.json",
            "few.jsonl",
            "--cap",
            "8",
            "--n",
            "5",
            "--counterfactuals",
            name,
            "--out",
            "out.json",
        )
        chosen = Door(f"counterfactuals .{suffix}", command(*words, out=("out.json",)), folder, (name,))
        read = Door(
            f"counterfactuals .{suffix}, Python",
            python(lambda _, name=name: repr(Counterfactuals.read(name))),
            folder,
            (name,),
        )
        content = (folder / name).read_bytes()
        yield from foreign(read, name)
        yield from no_files(rng.choice([chosen, read]), name)
        if suffix == "nc":
            yield from broken_netcdf(read, name, rng)
            continue
        for _ in range(6):
            cut = rng.randrange(1, len(content) - 40)
            yield case_of(
                read, name, f"cut after {cut} bytes", content[:cut], REFUSE if suffix == "parquet" else EITHER
            )
        for column in frame.columns:
            for what, altered, expects in _rows(frame, str(column), rng):
                # `select` computes costs from calls where the table has none.
                door = read if what == "no cost" else rng.choice([read, read, read, chosen])
                yield Case(door, what, _table(name, altered), expects, (), what)
        yield Case(read, "a row twice", _table(name, pd.concat([frame, frame.iloc[:1]])))
        yield Case(read, "no rows", _table(name, frame.iloc[:0]))
        yield Case(read, "a row missing", _table(name, frame.drop(frame.index[1])))
        yield Case(chosen, "other episodes", _table(name, frame.assign(episode=frame["episode"] + "x")))
        if suffix == "csv":
            for what, bad in (
                ("UTF-16", content.decode().encode("utf-16")),
                ("a NUL", content.replace(b"task-0001", b"task\0", 1)),
                ("a column twice", content.replace(b"success", b"cost", 1)),
                ("ragged", content + b"a,b,c,d,e,f,g,h,i\n"),
                ("an open quote", content + b'"'),
                ("byte 0xff", content + b"\xff,,,,,\n"),
            ):
                yield case_of(read, name, what, bad)


def _rows(frame: pd.DataFrame, column: str, rng: Random) -> Iterator[tuple[str, pd.DataFrame, str]]:
    yield f"no {column}", frame.drop(columns=column), REFUSE
    if column != "episode":
        yield f"{column} is text", frame.assign(**{column: "x"}), REFUSE
        for value in (np.inf, -1.0, 0.5, 1e300, np.nan):
            changed = frame.astype({column: float})
            changed.iloc[rng.randrange(len(frame) - 1), changed.columns.get_loc(column)] = value
            allowed = column in ("cost", "strong_calls", "cheap_calls") and value in (0.5, 1e300)
            yield f"{column} is {value}", changed, EITHER if allowed else REFUSE


def _table(name: str, frame: pd.DataFrame) -> Prepare:
    def prepare(folder: Path) -> None:
        path = cleared(folder / name)
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path, index=False)

    return prepare
