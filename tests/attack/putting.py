"""Cases that put other bytes, or no file at all, in the place of a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from attack.case import EITHER, REFUSE, SAME, Case, Door, Prepare, distinct
from attack.junk import FOREIGN, WRONG, Raw, dumps, objects, removed, replaced, rewritten, torn, twice

Field = tuple[object, ...]


def cleared(path: Path) -> Path:
    """Take away what is at a path, a link to the valid file above all; folders above it become the case's own."""
    parent = path.parent
    if parent.is_symlink():
        whole = parent.resolve()
        parent.unlink()
        shutil.copytree(whole, parent)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    return path


def put(name: str, content: bytes) -> Prepare:
    """Write bytes in the place of a file."""

    def prepare(folder: Path) -> None:
        cleared(folder / name).write_bytes(content)

    return prepare


def case_of(
    door: Door, file: str, what: str, content: bytes, expects: str = REFUSE, names: tuple[str, ...] = ()
) -> Case:
    """Give a case of other bytes."""
    return Case(door, what, put(file, content), expects, names, distinct(file + what[:4]) + distinct(content))


def no_files(door: Door, file: str) -> Iterator[Case]:
    """Put things there that are no files."""
    makers: dict[str, Callable[[Path], object]] = {
        "missing": lambda _: None,
        "a folder": lambda path: path.mkdir(),
        "a pipe": lambda path: os.mkfifo(path),
        "a dangling link": lambda path: path.symlink_to(path.with_name("nowhere")),
        "a link to itself": lambda path: path.symlink_to(path),
        "a device": lambda path: path.symlink_to("/dev/zero"),
    }
    for what, make in makers.items():

        def prepare(folder: Path, make: Callable[[Path], object] = make) -> None:
            make(cleared(folder / file))

        # That there is none would be no help to who sees that there is.
        names = ("pipe", "device") if what in ("a pipe", "a device") else ()
        yield Case(door, f"{file} is {what}", prepare, REFUSE, names, f"{file} {what}")


def foreign(door: Door, file: str, leave: frozenset[str] = frozenset()) -> Iterator[Case]:
    """Put other files' content there."""
    for what, content in FOREIGN.items():
        if what not in leave:
            yield case_of(door, file, f"{file} holds {what}", content)


def broken_text(door: Door, file: str, text: bytes, rng: Random, *, lines: bool = False) -> Iterator[Case]:
    """Break text at random places."""
    for what, content in torn(text, rng, lines=lines):
        yield case_of(door, file, f"{file}: {what}", content)
    yield case_of(door, file, f"{file}: a byte order mark", b"\xef\xbb\xbf" + text, EITHER)


def wrong_fields(
    door: Door,
    file: str,
    content: Any,
    fields: Mapping[Field, str],
    rng: Random,
    *,
    write: Callable[[Any], bytes] = dumps,
    optional: frozenset[Field] = frozenset(),
    per_field: int = 99,
    names: Callable[[Field], tuple[str, ...]] | None = None,
) -> Iterator[Case]:
    """Give fields values that they must not have, and take them away."""
    for path, kind in fields.items():
        shown = ".".join(map(str, path))
        said = names(path) if names else named(path)
        wrong = list(WRONG[kind])
        for value in rng.sample(wrong, min(per_field, len(wrong))):
            if path in optional and value is None:
                continue
            raw = isinstance(value, Raw) or (isinstance(value, list) and any(isinstance(each, Raw) for each in value))
            what = f"{shown} is {str(value)[:20] if raw else repr(value)}"
            # What is not JSON is refused as such, before its fields are looked at.
            yield case_of(door, file, what, write(replaced(content, path, value)), REFUSE, () if raw else said)
        if path not in optional and isinstance(path[-1], str):
            yield case_of(door, file, f"{shown} is not there", write(removed(content, path)), REFUSE, said)


def named(path: Field) -> tuple[str, ...]:
    """Give the names along a path, of which a refusal must have one."""
    return tuple(str(part) for part in path if isinstance(part, str))


def repeated_keys(
    door: Door,
    file: str,
    content: Any,
    rng: Random,
    n: int,
    *,
    write: Callable[[bytes], bytes] = bytes,
) -> Iterator[Case]:
    """Give random keys twice, with the same value and with another one."""
    places = list(objects(content))
    for _ in range(n):
        path = rng.choice(places)
        inner = content
        for part in path:
            inner = inner[part]
        key = rng.choice(list(inner))
        value = rng.choice([inner[key], 0, "other", None])
        what = f"key {key!r} of {'.'.join(map(str, path)) or 'it'} twice"
        yield case_of(door, file, what, write(twice(content, path, key, value)))


def unknown_keys(
    door: Door,
    file: str,
    content: Any,
    rng: Random,
    n: int,
    *,
    below: Callable[[Field], bool] = lambda _: True,
    write: Callable[[Any], bytes] = dumps,
) -> Iterator[Case]:
    """Add keys that nobody knows."""
    places = [path for path in objects(content) if below(path)]
    for number in range(n):
        path = rng.choice(places)
        key = rng.choice(["more", "", "__class__", "constructor", "\x1b[31mred", "é", "a" * 300]) + str(number)
        what = f"unknown key {key[:20]!r} in {'.'.join(map(str, path)) or 'it'}"
        yield case_of(door, file, what, write(replaced(content, (*path, key), rng.choice([1, None, "x", []]))))


def same(door: Door, file: str, content: Any, rng: Random, n: int, *, lines: bool = False) -> Iterator[Case]:
    """Write the same content otherwise, which must change nothing."""
    for number in range(n):
        if lines:
            # The first line says in which order names are shown.
            each = (rewritten(one, rng, shuffled=place > 0) + b"\n" for place, one in enumerate(content))
            text = b"".join(each)
        else:
            text = rewritten(content, rng)
        yield case_of(door, file, f"{file} written otherwise {number}", text, SAME)
