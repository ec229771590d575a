"""Bombs of processes and threads, and daemons that leave their session: none starts, or none outlives the call."""

from __future__ import annotations

from attack.tricks.alone import Trick
from attack.tricks.preparation import PREPARATION

BOMBS = {
    "fork": "import os\nwhile True: os.fork()",
    "fork that is caught": "import os\nfor _ in range(999):\n    try: os.fork()\n    except BaseException: pass\n1 / 0",
    "fork by C": PREPARATION + "assert all(past('libc.fork()') == -1 for _ in range(99))\n1 / 0",
    "fork by number": PREPARATION + "assert all(past('call(57)') == -1 for _ in range(99))\n1 / 0",
    "vfork by number": PREPARATION + "assert all(past('call(58)') == -1 for _ in range(99))\n1 / 0",
    "clone by number": PREPARATION + "assert all(past('call(56, 17, 0, 0, 0, 0)') == -1 for _ in range(99))\n1 / 0",
    "clone3 by number": PREPARATION + "assert all(past('call(435, buffer, 88)') == -1 for _ in range(99))\n1 / 0",
    "fork_exec": PREPARATION + "while True: fork_exec('/bin/sleep', 'MARK')",
    "spawn": PREPARATION + "while True: os.posix_spawn('/bin/sleep', ['sleep', 'MARK'], {})",
    "pool": "import multiprocessing as m\nm.Pool(64).map(len, [[]] * 999)",
    "daemon": PREPARATION + "past('libc.daemon(1, 1)')\nimport time\ntime.sleep(60)",
    "double fork in a session": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)",
    "session by C": PREPARATION + "assert past('libc.setsid()') == -1\nassert past('libc.fork()') == -1\n1 / 0",
    "system": "import os\nos.system('setsid sleep MARK &')",
    "nohup": "import subprocess\nsubprocess.Popen(['nohup', 'sleep', 'MARK'], start_new_session=True)",
    "threads": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()",
    "threads of C": PREPARATION + "import _thread, time\nwhile True: _thread.start_new_thread(time.sleep, (60,))",
    "executor": "from concurrent.futures import ThreadPoolExecutor\nimport time\np = ThreadPoolExecutor(9999)\n[p.submit(time.sleep, 60) for _ in range(9999)]",
    "tasks": "import asyncio\nasync def f(): await asyncio.gather(f(), f())\nasyncio.run(f())",
}


def tricks() -> dict[str, Trick]:
    return {name: Trick(code, ("raised", "killed", "stopped"), 4) for name, code in BOMBS.items()}
