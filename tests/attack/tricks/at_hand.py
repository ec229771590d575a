"""What tricks have at hand: ways past the audit hook, as code does that knows of it. It is sent along with them."""

import _posixsubprocess
import gc
import importlib.util
import io  # noqa: F401
import json  # noqa: F401
import linecache
import marshal
import os
import pathlib  # noqa: F401
import shutil  # noqa: F401
import sys
import sysconfig
import tempfile  # noqa: F401
import threading
from importlib.machinery import ExtensionFileLoader, SourcelessFileLoader

space = {}
# Code whose file name says that it is a part of the library is not stopped by the hook.
reach = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ncall = libc.syscall"
exec(compile(reach + "\nbuffer = ctypes.create_string_buffer(256)", os.__file__, "exec"), space)
ctypes, libc, call, buffer = (space[name] for name in ("ctypes", "libc", "call", "buffer"))


def fork_exec(*arguments):
    read, write = os.pipe()
    return _posixsubprocess.fork_exec(
        list(arguments),
        [arguments[0].encode()],
        True,
        (write,),
        None,
        None,
        -1,
        -1,
        -1,
        -1,
        -1,
        -1,
        read,
        write,
        False,
        True,
        -1,
        None,
        None,
        None,
        -1,
        None,
        True,
    )


def past(text):
    return eval(compile(text, os.__file__, "eval"), {**globals()})


def raw_open(path, flags=0):
    return past(f"libc.open({path.encode()!r}, {flags})")


def linked(target):
    name = f"link{os.urandom(6).hex()}"
    os.symlink(target, name)
    return name


def with_path(path, text):
    def past(inner):
        return eval(compile(inner, os.__file__, "eval"), {**globals(), "path": path.encode()})

    return eval(text, {**globals(), "past": past})


def secret_in(text):
    return 1 if "TERCES" in text[::-1] else -1


def framed():
    frame, found = sys._getframe(), []
    while frame:
        found.append(repr(frame.f_locals))
        frame = frame.f_back
    return "".join(found)


def gc_objects():
    out = []
    for each in gc.get_referrers(object, str, dict):
        out.extend(each.values() if isinstance(each, dict) else ())
    return out


def heap():
    for line in open(f"/proc/{os.getpid()}/maps"):
        if "[heap]" in line:
            start, end = (int(one, 16) for one in line.split()[0].split("-"))
            return past(f"ctypes.string_at({start}, {end - start})").decode("latin-1")
    raise OSError


def renamed(name):
    space = {}
    exec(compile("def read(path):\n    return open(path).read()", name, "exec"), space)
    return space["read"]


class Changing:
    def __init__(self, *paths):
        self.paths = list(paths)

    def __fspath__(self):
        return self.paths.pop(0) if len(self.paths) > 1 else self.paths[0]


def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    threading.excepthook = lambda *_: None
    thread.start()
    thread.join()
    return found[0]


def dropped(path):
    found = []

    class Last:
        def __del__(self):
            try:
                found.append(open(path).read())
            except OSError:
                pass

    Last()
    return found[0]


def shown_by_warning(path):
    return linecache.updatecache(path)[0]


def hooked(path):
    sys.excepthook = lambda *_: open(path).read()
    try:
        return sys.excepthook(None, None, None)
    finally:
        sys.excepthook = sys.__excepthook__


def imported(path):
    return SourcelessFileLoader("x", path).get_data(path)


def native_file():
    """A library of the system under a name in the working folder, as a compiler would leave one."""
    folder = os.path.join(sysconfig.get_path("platstdlib"), "lib-dynload")
    source = next(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("_bisect"))
    name = os.path.abspath("_bisect.so")
    with open(source, "rb") as old, open(name, "wb") as new:
        new.write(old.read())
    return name


def native():
    """Load it, and then what it would have been for."""
    name = native_file()
    importlib.util.module_from_spec(
        importlib.util.spec_from_file_location("_bisect", name, loader=ExtensionFileLoader("_bisect", name))
    )
    return open("LABEL").read()


def bytecode(path):
    code = compile(f"found = open({path!r}).read()", os.__file__, "exec")
    header = importlib.util.MAGIC_NUMBER + bytes(12)
    with open("fake.pyc", "wb") as file:
        file.write(header + marshal.dumps(code))
    space = {}
    exec(SourcelessFileLoader("fake", "fake.pyc").get_code("fake"), space)
    return space["found"]
