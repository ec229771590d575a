"""Paths that a user gives, and writing that leaves either the whole new file or the old one, never half of one."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError


def as_path(path: object) -> Path:
    """Return what a user gave as the name of a file or folder, if it can be one."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or "\0" in name:
        raise InvalidDataError("the name of a file or folder, as text or a pathlib.Path", field="path", value=path)
    return Path(name)


def read_text(path: str | os.PathLike[str], expected: str) -> str:
    """Read a UTF-8 text file; refuse one that is missing, a folder or a pipe.

    Parameters
    ----------
    path
        The file. A byte order mark at its start is dropped.
    expected
        What the file should have been, for the message.
    """
    file = regular_file(path, expected)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file}: not UTF-8 text (byte {error.start}); expected {expected}") from None


def parse_json(text: str | bytes, where: str, expected: str) -> Any:  # noqa: ANN401
    """Parse JSON from outside; refuse repeated keys, NaN, and nesting or numbers that Python cannot hold.

    Examples
    --------
    >>> parse_json('{"a": 1, "a": 2}', "fit.json", "a fit")
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.FileFormatError: fit.json: not valid JSON (the key 'a' is there twice); expected a fit
    """
    try:
        return strict_json(text)
    except ValueError as error:
        raise FileFormatError(f"{where}: not valid JSON ({error}); expected {expected}") from None


def strict_json(text: str | bytes, *, finite: bool = False) -> Any:  # noqa: ANN401
    """Parse JSON as `parse_json` does, but raise a ValueError that the caller puts into words.

    With `finite`, a number that is too large for double precision is wrong, too; a schema may refuse it later.
    """
    # Bytes are decoded here: JSON's own reader would take UTF-16 and UTF-32, too.
    known = text if isinstance(text, str) else text.decode("utf-8-sig")
    try:
        return json.loads(
            known,
            object_pairs_hook=_each_key_once,
            parse_constant=_no_constant,
            parse_float=_finite if finite else None,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {key[:80]!r} is there twice")
        out[key] = value
    return out


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:80]} is too large a number")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def regular_file(path: str | os.PathLike[str], expected: str) -> Path:
    """Return the path of a file that exists; opening a pipe or a device might never end."""
    file = as_path(path)
    if not file.exists():
        raise MissingFileError(f"{file}: no such file; expected {expected}")
    if not file.is_file():
        kind = "folder" if file.is_dir() else "pipe or device"
        raise FileFormatError(f"{file} is a {kind}; expected {expected}")
    return file


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder; what was written there takes the place of `path` at the end.

    The body creates a file or a folder at the path it is given. If it raises, what it wrote is removed and whatever
    was at `path` stays as it was. A file is replaced in one step, and so is a folder on Linux; elsewhere a folder takes
    two renames, and a process killed between them leaves no folder at `path`, but never a mixture of old and new. What
    a killed process left is removed when the same path is written again.

    Parameters
    ----------
    path
        The file or folder to write. Its parent folder must exist. A symbolic link is followed.

    Raises
    ------
    MissingFileError
        If the folder that should hold `path` does not exist.
    FileFormatError
        If the body wrote a file and `path` is an existing folder, which is left as it is.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "router.json") as temporary:
    ...     _ = temporary.write_text("{}")
    >>> [entry.name for entry in folder.iterdir()]
    ['router.json']
    """
    target = as_path(path).resolve()
    if not target.parent.is_dir():
        raise MissingFileError(f"{target.parent}: no such folder; expected the folder in which to write {target.name}")
    _clear_leftovers(target)
    temporary = target.with_name(f"{_prefix(target)}{_identity(os.getpid())}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if temporary.is_dir():
            _swap_folder(temporary, target)
        elif target.is_dir():
            raise FileFormatError(f"{target} is a folder; expected the name of a file to write")
        else:
            _flush(temporary)
            temporary.replace(target)
    except BaseException:
        _remove(temporary, pause=0.1)
        raise
    _remove(temporary)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Yield a new temporary folder that only this user can read; it is removed at the end.

    What processes that were killed left under the same name is removed first.

    Parameters
    ----------
    name
        What it is for.
    """
    target = Path(tempfile.gettempdir()).resolve() / name
    _clear_leftovers(target)
    folder = target.with_name(f"{_prefix(target)}{_identity(os.getpid())}-{secrets.token_hex(4)}.tmp")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        _remove(folder)


def writable_page(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Return the path of a page, .html or .htm, if it can be written there."""
    target = as_path(path)
    folder = target.resolve().parent
    if target.suffix not in (".html", ".htm"):
        raise FileFormatError(f"{target}: suffix is {target.suffix!r}; expected .html or .htm")
    if target.is_dir():
        raise FileFormatError(f"{target}: is a folder; expected a file to write")
    if not folder.is_dir():
        raise MissingFileError(f"{target.parent}: no such folder; expected the folder in which to write {target.name}")
    if target.exists() and not overwrite:
        raise FileFormatError(f"{target}: exists; expected a new name, or overwrite=True")
    if not os.access(folder, os.W_OK):
        raise FileFormatError(f"{target}: cannot be written (no permission in {folder})")
    return target


def save_page(target: Path, page: str) -> None:
    """Write a page; it appears under its name only once it is complete."""
    try:
        with atomic_path(target) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except MissingFileError:
        raise
    except OSError as error:
        raise FileFormatError(f"{target}: cannot be written ({error.strerror})") from error


def is_store(path: Path) -> bool:
    """Check whether a folder is empty, or a Zarr store or Parquet tables and nothing else: what may be replaced."""
    entries = list(path.iterdir()) if path.is_dir() else []
    zarr = all(entry.name == "zarr.json" or (entry / "zarr.json").is_file() for entry in entries)
    parquet = all(entry.suffix == ".parquet" and entry.is_file() for entry in entries)
    return path.is_dir() and ((zarr and (not entries or (path / "zarr.json").is_file())) or parquet)


def _prefix(target: Path) -> str:
    # The beginning of temporary names, which a file system may limit to 255 bytes.
    name = target.name
    return f".{name}." if len(name.encode()) <= 180 else f".{hashlib.sha256(name.encode()).hexdigest()[:32]}."


def _started(process: int) -> str:
    # When a process started, where the system says so: numbers of processes are used again.
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _identity(process: int) -> str:
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
    return f"{host}-{process}-{_started(process)}"


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _clear_leftovers(target: Path) -> None:
    """Remove what killed runs left beside the target; put back a folder that one of them had moved away."""
    prefix = _prefix(target)
    folder = target.parent
    # As plain names: a folder may hold many thousands of others.
    names = (entry.name for entry in os.scandir(folder)) if os.access(folder, os.R_OK) else ()
    for name in sorted(name for name in names if name.startswith(prefix)):
        path = target.with_name(name)
        found = re.fullmatch(r"(\w{6})-(\d+)-(\d+)-\w{8}\.tmp(\.old)?", name.removeprefix(prefix))
        if found is None:
            continue
        host, process, started, moved = found.groups()
        own = _identity(int(process))
        if not own.startswith(host) or (_runs(int(process)) and own == f"{host}-{process}-{started}"):
            continue
        if moved and not target.exists():
            path.rename(target)
        else:
            _remove(path)


def _swap_folder(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
    elif not _exchanged(temporary, target):
        old = target.with_name(f"{temporary.name}.old")
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        _remove(old)


def _exchanged(one: Path, other: Path) -> bool:
    # Two folders change names in one step, where the system can.
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform.startswith("linux") else None
    here, both = -100, 2
    return exchange is not None and exchange(here, os.fsencode(one), here, os.fsencode(other), both) == 0


def _flush(file: Path) -> None:
    # The operating system writes the content before the name points to it.
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


def _remove(path: Path, pause: float = 0.0) -> None:
    """Remove a file or folder; what cannot be removed now, the next writer of the same file removes."""
    if not path.is_dir() or path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return
    # Whoever was stopped while it wrote the folder may have threads that still write, and make it anew.
    for _ in range(30):
        shutil.rmtree(path, ignore_errors=True)
        time.sleep(pause)
        if not path.exists():
            return
