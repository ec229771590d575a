"""Namespaces, mounts and roots: to leave those that it is in, or to make new ones in which it has powers."""

from __future__ import annotations

FLAGS = {
    "time": 0x80,
    "mounts": 0x20000,
    "groups": 0x2000000,
    "names": 0x4000000,
    "queues": 0x8000000,
    "users": 0x10000000,
    "processes": 0x20000000,
    "network": 0x40000000,
}
FILES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts")

CALLS = {
    "bind the root": "call(165, b'/', b'/tool', 0, 4096, 0)",
    "bind a process": "call(165, b'/proc/1/root', b'/tool', 0, 4096, 0)",
    "remount": "call(165, b'none', b'/', 0, 32, 0)",
    "make it shared": "call(165, b'none', b'/', 0, 1 << 20, 0)",
    "memory": "call(165, b'none', b'/tool', b'tmpfs', 0, 0)",
    "proc": "call(165, b'none', b'/tool', b'proc', 0, 0)",
    "sys": "call(165, b'none', b'/tool', b'sysfs', 0, 0)",
    "devices": "call(165, b'none', b'/tool', b'devtmpfs', 0, 0)",
    "groups of control": "call(165, b'none', b'/tool', b'cgroup2', 0, 0)",
    "overlay": "call(165, b'none', b'/tool', b'overlay', 0, b'lowerdir=/')",
    "unmount": "call(166, b'/tool', 2)",
    "unmount the root": "call(166, b'/', 2)",
    "pivot": "call(155, b'.', b'.')",
    "chroot up": "call(161, b'..')",
    "open a tree": "call(428, -100, b'/', 1)",
    "clone a tree": "call(428, -100, b'/', 0x8001)",
    "move a mount": "call(429, 3, b'', -100, b'/tool', 4)",
    "a new system": "call(430, b'tmpfs', 0)",
    "configure it": "call(431, 3, 6, 0, 0, 0)",
    "mount it": "call(432, 3, 0, 0)",
    "pick it": "call(433, -100, b'/', 0)",
    "attributes": "call(442, -100, b'/', 0x8000, buffer, 32)",
    "attributes of a tree": "call(467, -100, b'/', 0x8000, buffer, 32)",
    "list": "call(458, buffer, buffer, 9, 0)",
    "tell": "call(457, buffer, buffer, 256, 0)",
    "powers": "call(126, b'\\x22\\x05\\x08\\x20' + bytes(4), b'\\xff' * 24)",
    "user root": "call(105, 0)",
    "group root": "call(106, 0)",
    "groups root": "call(116, 1, bytes(4))",
    "file user root": "call(122, 0)",
    "three users": "call(117, 0, 0, 0)",
    "new session": "call(112)",
    "name of the host": "call(170, b'mine', 4)",
    "name of the domain": "call(171, b'mine', 4)",
    "personality": "call(135, 0x0040000)",
    "dumpable": "call(157, 4, 1, 0, 0, 0)",
    "new privileges": "call(157, 38, 0, 0, 0, 0)",
    "children's reaper": "call(157, 36, 1, 0, 0, 0)",
    "no death with the parent": "call(157, 1, 0, 0, 0, 0)",
    "another filter": "call(317, 1, 0, buffer)",
    "filter that is asked": "call(317, 1, 8, buffer)",
    "rules of its own": "call(444, 0, 0, 1)",
}


def tricks() -> dict[str, str]:
    named = {f"new {name}": f"call(272, {flag:#x})" for name, flag in FLAGS.items()}
    named |= {f"process with new {name}": f"call(56, {flag | 17:#x}, 0, 0, 0, 0)" for name, flag in FLAGS.items()}
    named |= {
        f"thread with new {name}": f"call(56, {flag | 0x10F00:#x}, 0, 0, 0, 0)"
        for name, flag in list(FLAGS.items())[1:]
    }
    for who in ("1", "PARENT", "self"):
        named |= {f"enter {name} of {who}": f"call(308, libc.open(b'/proc/{who}/ns/{name}', 0), 0)" for name in FILES}
    return {name: f"past({text!r})" for name, text in {**named, **CALLS}.items()}
