"""What code might do to the process that runs it, and to its own limits."""

from __future__ import annotations


def tricks() -> dict[str, str]:
    return {
        "kill": "os.kill(PARENT, 9)",
        "kill the group": "os.killpg(0, 9)",
        "kill all": "os.kill(-1, 9)",
        "kill init": "os.kill(1, 9)",
        "pidfd": "os.pidfd_open(PARENT)",
        "pidfd of init": "os.pidfd_open(1)",
        "priority of the parent": "os.setpriority(os.PRIO_PROCESS, PARENT, 19)",
        "priority of the user": "os.setpriority(os.PRIO_USER, 0, 19)",
        "nice": "os.nice(-5)",
        "affinity of the parent": "os.sched_setaffinity(PARENT, {0})",
        "affinity of init": "os.sched_setaffinity(1, {0})",
        "scheduler": "os.sched_setscheduler(PARENT, os.SCHED_IDLE, os.sched_param(0))",
        "scheduler of its own": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))",
        "parameters": "os.sched_setparam(PARENT, os.sched_param(0))",
        "limit of the parent": "__import__('resource').prlimit(PARENT, 0, (1, 1))",
        "limit of its own": "__import__('resource').setrlimit(9, (-1, -1))",
        "setuid": "os.setuid(0)",
        "setgid": "os.setgid(0)",
        "setgroups": "os.setgroups([0])",
        "setresuid": "os.setresuid(0, 0, 0)",
        "chroot": "os.chroot('/')",
        "unshare": "os.unshare(os.CLONE_NEWUSER)",
        "enter": "os.setns(os.open('/proc/1/ns/net', 0), 0)",
        "memfd": "os.memfd_create('x')",
        "shared memory": "__import__('multiprocessing.shared_memory').shared_memory.SharedMemory('x', True, 9)",
        "semaphore": "__import__('multiprocessing').Semaphore()",
        "hook among objects": "__import__('gc').get_objects()",
        "trace": "sys.settrace(print)",
    }
