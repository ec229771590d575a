"""Paths that a user gives, and writing that leaves either the whole new file or the old one, never half of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError


def as_path(path: object) -> Path:
    """Return what a user gave as the name of a file or folder, if it can be one.

    Examples
    --------
    >>> as_path(None)
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.InvalidDataError: path is None; expected the name of a file or folder, as text or a pathlib.Path
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or "\0" in name:
        raise InvalidDataError("the name of a file or folder, as text or a pathlib.Path", field="path", value=path)
    return Path(name)


def read_text(path: str | os.PathLike[str], expected: str) -> str:
    """Read a text file; what is missing, a folder, a pipe or not UTF-8 is refused in words.

    Parameters
    ----------
    path
        The file. A byte order mark at its start is dropped.
    expected
        What the file should have been, for the message.

    Examples
    --------
    >>> read_text("no-such-file", "marks, one a line")
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.MissingFileError: no-such-file: no such file; expected marks, one a line
    """
    file = regular_file(path, expected)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file}: not UTF-8 text (byte {error.start}); expected {expected}") from None


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
    was at `path` stays as it was. A file is replaced in one step. A folder takes two renames, so a process killed
    between them leaves no folder at `path`, but never a mixture of old and new.

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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        if temporary.is_dir():
            _swap_folder(temporary, target)
        elif target.is_dir():
            raise FileFormatError(f"{target} is a folder; expected the name of a file to write")
        else:
            _flush(temporary)
            temporary.replace(target)
    finally:
        _remove(temporary)


def _swap_folder(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    old = target.with_name(f"{temporary.name}.old")
    target.rename(old)
    try:
        temporary.rename(target)
    except BaseException:
        old.rename(target)
        raise
    _remove(old)


def _flush(file: Path) -> None:
    """Have the operating system write the content before the name points to it."""
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
