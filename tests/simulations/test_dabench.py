"""DABench: questions and how they are dealt, the environment, features and diagnostics, the analysts by rule."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_dabench import ABSENT, N, write_questions

from bayes_tacit.agents import (
    Budget,
    History,
    Observation,
    Proposal,
    Step,
    StepResult,
    episodes_from_transcripts,
    run_episode,
)
from bayes_tacit.errors import FileFormatError
from bayes_tacit.router import pure
from models.dabench import DABENCH
from simulations.dabench import (
    DABenchExtractor,
    Question,
    ToolEnvironment,
    dabench_prompt,
    extract_answers,
    is_correct,
    read_questions,
    read_reply,
)
from simulations.dabench.analyst import MARK, compute, read_task, wanted
from simulations.dabench.benchmark import FAILED, NOT_UNDERSTOOD, RAN
from simulations.dabench.questions import make_splits

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

QUESTION = {
    "id": 7,
    "question": 'What are the mean and the largest value of the "height" column, by Group?',
    "concepts": ["Summary Statistics", "Feature Engineering"],
    "constraints": "Ignore missing values. Round to two decimal places.",
    "format": "@mean[mean_value] @largest[largest_value] where both are numbers",
    "file_name": "plants.csv",
    "level": "easy",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A DABench of one question, in the layout in which it is published."""
    home = tmp_path_factory.mktemp("dabench")
    (home / "da-dev-tables").mkdir()
    (home / "da-dev-tables" / "plants.csv").write_text("Group,height,width\na,1.5,1\nb,2.5,2\nb,3.5,9\n")
    (home / "da-dev-questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    label = {"id": 7, "common_answers": [["mean", "2.50"], ["largest", "3.5"]]}
    (home / "da-dev-labels.jsonl").write_text(json.dumps(label) + "\n")
    return home


@pytest.fixture(scope="module")
def question(folder) -> Question:
    (only,) = read_questions(folder)
    return only


@pytest.fixture(scope="module")
def extractor(question, folder) -> DABenchExtractor:
    return DABenchExtractor(question, folder, calls=12)


def code(text):
    return f"```python\n{text}\n```"


LOAD = code("import pandas as pd\ndf = pd.read_csv('plants.csv')\nprint(df.shape)")
MEAN = code("print(df['height'].mean(), df.groupby('Group')['height'].max())")
ANSWER = "@mean[2.50] @largest[3.5]"


def history(*steps):
    """Steps as (reply, first line of the observation, output)."""
    past = History(Observation("Nothing has been run yet.", task="q"))
    for reply, status, output in steps:
        past = past.then(Step("cheap", Proposal(reply), StepResult(Observation(f"{status}\n{output}"))))
    return past


GOOD = ((LOAD, RAN, "(3, 3)"), (MEAN, RAN, "2.5 3.5"))


def diagnose(extractor, past, reply, **settings):
    found = extractor.diagnostics(past, Proposal(reply, **settings), None)
    assert tuple(found) == extractor.diagnostic_names
    return {name: value for name, value in found.items() if value}


def test_a_good_episode_has_no_diagnostics_at_all(extractor):
    assert len(extractor.diagnostic_names) == 8
    assert diagnose(extractor, history(), LOAD) == {}
    assert diagnose(extractor, history(GOOD[0]), MEAN) == {}
    assert diagnose(extractor, history(*GOOD), ANSWER) == {}


@pytest.mark.parametrize("reply", ["I think so.", "", f"{LOAD}\n{MEAN}", f"{LOAD}\n@mean[2] @largest[3]"])
def test_protocol_violation(reply, extractor):
    assert diagnose(extractor, history(GOOD[0]), reply) == {"protocol_violation": 1.0}


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        ("@mean[2.50]", 0.5),
        ("@mean[2.50] @largest[]", 0.5),
        ("@mean[mean_value] @largest[3.5]", 0.5),
        ("@average[2.50]", 1.0),
        ("@mean[2.50] @largest[3.5] @more[1]", 0.0),
    ],
)
def test_format_violation_is_the_share_of_answers_not_given(answer, share, extractor):
    expected = {"format_violation": share} if share else {}
    assert diagnose(extractor, history(*GOOD), answer) == expected


def test_execution_failure(extractor):
    failed = history(GOOD[0], (code("df['height'].meen()"), FAILED, "AttributeError"))
    assert diagnose(extractor, failed, MEAN) == {"execution_failure": 1.0}
    recovered = history(GOOD[0], (code("df['height'].meen()"), FAILED, "AttributeError"), GOOD[1])
    assert diagnose(extractor, recovered, ANSWER) == {}
    assert diagnose(extractor, history(GOOD[0]), code("print(df['height'.mean())")) == {"execution_failure": 1.0}


def test_repetition_looks_through_layout_and_comments(extractor):
    again = code("# once more\nimport pandas as pd\n\ndf = pd.read_csv( 'plants.csv' )\nprint(df.shape)")
    assert diagnose(extractor, history(*GOOD), again) == {"repetition": 1.0}
    assert diagnose(extractor, history(*GOOD), code("print(df['width'].mean())")) == {}


def test_stalled_answer_is_one_more_call_when_the_last_two_said_the_same(extractor):
    other = code("print(df['height'].max())")
    same = history(GOOD[0], (MEAN, RAN, "2.5"), (code("print(round(df['height'].mean(), 2))"), RAN, "2.5"))
    assert diagnose(extractor, same, other) == {"stalled_answer": 1.0}
    assert diagnose(extractor, same, ANSWER) == {}
    silent = history(GOOD[0], (MEAN, RAN, ""), (code("x = 1"), RAN, ""))
    assert "stalled_answer" not in diagnose(extractor, silent, other)


@pytest.mark.parametrize(("used", "pressure"), [(0, 0), (5, 0), (6, 1 / 6), (8, 0.5), (11, 1), (30, 1)])
def test_budget_pressure_grows_from_half_of_the_calls_to_the_last(used, pressure, extractor):
    past = history(*((code(f"print({n})"), RAN, str(n)) for n in range(used)))
    found = extractor.diagnostics(past, Proposal(code("print('x')")), None)
    assert found["budget_pressure"] == pytest.approx(pressure)
    assert extractor.diagnostics(past, Proposal(ANSWER), None)["budget_pressure"] == 0


def test_no_progress(extractor):
    odd = ("hm", NOT_UNDERSTOOD, "Expected code")
    fails = (code("oops"), FAILED, "NameError")
    assert diagnose(extractor, history(GOOD[0], odd, odd), MEAN) == {"no_recent_progress": 1.0}
    assert "no_recent_progress" in diagnose(extractor, history(GOOD[0], odd, fails), MEAN)
    assert "no_recent_progress" not in diagnose(extractor, history(odd), MEAN)
    assert "no_recent_progress" not in diagnose(extractor, history(odd, GOOD[0]), MEAN)
    repeated = history(GOOD[0], GOOD[1], (code("print(1)"), RAN, "(3, 3)"), (code("print(2)"), RAN, "2.5 3.5"))
    assert "no_recent_progress" in diagnose(extractor, repeated, ANSWER)


@pytest.mark.parametrize(
    ("text", "mismatch"),
    [
        ("print(df['weight'].mean())", 1.0),
        ("print(df[['height', 'weight']])", 1.0),
        ("df = pd.read_csv('other.csv')", 1.0),
        ("df = pd.read_csv('/data/plants.csv')", 0.0),
        ("df['ratio'] = df['height'] / df['width']\nprint(df['ratio'])", 0.0),
        ("g = df.rename(columns={'height': 'h'})\nprint(g['h'])", 0.0),
        ("g = df.assign(h=1)\nprint(g['h'])", 0.0),
        ("print(df.describe())", 0.0),
    ],
)
def test_semantic_mismatch_of_a_call_is_a_column_or_file_that_is_not_there(text, mismatch, extractor):
    found = extractor.diagnostics(history(GOOD[0]), Proposal(code(text)), None)
    assert found["semantic_mismatch"] == mismatch


def test_semantic_mismatch_of_an_answer_is_what_was_asked_about_and_never_used(extractor):
    # The question names "height" in quotes and Group by its capital; "width" it does not name.
    assert diagnose(extractor, history(), ANSWER) == {"semantic_mismatch": 1.0}
    assert diagnose(extractor, history((MEAN, FAILED, "")), ANSWER)["semantic_mismatch"] == 1.0
    half = history((code("print(df.height.mean())"), RAN, "2.5"))
    assert diagnose(extractor, half, ANSWER) == {"semantic_mismatch": 0.5}


REPLIES = (
    st.sampled_from([LOAD, MEAN, ANSWER, code("df['weight']"), code("x = ="), "hm", "@mean[]", code("")]) | st.text()
)
STATUS = st.sampled_from([RAN, FAILED, NOT_UNDERSTOOD, "anything"])


@given(steps=st.lists(st.tuples(REPLIES, STATUS, st.text(max_size=5)), max_size=15), reply=REPLIES)
def test_diagnostics_are_always_between_0_and_1(steps, reply, extractor):
    found = extractor.diagnostics(history(*steps), Proposal(reply), None)
    assert tuple(found) == extractor.diagnostic_names
    assert all(0 <= value <= 1 for value in found.values())


def test_features_by_hand(question, folder):
    first = Observation("anything")
    assert DABenchExtractor(question, folder, descriptors=True).features(first) == {
        "answer_arity": 0.2,
        "decimal_precision": 1.0,
        "operation_breadth": 2.0,
        "transformation_workflow": 1.0,
    }
    plain = replace(
        question,
        format="@n[number], @n[number]",
        constraints="Rounded to the nearest whole number.",
        concepts=("Outlier Detection", "Outlier Detection"),
    )
    assert DABenchExtractor(plain, folder, descriptors=True).features(first) == {
        "answer_arity": 0.1,
        "decimal_precision": 0.0,
        "operation_breadth": 1.0,
        "transformation_workflow": 0.0,
    }
    many = replace(question, format=" ".join(f"@a{n}[x]" for n in range(25)))
    assert DABenchExtractor(many, folder).features(first) == {"answer_arity": 1.0, "decimal_precision": 1.0}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("@mean[2.5] @largest[3.50]", True),
        ("So: @largest[3.5], and\n@mean[2.5000000001].", True),
        ("@mean[2.500002] @largest[3.5]", False),
        ("@mean[2.5]", False),
        ("mean 2.5, largest 3.5", False),
        ("@mean[nan] @largest[3.5]", False),
        ("@mean[1] @mean[2.5] @largest[3.5] @extra[9]", True),
        ("@mean[2.5 ] @largest[ 3.5]", True),
    ],
)
def test_the_checker(text, right, question):
    assert is_correct(extract_answers(text), question.label) is right


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("```python\nx\n```", "call"),
        ("```\nx\n```", "call"),
        ("```Python\nprint('@a[1]')\n```", "call"),
        ("```python\nx\n```\n```python\ny\n```", "neither"),
        ("@a[1]", "answer"),
        ("```python\nx\n```\n@a[1]", "neither"),
        ("nothing", "neither"),
    ],
)
def test_replies_are_read(text, kind):
    assert read_reply(text).kind == kind


class Scripted:
    name = "scripted"

    def __init__(self, *replies):
        self.replies = replies

    def act(self, history):
        return Proposal(self.replies[min(len(history), len(self.replies) - 1)])


def play(question, folder, *replies, router=None, strong=None, **settings):
    return run_episode(
        ToolEnvironment(question, folder),
        Scripted(*replies),
        strong,
        router or pure("cheap", timing="proposal"),
        episode=question.id,
        extractor=DABenchExtractor(question, folder),
        budget=Budget(actions=12, calls=12),
        **settings,
    )


def test_an_episode_is_played_with_state_between_calls_and_checked_at_the_end(question, folder):
    played = play(question, folder, LOAD, "let me think", MEAN, ANSWER)
    texts = [step.result.observation.text for step in played.steps]
    assert texts[0] == f"{RAN}\n(3, 3)\n"
    assert texts[1].startswith(NOT_UNDERSTOOD)
    assert texts[2].startswith(f"{RAN}\n2.5 Group\na    1.5\nb    3.5")
    assert [step.result.valid for step in played.steps] == [True, False, True, True]
    assert (played.end.status, played.end.success) == ("done", True)
    wrong = play(question, folder, "@mean[1] @largest[1]")
    assert (wrong.end.status, wrong.end.success) == ("done", False)


def test_nothing_that_an_agent_sees_holds_the_label(question, folder):
    first = ToolEnvironment(question, folder).reset()
    assert "2.50" not in first.text + first.task
    assert question.question in first.task
    assert question.format in first.task
    assert "2.50" not in repr(question)
    shown = dabench_prompt().messages(History(first))
    assert question.question in shown[1]["content"]


def test_proposals_make_episodes(question, folder):
    cheap = play(question, folder, "hm", "@mean[1]")
    strong = run_episode(
        ToolEnvironment(question, folder),
        None,
        Scripted(ANSWER),
        pure("strong", timing="proposal"),
        episode=question.id,
    )
    episodes = episodes_from_transcripts([(cheap, strong)], {"7": (0, 0)})
    assert (episodes.feature_names, episodes.diagnostic_names) == (DABENCH.features, DABENCH.diagnostics)
    assert episodes.outcomes.tolist() == ["01"]
    assert episodes.dataset["diagnostics"].sel(diagnostic="protocol_violation").values.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("da-dev-questions.jsonl", "nonsense\n", "line 1: not valid JSON"),
        ("da-dev-questions.jsonl", '{"id": 7}\n', "expected a question"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "level": 3}) + "\n", "text in every field"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "file_name": "../x.csv"}) + "\n", "without folders"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "id": 8}) + "\n", "has a label"),
        ("da-dev-questions.jsonl", "\n".join([json.dumps(QUESTION)] * 2), "repeated"),
        ("da-dev-labels.jsonl", '{"id": 7}\n', "common_answers"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "concepts": {}}) + "\n", "line 1"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "id": 1.5}) + "\n", r"questions\.jsonl, line 1: id is "),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "id": None}) + "\n", r"questions\.jsonl, line 1: id is "),
        ("da-dev-labels.jsonl", "[" * 100_000, "line 1: not valid JSON"),
        ("da-dev-questions.jsonl", json.dumps({**QUESTION, "concepts": "x"}) + "\n", "line 1"),
        ("da-dev-questions.jsonl", json.dumps(QUESTION)[:-1] + ', "level": "easy"}\n', "line 1"),
    ],
)
def test_files_that_are_not_dabench_are_refused_with_their_place(file, content, message, folder, tmp_path):
    for name in ("da-dev-questions.jsonl", "da-dev-labels.jsonl"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / file).write_text(content)
    with pytest.raises(FileFormatError, match=message):
        read_questions(tmp_path)


@pytest.mark.skipif("DABENCH_DATA" not in os.environ, reason="runs with DABENCH_DATA=<folder of DABench>")
def test_the_published_questions_have_features_and_labels_that_check():
    home = Path(os.environ["DABENCH_DATA"])
    questions = read_questions(home)
    assert len(questions) == 257
    for question in questions:
        written = " ".join(f"@{name}[{value}]" for name, value in question.label.items())
        assert is_correct(extract_answers(written), question.label)
        if (home / "da-dev-tables" / question.file_name).exists():
            features = DABenchExtractor(question, home, descriptors=True).features(Observation(""))
            assert 0 < features["answer_arity"] <= 1
            assert features["operation_breadth"] >= 1


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


def question_on_trips(asked, constraints, form, **label):
    return Question("7", asked, constraints, form, ("Summary Statistics",), "trips.csv", "easy", label)


def computed(asked, constraints, form, path, *, careful=True):
    """Run the code that is written for a question, and give what it prints for each answer."""
    task = read_task(question_on_trips(asked, constraints, form).text)
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
def trips(table, tmp_path_factory):
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


@pytest.fixture(scope="module")
def few_tables(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


def test_questions_are_dealt_once_and_alike_with_and_without_tables(few_tables, tmp_path):
    splits = make_splits(few_tables)
    assert [question.id for question in splits.missing] == [str(N)]
    assert [len(part) for part in (splits.fit, splits.select, splits.test)] != [5, 2, 2]
    assert sorted(int(question.id) for question in splits.all) == list(range(1, N))
    whole = write_questions(tmp_path / "whole")
    (whole / "da-dev-tables" / ABSENT).write_bytes((whole / "da-dev-tables" / "trips.csv").read_bytes())
    complete = make_splits(whole)
    assert [len(part) for part in (complete.fit, complete.select, complete.test)] == [5, 2, 2]
    for part in ("fit", "select", "test"):
        ids = [question.id for question in getattr(complete, part)]
        assert [question.id for question in getattr(splits, part)] == [one for one in ids if one != str(N)]
