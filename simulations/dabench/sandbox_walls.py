"""The kernel's walls around a call: namespaces, a file system of its own, no privileges, Landlock.

Imported by `sandbox_runner`, and like it imports nothing of ours. Numbers are those of the kernel's headers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import struct
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache

SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/urandom", "/dev/random", "/sys/devices/system/cpu")
INSIDE = "/tool"
"""The working folder's name in the file system of its own."""

NOBODY = 65534
HOST = "tool"
"""The machine's name inside."""


@cache
def readable_paths() -> tuple[str, ...]:
    """Give what a call may read: Python's library, as named and as it really is, the system's, and a few devices."""
    paths = sysconfig.get_paths()
    library = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    library += [os.path.realpath(path) for path in library]
    return (*sorted(set(library)), *SYSTEM, *DEVICES)


def own_namespaces(libc: ctypes.CDLL) -> str | None:
    """Leave the machine's network, processes, mounts and shared memory.

    Returns
    -------
    str or None
        How: "root", which becomes nobody later, or "user", a namespace in which this user has powers over nothing else.
    """
    uid, gid = os.getuid(), os.getgid()
    names = "CLONE_NEWNET CLONE_NEWPID CLONE_NEWNS CLONE_NEWIPC CLONE_NEWUTS"
    for how, more in (("root", ""), ("user", " CLONE_NEWUSER")):
        try:
            os.unshare(sum(getattr(os, name) for name in (names + more).split()))
            if how == "user":
                for name, text in (
                    ("setgroups", "deny"),
                    ("gid_map", f"{NOBODY} {gid} 1"),
                    ("uid_map", f"{NOBODY} {uid} 1"),
                ):
                    with open(f"/proc/self/{name}", "w") as file:
                        file.write(text)
        except (AttributeError, OSError):
            continue
        libc.sethostname(HOST.encode(), len(HOST))
        return how
    return None


def own_files(libc: ctypes.CDLL, root: str, folder: str, readable: Sequence[str], room: int) -> bool:
    """Go into a file system with what is readable, read-only, and a small folder in memory; nothing else is there.

    Parameters
    ----------
    root
        An empty folder to build it on.
    folder
        Files to copy into the new folder.
    readable
        What to show.
    room
        Bytes that the folder may hold beyond these copies.
    """
    bind, recursive, private, detach = 4096, 16384, 1 << 18, 2
    no_suid, no_devices, no_programs = 2, 4, 8
    pivot = {"x86_64": 155, "aarch64": 41}.get(platform.machine())
    tables = sorted(os.scandir(folder), key=lambda entry: entry.name)
    room += sum(table.stat().st_size + 4096 for table in tables)

    def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
        texts = [None if text is None else text.encode() for text in (source, target, kind, options)]
        if libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]) != 0:
            raise OSError(ctypes.get_errno(), f"mount {target}")

    def settle(target: str, flags: int) -> None:
        """Set flags of a mount and those in it."""
        attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
        if libc.syscall(442, -100, target.encode(), 0x8000, ctypes.c_char_p(attributes), ctypes.c_size_t(32)) != 0:
            raise OSError(ctypes.get_errno(), f"mount_setattr {target}")

    try:
        if pivot is None:
            return False
        os.umask(0o022)
        mount("none", "/", None, recursive | private)
        mount("tmpfs", root, "tmpfs", no_suid, "size=1m,mode=755")
        shown: list[str] = []
        for path in sorted(set(readable), key=len):
            if not os.path.lexists(path) or any(path.startswith(os.path.join(each, "")) for each in shown):
                continue
            target = root + path
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.islink(path):
                os.symlink(os.readlink(path), target)
                continue
            if os.path.isdir(path):
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
            mount(path, target, None, bind | recursive)
            shown.append(path)
        for name in (INSIDE, "/proc"):
            os.mkdir(root + name)
        settle(root, 1 | no_suid)
        mount(
            "tmpfs", root + INSIDE, "tmpfs", no_suid | no_devices | no_programs, f"size={room},nr_inodes=10000,mode=777"
        )
        for table in tables:
            shutil.copyfile(table.path, f"{root}{INSIDE}/{table.name}")
            os.chmod(f"{root}{INSIDE}/{table.name}", 0o444)
        # Where parts of the machine's own are hidden, the kernel shows no other. Python does without.
        with contextlib.suppress(OSError):
            mount("proc", f"{root}/proc", "proc", no_suid | no_devices | no_programs)
        os.chdir(root)
        if libc.syscall(pivot, b".", b".") != 0 or libc.umount2(b".", detach) != 0:
            return False
        os.chdir(INSIDE)
    except OSError:
        return False
    return True


def no_privileges(libc: ctypes.CDLL, how: str) -> bool:
    """Become nobody, or give up every capability in the user namespace; and check that Python can still be read."""
    try:
        if how == "root":
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        call = {"x86_64": 126, "aarch64": 91}.get(platform.machine())
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        if call is None or libc.syscall(call, ctypes.c_char_p(header), ctypes.c_char_p(none)) != 0:
            return False
        return os.access(os.__file__, os.R_OK) and 0 not in os.getresuid()
    except OSError:
        return False


def landlock(libc: ctypes.CDLL, readable: Sequence[str], folder: str) -> bool:
    """Have the kernel refuse files elsewhere, TCP, and signals to processes outside, as far as it can.

    Rights are bits, and each version of the interface adds some.
    """
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    execute, write_file, read_file, read_folder = 1, 2, 4, 8
    every = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    of_files = execute | write_file | read_file | (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    attributes = struct.pack("=QQQ", every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = libc.syscall(create, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        return False
    granted = [(path, execute | read_file | read_folder) for path in readable]
    granted += [(folder, every), ("/dev/null", read_file | write_file)]
    for path, rights in granted:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = rights if os.path.isdir(path) else rights & of_files
        rule = struct.pack("=Qi", allowed & every, handle)
        libc.syscall(add, rules, ctypes.c_int(1), ctypes.c_char_p(rule), ctypes.c_uint32(0))
        os.close(handle)
    set_no_new_privileges = 38
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    done = libc.syscall(restrict, rules, ctypes.c_uint32(0)) == 0
    os.close(rules)
    return bool(done)


def dies_with_parent(libc: ctypes.CDLL) -> None:
    """Have the kernel end this process when the one that started it ends."""
    if sys.platform.startswith("linux"):
        set_parent_death_signal = 1
        libc.prctl(set_parent_death_signal, 9, 0, 0, 0)
