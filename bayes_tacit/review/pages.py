"""Pages as files: refused before anything is computed, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.files import as_path, atomic_path


def writable_page(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Return the path of a page, .html or .htm, if it can be written there."""
    target = as_path(path)
    if target.suffix not in (".html", ".htm"):
        raise FileFormatError(f"{target}: suffix is {target.suffix!r}; expected .html or .htm")
    if target.is_dir():
        raise FileFormatError(f"{target}: is a folder; expected a file to write")
    if not target.resolve().parent.is_dir():
        raise MissingFileError(f"{target.parent}: no such folder; expected the folder in which to write {target.name}")
    if target.exists() and not overwrite:
        raise FileFormatError(f"{target}: exists; expected a new name, or overwrite=True")
    if not os.access(target.resolve().parent, os.W_OK):
        raise FileFormatError(f"{target}: cannot be written (no permission in {target.resolve().parent})")
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
