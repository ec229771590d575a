"""What the commands share: arguments, output for people and for machines, and what may be overwritten."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.files import atomic_path, is_store

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.estimates.map_fit import MapFit
    from bayes_tacit.model.strata import Noise

Data = Annotated[Path, typer.Argument(help="Episodes: .jsonl, .parquet, .nc or .zarr.", show_default=False)]
Fitted = Annotated[
    Path, typer.Argument(help="A fit (.json, from fit) or a posterior (.nc or .zarr, from sample).", show_default=False)
]
RouterFile = Annotated[Path, typer.Argument(help="A router, .json, from recommend or select.", show_default=False)]
Seed = Annotated[int, typer.Option(help="Makes the result repeatable.")]
AnySeed = Annotated[int, typer.Option("--seed", help="Accepted by every command; nothing here is random.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Family = Annotated[str, typer.Option(help="Threshold family: lognormal, loglogistic, weibull or loggamma.")]
Timing = Annotated[str, typer.Option(help="post_action, or proposal: marks move to the next proposal.")]

Clock = Annotated[bool, typer.Option("--clock", help="The number of steps counts as one more diagnostic.")]
Unmarked = Annotated[
    str, typer.Option(help="AB = 01 without a window: due (by the end of the rollout), or outcome (that alone).")
]
Features = Annotated[
    str | None,
    typer.Option(help="A formula on features and carried columns, such as 'bs(words, df=4) + C(kind)'; default: all."),
]

ZeroMass = Annotated[
    str | None,
    typer.Option(
        help="A window over which every diagnostic is zero: refuse, or drop_window (keep that Strong succeeded)."
    ),
]

NoiseOption = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="How outcomes and marks come about: rates that are known, 0.9, or learned under a Beta prior, 8:2. Of "
        "sensitivity, specificity, lucky, mark_error, lateness, marked, stray and lucky_by_features, such as "
        "sensitivity=8:2,specificity=8:2,lateness=2:1:1. By default all are exact, as in the paper.",
    ),
]

PICTURES = (".png", ".svg", ".pdf")
"""Suffixes of figures that can be written."""

DOTS_PER_INCH = 150

CHECK_FAILED = 1
"""Exit code where the command did its work and a check failed."""

BAD_INPUT = 2
"""Exit code where the input was not what it must be; nothing was written."""


def show(text: object, content: Mapping[str, object], *, as_json: bool, then: Sequence[object] = ()) -> None:
    """Print for a person, with the command to go on with as the last line; or one JSON object for a machine."""
    if as_json:
        sys.stdout.write(json.dumps(_plain(content), allow_nan=False) + "\n")
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(shown(text) if isinstance(text, str) else text)
    if then:
        words = (shlex.quote(str(word)) if isinstance(word, Path) else word for word in then)
        console.print(f"next: bayes-tacit {' '.join(map(str, words))}")


def listed(given: str | None) -> list[str] | None:
    """Return the names that an option lists with commas between them; None for no option."""
    return None if given is None else [name.strip() for name in given.split(",")]


def shown(text: str) -> str:
    """Return text as a screen may have it: ids are others' words, and what would move the cursor is spelt out."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in text)


def _plain(value: object) -> object:
    """Turn what is not finite into null, and what JSON does not know into text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def memory_from(given: str, word: str) -> float | str:
    """Read a memory: a number from 0 to 1, or one word."""
    if given == word:
        return word
    try:
        return float(given)
    except ValueError as error:
        raise InvalidDataError(f"a number from 0 to 1, or {word}", field="--memory", value=given) from error


def noise_from(given: str | None) -> Noise | None:
    """Read what `--noise` says.

    Examples
    --------
    >>> noise_from("sensitivity=8:2,specificity=0.9,lateness=1")
    Noise(sensitivity=(8.0, 2.0), specificity=0.9, lateness=1)
    """
    if given is None:
        return None
    from bayes_tacit.model.strata import Noise

    names = [each.name for each in fields(Noise)]
    found: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in given.split(","))):
        name, _, text = part.partition("=")
        try:
            numbers = [float(each) for each in text.split(":")] if text else [True]
        except ValueError:
            numbers = []
        if name not in names or name in found or not numbers or (not text) != (name == "lucky_by_features"):
            expected = f"name=rate or name=a:b, separated by commas, each once, of {', '.join(names)}"
            raise InvalidDataError(expected, field="--noise", value=part)
        found[name] = numbers[0] if len(numbers) == 1 else tuple(numbers)
        if name == "lateness" and len(numbers) == 1 and float(numbers[0]).is_integer():
            found[name] = int(numbers[0])
    return Noise(**found)


def new_file(path: Path, *suffixes: str, force: bool) -> Path:
    """Return the path if something may be written there: known before any long work begins.

    Where suffixes are given it must have one of them.
    """
    if suffixes and path.suffix not in suffixes:
        listed = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected {listed}")
    if not path.absolute().parent.is_dir():
        raise MissingFileError(f"{path.parent}: no such folder; expected the folder in which to write {path.name}")
    if path.is_dir() and path.suffix not in (".zarr", ".parquet"):
        raise FileFormatError(f"{path}: is a folder; expected the name of a file to write")
    if path.is_dir() and not is_store(path):
        raise FileFormatError(f"{path}: is a folder of other things; expected a new name; it is left as it is")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise FileFormatError(f"{path}: is a pipe or device; expected the name of a file to write")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise FileFormatError(f"{path}: its folder may not be written to; expected one that may")
    if path.exists() and not force:
        raise FileFormatError(f"{path}: exists already; expected a new name, or --force")
    return path


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table, .csv or .parquet by the file's suffix."""
    with atomic_path(path) as temporary:
        (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(temporary, index=False)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's suffix names."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=DOTS_PER_INCH)


@contextmanager
def told() -> Iterator[list[str]]:
    """Collect warnings about the data, and print each as one line on standard error at the end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TacitWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, TacitWarning):
            notes.append(str(warning.message))
            _say(warning.message)


@contextmanager
def told_at_once() -> Iterator[None]:
    """Print each warning about the data as one line on standard error while the command runs on."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", TacitWarning)
        warnings.showwarning = _say
        yield


def _say(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"note: {shown(in_shell_words(str(message)))}\n")


OPTIONS = "zero_mass|clock|unmarked|memory"
"""Arguments of functions that advice names and that commands have as options."""


def in_shell_words(text: str) -> str:
    """Return advice as a command takes it: options in place of arguments, commands in place of functions.

    Examples
    --------
    >>> in_shell_words("pass zero_mass='drop_window', or clock=True; sample_posterior has an answer")
    'pass --zero-mass drop_window, or --clock; bayes-tacit sample has an answer'
    """
    text = re.sub(rf"\b({OPTIONS})=True\b", lambda found: f"--{found[1]}".replace("_", "-"), text)
    text = re.sub(rf"\b({OPTIONS})=['\"](\w+)['\"]", lambda found: f"--{found[1].replace('_', '-')} {found[2]}", text)
    return re.sub(r"\bmax_iterations\b", "--max-iterations", text).replace(
        "sample_posterior has", "bayes-tacit sample has"
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done; say nothing on a pipe."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextmanager
def about(*files: Path) -> Iterator[None]:
    """Say which files were read where something in them is wrong and the error names none of them."""
    try:
        yield
    except InvalidDataError as error:
        if any(str(file) in str(error) for file in files):
            raise
        where = ", ".join([*filter(None, [error.where]), f"in {' and '.join(map(str, files))}"])
        raise InvalidDataError(
            error.expected, episode=error.episode, field=error.field, value=error.value, where=where
        ) from error


def read_episodes(path: Path) -> Episodes:
    """Read episodes, telling what is odd about them."""
    from bayes_tacit.data.episodes import Episodes

    return Episodes.read(path)


def read_training(path: Path) -> Episodes:
    """Read episodes that a model can be fitted to: an error about a column names the file, too."""
    from bayes_tacit.model.evidence import check_range

    episodes = read_episodes(path)
    with about(path):
        check_range(episodes)
    return episodes


def read_fitted(path: Path, *, finite: bool = True) -> MapFit | xr.DataTree:
    """Read a fit or a posterior, by the file's suffix; draws that are not finite are for the report alone."""
    if path.suffix == ".json":
        from bayes_tacit.estimates.map_fit import MapFit

        return MapFit.load(path)
    if path.suffix in (".nc", ".zarr"):
        from bayes_tacit.scores.posterior_files import load_posterior

        return load_posterior(path, finite=finite)
    raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected .json (a fit), .nc or .zarr (a posterior)")
