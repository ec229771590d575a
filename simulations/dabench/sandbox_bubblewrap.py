"""Bubblewrap, where it is installed: it raises the namespaces and the file system around a call.

Distributions that keep user namespaces from other programs let this one have them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from simulations.dabench.sandbox_walls import DEVICES, HOST, INSIDE, NOBODY, readable_paths

NAME = "bubblewrap"
RUNNER = "/runner"
"""The folder inside that holds the script which is run."""


def installed() -> str | None:
    """Find it."""
    return shutil.which("bwrap")


@cache
def works() -> bool:
    """Tell whether it is installed, and may do here what it is for."""
    if installed() is None:
        return False
    own = Path(__file__)
    try:
        probe = [
            *command(own.parent / "none", own.with_name("sandbox_runner.py"), 2**20),
            sys.executable,
            "-I",
            "-c",
            "",
        ]
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def command(folder: Path, runner: Path, room: int) -> list[str]:
    """Give the words that come before a program, which is then run behind these walls.

    Parameters
    ----------
    folder
        Files to show in the working folder, read-only.
    runner
        The script that is run inside; it and the files beside it that begin with the same word are in `RUNNER` there.
    room
        Bytes that the working folder may hold.
    """
    words = [installed() or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    words += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", HOST, "--cap-drop", "ALL", "--proc", "/proc"]
    shown: list[str] = []
    for path in sorted(set(readable_paths()), key=len):
        if not os.path.lexists(path) or any(path.startswith(os.path.join(each, "")) for each in shown):
            continue
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
            continue
        words += ["--dev-bind" if path in DEVICES and path.startswith("/dev/") else "--ro-bind", path, path]
        shown.append(path)
    # Python is started inside, so it needs its program, as a shared library, too, and what says where its modules are.
    library = Path(*(sysconfig.get_config_var(name) or "none" for name in ("LIBDIR", "INSTSONAME")))
    needed = {sys.executable: os.path.realpath(sys.executable)}
    needed |= {str(file): str(file) for file in (Path(sys.prefix, "pyvenv.cfg"), library)}
    needed |= {f"{RUNNER}/{file.name}": str(file) for file in runner.parent.glob("sandbox_*.py")}
    for name, source in needed.items():
        if os.path.isfile(source) and not any(name.startswith(os.path.join(each, "")) for each in shown):
            words += ["--ro-bind", source, name]
    words += ["--size", str(room), "--tmpfs", INSIDE]
    for table in sorted(folder.iterdir()) if folder.is_dir() else ():
        words += ["--ro-bind", str(table), f"{INSIDE}/{table.name}"]
    return [*words, "--remount-ro", "/", "--chdir", INSIDE, "--"]
