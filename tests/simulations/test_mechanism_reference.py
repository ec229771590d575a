"""The nearly optimal reference, the paper's checks and the calibration's parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.world import World
from simulations.mechanism import calibrate, calibrated, calibration, simulate, with_feature_information
from simulations.mechanism.calibrate import PAPER, TOLERANCE, Ends, auc, diagnostics, from_vector, measure, to_vector
from simulations.mechanism.exact import expected_outcome, optimal_reference
from simulations.mechanism.parameters import Mechanism

BASELINE = calibrated()
N = 6_000


@pytest.fixture(scope="module")
def test_world() -> World:
    return simulate(BASELINE, 20_000, seed=21)


def best_fixed(mechanism: Mechanism, cap: float) -> float:
    """The highest success at a mean cost that mixtures of two fixed handoffs can have, exactly."""
    points = [expected_outcome(mechanism, step) for step in range(mechanism.steps + 1)]
    cost, success = (np.array([getattr(point, name) for point in points]) for name in ("cost", "success"))
    mixed = [
        success[i] + (cap - cost[i]) / (cost[j] - cost[i]) * (success[j] - success[i])
        for i in range(len(points))
        for j in range(len(points))
        if cost[i] <= cap < cost[j]
    ]
    return max(mixed)


def with_hindsight(world: World, cap: float) -> float:
    """A bound for everyone: for any price, the best step of each task in hindsight, cost paid back at the cap."""
    success, cost = world.counterfactuals.table()[:2]
    return min((success - price * cost).max(axis=1).mean() + price * cap for price in np.geomspace(1e-3, 1, 60))


def test_the_reference_lies_between_fixed_handoffs_and_hindsight(test_world: World) -> None:
    (found,) = optimal_reference(BASELINE, 16.0, n_train=N, n_test=N, seed=2).itertuples()
    assert found.cost == pytest.approx(16.0, abs=0.3)
    assert found.success > best_fixed(BASELINE, 16.0) + 0.05
    assert found.success < with_hindsight(test_world, 16.0) + 3 * np.sqrt(0.25 / N)


def test_the_reference_is_the_best_fixed_handoff_where_nothing_can_be_seen() -> None:
    blind = replace(
        with_feature_information(BASELINE, 0.0), risk_mean=(1.0, 1.0, 1.0), risk_of_error=0.0, risk_persistence=0.0
    )
    (found,) = optimal_reference(blind, 16.0, n_train=N, n_test=N, seed=3).itertuples()
    assert found.success == pytest.approx(best_fixed(blind, 16.0), abs=0.02)


def test_the_reference_refuses_a_cap_below_the_cost_of_cheap() -> None:
    with pytest.raises(InvalidDataError, match=r"cap is 5\.0; expected above 9"):
        optimal_reference(BASELINE, 5.0, n_train=500, n_test=500)


def test_auc_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    scores, positive = rng.integers(0, 6, size=200).astype(float), rng.random(200) < 0.3
    assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    with pytest.raises(InvalidDataError, match="number of positive cases is 0"):
        auc(scores, np.zeros(200, dtype=bool))


def test_checks_are_counts_over_tasks(test_world: World) -> None:
    found = diagnostics(simulate(BASELINE, 2_000, seed=22).episodes, test_world)
    episodes, table = test_world.episodes, test_world.counterfactuals.table()
    marked, succeeded, only_strong = 0, 0, 0
    windows = episodes.dataset["window_start"].values
    for task, outcome in enumerate(episodes.outcomes):
        only_strong += outcome == "01"
        if not np.isnan(windows[task]):
            marked += 1
            succeeded += table[0, task, int(windows[task]) + 1]
    assert found["ab01_with_candidate"] == pytest.approx(marked / only_strong)
    assert found["success_after_marked_handoff"] == pytest.approx(succeeded / marked)
    risk, failed = episodes.dataset["diagnostics"].values[:, :, 0], ~episodes.dataset["cheap_success"].values
    total = [risk[task, :n].sum() for task, n in enumerate(episodes.n_steps)]
    latest = [risk[task, n - 1] for task, n in enumerate(episodes.n_steps)]
    assert found["auc_cumulative_risk"] == pytest.approx(roc_auc_score(failed, total))
    assert found["auc_latest_risk"] == pytest.approx(roc_auc_score(failed, latest))
    assert 0.5 < found["auc_task_features"] < found["auc_cumulative_risk"]


def test_parameters_come_back_from_their_vector() -> None:
    ends = Ends(0.1, 4.0, 3.0, 0.2)
    mechanism, again = from_vector(to_vector(BASELINE, ends))
    np.testing.assert_allclose(to_vector(mechanism, again), to_vector(BASELINE, ends), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mechanism.cheap_moves, BASELINE.cheap_moves, atol=1e-3)
    assert mechanism.threshold_center == pytest.approx(BASELINE.threshold_center)


def test_the_committed_parameters_give_the_figures_that_are_written_beside_them() -> None:
    """One replicate, within what a replicate scatters: five standard deviations of the paper's own intervals."""
    committed = calibration()
    ends = Ends(*(committed.provenance["ends"][name] for name in Ends.__dataclass_fields__))
    found = measure(committed.mechanism, ends, calibrate.CHECK_SEED, 0)
    written = committed.provenance["check_figures"]
    assert set(found) == set(written) == set(PAPER)
    for name, value in found.items():
        assert value == pytest.approx(written[name], abs=0.03 if name.startswith("auc") else 2.5), name


def test_the_committed_parameters_are_near_the_paper() -> None:
    written = calibration().provenance["check_figures"]
    near = {name: abs(written[name] - PAPER[name]) <= TOLERANCE[name] for name in PAPER}
    assert all(near.values()), near


def test_a_search_goes_on_where_it_was_stopped(tmp_path, monkeypatch) -> None:
    file = tmp_path / "search.jsonl"
    asked = []

    def figures(mechanism: Mechanism, ends: Ends, *place: int) -> dict[str, float]:
        asked.append(place)
        vector = to_vector(mechanism, ends)
        return {name: PAPER[name] + TOLERANCE[name] * float(np.sin(vector).sum() + i) for i, name in enumerate(PAPER)}

    monkeypatch.setattr(calibrate, "measure", figures)
    whole = calibrate.search(calibrate.Measurements(tmp_path / "other.jsonl"), 1, 1, 5)
    n = len(asked)
    calibrate.search(calibrate.Measurements(file), 1, 0, 5)
    asked.clear()
    resumed = calibrate.search(calibrate.Measurements(file), 1, 1, 5)
    np.testing.assert_array_equal(resumed, whole)
    assert len(asked) == n - len(calibrate.STARTS) * calibrate.REPLICATES


def test_a_search_finds_what_can_be_found(tmp_path, monkeypatch) -> None:
    start = to_vector(*calibrate.STARTS[1])
    slopes = np.random.default_rng(3).normal(size=(len(PAPER), len(start)))

    def figures(mechanism: Mechanism, ends: Ends, *_: int) -> dict[str, float]:
        away = slopes @ (to_vector(mechanism, ends) - start) + 1.5
        return {name: PAPER[name] + TOLERANCE[name] * away[i] for i, name in enumerate(PAPER)}

    monkeypatch.setattr(calibrate, "measure", figures)
    measured = calibrate.Measurements(tmp_path / "search.jsonl")
    found = calibrate.search(measured, 1, 3, 48)
    assert calibrate.score(measured.mean(start, 1, 1)) == pytest.approx(1.5)
    assert calibrate.score(measured.mean(found, 1, 1)) < 0.2
