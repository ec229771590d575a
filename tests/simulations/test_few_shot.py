"""Few tasks a database: what is taken, and how what was seen of a held-out task is scored."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from posteriors import random_posterior
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, handoff_score, incidence
from bayes_tacit.errors import FileFormatError
from simulations.intercode.few_shot import (
    PARTIAL,
    POOLED,
    SHOTS,
    SPARED,
    UNPOOLED,
    Scores,
    scored,
    scores_of,
    split,
    study_of,
    summarize,
)
from simulations.intercode.logs import Source
from simulations.studies.run import PAGE
from simulations.studies.storage import TABLE, read_table

RESULTS = Path(__file__).parents[2] / "simulations" / "results" / "intercode_databases"

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


def tasks(database: list[str], outcomes: list[str], windows: list[tuple[float, float]], horizon: int = 3) -> Episodes:
    n = len(outcomes)
    dataset = xr.Dataset(
        {
            "features": (("episode", "feature"), np.arange(n, dtype=float)[:, None]),
            "diagnostics": (("episode", "step", "diagnostic"), np.ones((n, horizon, 1))),
            "n_steps": ("episode", np.full(n, horizon)),
            "cheap_success": ("episode", [one[0] == "1" for one in outcomes]),
            "strong_success": ("episode", [one[1] == "1" for one in outcomes]),
            "window_start": ("episode", [start for start, _ in windows]),
            "window_end": ("episode", [end for _, end in windows]),
            "database": ("episode", database),
        },
        coords={"episode": np.arange(n), "step": np.arange(horizon), "feature": ["x"], "diagnostic": ["u"]},
    )
    return Episodes(dataset)


NONE = (np.nan, np.nan)


@pytest.fixture(scope="module")
def pool():
    names = ["large"] * (max(SHOTS) + SPARED) + ["just below"] * (max(SHOTS) + SPARED - 1) + ["small"] * 3
    return tasks(names, ["00"] * len(names), [NONE] * len(names))


def test_so_many_tasks_are_taken_of_each_large_database_and_none_of_the_others(pool):
    parts = split(pool, 5, np.random.default_rng(0))
    databases = [part.dataset["database"].values.tolist() for part in parts]
    assert databases[0] == ["large"] * 5
    assert databases[1] == ["large"] * (max(SHOTS) + SPARED - 5)
    assert set(databases[2]) == {"just below", "small"}
    assert sorted(itertools.chain(*(part.ids.tolist() for part in parts))) == pool.ids.tolist()
    other = split(pool, 5, np.random.default_rng(1))[0]
    assert set(other.ids) != set(parts[0].ids)


def test_what_can_be_seen_of_a_task_has_probability_one_in_all():
    pi, q = np.full(6, 0.8), np.tile([0.1, 0.3, 0.6], (6, 1))
    seen = tasks(["a"] * 6, ["00", "01", "01", "01", "01", "11"], [NONE, (0, 0), (1, 1), (2, 2), NONE, NONE])
    scores = scores_of(pi, q, seen)
    probability = np.exp(scores["log_score"])
    np.testing.assert_allclose(probability, [0.2, 0.1, 0.2, 0.3, 0.6, 0.2])
    # Strong fails, each of the three steps, or past the end; without a mark the steps count together.
    assert probability[[0, 1, 2, 3, 5]].sum() == pytest.approx(1)
    np.testing.assert_allclose(np.exp(scores["strong"]), [0.2, *[0.8] * 5])
    np.testing.assert_allclose(scores["brier"], [0.36, 0.16, 0.16, 0.16, 0.16, 0.36])


def rows(gains: list[float], splits: int = 2) -> pd.DataFrame:
    """Scores of databases with two tasks each, in which partial pooling gains so much over the others."""
    return pd.DataFrame(
        [
            {"setting": "5 a database", "replicate": split, "policy": policy, "part": "known", "database": str(at)}
            | {"tasks": 2, "log_score": -2.0 + (2 * gain if policy == PARTIAL else 0.0)}
            for split in range(splits)
            for at, gain in enumerate(gains)
            for policy in (POOLED, UNPOOLED, PARTIAL)
        ]
    )


def test_intervals_of_a_gain_are_over_databases_and_do_not_shrink_with_splits():
    gains = [0.3, -0.1, 0.2, 0.4, 0.0]
    few, many = (
        Scores.of(rows(gains, splits), "known", ["5 a database"], "log_score").gain(PARTIAL, "5 a database", POOLED)
        for splits in (2, 50)
    )
    np.testing.assert_allclose(few, many, atol=1e-12)
    mean, low, high = few
    assert mean == pytest.approx(np.mean(gains))
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(gains) / np.sqrt(5), rel=0.15)
    assert Scores.of(rows(gains), "known", ["5 a database"], "log_score").mean(POOLED, "5 a database") == -1


def test_logs_without_databases_are_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"databases\.csv: no such file; expected columns task_id and database"):
        study_of(Source(tmp_path))


def test_the_committed_page_is_what_its_table_says(tmp_path):
    table = read_table(RESULTS / TABLE)
    page = (RESULTS / PAGE).read_text(encoding="utf-8")
    assert summarize(table, tmp_path) in page


def test_scores_of_a_posterior_are_those_of_its_mean_summed_by_database():
    plain = simulate_model(np.random.default_rng(2), 40)
    held = quietly(plain.dataset.assign(database=("episode", np.array(["a", "b"])[np.arange(40) % 2])))
    tree = random_posterior(np.random.default_rng(3), held, draws=10)
    found = {row["database"]: row for row in scored(PARTIAL, "known", tree, held)}
    mean = [quantity(tree, held).mean(("chain", "draw")).values for quantity in (incidence, handoff_score)]
    scores = scores_of(*mean, held)
    for at, name in enumerate("ab"):
        assert found[name]["tasks"] == 20
        assert {what: found[name][what] for what in scores} == pytest.approx(
            {what: values[at::2].sum() for what, values in scores.items()}
        )
    # What was seen says more than Strong's outcome alone does, so it is less likely.
    assert (scores["log_score"] <= scores["strong"] + 1e-12).all()
