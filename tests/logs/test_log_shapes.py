"""Logs as people have them get through in one command, or a sentence says which option to use."""

import json

import pytest
from command_line import call
from conversations import answer, asked, rollout, turn
from conversations import call as made

TALK = [asked(), turn(made(q=1)), answer("Error: x"), turn(made(q=1)), answer("Error: x"), turn(text="done")]
SIGNS = [{"tool_error"}, {"repeated_call", "tool_error", "unchanged_observation"}, set()]


def react(text="Thought: I look.\nAction: search[cats]"):
    said = {"role": "assistant", "content": text}
    seen = {"role": "user", "content": "Observation: Error: nothing found"}
    return [asked(), said, seen, said, seen, {"role": "assistant", "content": "Answer: 3"}]


def shapes():
    """By name, the document of Cheap's log for tasks 1 and 2, and the steps' signs."""
    two = {1: True, 2: False}

    def each(**keys):
        return [{"task": task, **{name: value(won) for name, value in keys.items()}} for task, won in two.items()]

    def lists(key, name="task", **keys):
        return [{name: one["task"], key: bool(one["won"]), "messages": TALK, **keys} for one in each(won=bool)]

    yield "openai, success", lists("success"), SIGNS
    yield "openai, resolved", lists("resolved", "instance_id"), SIGNS
    yield "openai, passed", lists("passed", "question_id"), SIGNS
    yield "reward", [{"id": task, "reward": float(won), "messages": TALK} for task, won in two.items()], SIGNS
    yield "score and conversation", [{"task_id": t, "score": w, "conversation": TALK} for t, w in two.items()], SIGNS
    yield "a list in a list", [lists("success")], SIGNS
    yield "an object around", [{"meta": {"seed": 1}, "results": lists("success")}], SIGNS
    yield "tau-bench", [[{"task_id": t, "reward": float(w), "info": {}, "traj": TALK} for t, w in two.items()]], SIGNS
    tau2 = [
        {"id": "x", "task_id": str(t), "reward_info": {"reward": float(w)}, "messages": TALK} for t, w in two.items()
    ]
    yield "tau2-bench", [{"info": {}, "tasks": [{"id": "1"}], "simulations": tau2}], SIGNS
    history = {"actions": ["ls", "ls", "submit"], "observations": ["ls: command not found"] * 2 + ["ok"]}
    bash = {
        str(task): {"query": "q", "turn_history": history, "summary": {"max_reward": float(won)}}
        for task, won in two.items()
    }
    yield "intercode bash", [bash], SIGNS
    samples = [
        {"id": t, "epoch": 1, "messages": react(), "scores": {"m": {"value": "C" if w else "I"}}}
        for t, w in two.items()
    ]
    looked = [{"tool_error"}, {"repeated_call", "tool_error", "unchanged_observation"}, set()]
    yield "inspect", [{"eval": {"model": "m"}, "samples": samples}], looked
    yield "ReAct", [{"task": task, "success": won, "messages": react()} for task, won in two.items()], looked
    code = react("I compute.\n```python\nprint(x)\n```")
    yield "CodeAct", [{"task": task, "success": won, "messages": code} for task, won in two.items()], looked
    use = {"type": "tool_use", "id": "1", "name": "sql", "input": {"q": 1}}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]}
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True}],
    }
    parts = [asked(), said, result, said, result, turn(text="done")]
    yield "Anthropic's parts", [{"task": task, "success": won, "messages": parts} for task, won in two.items()], looked
    flat = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "sql", "args": {"q": 1}}]}
    chain = [asked(), flat, answer("Error: x"), flat, answer("Error: x"), turn(text="done")]
    yield "flat calls", [{"task": task, "success": won, "messages": chain} for task, won in two.items()], looked
    roles = {"user": "human", "assistant": "gpt"}
    share = [{"from": roles[one["role"]], "value": one["content"]} for one in react()]
    yield "ShareGPT", [{"id": task, "success": won, "conversations": share} for task, won in two.items()], looked
    values = [{"diagnostics": dict.fromkeys(names, 1)} for names in SIGNS]
    yield "steps", [{"task": task, "success": won, "steps": values} for task, won in two.items()], SIGNS


def lines(path, documents):
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))


@pytest.mark.parametrize(("documents", "signs"), [pytest.param(*shape[1:], id=shape[0]) for shape in shapes()])
def test_a_shape_that_people_have_is_read_without_an_option(tmp_path, documents, signs):
    lines(tmp_path / "cheap.json", documents)
    lines(tmp_path / "strong.jsonl", [rollout(1), rollout(2)])
    done = call("import", "cheap.json", "strong.jsonl", "--out", "e.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines())
    assert (first["cheap_success"], second["cheap_success"]) == (True, False)
    assert [{name for name, value in step.items() if value == 1} for step in first["diagnostics"]] == signs
    assert done.stdout.splitlines()[-1].startswith("next: bayes-tacit recommend e.jsonl")


def test_one_file_of_both_models_asks_for_their_names(tmp_path):
    rollouts = [rollout(task, model=model) for task in "ab" for model in ("mini", "large")]
    lines(tmp_path / "all.jsonl", rollouts)
    done = call("import", "all.jsonl", "--out", "e.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "expected --cheap-model and --strong-model: the log has rollouts of 'mini' (2), 'large' (2)" in done.stderr
    words = ("--cheap-model", "mini", "--strong-model", "large", "--json")
    done = call("import", "all.jsonl", "--out", "e.jsonl", *words, cwd=tmp_path)
    assert json.loads(done.stdout)["episodes"] == 2
    assert json.loads(done.stdout)["models"] == ["mini", "large"]


WITHOUT = {
    "no outcome": ([{"task": 1, "messages": TALK}], "--cheap-results and --strong-results"),
    "no task": ([{"messages": TALK, "success": True}], "it has no task (or task_id, instance_id"),
    "no messages": ([{"task": 1, "prompt": "x", "success": True}], "it has no messages (or conversation"),
    "another shape": ([{"prompt": "x", "answer": "y"}], "an object with the keys prompt, answer; it has no task"),
    "twice": ([rollout(1), rollout(1)], "--trials number"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_a_log_lacks_is_told_with_the_option_that_helps(tmp_path, name):
    documents, told = WITHOUT[name]
    lines(tmp_path / "cheap.jsonl", documents)
    lines(tmp_path / "strong.jsonl", [rollout(1)])
    done = call("import", "cheap.jsonl", "strong.jsonl", "--out", "e.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_score_that_never_reaches_the_threshold_names_the_option(tmp_path):
    lines(tmp_path / "cheap.jsonl", [{"task": 1, "score": 0.4, "messages": TALK}])
    lines(tmp_path / "strong.jsonl", [rollout(1)])
    done = call("import", "cheap.jsonl", "strong.jsonl", "--out", "e.jsonl", cwd=tmp_path)
    assert "no rollout of Cheap is a success: the highest score is 0.4; see --threshold" in done.stdout


def loops(messages):
    """An own signal: how many turns said the same as the latest."""
    said = [one["content"] for one in messages if one["role"] == "assistant"]
    return said.count(said[-1]) - 1


def test_own_signals_come_from_keys_of_turns_and_from_functions(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_signals.py").write_text("from test_log_shapes import loops\n")
    talk = [{**one, "doubt": 0.25} if one["role"] == "assistant" else one for one in react()]
    for side in ("cheap", "strong"):
        lines(tmp_path / f"{side}.jsonl", [{"task": 1, "success": True, "messages": talk}])
    words = ("import", "cheap.jsonl", "strong.jsonl", "--out", "e.jsonl", "--force", "--signal")
    done = call(*words, "doubt", "--signal", "own_signals:loops", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "e.jsonl").read_text())["diagnostics"]
    assert [(step["doubt"], step["loops"]) for step in steps] == [(0.25, 0), (0.25, 1), (0.25, 0)]
    for given, told in (
        ("mood", "mood is None; expected a finite number >= 0 in each turn"),
        ("tool_error", "expected a name other than"),
        ("nowhere:at", "a module that can be imported"),
    ):
        done = call(*words, given, cwd=tmp_path)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_actions_are_found_by_a_pattern_and_their_absence_is_told(tmp_path):
    talk = react("I do >>ls<< now")
    for side in ("cheap", "strong"):
        lines(tmp_path / f"{side}.jsonl", [{"task": 1, "success": True, "messages": talk}])
    words = ("import", "cheap.jsonl", "strong.jsonl", "--out", "e.jsonl", "--force")
    assert "no call or action was found in Cheap's turns" in call(*words, cwd=tmp_path).stdout
    done = call(*words, "--action", ">>(.*?)<<", cwd=tmp_path)
    assert "no call or action" not in done.stdout
    steps = json.loads((tmp_path / "e.jsonl").read_text())["diagnostics"]
    assert [(step["repeated_call"], step["tool_error"]) for step in steps] == [(0, 1), (1, 1), (0, 0)]
    assert "a regular expression" in call(*words, "--action", "(", cwd=tmp_path).stderr


def test_turns_without_content_keep_their_usage_and_logprobs(tmp_path):
    said = {"role": "assistant", "tool_calls": [made(q=1)], "usage": {"prompt_tokens": 7}}
    sure = {"role": "assistant", "tool_calls": [made(q=2)], "logprobs": [-0.5]}
    talk = [asked(), {**said, "logprobs": [-1.5]}, answer(), {**sure, "usage": {"prompt_tokens": 9}}, answer()]
    bare = [asked(), said, answer(), {**said, "tool_calls": [made(q=3)]}, answer()]
    rollouts = [{"task": task, "success": True, "messages": one} for task, one in (("a", talk), ("b", bare))]
    for side in ("cheap", "strong"):
        lines(tmp_path / f"{side}.jsonl", rollouts)
    assert call("import", "cheap.jsonl", "strong.jsonl", "--out", "e.jsonl", cwd=tmp_path).returncode == 0
    episodes = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert [[step["step_input_tokens"] for step in one["steps"]] for one in episodes] == [[7, 9], [7, 7]]
