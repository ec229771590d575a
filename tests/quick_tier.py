"""The quick tier: `pytest -m "not slow"` runs what needs no sampling, no compiling and no other process.

No list says which tests these are. In this tier nothing can load PyMC, PyTensor or nutpie, or start a process: a file
or a test that tries is left out at that moment, as skipped, so that a new test lands in its tier by what it does.
The mark `slow` is for what takes seconds without any of these.
"""

from __future__ import annotations

import _posixsubprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

EXPRESSION = "not slow"
COMPILERS = ("pymc", "pytensor", "nutpie")
PROCESSES = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system")


class QuickTier:
    """A plugin of pytest that keeps the promise of the tier."""

    def __init__(self) -> None:
        loaded = [name for name in COMPILERS if name in sys.modules]
        assert not loaded, f"{loaded} were loaded before any test; conftest must leave them to those that need them"
        self.watching = False
        sys.meta_path.insert(0, _NoCompilers())
        sys.addaudithook(self._no_processes)
        # What `multiprocessing` starts afresh is not audited.
        _posixsubprocess.fork_exec = self._watched(_posixsubprocess.fork_exec)

    def _no_processes(self, event: str, arguments: Sequence[object]) -> None:  # noqa: ARG002
        if self.watching and event in PROCESSES:
            _leave_out("it starts a process")

    def _watched(self, start: Callable[..., int]) -> Callable[..., int]:
        def watched(*arguments: object) -> int:
            self._no_processes(PROCESSES[0], arguments)
            return start(*arguments)

        return watched

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self.watching = True
        try:
            return (yield)
        finally:
            self.watching = False


class _NoCompilers:
    """Comes before all finders of modules."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        if name in COMPILERS:
            _leave_out("it samples or compiles")
        return None


def _leave_out(reason: str) -> None:
    raise pytest.skip.Exception(f"slow tier: {reason}", allow_module_level=True)
