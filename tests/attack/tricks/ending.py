"""Ends of every kind: none is taken for another, none silences what comes later, none reaches whoever waits."""

from __future__ import annotations

from attack.tricks.alone import Trick

EARLY = "The process ended before the code did."
EXITS = {
    "sys.exit": "import sys; sys.exit()",
    "exit": "exit(0)",
    "quit": "quit()",
    "SystemExit of a text": "raise SystemExit('text')",
    "SystemExit of an object": "raise SystemExit([1])",
    "SystemExit of a huge number": "raise SystemExit(10**100)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "BaseException": "raise BaseException('x' * 100_000)",
    "exception that cannot be shown": "class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
    "exception that exits when shown": "class E(Exception):\n    def __str__(self): import os; os._exit(0)\nraise E",
    "exception of a type that lies": "class M(type):\n    __name__ = 3\nclass E(Exception, metaclass=M): pass\nraise E",
    "group of exceptions": "raise BaseExceptionGroup('g', [SystemExit(), KeyboardInterrupt()])",
    "deep chain": "e = None\nfor n in range(50_000):\n    f = ValueError(n); f.__cause__ = e; e = f\nraise e",
    "recursion": "def f(): f()\nf()",
    "recursion in C": "x = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
    "syntax": "x = = 1",
    "nested source": "(" * 5000 + ")" * 5000,
    "null in source": "x = 1\0",
    "surrogate in source": "x = '\\ud800'\nprint(x)",
}
HARD = {
    "abort": "import os; os.abort()",
    "signal to a thread that is none": "import signal; signal.pthread_kill(1, 9)",
    "signal to its thread": "import signal, threading; signal.pthread_kill(threading.get_ident(), 9)",
    "fault": "import ctypes; ctypes.string_at(0)",
    "fault past the hook": "eval(compile('__import__(\"ctypes\").string_at(0)', __import__('os').__file__, 'eval'))",
    "bad byte code": "f = lambda: 0\nf.__code__ = f.__code__.replace(co_code=b'\\xff' * 64)\nf()",
    "overflow of the stack": "import sys, threading; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "thread of faults": "import _thread, os; _thread.start_new_thread(os.abort, ()); import time; time.sleep(9)",
}
SIGNALS = (1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 19, 24, 25, 30, 31)
TAMPERING = {
    "output closed": "import sys; sys.stdout.close()",
    "output gone": "import sys; sys.stdout = None",
    "output that raises": "import sys\nclass O:\n    def write(self, t): 1 / 0\n    def flush(self): 1 / 0\nsys.stdout = O()",
    "descriptor closed": "import os; os.close(1)",
    "every descriptor closed": "import os; os.closerange(0, 256)",
    "descriptor of another file": "import os; os.dup2(os.open('mine', os.O_CREAT | os.O_WRONLY), 1)",
    "output cut": "import os; print('x' * 99); os.ftruncate(1, 0); os.lseek(1, 0, 0)",
    "output far away": "import os; os.lseek(1, 2**40, 0)",
    "print replaced": "import builtins; builtins.print = lambda *a: None",
    "write replaced": "import os; os.write = lambda *a: 1 / 0",
    "exit replaced": "import os; os._exit = lambda *a: None",
    "both replaced": "import os; os._exit = os.write = lambda *a: None",
    "everything replaced": "import os\nfor name in dir(os):\n    if callable(getattr(os, name)): setattr(os, name, lambda *a, **k: 0)",
    "builtins emptied": "import builtins\nfor name in list(vars(builtins)):\n    if name != 'delattr': delattr(builtins, name)",
    "modules emptied": "import sys; sys.modules.clear()",
    "frames tampered with": "import sys\nf = sys._getframe()\nwhile f:\n    f.f_trace = print; f = f.f_back",
    "handler at exit": "import atexit, os; atexit.register(os._exit, 0)",
    "thread that goes on": "import threading, time; threading.Thread(target=time.sleep, args=(300,)).start()",
    "threads without end": "import threading\ndef f():\n    while True: pass\nfor _ in range(20): threading.Thread(target=f).start()",
    "report forged": "import os; os.write(3, b'ran\\n'); os._exit(9)",
    "report forged twice": "import os; os.write(3, b'ran\\nran\\n')",
    "report of missing walls": "import os; os.write(3, b'seccomp\\n'); os._exit(5)",
    "report of nonsense": "import os; os.write(3, bytes(range(256)) * 99); os._exit(5)",
    "report flooded": "import os\nwhile True: os.write(3, b'x' * 65536)",
    "report closed": "import os; os.close(3)",
}


def tricks() -> dict[str, Trick]:
    out = {name: Trick(code) for name, code in EXITS.items()}
    out |= {name: Trick(code, ("killed", "raised", "stopped"), 3) for name, code in HARD.items()}
    out |= {
        f"_exit({n})": Trick(f"import os; os._exit({n})", ("raised", "killed"), says=EARLY if n < 128 else "")
        for n in (0, 1, 2, 3, 4, 5, 77, 127, 128, 255)
    }
    out |= {
        f"exit({n})": Trick(f"import sys; sys.exit({n})", ("ran",) if n == 0 else ("raised",))
        for n in (0, 1, 3, 4, 5, 255)
    }
    for n in SIGNALS:
        code = f"import signal\nsignal.raise_signal({n})\nimport time\ntime.sleep(60)"
        out[f"signal {n}"] = Trick(code, ("killed", "raised", "stopped"), 1.5)
    return out | {name: Trick(code, seconds=2) for name, code in TAMPERING.items()}
