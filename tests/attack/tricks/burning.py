"""Time: loops and waits of every kind, with every signal ignored; all end when the time is up."""

from __future__ import annotations

from attack.tricks.alone import Trick

IGNORING = "import signal\nfor n in set(signal.Signals) - {9, 19}:\n    signal.signal(n, signal.SIG_IGN)\n"
BLOCKING = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\n"
WAYS = {
    "loop": "while True: pass",
    "loop that catches all": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sleep": "import time; time.sleep(10**6)",
    "sum": "sum(range(10**12))",
    "power": "pow(7, 10**8)",
    "expression": "import re; re.match('(a*)*b', 'a' * 60)",
    "sort": "import functools\nwhile True: sorted(range(10**6), key=functools.cmp_to_key(lambda a, b: b - a))",
    "hash": "import hashlib; hashlib.pbkdf2_hmac('sha512', b'x', b'y', 10**9)",
    "lock": "import threading\nl = threading.Lock()\nl.acquire(); l.acquire()",
    "pipe": "import os\nr, w = os.pipe()\nos.read(r, 1)",
    "poll": "import select; select.poll().poll()",
    "signal": "import signal; signal.pause() if hasattr(signal, 'pause') else None\nimport time; time.sleep(999)",
    "fifo": "import os\ntry: os.mkfifo('f'); open('f').read()\nexcept OSError: import time; time.sleep(999)",
    "matrix": "import numpy as np\nx = np.ones((3000, 3000))\nwhile True: x @ x",
    "threads": "import threading\ndef f():\n    while True: pass\nt = [threading.Thread(target=f) for _ in range(50)]\n[a.start() for a in t]; [a.join() for a in t]",
    "timer": "import signal, time\nsignal.signal(14, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, .001, .001)\ntime.sleep(999)",
    "import of itself": "import importlib, sys\nopen('again.py', 'w').write('while True: pass')\nsys.path.insert(0, '.'); import again",
}
IN_EARLIER = ("loop", "sleep")
"""Also tried in an earlier call, which is run again first."""


def tricks() -> dict[str, Trick]:
    out = {name: Trick(code, ("stopped", "killed"), 1.5) for name, code in WAYS.items()}
    out |= {f"{name}, signals ignored": Trick(IGNORING + WAYS[name], ("stopped", "killed"), 1.5) for name in IN_EARLIER}
    return out | {
        f"{name}, signals blocked": Trick(BLOCKING + WAYS[name], ("stopped", "killed"), 1.5) for name in IN_EARLIER
    }
