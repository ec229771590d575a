"""The words of the stability study's page follow from its table."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from simulations.stability.constants import Constants
from simulations.stability.contamination import WRONG_MARKS, WRONG_OUTCOMES
from simulations.studies.stability_page import (
    failures,
    how_it_grows,
    what_is_above,
    what_more_tasks_do,
    what_the_large_sample_says,
    where_conditions_hold,
)
from simulations.studies.stability_tables import bias, power, record_factor, rounded, size_power
from simulations.studies.stability_tables import cell as cell_of

POWERS = {"neighbour": 1.0, "anywhere": 0.7, "too late": 1.3, "worst": 0.5, WRONG_OUTCOMES: 1.0}
CONSTANTS = Constants(
    coordinates="whitened",
    radius=0.1,
    mu=0.5,
    sigma=5.0,
    slope=2.0,
    influence=dict.fromkeys(WRONG_MARKS, 100.0),
    curvature=dict.fromkeys(WRONG_MARKS, 500.0),
    timed=0.25,
    delta=0.05,
)
BOTH = {"plain": CONSTANTS, "whitened": CONSTANTS}


def table(sizes, rates):
    """Make a table in which the clean error is 3 / sqrt(n), and the estimate moves by a power of the rate."""
    rows = []
    for n in sizes:
        clean = 3 / np.sqrt(n)
        for replicate in range(3):
            whole = {"n": n, "replicate": replicate, "q_max": 0.01, "pull_whitened": 0.05}
            errors = {"error_plain": clean, "error_whitened": clean, "moved_whitened": 0.0}
            rows.append({**whole, "kind": "clean", "rate": 0.0, "share": 0.0, **errors})
            for kind, exponent in POWERS.items():
                for rate in rates:
                    moved = 0.002 * rate if kind == "neighbour" else rate**exponent
                    error = float(np.hypot(clean, moved))
                    errors = {"error_plain": error, "error_whitened": error, "moved_whitened": moved}
                    share = 0.0 if kind == WRONG_OUTCOMES else 0.25 * rate
                    rows.append({**whole, "kind": kind, "rate": rate, "share": share, **errors})
    return pd.DataFrame(rows)


@pytest.fixture
def grid():
    return table((2_000, 8_000, 32_000), (0.02, 0.1, 0.4))


def test_powers_are_those_that_made_the_table(grid):
    assert size_power(grid, "clean") == pytest.approx(-0.5)
    for kind, exponent in POWERS.items():
        assert power(grid, kind, "moved_whitened")[0] == pytest.approx(exponent)
    assert bias(grid, "worst", 0.4) == pytest.approx(0.4**0.5)


def test_linear_is_said_only_of_kinds_whose_power_is_about_one(grid):
    words = how_it_grows(grid)
    assert "0.70 (anywhere)" in words
    assert "in proportion (within 0.1) for neighbour; more slowly for anywhere and worst; faster for too late" in words


def test_the_error_is_said_to_stay_only_where_it_does(grid):
    words = what_more_tasks_do(grid)
    assert "stays for anywhere (0.202 to 0.200) and worst" in words
    assert "falls as the clean one does for neighbour (0.034 to 0.017)" in words


def test_the_formula_is_called_a_guarantee_only_where_its_conditions_hold(grid):
    assert where_conditions_hold(grid, BOTH).startswith("In no cell of the grid")
    larger = table((32_000, 100_000_000), (0.0001,))
    assert "1 in plain" not in where_conditions_hold(larger, BOTH)
    assert "5 in plain coordinates and 5 in whitened" in where_conditions_hold(larger, BOTH)


def test_errors_above_the_formula_are_counted(grid):
    assert "none is above" in what_is_above(grid, BOTH)
    grid.loc[(grid["kind"] == "worst") & (grid["rate"] == 0.02) & (grid["replicate"] == 0), "error_plain"] = 1e3
    assert "3 are above" in what_is_above(grid, BOTH)


def test_wrong_outcomes_break_the_bound_where_their_error_is_beyond_the_ball(grid):
    large = table((100_000_000,), (0.02, 0.4))
    words = failures(grid, large, CONSTANTS)
    assert "With 40% flipped, the error is beyond r itself" in words
    assert f"| 40% | 0.400 | 0.400 | 0.400 | {rounded(CONSTANTS.tasks_needed)} |" in words
    assert f"| 0.020 | {rounded(CONSTANTS.tasks_below(0.02))} |" in words


def test_a_bound_that_is_broken_where_it_applies_is_said_to_be():
    large = table((100_000_000,), (0.0001,))
    assert "hold in 5 of the 5 rows without wrong outcomes, and 5 of these keep" in what_the_large_sample_says(
        large, CONSTANTS
    )
    large.loc[large["kind"] == "worst", "error_whitened"] = 1.0
    assert "and 4 of these keep" in what_the_large_sample_says(large, CONSTANTS)


def test_the_slack_of_wrong_marks_is_their_term_over_what_they_change(grid):
    assert record_factor(cell_of(grid, "worst", 8_000), CONSTANTS) == pytest.approx(100 * 0.025 / 0.05)


@pytest.mark.parametrize(("count", "words"), [(32_000, "32,000"), (4.26e6, "4.3 million"), (8.08e8, "808 million")])
def test_counts_of_tasks_are_written_in_words(count, words):
    assert rounded(count) == words


def test_the_readme_has_the_figures_of_the_page():
    root = Path(__file__).parents[2]
    page = (root / "simulations/results/stability/README.md").read_text(encoding="utf-8")
    (row,) = [line for line in (root / "README.md").read_text(encoding="utf-8").splitlines() if "| Theorem 1" in line]
    power_of_n = re.findall(r"to the power (-[\d.]+), as", page)[0]
    tasks, loose = re.findall(r"conditions hold with ([\d.]+ million) tasks.*formula is (\d+) times", page)[0]
    assert "They hold in 0 of the" in page
    assert f"on clean data errors fall like n to the power {power_of_n}" in row
    assert f"its formula is {loose} times the error; they need {tasks} tasks" in row
