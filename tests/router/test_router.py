import dataclasses
import math
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from posteriors import random_posterior
from routers import ALPHAS, EVERY_ROUTER, FEATURES, ROLLOUTS, ROUTERS, random_router
from strategies import quietly

from bayes_tacit import Decision, Episodes, Router, fit_map, handoff_score
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.memory import peaks, with_clock
from bayes_tacit.router import EpisodeEndedError, Ranges, Start


def decisions(router: Router, features: object, rollout: list, **settings) -> list[Decision]:
    state = router.start(features, **settings)
    return [state.observe(diagnostics) for diagnostics in rollout]


def with_rule(router: Router, **changes) -> Router:
    return dataclasses.replace(router, rule=dataclasses.replace(router.rule, **changes))


@pytest.fixture(scope="module")
def few(example: Episodes) -> Episodes:
    return example.take(slice(150))


def routed(router: Router, episodes: Episodes) -> np.ndarray:
    """Scores of every checkpoint of every episode, NaN past the end of its rollout."""
    dataset = episodes.dataset
    out = np.full(dataset["diagnostics"].shape[:2], np.nan)
    for i, n_steps in enumerate(dataset["n_steps"].values):
        state = router.start(dict(zip(episodes.feature_names, dataset["features"].values[i], strict=True)))
        for t in range(n_steps):
            out[i, t] = state.observe(dataset["diagnostics"].values[i, t]).score
    return out


@pytest.mark.parametrize("family", ["lognormal", "loglogistic"])
def test_scores_of_a_fit_are_the_librarys_after_a_round_trip(example, few, family):
    fit = fit_map(example, family=family, restarts=1)
    router = Router.from_json(Router.from_fit(fit, alpha=0.3).to_json())
    np.testing.assert_allclose(routed(router, few), handoff_score(fit, few), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["mean", 0.1, 0.5, 0.93])
@pytest.mark.parametrize("fixed_weights", [False, True])
def test_scores_of_a_posterior_are_the_librarys_after_a_round_trip(rng, few, rule, fixed_weights):
    tree = random_posterior(rng, few, draws=12, fixed_weights=fixed_weights, family="loglogistic")
    q = handoff_score(tree, few).values.reshape(24, *few.dataset["diagnostics"].shape[:2])
    expected = q.mean(axis=0) if rule == "mean" else np.quantile(q, rule, axis=0)
    router = Router.from_json(Router.from_posterior(tree, alpha=0.3, rule=rule).to_json())
    np.testing.assert_allclose(routed(router, few), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fixed_weights", [False, True])
def test_a_posterior_in_32_bits_that_can_be_scored_makes_a_router_with_the_same_scores(rng, few, fixed_weights):
    tree = random_posterior(rng, few, draws=40, fixed_weights=fixed_weights)
    for group in ("posterior", "constant_data"):
        for name, variable in tree[group].data_vars.items():
            tree[f"{group}/{name}"] = variable.astype(np.float32)
    weights = tree["constant_data/w"] if fixed_weights else tree["posterior/w"]
    assert np.abs(weights.astype(float).sum("diagnostic") - 1).max() > 1e-9
    router = Router.from_json(Router.from_posterior(tree, alpha=0.3).to_json())
    expected = handoff_score(tree, few).mean(("chain", "draw"))
    np.testing.assert_allclose(routed(router, few), expected, rtol=0, atol=1e-12)


def test_draws_are_thinned_evenly(rng, example):
    tree = random_posterior(rng, example, chains=2, draws=50)
    tree["posterior/s"] = tree["posterior/s"].copy(data=np.arange(1.0, 101.0).reshape(2, 50))
    router = Router.from_posterior(tree, alpha=0.3, draws=10, rule=0.2, timing="proposal")
    np.testing.assert_array_equal(router.rule.s, np.arange(1.0, 101.0, 10))
    assert router.provenance["draws_available"] == 100
    assert (router.rule.quantile, router.timing) == (0.2, "proposal")
    assert len(Router.from_posterior(tree, alpha=0.3, draws=1000).rule.s) == 100


def test_decision_of_a_point_estimate_worked_by_hand():
    router = dataclasses.replace(random_router(features=1, diagnostics=2), alpha=0.25)
    draws, x = router.rule, (3 - router.rule.mean[0]) / router.rule.scale[0]
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
    draws = router.rule
    decision = router.start().observe([1, 0.5, 2])
    risk = draws.w @ [1, 0.5, 2]
    pi = 1 / (1 + np.exp(-draws.gamma0))
    z = (np.log(risk) - draws.beta0) / draws.s
    q = pi * np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z])
    assert decision.risk == pytest.approx(risk.mean(), rel=1e-14)
    assert decision.cumulative_risk == decision.risk
    assert decision.pi == pytest.approx(pi.mean(), rel=1e-14)
    assert [decision.lower, decision.score, decision.upper] == pytest.approx(
        np.quantile(q, [0.05, 0.1, 0.95]), rel=1e-13
    )


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


@given(ROUTERS, FEATURES, ROLLOUTS)
def test_the_score_never_decreases_and_stays_below_pi(router, features, rollout):
    made = decisions(router, features, rollout)
    scores = [decision.score for decision in made]
    assert all(later >= earlier - 1e-15 for earlier, later in pairwise(scores))
    if router.rule.quantile is None or len(router.rule.s) == 1:
        assert scores[-1] <= made[-1].pi + 1e-15
    if len(router.rule.s) > 1:
        assert all(0 <= decision.lower <= decision.upper <= 1 for decision in made)


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
    late, early = (decisions(with_rule(router, quantile=r), features, rollout)[-1].handoff_step for r in (low, high))
    assert late is None or (early is not None and early <= late)


@given(ROUTERS, FEATURES, ROLLOUTS, st.permutations(range(3)), st.permutations(range(2)))
def test_the_order_of_diagnostics_and_features_does_not_matter(router, features, rollout, order, feature_order):
    rule = router.rule
    changes = {name: getattr(rule, name)[:, feature_order] for name in ("gamma", "beta")}
    changes |= {name: getattr(rule, name)[feature_order] for name in ("mean", "scale")}
    permuted = dataclasses.replace(
        router,
        diagnostic_names=tuple(router.diagnostic_names[j] for j in order),
        feature_names=tuple(router.feature_names[j] for j in feature_order),
        rule=dataclasses.replace(rule, w=rule.w[:, [*order, 3] if rule.clock else order], **changes),
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


def test_a_router_is_a_value():
    router = random_router(draws=3)
    assert router == pickle.loads(pickle.dumps(router))
    assert len({router, random_router(draws=3), random_router(1, draws=3)}) == 2
    assert router != dataclasses.replace(router, alpha=0.31)
    with pytest.raises(ValueError, match="read-only"):
        router.rule.w[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        router.alpha = 0.2


def test_router_and_state_print_readably():
    assert repr(random_router(draws=1000, rule=0.1)) == (
        "<Router: tacit_switch, 0.1 quantile of 1,000 draws >= alpha 0.3, post_action; 3 diagnostics, 2 features>"
    )
    state = random_router().start([0, 0], episode="task-17", shadow=True)
    state.observe([9, 9, 9])
    state.finish()
    assert repr(state) == "<HandoffState of 'task-17': 1 step observed, crossed at step 0, finished, shadow>"


BAD_DIAGNOSTICS = [
    ({"u0": 1, "u1": 1}, r"expected diagnostics\['u2'\], which is missing"),
    ({"u0": 1, "u1": -0.5, "u2": 1}, r"diagnostics\['u1'\] is -0.5; expected a finite number >= 0"),
    ({"u0": 1, "u1": math.nan, "u2": 1}, r"diagnostics\['u1'\] is nan"),
    ({"u0": 1, "u1": "1", "u2": 1}, r"diagnostics\['u1'\] is '1'"),
    ({"u0": 1, "u1": np.ones(2), "u2": 1}, r"diagnostics\['u1'\] is array"),
    ({"u0": 1, "u1": pd.NA, "u2": 1}, r"diagnostics\['u1'\] is <NA>"),
    ({"u0": 1, "u1": 10**400, "u2": 1}, r"diagnostics\['u1'\] is 1000"),
    ([1, 1], "number of diagnostics is 2; expected 3: u0, u1, u2"),
    (np.array([1, np.nan, 1]), r"diagnostics\['u1'\] is nan"),
    ("abc", "diagnostics is 'abc'; expected a mapping"),
    (None, "diagnostics is None; expected a mapping"),
    (pd.Series({"u0": 1.0, "u1": np.nan, "u2": 1.0}), r"diagnostics\['u1'\] is nan"),
    ([1.7e308, 1.7e308, 1.7e308], "so far is inf; expected diagnostics whose sum over the episode is finite"),
]


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(("bad", "message"), BAD_DIAGNOSTICS)
def test_bad_diagnostics_are_refused_and_leave_the_state_as_it_was(draws, bad, message):
    state = random_router(draws=draws).start([0, 0], episode="task-17")
    state.observe([4e307, 4e307, 4e307] if "so far" in message else [0.1, 0.2, 0.3])
    before = state.snapshot()
    with pytest.raises(InvalidDataError, match=message) as caught:
        state.observe(bad)
    assert str(caught.value).startswith("episode 'task-17', step 1: ")
    assert state.snapshot() == before


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, r"expected features\['x0'\], which is missing"),
        ({"x0": 1}, r"expected features\['x1'\], which is missing"),
        ({"x0": 1, "x1": math.nan}, r"features\['x1'\] is nan; expected a finite number$"),
        ([1], "number of features is 1; expected 2"),
        ([1.7e308, -1.7e308], "of the task is .*; expected features for which it is finite"),
    ],
)
def test_bad_features_are_refused(draws, bad, message):
    router = random_router(draws=draws)
    if "of the task" in message:
        router = with_rule(router, scale=np.full(2, 1e-3))
    with pytest.raises(InvalidDataError, match=message):
        router.start(bad)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha is 0; expected a number above 0 and at most 1"),
        ({"alpha": 1.0001}, "alpha is 1.0001"),
        ({"rule": "median"}, "rule is 'median'; expected 'mean' or a number between 0 and 1"),
        ({"rule": 1.0}, "rule is 1.0"),
        ({"draws": 0}, "draws is 0; expected a whole number >= 1"),
        ({"timing": "later"}, "timing is 'later'; expected 'post_action' or 'proposal'"),
    ],
)
def test_bad_settings_are_refused(rng, example, settings, message):
    with pytest.raises(InvalidDataError, match=message):
        Router.from_posterior(random_posterior(rng, example), **{"alpha": 0.3, **settings})


def snapshot_of(router: Router) -> dict:
    state = router.start([0.5, 1], episode="task-17")
    state.observe([0.1, 0.1, 0.1])
    state.observe([9, 9, 9])
    return state.snapshot()


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"router": "0" * 64}, "snapshot: router is '000.*the snapshot was taken under another router"),
        ({"features": [0.5, 1.5]}, "the snapshot was changed after it was taken"),
        ({"shadow": True}, "the snapshot was changed"),
        ({"step": 3}, "the snapshot was changed"),
        ({"state": {}}, "the snapshot was changed"),
        ({"handoff_step": 2}, "handoff_step is 2; expected a step before 2"),
        ({"handoff_step": 0}, "the snapshot was changed"),
        ({"checksum": "0" * 64}, "checksum is '000"),
    ],
)
def test_a_changed_snapshot_is_refused(draws, changes, message):
    router = random_router(draws=draws)
    with pytest.raises(InvalidDataError, match=message):
        router.restore({**snapshot_of(router), **changes})


# Memory, clock, pace and start


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("memory", [0.0, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("diagnostics", [1, 3, 23])
def test_the_risk_of_a_point_estimate_is_that_of_peaks_taken_anew(memory, clock, diagnostics):
    router = random_router(3, memory=memory, clock=clock, diagnostics=diagnostics)
    u = np.random.default_rng(1).exponential(size=(30, diagnostics))
    u[7:15] = 0.0
    state = router.start([0.0, 0.0])
    made = [state.observe(row.tolist()) for row in u]
    held = peaks(with_clock(u) if clock else u, np.array([memory] * diagnostics + [1.0] * clock))
    seen = [decision.cumulative_risk for decision in made]
    np.testing.assert_allclose(seen, held @ router.rule.w[0], rtol=1e-13)
    np.testing.assert_allclose(np.cumsum([decision.risk for decision in made]), seen, rtol=1e-9)


def test_draws_with_memories_of_their_own_are_routers_of_one_draw_each():
    router = random_router(3, draws=6, memory="by draw", clock=True)
    u = np.random.default_rng(1).exponential(size=(10, 3)).tolist()
    rule, found = router.rule, [one.score for one in decisions(router, [0.5, 1], u)]
    names = ("w", "gamma0", "gamma", "beta0", "beta", "s", "memory")
    each = [with_rule(router, **{name: getattr(rule, name)[[i]] for name in names}) for i in range(6)]
    alone = np.array([[one.score for one in decisions(single, [0.5, 1], u)] for single in each])
    np.testing.assert_allclose(found, alone.mean(axis=0), rtol=1e-12)


def test_a_fit_with_a_memory_makes_a_router(example):
    fit = quietly(fit_map, example, memory=0.7, clock=True, restarts=1)
    router = Router.from_fit(fit, alpha=0.3)
    assert (router.rule.memory.tolist(), router.rule.clock) == ([0.7], True)
    assert router.diagnostic_names == example.diagnostic_names
    assert "a point estimate with memory 0.7 and a clock >= alpha 0.3" in repr(router)


@given(EVERY_ROUTER, FEATURES, ROLLOUTS)
def test_alpha_falls_with_the_pace_and_the_first_score_at_its_own_alpha_decides(router, features, rollout):
    state = router.start(features)
    opened = state.opening is not None and state.opening.score >= router.alpha_start
    assert opened == (state.opening is not None and state.opening.handoff)
    crossed = -1 if opened else None
    for step, decision in enumerate([state.observe(diagnostics) for diagnostics in rollout]):
        if router.alpha == math.inf:
            assert decision.alpha is None
        else:
            assert decision.alpha == pytest.approx(router.alpha * math.exp(-router.pace * step))
            crossed = step if crossed is None and decision.score >= decision.alpha else crossed
        assert decision.handoff_step == crossed
        assert decision.call == ("cheap" if crossed is None else "strong" if crossed < 0 else router.call)


def test_the_threshold_never_falls_to_zero_and_may_grow_beyond_all_numbers():
    state = random_router(0, alpha=0.5, pace=900.0).start([0.0, 0.0])
    assert [state.observe([0, 0, 0]).handoff for _ in range(5)] == [False] * 5
    assert state.observe([1, 0, 0]).handoff
    state = random_router(0, alpha=0.5, pace=-900.0).start([0.0, 0.0])
    assert [state.observe([0, 0, 0]).alpha for _ in range(3)] == [0.5, None, None]


def test_a_start_score_is_computed_as_its_equation_says():
    router = random_router(4, draws=6, started=True, rule=0.3)
    rule, x = router.rule, (np.array([1.0, -2.0]) - router.rule.mean) / router.rule.scale
    pi = 1 / (1 + np.exp(-(rule.gamma0 + rule.gamma @ x)))
    cheap = 1 / (1 + np.exp(-(rule.start.intercept + rule.start.slopes @ x)))
    opening = router.start([1.0, -2.0]).opening
    assert opening.score == pytest.approx(np.quantile(rule.start.weight * pi - cheap, 0.3))
    assert opening.lower < opening.score < opening.upper
    assert opening.pi == pytest.approx(pi.mean())
    assert (opening.step, opening.alpha, opening.risk) == (-1, 0.2, None)
    fewer = rule.thinned(3)
    assert (len(fewer.s), fewer.start.intercept.tolist()) == (3, rule.start.intercept[[0, 2, 4]].tolist())


def test_shadow_mode_opens_without_handing_off():
    router = random_router(2, started=True, alpha=0.9, alpha_start=-5.0, call="restart")
    state = router.start([0.0, 0.0], shadow=True)
    assert (state.opening.handoff, state.opening.would_handoff, state.opening.call) == (False, True, "cheap")
    assert (state.handoff, state.handoff_step) == (False, -1)
    assert "shadow mode" in state.opening.reason
    assert "before the first step" in state.observe([1, 1, 1]).reason
    # There is nothing yet that a restart would begin anew.
    assert router.start([0.0, 0.0]).opening.call == "strong"


def test_ranges_of_training_are_kept_and_say_what_is_outside(example, example_fit):
    router = Router.from_fit(example_fit, alpha=0.3).with_ranges_of(example)
    loaded = Router.from_json(router.to_json())
    assert loaded.ranges == router.ranges == Ranges.of(example)
    assert loaded.fingerprint != dataclasses.replace(router, ranges=None).fingerprint
    row = dict(zip(example.feature_names, example.dataset["features"].values[0].tolist(), strict=True))
    assert router.ranges.outside("features", row) == ()
    assert router.ranges.outside("features", row | {"entities": 1e6}) == ("entities",)
    assert router.ranges.diagnostics["stalled"][-1] == np.nanmax(example.dataset["diagnostics"].values[..., 2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; expected a number above 0 and at most 1"),
        ({"alpha": 0, "pace": 0.1}, "alpha is 0; expected a number above 0"),
        ({"pace": math.inf}, "pace is inf; expected a finite number"),
        ({"call": "again"}, "call is 'again'"),
        ({"ranges": Ranges({}, {})}, "names in the ranges of features"),
        ({"diagnostic_names": ()}, "shape of w"),
        ({"feature_names": ("x0",)}, "shape of feature mean"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidDataError, match=message):
        dataclasses.replace(random_router(), **settings)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"beta0": [0, np.nan, 0]}, r"beta0.* is nan; expected a finite number"),
        ({"s": [1, 1, 0]}, r"s\[2\] is 0.0; expected a number above 0"),
        ({"w": [[0.5, 0.5, 0.1]] * 3}, r"sum of w\[0\] is 1.1; expected 1 within"),
        ({"memory": [0.5, 2.0, 0.1]}, "memory is .*; expected numbers from 0 to 1"),
        ({"family": "cauchy"}, "family is 'cauchy'"),
        ({"quantile": 1.5}, "rule is 1.5"),
        ({"scale": [1.0, 0.0]}, r"feature scale\[1\] is 0.0; expected a number above 0"),
        ({"start": Start(1, np.zeros(2), np.zeros((2, 2)))}, "shape of intercept of the start"),
        ({"start": Start(1, np.zeros(3), np.zeros((3, 1)))}, "shape of slopes of the start"),
    ],
)
def test_parameters_given_by_hand_are_checked(numbers, message):
    with pytest.raises(InvalidDataError, match=message):
        with_rule(random_router(draws=3), **numbers)


def test_a_router_says_what_is_beyond_the_paper():
    router = random_router(1, memory=0.6, clock=True, started=True, pace=0.1, call="restart")
    expected = "with memory 0.6 and a clock >= alpha 0.3, post_action, start >= 0.2, pace 0.1, call restart; 3 diagnost"
    assert expected in repr(router)
