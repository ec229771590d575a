"""Every command as a user runs it: a subprocess, with good and bad input, on a pipe and on a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_tacit import (
    Counterfactuals,
    Episodes,
    MapFit,
    Router,
    StepCost,
    fit_map,
    handoff_score,
    load_example,
    load_posterior,
    save_posterior,
)
from bayes_tacit.selection import fixed_grid, operating_points, score_quantiles, target_switch_rates

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
    for command in (
        "validate",
        "summary",
        "fit",
        "sample",
        "score",
        "select",
        "report",
        "route",
        "example",
        "collect",
        "teach",
        "evaluate",
    ):
        assert command in top
        done = run(command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        for part in ("Example:", "--seed", "--json"):
            assert part in done.stdout, command


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


@pytest.fixture(scope="module")
def replayed(folder) -> Path:
    """A few episodes, and a table that says what each handoff gives: success, at three a step."""
    episodes = load_example().take(slice(0, 40))
    episodes.write(folder / "few.jsonl")
    rows = []
    columns = [episodes.dataset[name].values.tolist() for name in ("n_steps", "cheap_success")]
    for name, n_steps, cheap in zip(episodes.ids.tolist(), *columns, strict=True):
        rows.append((name, None, int(cheap), n_steps, 0))
        rows += [(name, step, 1, step, n_steps - step) for step in range(n_steps)]
    columns = ["episode", "handoff", "success", "cheap_calls", "strong_calls"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "handoffs.csv", index=False)
    return folder


@pytest.mark.parametrize("candidates", ["quantiles", "grid", "rates"])
def test_select_with_counterfactuals_maximizes_success_within_the_cap(replayed, tmp_path, candidates):
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json", "--points", "p.csv")
    arguments = (replayed / "fit.json", replayed / "few.jsonl", *given, "--candidates", candidates, "--seed", 4)
    done = run("select", *arguments, "--plot", "curve.png", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    episodes = load_example().take(slice(0, 40))
    table = Counterfactuals.read(replayed / "handoffs.csv", cost=StepCost(1, 3))
    scores = handoff_score(MapFit.load(replayed / "fit.json"), episodes)
    tried = {
        "quantiles": score_quantiles(scores),
        "grid": fixed_grid(),
        "rates": target_switch_rates(scores),
    }[candidates]
    expected = operating_points(scores, table, tried, "post_action")
    np.testing.assert_allclose([row["cost"] for row in content["points"]], expected["cost"])
    within = expected[expected["cost"] <= 40]
    assert content["point"]["success"] == within["success"].max()
    assert content["point"]["cost"] <= 40
    interval = content["intervals"]["success over Pure Cheap"]
    assert interval["lower"] < interval["estimate"] < interval["upper"]
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(expected)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert Router.load(tmp_path / "router.json").alpha == content["alpha"]


def test_select_shows_the_success_cost_table_and_marks_the_choice(replayed, tmp_path):
    arguments = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json")
    done = run("select", replayed / "fit.json", replayed / "few.jsonl", *arguments, cwd=tmp_path)
    assert done.stdout.count("<- chosen") == 1
    for part in ("intervention_rate", "95% intervals", "success over Pure Strong", "written: router.json"):
        assert part in done.stdout


def test_candidates_may_come_from_other_episodes(replayed, tmp_path):
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json", "--json")
    arguments = (replayed / "fit.json", replayed / "few.jsonl", *given, "--training", replayed / "episodes.jsonl")
    done = run("select", *arguments, "--n", 21, cwd=tmp_path)
    scores = handoff_score(MapFit.load(replayed / "fit.json"), load_example())
    alphas = [point["alpha"] for point in json.loads(done.stdout)["points"]]
    np.testing.assert_allclose(alphas, score_quantiles(scores, 21).alpha)


def test_the_router_does_what_select_says_of_it(replayed, tmp_path, example):
    """The posterior has more draws than a router holds: the point that is printed is the written router's own."""
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--rule", 0.2, "--out", "router.json")
    done = run("select", replayed / "posterior.nc", replayed / "few.jsonl", *given, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    router, episodes = Router.load(tmp_path / "router.json"), example.take(slice(0, 40))
    handoffs = []
    for features, diagnostics, n_steps in zip(
        *(episodes.dataset[name].values for name in ("features", "diagnostics", "n_steps")), strict=True
    ):
        state = router.start(features)
        for step in range(n_steps):
            state.observe(diagnostics[step])
        handoffs.append(-1 if state.handoff_step is None else state.handoff_step + 1)
    table = Counterfactuals.read(replayed / "handoffs.csv", cost=StepCost(1, 3))
    point = json.loads(done.stdout)["point"]
    assert table.outcomes_at(handoffs).point()["cost"] == pytest.approx(point["cost"])


def test_costs_that_are_given_take_the_place_of_those_in_the_file(replayed, tmp_path):
    Counterfactuals.read(replayed / "handoffs.csv", cost=StepCost(1, 3)).write(tmp_path / "costs.parquet")
    found = {}
    for name, options in {"file": (), "given": ("--strong-cost", 30)}.items():
        given = ("--counterfactuals", "costs.parquet", "--cap", 60, "--out", f"{name}.json", "--json", *options)
        done = run("select", replayed / "fit.json", replayed / "few.jsonl", *given, cwd=tmp_path)
        found[name] = json.loads(done.stdout)["points"]
    assert found["given"][0]["cost"] > 5 * found["file"][0]["cost"]


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


def test_route_answers_before_the_next_line_comes(folder):
    with subprocess.Popen(
        [PROGRAM, "route", "router.json", "--json", "--seed", "1"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
        checkpoint = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
        whole = json.dumps(checkpoint).encode() + b"\n"
        for line in (json.dumps(begin).encode() + b"\n", whole, whole):
            # In two pieces, as a slow writer sends them.
            for piece in (line[:7], line[7:]):
                process.stdin.write(piece)
                process.stdin.flush()
            assert json.loads(process.stdout.readline())["episode"] == "a"
        process.stdin.write(whole.rstrip(b"\n"))
        process.stdin.close()
        assert json.loads(process.stdout.readline())["step"] == 2
        assert process.wait(timeout=60) == 0


def test_route_answers_what_is_no_text_or_too_long(folder):
    begin = json.dumps({"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}).encode()
    lines = [b"\xff\xfe\x00{", b'{"episode": "' + b"x" * 3 * 2**20 + b'"}', b"[" * 200_000, b"", begin]
    done = subprocess.run(
        [PROGRAM, "route", "router.json"], cwd=folder, input=b"\n".join(lines), capture_output=True, check=False
    )
    assert done.returncode == 2
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply.get("line") for reply in replies] == [1, 2, 3, None]
    assert "expected at most 1,048,576 bytes" in replies[1]["error"]
    assert replies[3] == {"episode": "a", "started": True}
    assert not done.stderr


def test_route_stops_at_a_bad_line_where_asked_and_keeps_the_log(folder, tmp_path):
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    checkpoint = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    stdin = "\n".join([json.dumps(begin), json.dumps(checkpoint), "nonsense", json.dumps(checkpoint)])
    done = run("route", "router.json", "--strict", "--log", tmp_path / "log.jsonl", cwd=folder, stdin=stdin)
    assert done.returncode == 2
    assert done.stderr.startswith("error: line 3: ")
    assert len(done.stdout.splitlines()) == 2
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


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
    "an unknown kind of candidate": (
        ("select", "fit.json", "episodes.jsonl", "--cap", "50", "--candidates", "some", "--out", "x.json"),
        "expected 'quantiles' or 'grid' or 'rates'",
    ),
    "a plot without counterfactuals": (
        ("select", "fit.json", "episodes.jsonl", "--cap", "50", "--plot", "x.png", "--out", "x.json"),
        "expected --cap and --counterfactuals",
    ),
    "a router's name": (("select", "fit.json", "episodes.jsonl", "--alpha", "0.3", "--out", "x.txt"), "expected .json"),
    "a quantile outside 0 and 1": (
        ("select", "posterior.nc", "episodes.jsonl", "--alpha", ".3", "--rule", "1.5", "--out", "x.json"),
        "--rule",
    ),
    "counterfactuals that are none": (
        ("select", "fit.json", "episodes.jsonl", "--cap", "50", "--counterfactuals", "fit.json", "--out", "x.json"),
        "expected .csv, .parquet, .nc",
    ),
    "a fit's name": (("fit", "episodes.jsonl", "--out", "x.txt"), "expected .json"),
    "a rule for a fit": (
        ("select", "fit.json", "episodes.jsonl", "--alpha", ".3", "--rule", "0.1", "--out", "x.json"),
        "a fit has one score",
    ),
    "a probability": (
        ("score", "fit.json", "episodes.jsonl", "--probability", "5", "--out", "x.csv"),
        "--probability is 5.0",
    ),
    "a place that cannot be written": (("example", "/proc/e.jsonl"), "/proc"),
    "a log that cannot be written": (("route", "router.json", "--log", "/proc/log.jsonl"), "/proc"),
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


def on_terminal(*arguments: object, cwd: Path) -> tuple[int, str]:
    """Run a command with a pseudo-terminal for input, output and errors; end its input."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], cwd=cwd, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.write(leader, b"\x04")
    output = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    return process.wait(timeout=60), output.decode()


ON_TERMINAL = {
    "example": (("example", "{out}/e.jsonl"), "1200 episodes written"),
    "validate": (("validate", "episodes.jsonl"), "1200 valid episodes"),
    "summary": (("summary", "episodes.jsonl"), "only Strong succeeds"),
    "fit": (("fit", "episodes.jsonl", "--out", "{out}/fit.json"), "gamma[entities]"),
    "sample": (
        ("sample", "episodes.jsonl", "--out", "{out}/p.nc", "--draws", "60", "--tune", "100", "--chains", "2"),
        "effective sample size",
    ),
    "score": (("score", "fit.json", "episodes.jsonl", "--out", "{out}/s.csv"), "checkpoints written"),
    "select": (("select", "fit.json", "episodes.jsonl", "--alpha", "0.3", "--out", "{out}/r.json"), "as given"),
    "report": (("report", "posterior.nc", "episodes.jsonl", "--out", "{out}/r.html"), "r.html"),
    "route": (("route", "router.json"), ""),
}


@pytest.mark.parametrize("command", ON_TERMINAL)
def test_on_a_terminal_every_command_works_and_cleans_up(folder, tmp_path, command):
    """There it may colour and show progress; it ends with the cursor visible."""
    arguments, expected = ON_TERMINAL[command]
    code, output = on_terminal(*(part.format(out=tmp_path) for part in arguments), cwd=folder)
    assert code == (1 if command == "sample" else 0), output
    assert expected in output
    assert "Traceback" not in output
    assert output.count("\x1b[?25l") <= output.count("\x1b[?25h")


def test_on_a_terminal_bad_input_is_one_line(folder):
    code, output = on_terminal("summary", "nothing.jsonl", cwd=folder)
    assert code == 2
    assert output.strip() == "error: nothing.jsonl: no such file or folder"


def killed(command: list[object], out: Path, after_writing: float | None) -> None:
    """Run a command and kill it: after a second, or so many seconds after it began to write its output."""
    process = subprocess.Popen(
        [PROGRAM, *map(str, command)],
        cwd=out.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if after_writing is None:
        time.sleep(1)
    else:
        while not list(out.parent.glob(f".{out.name}.*.tmp")) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(after_writing)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def load_fit(path: Path) -> None:
    assert MapFit.load(path).converged


def load_draws(path: Path) -> None:
    tree = load_posterior(path)
    assert tree["posterior"].sizes["draw"] == 60
    assert np.isfinite(tree["posterior"]["s"].values).all()
    assert set(tree.children) >= {"posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"}


def load_report(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")


KILLED = {
    "fit": (["fit", "episodes.jsonl", "--out", "fit.json"], load_fit),
    "sample": (
        ["sample", "episodes.jsonl", "--out", "p.nc", "--draws", 60, "--tune", 100, "--chains", 2],
        load_draws,
    ),
    "report": (["report", "posterior.nc", "episodes.jsonl", "--out", "report.html"], load_report),
}


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_command_leaves_no_file_or_a_whole_one(folder, tmp_path, name):
    """Killed before and while it writes."""
    command, load = KILLED[name]
    for given in ("episodes.jsonl", "posterior.nc"):
        (tmp_path / given).symlink_to(folder / given)
    out = tmp_path / command[command.index("--out") + 1]
    for after_writing in (None, 0):
        killed(command, out, after_writing)
        if out.exists():
            load(out)
            out.unlink()


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
