"""The teacher: checked answers, a rule with an obvious result, human tables, and resuming."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_server import ProtocolServer, says, status
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit import Counterfactuals, Episodes, StepCost
from bayes_tacit.agents import ActorError, Budget, Retry, episodes_from_transcripts, run_episode, write_transcript
from bayes_tacit.agents.endpoint import Endpoint
from bayes_tacit.agents.marks import Mark, read_marks, with_marks
from bayes_tacit.agents.pairs import read_pairs
from bayes_tacit.agents.teacher import (
    Lesson,
    ModelTeacher,
    RuleTeacher,
    TeacherError,
    feasible_by,
    mark_pairs,
    read_answer,
    stalled_for,
)
from bayes_tacit.cli.app import app, main
from bayes_tacit.cli.teach import teach
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.router import handoff_at, pure

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

GOOD = '{"earliest": 1, "latest": 3, "recommended": 2, "explanation": "it waits"}'


def pair(episode="a", cheap=WAIT, strong=RIGHT, *, length=3, actions=6, timing="post_action"):
    settings = {"episode": episode, "extractor": Stalled(), "budget": Budget(actions)}
    return (
        run_episode(Corridor(length), Walker("c", cheap), None, pure("cheap", timing), **settings),
        run_episode(Corridor(length), None, Walker("s", strong), pure("strong", timing), **settings),
    )


def teacher(server, **settings):
    settings = {"sleep": lambda _: None, **settings}
    return ModelTeacher(Endpoint(server.base_url, "wise", timeout=5), **settings)


def test_a_model_sees_both_rollouts_and_gives_a_mark():
    with ProtocolServer(says(GOOD)) as server:
        lesson = teacher(server).mark(*pair())
        body = server.requests[0]["body"]
    assert lesson.mark == Mark(start=1, end=3, recommended=2)
    user = body["messages"][1]["content"]
    for part in ("reach 3", "6 steps, from 0 to 5", "step 5: wait", "step 2: right"):
        assert part in user
    assert [said["role"] for said in lesson.exchange] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    ("nonsense", "complaint"),
    [
        ("I do not know.", "expected a JSON object"),
        ('{"earliest": 1, "latest": 3}', "recommended is None"),
        ('{"earliest": 1, "latest": 6, "recommended": 2}', "latest is 6; expected a whole number from 0 to 5"),
        ('{"earliest": -1, "latest": 3, "recommended": 2}', "earliest is -1"),
        ('{"earliest": 1, "latest": 3, "recommended": 4}', "earliest <= recommended <= latest"),
        ('{"earliest": "1", "latest": 3, "recommended": 2}', "earliest is '1'"),
    ],
)
def test_nonsense_is_answered_with_what_was_wrong_and_asked_again(nonsense, complaint):
    with ProtocolServer(says(nonsense), says(f"```json\n{GOOD}\n```")) as server:
        lesson = teacher(server).mark(*pair())
        second = server.requests[1]["body"]["messages"]
    assert lesson.mark == Mark(1, 3, 2)
    assert second[2] == {"role": "assistant", "content": nonsense}
    assert complaint in second[3]["content"]


def test_a_model_that_never_makes_sense_is_given_up_on_with_the_exchange():
    with ProtocolServer(says("hm")) as server:
        with pytest.raises(TeacherError, match="no usable mark in 3 answers") as caught:
            teacher(server).mark(*pair())
        assert len(server.requests) == 3
    assert [said["role"] for said in caught.value.exchange] == [
        "system",
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]


@given(*[st.integers(-2, 8)] * 3)
def test_a_mark_is_accepted_exactly_where_it_is_ordered_and_inside(earliest, latest, recommended):
    answer = json.dumps({"earliest": earliest, "latest": latest, "recommended": recommended})
    fits = 0 <= earliest <= recommended <= latest <= 5
    if fits:
        assert read_answer(answer, 6, "a") == Mark(earliest, latest, recommended)
    else:
        with pytest.raises(InvalidDataError):
            read_answer(answer, 6, "a")


def test_a_set_of_rollouts_is_marked_once_and_resumed_after_an_endpoint_goes_down(tmp_path):
    pairs = [pair("a"), pair("b", cheap=RIGHT), pair("c/with slash"), pair("d", strong=WAIT), pair("e")]
    once = {"retry": Retry(attempts=1)}
    with ProtocolServer(says(GOOD), status(503)) as server, pytest.raises(ActorError, match="503"):
        mark_pairs(pairs, teacher(server, **once), tmp_path / "marks")
    assert [path.name for path in (tmp_path / "marks").iterdir()] == ["a.json"]
    told = []
    with ProtocolServer(says(GOOD)) as server:
        lessons = mark_pairs(pairs, teacher(server), tmp_path / "marks", on_lesson=told.append)
        assert len(server.requests) == 2
        assert mark_pairs(pairs, teacher(server), tmp_path / "marks") == lessons
        assert len(server.requests) == 2
    assert [lesson.episode for lesson in told] == ["c/with slash", "e"]
    assert list(lessons) == ["a", "c/with slash", "e"]
    kept = json.loads((tmp_path / "marks" / "a.json").read_text())
    assert kept["mark"] == {"start": 1, "end": 3, "recommended": 2}
    assert kept["exchange"][-1] == {"role": "assistant", "content": GOOD}


def test_a_refusal_is_kept_and_asked_again_only_on_demand(tmp_path):
    with ProtocolServer(says("hm"), says("hm"), says(GOOD)) as server:
        asking = teacher(server, attempts=2)
        first = mark_pairs([pair()], asking, tmp_path)
        assert (first["a"].mark, first["a"].error is None) == (None, False)
        assert mark_pairs([pair()], asking, tmp_path) == first
        assert len(server.requests) == 2
        again = mark_pairs([pair()], asking, tmp_path, retry_failed=True)
    assert again["a"].mark == Mark(1, 3, 2)


def test_marks_that_are_not_ours_are_refused(tmp_path):
    class Other:
        name = "other"

        def mark(self, cheap, strong):  # noqa: ARG002
            return Lesson(cheap.episode, Mark(0, 0, 0), self.name)

    mark_pairs([pair()], Other(), tmp_path)
    with pytest.raises(FileFormatError, match="teacher is 'other'"):
        mark_pairs([pair()], RuleTeacher(lambda *_: True, lambda *_: True), tmp_path)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not a mark"):
        mark_pairs([pair()], Other(), tmp_path)
    with pytest.raises(MissingFileError, match="no such folder"):
        mark_pairs([pair()], Other(), tmp_path / "no" / "such")


def counterfactuals_of(cheap, length=3, actions=6):
    """Play every handoff, and put it into the table."""
    handoffs = [
        run_episode(
            Corridor(length),
            None,
            Walker("s", RIGHT),
            handoff_at(step),
            episode=cheap.episode,
            recorded=cheap,
            budget=Budget(actions),
        )
        for step in range(len(cheap.checkpoints))
    ]
    return Counterfactuals.from_calls(
        [cheap.episode],
        success=[[played.end.success for played in handoffs]],
        strong_calls=[[played.end.strong_calls for played in handoffs]],
        never_success=[cheap.end.success],
        cost=StepCost(1, 3),
    )


def test_the_rule_marks_where_standing_still_is_clear_and_a_handoff_still_wins():
    # Six actions, three to the door: the last handoff that wins is after action 2, so at step 3.
    cheap, strong = pair()
    table = counterfactuals_of(cheap)
    np.testing.assert_array_equal(table.dataset["success"].values, [[1, 1, 1, 1, 0, 0]])
    assert RuleTeacher(feasible_by(table), stalled_for(2)).mark(cheap, strong).mark == Mark(1, 2, 1)
    assert RuleTeacher(feasible_by(table), stalled_for(1)).mark(cheap, strong).mark == Mark(0, 2, 0)
    assert RuleTeacher(feasible_by(table), stalled_for(1), longest=2).mark(cheap, strong).mark == Mark(0, 1, 0)
    assert RuleTeacher(feasible_by(table), stalled_for(4)).mark(cheap, strong).mark is None


def test_new_places_are_progress_and_old_ones_are_not():
    cheap, strong = pair(cheap=("right", "left", "right", "left", "wait"), length=5, actions=9)
    always = RuleTeacher(lambda *_: True, stalled_for(3))
    # Action 0 reaches a new place; 1 to 3 go back and forth.
    assert always.mark(cheap, strong).mark == Mark(3, 8, 3)
    by_hand = RuleTeacher(lambda *_: True, stalled_for(2, lambda _, at: at in (1, 4)))
    assert by_hand.mark(cheap, strong).mark == Mark(3, 3, 3)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_human_marks_are_read(tmp_path):
    table = write(
        tmp_path / "marks.csv",
        "\ufeffepisode,window_start,window_end,recommended,remark\na,1,3,2,loops\nb,0,0,,\nc,,,,unclear\n",
    )
    assert read_marks(table) == {"a": Mark(1, 3, 2), "b": Mark(0, 0, 0)}
    nameless = write(tmp_path / "marks.csv", "episode,window_start,window_end,,\na,1,3,,\n")
    assert read_marks(nameless) == {"a": Mark(1, 3, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("episode,window_start\na,1\n", "no column 'window_end'"),
        ("episode,window_start,window_end\na,1.5,2\n", ":2: window_start is '1.5'"),
        ("episode,window_start,window_end\na,1,\n", ":2: window_end is ''"),
        ("episode,window_start,window_end\na,3,2\n", "window_start <= recommended <= window_end"),
        ("episode,window_start,window_end\na,1,2\na,1,2\n", ":3: episode is 'a'; expected an id that comes once"),
        ("episode,window_start,window_end\n,1,2\n", ":2: episode is ''"),
        ('episode,window_start,window_end\na,1,"2\n', "not a CSV"),
        ("episode,window_start,window_end,recommended\na,1,2,9\n", "recommended"),
        ("episode,window_start,window_end,window_start\na,0,1,5\n", r"marks\.csv"),
        ("episode,window_start,window_end\na\0,0,1\n", r"marks\.csv"),
        (f"episode,window_start,window_end\na,1,{'9' * 5000}\n", r"marks\.csv:2: window_end is"),
    ],
)
def test_human_marks_that_are_wrong_are_refused_with_their_place(text, message, tmp_path):
    with pytest.raises((InvalidDataError, FileFormatError), match=message):
        read_marks(write(tmp_path / "marks.csv", text))


def test_marks_become_windows():
    episodes = episodes_from_transcripts([pair("a"), pair("b", cheap=RIGHT), pair("c")], {"c": (0, 1)})
    marked = with_marks(episodes, {"a": Mark(1, 3, 2)})
    np.testing.assert_array_equal(marked.dataset["window_start"], [1, np.nan, np.nan])
    np.testing.assert_array_equal(marked.dataset["window_end"], [3, np.nan, np.nan])
    one = with_marks(episodes, {"a": Mark(1, 3, 2)}, "one_step")
    assert one.dataset["window_start"].values[0] == one.dataset["window_end"].values[0] == 2
    for marks, message in [
        ({"x": Mark(0, 0, 0)}, "an id of these 3 episodes"),
        ({"b": Mark(0, 0, 0)}, "paired outcome is '11'"),
        ({"a": Mark(0, 6, 0)}, "at most 5"),
    ]:
        with pytest.raises(InvalidDataError, match=message):
            with_marks(episodes, marks)


if teach not in [command.callback for command in app.registered_commands]:
    app.command()(teach)


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the program as a user does, in the folder, without the seconds that a new process takes to start."""
    monkeypatch.chdir(folder)

    def program(*arguments):
        monkeypatch.setattr(sys, "argv", ["bayes-tacit", "teach", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return program


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rollouts").mkdir()
    for cheap, strong in [pair("a"), pair("b", cheap=RIGHT)]:
        write_transcript(cheap, tmp_path / "rollouts" / f"{cheap.episode}.cheap.jsonl")
        write_transcript(strong, tmp_path / "rollouts" / f"{cheap.episode}.strong.jsonl")
    return tmp_path


def test_the_command_takes_human_marks(folder, run):
    write(folder / "marks.csv", "episode,window_start,window_end,recommended\na,1,3,2\n")
    code, out, _ = run("rollouts", "--marks", "marks.csv", "--out", "e.jsonl", "--evidence", "one_step", "--json")
    assert code == 0
    assert json.loads(out) == {"episodes": 2, "due": 1, "marked": 1, "failed": [], "notes": [], "written": "e.jsonl"}
    episodes = Episodes.read(folder / "e.jsonl")
    expected = episodes_from_transcripts(read_pairs(folder / "rollouts"), {"a": (2, 2)})
    assert episodes.identical(expected)


def test_the_command_marks_by_rule(folder, run):
    counterfactuals_of(pair("a")[0]).write(folder / "handoffs.csv")
    code, _, _ = run("rollouts", "--counterfactuals", "handoffs.csv", "--stalled", 2, "--out", "e.jsonl", "--json")
    assert code == 0
    assert Episodes.read(folder / "e.jsonl").dataset["window_end"].values[0] == 2


def test_the_command_asks_a_model_and_says_so_when_it_gives_no_mark(run):
    with ProtocolServer(says("hm"), says("hm"), says(GOOD)) as server:
        options = ("--model", "wise", "--base-url", server.base_url, "--keep", "kept", "--attempts", 2, "--json")
        code, out, error = run("rollouts", *options, "--out", "e.jsonl")
        assert (code, json.loads(out)["failed"]) == (1, ["a"])
        assert "a: no usable mark in 2 answers" in error
        code, out, _ = run("rollouts", *options, "--out", "e.jsonl", "--force", "--retry-failed")
    assert (code, json.loads(out)["marked"]) == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "e.jsonl"), "one of --marks, --counterfactuals, --model and --rule"),
        (("--out", "e.jsonl", "--model", "m"), "--model, --base-url and --keep together"),
        (("--out", "no/e.jsonl", "--marks", "m.csv"), "no such folder"),
        (("--out", "e.jsonl", "--marks", "m.csv"), "m.csv: no such file"),
        (("--out", "e.jsonl", "--marks", "bad.csv"), "bad.csv:2:"),
    ],
)
def test_the_command_tells_bad_input_in_one_line(options, message, folder, run):
    write(folder / "bad.csv", "episode,window_start,window_end\na,x,2\n")
    code, _, error = run("rollouts", *options)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "e.jsonl").exists()


def test_pairs_are_found_below_a_folder_and_must_be_single(folder):
    (folder / "rollouts" / "deeper").mkdir()
    cheap, _ = pair("c")
    write_transcript(cheap, folder / "rollouts" / "deeper" / "c.jsonl")
    (folder / "rollouts" / "torn.jsonl").write_text("")
    assert [each.episode for each, _ in read_pairs(folder / "rollouts")] == ["a", "b"]
    write_transcript(cheap, folder / "rollouts" / "again.jsonl")
    with pytest.raises(InvalidDataError, match="one transcript of each policy"):
        read_pairs(folder / "rollouts")
    with pytest.raises(MissingFileError):
        read_pairs(folder / "none")
