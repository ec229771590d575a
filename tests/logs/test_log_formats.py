"""Each format on a small file of the shape that its program writes."""

import json
import sys
import types

import pytest
from conversations import answer, asked, call, rollout, turn, write

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs import import_logs, read_rollouts
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.logs.formats import FORMATS
from bayes_tacit.logs.rollout import Reading, row_of


def read(path, format="auto"):  # noqa: A002
    """Return the format, and what is kept of each rollout."""
    name, found = read_rollouts(path, format)
    return name, [row_of(one, Reading()) for _, one in found]


def steps(row):
    """Return the names of the diagnostics of each step."""
    return [{name for bit, name in enumerate(FLAGS) if flag >> bit & 1} for flag in row.flags]


def spent(row):
    return tuple(row.carried.get(name) for name in ("input_tokens", "output_tokens", "cost"))


def dump(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def test_tau_bench(tmp_path):
    traj = [
        {"role": "system", "content": "# Policy"},
        asked("Cancel my flight."),
        {**turn(call("cancel", "c1", flight=1)), "content": None, "function_call": None},
        {**answer("Error: no such flight", "c1"), "name": "cancel"},
        turn(text="It cannot be done."),
        asked("###STOP###"),
    ]
    records = [
        {"task_id": 0, "reward": 1.0, "info": {"task": {}}, "traj": traj, "trial": 0},
        {"task_id": 0, "reward": 0.0, "info": {}, "traj": traj, "trial": 1},
        {"task_id": 1, "reward": 0.0, "info": {"error": "no answer", "traceback": "..."}, "traj": [], "trial": 0},
    ]
    name, rows = read(dump(tmp_path / "gpt.json", records))
    assert name == "tau-bench"
    assert [(row.task, row.trial, row.success) for row in rows] == [("0", "0", True), ("0", "1", False)]
    assert steps(rows[0]) == [{"tool_error"}, set()]


def trajectory(**more):
    """A trajectory as ATIF has it."""
    return {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "agent": {"name": "terminus", "version": "2", "model_name": "small"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "List the files."},
            {
                "step_id": 2,
                "source": "agent",
                "message": "I look.",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
                "observation": {"results": [{"source_call_id": "c1", "content": "ls: command not found"}]},
                "metrics": {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.25, "logprobs": [-1.0, -3.0]},
            },
            {
                "step_id": 3,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": "c2", "function_name": "bash", "arguments": {"cmd": "ls"}}],
                "observation": {"results": [{"content": "a.txt"}]},
                "metrics": {"prompt_tokens": 200, "completion_tokens": 20, "cost_usd": 0.5, "logprobs": [-0.5]},
            },
        ],
        "final_metrics": {"total_prompt_tokens": 300, "total_completion_tokens": 30, "total_cost_usd": 0.75},
    } | more


def test_atif_in_a_folder_of_trials(tmp_path):
    for number, reward in enumerate([1.0, 0.0]):
        trial = tmp_path / "job" / f"hello__{number}"
        dump(trial / "agent" / "trajectory.json", trajectory())
        result = {
            "task_name": "hello",
            "trial_name": trial.name,
            "verifier_result": {"rewards": {"reward": reward}},
            "exception_info": None,
        }
        dump(trial / "result.json", result)
    dump(tmp_path / "job" / "result.json", {"n_total_trials": 2})
    name, rows = read(tmp_path / "job")
    assert name == "atif"
    assert [(row.task, row.trial, row.model, row.success) for row in rows] == [
        ("hello", "hello__0", "small", True),
        ("hello", "hello__1", "small", False),
    ]
    assert steps(rows[0]) == [{"tool_error"}, {"repeated_call"}]
    assert spent(rows[0]) == (300, 30, 0.75)
    assert rows[0].signals["uncertainty"] == [2.0, 0.5]
    assert rows[0].steps["step_cost"] == [0.25, 0.5]


def test_atif_with_the_outcome_in_each_line(tmp_path):
    lines = [trajectory(extra={"task": name, "success": name == "b"}) for name in "ab"]
    name, rows = read(write(tmp_path / "all.jsonl", *lines))
    assert name == "atif"
    assert [(row.task, row.success) for row in rows] == [("a", False), ("b", True)]
    with pytest.raises(InvalidDataError, match=r"trajectory.json: outcome is None; expected task and success"):
        read(dump(tmp_path / "x" / "y" / "trajectory.json", trajectory()))


def sample(identity, epoch, value, **more):
    """A sample as Inspect writes it."""
    return {
        "id": identity,
        "epoch": epoch,
        "input": "What is 1 + 2?",
        "target": "3",
        "messages": [
            {"id": "m1", "content": "attachment://abc", "source": "input", "role": "user"},
            {
                "id": "m2",
                "content": [{"type": "text", "text": "I add."}],
                "role": "assistant",
                "tool_calls": [{"id": "t1", "function": "add", "arguments": {"x": 1, "y": 2}, "type": "function"}],
            },
            {"id": "m3", "content": "", "role": "tool", "tool_call_id": "t1", "function": "add",
             "error": {"type": "unknown", "message": "too big"}},
            {"id": "m4", "content": "", "role": "assistant",
             "tool_calls": [{"id": "t2", "function": "add", "arguments": {}, "parse_error": "no JSON"}]},
        ],
        "scores": {"match": {"value": value, "answer": "3"}},
        "attachments": {"abc": "What is 1 + 2?"},
        "model_usage": {"mock/model": {"input_tokens": 40, "output_tokens": 4, "total_tokens": 44}},
    } | more  # fmt: skip


SAMPLES = [
    sample("s1", 1, "C"),
    sample("s1", 2, "I"),
    sample(2, 1, 1.0),
    sample(3, 1, "I", error={}, scores={"m": {"value": 0}}),
]


def check_inspect(rows):
    assert [(row.task, row.trial, row.success) for row in rows] == [
        ("s1", "1", True),
        ("s1", "2", False),
        ("2", "1", True),
        ("3", "1", False),
    ]
    assert steps(rows[0]) == [{"tool_error"}, {"malformed_call"}]
    assert rows[0].prompt_length == len("What is 1 + 2?")
    assert spent(rows[0]) == (40, 4, None)
    assert rows[0].model == "mock/model"


def test_inspect_as_json(tmp_path):
    broken = sample(4, 1, "C", scores=None, error={"message": "no answer"})
    log = {"version": 2, "status": "success", "eval": {"model": "mock/model"}, "samples": [*SAMPLES, broken]}
    name, rows = read(dump(tmp_path / "log.json", log))
    assert name == "inspect"
    check_inspect(rows)


def test_inspect_through_its_package(tmp_path, monkeypatch):
    class Sample:
        def __init__(self, content):
            self.content = content

        def model_dump_json(self, **_):
            return json.dumps(self.content)

    log = types.ModuleType("inspect_ai.log")
    log.read_eval_log = lambda *_, **__: types.SimpleNamespace(eval=types.SimpleNamespace(model="mock/model"))
    log.read_eval_log_samples = lambda *_, **__: map(Sample, SAMPLES)
    monkeypatch.setitem(sys.modules, "inspect_ai", types.ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", log)
    (tmp_path / "a.eval").write_bytes(b"PK")
    name, rows = read(tmp_path / "a.eval")
    assert name == "inspect"
    check_inspect(rows)
    check_inspect(read(tmp_path)[1])


def test_mini_swe_agent_with_calls(tmp_path):
    def said(**arguments):
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        response = {"choices": [{"finish_reason": "tool_calls"}], "usage": usage}
        return {**turn(call("bash", **arguments)), "function_call": None, "extra": {"response": response, "cost": 0.5}}

    for name in ("a__a-1", "b__b-2"):
        content = {
            "info": {
                "model_stats": {"instance_cost": 1.0, "api_calls": 2},
                "config": {"model": {"model_name": "small"}},
                "exit_status": "Submitted",
                "submission": "diff",
            },
            "messages": [
                {"role": "system", "content": "You are"},
                asked("Fix it."),
                said(command="ls"),
                {**answer("<returncode>1</returncode>\n<output>\n</output>"), "extra": {"returncode": 1}},
                said(command="echo DONE"),
                {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
            ],
            "trajectory_format": "mini-swe-agent-1.1",
        }
        dump(tmp_path / "run" / name / f"{name}.traj.json", content)
    name, found = read_rollouts(tmp_path / "run")
    assert name == "mini-swe-agent"
    rows = [row_of({**one, "success": True}, Reading()) for _, one in found]
    assert [(row.task, row.model) for row in rows] == [("a__a-1", "small"), ("b__b-2", "small")]
    assert steps(rows[0]) == [{"tool_error"}, set()]
    assert spent(rows[0]) == (20, 10, 1.0)


def test_mini_swe_agent_with_commands_in_its_text(tmp_path):
    block = "THOUGHT: look\n\n```bash\nls -la\n```"
    content = {
        "info": {"model_stats": {"instance_cost": 0.1}},
        "messages": [
            asked("Fix it."),
            turn(text=block),
            asked("<returncode>0</returncode>\n<output>\na\n</output>"),
            turn(text=block),
            asked("<returncode>0</returncode>\n<output>\na\n</output>"),
            turn(text="I forgot the command."),
            asked("Please give one command."),
        ],
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "x-1",
    }
    _, found = read_rollouts(dump(tmp_path / "x.traj.json", content))
    row = row_of({**next(found)[1], "success": False}, Reading())
    assert row.task == "x-1"
    assert steps(row) == [set(), {"repeated_call", "unchanged_observation"}, set()]


def swe_agent(**more):
    return {
        "environment": "main",
        "trajectory": [
            {"action": "ls\n", "observation": "a.py", "response": "I look.\n```\nls\n```", "thought": "I look."},
            {"action": "cat b", "observation": "cat: b: No such file or directory", "response": "x", "thought": "x"},
            {"action": "", "observation": "Your output was not formatted", "response": "", "thought": ""},
        ],
        "history": [
            {"role": "system", "content": "SETTING", "agent": "main"},
            {"role": "user", "content": "a demonstration", "is_demo": True},
            {"role": "user", "content": "ISSUE"},
            {"role": "assistant", "content": "I look."},
        ],
        "info": {
            "exit_status": "submitted",
            "model_stats": {"instance_cost": 0.4, "tokens_sent": 90, "tokens_received": 9, "api_calls": 3},
        },
    } | more


def test_swe_agent(tmp_path):
    for name in ("a__a-1", "b__b-2"):
        dump(tmp_path / name / f"{name}.traj", swe_agent())
    name, found = read_rollouts(tmp_path)
    assert name == "swe-agent"
    rows = [row_of({**one, "success": True}, Reading()) for _, one in found]
    assert [row.task for row in rows] == ["a__a-1", "b__b-2"]
    assert steps(rows[0]) == [set(), {"tool_error"}, {"no_action"}]
    assert rows[0].prompt_length == len("SETTING") + len("ISSUE")
    assert spent(rows[0]) == (90, 9, 0.4)


def test_outcomes_come_from_a_report_or_a_table_where_the_log_has_none(tmp_path):
    for side in ("cheap", "strong"):
        for name in ("a-1", "b-2"):
            dump(tmp_path / side / f"{name}.traj", swe_agent())
    report = dump(tmp_path / "report.json", {"resolved_ids": ["a-1"], "unresolved_ids": ["b-2"], "total_instances": 2})
    table = tmp_path / "results.csv"
    table.write_text("task,success,,\na-1,false,,\nb-2,1,,\n", encoding="utf-8")  # as spreadsheets leave it
    logs = tmp_path / "cheap", tmp_path / "strong", tmp_path / "out.jsonl"
    with pytest.raises(InvalidDataError, match="success is None; expected true or false, or a score"):
        import_logs(*logs)
    found = import_logs(*logs, cheap_results=report, strong_results=table)
    assert found.outcomes == {"00": 0, "01": 1, "10": 1, "11": 0}
    report.write_text(json.dumps({"resolved_ids": ["a-1"]}), encoding="utf-8")
    with pytest.raises(InvalidDataError, match="task is 'b-2'; expected a task of --cheap-results"):
        import_logs(*logs, cheap_results=report, strong_results=table)


def test_no_format_recognizes_a_document_of_another():
    contents = {
        "openai": rollout("a"),
        "intercode": {"0": {"turn_history": {}}},
        "tau-bench": [{"task_id": 0, "traj": []}],
        "atif": trajectory(),
        "inspect": {"eval": {}, "samples": []},
        "mini-swe-agent": {"trajectory_format": "mini-swe-agent-1", "messages": [], "info": {}},
        "swe-agent": swe_agent(),
        "gateway": {"format": "bayes_tacit.gateway", "session": "a"},
    }
    assert set(contents) == set(FORMATS)
    for name, content in contents.items():
        assert [one.name for one in FORMATS.values() if one.recognizes(content)] == [name]
