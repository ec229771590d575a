"""The command recommend: from episodes to a named policy, by restarts, by counterfactuals, or from logs alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import call
from simulate import quietly

from bayes_tacit import Episodes


@pytest.fixture(scope="module")
def logs(tmp_path_factory, example):
    """Episodes that carry the length of Strong's rollouts; few of one diagnostic, so that fits are fast."""
    small = example.take(range(160))
    dataset = small.dataset.assign(strong_steps=("episode", small.n_steps), tokens=("episode", 3.0 * small.n_steps))
    path = tmp_path_factory.mktemp("logs") / "episodes.jsonl"
    quietly(dataset.isel(diagnostic=[1])).write(path)
    return path


def test_restarts_are_judged_from_the_log_alone(logs, tmp_path):
    out = tmp_path / "router.json"
    words = ["--cap", "70%", "--handoff", "restart", "--out", str(out), "--folds", "2", "--json", "--certain", "0.8"]
    done = call("recommend", logs, *words, "--table", tmp_path / "table.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    named = {row["policy"]: row for row in said["policies"]}
    assert said["policy"] in named
    assert not named["Certain advantage"]["reason"]
    assert 0 < said["expected"]["success_lower"] <= said["expected"]["success"] <= said["expected"]["success_upper"] < 1
    assert {"TACIT-Switch", "Coin flip"} <= set(named)
    assert json.loads(out.read_text())["policy"]
    assert out.exists()
    assert (tmp_path / "table.csv").read_text().count("\n") == len(named) + 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--cap", "half"], "--cap is 'half'; expected a number, or a share of Pure Strong's cost such as 50%"),
        (["--cap", "0.1"], "cap is 0.1; expected at least "),
        (["--cap", "30", "--cheap-cost", "tokens"], "--cheap-cost and --strong-cost is ('tokens', '3')"),
        (["--cap", "30", "--strong-steps", "nothing"], "nothing"),
        (["--cap", "30", "--share", "1.5"], "--share is 1.5; expected a number above 0 and below 1"),
        (["--cap", "30", "--certain", "1"], "--certain is 1.0; expected a number above 0 and below 1"),
        (["--cap", "30", "--handoff", "again"], "--handoff is 'again'"),
        (["--cap", "30", "--at-most", "2"], "at_most is 2.0; expected at least "),
        (["--cap", "30", "--out", "router.txt"], "suffix is '.txt'; expected .json"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(logs, tmp_path, words, expected):
    done = call("recommend", logs, "--handoff", "restart", "--out", "router.json", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.count("error:") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_rules_are_judged_on_the_pairs_among_unpaired_tasks_and_more_are_asked_for(logs, tmp_path):
    data = Episodes.read(logs).dataset
    words = ["--handoff", "restart", "--cap", "70%", "--folds", "2", "--json", "--out", "router.json"]
    for pairs, code in ((30, 2), (100, 0)):
        strong = np.where(np.arange(len(data["episode"])) < pairs, data["strong_success"].values.astype(float), np.nan)
        some = data.assign(strong_success=("episode", strong))
        some = some.assign({name: data[name].where(np.isfinite(strong)) for name in ("window_start", "window_end")})
        quietly(some).write(tmp_path / f"{pairs}.jsonl")
        done = call("recommend", f"{pairs}.jsonl", *words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        if code:
            assert "is 30; expected at least 40" in done.stderr
            assert "bayes-tacit next 30.jsonl" in done.stderr
        else:
            assert json.loads(done.stdout)["tasks"] == 100
            assert "the 60 that one did count through the reader of words alone" in done.stderr


def test_without_counterfactuals_a_resumed_handoff_has_bounds_only(logs, tmp_path):
    words = ["--cap", "60", "--step-budget", "30", "--out", str(tmp_path / "router.json"), "--json"]
    done = call("recommend", logs, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["from_logs_alone"]
    assert "do not say what comes of a handoff" in said["unknown"]
    for row in said["policies"]:
        assert row["success_low"] <= row["success_high"]


@pytest.mark.parametrize("words", [["--plot", "p.png"], ["--at-most", "60.0"]])
def test_a_plot_and_a_limit_need_known_handoffs(logs, tmp_path, words):
    done = call("recommend", logs, "--cap", "60", "--out", "r.json", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{words[0]} is '{words[1]}'; expected --counterfactuals or --handoff restart as well" in done.stderr


@pytest.mark.parametrize("command", [("recommend", "episodes.jsonl"), ("select", "fit.json", "episodes.jsonl")])
def test_restarts_of_a_log_without_strong_steps_are_refused_in_words_of_the_command_line(
    example_folder, tmp_path, command
):
    files = [example_folder / name for name in command[1:]]
    done = call(command[0], *files, "--cap", "60", "--handoff", "restart", "--out", "r.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "episodes.jsonl: --strong-steps is None; expected a carried variable" in done.stderr
    assert not list(tmp_path.iterdir())
