"""The mechanism simulator, and what its parameters were calibrated to."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from mechanism_peer import Peer
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.policies import World
from bayes_tacit.router import Router, rules
from bayes_tacit.router.rules import Chance
from simulations.mechanism import (
    Calibration,
    Mechanism,
    calibrate,
    calibrated,
    calibration,
    simulate,
    simulate_replicate,
    with_feature_information,
    with_risk_noise,
)
from simulations.mechanism.calibrate import (
    HEADLINE,
    PAPER,
    TOLERANCE,
    Ends,
    auc,
    from_vector,
    to_vector,
)
from simulations.mechanism.draws import draw, replicate_seeds
from simulations.mechanism.exact import expected_outcome, optimal_reference, success_probability
from simulations.mechanism.random_mechanisms import CHEAP_RATE, STRONG_RATE, random_mechanism
from simulations.mechanism.world import world_of

BASELINE = calibrated()
SHORT = replace(BASELINE, steps=7, needed=5, teacher_checkpoints=7)
"""Ends early, so that the end of a rollout matters to handoffs and marks."""

BY_RISK = Router(rule=rules.Signal(), call="strong_once", diagnostic_names=("risk",))
MECHANISMS = {"calibrated": BASELINE, "headline": HEADLINE, "short": SHORT, "random": random_mechanism(11)}


@pytest.fixture(scope="module")
def world() -> World:
    return simulate(BASELINE, 3_000, seed=5)


@pytest.fixture(params=MECHANISMS, scope="module")
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return MECHANISMS[request.param]


def test_the_compiled_simulator_is_the_plain_one_to_the_last_bit(mechanism: Mechanism) -> None:
    draws = draw(2_000, mechanism.steps, seed=3)
    ours, peer = world_of(mechanism, draws), Peer(mechanism, draws)
    cheap, (success, strong) = peer.cheap(), peer.table()
    horizon = ours.episodes.horizon
    episodes, table = ours.episodes.dataset, ours.counterfactuals.dataset
    np.testing.assert_array_equal(episodes["n_steps"], cheap["n_steps"])
    np.testing.assert_array_equal(episodes["cheap_success"], cheap["success"])
    np.testing.assert_array_equal(episodes["strong_success"], peer.handoff(0)[0])
    np.testing.assert_array_equal(episodes["diagnostics"].values[:, :, 0], cheap["risk"][:, :horizon])
    np.testing.assert_array_equal(episodes["features"], peer.features())
    np.testing.assert_array_equal(episodes["window_start"], peer.windows())
    np.testing.assert_array_equal(episodes["window_end"], peer.windows())
    np.testing.assert_array_equal(table["success"], success[:, :horizon])
    np.testing.assert_array_equal(table["strong_calls"], strong[:, :horizon])
    np.testing.assert_array_equal(table["cost"], (3 * strong + np.arange(mechanism.steps))[:, :horizon])
    np.testing.assert_array_equal(table["never_cost"], cheap["n_steps"])


def test_step_deferral_is_the_plain_one_at_every_threshold(mechanism: Mechanism) -> None:
    draws = draw(500, mechanism.steps, seed=4)
    ours, peer = world_of(mechanism, draws), Peer(mechanism, draws)
    seen = np.sort(ours.episodes.dataset["diagnostics"].values[~np.isnan(ours.episodes.dataset["diagnostics"].values)])
    thresholds = np.array([np.inf, *np.quantile(seen, np.linspace(1, 0, 15)), 0.0, -1.0, seen[len(seen) // 2] + 1e-12])
    played = ours.single_steps(BY_RISK, thresholds)
    for position, threshold in enumerate(thresholds):
        success, cheap, strong = peer.deferral(threshold)
        np.testing.assert_array_equal(played[:, position], [success, cheap + 3 * strong, cheap, strong])


@pytest.mark.parametrize("names", [("x1", "x2"), ("x2", "x1"), ("x2",), ()])
def test_deferral_by_a_chance_is_the_plain_one_whatever_the_order_of_the_features(names) -> None:
    draws = draw(500, BASELINE.steps, seed=5)
    ours, peer = world_of(BASELINE, draws), Peer(BASELINE, draws)
    columns = [{"x1": 0, "x2": 1}[name] for name in names]
    mean, scale, slopes = np.append([0.2, -0.1], 0.5), np.append([1.5, 0.7], 0.4), np.append([0.6, -0.9], 1.4)
    kept = [*columns, 2]
    chance = Chance(mean[kept], scale[kept], -0.3, slopes[kept])
    router = replace(BY_RISK, rule=rules.StepChance(chance), feature_names=names)
    thresholds = np.array([0.0, 0.31, 0.5, 0.8, np.inf])
    played = ours.single_steps(router, thresholds)
    x = peer.features()

    def wrong(risk):
        terms = [
            (value - mean[at]) / scale[at] * slopes[at] for at, value in zip(kept, [*x.T[columns], risk], strict=True)
        ]
        return expit(-0.3 + np.sum(terms, axis=0))

    for position, threshold in enumerate(thresholds):
        success, cheap, strong = peer.deferral(threshold, wrong)
        np.testing.assert_array_equal(played[:, position], [success, cheap + 3 * strong, cheap, strong])


def test_a_mark_is_the_earliest_checkpoint_that_meets_the_rule() -> None:
    draws = draw(400, BASELINE.steps, seed=9)
    ours, peer = world_of(BASELINE, draws), Peer(BASELINE, draws)
    cheap, strong = peer.cheap(), peer.handoff(0)[0]
    marked = 0
    for task in range(400):
        expected = np.nan
        threshold = np.exp(
            BASELINE.threshold_center
            + BASELINE.threshold_difficulty * draws.difficulty[task]
            + BASELINE.threshold_spread * draws.threshold_noise[task]
        )
        for checkpoint in (1, 2, 3, 4, 5):
            state = cheap["state"][task, checkpoint - 1]
            unfinished = checkpoint < cheap["n_steps"][task]
            crossed = cheap["risk"][task, :checkpoint].sum() >= threshold
            better = peer.p_strong[task, state] >= peer.p_cheap[task, state] + 0.08
            if unfinished and crossed and state in (1, 2) and better:
                expected = checkpoint - 1
                break
        if cheap["success"][task] or not strong[task]:
            expected = np.nan
        np.testing.assert_equal(float(ours.episodes.dataset["window_start"][task]), expected)
        marked += not np.isnan(expected)
    assert marked > 50


def test_handing_off_at_once_is_pure_strong_and_never_is_pure_cheap(world: World) -> None:
    n = len(world)
    at_once, never = (world.counterfactuals.outcomes_at(np.full(n, step)) for step in (0, -1))
    np.testing.assert_array_equal(at_once.success, world.episodes.dataset["strong_success"])
    np.testing.assert_array_equal(never.success, world.episodes.dataset["cheap_success"])
    assert not at_once.cheap_calls.any()
    assert not never.strong_calls.any()
    all_cheap = world.single_steps(BY_RISK, np.array([np.inf]))[:, 0]
    np.testing.assert_array_equal(all_cheap, [never.success, never.cost, never.cheap_calls, never.strong_calls])


@pytest.mark.parametrize("handoff", [0, 4, 10])
def test_success_and_cost_of_a_fixed_handoff_are_those_of_dynamic_programming(
    mechanism: Mechanism, handoff: int
) -> None:
    n = 40_000
    handoff = min(handoff, mechanism.steps)
    world = simulate(mechanism, n, seed=17)
    steps = np.where(world.counterfactuals.n_steps > handoff, handoff, -1)
    ours, exact = world.counterfactuals.outcomes_at(steps), expected_outcome(mechanism, handoff)
    for values, mean in (
        (ours.success, exact.success),
        (ours.cost, exact.cost),
        (ours.cheap_calls, exact.cheap_calls),
        (ours.strong_calls, exact.strong_calls),
    ):
        assert abs(values.mean() - mean) <= 4 * values.std() / np.sqrt(n) + 1e-12


def test_dynamic_programming_is_a_binomial_tail_where_nothing_moves() -> None:
    still = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    plain = replace(
        BASELINE,
        cheap_correct=(0.7, 0.5, 0.5),
        cheap_moves=still,
        difficulty_on_cheap=0.0,
        difficulty_on_drift=0.0,
        strong_moves=still,
        strong_correct=(0.9, 0.5, 0.5),
        difficulty_on_strong=0.0,
        resistance_on_strong=0.0,
    )
    for actor, p in (("cheap", 0.7), ("strong", 0.9)):
        tail = p**10 + 10 * p**9 * (1 - p) + 45 * p**8 * (1 - p) ** 2
        assert success_probability(plain, actor) == pytest.approx(tail, abs=1e-12)


def test_an_axis_changes_what_is_seen_and_nothing_that_happens() -> None:
    base = simulate(BASELINE, 2_000, seed=6)
    features = simulate(with_feature_information(BASELINE, 0.3), 2_000, seed=6)
    noise = simulate(with_risk_noise(BASELINE, 2.0), 2_000, seed=6)
    for other in (features, noise):
        np.testing.assert_array_equal(other.counterfactuals.table(), base.counterfactuals.table())
        np.testing.assert_array_equal(other.episodes.n_steps, base.episodes.n_steps)
    np.testing.assert_array_equal(features.episodes.dataset["diagnostics"], base.episodes.dataset["diagnostics"])
    np.testing.assert_array_equal(features.episodes.dataset["window_start"], base.episodes.dataset["window_start"])
    np.testing.assert_array_equal(noise.episodes.dataset["features"], base.episodes.dataset["features"])
    assert not np.array_equal(features.episodes.dataset["features"], base.episodes.dataset["features"])
    assert not np.array_equal(noise.episodes.dataset["diagnostics"], base.episodes.dataset["diagnostics"])


def test_feature_information_is_a_signal_to_noise_ratio() -> None:
    many = simulate(with_feature_information(BASELINE, 2.5), 40_000, seed=7).episodes.dataset["features"].values
    trait = draw(40_000, BASELINE.steps, 7).difficulty
    r = BASELINE.x1_correlation
    wanted = 2.5 * r**2 / (1 - r**2)
    found = np.corrcoef(many[:, 0], trait)[0, 1] ** 2
    assert found / (1 - found) == pytest.approx(wanted, rel=0.1)
    np.testing.assert_allclose(many.std(axis=0), 1, atol=0.02)
    assert with_feature_information(BASELINE, 1.0).x2_correlation == pytest.approx(BASELINE.x2_correlation)


def test_noise_persists_within_a_task_by_the_stated_share() -> None:
    loud = replace(BASELINE, risk_mean=(9.0, 9.0, 9.0), risk_of_error=0.0, risk_noise=0.5, risk_persistence=0.6)
    risk = simulate(loud, 40_000, seed=2).episodes.dataset["diagnostics"].values[:, :, 0]
    assert np.corrcoef(risk[:, 0], risk[:, 3])[0, 1] == pytest.approx(0.6, abs=0.02)
    assert risk[:, 0].std() == pytest.approx(0.5, rel=0.02)


def test_splits_and_replicates_are_independent_and_repeatable() -> None:
    sizes = {"train": 300, "development": 300, "test": 300}
    first, again, other = (simulate_replicate(BASELINE, 1, replicate, sizes) for replicate in (0, 0, 1))
    for split in sizes:
        assert first[split].episodes.identical(again[split].episodes)
    worlds = [*first.values(), *other.values(), simulate(BASELINE, 300, 1)]
    features = np.stack([world.episodes.dataset["features"].values[:, 0] for world in worlds])
    between = np.corrcoef(features)[~np.eye(len(worlds), dtype=bool)]
    assert np.abs(between).max() < 4 / np.sqrt(300)
    keys = {stream.spawn_key for replicate in range(3) for stream in replicate_seeds(1, replicate).values()}
    assert len(keys) == 9


def test_a_world_survives_a_trip_between_processes(world: World) -> None:
    there = pickle.loads(pickle.dumps(world))
    assert there.episodes.identical(world.episodes)
    thresholds = np.array([0.2, 0.7])
    np.testing.assert_array_equal(there.single_steps(BY_RISK, thresholds), world.single_steps(BY_RISK, thresholds))


@pytest.mark.parametrize("seed", range(2))
def test_random_mechanisms_hold_the_pure_rates(seed: int) -> None:
    drawn = random_mechanism(seed)
    pure = simulate(drawn, 40_000, seed=seed).counterfactuals
    for outcomes, rate in ((pure.pure_cheap, CHEAP_RATE), (pure.pure_strong, STRONG_RATE)):
        assert outcomes.success.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / 40_000))
    assert drawn == random_mechanism(seed)
    assert drawn != random_mechanism(seed + 100)


def test_a_calibration_comes_back_from_its_file(tmp_path) -> None:
    file = tmp_path / "parameters.json"
    calibration().write(file)
    assert Calibration.read(file) == calibration()
    assert Mechanism.from_dict(json.loads(json.dumps(BASELINE.to_dict()))) == BASELINE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cheap_correct": (0.9, 0.8)}, "cheap_correct is .*three numbers"),
        ({"strong_correct": (0.9, 0.8, 1.0)}, r"strong_correct\[2\] is 1.0"),
        ({"cheap_moves": ((0.5, 0.5, 0.1), (0, 1, 0), (0, 0, 1))}, r"cheap_moves\[0\] is .* sum to 1"),
        ({"strong_moves": 3}, "strong_moves is 3; expected three rows"),
        ({"risk_mean": (0.0, -0.1, 1.0)}, r"risk_mean\[1\] is -0.1"),
        ({"needed": 11}, "needed is 11; expected at most 10"),
    ],
)
def test_bad_parameters_are_named(change: dict, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        replace(BASELINE, **change)


def test_bad_settings_are_named(tmp_path, world: World) -> None:
    with pytest.raises(InvalidDataError, match="n is 0"):
        simulate(BASELINE, 0, seed=1)
    with pytest.raises(InvalidDataError, match="seed is -1"):
        simulate(BASELINE, 10, seed=-1)
    with pytest.raises(InvalidDataError, match="factor is -1"):
        with_risk_noise(BASELINE, -1)
    with pytest.raises(InvalidDataError, match=r"diagnostics of the router is \['nll'\]; expected 'risk'"):
        world.single_steps(replace(BY_RISK, diagnostic_names=("nll",)), np.array([0.1]))
    with pytest.raises(InvalidDataError, match="policy is 'count'; expected one that defers steps"):
        world.single_steps(replace(BY_RISK, rule=rules.Signs([0.5])), np.array([0.1]))
    with pytest.raises(InvalidDataError, match="thresholds is"):
        world.single_steps(BY_RISK, np.array([np.nan]))
    with pytest.raises(InvalidDataError, match="sizes is"):
        simulate_replicate(BASELINE, 1, 0, {"train": 10})
    with pytest.raises(InvalidDataError, match="actor is 'medium'"):
        success_probability(BASELINE, "medium")
    with pytest.raises(InvalidDataError, match="parameter is 'luck'"):
        Mechanism.from_dict(BASELINE.to_dict() | {"luck": 1.0})
    with pytest.raises(InvalidDataError, match="risk_noise is 'missing'"):
        Mechanism.from_dict({name: value for name, value in BASELINE.to_dict().items() if name != "risk_noise"})
    with pytest.raises(InvalidDataError, match="noise_factors"):
        replace(calibration(), noise_factors=(1.0, 2.0))
    with pytest.raises(MissingFileError):
        Calibration.read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FileFormatError):
        Calibration.read(tmp_path / "bad.json")


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


@pytest.mark.study
def test_the_reference_lies_between_fixed_handoffs_and_hindsight(test_world: World) -> None:
    (found,) = optimal_reference(BASELINE, 16.0, n_train=N, n_test=N, seed=2).itertuples()
    assert found.cost == pytest.approx(16.0, abs=0.3)
    assert found.success > best_fixed(BASELINE, 16.0) + 0.05
    assert found.success < with_hindsight(test_world, 16.0) + 3 * np.sqrt(0.25 / N)


@pytest.mark.study
def test_the_reference_is_the_best_fixed_handoff_where_nothing_can_be_seen() -> None:
    blind = replace(
        with_feature_information(BASELINE, 0.0), risk_mean=(1.0, 1.0, 1.0), risk_of_error=0.0, risk_persistence=0.0
    )
    (found,) = optimal_reference(blind, 16.0, n_train=N, n_test=N, seed=3).itertuples()
    assert found.success == pytest.approx(best_fixed(blind, 16.0), abs=0.02)


def test_auc_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    scores, positive = rng.integers(0, 6, size=200).astype(float), rng.random(200) < 0.3
    assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    with pytest.raises(InvalidDataError, match="number of positive cases is 0"):
        auc(scores, np.zeros(200, dtype=bool))


def test_parameters_come_back_from_their_vector() -> None:
    ends = Ends(0.1, 4.0, 3.0, 0.2)
    mechanism, again = from_vector(to_vector(BASELINE, ends))
    np.testing.assert_allclose(to_vector(mechanism, again), to_vector(BASELINE, ends), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mechanism.cheap_moves, BASELINE.cheap_moves, atol=1e-3)
    assert mechanism.threshold_center == pytest.approx(BASELINE.threshold_center)


def test_the_committed_parameters_are_near_the_paper() -> None:
    written = calibration().provenance["check_figures"]
    near = {name: abs(written[name] - PAPER[name]) <= TOLERANCE[name] for name in PAPER}
    assert all(near.values()), near


def test_a_search_finds_what_can_be_found(monkeypatch) -> None:
    start = to_vector(*calibrate.STARTS[1])
    slopes = np.random.default_rng(3).normal(size=(len(PAPER), len(start)))

    def figures(mechanism: Mechanism, ends: Ends, *_: int) -> dict[str, float]:
        away = slopes @ (to_vector(mechanism, ends) - start) + 1.5
        return {name: PAPER[name] + TOLERANCE[name] * away[i] for i, name in enumerate(PAPER)}

    monkeypatch.setattr(calibrate, "measure", figures)
    found = calibrate.search(1, 3, 48)
    assert calibrate.score(calibrate.mean_figures(start, 1, 1)) == pytest.approx(1.5)
    assert calibrate.score(calibrate.mean_figures(found, 1, 1)) < 0.2
