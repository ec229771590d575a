"""DABench with recorded answers: what lacks is told before anything is played, and the page says whose answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_dabench import N, write_questions

from bayes_tacit.agents import (
    Proposal,
    PureController,
    episodes_from_transcripts,
    read_pairs,
    read_transcript,
    run_episode,
)
from bayes_tacit.agents.playing import collect
from bayes_tacit.agents.playing.benchmark import file_stem
from simulations.__main__ import main
from simulations.dabench import DABench
from simulations.dabench.analyst import HastyAnalyst
from simulations.dabench.experiment import BUDGET, replaying
from simulations.dabench.page import story_of
from simulations.dabench.questions import make_splits

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


class Sayer:
    """Says some replies; none of them is code, so that no sandbox is needed."""

    name = "sayer"

    def __init__(self, *replies):
        self.replies = replies

    def act(self, history):
        return Proposal(self.replies[len(history)], nll=0.5)


def answer(question, *, right):
    return "\n".join(f"@{name}[{value if right else 'nothing'}]" for name, value in question.label.items())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """Rollouts of every question: both say something else first; Cheap is right on even ones."""
    folder = tmp_path_factory.mktemp("rollouts")
    benchmark = DABench(data)
    for question in make_splits(data).all:
        says = {
            "cheap": Sayer(
                f"let me think of {question.id}", "and again", answer(question, right=int(question.id) % 2 == 0)
            ),
            "strong": Sayer("let me look", answer(question, right=True)),
        }
        for agent, sayer in says.items():
            actors = (sayer, None) if agent == "cheap" else (None, sayer)
            with benchmark.environment(question) as environment:
                run_episode(
                    environment,
                    *actors,
                    PureController(agent, "proposal"),
                    episode=question.id,
                    extractor=benchmark.extractor(question, BUDGET),
                    budget=BUDGET,
                    path=folder / f"{file_stem(question)}.{agent}.jsonl",
                )
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "recorded")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def edited(path, change):
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines(path))))


def with_end(**values):
    return lambda content: [*content[:-1], {**content[-1], **values}]


def with_first(**values):
    """Change what was seen at first."""

    def change(content):
        observation = {**content[1]["observation"], **values}
        return [content[0], {**content[1], "observation": observation}, *content[2:]]

    return change


def by_strong(content):
    """Have it all done by Strong."""
    steps = [{**line, "agent": "strong"} if line["event"] == "step" else line for line in content]
    return with_end(cheap_calls=0, strong_calls=3)(steps)


# Every one of them leaves question 4 without answers; a change of the file of Cheap's rollout.
CHANGES = {
    "gone": (None, ""),
    "no reset": (
        lambda content: [content[0], *content[2:]],
        "line 2: event is 'step'; expected an event 'reset' first",
    ),
    "cut short": (lambda content: [*content[:-2], content[-1]], "line 5: actions is 3; expected 2"),
    "no end": (lambda content: content[:-1], "has no end"),
    "no start": (lambda content: content[1:], "line 1: expected the event 'start'"),
    "broke off": (with_end(status="actor_error", success=False), "status is 'actor_error', not 'done' or 'budget'"),
    "of Strong": (by_strong, "agents of the cheap rollout is ['strong'], not at least one step, each by cheap"),
    "no task": (with_first(task=""), "the task was another one, ''"),
    "a number for a task": (with_first(task=4), "line 2: observation.task is 4"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_question_without_answers_is_told_in_one_line_before_anything_is_played(kind, data, folder, tmp_path, capsys):
    change, why = CHANGES[kind]
    path = folder / "4.cheap.jsonl"
    path.unlink() if change is None else edited(path, change)
    words = ["dabench", "--data", data, "--out", tmp_path / "out", "--cheap", folder, "--strong", folder]
    assert main([str(word) for word in words]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {folder}: no recorded answers of cheap for question 4")
    assert told.endswith(f"; expected a finished rollout for each of {N - 1} questions\n")
    assert told.count("\n") == 1
    assert (f"({path}" in told) == bool(why)
    assert why in told
    assert not (tmp_path / "out").exists()


def test_of_several_questions_without_answers_the_first_is_named(data, folder, tmp_path, capsys):
    for number in (2, 5, 8):
        (folder / f"{number}.strong.jsonl").unlink()
    words = ["dabench", "--data", data, "--out", tmp_path / "out", "--strong", folder]
    assert main([str(word) for word in words]) == 2
    what = f"{folder}: no recorded answers of strong for 3 questions, the first of them 2"
    assert capsys.readouterr().err == f"error: {what}; expected a finished rollout for each of {N - 1} questions\n"
    assert not (tmp_path / "out").exists()


def test_questions_with_the_same_text_keep_their_own_answers(data, whole, tmp_path):
    questions = make_splits(data).all
    assert len({question.text for question in questions}) < len(questions)
    players = replaying(0, whole, whole, questions)
    for pair in collect(DABench(data), tmp_path / "again", players, tasks=questions):
        for agent, after in (("cheap", pair.cheap), ("strong", pair.strong)):
            before = read_transcript(whole / f"{pair.task.id}.{agent}.jsonl")
            assert [step.proposal.action for step in after.steps] == [step.proposal.action for step in before.steps]
    assert replaying(0, None, whole, questions).cheap == HastyAnalyst(0)


def test_a_page_says_of_each_side_what_it_was(data, whole):
    splits, home = make_splits(data), Path("folder")
    known = {
        (None, None): ("DABench, played by two analysts by rule", "Both actors are rules of ours"),
        (home, home): ("DABench with recorded answers", "each actor's one after the other"),
        (home, None): ("DABench with recorded answers of Cheap, and Strong by rule", "Strong is an analyst by rule"),
        (None, home): ("DABench with Cheap by rule, and recorded answers of Strong", "Cheap is an analyst by rule"),
    }
    episodes = episodes_from_transcripts(read_pairs(whole))
    for (cheap, strong), (title, said) in known.items():
        story = story_of(splits, cheap, strong)
        assert story.title == title
        assert [words in story.is_not for _, words in known.values()] == [words == said for _, words in known.values()]
        assert story.command == "dabench" + " --cheap FOLDER" * bool(cheap) + " --strong FOLDER" * bool(strong)
        # The rule of the teacher was settled after a look at our own Cheap, and at nobody else.
        marked = story.words.marked(SimpleNamespace(training=episodes))
        assert "marked 0 of the 4 fit questions" in marked
        assert ("settled after a look at Cheap's diagnostics" in marked) == (cheap is None)
        assert ("settled with the analyst by rule as Cheap" in marked) == (cheap is not None)
