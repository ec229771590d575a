"""Every command as a user runs it: a subprocess, with good and bad input, on a pipe and on a terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_tacit import Episodes, MapFit, Router, fit_map, handoff_score, load_example, save_posterior

PROGRAM = str(Path(sys.executable).parent / "bayes-tacit")


def run(*arguments: object, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, posterior) -> Path:
    """A folder with the example, its fit and its posterior."""
    folder = tmp_path_factory.mktemp("cli")
    load_example().write(folder / "episodes.jsonl")
    fit_map(load_example()).save(folder / "fit.json")
    save_posterior(posterior, folder / "posterior.nc")
    done = run("select", "fit.json", "episodes.jsonl", "--alpha", 0.3, "--out", "router.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_version_and_help_of_every_command(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("bayes-tacit 0.")
    top = run("--help", cwd=tmp_path).stdout
    for command in ("validate", "summary", "fit", "sample", "score", "select", "report", "route", "example"):
        assert command in top
        done = run(command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        assert f"bayes-tacit {command}" in done.stdout or "Example" in done.stdout


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".nc", ".zarr"])
def test_example_is_written_in_every_format(tmp_path, suffix):
    done = run("example", f"e{suffix}", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"written": f"e{suffix}", "episodes": 1200}
    checked = run("validate", f"e{suffix}", "--json", cwd=tmp_path)
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["episodes"] == 1200
    assert "note: AB = 01 without a window" in checked.stderr


def test_summary_prints_counts_for_people_and_machines(folder):
    assert "only Strong succeeds" in run("summary", "episodes.jsonl", cwd=folder).stdout
    content = json.loads(run("summary", "episodes.jsonl", "--json", cwd=folder).stdout)
    assert sum(content["outcomes"].values()) == 1200


def test_fit_writes_what_the_library_fits(folder, tmp_path):
    done = run("fit", folder / "episodes.jsonl", "--out", "fit.json", "--ridge", 0.02, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert MapFit.load(tmp_path / "fit.json") == fit_map(load_example(), ridge=0.02)
    assert json.loads(done.stdout)["ridge"] == 0.02


def test_sample_writes_a_posterior_and_fails_its_check_when_it_is_too_short(folder, tmp_path):
    short = ("--draws", 30, "--tune", 60, "--chains", 2)
    done = run("sample", folder / "episodes.jsonl", "--out", "p.nc", *short, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    content = json.loads(done.stdout)
    assert not content["passed"]
    assert any("effective sample size" in reason for reason in content["reasons"])
    assert (tmp_path / "p.nc").exists()


@pytest.mark.parametrize("fitted", ["fit.json", "posterior.nc"])
def test_score_writes_every_checkpoint(folder, tmp_path, fitted):
    done = run("score", folder / fitted, folder / "episodes.jsonl", "--out", "scores.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "scores.csv")
    assert len(table) == int(load_example().dataset["n_steps"].sum())
    if fitted == "fit.json":
        q = handoff_score(fit_map(load_example()), load_example()).values
        np.testing.assert_allclose(table["score"], q[~np.isnan(q)], rtol=1e-12)
    else:
        assert (table["lower"] <= table["upper"]).all()


def test_select_from_the_log_alone_gives_a_router_within_the_cap(folder, tmp_path):
    arguments = ("--cap", 50, "--step-budget", 30, "--out", "router.json", "--json")
    done = run("select", folder / "fit.json", folder / "episodes.jsonl", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert Router.load(tmp_path / "router.json").alpha == content["alpha"]
    assert any("Bounds are no estimates" in reason for reason in content["reasons"])


def test_select_with_counterfactuals_maximizes_success_within_the_cap(folder, tmp_path):
    episodes = load_example().take(slice(0, 40))
    episodes.write(tmp_path / "few.jsonl")
    rows = []
    columns = [episodes.dataset[name].values.tolist() for name in ("n_steps", "cheap_success")]
    for name, n_steps, cheap in zip(episodes.ids.tolist(), *columns, strict=True):
        rows.append((name, None, int(cheap), n_steps, 0))
        rows += [(name, step, 1, step, n_steps - step) for step in range(n_steps)]
    columns = ["episode", "handoff", "success", "cheap_calls", "strong_calls"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "cf.csv", index=False)
    arguments = ("--counterfactuals", "cf.csv", "--cap", 40, "--out", "router.json", "--json")
    done = run("select", folder / "fit.json", "few.jsonl", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    point = json.loads(done.stdout)["point"]
    assert point["cost"] <= 40
    assert point["success"] > 0.3


def test_report_writes_one_html_file(folder, tmp_path):
    done = run("report", folder / "posterior.nc", folder / "episodes.jsonl", "--out", "report.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_route_answers_line_by_line_with_the_librarys_scores(folder):
    episodes = load_example()
    names = episodes.diagnostic_names
    q = handoff_score(fit_map(episodes), episodes).values
    lines, expected = [], []
    for i in (0, 7, 400):
        features = dict(zip(episodes.feature_names, episodes.dataset["features"].values[i].tolist(), strict=True))
        lines.append({"episode": i, "features": features})
        for step in range(int(episodes.dataset["n_steps"][i])):
            values = episodes.dataset["diagnostics"].values[i, step].tolist()
            lines.append({"episode": i, "diagnostics": dict(zip(names, values, strict=True))})
            expected.append(q[i, step])
        lines.append({"episode": i, "end": True})
    done = run("route", "router.json", cwd=folder, stdin="\n".join(map(json.dumps, lines)))
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(replies) == len(lines)
    scores = [reply["score"] for reply in replies if "score" in reply]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    handed = [reply["handoff"] for reply in replies if "score" in reply]
    assert any(handed)
    assert [reply["score"] >= 0.3 for reply in replies if "score" in reply] == handed


def test_route_answers_a_bad_line_and_goes_on(folder):
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    good = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    bad = {"episode": "a", "diagnostics": {"repeat": -1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    stdin = "\n".join([json.dumps(begin), json.dumps(bad), "garbage", json.dumps({"episode": "b"}), json.dumps(good)])
    done = run("route", "router.json", cwd=folder, stdin=stdin)
    assert done.returncode == 2
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert "expected a finite number >= 0" in replies[1]["error"]
    assert "expected a JSON object" in replies[2]["error"]
    assert "expected one of features, diagnostics and end" in replies[3]["error"]
    assert replies[4]["step"] == 0


BAD = {
    "a missing file": (("summary", "nothing.jsonl"), "nothing.jsonl: no such file"),
    "an unknown format": (("validate", "fit.xyz"), "expected"),
    "a fit as data": (("summary", "fit.json"), "fit.json"),
    "an existing output": (("fit", "episodes.jsonl", "--out", "fit.json"), "fit.json: exists already"),
    "a bad number": (("fit", "episodes.jsonl", "--out", "x.json", "--ridge", "-1"), "ridge is -1.0; expected"),
    "a word for a number": (("fit", "episodes.jsonl", "--out", "x.json", "--ridge", "much"), "--ridge"),
    "an unknown family": (("fit", "episodes.jsonl", "--out", "x.json", "--family", "gamma"), "expected one of"),
    "an unknown timing": (("fit", "episodes.jsonl", "--out", "x.json", "--timing", "later"), "timing is 'later'"),
    "a missing option": (("fit", "episodes.jsonl"), "--out"),
    "an unknown command": (("guess",), "No such command 'guess'"),
    "an unknown option": (("fit", "episodes.jsonl", "--loud"), "No such option"),
    "no such folder": (("fit", "episodes.jsonl", "--out", "no/where.json"), "no such folder"),
    "too few draws": (("sample", "episodes.jsonl", "--out", "x.nc", "--draws", "1"), "draws is 1; expected"),
    "a posterior's name": (("sample", "episodes.jsonl", "--out", "x.pkl"), "expected .nc or .zarr"),
    "a score's name": (("score", "fit.json", "episodes.jsonl", "--out", "x.txt"), "expected .csv or .parquet"),
    "neither fit nor posterior": (("score", "episodes.jsonl", "episodes.jsonl", "--out", "x.csv"), "expected .json"),
    "cap and alpha": (("select", "fit.json", "episodes.jsonl", "--out", "x.json"), "one of --cap and --alpha"),
    "alpha too large": (("select", "fit.json", "episodes.jsonl", "--alpha", "2", "--out", "x.json"), "alpha"),
    "a cap too low": (
        ("select", "fit.json", "episodes.jsonl", "--cap", "1", "--step-budget", "30", "--out", "x.json"),
        "lowest",
    ),
    "a rule": (
        ("select", "posterior.nc", "episodes.jsonl", "--alpha", ".3", "--rule", "x", "--out", "x.json"),
        "--rule",
    ),
    "a report on a fit": (("report", "fit.json", "episodes.jsonl", "--out", "x.html"), "a posterior"),
    "a router that is none": (("route", "fit.json"), "fit.json"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_code_2_one_line_and_no_file(folder, case):
    arguments, message = BAD[case]
    before = sorted(entry.name for entry in folder.iterdir())
    done = run(*arguments, cwd=folder, stdin="")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert "Traceback" not in done.stderr
    assert sorted(entry.name for entry in folder.iterdir()) == before


def test_bad_episodes_are_named_with_line_and_field(folder, tmp_path):
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    record = json.loads(lines[4])
    record["diagnostics"][1]["repeat"] = -0.5
    lines[4] = json.dumps(record)
    (tmp_path / "bad.jsonl").write_text("\n".join(lines) + "\n")
    done = run("validate", "bad.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    for part in ("bad.jsonl:5", record["episode"], "repeat", "-0.5", "expected a finite number >= 0"):
        assert part in done.stderr


def test_a_terminal_gets_the_same_table(folder):
    """On a pseudo-terminal the program may colour and wrap, and still exits cleanly."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([PROGRAM, "summary", "episodes.jsonl"], cwd=folder, stdout=follower, stderr=follower)
    os.close(follower)
    output = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    assert process.wait(timeout=60) == 0
    assert b"only Strong succeeds" in output


def test_a_killed_fit_leaves_the_old_file_or_the_new_one(folder, tmp_path):
    """Whenever it is killed, the output is absent or complete."""
    for delay in (0.3, 0.8, 1.2, 1.6):
        process = subprocess.Popen(
            [PROGRAM, "fit", str(folder / "episodes.jsonl"), "--out", "fit.json", "--force"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if (tmp_path / "fit.json").exists():
            assert MapFit.load(tmp_path / "fit.json").converged


def test_reading_stops_when_nobody_reads(folder):
    done = subprocess.run(
        f"{PROGRAM} summary episodes.jsonl | head -1",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_the_written_example_is_the_librarys(tmp_path):
    run("example", "e.nc", cwd=tmp_path)
    with pytest.warns(match="without a window"):
        assert Episodes.read(tmp_path / "e.nc").identical(load_example())
