"""The quick tier keeps its promise, and kept posteriors are those that would be sampled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kept
import pytest
import xarray as xr
from kept import KeptPosteriors

from bayes_tacit.estimates import posterior as sampling

TESTS = Path(__file__).parents[1]

CONFTEST = """
import quick_tier

def pytest_configure(config):
    if config.option.markexpr == quick_tier.EXPRESSION:
        config.pluginmanager.register(quick_tier.QuickTier())
"""

SEVERAL = """
import multiprocessing, os, subprocess, sys
import pytest

@pytest.fixture(scope="module")
def compiled():
    import pytensor

def test_plain():
    assert True

def test_wrong():
    assert False

def test_that_asks_for_what_is_compiled(compiled):
    assert False

def test_that_forgives_every_error():
    try:
        import pymc
    except Exception:
        pass
    assert False

def test_that_runs_a_program():
    subprocess.run([sys.executable, "-c", ""])
    assert False

@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_that_starts_a_worker(how):
    multiprocessing.get_context(how).Process(target=print).start()
    assert False

@pytest.mark.slow
def test_that_is_long():
    assert False
"""

SAMPLING = """
from bayes_tacit import sample_posterior

def test_plain():
    assert False
"""


def test_the_quick_tier_leaves_out_what_compiles_or_starts_processes(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_several.py").write_text(SEVERAL)
    (tmp_path / "test_sampling.py").write_text(SAMPLING)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\nmarkers = slow\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-m", "not slow", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "1 failed, 1 passed, 6 skipped, 1 deselected" in done.stdout.splitlines()[-1], done.stdout
    assert "test_wrong FAILED" in done.stdout


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch, posterior: xr.DataTree) -> list[dict[str, object]]:
    """The settings of every posterior that is sampled, which takes no time here."""
    calls: list[dict[str, object]] = []

    def sample(episodes: object, **settings: object) -> xr.DataTree:  # noqa: ARG001
        calls.append(settings)
        short = posterior.isel(draw=slice(0, 4 + int(settings["seed"])))
        short.attrs = posterior.attrs
        return short

    monkeypatch.setattr(sampling, "sample_posterior", sample)
    return calls


def test_a_kept_posterior_is_sampled_once_and_again_after_any_change(tmp_path, example, sampled, monkeypatch):
    few = example.take(slice(0, 50))
    first = KeptPosteriors(tmp_path).sample("few", few, seed=1)
    again = KeptPosteriors(tmp_path).sample("few", few, seed=1)
    assert len(sampled) == 1
    xr.testing.assert_identical(first, again)
    for changed in (
        lambda: KeptPosteriors(tmp_path).sample("few", few, seed=2),
        lambda: KeptPosteriors(tmp_path).sample("few", few.take(slice(1, 50)), seed=2),
    ):
        before = len(sampled)
        changed()
        assert len(sampled) == before + 1
    monkeypatch.setattr(kept, "code_and_versions", lambda: "after an edit")
    KeptPosteriors(tmp_path).sample("few", few, seed=2)
    assert len(sampled) == 4
    assert len(list(tmp_path.glob("few-*.nc"))) == 1


def test_every_file_that_sampling_reads_counts(tmp_path, monkeypatch):
    package = tmp_path / "bayes_tacit"
    for name in kept.CODE:
        path = package / name if name.endswith(".py") else package / name / "deep" / "module.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one = 1\n")
    monkeypatch.setattr(kept, "PACKAGE", package)
    hashes = {kept.code_and_versions.__wrapped__()}
    for path in package.rglob("*.py"):
        path.write_text("one = 2\n")
        hashes.add(kept.code_and_versions.__wrapped__())
    assert len(hashes) == 1 + len(kept.CODE)
