"""Reading files outside, by every way that Python and its libraries have."""

from __future__ import annotations


def tricks() -> dict[str, str]:
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
