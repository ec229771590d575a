"""What the attack has found, one by one: each was accepted, or a traceback, once."""

from __future__ import annotations

import json
import os

import pytest
from attack import base
from attack.ways import command
from conversations import rollout
from routers import random_router
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit.agents import Budget, PureController, run_episode
from bayes_tacit.agents.teacher.human import read_marks
from bayes_tacit.agents.transcript import read_transcript
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitError
from bayes_tacit.logs import import_logs
from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.formats import FORMATS
from bayes_tacit.router import DecisionLog, replay
from simulations.dabench.questions import read_questions


@pytest.fixture
def transcript(tmp_path):
    path = tmp_path / "t.jsonl"
    actors = Walker("cheap", WAIT, (0.1, None)), Walker("strong", RIGHT)
    settings = {"extractor": Stalled(), "episode": "corridor", "budget": Budget(3), "path": path}
    run_episode(Corridor(3), *actors, PureController("cheap"), **settings)
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"event": "step"', '"event": []'),
        ('"event": "step"', '"event": "step", "event": "step"'),
        ('"event": "step"', '"event": "step", "more": 1'),
        ('"cost": ', '"cost": 1e999, "was": '),
        ('"executed": true', '"executed": "yes"'),
    ],
)
def test_a_transcript_has_each_key_once_and_none_that_is_unknown(transcript, old, new):
    read_transcript(transcript)
    text = transcript.read_text()
    assert old in text
    transcript.write_text(text.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=r"t\.jsonl, line \d+: "):
        read_transcript(transcript)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_transcript_is_a_file(transcript, kind):
    transcript.unlink()
    os.mkfifo(transcript) if kind == "pipe" else transcript.symlink_to("/dev/zero")
    with pytest.raises(FileFormatError, match="pipe or device; expected a transcript"):
        read_transcript(transcript)


def test_a_log_with_a_key_twice_is_not_replayed(tmp_path):
    router = random_router()
    with DecisionLog(tmp_path / "d.jsonl") as log:
        router.start([1, 0.5], episode="a", log=log)
    text = (tmp_path / "d.jsonl").read_text()
    (tmp_path / "d.jsonl").write_text(text.replace('"shadow": false', '"shadow": true, "shadow": false'))
    with pytest.raises(FileFormatError, match=r"d\.jsonl, line 1: .*'shadow' is there twice"):
        replay(tmp_path / "d.jsonl", router)


def test_true_is_no_version_of_a_snapshot():
    router = random_router()
    with pytest.raises(InvalidDataError, match="schema_version is True"):
        router.restore(router.start([1, 0.5]).snapshot() | {"schema_version": True})


@pytest.mark.parametrize(
    "text",
    [
        "episode,window_start,window_end,window_start\na,0,1,5\n",
        "episode,window_start,window_end,more\0\na,0,1,\n",
        "episode,window_start,window_end\na\0,0,1\n",
    ],
)
def test_marks_have_each_column_once_and_no_nul(tmp_path, text):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(TacitError, match=r"m\.csv"):
        read_marks(tmp_path / "m.csv")


@pytest.mark.parametrize("concepts", ["{}", '"x"', '["a"], "level": "easy"'])
def test_a_question_has_a_list_of_concepts_once(tmp_path, concepts):
    (tmp_path / "da-dev-labels.jsonl").write_text('{"id": 7, "common_answers": [["mean", "1"]]}\n')
    fields = '"question": "", "constraints": "", "format": "", "file_name": "a.csv", "level": "easy"'
    (tmp_path / "da-dev-questions.jsonl").write_text(f'{{"id": 7, {fields}, "concepts": {concepts}}}\n')
    with pytest.raises(FileFormatError, match=r"questions\.jsonl, line 1"):
        read_questions(tmp_path)


def test_ids_are_shown_without_what_would_move_the_cursor(tmp_path):
    base.written(tmp_path, "few.jsonl", "fit.json")
    lines = (tmp_path / "few.jsonl").read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"episode": "\x1b[31mred\x07\u202e"})
    (tmp_path / "few.jsonl").write_text("\n".join(lines) + "\n")
    ended = command("score", "fit.json", "few.jsonl", "--out", "s.csv")(tmp_path)
    assert ended.kind == "accepted"
    assert r"\x1b[31mred\x07\u202e" in ended.said
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.said)


AGENT_STEP = {"source": "agent", "message": "", "observation": {"results": [{"content": "a"}]}}
ATIF = {"schema_version": "ATIF-v1.4", "extra": {"task": "a", "success": True}}
BROKEN = {
    "a sample that is no object": ("inspect", {"samples": [1]}),
    "samples of no evaluation": ("inspect", {"samples": [], "eval": 1}),
    "usage that is no object": ("inspect", {"samples": [{"id": 1, "messages": [], "model_usage": 1}]}),
    "metrics that are none": ("atif", ATIF | {"steps": [AGENT_STEP | {"metrics": 1}]}),
    "calls that are no list": ("atif", ATIF | {"steps": [AGENT_STEP | {"tool_calls": 1}]}),
    "a result that is no object": ("atif", ATIF | {"steps": [AGENT_STEP | {"observation": {"results": [1]}}]}),
    "statistics that are none": ("swe-agent", {"trajectory": [], "info": {"model_stats": 1}}),
    "settings that are none": ("mini-swe-agent", {"messages": [], "info": {"config": 1}}),
    "a message with an extra text": (
        "mini-swe-agent",
        {"messages": [{"role": "assistant", "content": "", "extra": "x"}], "info": {}},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_log_with_another_kind_of_value_inside_is_refused(tmp_path, name):
    of, content = BROKEN[name]
    with pytest.raises(InvalidDataError, match="expected"):
        list(FORMATS[of].rollouts(Document(content, tmp_path / "a.traj.json")))


@pytest.mark.parametrize(
    "text",
    [
        '{"resolved_ids": ["a"], "unresolved_ids": 1}',
        '{"resolved_ids": ["a"], "resolved_ids": []}',
        '{"resolved_ids": [["a"]]}',
    ],
)
def test_a_report_of_outcomes_is_lists_of_tasks_each_once(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"report\.json: "):
        import_logs("c.jsonl", "s.jsonl", tmp_path / "e.jsonl", cheap_results=tmp_path / "report.json")


def test_a_table_of_outcomes_has_as_many_values_as_columns(tmp_path):
    (tmp_path / "o.csv").write_text("task,success\na,1,2\n")
    with pytest.raises(InvalidDataError, match=r"o\.csv:2: row is 'a'; expected as many values as columns"):
        import_logs("c.jsonl", "s.jsonl", tmp_path / "e.jsonl", cheap_results=tmp_path / "o.csv")


@pytest.mark.parametrize("text", ["task,size\na,nan\n", "task,size\na,1e999\n", "task,size\n"])
def test_a_table_of_tasks_has_rows_and_finite_numbers(tmp_path, text):
    for side in ("cheap", "strong"):
        (tmp_path / f"{side}.jsonl").write_text(json.dumps(rollout("a")) + "\n")
    (tmp_path / "k.csv").write_text(text)
    logs = tmp_path / "cheap.jsonl", tmp_path / "strong.jsonl", tmp_path / "out.jsonl"
    with pytest.raises(TacitError, match=r"k\.csv: "):
        import_logs(*logs, tasks=tmp_path / "k.csv")
    assert not (tmp_path / "out.jsonl").exists()
