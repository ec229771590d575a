"""The study on real logs, run on small ones of the same form."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulations.__main__ import main
from simulations.intercode.logs import CUES, Source, features_of, load, marked, unmarked
from simulations.intercode.page import Tally, as_text, from_text, summarize
from simulations.intercode.study import curve, replicate, split, study_of
from simulations.studies.storage import TABLE, Kept, read_table

RESULTS = Path(__file__).parents[2] / "simulations" / "results" / "intercode"

# A log without marks, or with few, is told of as such.
pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

WORDS = (
    "How many singers are there?",
    "List the names of all stadiums without a concert.",
    "Who is the oldest, and older than 3?",
)
FAILED, FINE = "Error executing query: no such table", "[(1,)]"


def record(rng: random.Random, task: int, skill: float) -> dict[str, object]:
    """A rollout that ends when it has succeeded, or after six turns."""
    actions, observations, rewards = [], [], []
    for turn in range(6):
        trouble = rng.random() > skill
        actions.append(f"SELECT {rng.choice('abc') if trouble else turn}")
        observations.append(FAILED if trouble else f"{FINE} {turn}")
        rewards.append(float(not trouble and rng.random() < skill))
        if rewards[-1] == 1:
            break
    history = {"actions": actions, "observations": observations, "rewards": rewards}
    query = WORDS[task % len(WORDS)] + " please" * (task % 7)
    summary = {"max_reward": max(rewards)}
    return {"task_id": task, "query": query, "turn_history": history, "summary": summary, "hardness": "easy"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("logs")
    rng = random.Random(1)
    ease = [rng.random() for _ in range(240)]
    for name, skill in (("sql_gpt-3.5.json", 0.25), ("sql_gpt-4.json", 0.5)):
        results = {str(task): record(rng, task, skill + 0.3 * ease[task]) for task in range(240)}
        (home / name).write_text(json.dumps(results), encoding="utf-8")
    rows = "".join(f"{task},base{task % 12}\n" for task in range(240))
    (home / "databases.csv").write_text("task_id,database\n" + rows, encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def source(folder):
    return Source(folder)


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_bits_come_back_as_they_were(which):
    bits = np.array(which)
    np.testing.assert_array_equal(from_text(as_text(bits), len(bits)), bits)


def test_questions_are_read_for_cues_and_hardness_is_no_feature(source):
    assert features_of("How many of the oldest 'A' and B are not there?") == {
        "literals": 1,
        "aggregates": 1,
        "superlatives": 1,
        "comparisons": 0,
        "negations": 1,
        "conjunctions": 1,
    }
    episodes = load(source)
    assert episodes.feature_names == ("prompt_length", *CUES)
    assert "hardness" not in episodes.dataset
    assert "malformed_call" not in episodes.diagnostic_names
    assert set(episodes.dataset["database"].values.tolist()) == {f"base{k}" for k in range(12)}


def test_a_mark_is_the_first_run_of_checkpoints_after_two_turns_of_trouble(source):
    episodes = load(source)
    data = episodes.dataset
    assert 0 < episodes.has_window.sum() < len(episodes)
    for row in range(len(episodes)):
        steps = int(episodes.n_steps[row])
        trouble = [bool((data["diagnostics"].values[row, t] > 0).any()) for t in range(steps)]
        due = [t for t in range(1, steps - 1) if trouble[t] and trouble[t - 1]]
        start, end = (data[name].values[row] for name in ("window_start", "window_end"))
        if episodes.outcomes[row] != "01" or not due:
            assert np.isnan(start)
            continue
        last = due[0]
        while last + 1 in due:
            last += 1
        assert (start, end) == (due[0], last)
    assert not unmarked(marked(episodes)).has_window.any()


def test_no_database_is_in_two_parts_and_training_tasks_are_as_many_as_asked(source):
    episodes = load(source)
    parts = split(episodes, {"by": "database"}, np.random.default_rng(0))
    seen = [one for part in parts.values() for one in set(part.dataset["database"].values.tolist())]
    assert len(seen) == len(set(seen)) == 12
    parts = split(episodes, {"n": 50}, np.random.default_rng(0))
    assert len(parts["training"]) == 50
    left = split(episodes, {"without": "tool_error"}, np.random.default_rng(0))
    assert all("tool_error" not in part.diagnostic_names for part in left.values())


@pytest.fixture(scope="module")
def rows(source):
    study = study_of(source)
    setting = study.settings[study.position("price 3")]
    return pd.DataFrame(
        [
            {"replicate": number, **row}
            for number in range(2)
            for row in replicate(source, setting, number, study.seeds(0, number, 5))
        ]
    )


def test_what_is_solved_is_what_the_table_says(rows):
    curves = rows[rows["kind"] == "curve"]
    assert {"Count", "Landmark", "TACIT-Switch", "Cascade", "EvoRoute analogue", "Pure Strong"} <= set(curves["policy"])
    for row in curves.to_dict("records"):
        assert from_text(row["solved"], 72).mean() == pytest.approx(row["success"])
    cheapest = curves[curves["policy"] == "Count"].groupby("replicate")["of_strong"]
    assert (cheapest.max() < 1.2).all()


def test_intervals_come_from_tasks_that_are_drawn_anew(rows):
    tally = Tally.of(rows, 240)
    for key in (("Pure Cheap", 1.0), ("Count", 0.9)):
        chosen = rows[(rows["policy"] == key[0]) & (rows["share"] == key[1])]
        assert tally.success(key) == pytest.approx(chosen["success"].mean())
        low, high = tally.interval(key)
        assert low < tally.success(key) < high
    # Two splits test up to 144 tasks, and a task that is in both ends alike in both: no narrower than so many allow.
    low, high = tally.interval(("Pure Cheap", 1.0))
    p = tally.success(("Pure Cheap", 1.0))
    narrowest = 2 * 1.96 * np.sqrt(p * (1 - p) / 144)
    assert 0.9 * narrowest < high - low < 1.8 * narrowest
    low, high = tally.interval(("Count", 0.9), ("Count", 0.9))
    assert low == high == 0


def test_a_setting_is_chosen_on_development_tasks_within_the_budget(source):
    from bayes_tacit import StepCost, World
    from bayes_tacit.policies import Count

    parts = split(load(source), {}, np.random.default_rng(3))
    worlds = {
        name: World.from_restarts(part, strong_steps="strong_steps", cost=StepCost(1, 10))
        for name, part in parts.items()
    }
    fitted = Count(handoff="restart").fit(parts["training"])
    found = curve({"Count": fitted}, worlds["development"], worlds["test"])
    points = fitted.operating_points(worlds["development"])
    strong = worlds["development"].counterfactuals.pure_strong.cost.mean()
    for row in found:
        within = points[points["cost"] <= row["share"] * strong]
        assert row["development_success"] == within["success"].max()


def test_the_command_keeps_finished_splits_and_goes_on(folder, source, tmp_path, capsys):
    words = [*f"intercode --data {folder} --out {tmp_path} --replicates 2 --setting".split(), "50 training tasks"]
    assert main(words) == 0
    kept = Kept(tmp_path, study_of(source), study_of(source).seed)
    assert kept.done == {("50 training tasks", 0)}
    before = kept.path.read_bytes()
    assert main(words) == 0
    assert kept.path.read_bytes() == before
    assert "written once all settings are there" in capsys.readouterr().err


committed = pytest.mark.skipif(not (RESULTS / TABLE).exists(), reason="no results of these logs are here")


@committed
def test_the_committed_page_is_what_the_committed_table_gives(tmp_path):
    table = read_table(RESULTS / TABLE)
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert summarize(table, tmp_path).strip() in page
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in RESULTS.glob("*.png")}


@committed
def test_nothing_of_the_logs_is_in_the_committed_results():
    texts = read_table(RESULTS / TABLE).select_dtypes("object").drop(columns=["facts", "why"], errors="ignore")
    assert not texts.apply(lambda column: column.astype(str).str.contains("select ", case=False)).any(axis=None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--data is None"),
        (["--data", "nowhere"], "no such file; expected results of InterCode"),
        (["--data", "nowhere", "--scheduler", "tcp://a:1"], "no --scheduler with intercode"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, capsys):
    assert main(["intercode", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
