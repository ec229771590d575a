"""What several tests share: the example set, its fit, and models that are compiled once a session.

PyMC is loaded by what needs it only: `make quick` runs without.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import quick_tier
import xarray as xr
from hypothesis import settings
from kept import KeptPosteriors
from threadpoolctl import threadpool_limits

from bayes_tacit import Episodes, MapFit, RidgePrior, Router, fit_map, load_example
from bayes_tacit.errors import TacitError

if TYPE_CHECKING:
    import pymc as pm

# LiteLLM asks a server for prices as it is loaded, unless it is told to take its own.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

# The same examples in every run; `--hypothesis-profile explore` looks for new ones, and `make quick` takes fewer.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")

TIERS = {"attack": "try every attack, and print figures", "study": "compute replicates of studies that take long, too"}
"""Marks whose tests run only with the option of that name; `record_property("figure", line)` is a line of figures."""

LONGEST_FILES = (
    "test_posterior.py",
    "test_checks.py",
    "test_reporting.py",
    "test_notebooks.py",
    "test_cli.py",
    "test_studies_models.py",
    "test_studies_committed.py",
    "test_alfworld.py",
    "test_street.py",
    "test_comparison.py",
    "test_models.py",
    "test_wheel.py",
    "test_endpoint_faults.py",
)
"""From about twenty CPU seconds on, the longest first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark, what in TIERS.items():
        parser.addoption(f"--{mark}", action="store_true", help=what)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    absent = {mark for mark in TIERS if not config.getoption(f"--{mark}")}
    left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in absent)]
    config.hook.pytest_deselected(items=left_out)
    # A worker takes whole files: with the longest at the end the others would wait for it.
    place = {name: number for number, name in enumerate(LONGEST_FILES)}
    kept = [item for item in items if item not in set(left_out)]
    items[:] = sorted(kept, key=lambda item: place.get(item.path.name, len(place)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, []))
    lines = sorted(str(line) for report in reports for kind, line in report.user_properties if kind == "figure")
    if lines:
        terminalreporter.section("figures")
        terminalreporter.write("\n".join([*lines, ""]))


def pytest_configure(config: pytest.Config) -> None:
    # Workers fill the cores. Threads of BLAS beside them wait for each other by spinning: a fit took 100 times as long.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    threadpool_limits(1)
    if config.option.markexpr == quick_tier.EXPRESSION:
        config.pluginmanager.register(quick_tier.QuickTier(), "quick tier")


@pytest.fixture(scope="session")
def example() -> Episodes:
    return load_example()


@pytest.fixture(scope="session")
def example_fit(example: Episodes) -> MapFit:
    return fit_map(example, ridge=0.01, restarts=5)


@pytest.fixture(scope="session")
def kept_posteriors(request: pytest.FixtureRequest) -> KeptPosteriors:
    return KeptPosteriors(request.config.cache.mkdir("posteriors"))


@pytest.fixture(scope="session")
def posterior(example: Episodes, kept_posteriors: KeptPosteriors) -> xr.DataTree:
    """A short run on the example set; tests that change it work on a copy."""
    return kept_posteriors.sample("example", example, draws=500, tune=500, chains=4, seed=5)


@pytest.fixture(scope="session")
def example_folder(
    tmp_path_factory: pytest.TempPathFactory, example: Episodes, example_fit: MapFit, posterior: xr.DataTree
) -> Path:
    """A folder with the example, its fit, its posterior and a router."""
    from bayes_tacit import save_posterior

    folder = tmp_path_factory.mktemp("example")
    example.write(folder / "episodes.jsonl")
    example_fit.save(folder / "fit.json")
    save_posterior(posterior, folder / "posterior.nc")
    Router.from_fit(example_fit, alpha=0.3).save(folder / "router.json")
    return folder


@pytest.fixture(scope="session")
def ridge_model(example: Episodes) -> pm.Model:
    """The model whose MAP is the paper's estimate."""
    from bayes_tacit import build_model

    return build_model(example, RidgePrior(strength=0.01))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2026)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Where bubblewrap is missing or does not work, what needs the sandbox is skipped, with the reason in words."""
    try:
        return (yield)
    except TacitError as error:
        if type(error).__name__ != "SandboxError":
            raise
        pytest.skip(str(error))
