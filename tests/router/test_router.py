import copy
import dataclasses
import json
import math
import pickle
import subprocess
import sys
import threading
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bayes_tacit.router.quantiles import Quantiles
from hypothesis import given
from hypothesis import strategies as st
from posteriors import random_posterior
from routers import ALPHAS, FEATURES, ROLLOUTS, ROUTERS, random_router
from strategies import quietly

from bayes_tacit import Decision, Episodes, MapFit, Router, decisive_scores, fit_map, handoff_score
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import EpisodeEndedError, HandoffState

HEAVY = ("arviz", "dask", "h5netcdf", "matplotlib", "pandas", "pydantic", "pymc", "pytensor", "rich", "xarray", "zarr")


def decisions(router: Router, features: object, rollout: list, **settings) -> list[Decision]:
    state = router.start(features, **settings)
    return [state.observe(diagnostics) for diagnostics in rollout]


def routed(router: Router, episodes: Episodes) -> np.ndarray:
    """Scores of every checkpoint of every episode, NaN past the end of its rollout."""
    dataset = episodes.dataset
    out = np.full(dataset["diagnostics"].shape[:2], np.nan)
    for i, n_steps in enumerate(dataset["n_steps"].values):
        state = router.start(dict(zip(episodes.feature_names, dataset["features"].values[i], strict=True)))
        for t in range(n_steps):
            out[i, t] = state.observe(dataset["diagnostics"].values[i, t]).score
    return out


def test_importing_and_running_a_router_loads_nothing_heavy(tmp_path):
    path = tmp_path / "router.json"
    random_router(draws=5).save(path)
    code = f"""
import sys
from bayes_tacit.router import DecisionLog, Router, replay
router = Router.load({str(path)!r})
with DecisionLog({str(tmp_path / "log.jsonl")!r}) as log:
    state = router.start([0, 0], episode=1, log=log)
    state.observe([1, 1, 1])
assert replay({str(tmp_path / "log.jsonl")!r}, router).agrees
router.restore(state.snapshot())
print(*sorted({{name.split(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"numpy", "scipy", "bayes_tacit"} <= loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("family", ["lognormal", "loglogistic"])
def test_scores_of_a_fit_are_the_librarys_after_a_round_trip(example, family):
    fit = fit_map(example, family=family, restarts=1)
    router = Router.from_json(Router.from_fit(fit, alpha=0.3).to_json())
    np.testing.assert_allclose(routed(router, example), handoff_score(fit, example), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["mean", 0.1, 0.5, 0.93])
@pytest.mark.parametrize("fixed_weights", [False, True])
def test_scores_of_a_posterior_are_the_librarys_after_a_round_trip(rng, example, rule, fixed_weights):
    tree = random_posterior(rng, example, draws=12, fixed_weights=fixed_weights, family="loglogistic")
    q = handoff_score(tree, example).values.reshape(24, *example.dataset["diagnostics"].shape[:2])
    expected = q.mean(axis=0) if rule == "mean" else np.quantile(q, rule, axis=0)
    router = Router.from_json(Router.from_posterior(tree, alpha=0.3, rule=rule).to_json())
    np.testing.assert_allclose(routed(router, example), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["mean", 0.1])
@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_scores_and_handoffs_of_episodes_are_what_observing_them_gives(rng, example, rule, timing):
    episodes = example.take(slice(60))
    router = Router.from_posterior(random_posterior(rng, example, draws=30), 0.4, rule, draws=20, timing=timing)
    scores, handoffs = router.scores(episodes), router.handoffs(episodes)
    assert (scores.dims, handoffs.dims) == (("episode", "step"), ("episode",))
    np.testing.assert_array_equal(handoffs["episode"], episodes.ids)
    online = routed(router, episodes)
    np.testing.assert_allclose(scores, online, rtol=0, atol=1e-12)
    crossed = [np.flatnonzero(row >= 0.4) for row in online]
    expected = [int(at[0]) + (timing == "post_action") if at.size else -1 for at in crossed]
    assert handoffs.values.tolist() == expected
    assert len(set(expected)) > 3


def test_a_router_scores_with_all_the_draws_it_keeps_under_its_own_rule(rng, example):
    episodes, tree = example.take(slice(5)), random_posterior(rng, example, chains=2, draws=600)
    router = Router.from_posterior(tree, alpha=0.3, rule=0.9, draws=1200)
    q = handoff_score(tree, episodes).quantile(0.9, ("chain", "draw"), skipna=False)
    np.testing.assert_allclose(router.scores(episodes), q, rtol=1e-12)
    few = decisive_scores(tree, episodes, 0.9)
    np.testing.assert_array_equal(few, Router.from_posterior(tree, alpha=0.7, rule=0.9).scores(episodes))
    assert not np.array_equal(few, router.scores(episodes), equal_nan=True)


@pytest.mark.parametrize("fixed_weights", [False, True])
def test_a_posterior_in_32_bits_that_can_be_scored_makes_a_router_with_the_same_scores(rng, example, fixed_weights):
    tree = random_posterior(rng, example, draws=40, fixed_weights=fixed_weights)
    for group in ("posterior", "constant_data"):
        for name, variable in tree[group].data_vars.items():
            tree[f"{group}/{name}"] = variable.astype(np.float32)
    weights = tree["constant_data/w"] if fixed_weights else tree["posterior/w"]
    assert np.abs(weights.astype(float).sum("diagnostic") - 1).max() > 1e-9
    router = Router.from_json(Router.from_posterior(tree, alpha=0.3).to_json())
    expected = handoff_score(tree, example).mean(("chain", "draw"))
    np.testing.assert_allclose(routed(router, example), expected, rtol=0, atol=1e-12)


def test_a_fit_and_its_tree_make_the_same_decisions(example, example_fit):
    of_fit = Router.from_fit(example_fit, alpha=0.3)
    of_tree = Router.from_posterior(example_fit.to_datatree(), alpha=0.3)
    np.testing.assert_array_equal(routed(of_fit, example), routed(of_tree, example))
    assert of_fit.provenance == of_tree.provenance
    assert of_fit.timing == "post_action"
    assert Router.from_fit(example_fit, alpha=0.3, timing="proposal").timing == "proposal"


def test_draws_are_thinned_evenly(rng, example):
    tree = random_posterior(rng, example, chains=2, draws=50)
    tree["posterior/s"] = tree["posterior/s"].copy(data=np.arange(1.0, 101.0).reshape(2, 50))
    router = Router.from_posterior(tree, alpha=0.3, draws=10, rule=0.2, timing="proposal")
    np.testing.assert_array_equal(router.draws.s, np.arange(1.0, 101.0, 10))
    assert router.provenance["draws_available"] == 100
    assert (router.rule, router.timing) == (0.2, "proposal")
    assert len(Router.from_posterior(tree, alpha=0.3, draws=1000).draws) == 100


def test_a_posterior_without_features_needs_none(rng, example):
    tree = random_posterior(rng, quietly(Episodes, example.dataset.isel(feature=[])))
    router = Router.from_posterior(tree, alpha=0.3)
    assert router.feature_names == ()
    u = [0.5] * len(router.diagnostic_names)
    scores = {router.start(*features).observe(u).score for features in ((), ({},), ([],), (None,))}
    assert len(scores) == 1
    with pytest.raises(InvalidDataError, match="a name in features is 'size'; expected one of none"):
        router.start({"size": 1})


def test_decision_of_a_point_estimate_worked_by_hand():
    router = dataclasses.replace(random_router(features=1, diagnostics=2), alpha=0.25)
    draws, x = router.draws, (3 - router.feature_mean[0]) / router.feature_scale[0]
    pi = 1 / (1 + math.exp(-draws.gamma0[0] - draws.gamma[0, 0] * x))
    risk = draws.w[0] @ [1, 0.5]
    z = (math.log(2 * risk) - draws.beta0[0] - draws.beta[0, 0] * x) / draws.s[0]
    state = router.start({"x0": 3})
    state.observe({"u1": 0.5, "u0": 1})
    decision = state.observe([1, 0.5])
    assert decision.step == 1
    assert decision.risk == pytest.approx(risk, rel=1e-14)
    assert decision.cumulative_risk == pytest.approx(2 * risk, rel=1e-14)
    assert decision.pi == pytest.approx(pi, rel=1e-14)
    assert decision.score == pytest.approx(pi * 0.5 * math.erfc(-z / math.sqrt(2)), rel=1e-13)
    assert (decision.lower, decision.upper) == (None, None)
    assert decision.handoff == (decision.score >= 0.25)


def test_decision_under_a_posterior_has_means_and_the_central_band():
    router = random_router(draws=30, features=0, rule=0.1)
    draws = router.draws
    decision = router.start().observe([1, 0.5, 2])
    risk = draws.w @ [1, 0.5, 2]
    pi = draws.incidence(np.zeros(0))
    z = (np.log(risk) - draws.beta0) / draws.s
    q = pi * np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z])
    assert decision.risk == pytest.approx(risk.mean(), rel=1e-14)
    assert decision.cumulative_risk == decision.risk
    assert decision.pi == pytest.approx(pi.mean(), rel=1e-14)
    assert [decision.lower, decision.score, decision.upper] == pytest.approx(
        np.quantile(q, [0.05, 0.1, 0.95]), rel=1e-13
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_quantiles_are_numpys_to_the_last_bit(values, probabilities):
    found = Quantiles(len(values), probabilities)(np.array(values))
    assert found == np.quantile(values, probabilities).tolist()


def test_a_decision_cannot_be_changed_and_says_why():
    state = random_router(alpha=0.5).start([0, 0])
    below = state.observe([0, 0, 0])
    crossing = state.observe([50, 50, 50])
    after = state.observe([0, 0, 0])
    with pytest.raises(AttributeError):
        below.handoff = True
    assert below.reason == "score 0 is below alpha 0.5"
    assert crossing.reason == f"score {crossing.score:.6g} reached alpha 0.5"
    assert after.reason == "alpha was reached at step 1"


def test_a_score_equal_to_alpha_hands_off():
    score = random_router().start([0, 0]).observe([1, 1, 1]).score
    assert random_router(alpha=score).start([0, 0]).observe([1, 1, 1]).handoff
    above = score * (1 + 1e-6)
    assert not random_router(alpha=above).start([0, 0]).observe([1, 1, 1]).handoff


@pytest.mark.parametrize("draws", [1, 20])
def test_without_evidence_the_score_is_zero(draws):
    decision = random_router(draws=draws).start([0, 0]).observe([0, 0, 0])
    assert (decision.risk, decision.cumulative_risk, decision.score) == (0, 0, 0)


@pytest.mark.parametrize("family", ["lognormal", "loglogistic"])
@pytest.mark.parametrize("draws", [1, 20])
def test_the_smallest_and_the_largest_risks_have_scores(family, draws):
    state = random_router(draws=draws, family=family).start([0, 0])
    first, second = state.observe([1e-320, 1e-320, 1e-320]), state.observe([1e308, 1e300, 0])
    assert first.cumulative_risk > 0
    assert first.score < 1e-12
    assert second.score == pytest.approx(second.pi, rel=1e-12)


@given(ROUTERS, FEATURES, ROLLOUTS)
def test_the_score_never_decreases_and_stays_below_pi(router, features, rollout):
    made = decisions(router, features, rollout)
    scores = [decision.score for decision in made]
    assert all(later >= earlier - 1e-15 for earlier, later in pairwise(scores))
    if router.rule == "mean" or len(router.draws) == 1:
        assert scores[-1] <= made[-1].pi + 1e-15
    if len(router.draws) > 1:
        assert all(0 <= decision.lower <= decision.upper <= 1 for decision in made)


@given(ROUTERS, FEATURES, ROLLOUTS)
def test_a_handoff_is_at_the_first_crossing_and_never_taken_back(router, features, rollout):
    made = decisions(router, features, rollout)
    crossed = [decision.step for decision in made if decision.score >= router.alpha]
    for decision in made:
        assert decision.handoff == bool(crossed and decision.step >= crossed[0])
        assert decision.handoff_step == (crossed[0] if decision.handoff else None)


@pytest.mark.parametrize("alpha", [np.float64(0.25), np.float32(0.25), np.int64(1)])
def test_alpha_may_come_out_of_a_table(alpha, tmp_path):
    router = random_router(alpha=alpha)
    assert type(router.alpha) is float
    router.save(tmp_path / "router.json")
    assert Router.load(tmp_path / "router.json") == random_router(alpha=float(alpha))


@given(ROUTERS, FEATURES, ROLLOUTS, ALPHAS)
def test_lowering_alpha_never_delays_a_handoff(router, features, rollout, other):
    low, high = sorted((router.alpha, other))
    early, late = (
        decisions(dataclasses.replace(router, alpha=a), features, rollout)[-1].handoff_step for a in (low, high)
    )
    assert late is None or (early is not None and early <= late)


@given(ROUTERS, FEATURES, ROLLOUTS, st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)))
def test_raising_the_quantile_never_delays_a_handoff(router, features, rollout, rules):
    low, high = sorted(rules)
    late, early = (
        decisions(dataclasses.replace(router, rule=r), features, rollout)[-1].handoff_step for r in (low, high)
    )
    assert late is None or (early is not None and early <= late)


@given(ROUTERS, FEATURES, ROLLOUTS, st.permutations(range(3)), st.permutations(range(2)))
def test_the_order_of_diagnostics_and_features_does_not_matter(router, features, rollout, order, feature_order):
    draws = dataclasses.replace(
        router.draws,
        w=router.draws.w[:, [*order, 3] if router.draws.clock else order],
        gamma=router.draws.gamma[:, feature_order],
        beta=router.draws.beta[:, feature_order],
    )
    permuted = dataclasses.replace(
        router,
        diagnostic_names=tuple(router.diagnostic_names[j] for j in order),
        feature_names=tuple(router.feature_names[j] for j in feature_order),
        feature_mean=router.feature_mean[feature_order],
        feature_scale=router.feature_scale[feature_order],
        draws=draws,
    )
    by_name = dict(zip(router.feature_names, features, strict=True))
    named = [dict(zip(router.diagnostic_names, u, strict=True)) for u in rollout]
    in_order = [[u[j] for j in order] for u in rollout]
    expected = [d.score for d in decisions(router, features, rollout)]
    assert [d.score for d in decisions(permuted, by_name, named)] == pytest.approx(expected, rel=0, abs=1e-12)
    permuted_features = [features[j] for j in feature_order]
    assert [d.score for d in decisions(permuted, permuted_features, in_order)] == pytest.approx(
        expected, rel=0, abs=1e-12
    )


@given(ROUTERS, FEATURES, ROLLOUTS, st.booleans())
def test_snapshot_and_restore_at_every_step_change_nothing(router, features, rollout, shadow):
    loaded = Router.from_json(router.to_json())
    state = router.start(features, shadow=shadow, episode="a")
    restored = []
    for diagnostics in rollout:
        state = loaded.restore(json.loads(json.dumps(state.snapshot())))
        restored.append(state.observe(diagnostics))
    assert restored == decisions(router, features, rollout, shadow=shadow)
    assert (state.episode, state.shadow, state.step) == ("a", shadow, len(rollout))


@given(ROUTERS, FEATURES, ROLLOUTS)
def test_shadow_mode_records_the_handoff_without_making_it(router, features, rollout):
    plain, shadow = decisions(router, features, rollout), decisions(router, features, rollout, shadow=True)
    assert not any(decision.handoff for decision in shadow)
    assert [decision.would_handoff for decision in shadow] == [decision.handoff for decision in plain]
    assert {decision.call for decision in shadow} == {"cheap"}
    made = [decision._replace(handoff=decision.would_handoff) for decision in shadow]
    assert [one._replace(call="strong" if one.handoff else "cheap") for one in made] == plain
    assert all(("shadow mode" in decision.reason) == decision.would_handoff for decision in shadow)


@pytest.mark.parametrize("draws", [1, 5])
def test_every_way_to_give_numbers_gives_the_same_decision(draws):
    router = random_router(draws=draws)
    ways = [
        {"u0": 1.0, "u1": 0.0, "u2": 2.0},
        {"u2": 2, "u0": True, "u1": False},
        [1, 0, 2],
        (1.0, -0.0, 2.0),
        np.array([1.0, 0.0, 2.0]),
        np.array([1, 0, 2]),
        [np.float32(1), np.int8(0), np.float64(2)],
        [np.bool_(True), 0, 2],
        pd.Series({"u2": 2.0, "u1": 0.0, "u0": 1.0}),
        xr.DataArray([1.0, 0.0, 2.0], dims="diagnostic"),
    ]
    made = [router.start([0.5, 1]).observe(way) for way in ways]
    assert made == [made[0]] * len(made)
    for decision in made:
        assert {type(decision.risk), type(decision.cumulative_risk), type(decision.score), type(decision.pi)} == {float}
    assert router.start({"x1": 1, "x0": 0.5}).features == router.start(np.array([0.5, 1.0])).features == (0.5, 1.0)


def test_the_end_of_an_episode_is_final():
    state = random_router().start([0, 0], episode="task-17")
    state.observe([1, 1, 1])
    state.finish()
    state.finish()
    with pytest.raises(EpisodeEndedError, match=r"episode 'task-17', step 1: observed after finish\(\)"):
        state.observe([1, 1, 1])
    assert state.step == 1
    restored = state.router.restore(state.snapshot())
    with pytest.raises(EpisodeEndedError, match="step 1"):
        restored.observe([1, 1, 1])


def test_many_threads_share_a_router():
    router = random_router(draws=50, alpha=0.5)
    rollouts = np.random.default_rng(1).gamma(0.3, size=(40, 30, 3))
    expected = [decisions(router, [i / 40, 0], list(rollout)) for i, rollout in enumerate(rollouts)]
    found: dict[int, list[Decision]] = {}
    fresh = Router.from_json(router.to_json())

    def run(worker: int) -> None:
        for i in range(worker, 40, 4):
            found[i] = decisions(fresh, [i / 40, 0], list(rollouts[i]))

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(40)] == expected


def test_a_router_is_a_value():
    router = random_router(draws=3)
    assert router == pickle.loads(pickle.dumps(router)) == copy.deepcopy(router)
    assert len({router, random_router(draws=3), random_router(1, draws=3)}) == 2
    assert router != dataclasses.replace(router, alpha=0.31)
    with pytest.raises(ValueError, match="read-only"):
        router.draws.w[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        router.alpha = 0.2


def test_a_router_does_not_follow_the_arrays_it_was_made_from():
    mean = np.zeros(2)
    router = dataclasses.replace(random_router(), feature_mean=mean)
    mean[:] = 9
    assert router.feature_mean.tolist() == [0, 0]


def test_router_and_state_print_readably():
    assert repr(random_router(draws=1000, rule=0.1)) == (
        "<Router: 0.1 quantile of 1,000 draws >= alpha 0.3, post_action; 3 diagnostics, 2 features>"
    )
    state = random_router().start([0, 0], episode="task-17", shadow=True)
    state.observe([9, 9, 9])
    state.finish()
    assert repr(state) == "<HandoffState of 'task-17': 1 step observed, crossed at step 0, finished, shadow>"


BAD_DIAGNOSTICS = [
    ({"u0": 1, "u1": 1}, r"expected diagnostics\['u2'\], which is missing"),
    ({}, r"expected diagnostics\['u0'\], which is missing"),
    ({"u0": 1, "u1": 1, "u2": 1, "u3": 1}, "a name in diagnostics is 'u3'; expected one of u0, u1, u2"),
    ({"u0": 1, "u1": 1, "U2": 1}, r"expected diagnostics\['u2'\], which is missing"),
    ({"u0": 1, "u1": -0.5, "u2": 1}, r"diagnostics\['u1'\] is -0.5; expected a finite number >= 0"),
    ({"u0": 1, "u1": math.nan, "u2": 1}, r"diagnostics\['u1'\] is nan"),
    ({"u0": 1, "u1": math.inf, "u2": 1}, r"diagnostics\['u1'\] is inf"),
    ({"u0": 1, "u1": -math.inf, "u2": 1}, r"diagnostics\['u1'\] is -inf"),
    ({"u0": 1, "u1": None, "u2": 1}, r"diagnostics\['u1'\] is None"),
    ({"u0": 1, "u1": "1", "u2": 1}, r"diagnostics\['u1'\] is '1'"),
    ({"u0": 1, "u1": 1j, "u2": 1}, r"diagnostics\['u1'\] is 1j"),
    ({"u0": 1, "u1": [1], "u2": 1}, r"diagnostics\['u1'\] is \[1\]"),
    ({"u0": 1, "u1": np.ones(2), "u2": 1}, r"diagnostics\['u1'\] is array"),
    ({"u0": 1, "u1": Decimal("NaN"), "u2": 1}, r"diagnostics\['u1'\] is Decimal"),
    ({"u0": 1, "u1": pd.NA, "u2": 1}, r"diagnostics\['u1'\] is <NA>"),
    ({"u0": 1, "u1": 10**400, "u2": 1}, r"diagnostics\['u1'\] is 1000"),
    ({"u0": 1, "u1": np.complex128(1), "u2": 1}, r"diagnostics\['u1'\] is \(1\+0j\)"),
    ([1, 1], "number of diagnostics is 2; expected 3: u0, u1, u2"),
    ([1, 1, 1, 1], "number of diagnostics is 4; expected 3"),
    ([], "number of diagnostics is 0; expected 3"),
    ([1, 1, -1], r"diagnostics\['u2'\] is -1; expected a finite number >= 0"),
    ((1, math.nan, 1), r"diagnostics\['u1'\] is nan"),
    (np.array([1, np.nan, 1]), r"diagnostics\['u1'\] is nan"),
    (np.array([1.0, -2.0, 1.0]), r"diagnostics\['u1'\] is -2.0"),
    (np.ones((3, 1)), r"diagnostics\['u0'\] is \[1.0\]"),
    (np.float64(1), "diagnostics is 1.0; expected a mapping by name, or numbers in order: u0, u1, u2"),
    ("abc", "diagnostics is 'abc'; expected a mapping"),
    (None, "diagnostics is None; expected a mapping"),
    (1.0, "diagnostics is 1.0; expected a mapping"),
    (iter([1, 1, 1]), "diagnostics is <list_iterator"),
    (["a", "b", "c"], r"diagnostics\['u0'\] is 'a'"),
    (pd.Series({"u0": 1.0, "u1": np.nan, "u2": 1.0}), r"diagnostics\['u1'\] is nan"),
    ([1.7e308, 1.7e308, 1.7e308], "cumulative risk is inf; expected diagnostics whose sum over the episode is finite"),
]


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(("bad", "message"), BAD_DIAGNOSTICS)
def test_bad_diagnostics_are_refused_and_leave_the_state_as_it_was(draws, bad, message):
    state = random_router(draws=draws).start([0, 0], episode="task-17")
    state.observe([1.7e308, 1.7e308, 1.7e308] if "cumulative" in message else [0.1, 0.2, 0.3])
    before = state.snapshot()
    with pytest.raises(InvalidDataError, match=message) as caught:
        state.observe(bad)
    assert str(caught.value).startswith("episode 'task-17', step 1: ")
    assert state.snapshot() == before


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "number of features is 0; expected 2: x0, x1"),
        ({}, r"expected features\['x0'\], which is missing"),
        ({"x0": 1}, r"expected features\['x1'\], which is missing"),
        ({"x0": 1, "x1": 1, "x2": 1}, "a name in features is 'x2'; expected one of x0, x1"),
        ({"x0": 1, "x1": math.nan}, r"features\['x1'\] is nan; expected a finite number$"),
        ([1, -math.inf], r"features\['x1'\] is -inf"),
        ([1], "number of features is 1; expected 2"),
        (["1", 1], r"features\['x0'\] is '1'"),
        ([1.7e308, -1.7e308], "location of the threshold is .*; expected features for which it is finite"),
    ],
)
def test_bad_features_are_refused(draws, bad, message):
    router = random_router(draws=draws)
    if "location" in message:
        router = dataclasses.replace(router, feature_scale=np.full(2, 1e-3))
    with pytest.raises(InvalidDataError, match=message):
        router.start(bad)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha is 0; expected a number above 0 and at most 1"),
        ({"alpha": 1.0001}, "alpha is 1.0001"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"alpha": True}, "alpha is True"),
        ({"alpha": "0.3"}, "alpha is '0.3'"),
        ({"rule": "median"}, "rule is 'median'; expected 'mean' or a number between 0 and 1"),
        ({"rule": 0}, "rule is 0"),
        ({"rule": 1.0}, "rule is 1.0"),
        ({"rule": None}, "rule is None"),
        ({"draws": 0}, "draws is 0; expected a whole number >= 1"),
        ({"draws": 10.0}, "draws is 10.0"),
        ({"timing": "later"}, "timing is 'later'; expected 'post_action' or 'proposal'"),
    ],
)
def test_bad_settings_are_refused(rng, example, settings, message):
    with pytest.raises(InvalidDataError, match=message):
        Router.from_posterior(random_posterior(rng, example), **{"alpha": 0.3, **settings})


def test_a_threshold_is_asked_for_never_assumed(rng, example, example_fit):
    tree, router = random_posterior(rng, example), random_router()
    parts = {field.name: getattr(router, field.name) for field in dataclasses.fields(router) if field.name != "alpha"}
    for make in (
        lambda: Router(**parts),
        lambda: Router.from_fit(example_fit),
        lambda: Router.from_posterior(tree, rule="mean"),
    ):
        with pytest.raises(TypeError, match=r"missing 1 required .*argument: 'alpha'"):
            make()
    with pytest.raises(InvalidDataError, match="alpha is None; expected a number above 0 and at most 1"):
        Router.from_fit(example_fit, None)


def test_fits_and_posteriors_are_not_taken_for_each_other(rng, example, example_fit: MapFit):
    with pytest.raises(InvalidDataError, match="expected a MapFit, as fit_map gives it"):
        Router.from_fit(random_posterior(rng, example), alpha=0.3)
    with pytest.raises(InvalidDataError, match="expected a DataTree, as sample_posterior gives it"):
        Router.from_posterior(example_fit, alpha=0.3)


@pytest.mark.parametrize(
    ("settings", "message"), [({"shadow": 1}, "shadow is 1"), ({"episode": 1.5}, "episode is 1.5")]
)
def test_bad_ways_to_start_are_refused(settings, message):
    with pytest.raises(InvalidDataError, match=message):
        random_router().start([0, 0], **settings)


def snapshot_of(router: Router) -> dict:
    state = router.start([0.5, 1], episode="task-17")
    state.observe([0.1, 0.1, 0.1])
    state.observe([9, 9, 9])
    return state.snapshot()


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": "bayes_tacit.router"},
            "snapshot: format is 'bayes_tacit.router'; expected 'bayes_tacit.hand",
        ),
        ({"schema_version": 2}, "snapshot: schema_version is 2; expected 1"),
        ({"router": "0" * 64}, "snapshot: router is '000.*the snapshot was taken under another router"),
        ({"features": [0.5]}, r"features is \[0.5\]; expected a list of 2 numbers"),
        ({"features": [0.5, None]}, r"features\[1\] is None; expected a number"),
        ({"features": [0.5, math.nan]}, r"features\[1\] is nan; expected a finite number"),
        ({"features": [0.5, 1.5]}, "the snapshot was changed after it was taken"),
        ({"shadow": 0}, "shadow is 0; expected true or false"),
        ({"shadow": True}, "the snapshot was changed"),
        ({"episode": ["task-17"]}, "episode is .*; expected a string or a whole number"),
        ({"step": -1}, "step is -1; expected a whole number >= 0"),
        ({"step": 2.0}, "step is 2.0"),
        ({"step": 3}, "the snapshot was changed"),
        ({"total": None}, "the snapshot was changed"),
        ({"total": []}, r"total is \[\]; expected a list of"),
        ({"total": "9"}, "total is '9'"),
        ({"handoff_step": 2}, "handoff_step is 2; expected a step before 2"),
        ({"handoff_step": True}, "handoff_step is True"),
        ({"handoff_step": 0}, "the snapshot was changed"),
        ({"finished": None}, "finished is None"),
        ({"checksum": "0" * 64}, "checksum is '000"),
        ({"more": 1}, "a key is 'more'"),
    ],
)
def test_a_changed_snapshot_is_refused(draws, changes, message):
    router = random_router(draws=draws)
    with pytest.raises(InvalidDataError, match=message):
        router.restore({**snapshot_of(router), **changes})


@pytest.mark.parametrize("draws", [1, 4])
def test_a_snapshot_with_negative_or_missing_parts_is_refused(draws):
    router = random_router(draws=draws)
    snapshot = snapshot_of(router)
    with pytest.raises(InvalidDataError, match=r"total is .*; expected numbers >= 0"):
        router.restore({**snapshot, "total": [-value for value in snapshot["total"]]})
    with pytest.raises(InvalidDataError, match="snapshot: it is None; expected an object with the keys"):
        router.restore(None)
    for key in snapshot:
        with pytest.raises(InvalidDataError, match=f"expected the key {key}, which is missing"):
            router.restore({name: value for name, value in snapshot.items() if name != key})


def test_a_snapshot_of_another_router_is_refused():
    state: HandoffState = random_router().start([0, 0])
    with pytest.raises(InvalidDataError, match="taken under another router"):
        random_router(alpha=0.31).restore(state.snapshot())


def test_whole_floats_written_as_integers_do_not_invalidate_a_snapshot():
    router = random_router(draws=4)
    state = router.start([1, 2])
    state.observe([1, 1, 1])
    snapshot = {**state.snapshot(), "features": [1, 2], "total": [1, 1, 1]}
    assert router.restore(snapshot).observe([0, 1, 0]) == state.observe([0, 1, 0])
