"""The attack tier: `pytest --attack` tries everything and prints figures at the end; without it, a sample is tried.

What is marked `attack` runs in this tier only. A test adds a line to the figures by `record_property("figure", line)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

OPTION, MARK, FIGURE = "--attack", "attack", "figure"


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="try every attack, not a sample of them, and print figures")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what only this tier runs out of the others."""
    if config.getoption(OPTION):
        return
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(MARK)]


def print_figures(reporter: pytest.TerminalReporter) -> None:
    lines = sorted(_figures(reporter))
    if lines:
        reporter.section("figures")
        for line in lines:
            reporter.line(line)


def _figures(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for outcome in ("passed", "failed"):
        for report in reporter.stats.get(outcome, []):
            yield from (str(value) for name, value in report.user_properties if name == FIGURE)
