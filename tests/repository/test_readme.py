"""The README and the pages behind it: what they show runs, prints what they say, and their figures are the studies'."""

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
from documents import Document

from bayes_tacit import Episodes, Router
from bayes_tacit.errors import TacitWarning
from bayes_tacit.gateway import default_router

ROOT = Path(__file__).parents[2]
README, START, FILES, RESULTS = (
    Document(ROOT / name) for name in ("README.md", "docs/start.md", "docs/reference/files.md", "docs/results.md")
)


def blocks(document, language):
    return [block.body for block in document.blocks if block.language == language]


@pytest.mark.parametrize("document", [README, START], ids=["README", "start"])
def test_python_blocks_run_from_top_to_bottom_and_print_what_follows_them(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace, printed, compared = {}, "", 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for block in document.blocks:
            if block.language == "python":
                exec(compile(block.body, document.path.name, "exec"), namespace)
                printed = capsys.readouterr().out
            elif block.language == "text" and block.section == "In Python":
                assert printed == block.body
                compared += 1
    assert compared
    assert len(namespace["episodes"]) == 1200
    assert Router.load("router.json").alpha == 0.3


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_json_block_is_a_line_of_a_file_that_can_be_read(tmp_path):
    (example,) = blocks(FILES, "json")
    (tmp_path / "e.jsonl").write_text(example)
    made = Episodes.read(tmp_path / "e.jsonl")
    assert made.ids.tolist() == ["task-17"]
    assert made.has_window.all()
    assert made.n_steps.tolist() == [2]


def test_the_command_lines_work_one_after_the_other(tmp_path):
    (block,) = [body for body in blocks(START, "sh") if "bayes-tacit example" in body]
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
    (block,) = [body for body in blocks(README, "sh") if "bayes-tacit import" in body]
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
    assert re.search(r"is recommended \(.*\): expect .* success", done.stdout)
    served = call(*shlex.split(last)[1:], "--check", cwd=tmp_path)
    assert served.returncode == 0, served.stderr
    assert Router.load(tmp_path / "router.json").handoff == "restart"


def test_the_gateway_starts_as_it_says(tmp_path):
    (line,) = [body.strip() for body in blocks(START, "sh") if "bayes-tacit serve" in body]
    default_router().save(tmp_path / "router.json")
    done = call(*shlex.split(line)[1:], "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "four bad signs" not in done.stderr


def test_figures_are_those_of_the_pages_that_are_linked():
    checked = 0
    for row in re.findall(r"^\|.*\]\(\.\./simulations/results/.*\|$", RESULTS.text, flags=re.MULTILINE):
        cells = row.split("|")
        if len(cells) == 7:
            _, _, _, ours, _, link, _ = cells
            (page,) = re.findall(r"\(\.\./(simulations/results/[^)#]*)", link)
            text = (ROOT / page).read_text(encoding="utf-8")
            for figure in re.findall(r"-?\d+\.\d+", ours):
                assert figure in text, (row, figure)
                checked += 1
    assert checked > 20


def test_figures_of_real_pairs_are_those_of_the_committed_page():
    page = (ROOT / "simulations/results/pairs/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ -> [^|]+ \|.*$", README.text, flags=re.MULTILINE)
    assert len(rows) == 6
    assert all(row in page.splitlines() for row in rows)


def test_figures_of_real_logs_are_those_of_the_committed_page():
    page = (ROOT / "simulations/results/intercode/README.md").read_text(encoding="utf-8")
    page = page.split("## Success under each budget")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ((?:[\d.]+ \([\d.]+ to [\d.]+\) \| ?){3})$", RESULTS.text, flags=re.MULTILINE)
    assert len(rows) >= 4
    for name, row in rows:
        known = {"Count of bad signs": "Count"}.get(name, "recommended" if "recommend" in name else name.split(":")[0])
        (found,) = re.findall(rf"^\| {known} \| (.*) \|$", page, flags=re.MULTILINE)
        cells = [cell.strip() for cell in found.split("|")]
        assert [cell.strip() for cell in row.strip(" |").split("|")] == [cells[1], cells[3], cells[5]], name


def test_figures_of_played_agents_are_those_of_the_committed_episodes():
    section = RESULTS.text.split("## Played agents")[1].split("\n## ")[0]
    benchmark, checked = "", 0
    for link, label, success, share in re.findall(
        r"^\| (.*?) ?\| (.+?) \| ([\d.]+%) \| ([\d.]+%)? ?\|$", section, flags=re.MULTILINE
    ):
        benchmark = (link and re.findall(r"results/(\w+)/", link)[0]) or benchmark
        episodes = pd.read_parquet(ROOT / "simulations/results" / benchmark / "episodes.parquet")
        means = episodes.groupby("policy")[["success", "cost"]].mean()
        policy = label.split(", which")[0]
        assert success == f"{means.loc[policy, 'success']:.1%}"
        assert share in ("", f"{means.loc[policy, 'cost'] / means.loc['Pure Strong', 'cost']:.0%}")
        checked += 1
    assert checked > 15
