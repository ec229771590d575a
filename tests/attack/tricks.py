"""Tricks that code in the sandbox may try. Each is an expression; it is refused by raising or by giving -1.

Words in capitals stand for things outside: LABEL a file, FOLDER its folder, PORT of a server, NAMED a socket with a
name, PARENT the number of the process that runs the sandbox. `libc`, `call` and `fork_exec` are what `PREPARATION` gets
past the audit hook; where it gets nothing, all that uses it is refused.
"""

from __future__ import annotations

PREPARATION = """
import _posixsubprocess, io, json, os, pathlib, shutil, sys, tempfile
space = {}
# Code whose file name says that it is a part of the library is not stopped by the hook.
reach = "import ctypes\\nlibc = ctypes.CDLL(None, use_errno=True)\\ncall = libc.syscall"
exec(compile(reach + "\\nbuffer = ctypes.create_string_buffer(256)", os.__file__, "exec"), space)
ctypes, libc, call, buffer = (space[name] for name in ("ctypes", "libc", "call", "buffer"))


def fork_exec(*arguments):
    read, write = os.pipe()
    return _posixsubprocess.fork_exec(list(arguments), [arguments[0].encode()], True, (write,), None, None, -1, -1, -1,
                                      -1, -1, -1, read, write, False, True, -1, None, None, None, -1, None, True)

def past(text):
    return eval(compile(text, os.__file__, "eval"), {**globals()})

def raw_open(path, flags=0):
    return past(f"libc.open({path.encode()!r}, {flags})")
"""


def tricks() -> dict[str, str]:
    """Give all of them by name."""
    found: dict[str, str] = {}
    for family in (_reading(), _writing(), _describing(), _starting(), _talking(), _meddling(), _syscalls()):
        for name, text in family.items():
            assert name not in found, name
            found[name] = text
    return found


def _reading() -> dict[str, str]:
    ways = {
        "open": "open({p}).read()",
        "open binary": "open({p}, 'rb').read()",
        "io.open": "io.open({p}).read()",
        "FileIO": "io.FileIO({p}).readall()",
        "os.open": "os.read(os.open({p}, 0), 99)",
        "pathlib": "pathlib.Path({p}).read_text()",
        "open_code": "io.open_code({p}).read()",
        "codecs": "__import__('codecs').open({p}).read()",
        "linecache": "__import__('linecache').getlines({p})[0]",
        "tokenize": "__import__('tokenize').open({p}).read()",
        "fileinput": "next(iter(__import__('fileinput').input({p})))",
        "mmap": "__import__('mmap').mmap(os.open({p}, 0), 0, prot=1)[:]",
        "numpy": "__import__('numpy').fromfile({p}, dtype='u1')[0]",
        "numpy memmap": "__import__('numpy').memmap({p}, mode='r')[0]",
        "numpy text": "__import__('numpy').loadtxt({p}, dtype=str)[0]",
        "pandas": "__import__('pandas').read_csv({p}).columns[0]",
        "pandas by address": "__import__('pandas').read_csv('file://' + {p}).columns[0]",
        "urllib": "__import__('urllib.request').request.urlopen('file://' + {p}).read()",
        "pyarrow": "__import__('pyarrow').OSFile({p}).read()",
        "pyarrow map": "__import__('pyarrow').memory_map({p}).read()",
        "loader": "__import__('importlib.machinery').machinery.SourceFileLoader('x', {p}).get_data({p})",
        "runpy": "__import__('runpy').run_path({p})",
        "copy": "(shutil.copyfile({p}, 'mine'), open('mine').read())[1]",
        "tar": "(__import__('tarfile').open('t.tar', 'w').add({p}), 'packed')[1]",
        "zip": "(__import__('zipfile').ZipFile('t.zip', 'w').write({p}), 'packed')[1]",
        "sqlite attach": "__import__('sqlite3').connect(':memory:').execute('attach ? as a', ({p},)).fetchall()",
        "symbolic link": "(os.symlink({p}, 'soft'), open('soft').read())[1]",
        "hard link": "(os.link({p}, 'hard'), open('hard').read())[1]",
        "libc open": "os.read(raw_open({p}), 99) if raw_open({p}) >= 0 else 1/0",
        "libc fopen": "past('libc.fopen(%r, b\"r\")' % {p}.encode()) or 1/0",
        "openat from root": "os.read(os.open({p}[1:], 0, dir_fd=os.open('/', 0)), 99)",
        "openat from working folder": "os.read(os.open('..' + {p}, 0, dir_fd=os.open('.', 0)), 99)",
        "up and up": "open('../../../../../..' + {p}).read()",
        "by own root": "open('/proc/self/root' + {p}).read()",
        "by root of init": "open('/proc/1/root' + {p}).read()",
        "by folder of init": "open('/proc/1/cwd/..' + {p}).read()",
        "glob": "__import__('glob').glob({p})[0]",
        "stat": "os.stat({p}).st_size",
        "exists": "os.stat(os.path.dirname({p})).st_ino",
        "access": "os.access({p}, 4) or 1/0",
        "xattr": "os.listxattr({p})",
    }
    out = {f"read by {name}": text.format(p="'LABEL'") for name, text in ways.items()}
    for path in (
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hostname",
        "/proc/PARENT/environ",
        "/proc/PARENT/cmdline",
        "/proc/PARENT/mem",
        "/proc/1/environ",
        "/proc/1/mem",
        "/proc/self/mem",
        "/proc/self/environ",
        "/proc/kcore",
        "/proc/net/tcp",
        "/dev/mem",
        "/dev/kmsg",
        "/etc/ssh/ssh_host_rsa_key",
        "/proc/kallsyms",
        "/proc/sys/kernel/hostname",
        "/var/log/syslog",
        "/dev/shm/x",
    ):
        out[f"read {path}"] = f"open({path!r}, 'rb').read(9)"
        out[f"read {path} past the hook"] = f"os.read(raw_open({path!r}), 9) if raw_open({path!r}) >= 0 else 1/0"
    for path in ("/", "/etc", "/home", "/root", "/tmp", "/proc", "/var", "/dev", "FOLDER"):
        out[f"list {path}"] = f"os.listdir({path!r})"
        out[f"walk {path}"] = f"next(iter(os.walk({path!r}, onerror=lambda e: 1/0)))"
    return out


def _writing() -> dict[str, str]:
    ways = {
        "open": "open({p}, 'w').write('mine')",
        "append": "open({p}, 'a').write('mine')",
        "both": "open({p}, 'r+').write('mine')",
        "os.open": "os.write(os.open({p}, 1), b'mine')",
        "truncating open": "os.open({p}, 512 | 1)",
        "truncate": "os.truncate({p}, 0)",
        "pathlib": "pathlib.Path({p}).write_text('mine')",
        "numpy": "__import__('numpy').zeros(3).tofile({p})",
        "memmap": "__import__('numpy').memmap({p}, mode='r+')",
        "pandas": "__import__('pandas').DataFrame([1]).to_csv({p})",
        "pyarrow": "__import__('pyarrow').OSFile({p}, 'wb').write(b'mine')",
        "copy": "(open('m', 'w').write('mine'), shutil.copyfile('m', {p}))",
        "move": "(open('m', 'w').write('mine'), shutil.move('m', {p}))",
        "replace": "(open('m', 'w').write('mine'), os.replace('m', {p}))",
        "rename away": "os.rename({p}, 'mine')",
        "remove": "os.remove({p})",
        "unlink from root": "os.unlink({p}[1:], dir_fd=os.open('/', 0))",
        "rmtree": "shutil.rmtree('FOLDER')",
        "database": "__import__('sqlite3').connect({p}).execute('create table t (x)')",
        "database by uri": "__import__('sqlite3').connect('file:' + {p}, uri=True).execute('create table t (x)')",
        "link": "(os.symlink({p}, 's2'), open('s2', 'w').write('mine'))",
        "link over": "(os.symlink('table.csv', {p} + '2'))",
        "new file beside": "open({p} + '.new', 'w').write('x')",
        "new folder beside": "os.mkdir({p} + '.folder')",
        "fifo beside": "os.mkfifo({p} + '.fifo')",
        "node": "os.mknod({p} + '.node')",
        "device": "os.mknod('device', 0o20666, os.makedev(1, 1))",
        "libc open": "os.write(raw_open({p}, 1), b'mine') if raw_open({p}, 1) >= 0 else 1/0",
        "libc unlink": "past('libc.unlink(%r)' % {p}.encode())",
        "libc truncate": "past('libc.truncate(%r, 0)' % {p}.encode())",
        "libc rename": "past('libc.rename(%r, b\"mine\")' % {p}.encode())",
        "library": "open(os.__file__, 'a').write('#')",
        "library past the hook": "raw_open(os.__file__, 1)",
        "new in the library": "open(os.path.dirname(os.__file__) + '/evil.py', 'w')",
        "tmp": "open('/tmp/evil', 'w')",
        "root": "open('/evil', 'w')",
        "the table": "open('table.csv', 'w')",
        "core pattern": "open('/proc/sys/kernel/core_pattern', 'w').write('x')",
        "oom score of the parent": "open('/proc/PARENT/oom_score_adj', 'w').write('1000')",
        "memory": "open('/proc/self/mem', 'r+b')",
        "trigger": "open('/proc/sysrq-trigger', 'w').write('h')",
    }
    return {f"write by {name}": text.format(p="'LABEL'") for name, text in ways.items()}


def _describing() -> dict[str, str]:
    """Modes, owners, times and attributes, by name and by a folder's descriptor."""
    root = "os.open('/', 0)"
    return {
        "chmod": "os.chmod('LABEL', 0)",
        "chmod from root": f"os.chmod('LABEL'[1:], 0, dir_fd={root})",
        "chmod from working folder": "os.chmod('..' + 'LABEL', 0, dir_fd=os.open('.', 0))",
        "chmod of the folder": "os.chmod('FOLDER', 0o777)",
        "chmod of the library": "os.chmod(os.__file__, 0o777)",
        "pathlib chmod": "pathlib.Path('LABEL').chmod(0o777)",
        "chown": "os.chown('LABEL', 65534, 65534)",
        "chown from root": f"os.chown('LABEL'[1:], 65534, 65534, dir_fd={root})",
        "lchown": "os.lchown('LABEL', 65534, 65534)",
        "utime": "os.utime('LABEL', (0, 0))",
        "utime from root": f"os.utime('LABEL'[1:], (0, 0), dir_fd={root})",
        "utime from working folder": "os.utime('..' + 'LABEL', (0, 0), dir_fd=os.open('.', 0))",
        "touch": "pathlib.Path('LABEL').touch()",
        "setxattr": "os.setxattr('LABEL', 'user.x', b'1')",
        "removexattr": "os.removexattr('LABEL', 'user.x')",
        "libc chmod": "past('libc.chmod(b\"LABEL\", 511)')",
        "libc fchmodat": "past('libc.fchmodat(-100, b\"LABEL\", 511, 0)')",
        "libc chown": "past('libc.chown(b\"LABEL\", 1, 1)')",
        "libc utime": "past('libc.utime(b\"LABEL\", None)')",
        "libc utimensat": "past('libc.utimensat(-100, b\"LABEL\", None, 0)')",
        "libc setxattr": 'past(\'libc.setxattr(b"LABEL", b"user.x", b"1", 1, 0)\')',
        "libc mkdir": "past('libc.mkdir(b\"FOLDER/new\", 511)')",
        "libc link": 'past(\'libc.link(b"LABEL", b"hard2")\')',
        "libc symlink": 'past(\'libc.symlink(b"x", b"FOLDER/new")\')',
    }


def _starting() -> dict[str, str]:
    """New processes and programs, and threads that outlive the call."""
    python = "sys.executable"
    return {
        "fork": "os.fork()",
        "forkpty": "os.forkpty()",
        "system": "os.system('sleep 77')",
        "popen": "os.popen('sleep 77').read()",
        "subprocess": f"__import__('subprocess').Popen([{python}, '-c', 'import time; time.sleep(77)'])",
        "subprocess in a session": "__import__('subprocess').Popen(['/bin/sleep', '77'], start_new_session=True)",
        "run": "__import__('subprocess').run(['true'])",
        "spawn": "os.posix_spawn('/bin/sleep', ['sleep', '77'], {})",
        "spawnv": "os.spawnv(os.P_NOWAIT, '/bin/sleep', ['sleep', '77'])",
        "execv": "os.execv('/bin/true', ['true'])",
        "execve of Python": f"os.execve({python}, [{python}, '-c', '0'], {{}})",
        "fork_exec of sleep": "fork_exec('/bin/sleep', '77')",
        "fork_exec of Python": f"fork_exec({python}, '-c', 'import time; time.sleep(77)')",
        "fork_exec of a shell": "fork_exec('/bin/sh', '-c', 'echo mine > LABEL')",
        "pool": "__import__('multiprocessing').Pool(2).map(len, ['a'])",
        "process": "__import__('multiprocessing').Process(target=print).start()",
        "forkserver": "__import__('multiprocessing').get_context('forkserver').Process(target=print).start()",
        "executor": "__import__('concurrent.futures').futures.ProcessPoolExecutor(1).submit(len, 'a').result(5)",
        "pty": "__import__('pty').spawn('/bin/true')",
        "pty fork": "__import__('pty').fork()",
        "libc fork": "past('libc.fork()')",
        "libc vfork": "past('call(58)')",
        "libc system": "past('libc.system(b\"sleep 77\")') and -1",
        "libc execv": "past('libc.execv(b\"/bin/true\", None)')",
        "libc popen": 'past(\'libc.popen(b"sleep 77", b"r")\') or -1',
        "libc daemon": "past('libc.daemon(0, 0)')",
        "libc setsid": "past('libc.setsid()')",
        "setsid": "os.setsid()",
        "setpgid": "os.setpgid(0, 0)",
        "400 forks": "[fork_exec('/bin/sleep', '77') for _ in range(400)]",
    }


def _talking() -> dict[str, str]:
    out = {}
    for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"):
        for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW"):
            out[f"socket {family} {kind}"] = (
                f"__import__('_socket').socket(__import__('_socket').{family}, __import__('_socket').{kind})"
            )
    for number, name in (
        (1, "unix"),
        (2, "inet"),
        (10, "inet6"),
        (16, "netlink"),
        (17, "packet"),
        (38, "alg"),
        (40, "vsock"),
    ):
        out[f"libc socket {name}"] = f"past('libc.socket({number}, 1, 0)')"
        out[f"libc datagram {name}"] = f"past('libc.socket({number}, 2, 0)')"
    out |= {
        "socketpair": "__import__('socket').socketpair()",
        "connection": "__import__('socket').create_connection(('127.0.0.1', PORT), 2)",
        "listening": "__import__('socket').create_server(('127.0.0.1', 0))",
        "name": "__import__('socket').getaddrinfo('localhost', 80)",
        "url": "__import__('urllib.request').request.urlopen('http://127.0.0.1:PORT', timeout=2)",
        "http": "__import__('http.client').client.HTTPConnection('127.0.0.1', PORT, timeout=2).request('GET', '/')",
        "mail": "__import__('smtplib').SMTP('127.0.0.1', PORT, timeout=2)",
        "files by ftp": "__import__('ftplib').FTP('127.0.0.1', timeout=2)",
        "pandas by http": "__import__('pandas').read_csv('http://127.0.0.1:PORT/x.csv')",
        "asyncio": "__import__('asyncio').new_event_loop()",
        "manager": "__import__('multiprocessing.managers').managers.SyncManager().start()",
        "logging": "__import__('logging.handlers').handlers.SysLogHandler()",
        "unix socket": "__import__('_socket').socket(1, 1).connect('NAMED')",
    }
    return out


def _meddling() -> dict[str, str]:
    """What it might do to the process that runs it, and to its own limits."""
    return {
        "kill": "os.kill(PARENT, 9)",
        "kill the group": "os.killpg(0, 9)",
        "kill all": "os.kill(-1, 9)",
        "kill init": "os.kill(1, 9)",
        "pthread_kill": "__import__('signal').pthread_kill(1, 9)",
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
"""System calls of x86_64 by number, past the C library and the hook."""


def _syscalls() -> dict[str, str]:
    named = (line.split(": ", 1) for line in RAW.strip().splitlines())
    return {f"call {name}": f"past({f'call({given})'!r})" for name, given in named}
