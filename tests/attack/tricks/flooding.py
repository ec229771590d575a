"""Floods of memory, of the working folder and of output: they fail alone, and nothing outside fills up."""

from __future__ import annotations

from attack.tricks.alone import Trick

MEMORY = {
    "bytes": "x = []\nwhile True: x.append(bytearray(50_000_000))",
    "one huge piece": "x = bytearray(2**40)",
    "text": "x = 'x'\nwhile True: x += x",
    "number": "x = 1 << 2**33",
    "list": "x = [0]\nwhile True: x += x",
    "dictionary": "x = {}\nn = 0\nwhile True:\n    x[n] = bytes(10**6); n += 1",
    "mapping": "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 2**26); m.write(b'x' * 2**26); x.append(m)",
    "array": "import numpy as np\nx = []\nwhile True: x.append(np.ones(10**7))",
    "iterator": "list(iter(int, 1))",
    "product": "import itertools\nlist(itertools.product(range(10**4), repeat=3))",
    "format": "'%*d' % (2**31 - 1, 1) * 9",
    "expression": "import re\nre.compile('|'.join(f'({n})x{{60000}}' * 9 for n in range(10**6)))",
    "compressed": "import zlib\nzlib.decompress(zlib.compress(bytes(2**28))) * 30",
    "pipes": "import os\nx = []\nwhile True:\n    r, w = os.pipe(); x.append((r, w)); os.write(w, bytes(65536))",
    "files in memory": "n = 0\nwhile True:\n    open(f'f{n}', 'wb').write(bytes(2**20)); n += 1",
}
FOLDER = {
    "one file": "f = open('f', 'wb')\nwhile True: f.write(bytes(2**20))",
    "sparse": "import os; os.truncate(open('f', 'wb').name, 2**40)",
    "allocated": "import os; os.posix_fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 0, 2**35)",
    "empty files": "n = 0\nwhile True:\n    open(f'f{n}', 'wb').close(); n += 1",
    "links": "import os\nn = 0\nwhile True:\n    os.symlink('x' * 999, f'l{n}'); n += 1",
    "hard links": "import os\nopen('f', 'w').close()\nfor n in range(10**5): os.link('f', f'h{n}')\n1 / 0",
    "folders": "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')",
    "long names": "import os\nn = 0\nwhile True:\n    open(f'{n:0250}', 'wb').close(); n += 1",
    "rename loop": "import os\nos.mkdir('a'); os.rename('a', 'a/b')",
    "table replaced": "import os\nos.remove('table.csv')\nf = open('table.csv', 'wb')\nwhile True: f.write(bytes(2**20))",
    "open files": "x = []\nwhile True: x.append(open('table.csv'))",
    "database": "import sqlite3\nc = sqlite3.connect('d')\nc.execute('create table t (x)')\nwhile True:\n    c.execute('insert into t values (zeroblob(1000000))'); c.commit()",
}
OUTPUT = {
    "lines": "while True: print('line\\n' * 999)",
    "one line": "while True: print('x' * 10**6, end='')",
    "raw": "import os\nwhile True: os.write(1, b'x' * 2**16)",
    "binary": "import os\nwhile True: os.write(1, bytes(range(256)) * 256)",
    "errors": "import sys\nfor _ in range(3000): sys.stderr.write('x' * 10**4)\n1 / 0",
    "raw errors": "import os\nfor _ in range(3000): os.write(2, b'x' * 10**4)\n1 / 0",
    "half letters": "import os\nwhile True: os.write(1, '€'.encode()[:2] * 9999)",
    "escape codes": "while True: print('\\x1b]0;mine\\x07\\x1b[2J')",
    "huge value": "'x' * 10**8",
    "value that prints for ever": "class V:\n    def __str__(self):\n        while True: print('x' * 10**5)\nV()",
    "copies of the descriptor": "import os\nhandles = [os.dup(1) for _ in range(99)]\nwhile True:\n    for h in handles: os.write(h, b'x' * 2**16)",
    "allocated": "import os\nos.posix_fallocate(1, 0, 2**35)",
    "vectors": "import os\nwhile True: os.writev(1, [b'x' * 2**16] * 99)",
    "from a file": "import os\nf = os.open('f', os.O_CREAT | os.O_RDWR); os.write(f, b'x' * 2**20)\nwhile True: os.sendfile(1, f, 0, 2**20)",
    "message": "raise ValueError('x' * 10**8)",
}


def tricks() -> dict[str, Trick]:
    ends = ("raised", "killed", "stopped")
    out = {f"memory by {name}": Trick(code, ends, 8) for name, code in MEMORY.items()}
    out |= {f"folder by {name}": Trick(code, ends, 8) for name, code in FOLDER.items()}
    return out | {f"output by {name}": Trick(code, ("ran", *ends), 8) for name, code in OUTPUT.items()}
