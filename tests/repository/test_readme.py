"""The README: what it shows runs, prints what it says, and can be read."""

import json
import os
import re
import shlex
import subprocess
import warnings
from pathlib import Path

import pandas as pd
import pytest
from command_line import PROGRAM, call
from conversations import rollout, write

from bayes_tacit import Episodes, Router
from bayes_tacit.errors import TacitWarning
from bayes_tacit.gateway import default_router

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def blocks(language):
    return [body for name, body in BLOCKS if name == language]


def test_python_blocks_run_from_top_to_bottom_and_print_what_follows_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert blocks("python")
    namespace, printed, compared = {}, "", 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for language, body in BLOCKS:
            if language == "python":
                exec(compile(body, "README.md", "exec"), namespace)
                printed = capsys.readouterr().out
            elif language == "text":
                assert printed == body
                compared += 1
    assert compared
    assert len(namespace["episodes"]) == 3


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_json_block_is_a_line_of_a_file_that_can_be_read(tmp_path):
    (example,) = blocks("json")
    (tmp_path / "e.jsonl").write_text(example)
    made = Episodes.read(tmp_path / "e.jsonl")
    assert made.ids.tolist() == ["task-17"]
    assert made.has_window.all()
    assert made.n_steps.tolist() == [2]


def test_the_command_lines_work_one_after_the_other(tmp_path):
    (block,) = [body for body in blocks("sh") if "bayes-tacit example" in body]
    lines = block.strip().splitlines()
    assert len(lines) == 5
    for line in lines[:-1]:
        program, *words = shlex.split(line)
        assert program == "bayes-tacit"
        done = call(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    path = os.pathsep.join([str(Path(PROGRAM).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", lines[-1]], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, check=False
    )
    assert json.loads(done.stdout) == {"episode": "a", "started": True}


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_logs_become_a_router_as_it_says(tmp_path):
    """Where Cheap fails it asks the same again and again, now and then also where it does not."""
    (block,) = [body for body in blocks("sh") if "bayes-tacit import" in body]
    cheap, strong = [], []
    for number in range(120):
        fails = number % 2 == 0
        log = rollout(f"task {number}", success=not fails, turns=3 + number % 3)
        if fails or number % 7 == 0:
            log["messages"] += log["messages"][-2:] * (4 if fails else 1)
        log["messages"][0] = log["messages"][0] | {"content": "find it " * (1 + number % 5)}
        cheap.append(log)
        strong.append(rollout(f"task {number}", success=number % 10 != 0, turns=3))
    write(tmp_path / "cheap.jsonl", *cheap)
    write(tmp_path / "strong.jsonl", *strong)
    *lines, last = block.strip().splitlines()
    for line in lines:
        done = call(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(Episodes.read(tmp_path / "marked.jsonl")) == 120
    assert "is recommended: on new tasks expect" in done.stdout
    assert shlex.split(last) == ["bayes-tacit", "route", "router.json"]
    assert Router.load(tmp_path / "router.json").handoff == "restart"


def test_the_gateway_starts_as_it_says(tmp_path):
    (line,) = [body.strip() for body in blocks("sh") if "bayes-tacit serve" in body]
    default_router().save(tmp_path / "router.json")
    done = call(*shlex.split(line)[1:], "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "four bad signs" not in done.stderr


def test_figures_are_those_of_the_pages_that_are_linked():
    checked = 0
    for row in re.findall(r"^\|.*\]\(simulations/results/.*\|$", README, flags=re.MULTILINE):
        *_, ours, link, _ = row.split("|")
        (page,) = re.findall(r"\((simulations/results/[^)#]*)", link)
        text = (ROOT / page).read_text(encoding="utf-8")
        for figure in re.findall(r"-?\d+\.\d+", ours):
            assert figure in text, (row, figure)
            checked += 1
    assert checked > 20


def test_figures_of_the_agents_are_those_of_the_committed_episodes():
    episodes = pd.read_parquet(ROOT / "simulations/results/alfworld/episodes.parquet")
    means = episodes.groupby("policy")[["success", "cost"]].mean()
    section = " ".join(README.split("## With agents")[1].split("## Results")[0].split())
    switches = [f"TACIT-Switch{rule}" for rule in ("", ", posterior mean", ", posterior 0.1 quantile")]
    for policy in (*switches, "Task Router", "Step Deferral", "EvoRoute analogue", "TRIM analogue"):
        share = means.loc[policy, "cost"] / means.loc["Pure Strong", "cost"]
        assert f"{means.loc[policy, 'success']:.1%} at {share:.0%}" in section
    assert f"Pure Strong {means.loc['Pure Strong', 'success']:.1%}" in section
    episodes = pd.read_parquet(ROOT / "simulations/results/alfworld_learned/episodes.parquet")
    means = episodes.groupby("policy")[["success", "cost"]].mean()
    learned = section.split("alfworld_learned")[1]
    for policy in ("TACIT-Switch", "TACIT-Switch with memory", "Step Deferral", "EvoRoute analogue", "TRIM analogue"):
        share = means.loc[policy, "cost"] / means.loc["Pure Strong", "cost"]
        assert f"{means.loc[policy, 'success']:.1%} at {share:.0%}" in learned
    for policy in ("Pure Cheap", "Pure Strong"):
        assert f"{means.loc[policy, 'success']:.1%}" in learned


def test_figures_of_dabench_are_those_of_the_committed_page_and_episodes():
    section = " ".join(README.split("[DABench experiment]")[1].split("## Results")[0].split())
    episodes = pd.read_parquet(ROOT / "simulations/results/dabench/episodes.parquet")
    means = episodes.groupby("policy")[["success", "cost"]].mean()
    for policy, words in (
        ("TACIT-Switch", "{success:.1%} at {share:.0%}"),
        ("EvoRoute analogue", "{success:.1%} at {share:.0%}"),
        ("Count", "Count, {success:.1%} at {share:.0%}"),
        ("Pure Strong", "Pure Strong on {success:.1%}"),
    ):
        share = means.loc[policy, "cost"] / means.loc["Pure Strong", "cost"]
        assert words.format(success=means.loc[policy, "success"], share=share) in section
    assert f"on {episodes['episode'].nunique()} test questions" in section
    page = (ROOT / "simulations/results/dabench/README.md").read_text(encoding="utf-8")
    assert "`recommend` names **Count**" in page
    ((n, cheap, strong),) = re.findall(r"\| all \| (\d+) \| \d+ \(([\d.]+%)\) \| \d+ \(([\d.]+%)\)", page)
    assert f"on {n} of DABench's 257 questions" in section
    assert f"right on {cheap} and {strong} of the questions alone" in section
    crossed = page.split("## Every question once a test question")[1].split("## Episodes")[0]
    once = dict(re.findall(r"\| (TACIT-Switch|Recommended) \| \d+/\d+ \(([\d.]+%)\)", crossed))
    assert f"TACIT-Switch is right on {once['TACIT-Switch']}, what is recommended on {once['Recommended']}" in section
