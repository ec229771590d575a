"""What is wrong with a netCDF file or a Zarr store, whatever it holds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import h5py
from attack.case import EITHER, REFUSE, Case, Door, Prepare
from attack.junk import FOREIGN
from attack.putting import case_of, foreign


def own(folder: Path, name: str) -> Path:
    """Give the case a copy of its own of a valid file or folder, to change."""
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
