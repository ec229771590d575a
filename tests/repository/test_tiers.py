"""The quick tier keeps its promise, and kept posteriors are those that would be sampled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kept
from attack import cases
from kept import KeptPosteriors

from bayes_tacit.estimates import posterior as sampling

CONFTEST = """
import quick_tier

def pytest_configure(config):
    config.pluginmanager.register(quick_tier.QuickTier())
"""

SEVERAL = """
import multiprocessing, subprocess, sys
import pytest

def test_plain():
    assert True

def test_wrong():
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


def test_the_quick_tier_leaves_out_what_compiles_or_starts_processes(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_several.py").write_text(SEVERAL)
    (tmp_path / "test_sampling.py").write_text("import pymc\n\ndef test_plain():\n    assert False\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\nmarkers = slow\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-m", "not slow", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "1 failed, 1 passed, 5 skipped, 1 deselected" in done.stdout.splitlines()[-1], done.stdout
    assert "test_wrong FAILED" in done.stdout


def test_a_kept_posterior_is_sampled_once_and_again_after_any_change(tmp_path, example, monkeypatch):
    calls: list[dict[str, object]] = []
    monkeypatch.setattr(sampling, "sample_posterior", lambda _, **said: calls.append(said) or cases.posterior())
    few = example.take(slice(0, 50))
    for episodes, seed, sampled in ((few, 1, 1), (few, 1, 1), (few, 2, 2), (few.take(slice(1, 50)), 2, 3)):
        KeptPosteriors(tmp_path).sample("few", episodes, seed=seed)
        assert len(calls) == sampled
    monkeypatch.setattr(kept, "code_and_versions", lambda: "after an edit")
    KeptPosteriors(tmp_path).sample("few", few, seed=2)
    assert len(calls) == 4
    assert len(list(tmp_path.glob("few-*.nc"))) == 1
