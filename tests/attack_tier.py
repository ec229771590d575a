"""The attack tier: `pytest --attack` tries everything and prints figures at the end; without it, a sample is tried.

What is marked `attack` runs in this tier only. Before it asserts anything, a test adds to the figures by

- `record_property("figure", line)`: a line;
- `record_property("tally", (what, number))`: to a count of what was tried;
- `record_property("found", (what, number))`: to a count of what must not be;
- `record_property("longest", (what, seconds, where))`: the longest of all is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

OPTION, MARK = "--attack", "attack"
FIGURE, TALLY, FOUND, LONGEST = "figure", "tally", "found", "longest"


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="try every attack, not a sample of them, and print figures")


def leave_out(config: pytest.Config, items: list[pytest.Item], option: str = OPTION, mark: str = MARK) -> None:
    """Keep what only one tier runs out of the others."""
    if config.getoption(option):
        return
    left_out = [item for item in items if item.get_closest_marker(mark)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(mark)]


def print_figures(reporter: pytest.TerminalReporter) -> None:
    by_test = sorted(str(value) for value, _ in _recorded(reporter, FIGURE))
    for title, lines in (("figures", by_test), ("all in all", sorted(_sums(reporter)))):
        if lines:
            reporter.section(title)
            for line in lines:
                reporter.line(line)


def _sums(reporter: pytest.TerminalReporter) -> Iterator[str]:
    tried, failed, found = Counter[str](), Counter[str](), Counter[str]()
    for (what, number), report in _recorded(reporter, TALLY):
        tried[what] += number
        failed[what] += number * report.failed
    for (what, number), _ in _recorded(reporter, FOUND):
        found[what] += number
    longest: dict[str, tuple[float, str]] = {}
    for (what, seconds, where), _ in _recorded(reporter, LONGEST):
        longest[what] = max(longest.get(what, (0.0, "")), (seconds, where))
    yield from (f"{what}: {number:,} tried, {failed[what]:,} in tests that failed" for what, number in tried.items())
    yield from (f"{what}: {number:,}" for what, number in found.items())
    yield from (f"{what}: {seconds:.2f} s ({where})" for what, (seconds, where) in longest.items())


def _recorded(reporter: pytest.TerminalReporter, kind: str) -> Iterator[tuple[Any, pytest.TestReport]]:
    for report in _reports(reporter):
        yield from ((value, report) for name, value in report.user_properties if name == kind)


def _reports(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for outcome in ("passed", "failed"):
        yield from reporter.stats.get(outcome, [])
