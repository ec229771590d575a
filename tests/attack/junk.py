"""What is wrong with text, JSON, netCDF and Zarr, and cases that put it in the place of a file."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
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


NOT_NUMBERS = (None, "1", "", [], {}, [1], {"a": 1}, Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), "NaN", "\uff11")
TOO_LARGE = (Raw("1e999"), Raw("-1e999"), Raw(DIGITS), Raw(DEEP))
WRONG: dict[str, tuple[object, ...]] = {
    "number": (*NOT_NUMBERS, *TOO_LARGE, True),
    "number or flag": (*NOT_NUMBERS, *TOO_LARGE),
    "positive": (*NOT_NUMBERS, *TOO_LARGE, True, 0, -1, -1e-300, 0.0),
    "nonnegative": (*NOT_NUMBERS, *TOO_LARGE, True, -1, -1e-300, -1e308),
    "nonnegative or flag": (*NOT_NUMBERS, *TOO_LARGE, -1, -1e-300, -1e308),
    "share": (*NOT_NUMBERS, *TOO_LARGE, True, -0.1, 1.1, -1e-12, 2, 1e308),
    "count": (*NOT_NUMBERS, Raw("1e999"), Raw(DIGITS), Raw(DEEP), True, -1, 1.5, -(2**63)),
    "flag": (None, "true", "", 2, -1, 0.5, [], {}, [True], Raw("NaN"), Raw(DIGITS), Raw(DEEP), "yes"),
    "text": (None, 1, 1.5, True, [], {}, ["a"], Raw("NaN"), Raw(DIGITS), Raw(DEEP)),
    "id": (None, 1.5, True, [], {}, ["a"], Raw("NaN"), Raw(DIGITS), Raw(DEEP), [1], {"a": 1}),
    "choice": (None, 1, True, [], {}, "", "x", " ", "MEAN", ["mean"], Raw("NaN"), Raw(DEEP)),
    "numbers": (None, 1, "x", {}, [None], ["1"], [[]], [True], [Raw("NaN")], [Raw("1e999")], [[[1.0]]], Raw(DEEP)),
    "names": (None, 1, "x", {}, [1], [""], [None], ["a", "a"], [["a"]], [True], Raw(DEEP)),
    "object": (None, 1, "x", [], [1], True, 1.5, Raw("NaN"), Raw(DEEP)),
    "list": (None, 1, "x", {}, {"0": 1}, True, 1.5, Raw("NaN"), Raw(DEEP)),
}
"""Values that a field of each kind must not have."""


def dumps(content: object) -> bytes:
    """Write JSON; raw texts stand as they are."""
    raws: list[str] = []

    def swap(value: object) -> object:
        if isinstance(value, Raw):
            raws.append(str(value))
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: swap(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [swap(inner) for inner in value]
        return value

    text = json.dumps(swap(content))
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text.encode()


def replaced(content: Any, path: tuple[object, ...], value: object) -> Any:
    """Return a copy of JSON content with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(content, dict):
        return {**content, first: replaced(content.get(first), tuple(rest), value)}
    copy = list(content)
    copy[first] = replaced(copy[first], tuple(rest), value)  # type: ignore[index, call-overload]
    return copy


def removed(content: Any, path: tuple[object, ...]) -> Any:
    """Return a copy without what is at a path."""
    *above, last = path
    inner = content
    for part in above:
        inner = inner[part]
    if isinstance(inner, dict):
        kept: object = {key: value for key, value in inner.items() if key != last}
    else:
        kept = [value for place, value in enumerate(inner) if place != last]
    return replaced(content, tuple(above), kept)


def objects(content: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Yield the paths of all objects that have a key."""
    if isinstance(content, dict) and content:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from objects(value, (*path, key))


def twice(content: Any, path: tuple[object, ...], key: str, value: object) -> bytes:
    """Write JSON in which a key of the object at a path is there twice."""
    mark = "@twice@"
    inner = content
    for part in path:
        inner = inner[part]
    text = dumps(replaced(content, path, {mark: 0, **inner})).decode()
    return text.replace(f'"{mark}": 0', f"{json.dumps(key)}: {json.dumps(value)}", 1).encode()


def rewritten(content: object, rng: Random, *, shuffled: bool = True) -> bytes:
    """Write the same JSON otherwise: other spaces, other order of keys, letters as their numbers."""

    def again(value: object) -> str:
        return rewritten(value, rng, shuffled=shuffled).decode()

    if isinstance(content, dict):
        pairs = list(content.items())
        if shuffled:
            rng.shuffle(pairs)
        inner = ",".join(f"{_text(key, rng)}{_space(rng)}:{again(value)}" for key, value in pairs)
        return ("{" + inner + "}").encode()
    if isinstance(content, list):
        inner = ",".join(f"{_space(rng)}{again(value)}" for value in content)
        return ("[" + inner + "]").encode()
    if isinstance(content, str):
        return _text(content, rng).encode()
    if isinstance(content, float) and rng.random() < 0.3:
        return f"{content!r}".replace("e", "E").encode()
    return json.dumps(content).encode()


def _space(rng: Random) -> str:
    return rng.choice(["", " ", "  ", "\t"])


def _text(text: str, rng: Random) -> str:
    if not text or rng.random() < 0.5:
        return json.dumps(text)
    place = rng.randrange(len(text))
    if not text[place].isalnum() or not text[place].isascii():
        return json.dumps(text)
    return json.dumps(text[:place])[:-1] + f"\\u{ord(text[place]):04x}" + json.dumps(text[place + 1 :])[1:]


def torn(text: bytes, rng: Random, *, lines: bool) -> Iterator[tuple[str, bytes]]:
    """Yield text that is no JSON document, or no lines of them, any more."""
    for _ in range(8):
        cut = rng.randrange(1, len(text) - 1)
        within = not lines or text[cut - 1 : cut + 1].strip(b"\r\n ") == text[cut - 1 : cut + 1]
        if within and text[:cut].rstrip()[-1:] != b"}":
            yield f"cut after {cut} bytes", text[:cut]
    for _ in range(6):
        place = rng.randrange(len(text))
        yield f"a NUL at {place}", text[:place] + b"\0" + text[place:]
        yield f"byte 0xff at {place}", text[:place] + b"\xff" + text[place:]
    whole = text.decode("utf-8")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        yield encoding, whole.encode(encoding)
    yield "packed by gzip", gzip.compress(text, mtime=0)
    yield "backwards", text[::-1]
    yield "upper case", text.upper()
    yield "single quotes", text.replace(b'"', b"'")
    yield "a comment before it", b"// a comment\n" + text
    yield "a comma too much", text.rstrip()[:-1] + b",}"
    yield "a bracket too much", text.rstrip() + b"}"
    yield "a tab inside a text", text.replace(b'": ', b'\t": ', 1)


FOREIGN: dict[str, bytes] = {
    "nothing": b"",
    "one NUL": b"\0",
    "null": b"null",
    "true": b"true",
    "a number": b"1",
    "a text": b'"x"',
    "a list": b"[]",
    "an object": b"{}",
    "a list of objects": b"[{}]",
    "NaN": b"NaN",
    "an object of another kind": b'{"hello": "world"}',
    "deep lists": DEEP.encode(),
    "deep objects": b'{"a":' * 50_000,
    "deep and closed": b"[" * 50_000 + b"]" * 50_000,
    "5,000 digits": DIGITS.encode(),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "a page": b"<!DOCTYPE html><html></html>\n",
    "a table": b"a,b\n1,2\n",
    "a program": b"\x7fELF" + bytes(200),
    "a zip": b"PK\x03\x04" + bytes(100),
    "YAML": b"format: x\nschema_version: 1\n",
    "a byte order mark alone": b"\xef\xbb\xbf",
    "escape codes": b"\x1b[31m\x1b]0;title\x07",
}
"""What other files hold."""


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
    """Return a case of other bytes."""
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
    """Yield fields values that they must not have, and take them away."""
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
    """Return the names along a path, of which a refusal must have one."""
    return tuple(str(part) for part in path if isinstance(part, str))


def repeated_keys(
    door: Door, file: str, content: Any, rng: Random, n: int, *, write: Callable[[bytes], bytes] = bytes
) -> Iterator[Case]:
    """Yield random keys twice, with the same value and with another one."""
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


def own(folder: Path, name: str) -> Path:
    """Return the case a copy of its own of a valid file or folder, to change."""
    path = folder / name
    whole = path.resolve()
    path.unlink()
    shutil.copytree(whole, path) if whole.is_dir() else shutil.copy(whole, path)
    return path


def opened(name: str, change: Callable[[h5py.File], object]) -> Prepare:
    """Change a netCDF file in place."""

    def prepare(folder: Path) -> None:
        with h5py.File(own(folder, name), "r+") as file:
            change(file)

    return prepare


def broken_netcdf(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a netCDF file, whatever it holds."""
    content = (door.base / name).read_bytes()
    yield from foreign(door, name)
    for _ in range(12):
        cut = rng.randrange(1, len(content))
        yield case_of(door, name, f"cut after {cut} bytes", content[:cut], EITHER)
    for _ in range(30):
        places = [rng.randrange(len(content)) for _ in range(rng.choice([1, 4, 64]))]
        changed = bytearray(content)
        for place in places:
            changed[place] = rng.randrange(256)
        # No checksum guards them: numbers may be other numbers.
        yield case_of(door, name, f"bytes changed at {places[0]}", bytes(changed), EITHER)
    yield case_of(door, name, "packed by gzip", FOREIGN["a zip"] + content)
    variables = _variables(door.base / name)
    for variable in rng.sample(variables, min(6, len(variables))):
        yield Case(door, f"{variable} is a link", opened(name, lambda file, each=variable: _linked(file, each)))
        yield Case(
            door, f"{variable} is in another file", opened(name, lambda file, each=variable: _external(file, each))
        )


def broken_zarr(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a Zarr store, whatever it holds."""
    whole = door.base / name
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    chunks = [file for file in files if file.name != "zarr.json"]
    described = [file for file in files if file.name == "zarr.json"]

    def remove(file: Path) -> Prepare:
        return lambda folder: (own(folder, name) / file).unlink()

    def rewrite(file: Path, content: bytes) -> Prepare:
        return lambda folder: (own(folder, name) / file).write_bytes(content) and None

    for file in rng.sample(chunks, min(8, len(chunks))):
        yield Case(door, f"{file} is missing", remove(file))
        yield Case(door, f"{file} is cut", rewrite(file, (whole / file).read_bytes()[:-3]))
        yield Case(door, f"{file} is other bytes", rewrite(file, rng.randbytes(40)))
        yield Case(door, f"{file} is a link", lambda folder, file=file: _to_link(own(folder, name) / file))
    for file in described:
        yield Case(door, f"{file} is cut", rewrite(file, (whole / file).read_bytes()[:-5]))
        yield Case(door, f"{file} is nested", rewrite(file, FOREIGN["deep lists"]))
        yield Case(door, f"{file} is empty", rewrite(file, b""))
        content = json.loads((whole / file).read_bytes())
        if "shape" in content:
            for key, value in (
                ("shape", [10**12]),
                ("shape", "x"),
                ("data_type", "object"),
                ("codecs", [{"name": "pickle"}]),
                ("zarr_format", 9),
                ("codecs", "x"),
                ("fill_value", [1]),
            ):
                changed = json.dumps(content | {key: value}).encode()
                yield Case(
                    door, f"{file}: {key} is {value}", rewrite(file, changed), REFUSE if key != "fill_value" else EITHER
                )
        yield Case(door, f"{file} is missing", remove(file), EITHER if len(file.parts) > 1 else REFUSE)


def _variables(path: Path) -> list[str]:
    found: list[str] = []
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, each: found.append(name) if isinstance(each, h5py.Dataset) and each.shape else None
        )
    return found


def _linked(file: h5py.File, name: str) -> None:
    file.move(name, f"{name}_moved")
    file[name] = h5py.SoftLink(f"/{name}_moved")


def _external(file: h5py.File, name: str) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, shape, "f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


def _to_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")
