"""Code in the sandbox tries everything: nothing outside is read, changed, reached or left running, and limits hold."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest

from simulations.dabench import Limits, Sandbox

SECRET, LABEL_TEXT = "sk-attack-9f8e7d6c5b4a", "TOP SECRET LABEL"
SLEEP = "7777.25"
"""Seconds that started programs would sleep, so that they can be told from others."""

PREPARATION = """
import ctypes, json, mmap, os, pathlib, shutil, socket, sqlite3, subprocess, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def linked(target):
    name = 'link' + os.urandom(6).hex()
    os.symlink(target, name)
    return name
"""
SCRIPT = """
outcomes = {{}}
for name, attempt in {attempts!r}.items():
    try:
        value = eval(attempt)
        outcomes[name] = "refused" if type(value) is int and value == -1 else "went through: " + repr(value)[:200]
    except BaseException as error:
        outcomes[name] = type(error).__name__
print(json.dumps(outcomes))
"""

SPELLINGS = {
    "plain": "'LABEL'",
    "up": "'../../../../../../..' + 'LABEL'",
    "own root": "'/proc/self/root' + 'LABEL'",
    "root of init": "'/proc/1/root' + 'LABEL'",
    "root of the parent": "'/proc/PARENT/root' + 'LABEL'",
    "descriptor of the root": "f'/proc/self/fd/{os.open(chr(47), os.O_PATH)}' + 'LABEL'",
    "link": "linked('LABEL')",
    "link by a link": "linked(linked('LABEL'))",
}
READING = {
    "open": "open({p}).read()",
    "descriptor": "os.read(os.open({p}, 0), 99)",
    "from the root": "os.read(os.open({p}.lstrip('/'), 0, dir_fd=os.open('/', 0)), 99)",
    "mapping": "mmap.mmap(os.open({p}, 0), 0, prot=1)[:]",
    "numpy": "__import__('numpy').fromfile({p}, dtype='u1')[0]",
    "pandas": "__import__('pandas').read_csv({p}).columns[0]",
    "address": "__import__('urllib.request').request.urlopen('file://' + os.path.abspath({p})).read()",
    "database": "sqlite3.connect('file:' + {p} + '?mode=ro', uri=True).execute('pragma schema_version').fetchall()",
    "copy": "shutil.copyfile({p}, 'mine')",
    "hard link": "(os.link({p}, 'hard'), open('hard').read())[1]",
    "size": "os.stat({p}).st_size",
    "C": "libc.open(({p}).encode(), 0)",
}
WRITING = {
    "open": "open({p}, 'r+').write('mine')",
    "append": "os.write(os.open({p}, os.O_WRONLY | os.O_APPEND), b'mine')",
    "truncate": "os.truncate({p}, 0)",
    "memmap": "__import__('numpy').memmap({p}, mode='r+')",
    "folder": "shutil.rmtree('FOLDER')",
    "mode": "os.chmod({p}, 0o777)",
    "owner": "os.chown({p}, 65534, 65534)",
    "times": "os.utime({p}, (0, 0))",
    "attribute": "os.setxattr({p}, 'user.x', b'1')",
    "C": "libc.open(({p}).encode(), 1)",
}
OTHERS = {
    **{f"read {path}": f"open({path!r}, 'rb').read(9)" for path in
       ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/machine-id", "/proc/PARENT/environ", "/proc/PARENT/mem",
        "/proc/kcore", "/dev/mem", "/dev/kmsg", "PROJECT/.git")},
    **{f"list {path}": f"os.listdir({path!r})" for path in ("/home", "/var", "/etc/ssh", "FOLDER", "PROJECT")},
    **{f"write {path}": f"open({path!r}, 'w')" for path in
       ("/evil", "/usr/lib/evil", "/proc/sys/kernel/core_pattern", "/proc/PARENT/oom_score_adj", "table.csv")},
    "replace": "(open('m', 'w').write('mine'), os.replace('m', 'LABEL'))",
    "rename away": "os.rename('LABEL', 'mine')",
    "remove": "os.remove('LABEL')",
    "library": "open(os.__file__, 'a')",
    "mode of the library": "os.chmod(os.__file__, 0o777)",
    "device": "os.mknod('device', 0o20666, os.makedev(1, 1))",
    "key in variables": "os.environ['ATTACK_KEY']",
    "key in frames": "'KEY'[::-1] in repr(sys._getframe().f_back) or -1",
    "standard input": "os.read(0, 99) or -1",
    "this project": "__import__('bayes_tacit')",
    "name of the host": "-1 if os.uname().nodename == 'tool' else 1",
    "number of the parent": "-1 if os.getppid() == 1 else 1",
    "other processes": "-1 if {int(p) for p in os.listdir('/proc') if p.isdigit()} <= {1, os.getpid()} else 1",
    "connection": "socket.create_connection(('127.0.0.1', PORT), 2)",
    "name of a server": "socket.getaddrinfo('localhost.invalid', 80)",
    "address": "__import__('urllib.request').request.urlopen('http://127.0.0.1:PORT', timeout=2)",
    "outer address": "socket.create_connection(('192.0.2.1', 80), 2)",
    "socket with a name": "socket.socket(socket.AF_UNIX).connect('NAMED')",
    "abstract socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + 'attack-PORT')",
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "interfaces": "[name for _, name in socket.if_nameindex() if name != 'lo'] or -1",
    "kill the parent": "os.kill(PARENT, 9)",
    "descriptor of the parent": "os.pidfd_open(PARENT)",
    "trace the parent": "libc.ptrace(16, PARENT, 0, 0)",
    "priority of the parent": "os.setpriority(os.PRIO_PROCESS, PARENT, 19)",
    "processors of the parent": "os.sched_setaffinity(PARENT, {0})",
    "limit of the parent": "__import__('resource').prlimit(PARENT, 0, (1, 1))",
    "limit of its own": "__import__('resource').setrlimit(6, (-1, -1))",
    "root": "os.setuid(0)",
    "root of a group": "os.setgid(0)",
    "capabilities": "-1 if 'CapEff:\\t0000000000000000' in open('/proc/self/status').read() else 1",
    "other root": "os.chroot('/')",
    "mount": "libc.mount(b'none', b'/tool', b'tmpfs', 0, None)",
    "unmount": "libc.umount2(b'/tool', 2)",
    "name of the host set": "socket.sethostname('mine')",
    "clock": "__import__('time').clock_settime(0, 0)",
    "fork": "os.fork()",
    "spawn": f"os.posix_spawn(sys.executable, [sys.executable, '-c', 'import time; time.sleep({SLEEP})'], {{}})",
    "subprocess": f"subprocess.Popen(['/bin/sleep', '{SLEEP}'], start_new_session=True)",
    "system": "-1 if os.system('true') else 1",
    "fork of C": "libc.fork()",
    "daemon of C": "libc.daemon(0, 0)",
    "thread": "__import__('_thread').start_new_thread(print, ())",
    "pool": "__import__('multiprocessing').Pool(2)",
    "executor": "__import__('concurrent.futures').futures.ProcessPoolExecutor(1).submit(len, 'a').result(5)",
}  # fmt: skip
FAMILIES = {
    "reading": {f"{how}, {name}": READING[how].format(p=p) for how in READING for name, p in SPELLINGS.items()},
    "writing": {f"{how}, {name}": WRITING[how].format(p=p) for how in WRITING for name, p in SPELLINGS.items()},
    "others": OTHERS,
}

IGNORING = "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
BLOCKING = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\n"
FAILED = ("raised", "killed", "stopped")
EARLY = "The process ended before the code did."
ALONE = {
    "memory": (
        FAILED,
        "x = []\nwhile True: x.append(bytearray(50_000_000))",
        "x = bytearray(2**40)",
        "x = 'x'\nwhile True: x += x",
        "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 2**26); m.write(b'x' * 2**26); x.append(m)",
        "import numpy as np\nx = []\nwhile True: x.append(np.ones(10**7))",
        "import os\nx = []\nwhile True:\n    f = os.memfd_create('x'); x.append(f); os.write(f, bytes(2**20))",
    ),
    "time": (
        ("stopped", "killed"),
        "while True: pass",
        IGNORING + "while True: pass",
        BLOCKING + "import time; time.sleep(10**6)",
        "import re; re.match('(a*)*b', 'a' * 60)",
        "import os\nr, w = os.pipe()\nos.read(r, 1)",
        "import numpy as np\nx = np.ones((3000, 3000))\nwhile True: x @ x",
    ),
    "output": (
        ("ran", *FAILED),
        "while True: print('line\\n' * 999)",
        "import os\nwhile True: os.write(1, b'x' * 2**16)",
        "import os\nwhile True: os.write(1, '€'.encode()[:2] * 9999)",
        "import os\nos.posix_fallocate(1, 0, 2**35)",
        "import os; os.lseek(1, 2**40, 0); os.write(1, b'x')",
        "import os; os.dup2(os.open('mine', os.O_CREAT | os.O_WRONLY), 1)",
        "raise ValueError('x' * 10**8)",
    ),
    "processes": (
        FAILED,
        "import os\nwhile True: os.fork()",
        "import os\nfor _ in range(999):\n    try: os.fork()\n    except BaseException: pass\n1 / 0",
        "import ctypes\nassert all(ctypes.CDLL(None).fork() == -1 for _ in range(99))\n1 / 0",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()",
        f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep({SLEEP})'])",
    ),
    "disk": (
        FAILED,
        "f = open('f', 'wb')\nwhile True: f.write(bytes(2**20))",
        "n = 0\nwhile True:\n    open(f'f{n}', 'wb').write(bytes(2**20)); n += 1",
        "import os; os.truncate(open('f', 'wb').name, 2**40)",
        "import os; os.posix_fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 0, 2**35)",
        "import os\nn = 0\nwhile True:\n    os.symlink('x' * 999, f'l{n}'); n += 1",
        "x = []\nwhile True: x.append(open('table.csv'))",
    ),
    "ends": (
        ("raised", "killed"),
        *(f"import os; os._exit({n})" for n in (0, 1, 3, 77, 128, 255)),
        *(f"import signal; signal.raise_signal({n})" for n in (6, 9, 11, 15)),
        "import ctypes; ctypes.string_at(0)",
        "raise SystemExit('text')",
        "raise KeyboardInterrupt",
        "class E(Exception):\n    def __str__(self): import os; os._exit(0)\nraise E",
        "def f(): f()\nf()",
        "x = 1\0",
    ),
    "tampering": (
        ("ran", *FAILED),
        "import os; os.write(3, b'ran'); os._exit(9)",
        "import os; os.write(3, b'ran\\nraised{]')",
        "import os\nwhile True: os.write(3, b'x' * 65536)",
        "import os; os.write(3, bytes(range(256)) * 99); os._exit(5)",
        "import os; os.close(3)",
        "import os; os.closerange(0, 256)",
        "import os; os._exit = os.write = lambda *a: None",
        "import builtins\nfor name in list(vars(builtins)):\n    if name != 'delattr': delattr(builtins, name)",
        "import sys; sys.modules.clear()",
        "import os, signal\nfor n in range(1, 9):\n    try: os.kill(n, signal.SIGSTOP)\n    except OSError: pass",
        "import os\nos.write(1, b'{\"end\": \"ran\", \"output\": \"forged\"}\\n')",
    ),
}  # fmt: skip
SAMPLE = {"memory": 1, "time": 2, "processes": 1, "disk": 2, "ends": 2, "tampering": 3}
"""How many of each `make test` tries."""


class Outside:
    """A label in a folder, a table to work on, servers, and this process, which nobody inside may reach."""

    def __init__(self, folder, open_):
        self.table, self.label = folder / "table.csv", folder / "outside" / "labels.jsonl"
        self.label.parent.mkdir()
        self.table.write_text("x,y\n1,2\n3,4\n")
        self.label.write_text(LABEL_TEXT)
        os.utime(self.label, (1, 1))
        stream = open_.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = stream.getsockname()[1]
        named, abstract = (open_.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        named.bind(str(folder / "named"))
        abstract.bind(f"\0attack-{port}")
        self.servers = (stream, named, abstract)
        for each in self.servers:
            each.listen()
            each.setblocking(False)
        self.words = {"PORT": port, "LABEL": self.label, "FOLDER": self.label.parent, "NAMED": folder / "named",
                      "PARENT": os.getpid(), "PROJECT": Path(__file__).parents[2], "KEY": SECRET[::-1]}  # fmt: skip

    def filled(self, code):
        for word, value in self.words.items():
            code = code.replace(word, str(value))
        return code

    def state(self):
        about, library = self.label.stat(), Path(os.__file__).stat()
        return {
            "label": (self.label.read_text(), about.st_mode, about.st_uid, about.st_mtime_ns, about.st_nlink),
            "folder": (sorted(self.label.parent.iterdir()), self.label.parent.stat().st_mode),
            "table": (self.table.read_text(), self.table.stat().st_mode),
            "library": (library.st_mode, library.st_mtime_ns, library.st_size, library.st_nlink),
            "this process": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), socket.gethostname()),
            "temporary files": sorted(Path(tempfile.gettempdir()).iterdir()),
            "reached": [reached(each) for each in self.servers],
            "running": [line for line in command_lines() if SLEEP.encode() in line],
        }


def reached(server):
    with contextlib.suppress(BlockingIOError):
        return server.accept()
    return None


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@pytest.fixture
def outside(tmp_path, monkeypatch):
    (tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))
    monkeypatch.setenv("ATTACK_KEY", SECRET)
    with contextlib.ExitStack() as stack:
        yield Outside(tmp_path, stack)


def run(outside, code, limits):
    """Run code, and see that nothing outside has changed and that the next call is answered."""
    before = outside.state()
    with Sandbox((outside.table,), limits) as sandbox:
        found = sandbox.run(outside.filled(code))
        after = sandbox.run("import os\nprint(os.listdir('.'), open('table.csv').readline())")
    assert (after.end, after.output) == ("ran", "['table.csv'] x,y\n\n")
    assert LABEL_TEXT not in found.output
    assert SECRET not in found.output
    assert len(found.output) < limits.output + 200
    assert outside.state() == before
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_outside_is_read_changed_or_reached(outside, family):
    attempts = FAMILIES[family]
    found = run(outside, PREPARATION + SCRIPT.format(attempts=attempts), Limits(output=400_000, seconds=30))
    assert found.end == "ran", found.output[-2000:]
    outcomes = json.loads(found.output)
    assert len(outcomes) == len(attempts)
    # The folder of the interpreter's own environment has to be there; nothing else is beside it.
    went = {name: outcome for name, outcome in outcomes.items() if outcome.startswith("went")}
    assert {name: outcome for name, outcome in went.items() if outcome != "went through: ['.venv']"} == {}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        pytest.param(kind, code, id=f"{kind} {at}", marks=[pytest.mark.attack] if at >= SAMPLE.get(kind, 1) else [])
        for kind, (_, *codes) in ALONE.items()
        for at, code in enumerate(codes)
    ],
)
def test_limits_hold_and_no_end_harms_the_next_call(outside, kind, code):
    limits = Limits(seconds=1.5 if kind == "time" else 6, memory=2**30, file_bytes=2**22)
    found = run(outside, code, limits)
    assert found.end in ALONE[kind][0], found
    assert "_exit(0)" not in code or EARLY in found.output or found.end == "raised"
