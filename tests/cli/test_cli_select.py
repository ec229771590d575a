"""The command that chooses a threshold: select."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call, run
from simulate import quietly

from bayes_tacit import Counterfactuals, Episodes, LoggedCost, MapFit, Router, StepCost, handoff_score, load_example
from bayes_tacit.decisions.evaluation import operating_points
from bayes_tacit.decisions.selection import fixed_grid, score_quantiles, target_switch_rates
from bayes_tacit.errors import TacitWarning


@pytest.fixture(scope="module")
def replayed(example_folder) -> Path:
    """A few episodes, and a table that says what each handoff gives: success, at three a step."""
    episodes = load_example().take(slice(0, 40))
    episodes.write(example_folder / "few.jsonl")
    rows = []
    columns = [episodes.dataset[name].values.tolist() for name in ("n_steps", "cheap_success")]
    for name, n_steps, cheap in zip(episodes.ids.tolist(), *columns, strict=True):
        rows.append((name, None, int(cheap), n_steps, 0))
        rows += [(name, step, 1, step, n_steps - step) for step in range(n_steps)]
    columns = ["episode", "handoff", "success", "cheap_calls", "strong_calls"]
    pd.DataFrame(rows, columns=columns).to_csv(example_folder / "handoffs.csv", index=False)
    return example_folder


def test_select_from_the_log_alone_gives_a_router_within_the_cap(example_folder, tmp_path):
    arguments = ("--cap", 50, "--step-budget", 30, "--out", "router.json", "--json")
    done = call("select", example_folder / "fit.json", example_folder / "episodes.jsonl", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert Router.load(tmp_path / "router.json").alpha == content["alpha"]
    assert any("Bounds are no estimates" in reason for reason in content["reasons"])


@pytest.mark.parametrize("candidates", ["quantiles", "grid", "rates"])
def test_select_with_counterfactuals_maximizes_success_within_the_cap(replayed, tmp_path, candidates):
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json", "--points", "p.csv")
    arguments = (replayed / "fit.json", replayed / "few.jsonl", *given, "--candidates", candidates, "--seed", 4)
    done = call("select", *arguments, "--plot", "curve.png", "--json", cwd=tmp_path)
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


@pytest.fixture(scope="module")
def paired(example_folder) -> Path:
    """A few episodes that carry Strong's steps and what both rollouts did cost, as imported logs do."""
    episodes = load_example().take(slice(0, 60))
    steps = episodes.n_steps // 2 + 1
    carried = {"strong_steps": steps, "cheap_tokens": 100.0 * episodes.n_steps, "strong_tokens": 700.0 * steps}
    dataset = episodes.dataset.assign({name: ("episode", values) for name, values in carried.items()})
    quietly(dataset).write(example_folder / "paired.jsonl")
    return example_folder


def load_quietly(path: Path) -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.read(path)


@pytest.mark.parametrize(
    ("prices", "cost", "cap"),
    [
        ((), StepCost(1, 3), 40),
        (("--strong-cost", 7), StepCost(1, 7), 60),
        (
            ("--cheap-cost", "cheap_tokens", "--strong-cost", "strong_tokens"),
            LoggedCost("cheap_tokens", "strong_tokens"),
            6000,
        ),
    ],
)
def test_select_is_exact_from_paired_rollouts_where_a_handoff_restarts_the_task(paired, tmp_path, prices, cost, cap):
    given = ("--handoff", "restart", *prices, "--cap", cap, "--out", "router.json", "--plot", "curve.png", "--json")
    done = call("select", paired / "fit.json", paired / "paired.jsonl", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    episodes = load_quietly(paired / "paired.jsonl")
    scores = handoff_score(MapFit.load(paired / "fit.json"), episodes)
    table = Counterfactuals.from_restarts(episodes, strong_steps="strong_steps", cost=cost)
    expected = operating_points(scores, table, score_quantiles(scores), "post_action")
    np.testing.assert_allclose([row["cost"] for row in content["points"]], expected["cost"])
    assert content["point"]["success"] == expected.loc[expected["cost"] <= cap, "success"].max()
    assert Router.load(tmp_path / "router.json").handoff == "restart"


def test_a_table_of_resumed_handoffs_says_what_restarts_give_too(replayed, tmp_path):
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 60, "--out", "router.json", "--json")
    arguments = ("select", replayed / "fit.json", replayed / "few.jsonl", *given)
    resumed = json.loads(call(*arguments, cwd=tmp_path).stdout)
    done = call(*arguments, "--handoff", "restart", "--force", cwd=tmp_path)
    restarted = json.loads(done.stdout)
    pairs = zip(resumed["points"], restarted["points"], strict=True)
    assert all(one["cost"] <= other["cost"] for one, other in pairs)
    assert Router.load(tmp_path / "router.json").handoff == "restart"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--handoff", "again"), "--handoff is 'again'"),
        (("--handoff", "restart", "--strong-steps", "turns"), "carried variable is 'turns'"),
        (("--handoff", "restart", "--cheap-cost", "cheap_tokens"), "two numbers, or two names of carried variables"),
        (("--cheap-cost", "cheap_tokens", "--strong-cost", "strong_tokens"), "carried variables price restarts only"),
        (("--cheap-cost", "-1"), "cheap cost is -1.0"),
    ],
)
def test_what_cannot_be_prices_or_steps_is_one_line(paired, tmp_path, given, message):
    arguments = (paired / "fit.json", paired / "paired.jsonl", "--cap", 40, "--out", "router.json", *given)
    done = call("select", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "router.json").exists()


def test_select_shows_the_success_cost_table_and_marks_the_choice(replayed, tmp_path):
    arguments = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json")
    done = call("select", replayed / "fit.json", replayed / "few.jsonl", *arguments, cwd=tmp_path)
    assert done.stdout.count("<- chosen") == 1
    for part in ("intervention_rate", "95% intervals", "success over Pure Strong", "written: router.json"):
        assert part in done.stdout


def test_candidates_may_come_from_other_episodes(replayed, tmp_path):
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--out", "router.json", "--json")
    arguments = (replayed / "fit.json", replayed / "few.jsonl", *given, "--training", replayed / "episodes.jsonl")
    done = call("select", *arguments, "--n", 21, cwd=tmp_path)
    scores = handoff_score(MapFit.load(replayed / "fit.json"), load_example())
    alphas = [point["alpha"] for point in json.loads(done.stdout)["points"]]
    np.testing.assert_allclose(alphas, score_quantiles(scores, 21).alpha)
    assert "other data" not in done.stderr


def test_select_tells_if_the_fit_was_not_made_from_what_is_said_to_be_its_training_data(replayed, tmp_path):
    given = ("--cap", 50, "--step-budget", 30, "--out", "router.json", "--training", replayed / "few.jsonl")
    done = call("select", replayed / "fit.json", replayed / "episodes.jsonl", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "note: the fit was made from other data" in done.stderr


def test_the_router_does_what_select_says_of_it(replayed, tmp_path, example):
    """The posterior has more draws than a router holds: the point that is printed is the written router's own."""
    given = ("--counterfactuals", replayed / "handoffs.csv", "--cap", 40, "--rule", 0.2, "--out", "router.json")
    done = call("select", replayed / "posterior.nc", replayed / "few.jsonl", *given, "--json", cwd=tmp_path)
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
        done = call("select", replayed / "fit.json", replayed / "few.jsonl", *given, cwd=tmp_path)
        found[name] = json.loads(done.stdout)["points"]
    assert found["given"][0]["cost"] > 5 * found["file"][0]["cost"]


def test_a_given_threshold_is_evaluated(replayed, tmp_path):
    arguments = ("select", replayed / "fit.json", replayed / "few.jsonl", "--alpha", 0.4, "--out", "router.json")
    table = Counterfactuals.read(replayed / "handoffs.csv", cost=StepCost(1, 3))
    scores = handoff_score(MapFit.load(replayed / "fit.json"), load_example().take(slice(0, 40)))
    expected = operating_points(scores, table, [0.4], "post_action").iloc[0]
    done = call(*arguments, "--counterfactuals", replayed / "handoffs.csv", "--json", cwd=tmp_path)
    content = json.loads(done.stdout)
    assert content["alpha"] == Router.load(tmp_path / "router.json").alpha == 0.4
    assert content["point"]["cost"] == pytest.approx(expected["cost"])
    assert content["pure_strong"]["success"] == table.pure_strong.success.mean()
    bounded = json.loads(call(*arguments, "--step-budget", 30, "--force", "--json", cwd=tmp_path).stdout)
    assert bounded["bounds"]["intervention_rate"] == pytest.approx(expected["intervention_rate"])
    assert bounded["certain_bounds"]["success_low"] <= bounded["bounds"]["success_low"]
    alone = json.loads(call(*arguments, "--force", "--json", cwd=tmp_path).stdout)
    assert alone["intervention_rate"] == pytest.approx(expected["intervention_rate"])


def test_a_threshold_above_all_scores_says_that_it_hands_off_nothing(replayed, tmp_path):
    arguments = ("select", replayed / "fit.json", replayed / "few.jsonl", "--alpha", 1, "--out", "router.json")
    assert "It hands off nothing: the highest score is 0." in call(*arguments, cwd=tmp_path).stdout


def test_lengths_of_strong_rollouts_bound_the_cost_where_there_is_no_step_budget_and_bounds_are_drawn(paired, tmp_path):
    given = ("--cap", 60, "--out", "router.json", "--plot", "bounds.png", "--points", "bounds.csv", "--json")
    arguments = ("select", paired / "fit.json", paired / "paired.jsonl", *given, "--strong-steps", "strong_steps")
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["bounds"]["cost_high"] <= 60
    assert content["certain_bounds"]["cost_high"] is None
    assert content["pure_strong"]["cost_low"] == content["pure_strong"]["cost_high"]
    assert (tmp_path / "bounds.png").read_bytes().startswith(b"\x89PNG")
    points = pd.read_csv(tmp_path / "bounds.csv")
    assert (points["certain_success_low"] <= points["success_low"]).all()


def test_a_formula_goes_from_fit_to_route_which_warns_outside_the_range_of_training(example_folder, tmp_path):
    formula = "bs(entities, df=4) + C(needs_tool):subgoals"
    data = example_folder / "episodes.jsonl"
    done = call("fit", data, "--features", formula, "--out", "fit.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    fit = MapFit.load(tmp_path / "fit.json")
    assert fit.feature_names[:4] == tuple(f"bs(entities, df=4)[{at}]" for at in range(1, 5))
    done = call("select", "fit.json", data, "--alpha", 0.3, "--out", "router.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    router = Router.load(tmp_path / "router.json")
    assert router.ranges is not None
    assert sorted(router.ranges.features) == ["entities", "subgoals"]
    start = json.dumps({"episode": "a", "features": {"entities": 12, "subgoals": 90, "needs_tool": 1}})
    done = run("route", "router.json", cwd=tmp_path, stdin=start)
    assert json.loads(done.stdout)["started"]
    assert done.stderr.strip() == "warning: features['subgoals'] is 90; in training it was from 1 to 5 (said once)"


def test_ranges_are_carried_only_where_the_training_episodes_are_at_hand(replayed, tmp_path):
    given = ("--alpha", 0.3, "--out", "router.json", "--force")
    for data, training, known in (
        ("episodes.jsonl", (), True),
        ("few.jsonl", (), False),
        ("few.jsonl", ("--training", replayed / "episodes.jsonl"), True),
    ):
        done = call("select", replayed / "fit.json", replayed / data, *given, *training, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (Router.load(tmp_path / "router.json").ranges is not None) == known, (data, training)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "--features", "sin(entities)", "--out", "fit.json"), "features is 'sin(entities)'"),
        (("sample", "--groups", "colour", "--out", "posterior.nc"), "a column of the episodes is 'colour'"),
    ],
)
def test_a_formula_or_a_group_that_cannot_be_read_is_told(example_folder, tmp_path, words, message):
    command, *options = words
    done = call(command, example_folder / "episodes.jsonl", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
