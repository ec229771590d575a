"""The system calls that Python and its numeric libraries need: a seccomp filter answers all others with "no such call".

Imported by `sandbox_runner`, and like it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct

CALLS = """
    # Descriptors, and files that the other walls let it open.
    read=0/63 write=1/64 readv=19/65 writev=20/66 pread64=17/67 pwrite64=18/68 preadv=295/69 pwritev=296/70
    preadv2=327/286 pwritev2=328/287 lseek=8/62 close=3/57 close_range=436/436 dup=32/23 dup2=33/- dup3=292/24
    pipe=22/- pipe2=293/59 open=2/- openat=257/56 openat2=437/437 creat=85/- stat=4/- fstat=5/80 lstat=6/-
    newfstatat=262/79 statx=332/291 statfs=137/43 fstatfs=138/44 access=21/- faccessat=269/48 faccessat2=439/439
    readlink=89/- readlinkat=267/78 getdents=78/- getdents64=217/61 getcwd=79/17 chdir=80/49 fchdir=81/50
    umask=95/166 mkdir=83/- mkdirat=258/34 rmdir=84/- unlink=87/- unlinkat=263/35 rename=82/- renameat=264/38
    renameat2=316/276 link=86/- linkat=265/37 symlink=88/- symlinkat=266/36 truncate=76/45 ftruncate=77/46
    fsync=74/82 fdatasync=75/83 fallocate=285/47 sendfile=40/71 copy_file_range=326/285 fadvise64=221/223
    # Memory and threads.
    mmap=9/222 munmap=11/215 mremap=25/216 mprotect=10/226 madvise=28/233 brk=12/214 membarrier=324/283
    mincore=27/232 msync=26/227 futex=202/98 set_robust_list=273/99 rseq=334/293
    set_tid_address=218/96 exit=60/93 exit_group=231/94 sched_yield=24/124 sched_getaffinity=204/123 getcpu=309/168
    arch_prctl=158/-
    # Signals to itself, and time.
    rt_sigaction=13/134 rt_sigprocmask=14/135 rt_sigreturn=15/139 rt_sigpending=127/136 rt_sigsuspend=130/133
    rt_sigtimedwait=128/137 sigaltstack=131/132 restart_syscall=219/128 nanosleep=35/101
    clock_nanosleep=230/115 clock_gettime=228/113 clock_getres=229/114 gettimeofday=96/169 time=201/- times=100/153
    getrusage=98/165 setitimer=38/103 getitimer=36/102 alarm=37/-
    # What it is and where.
    getpid=39/172 gettid=186/178 getppid=110/173 getuid=102/174 geteuid=107/175 getgid=104/176 getegid=108/177
    getresuid=118/148 getresgid=120/150 getgroups=115/158 getpgrp=111/- getpgid=121/155 getsid=124/156 uname=63/160
    sysinfo=99/179 getrlimit=97/163 getrandom=318/278
    # Waiting on its own pipes.
    poll=7/- ppoll=271/73 select=23/- pselect6=270/72 epoll_create1=291/20 epoll_ctl=233/21 epoll_wait=232/-
    epoll_pwait=281/22 eventfd2=290/19
"""
"""Numbers on x86_64 and aarch64, from the kernel's headers; a dash where there is no such call.

Not among them, for instance: new processes and programs, sockets, `ptrace` and the memory of others, priorities and
processors, limits that are set, locks on whole files, modes, owners, times and extended attributes of files, shared
memory, mounts.
"""

CLONE, PRLIMIT, IOCTL, FCNTL, TGKILL = (56, 220), (302, 261), (16, 29), (72, 25), (234, 131)
CLONE_THREAD, NEW_NAMESPACES = 0x10000, 0x7E020000
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, how wide, how much is there to read, blocking, and close-on-exec."""

FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034)
"""Copies and flags of descriptors, locks on parts of files, sizes of pipes; not leases, nor signals to an owner."""

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, SET, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW, KILL, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x00050000 | 38
X32 = 0x40000000


def program(machine: str, process: int) -> bytes | None:
    """Give the filter for a machine, in the kernel's byte code; None for one whose numbers are not known here.

    Five calls are looked into: a new thread is allowed, a new process or namespace is not; limits may be read, of this
    process; signals go to `process`, which is itself; `ioctl` and `fcntl` may ask what Python asks of every file. The
    newer `clone3` hides its flags, so it does not exist here and the C library takes `clone`.
    """
    if machine not in MACHINES:
        return None
    column, architecture = MACHINES[machine]
    code: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, KILL),
    ]
    for number in re.findall(r"=(\d+|-)/(\d+|-)", CALLS):
        if number[column] != "-":
            code += [(EQUAL, 0, 1, int(number[column])), (RETURN, 0, 0, ALLOW)]
    deny, allow = (RETURN, 0, 0, NO_SUCH_CALL), (RETURN, 0, 0, ALLOW)
    # Flags of a thread, and of nothing else that is new.
    thread = [(LOAD, 0, 0, _argument(0)), (SET, 2, 0, NEW_NAMESPACES), (SET, 0, 1, CLONE_THREAD), allow, deny]
    code += _only(CLONE[column], thread)
    # Of process 0, which is the caller, and without a new limit, whose address has two halves.
    asked = [_argument(0), _argument(2), _argument(2) + 4]
    reading: list[tuple[int, int, int, int]] = []
    for at, where in enumerate(asked):
        reading += [(LOAD, 0, 0, where), (EQUAL, 0, 2 * (len(asked) - at) - 1, 0)]
    code += _only(PRLIMIT[column], [*reading, allow, deny])
    code += _only(TGKILL[column], [(LOAD, 0, 0, _argument(0)), (EQUAL, 0, 1, process), allow, deny])
    for call, known in ((IOCTL, IOCTLS), (FCNTL, FCNTLS)):
        listed = [(LOAD, 0, 0, _argument(1))]
        for request in known:
            listed += [(EQUAL, 0, 1, request), allow]
        code += _only(call[column], [*listed, deny])
    code.append(deny)
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _only(call: int, then: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Look into a call; others jump past this, where the call's number is still loaded."""
    return [(EQUAL, 0, len(then), call), *then]


def install(libc: ctypes.CDLL) -> bool:
    """Put the filter on this process and all its threads, for good."""
    filter_ = program(platform.machine(), os.getpid())
    if filter_ is None:
        return False
    content = ctypes.create_string_buffer(filter_, len(filter_))
    header = struct.pack("@HP", len(filter_) // 8, ctypes.addressof(content))
    set_no_new_privileges, call = 38, {"x86_64": 317, "aarch64": 277}[platform.machine()]
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    set_filter, every_thread = 1, 1
    return bool(libc.syscall(call, set_filter, every_thread, ctypes.c_char_p(header)) == 0)


def _argument(number: int) -> int:
    """Give where the lower half of an argument stands in what the filter is shown."""
    return 16 + 8 * number
