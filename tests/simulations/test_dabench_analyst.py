"""The analysts by rule: what they read in a question, what their code computes, and how they play."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from command_line import call
from scipy import stats

from bayes_tacit.agents import History, Observation, StepResult, read_pairs
from bayes_tacit.agents.protocols import Step
from simulations.dabench import DABench, Question
from simulations.dabench.analyst import MARK, CarefulAnalyst, Haste, HastyAnalyst, compute, read_task, wanted

COLUMNS = ["Fare Paid", "Age", "Kind"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    fare = np.append(rng.lognormal(3, 1, 60), [2_000.0])
    frame = pd.DataFrame(
        {"Fare Paid": fare, "Age": 20 + 0.01 * fare + rng.normal(0, 5, 61), "Kind": ["a", "b"] * 30 + ["c"]}
    )
    frame.loc[[3, 7], "Age"] = np.nan
    path = tmp_path_factory.mktemp("table") / "trips.csv"
    frame.to_csv(path, index=False)
    return pd.read_csv(path), path


def question(asked, constraints, form, **label):
    return Question("7", asked, constraints, form, ("Summary Statistics",), "trips.csv", "easy", label)


def computed(asked, constraints, form, path, *, careful=True):
    """Run the code that is written for a question, and give what it prints for each answer."""
    task = read_task(question(asked, constraints, form).text)
    code = compute(task, wanted(task, COLUMNS), careful=careful).replace("'trips.csv'", repr(str(path)))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(code, {})
    return dict(line.removeprefix(MARK).split(" ", 1) for line in said.getvalue().splitlines())


def test_mean_and_deviation_follow_the_constraints(table):
    frame, path = table
    asked = (
        'Give the mean and the standard deviation of "Fare Paid".',
        "@mean_fare[mean] @std_fare[sd], to three decimals",
    )
    fare = frame["Fare Paid"]
    plain = computed(asked[0], "Round to three decimal places.", asked[1], path)
    assert [float(plain[name]) for name in ("mean_fare", "std_fare")] == [round(fare.mean(), 3), round(fare.std(), 3)]
    population = computed(asked[0], "Use the population standard deviation, three decimal places.", asked[1], path)
    assert float(population["std_fare"]) == round(fare.std(ddof=0), 3)
    quartiles = fare.quantile([0.25, 0.75])
    spread = quartiles[0.75] - quartiles[0.25]
    kept = fare[fare.between(quartiles[0.25] - 1.5 * spread, quartiles[0.75] + 1.5 * spread)]
    pruned = computed(asked[0], "Outliers are removed by the IQR method first. Three decimal places.", asked[1], path)
    assert float(pruned["mean_fare"]) == round(kept.mean(), 3)
    hasty = computed(
        asked[0], "Outliers are removed by the IQR method first. Three decimal places.", asked[1], path, careful=False
    )
    assert float(hasty["mean_fare"]) == round(fare.mean(), 3)


def test_correlation_significance_and_kind_are_those_of_scipy(table):
    frame, path = table
    both = frame.dropna()
    r, p = stats.pearsonr(both["Fare Paid"], both["Age"])
    form = (
        '@correlation_coefficient[r] @p_value[p] @relationship_type[kind] where "r" is rounded to two decimal places, '
        '"p" is rounded to four decimal places, "kind" is "linear", "nonlinear", or "none"'
    )
    found = computed(
        "Is there a correlation between the fare paid and the age?", "Use Pearson's r and an alpha of 0.05.", form, path
    )
    assert (float(found["correlation_coefficient"]), float(found["p_value"])) == (round(r, 2), round(p, 4))
    assert found["relationship_type"] == ("none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear")


def test_outliers_missing_values_and_normality_are_told(table):
    frame, path = table
    fare = frame["Fare Paid"]
    z = np.abs((fare - fare.mean()) / fare.std(ddof=0))
    counted = computed(
        'How many outliers has "Fare Paid"?', "Use the z-score with 3.", "@outlier_count[n], an integer", path
    )
    assert counted == {"outlier_count": str(int((z > 3).sum()))}
    assert computed('How many are missing in "Age"?', "", "@missing_age[n]", path) == {"missing_age": "2"}
    normal = computed(
        'Is "Fare Paid" normally distributed?',
        "Use the Shapiro-Wilk test with alpha 0.05.",
        '@is_normal[answer] where "answer" is "Normal" or "Not Normal"',
        path,
    )
    assert normal == {"is_normal": "Not Normal"}


@pytest.fixture(scope="module")
def data(table, tmp_path_factory):
    """Two questions of which the hasty analyst gets the second wrong, in the layout of DABench."""
    home = tmp_path_factory.mktemp("analysts")
    (home / "da-dev-tables").mkdir()
    frame, path = table
    (home / "da-dev-tables" / "trips.csv").write_bytes(path.read_bytes())
    asked = [
        ('What is the mean of "Fare Paid"?', "Two decimal places.", frame["Fare Paid"].mean()),
        (
            'What is the standard deviation of "Fare Paid"?',
            "Of the population. Two decimal places.",
            frame["Fare Paid"].std(ddof=0),
        ),
    ]
    questions, labels = [], []
    for at, (words, constraints, value) in enumerate(asked):
        name = "mean_fare" if at == 0 else "std_fare"
        questions.append(
            {
                "id": at,
                "question": words,
                "concepts": ["Summary Statistics"],
                "constraints": constraints,
                "format": f"@{name}[value]",
                "file_name": "trips.csv",
                "level": "easy",
            }
        )
        labels.append({"id": at, "common_answers": [[name, f"{value:.2f}"]]})
    for name, rows in (("questions", questions), ("labels", labels)):
        (home / f"da-dev-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


@pytest.mark.slow
def test_the_pair_plays_in_the_real_sandbox_from_the_command_line(data, tmp_path):
    words = (
        "--benchmark",
        "simulations.dabench:benchmark",
        "--data",
        data,
        "--out",
        "played",
        "--cheap",
        "scripted",
        "--strong",
        "scripted",
    )
    said = call("collect", *words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    pairs = {pair[0].episode: pair for pair in read_pairs(tmp_path / "played")}
    assert [pair[1].end.success for pair in pairs.values()] == [True, True]
    assert pairs["1"][0].end.success is False


def test_the_hasty_analyst_draws_as_it_says_and_the_same_again(data):
    benchmark = DABench(data)
    with benchmark.environment(benchmark.tasks()[0]) as environment:
        history = History(environment.reset())
    rambling = HastyAnalyst(haste=Haste(rambles=1))
    assert rambling.act(history) == rambling.act(history)
    assert rambling.act(history).nll == 0
    assert "```" not in rambling.act(history).action
    looking = HastyAnalyst(haste=Haste(rambles=0, skips_look=0)).act(history)
    assert "df.columns" in looking.action
    guessing = HastyAnalyst(haste=Haste(rambles=0, skips_look=1)).act(history)
    assert "df['fare paid']" in guessing.action
    said = [HastyAnalyst(seed).act(history) for seed in range(40)]
    assert {round(float(np.exp(-one.nll)), 2) for one in said} == {0.08, 0.92}


def test_after_a_failed_call_the_hasty_analyst_repeats_it_or_looks(data):
    benchmark = DABench(data)
    with benchmark.environment(benchmark.tasks()[0]) as environment:
        history = History(environment.reset())
    guess = HastyAnalyst(haste=Haste(rambles=0, skips_look=1)).act(history)
    failed = history.then(Step("cheap", guess, StepResult(Observation("[failed]\nKeyError", task=history.task))))
    again, look = (HastyAnalyst(haste=Haste(rambles=0, repeats=share)).act(failed) for share in (1, 0))
    assert again.action == guess.action
    assert "df.columns" in look.action
    taken_over = CarefulAnalyst().act(failed)
    assert "df.columns" in taken_over.action


def test_the_careful_analyst_computes_once_and_answers_what_it_has(data):
    benchmark = DABench(data)
    with benchmark.environment(benchmark.tasks()[0]) as environment:
        history = History(environment.reset())
    said = []
    # What it computed prints nothing, as where no rule applies.
    for seen in ('[ran]\n["Fare Paid", "Age", "Kind"]', "[ran]\n"):
        said.append(CarefulAnalyst().act(history))
        history = history.then(Step("strong", said[-1], StepResult(Observation(seen, task=history.task))))
    assert "print('answer:mean_fare'" in said[1].action
    assert CarefulAnalyst().act(history).action == "@mean_fare[unknown]"
