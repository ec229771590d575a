"""Every system call of x86_64 that is not on the list of those that are needed, by its number alone."""

from __future__ import annotations

import re

from simulations.dabench.sandbox_syscalls import CALLS

LOOKED_INTO = {"clone": 56, "prlimit64": 302, "ioctl": 16, "fcntl": 72, "tgkill": 234}
FOR_THE_KERNEL = (335, 336)
"""Calls that the kernel itself plants in programs that it watches; whoever makes them otherwise is killed at once."""

LAST = 480
"""Beyond it there are none yet."""


def tricks() -> dict[str, str]:
    allowed = {int(number) for number in re.findall(r"=(\d+)/", CALLS)} | set(LOOKED_INTO.values())
    return {
        f"number {n}": f"past('call({n}, 0, 0, 0, 0, 0, 0)')"
        for n in range(LAST)
        if n not in {*allowed, *FOR_THE_KERNEL}
    }
