"""Commands that write where there is no room, or nothing may be written: one clear line, and nothing is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attack.signals import Writer, ended, started

BAD_INPUT = 2


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk in memory of so many bytes, if this system lets us."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=400", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise PermissionError("no disk in memory can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(home: Path) -> bool:
    """Tell whether disks can be mounted here."""
    try:
        with small_disk(home / "trial", 2**16):
            return True
    except (OSError, subprocess.SubprocessError):
        return False


def full_disk(writer: Writer, base: Path, home: Path, size: int) -> list[str]:
    """Write on a disk of so many bytes."""
    with small_disk(home / f"disk{size}", size) as folder:
        return _told(writer, base, folder, home / f"said{size}", f"{writer.name} on a disk of {size} bytes")


def read_only(writer: Writer, base: Path, home: Path) -> list[str]:
    """Write on a disk that may only be read."""
    with small_disk(home / "fixed", 2**20) as folder:
        for entry in base.iterdir():
            (folder / entry.name).symlink_to(entry)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        return _told(writer, base, folder, home / "said-fixed", f"{writer.name} on a disk that may only be read")


def limited(writer: Writer, base: Path, home: Path, size: int) -> list[str]:
    """Write files of at most so many bytes."""
    folder = home / f"limited{size}"
    folder.mkdir()

    def run() -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return writer.run()

    return _told(writer, base, folder, home / f"said-limited{size}", f"{writer.name}, files of {size} bytes", run)


def _told(writer: Writer, base: Path, folder: Path, said: Path, where: str, run: object = None) -> list[str]:
    """Run it, and say what is wrong with how it ended; it may also have had room enough."""
    for entry in base.iterdir():
        if not (folder / entry.name).is_symlink():
            (folder / entry.name).symlink_to(entry)
    before = {entry.name for entry in folder.iterdir()}
    # What it says must not need the room that it has not.
    with said.open("wb"):
        pass
    code = ended(started(run or writer.run, folder, said))  # type: ignore[arg-type]
    left = {entry.name for entry in folder.iterdir()} - before
    lines = [line for line in said.read_text(errors="replace").splitlines() if not line.startswith("note: ")]
    if code == 0:
        whole = (folder / writer.out).exists() and writer.content(folder / writer.out) is not None
        return (
            [] if whole and left <= {writer.out, *writer.beside} else [f"{where}: ended well, and left {sorted(left)}"]
        )
    wrong = []
    if code != BAD_INPUT:
        wrong.append(f"{where}: ended with {code}: {lines[-3:]}")
    elif len(lines) != 1 or not lines[0].startswith("error: "):
        wrong.append(f"{where}: said {lines[-4:]}")
    if left - {*writer.beside}:
        wrong.append(f"{where}: left {sorted(left)}")
    return wrong


def sizes(folder: Path, out: str) -> list[int]:
    """Give sizes of disks between too small for anything and nearly enough for what is written there."""
    path = folder / out
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    pages = sum(-(-file.stat().st_size // os.sysconf("SC_PAGE_SIZE")) for file in files) + 2
    return sorted({max(1, int(pages * share)) * os.sysconf("SC_PAGE_SIZE") for share in (0.01, 0.2, 0.5, 0.8, 0.95)})
