"""What may be done through an open descriptor: the library's files, folders, and the file that output goes to."""

from __future__ import annotations

HANDLES = {
    "library": "os.open(os.__file__, 0)",
    "folder of the library": "os.open(os.path.dirname(os.__file__), 0)",
    "root": "os.open('/', os.O_PATH)",
    "output": "1",
}

CALLS = {
    "fchmod": "call(91, {fd}, 0o777)",
    "fchown": "call(93, {fd}, 65534, 65534)",
    "fchmodat empty": "call(452, {fd}, b'', 0o777, 0x1000)",
    "fchownat empty": "call(260, {fd}, b'', 65534, 65534, 0x1000)",
    "futimens": "call(280, {fd}, 0, 0, 0)",
    "fsetxattr": "call(190, {fd}, b'user.x', b'1', 1, 0)",
    "fremovexattr": "call(199, {fd}, b'user.x')",
    "flock": "call(73, {fd}, 2)",
    "lease": "call(72, {fd}, 1024, 0)",
    "notify": "call(72, {fd}, 1026, 1)",
    "owner": "call(72, {fd}, 8, PARENT)",
    "signal": "call(72, {fd}, 10, 9)",
    "async": "call(16, {fd}, 0x5452, buffer)",
    "flags of the file": "call(16, {fd}, 0x40086602, buffer)",
    "clone of the file": "call(16, {fd}, 0x40049409, 1)",
    "freeze": "call(16, {fd}, 0xC0045877, 0)",
    "quota": "call(443, {fd}, 0, 0, buffer)",
    "mount as fd": "call(428, {fd}, b'', 0x1001)",
    "handle": "call(303, {fd}, b'', buffer, buffer, 0x1000)",
    "watch": "call(301, {fd}, 1, 1, {fd}, 0)",
    "send it": "call(46, {fd}, buffer, 0)",
    "receive": "call(47, {fd}, buffer, 0)",
    "read by ring": "call(426, {fd}, 1, 1, 0, 0)",
    "chroot": "call(161, {fd})",
    "execveat": "call(322, {fd}, b'', 0, 0, 0x1000)",
    "new namespace": "call(308, {fd}, 0)",
    "signal by it": "call(424, {fd}, 9, 0, 0)",
    "descriptor of it": "call(438, {fd}, 0, 0)",
    "splice": "call(275, {fd}, 0, {fd}, 0, 9, 0)",
    "tee": "call(276, {fd}, {fd}, 9, 0)",
    "sync of the disk": "call(306, {fd})",
}
WRITING = {
    "write": "call(1, {fd}, b'mine', 4)",
    "pwrite": "call(18, {fd}, b'mine', 4, 0)",
    "ftruncate": "call(77, {fd}, 0)",
    "fallocate": "call(285, {fd}, 0, 0, 4096)",
    "shared mapping": "-1 if call(9, 0, 4096, 3, 1, {fd}, 0) == -1 else 1",
    "copy": "call(326, {fd}, 0, {fd}, 0, 9, 0)",
    "reopened": "libc.open(b'/proc/self/fd/%d' % {fd}, 2)",
    "reopened to append": "libc.open(b'/proc/self/fd/%d' % {fd}, 0o2001)",
    "linked": "call(265, {fd}, b'', -100, b'stolen', 0x1000)",
    "linked by name": "call(265, -100, b'/proc/self/fd/%d' % {fd}, -100, b'stolen', 0x400)",
}


def tricks() -> dict[str, str]:
    out = {f"{name} on the {what}": (text, fd) for what, fd in HANDLES.items() for name, text in CALLS.items()}
    # The output is there to be written; under another name, it is not.
    out |= {
        f"{name} on the {what}": (text, fd)
        for what, fd in HANDLES.items()
        if fd != "1"
        for name, text in WRITING.items()
    }
    out |= {f"{name} on the output": (text, "1") for name, text in WRITING.items() if name.startswith(("re", "linked"))}
    return {name: f"past({text.format(fd='(' + fd + ')')!r})" for name, (text, fd) in out.items()}
