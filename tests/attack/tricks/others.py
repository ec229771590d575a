"""What may be done to other processes: every such call, to the one that runs the sandbox, to init, to groups and all."""

from __future__ import annotations

TARGETS = {"the parent": "PARENT", "init": "1", "all": "-1", "the group": "0"}

CALLS = {
    "kill": "call(62, {p}, 15)",
    "kill for good": "call(62, {p}, 9)",
    "stop": "call(62, {p}, 19)",
    "tkill": "call(200, {p}, 9)",
    "tgkill": "call(234, {p}, {p}, 9)",
    "rt_sigqueueinfo": "call(129, {p}, 9, buffer)",
    "rt_tgsigqueueinfo": "call(297, {p}, {p}, 9, buffer)",
    "pidfd_open": "call(434, {p}, 0)",
    "setpriority of a process": "call(141, 0, {p}, 19)",
    "setpriority of a group": "call(141, 1, {p}, 19)",
    "setpriority of a user": "call(141, 2, {p}, 19)",
    "ioprio_set of a process": "call(251, 1, {p}, 0x6000)",
    "ioprio_set of a group": "call(251, 2, {p}, 0x6000)",
    "ioprio_set of a user": "call(251, 3, {p}, 0x6000)",
    "sched_setaffinity": "call(203, {p}, 8, b'\\x01' + bytes(7))",
    "sched_setscheduler": "call(144, {p}, 5, bytes(4))",
    "sched_setparam": "call(142, {p}, bytes(4))",
    "sched_setattr": "call(314, {p}, buffer, 0)",
    "ptrace attach": "call(101, 16, {p}, 0, 0)",
    "ptrace seize": "call(101, 0x4206, {p}, 0, 0)",
    "ptrace peek": "call(101, 1, {p}, 0, 0)",
    "ptrace continue": "call(101, 7, {p}, 0, 0)",
    "process_vm_readv": "call(310, {p}, buffer, 1, buffer, 1, 0)",
    "process_vm_writev": "call(311, {p}, buffer, 1, buffer, 1, 0)",
    "kcmp": "call(312, {p}, {p}, 0, 0, 0)",
    "move_pages": "call(279, {p}, 0, 0, 0, 0, 0)",
    "migrate_pages": "call(256, {p}, 0, 0, 0)",
    "get_robust_list": "call(274, {p}, buffer, buffer)",
    "setpgid": "call(109, {p}, {p})",
    "perf_event_open": "call(298, buffer, {p}, -1, -1, 0)",
    "prctl of a timer's slack": "call(157, 29, {p}, 0, 0, 0)",
    "core scheduling": "call(157, 62, 1, {p}, 0, 0)",
    "tracer": "call(157, 0x59616D61, {p}, 0, 0, 0)",
    "memory file": "libc.open(b'/proc/%d/mem' % ({p}), 2)",
    "score": "libc.open(b'/proc/%d/oom_score_adj' % ({p}), 1)",
    "environment": "libc.open(b'/proc/%d/environ' % ({p}), 0)",
    "command": "libc.open(b'/proc/%d/cmdline' % ({p}), 0)",
    "status": "libc.open(b'/proc/%d/status' % ({p}), 0)",
    "descriptors": "libc.open(b'/proc/%d/fd/0' % ({p}), 0)",
    "wait": "call(61, {p}, 0, 0, 0)",
}
LIMITS = range(16)


def tricks() -> dict[str, str]:
    named = {f"{name} of {who}": text.format(p=p) for who, p in TARGETS.items() for name, text in CALLS.items()}
    for who, p in (("the parent", "PARENT"), ("init", "1")):
        named |= {f"limit {n} of {who} set": f"call(302, {p}, {n}, bytes(16), 0)" for n in LIMITS}
        named |= {f"limit {n} of {who} read": f"call(302, {p}, {n}, 0, buffer)" for n in LIMITS}
    named |= {f"limit {n} of its own set": f"call(302, 0, {n}, b'\\xff' * 16, 0)" for n in LIMITS}
    return {name: f"past({text!r})" for name, text in named.items()}
