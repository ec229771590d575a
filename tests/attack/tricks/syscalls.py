"""System calls of x86_64 by number, past the C library and the hook."""

from __future__ import annotations

RAW = """
ptrace: 101, 16, PARENT, 0, 0
ptrace init: 101, 16, 1, 0, 0
trace me: 101, 0, 0, 0, 0
process_vm_readv: 310, PARENT, 0, 0, 0, 0, 0
process_vm_writev: 311, 1, 0, 0, 0, 0, 0
prlimit64: 302, PARENT, 0, buffer, 0
prlimit64 of its own: 302, 0, 7, buffer, 0
prlimit64 read of the parent: 302, PARENT, 0, 0, buffer
setrlimit: 160, 7, buffer
setpriority: 141, 0, PARENT, 19
setpriority of all: 141, 2, 0, 19
ioprio_set: 251, 1, PARENT, 0
sched_setaffinity: 203, PARENT, 8, buffer
sched_setattr: 314, PARENT, buffer, 0
sched_setscheduler: 144, PARENT, 0, buffer
sched_setparam: 142, PARENT, buffer
shmget: 29, 0, 4096, 0o1666
semget: 64, 0, 1, 0o1666
msgget: 68, 0, 0o1666
mq_open: 240, b'/x', 0o102, 0o666, 0
memfd_create: 319, b'x', 0
memfd_secret: 447, 0
fchmodat: 268, -100, b'LABEL', 0o777
fchmodat2: 452, -100, b'LABEL', 0o777, 0
chmod: 90, b'LABEL', 0
setxattr: 188, b'LABEL', b'user.x', b'1', 1, 0
lsetxattr: 189, b'LABEL', b'user.x', b'1', 1, 0
fchownat: 260, -100, b'LABEL', 1, 1, 0
lchown: 94, b'LABEL', 1, 1
utimes: 235, b'LABEL', 0
utimensat: 280, -100, b'LABEL', 0, 0
futimesat: 261, -100, b'LABEL', 0
kill: 62, PARENT, 9
tkill: 200, PARENT, 9
tgkill: 234, PARENT, PARENT, 9
rt_sigqueueinfo: 129, PARENT, 9, 0
pidfd_open: 434, PARENT, 0
pidfd_send_signal: 424, 3, 9, 0, 0
pidfd_getfd: 438, 3, 0, 0
fork: 57
vfork: 58
clone: 56, 17, 0, 0, 0, 0
clone in a namespace: 56, 0x10000011, 0, 0, 0, 0
clone3: 435, buffer, 88
execve: 59, b'/bin/true', 0, 0
execveat: 322, -100, b'/bin/true', 0, 0, 0
socket: 41, 1, 1, 0
socketpair: 53, 1, 1, 0, buffer
io_uring_setup: 425, 8, buffer
bpf: 321, 0, buffer, 72
perf_event_open: 298, buffer, 0, -1, -1, 0
userfaultfd: 323, 0
keyctl: 250, 0, -3, 1
add_key: 248, b'user', b'x', b'y', 1, -3
mount: 165, b'none', b'/tool', b'tmpfs', 0, 0
umount2: 166, b'/tool', 2
pivot_root: 155, b'.', b'.'
chroot: 161, b'/tool'
unshare: 272, 0x10000000
setns: 308, 0, 0
open_tree: 428, -100, b'/', 1
move_mount: 429, -1, b'', -1, b'', 0
fsopen: 430, b'tmpfs', 0
mount_setattr: 442, -100, b'/', 0x8000, buffer, 32
setuid: 105, 0
setresuid: 117, 0, 0, 0
capset: 126, buffer, buffer
prctl: 157, 4, 1, 0, 0, 0
personality: 135, 0x40000
setsid: 112
setpgid: 109, 0, 0
reboot: 169, 0, 0, 0, 0
sethostname: 170, b'x', 1
settimeofday: 164, buffer, 0
clock_settime: 227, 0, buffer
init_module: 175, buffer, 1, b''
kexec_load: 246, 0, 0, 0, 0
swapon: 167, b'x', 0
acct: 163, b'x'
mknod: 133, b'x', 0o20666, 257
name_to_handle_at: 303, -100, b'/', buffer, buffer, 0
open_by_handle_at: 304, 3, buffer, 0
fanotify_init: 300, 0, 0
inotify_init1: 294, 0
process_madvise: 440, 3, 0, 0, 0, 0
kcmp: 312, PARENT, 1, 0, 0, 0
move_pages: 279, PARENT, 0, 0, 0, 0, 0
migrate_pages: 256, PARENT, 0, 0, 0
landlock_create_ruleset: 444, 0, 0, 1
seccomp: 317, 1, 0, 0
ioctl that types: 16, 1, 0x5412, b'x'
syslog: 103, 3, buffer, 9
quotactl: 179, 0, 0, 0, 0
"""


def tricks() -> dict[str, str]:
    named = (line.split(": ", 1) for line in RAW.strip().splitlines())
    return {f"call {name}": f"past({f'call({given})'!r})" for name, given in named}
