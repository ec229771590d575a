"""The attack tier: `pytest --attack` tries everything and prints figures at the end; without it, a sample is tried.

What is marked `attack` runs in this tier only. A test adds a line to the figures by `record_property("figure", line)`,
and to a count of what was tried by `record_property("tally", (what, number))`, before it asserts anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

OPTION, MARK, FIGURE, TALLY = "--attack", "attack", "figure", "tally"


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
    lines = sorted([*_figures(reporter), *_tallies(reporter)])
    if lines:
        reporter.section("figures")
        for line in lines:
            reporter.line(line)


def _figures(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for report in _reports(reporter):
        yield from (str(value) for name, value in report.user_properties if name == FIGURE)


def _tallies(reporter: pytest.TerminalReporter) -> Iterator[str]:
    tried, failed = Counter[str](), Counter[str]()
    for report in _reports(reporter):
        for name, value in report.user_properties:
            if name == TALLY:
                what, number = value
                tried[what] += number
                failed[what] += number * report.failed
    for what, number in tried.items():
        yield f"{what}: {number:,} tried, {failed[what]:,} in tests that failed"


def _reports(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for outcome in ("passed", "failed"):
        yield from reporter.stats.get(outcome, [])
