"""What every command does, with good and bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from command_line import call, run

from bayes_tacit import Episodes, MapFit, Noise, fit_map, handoff_score, load_example


def test_version_and_help_of_every_command(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("bayes-tacit 0.")
    top = call("--help", cwd=tmp_path).stdout
    for command in (
        "validate",
        "summary",
        "fit",
        "sample",
        "score",
        "select",
        "report",
        "next",
        "route",
        "monitor",
        "example",
        "collect",
        "teach",
        "evaluate",
    ):
        assert command in top
        done = call(command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        for part in ("Example:", "--seed", "--json"):
            assert part in done.stdout, command


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".nc", ".zarr"])
def test_example_is_written_in_every_format(tmp_path, suffix):
    done = call("example", f"e{suffix}", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"written": f"e{suffix}", "episodes": 1200}
    checked = call("validate", f"e{suffix}", "--json", cwd=tmp_path)
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["episodes"] == 1200
    assert "note: AB = 01 without a window" in checked.stderr


def test_summary_prints_counts_for_people_and_machines(example_folder):
    assert "only Strong succeeds" in call("summary", "episodes.jsonl", cwd=example_folder).stdout
    content = json.loads(call("summary", "episodes.jsonl", "--json", cwd=example_folder).stdout)
    assert sum(content["outcomes"].values()) == 1200


def test_fit_writes_what_the_library_fits(example_folder, tmp_path):
    done = call("fit", example_folder / "episodes.jsonl", "--out", "fit.json", "--ridge", 0.02, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert MapFit.load(tmp_path / "fit.json") == fit_map(load_example(), ridge=0.02)
    assert json.loads(done.stdout)["ridge"] == 0.02


def test_sample_writes_a_posterior_and_fails_its_check_when_it_is_too_short(example_folder, tmp_path):
    short = ("--draws", 30, "--tune", 60, "--chains", 2)
    done = call("sample", example_folder / "episodes.jsonl", "--out", "p.nc", *short, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    content = json.loads(done.stdout)
    assert not content["passed"]
    assert any("effective sample size" in reason for reason in content["reasons"])
    assert (tmp_path / "p.nc").exists()


@pytest.mark.parametrize("fitted", ["fit.json", "posterior.nc"])
def test_score_writes_every_checkpoint(example_folder, tmp_path, fitted):
    done = call(
        "score", example_folder / fitted, example_folder / "episodes.jsonl", "--out", "scores.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "scores.csv")
    assert len(table) == int(load_example().dataset["n_steps"].sum())
    if fitted == "fit.json":
        q = handoff_score(fit_map(load_example()), load_example()).values
        np.testing.assert_allclose(table["score"], q[~np.isnan(q)], rtol=1e-12)
    else:
        assert (table["lower"] <= table["upper"]).all()


BAD = {
    "a missing file": (("summary", "nothing.jsonl"), "nothing.jsonl: no such file"),
    "an unknown format": (("validate", "fit.xyz"), "expected"),
    "a fit as data": (("summary", "fit.json"), "fit.json"),
    "an existing output": (("fit", "episodes.jsonl", "--out", "fit.json"), "fit.json: exists already"),
    "a bad number": (("fit", "episodes.jsonl", "--out", "x.json", "--ridge", "-1"), "ridge is -1.0; expected"),
    "a word for a number": (("fit", "episodes.jsonl", "--out", "x.json", "--ridge", "much"), "--ridge"),
    "an unknown family": (("fit", "episodes.jsonl", "--out", "x.json", "--family", "gamma"), "expected 'lognormal' or"),
    "an unknown rate": (("fit", "episodes.jsonl", "--out", "x.json", "--noise", "luck=1"), "--noise is 'luck=1'"),
    "a rate twice": (("next", "episodes.jsonl", "--noise", "lucky=0.1,lucky=0.2"), "each once"),
    "an unknown kind to collect": (("next", "episodes.jsonl", "--kinds", "ask"), "kinds is 'ask'"),
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
    "a plot of one threshold": (
        ("select", "fit.json", "episodes.jsonl", "--alpha", "0.4", "--plot", "x.png", "--out", "x.json"),
        "expected --cap as well",
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
def test_bad_input_ends_with_code_2_one_line_and_no_file(example_folder, case):
    arguments, message = BAD[case]
    before = sorted(entry.name for entry in example_folder.iterdir())
    # What reads its input gets one of its own.
    done = (
        run(*arguments, cwd=example_folder, stdin="")
        if arguments[0] == "route"
        else call(*arguments, cwd=example_folder)
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert "Traceback" not in done.stderr
    assert sorted(entry.name for entry in example_folder.iterdir()) == before


def test_bad_episodes_are_named_with_line_and_field(example_folder, tmp_path):
    lines = (example_folder / "episodes.jsonl").read_text().splitlines()
    record = json.loads(lines[4])
    record["diagnostics"][1]["repeat"] = -0.5
    lines[4] = json.dumps(record)
    (tmp_path / "bad.jsonl").write_text("\n".join(lines) + "\n")
    done = call("validate", "bad.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    for part in ("bad.jsonl:5", record["episode"], "repeat", "-0.5", "expected a finite number >= 0"):
        assert part in done.stderr


def test_the_written_example_is_the_librarys(tmp_path):
    call("example", "e.nc", cwd=tmp_path)
    with pytest.warns(match="without a window"):
        assert Episodes.read(tmp_path / "e.nc").identical(load_example())


def test_memory_clock_and_missing_windows_are_chosen_on_the_command_line(example, tmp_path):
    episodes = "episodes.jsonl"
    example.write(tmp_path / episodes)
    options = ["--memory", "profile", "--clock", "--unmarked", "due", "--restarts", "1"]
    done = call("fit", episodes, "--out", "fit.json", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    fit = MapFit.load(tmp_path / "fit.json")
    assert (fit.clock, fit.unmarked, fit.diagnostic_names[-1]) == (True, "due", "clock")
    assert fit.memory in {point.memory for point in fit.profile}
    for given in ("long", "2"):
        refused = call("fit", episodes, "--out", "other.json", "--memory", given, cwd=tmp_path)
        assert refused.returncode == 2
        assert "a number from 0 to 1" in refused.stderr


def test_noise_and_what_to_collect_are_asked_on_the_command_line(example_folder, tmp_path):
    noise = ["--noise", "sensitivity=8:2,specificity=0.95,lateness=1"]
    done = call("fit", example_folder / "episodes.jsonl", "--out", "fit.json", *noise, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert MapFit.load(tmp_path / "fit.json").spec.noise == Noise(sensitivity=(8, 2), specificity=0.95, lateness=1)
    options = ["--n", "4", *noise, "--out", "next.csv", "--json"]
    done = call("next", example_folder / "episodes.jsonl", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    named = [row["episode"] for row in json.loads(done.stdout)["next"]]
    assert pd.read_csv(tmp_path / "next.csv")["episode"].tolist() == named
    assert len(set(named)) == 4


def test_an_error_about_two_files_names_both(example_folder, tmp_path):
    lines = (example_folder / "episodes.jsonl").read_text().replace('"entities"', '"size"')
    (tmp_path / "other.jsonl").write_text(lines)
    fit = example_folder / "fit.json"
    for words in (("score", fit, "other.jsonl"), ("select", fit, "other.jsonl", "--alpha", "0.3")):
        done = call(*words, "--out", "out.csv" if words[0] == "score" else "out.json", cwd=tmp_path)
        assert done.returncode == 2
        assert f"in {fit} and other.jsonl: features of the episodes is ['size', " in done.stderr
