"""Posteriors that tests share: sampled once, then kept on disk for all workers and for later runs.

What is kept is filed under a hash of all that it depends on: the code that samples and stores it, the data, the
versions of the libraries and the settings. Whatever of these changes, it is sampled anew.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
import xarray as xr

import bayes_tacit
from bayes_tacit import Episodes

PACKAGE = Path(bayes_tacit.__file__).parent
CODE = ("data", "model", "estimates", "errors.py", "files.py", "validate.py")
LIBRARIES = ("arviz", "h5netcdf", "numba", "numpy", "nutpie", "pymc", "pytensor", "scipy", "xarray")


class KeptPosteriors:
    """The posteriors that one folder keeps, one under each name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sample(self, name: str, episodes: Episodes, **settings: object) -> xr.DataTree:
        """Return what `sample_posterior` gives, as it is read back from disk."""
        # Here, so that nothing loads PyMC that does not ask for a posterior.
        from bayes_tacit import load_posterior, sample_posterior, save_posterior

        path = self.folder / f"{name}-{key(episodes, settings)}.nc"
        with locked(self.folder / f"{name}.lock"):
            if not path.exists():
                for stale in self.folder.glob(f"{name}-*.nc"):
                    stale.unlink()
                save_posterior(sample_posterior(episodes, progress=False, **settings), path)
            return load_posterior(path)


def key(episodes: Episodes, settings: dict[str, object]) -> str:
    """Hash all that a posterior depends on."""
    parts = [code_and_versions(), episodes.fingerprint(), *(f"{name}={settings[name]!r}" for name in sorted(settings))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@cache
def code_and_versions() -> str:
    """Hash the files that sample and store, and the versions of what they run on."""
    found = hashlib.sha256(f"{platform.python_version()} {platform.machine()}".encode())
    for name in LIBRARIES:
        found.update(f"{name}=={version(name)}".encode())
    for top in CODE:
        entry = PACKAGE / top
        assert entry.exists(), f"{entry} has moved"
        for path in sorted(entry.rglob("*.py")) if entry.is_dir() else [entry]:
            found.update(f"{path.relative_to(PACKAGE)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one worker in at a time: the second finds what the first has made. Released too if the process dies."""
    fcntl = pytest.importorskip("fcntl")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
