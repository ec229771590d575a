"""A bad input, what must come of it, and what did; valid input for every door; ways in.

A case says beforehand what it expects: `REFUSE` (one clear line that names the file and the place), `SAME` (harmless:
accepted, with the very result of the unchanged input) or `EITHER` (it may pass, if the result is finite). Whatever else
happens (a traceback, silence, a hang, a file that is left) is a failure, whichever it expects.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import xarray as xr
from posteriors import random_posterior
from routers import ONE_OF, named

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router, fit_map, load_example, save_posterior
from bayes_tacit.cli import main
from bayes_tacit.errors import TacitError, TacitWarning

REFUSE, SAME, EITHER = "refuse", "same", "either"

LONGEST = 10.0
"""Seconds after which a case hangs."""

BAD_INPUT = 2

Prepare = Callable[[Path], object]
"""Puts the bad input into a folder, over what is there."""


@dataclass(frozen=True)
class Ended:
    """How a run of a door ended: "accepted", "refused" or "crashed", what was said, and what an accepted input gave."""

    kind: str
    said: str = ""
    result: object = None


@dataclass(frozen=True)
class Door:
    """Where input comes in: a name, what takes a folder, a folder of valid input, and files one of which is named."""

    name: str
    run: Callable[[Path], Ended]
    base: Path
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One bad input.

    A refusal must have at least one of `names`, besides the file; `key` makes the case distinct from others.
    """

    door: Door
    name: str
    prepare: Prepare
    expects: str = REFUSE
    names: tuple[str, ...] = ()
    key: str = ""


@dataclass
class Tally:
    """Counts for one door; a failure is a line."""

    cases: set[str] = field(default_factory=set)
    refused: int = 0
    accepted: int = 0
    failures: list[str] = field(default_factory=list)


class _HungError(BaseException):
    """Not an Exception, so that nothing that is attacked catches it."""


@contextmanager
def limit(seconds: float):
    """Raise in the main thread after so many seconds."""

    def hung(*_: object) -> None:
        raise _HungError

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def distinct(content: bytes | str) -> str:
    """Return a short digest."""
    text = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(text).hexdigest()[:24]


def run_all(cases: Iterable[Case], home: Path) -> dict[str, Tally]:
    """Run cases one after the other, those that are the same once; return the counts by door."""
    tallies: dict[str, Tally] = {}
    usual: dict[str, object] = {}
    for number, case in enumerate(cases):
        name, key = case.door.name, case.key or case.name
        tally = tallies.setdefault(name, Tally())
        if key in tally.cases:
            continue
        tally.cases.add(key)
        if name not in usual:
            with linked(case.door, home / f"usual{number}") as folder:
                ended = case.door.run(folder)
            assert ended.kind == "accepted", f"{name}: {ended.said}"
            assert finite(ended.result), f"{name}: {json.dumps(ended.result, default=str)[:300]}"
            usual[name] = ended.result
        kind, why = attempt(case, home / f"case{number}", usual[name])
        if kind == "hung":
            # Other work on the machine may have stood in the way: what hangs does so again.
            kind, why = attempt(case, home / f"again{number}", usual[name])
        tally.refused += kind == "refused"
        tally.accepted += kind == "accepted"
        tally.failures += [f"{name}: {case.name}: {why}"] if why else []
    return tallies


@contextmanager
def linked(door: Door, folder: Path):
    """Make a folder with links to the door's valid input, for as long as the block runs."""
    folder.mkdir()
    for entry in door.base.iterdir():
        (folder / entry.name).symlink_to(entry)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attempt(case: Case, folder: Path, usual: object) -> tuple[str, str]:
    """Run a case in a folder of its own; return how it ended and what is wrong with that."""
    with linked(case.door, folder):
        case.prepare(folder)
        before = {entry.name for entry in folder.iterdir()}
        try:
            with limit(LONGEST):
                ended = case.door.run(folder)
        except _HungError:
            return "hung", "hung"
        except Exception:
            ended = Ended("crashed", traceback.format_exc())
        why = _wrong(case, ended, usual, {entry.name for entry in folder.iterdir()} - before)
        return ended.kind, f"{why}: {ended.said[-300:]}" if why else ""


def _wrong(case: Case, ended: Ended, usual: object, left: set[str]) -> str:
    """Say what is wrong with an end; nothing if it is as it must be."""
    if ended.kind == "crashed":
        return "traceback"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", ended.said):
        return "raw control characters"
    if ended.kind == "accepted":
        if case.expects == REFUSE:
            return "accepted"
        if case.expects == SAME and ended.result != usual:
            return "harmless, with another result"
        return "" if finite(ended.result) else "accepted, with numbers that are not finite"
    said = {
        "harmless, and refused": case.expects == SAME,
        f"refused, and left {sorted(left)}": bool(left),
        "more than one line": "\n" in ended.said.strip(),
        f"names no file of {case.door.files}": not any(file in ended.said for file in case.door.files or ("",)),
        f"names none of {case.names}": not any(name in ended.said for name in case.names or ("",)),
    }
    return next((what for what, is_so in said.items() if is_so), "")


def finite(result: object) -> bool:
    """Return whether every number of a result is finite."""
    if isinstance(result, float):
        return math.isfinite(result)
    if isinstance(result, dict | list | tuple):
        return all(map(finite, result.values() if isinstance(result, dict) else result))
    words = r"(?<![\w-])(nan|inf|infinity)(?!\w)"
    return not isinstance(result, str) or re.search(words, result, re.IGNORECASE) is None


class _Input:
    """Standard input of bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(content))


def command(*words: str, out: tuple[str, ...] = (), stdin: bytes = b"") -> Callable[[Path], Ended]:
    """Return what runs the program in this process; `out` names the files whose content is its result."""

    def run(folder: Path) -> Ended:
        output, errors = io.StringIO(), io.StringIO()
        code: object = None
        with (
            chdir(folder),
            redirect_stdout(output),
            redirect_stderr(errors),
            patch.object(sys, "argv", ["bayes-tacit", *words]),
            patch.object(sys, "stdin", _Input(stdin)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            # As in a program that is run by itself.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        lines = [line for line in errors.getvalue().splitlines() if not line.startswith(("note: ", "warning: "))]
        if code == BAD_INPUT and len(lines) == 1 and lines[0].startswith("error: "):
            return Ended("refused", lines[0])
        if code != 0 or lines:
            return Ended("crashed", f"exit code {code}: {errors.getvalue()}")
        written = {name: _content(folder / name) for name in out}
        for name in out:
            (folder / name).unlink(missing_ok=True)
        return Ended("accepted", output.getvalue(), [output.getvalue(), written])

    return run


def _content(path: Path) -> object:
    if path.suffix == ".json":
        # When and by what it was made is no result.
        return {key: value for key, value in json.loads(path.read_text()).items() if key != "provenance"}
    return path.read_text() if path.exists() else None


def python(function: Callable[[Path], object]) -> Callable[[Path], Ended]:
    """Return what calls a function of the library with the folder."""

    def run(folder: Path) -> Ended:
        with chdir(folder), warnings.catch_warnings(action="ignore"):
            try:
                return Ended("accepted", "", function(folder))
            except TacitError as error:
                return Ended("refused", str(error))

    return run


@cache
def episodes(n: int = 12) -> Episodes:
    """A few of the example's episodes, of every outcome."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        return load_example().take(range(n))


@cache
def fit() -> MapFit:
    """A fit on more of them."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        return fit_map(episodes(80), restarts=1)


@cache
def posterior() -> xr.DataTree:
    """Draws in the shape that the sampler gives; nothing is sampled."""
    tree = random_posterior(np.random.default_rng(1), episodes(), draws=60)
    for name in ("sample_stats", "observed_data"):
        tree[name] = tree["posterior"].to_dataset()[["s"]]
    tree.attrs |= {"format": "bayes_tacit.posterior", "schema_version": 1, "prior": "{}", "sampler": "nutpie"}
    tree.attrs |= {"draws": 60, "tune": 5, "chains": 2, "seed": 1, "target_accept": 0.9, "data_fingerprint": "0" * 64}
    tree.attrs |= {"created_at": "2026-01-01", "clock": 0, "memory": 1.0, "inference_method": "nuts"}
    return tree


@cache
def counterfactuals() -> Counterfactuals:
    """What comes of every handoff of these episodes: made up, and the same every time."""
    rng = np.random.default_rng(2)
    rows: list[dict[str, object]] = []
    for name, steps, outcome in zip(episodes().ids, episodes().n_steps, episodes().outcomes, strict=True):
        for step in range(int(steps)):
            calls = {"cheap_calls": step, "strong_calls": 3, "success": int(rng.integers(2))}
            rows.append({"episode": name, "handoff": step, "cost": float(rng.uniform(1, 9)), **calls})
        calls = {"cheap_calls": int(steps), "strong_calls": 0, "success": int(outcome[0])}
        rows.append({"episode": name, "handoff": None, "cost": float(rng.uniform(1, 9)), **calls})
    return Counterfactuals.from_frame(pd.DataFrame(rows))


@cache
def routers() -> dict[str, Router]:
    """A router of every rule that the library has, with random numbers, by its policy's name."""
    rng = np.random.default_rng(3)
    found = {}
    for policy, made in ONE_OF.items():
        diagnostics = 1 if policy in ("signal", "step_deferral_by_task") else 3
        found[policy] = named(made(rng, 2, diagnostics), 2, diagnostics, alpha=0.5)
    return found


def written(home: Path, *names: str) -> Path:
    """Write what a door needs into a folder."""
    home.mkdir(parents=True, exist_ok=True)
    makers = {
        "few": episodes().write,
        "e": episodes().write,
        "more": lambda path: episodes(80).write(path),
        "fit": lambda path: fit().save(path),
        "p": lambda path: save_posterior(posterior(), path),
        "c": lambda path: counterfactuals().write(path),
    }
    for name in names:
        makers[name.partition(".")[0]](home / name)
    return home
