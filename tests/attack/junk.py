"""What is wrong with text, JSON, netCDF and Zarr, and cases that put it in the place of a file."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
from attack.cases import EITHER, REFUSE, SAME, Case, Door, Prepare, distinct

DEEP = "[" * 100_000
DIGITS = "9" * 5_000


class Raw(str):
    """JSON text that stands where a value is."""

    __slots__ = ()


TOO_MUCH = (Raw("1e999"), Raw(DIGITS), Raw(DEEP))
NO_NUMBER = (None, "1", "", [], {}, [1], {"a": 1}, Raw("NaN"), Raw("-Infinity"), "NaN", "\uff11", *TOO_MUCH)
WRONG: dict[str, tuple[object, ...]] = {
    "number or flag": NO_NUMBER,
    "number": (*NO_NUMBER, True),
    "positive": (*NO_NUMBER, True, 0, -1, -1e-300, 0.0),
    "nonnegative or flag": (*NO_NUMBER, -1, -1e-300, -1e308),
    "nonnegative": (*NO_NUMBER, True, -1, -1e-300, -1e308),
    "share": (*NO_NUMBER, True, -0.1, 1.1, -1e-12, 2, 1e308),
    "count": (*NO_NUMBER, True, -1, 1.5, -(2**63)),
    "flag": (None, "true", "", 2, -1, 0.5, [], {}, [True], Raw("NaN"), *TOO_MUCH[1:], "yes"),
    "text": (None, 1, 1.5, True, [], {}, ["a"], Raw("NaN"), *TOO_MUCH[1:]),
    "id": (None, 1.5, True, [], {}, ["a"], Raw("NaN"), *TOO_MUCH[1:], [1], {"a": 1}),
    "choice": (None, 1, True, [], {}, "", "x", " ", "MEAN", ["mean"], Raw("NaN"), Raw(DEEP)),
    "list": (None, 1, "x", {}, {"0": 1}, True, 1.5, Raw("NaN"), Raw(DEEP)),
    "names": (None, 1, "x", {}, [1], [""], [None], ["a", "a"], [["a"]], [True], Raw(DEEP)),
    "object": (None, 1, "x", [], [1], True, 1.5, Raw("NaN"), Raw(DEEP)),
}
"""Values that a field of each kind must not have."""

KINDS = {bool: "flag", int: "count", float: "number", str: "text", list: "list", dict: "object"}
"""Kinds of fields by the type of what stands there."""

Field = tuple[object, ...]


def dumps(content: object) -> bytes:
    """Write JSON; raw texts stand as they are."""
    raws: list[str] = []

    def swap(value: object) -> object:
        if isinstance(value, Raw):
            raws.append(str(value))
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: swap(inner) for key, inner in value.items()}
        return [swap(inner) for inner in value] if isinstance(value, list) else value

    text = json.dumps(swap(content))
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text.encode()


def with_line(lines: list[Any], at: int, line: bytes) -> bytes:
    """Write JSON Lines, one of which is given as it stands."""
    return b"".join((line if place == at else dumps(each)) + b"\n" for place, each in enumerate(lines))


def inside(content: Any, path: Field) -> Any:
    """Return what is at a path."""
    for part in path:
        content = content[part]
    return content


def replaced(content: Any, path: Field, value: object) -> Any:
    """Return a copy of JSON content with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(content, dict):
        return {**content, first: replaced(content.get(first), tuple(rest), value)}
    copy = list(content)
    copy[first] = replaced(copy[first], tuple(rest), value)  # type: ignore[index, call-overload]
    return copy


def paths(content: Any, path: Field = ()) -> Iterator[Field]:
    """Yield the paths of everything in it, itself first."""
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))


def twice(content: Any, path: Field, key: str, value: object) -> bytes:
    """Write JSON in which a key of the object at a path is there twice."""
    text = dumps(replaced(content, path, {"@twice@": 0, **inside(content, path)})).decode()
    return text.replace('"@twice@": 0', f"{json.dumps(key)}: {json.dumps(value)}", 1).encode()


def rewritten(content: object, rng: Random, *, shuffled: bool = True) -> bytes:
    """Write the same JSON otherwise: other spaces, other order of keys, letters as their numbers."""
    again = partial(rewritten, rng=rng, shuffled=shuffled)
    space = rng.choice([b"", b" ", b"  ", b"\t"])
    if isinstance(content, dict):
        pairs = list(content.items())
        if shuffled:
            rng.shuffle(pairs)
        return b"{" + b",".join(again(key) + space + b":" + again(value) for key, value in pairs) + b"}"
    if isinstance(content, list):
        return b"[" + b",".join(space + again(value) for value in content) + b"]"
    if isinstance(content, str) and content.isascii() and content.isalnum() and rng.random() < 0.5:
        at = rng.randrange(len(content))
        return f'"{content[:at]}\\u{ord(content[at]):04x}{content[at + 1 :]}"'.encode()
    return json.dumps(content).encode()


FOREIGN: dict[str, bytes] = {
    "nothing": b"", "one NUL": b"\0", "null": b"null", "true": b"true", "a number": b"1", "a text": b'"x"',
    "a list": b"[]", "an object": b"{}", "a list of objects": b"[{}]", "NaN": b"NaN",
    "an object of another kind": b'{"hello": "world"}', "deep lists": DEEP.encode(), "deep objects": b'{"a":' * 50_000,
    "deep and closed": b"[" * 50_000 + b"]" * 50_000, "5,000 digits": DIGITS.encode(),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "a page": b"<!DOCTYPE html><html></html>\n",
    "a table": b"a,b\n1,2\n", "a program": b"\x7fELF" + bytes(200), "a zip": b"PK\x03\x04" + bytes(100),
    "YAML": b"format: x\nschema_version: 1\n", "a byte order mark alone": b"\xef\xbb\xbf",
    "escape codes": b"\x1b[31m\x1b]0;title\x07",
}  # fmt: skip
"""What other files hold."""


def torn(text: bytes, rng: Random, *, lines: bool) -> Iterator[tuple[str, bytes]]:
    """Yield text that is no JSON document, or no lines of them, any more."""
    for _ in range(6):
        cut, at = rng.randrange(1, len(text) - 1), rng.randrange(len(text))
        within = not lines or text[cut - 1 : cut + 1].strip(b"\r\n ") == text[cut - 1 : cut + 1]
        if within and text[:cut].rstrip()[-1:] != b"}":
            yield f"cut after {cut} bytes", text[:cut]
        yield f"a NUL at {at}", text[:at] + b"\0" + text[at:]
        yield f"byte 0xff at {at}", text[:at] + b"\xff" + text[at:]
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        yield encoding, text.decode("utf-8").encode(encoding)
    yield "packed by gzip", gzip.compress(text, mtime=0)
    yield "backwards", text[::-1]
    yield "upper case", text.upper()
    yield "single quotes", text.replace(b'"', b"'")
    yield "a comment before it", b"// a comment\n" + text
    yield "a comma too much", text.rstrip()[:-1] + b",}"
    yield "a bracket too much", text.rstrip() + b"}"
    yield "a tab inside a text", text.replace(b'": ', b'\t": ', 1)


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


def case_of(
    door: Door, file: str, what: str, content: bytes, expects: str = REFUSE, names: tuple[str, ...] = ()
) -> Case:
    """Return a case of other bytes in a file."""

    def prepare(folder: Path) -> None:
        cleared(folder / file).write_bytes(content)

    return Case(door, what, prepare, expects, names, distinct(file + what[:4]) + distinct(content))


def no_files(door: Door, file: str, leave: tuple[str, ...] = ()) -> Iterator[Case]:
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
        if what not in leave:
            yield Case(door, f"{file} is {what}", prepare, REFUSE, names, f"{file} {what}")


def foreign(door: Door, file: str, loose: Callable[[bytes], bool] = lambda _: False) -> Iterator[Case]:
    """Put other files' content there; what is `loose` may be taken for a file that was cut short."""
    for what, content in FOREIGN.items():
        yield case_of(door, file, f"{file} holds {what}", content, EITHER if loose(content) else REFUSE)


def broken_text(door: Door, file: str, text: bytes, rng: Random, *, lines: bool = False) -> Iterator[Case]:
    """Break text at random places, and put there what is no such text."""
    for what, content in torn(text, rng, lines=lines):
        yield case_of(door, file, f"{file}: {what}", content)
    yield case_of(door, file, f"{file}: a byte order mark", b"\xef\xbb\xbf" + text, EITHER)
    yield from foreign(door, file)
    yield from no_files(door, file)


def fields_of(content: Any, leave: frozenset[object] = frozenset()) -> dict[Field, str]:
    """Return kinds for all fields of a document that are not empty, but those below a key to leave."""
    kinds = {path: KINDS.get(type(inside(content, path))) for path in paths(content)}
    return {path: kind for path, kind in kinds.items() if path and kind and not leave.intersection(path)}


def broken_fields(
    door: Door,
    file: str,
    content: Any,
    fields: Mapping[Field, str],
    rng: Random,
    *,
    write: Callable[[bytes], bytes] = bytes,
    expects: str = REFUSE,
    per_field: int = 99,
    repeats: int = 8,
    unknown: int = 0,
    names: tuple[str, ...] | None = None,
) -> Iterator[Case]:
    """Give fields of a document values that they must not have; take keys away, and put them there twice.

    `write` makes the file of the document's text; a refusal has one of `names`, by default a name along the path.
    """
    for path, kind in fields.items():
        shown = ".".join(map(str, path))
        said = tuple(part for part in path if isinstance(part, str)) if names is None else names
        for value in rng.sample(WRONG[kind], min(per_field, len(WRONG[kind]))):
            # What is not JSON is refused as such, before its fields are looked at.
            words = () if isinstance(value, Raw) else said
            changed = write(dumps(replaced(content, path, value)))
            yield case_of(door, file, f"{shown} is {str(value)[:20]!r}", changed, expects, words)
        if isinstance(path[-1], str):
            above = inside(content, path[:-1])
            kept = replaced(content, path[:-1], {key: each for key, each in above.items() if key != path[-1]})
            yield case_of(door, file, f"{shown} is not there", write(dumps(kept)), expects, said)
    places = [path for path in paths(content) if isinstance(inside(content, path), dict) and inside(content, path)]
    for _ in range(repeats):
        path = rng.choice(places)
        key = rng.choice(list(inside(content, path)))
        text = twice(content, path, key, rng.choice([inside(content, path)[key], 0, "other", None]))
        yield case_of(door, file, f"key {key!r} of {path} twice", write(text), expects)
    for number in range(unknown):
        key = rng.choice(["more", "", "__class__", "constructor", "\x1b[31mred", "é", "a" * 300]) + str(number)
        text = dumps(content | {key: rng.choice([1, None, "x", []])})
        yield case_of(door, file, f"unknown key {key[:20]!r}", write(text), expects)


def same(door: Door, file: str, content: Any, rng: Random, n: int, *, lines: bool = False) -> Iterator[Case]:
    """Write the same content otherwise, which must change nothing."""
    for number in range(n):
        # The first line says in which order names are shown.
        each = [rewritten(one, rng, shuffled=place > 0) + b"\n" for place, one in enumerate(content)] if lines else []
        text = b"".join(each) or rewritten(content, rng)
        yield case_of(door, file, f"{file} written otherwise {number}", text, SAME)


def broken_bytes(door: Door, file: str, rng: Random, *, cut: str = REFUSE) -> Iterator[Case]:
    """Cut a binary file, change bytes of it, and put there what is none; no checksum guards its numbers."""
    content = (door.base / file).read_bytes()
    for _ in range(8):
        at = rng.randrange(1, len(content) - 40)
        yield case_of(door, file, f"{file} cut after {at} bytes", content[:at], cut)
    for _ in range(24):
        at, n = rng.randrange(len(content)), rng.choice([1, 3, 64])
        yield case_of(
            door, file, f"{file} changed at {at}", content[:at] + rng.randbytes(n) + content[at + n :], EITHER
        )
    yield from foreign(door, file)
    yield from no_files(door, file)


def _own(folder: Path, name: str) -> Path:
    """Return the case a copy of its own of a valid file or folder, to change."""
    path, whole = folder / name, (folder / name).resolve()
    path.unlink()
    shutil.copytree(whole, path) if whole.is_dir() else shutil.copy(whole, path)
    return path


def broken_netcdf(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a netCDF file, whatever it holds."""
    yield from broken_bytes(door, name, rng, cut=EITHER)
    variables: list[str] = []
    with h5py.File(door.base / name, "r") as file:
        file.visititems(
            lambda each, found: variables.append(each) if isinstance(found, h5py.Dataset) and found.shape else None
        )

    def opened(change: Callable[[h5py.File, str], object], variable: str) -> Prepare:
        def prepare(folder: Path) -> None:
            with h5py.File(_own(folder, name), "r+") as file:
                change(file, variable)

        return prepare

    def linked(file: h5py.File, variable: str) -> None:
        file.move(variable, f"{variable}_moved")
        file[variable] = h5py.SoftLink(f"/{variable}_moved")

    def external(file: h5py.File, variable: str) -> None:
        shape = file[variable].shape
        del file[variable]
        file.create_dataset(variable, shape, "f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])

    for variable in rng.sample(variables, min(6, len(variables))):
        yield Case(door, f"{variable} is a link", opened(linked, variable))
        yield Case(door, f"{variable} is in another file", opened(external, variable))


def broken_zarr(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a Zarr store, whatever it holds."""
    whole = door.base / name
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    chunks = [file for file in files if file.name != "zarr.json"]

    def case(file: Path, what: str, change: Callable[[Path], object], expects: str = REFUSE) -> Case:
        return Case(door, f"{file} {what}", lambda folder: change(_own(folder, name) / file) and None, expects)

    def to_link(path: Path) -> None:
        path.unlink()
        path.symlink_to("/etc/passwd")

    for file in rng.sample(chunks, min(8, len(chunks))):
        cut, other = (whole / file).read_bytes()[:-3], rng.randbytes(40)
        yield case(file, "is missing", Path.unlink)
        yield case(file, "is cut", lambda path, cut=cut: path.write_bytes(cut))
        yield case(file, "is other bytes", lambda path, other=other: path.write_bytes(other))
        yield case(file, "is a link", to_link)
    for file in (each for each in files if each not in chunks):
        text = (whole / file).read_bytes()
        content = json.loads(text)
        texts = {"is cut": text[:-5], "is nested": FOREIGN["deep lists"], "is empty": b""}
        if "shape" in content:
            wrong = {"shape": [10**12], "data_type": "object", "zarr_format": 9, "codecs": [{"name": "pickle"}]}
            for key, value in [*wrong.items(), ("shape", "x"), ("codecs", "x"), ("fill_value", [1])]:
                texts[f"has {key} {value}"] = json.dumps(content | {key: value}).encode()
        for what, bad in texts.items():
            expects = EITHER if "fill_value" in what else REFUSE
            yield case(file, what, lambda path, bad=bad: path.write_bytes(bad), expects)
        yield case(file, "is missing", Path.unlink, EITHER if len(file.parts) > 1 else REFUSE)
    yield from (each for each in no_files(door, name, ("a folder",)))
