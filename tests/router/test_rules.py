"""Every rule alike: a table of episodes and one checkpoint at a time say the same, whatever lies between."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routers import ONE_OF, chance, episodes_for, every_router, experience, named
from simulate import quietly
from sklearn.neighbors import NearestNeighbors

from bayes_tacit import Router
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import DecisionLog, Rule, handoff_at, pure, register_rule, replay, rules
from bayes_tacit.router import rule as rule_module
from bayes_tacit.router.rule import RULES


def observed(router, episodes, row, *, shadow=False, between=lambda state: state):
    """Run an episode through a router: the opening, the decision at each checkpoint, and the closing."""
    state = router.start(episodes.dataset["features"].values[row].tolist(), episode=str(row), shadow=shadow)
    decisions, opening = [], state.opening
    for u in episodes.dataset["diagnostics"].values[row, : episodes.n_steps[row]].tolist():
        state = between(state)
        decisions.append(state.observe(u[: len(router.diagnostic_names)]))
    return opening, decisions, between(state).finish()


def number(score):
    return np.nan if score is None else score


@given(every_router())
def test_a_table_scores_as_observing_step_by_step_does_to_the_last_bit(case):
    router, episodes = case
    table = router.score(episodes)
    for row, n in enumerate(episodes.n_steps):
        opening, decisions, closing = observed(router, episodes, row)
        expected = [number(one.score) for one in decisions]
        np.testing.assert_array_equal(table.steps[row, :n], expected)
        assert np.isnan(table.steps[row, n:]).all()
        if opening is not None:
            assert table.opening[row] == opening.score
        if closing is not None and not decisions[-1].would_handoff:
            assert table.closing[row] == closing.score
        if table.thresholds is not None:
            assert {number(one.alpha) for one in decisions} <= {number(table.thresholds[row]), np.nan}
    np.testing.assert_array_equal(router.scores(episodes).values, table.steps)


@given(every_router(), st.integers(1, 13))
def test_scores_do_not_depend_on_which_episodes_are_scored_together(case, size):
    router, episodes = case
    table = router.score(episodes)
    order = np.random.default_rng(size).permutation(len(episodes))[:size]
    some = router.score(episodes.take(order))
    np.testing.assert_array_equal(some.steps, table.steps[order][:, : some.steps.shape[1]])
    for name in ("opening", "closing", "thresholds"):
        if getattr(table, name) is not None:
            np.testing.assert_array_equal(getattr(some, name), getattr(table, name)[order])


def test_a_large_table_is_scored_in_parts(monkeypatch):
    for policy in ONE_OF:
        d = 1 if issubclass(RULES[policy], rules.Signal) else 2
        router = named(ONE_OF[policy](np.random.default_rng(3), 2, d), 2, d)
        episodes = episodes_for(router, 3, n=25)
        whole = router.score(episodes)
        with monkeypatch.context() as patched:
            patched.setattr(rule_module, "AT_ONCE", 7)
            parts = router.score(episodes)
        for name in ("opening", "steps", "closing", "thresholds"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


@given(every_router())
def test_the_decision_online_is_where_the_table_says(case):
    router, episodes = case
    for row, expected in enumerate(router.handoffs(episodes).values.tolist()):
        opening, decisions, closing = observed(router, episodes, row)
        n = len(decisions)
        if opening is not None and opening.handoff:
            found = 0
            assert opening.call == "strong"
            assert {one.call for one in decisions} <= {"strong"}
        else:
            calls = [one.call for one in decisions]
            first = calls.index(router.call) if router.call in calls else None
            found = -1 if first is None else first + (router.timing == "post_action")
            assert calls == ["cheap"] * (n if first is None else first) + [router.call] * (
                0 if first is None else n - first
            )
            assert [one.handoff_step for one in decisions] == [
                None if first is None or t < first else first for t in range(n)
            ]
            if first is None and closing is not None and closing.handoff:
                found = n
                assert closing.call == router.call
        assert found == expected


@given(every_router(), st.booleans())
def test_snapshots_files_and_pickles_go_on_to_the_last_bit(case, shadow):
    router, episodes = case
    others = [Router.from_json(router.to_json()), pickle.loads(pickle.dumps(router)), copy.deepcopy(router)]
    assert all(other == router and hash(other) == hash(router) for other in others)
    assert others[0].to_json() == router.to_json()
    turn = iter(range(10_000))
    for row in range(0, len(episodes), 3):
        expected = observed(router, episodes, row, shadow=shadow)

        def saved(state):
            return others[next(turn) % 3].restore(json.loads(json.dumps(state.snapshot())))

        assert observed(router, episodes, row, shadow=shadow, between=saved) == expected


@given(case=every_router())
def test_a_log_can_be_computed_again_to_the_last_bit(tmp_path_factory, case):
    router, episodes = case
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    features = episodes.dataset["features"].values.tolist()
    decisions = 0
    with DecisionLog(path) as log:
        states = [router.start(features[row], episode=row, log=log) for row in range(4)]
        decisions += sum(state.opening is not None for state in states)
        for t in range(episodes.horizon):
            for row, state in enumerate(states):
                if t < episodes.n_steps[row]:
                    u = episodes.dataset["diagnostics"].values[row, t].tolist()
                    state.observe(u[: len(router.diagnostic_names)])
                    decisions += 1
        for row, state in enumerate(states):
            again = router.restore(state.snapshot(), log=log) if row % 2 else state
            decisions += again.finish() is not None
    found = replay(path, Router.from_json(router.to_json()), tolerance=0)
    assert found.agrees
    assert found.decisions == decisions


@given(every_router())
def test_shadow_mode_says_where_the_handoff_would_be_and_never_makes_it(case):
    router, episodes = case
    for row in range(0, len(episodes), 4):
        plain, shadow = (observed(router, episodes, row, shadow=mode) for mode in (False, True))
        for one, other in zip([plain[0], *plain[1], plain[2]], [shadow[0], *shadow[1], shadow[2]], strict=True):
            if one is None:
                assert other is None
                continue
            assert (other.call, other.handoff) == ("cheap", False)
            assert other.would_handoff == one.handoff
            assert other.score == one.score
            assert ("shadow mode" in other.reason) == one.handoff


@given(every_router())
def test_a_score_a_billionth_below_alpha_reaches_it_and_one_a_millionth_below_does_not(case):
    router, episodes = case
    found = router.score(episodes)
    if found.thresholds is not None or not (np.nan_to_num(found.steps) > 1e-3).any():
        return
    paced = np.where(found.steps > 1e-3, found.steps * np.exp(router.pace * np.arange(found.steps.shape[1])), np.nan)
    row, step = np.argwhere(paced <= 1 if (paced <= 1).any() else paced > 0)[0]
    score = float(paced[row, step])

    def reached(by):
        alpha = min(score * (1 + by), 1.0) if router.policy == "tacit_switch" and not router.pace else score * (1 + by)
        other = replace(router, alpha=alpha)
        return bool(other.reached(other.score(episodes))[row, step])

    assert reached(0)
    assert reached(1e-12)
    assert reached(1e-6) == (router.policy == "tacit_switch" and not router.pace and score > 1 - 1e-10)


@settings(max_examples=40)
@given(every_router(tuple(name for name in ONE_OF if name not in ("pure_cheap", "pure_strong"))))
def test_nothing_that_comes_later_changes_a_score(case):
    router, episodes = case
    before, rng = router.score(episodes).steps, np.random.default_rng(1)
    names = ("cheap_success", "strong_success")
    scrambled = {name: ("episode", rng.random(len(episodes)) < 0.5) for name in names}
    for t in range(episodes.horizon):
        values = episodes.dataset["diagnostics"].values.copy()
        values[:, t + 1 :] = 5 * rng.random(values[:, t + 1 :].shape)
        changes = {"diagnostics": (("episode", "step", "diagnostic"), values), **scrambled}
        after = router.score(quietly(episodes.dataset.assign(changes))).steps
        np.testing.assert_array_equal(after[:, : t + 1], before[:, : t + 1])


@pytest.mark.parametrize("policy", ONE_OF)
def test_a_bad_step_leaves_the_state_as_it_was(policy):
    d = 1 if issubclass(RULES[policy], rules.Signal) else 2
    router = named(ONE_OF[policy](np.random.default_rng(0), 1, d), 1, d)
    state = router.start([0.5], episode="a")
    state.observe([0.5] * d)
    before = state.snapshot()
    for bad in (-1, np.nan, np.inf, None, "1", [1]):
        with pytest.raises(InvalidDataError, match=r"^episode 'a', step 1: diagnostics\['u0'\] is .*a finite number >"):
            state.observe([bad] + [0.5] * (d - 1))
    with pytest.raises(InvalidDataError, match=f"step 1: number of diagnostics is {d + 1}; expected {d}: u0"):
        state.observe([0.5] * (d + 1))
    assert state.snapshot() == before


# Each rule against its equation, computed another way


def score_of(rule, x, u):
    """Scores of one episode under a rule: opening, steps, closing."""
    router = named(rule, len(x), len(u[0]), alpha=1.0, alpha_start=1.0)
    state = router.start(x)
    steps = [state.observe(now).score for now in u]
    closing = state.finish()
    return number(state.opening and state.opening.score), [number(one) for one in steps], closing and closing.score


X, U = [0.5, -1.0], [[0.5, 2.0], [0.0, 1.0], [1.5, 0.25], [0.25, 3.0]]


def probability(model, columns):
    z = (np.array(columns) - model.mean) / model.scale
    return 1 / (1 + np.exp(-(model.intercept + z @ model.slopes)))


def moments():
    so_far = [np.array(U[: t + 1]) for t in range(len(U))]
    return [[*X, *seen.sum(axis=0), *seen[-1], *seen.max(axis=0)] for seen in so_far]


def test_plain_rules_are_what_they_say(rng):
    assert score_of(rules.Never(), X, U)[1] == pytest.approx([np.nan] * 4, nan_ok=True)
    assert score_of(rules.Always(), X, U)[0] == 1
    assert score_of(rules.FixedStep(2), X, U)[1] == [0, 0, 1, 0]
    assert score_of(rules.FixedStep(-1), X, U)[0] == 1
    assert score_of(rules.Signal(), X, [[one] for one, _ in U])[1] == [0.5, 0.0, 1.5, 0.25]
    assert score_of(rules.Signs([0.4, 1.0]), X, U)[1] == [2, 2, 3, 4]
    model = chance(rng, 2)
    assert score_of(rules.TaskChance(model), X, U)[0] == pytest.approx(1 - probability(model, X), rel=1e-13)
    step = chance(rng, 4)
    expected = [probability(step, [*X, *now]) for now in U]
    assert score_of(rules.StepChance(step), X, U)[1] == pytest.approx(expected, rel=1e-13)


def test_a_landmark_looks_at_all_that_was_seen_and_at_the_time(rng):
    cheap, strong = chance(rng, 9), chance(rng, 9)
    expected = [
        (1 - probability(cheap, [*seen, np.log1p(t)])) * probability(strong, [*seen, np.log1p(t)])
        for t, seen in enumerate(moments())
    ]
    assert score_of(rules.TwoChances(cheap, strong), X, U)[1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_a_prefix_is_judged_once_by_all_of_its_steps(rng, k):
    model = chance(rng, 2 + 2 * k)
    expected = [np.nan] * 4
    if k <= 4:
        expected[k - 1] = 1 - probability(model, [*X, *np.array(U[:k]).ravel()])
    assert score_of(rules.Prefix(k, model), X, U)[1] == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_an_ended_episode_is_judged_by_its_summaries(rng):
    u, model = np.array(U), chance(rng, 10)
    summaries = {"mean": u.mean(axis=0), "last": u[-1], "total": u.sum(axis=0), "highest": u.max(axis=0)}
    closing = score_of(rules.Ended(tuple(summaries), model), X, U)[2]
    assert closing == pytest.approx(1 - probability(model, [*X, *np.concatenate([*summaries.values()])]), rel=1e-12)


@pytest.mark.parametrize("starts", [True, False])
def test_the_net_gain_is_that_of_scikit_learns_nearest_places(rng, starts):
    past = experience(rng, 9, places=40)
    near = NearestNeighbors(n_neighbors=3).fit(past.places)

    def gain(columns):
        at = near.kneighbors([(np.array(columns) - past.mean) / past.scale], return_distance=False)[0]
        count, cheap, strong, cost = (getattr(past, name)[at].sum() for name in ("count", "cheap", "strong", "cost"))
        return (strong - cheap) / count - 0.3 * cost / count

    opening, steps, _ = score_of(rules.NetGain(past, 0.3, starts), X, U)
    assert opening == pytest.approx(gain([*X, *[0.0] * 7]) if starts else np.nan, nan_ok=True)
    expected = [gain([*seen, np.log1p(t + 1)]) for t, seen in enumerate(moments())]
    assert steps == pytest.approx(expected, rel=1e-12)


def test_a_deferral_by_task_shifts_its_level_by_how_hard_the_task_looks(rng):
    cheap, strong = chance(rng, 2), chance(rng, 2)
    rule = rules.TaskSignal([0.1, 0.5, 0.9, 2.0], 1.0, cheap, strong, [[0.2, 0.5], [0.1, 2.0]], [1.5, -0.5], 2.0)
    router = named(rule, 2, 1, call="strong_once")
    seen = set()
    for _ in range(40):
        x = rng.normal(size=2) * 3
        a, b = probability(cheap, x), probability(strong, x)
        place = 1 + 1.5 * (np.log(a / (1 - a)) - 0.2) / 0.5 - 0.5 * (np.log(b / (1 - b)) - 0.1) / 2
        expected = [0.1, 0.5, 0.9, 2.0, None][int(np.clip(np.rint(place), 0, 4))]
        state = replace(router, alpha_start=0.7).start(x.tolist())
        assert state.opening.score == pytest.approx(2 * b - a, rel=1e-12)
        decision = state.observe([0.95])
        assert decision.alpha == expected
        if not state.opening.handoff:
            high = expected is not None and expected <= 0.95
            assert (decision.call, decision.handoff) == ("strong_once" if high else "cheap", False)
        seen.add(expected)
    assert len(seen) == 5


def test_strong_once_is_for_one_step_and_is_no_handoff():
    router = named(rules.Signal(), 0, 1, alpha=0.5, call="strong_once")
    state = router.start()
    said = [state.observe([value]) for value in (0.4, 0.6, 0.1, 0.5)]
    assert [one.call for one in said] == ["cheap", "strong_once", "cheap", "strong_once"]
    assert not any(one.handoff or one.would_handoff for one in said)


def test_pure_and_forced_routers_do_what_they_are_named_for():
    assert [pure(agent).start().handoff for agent in ("cheap", "strong")] == [False, True]
    for step, discards, timing in ((0, False, "post_action"), (2, False, "post_action"), (2, True, "proposal")):
        state = handoff_at(step, timing=timing, discards=discards).start()
        first = -1 if state.handoff else [state.observe({}).handoff for _ in range(5)].index(True)
        assert first == (step if discards else step - 1)
    for make in (lambda: pure("oracle"), lambda: handoff_at(-1), lambda: handoff_at(1, discards=True)):
        with pytest.raises(InvalidDataError):
            make()


# A rule of somebody else's


@pytest.fixture
def registered():
    known = dict(RULES)
    yield
    RULES.clear()
    RULES.update(known)


@pytest.mark.usefixtures("registered")
def test_a_rule_of_ones_own_goes_through_files_and_tables(tmp_path):
    @register_rule
    @dataclass(frozen=True, eq=False)
    class Fading(Rule):
        """A leaky sum of all diagnostics, from a number before the first step on; asked again at the end."""

        policy = "fading"
        closes = True
        kept: float
        weights: np.ndarray

        def begin(self, x):
            return {"sum": x.sum(axis=1)}

        def opening(self, state):
            return state["sum"]

        def step(self, state, u):
            total = self.kept * state["sum"] + (u * self.weights).sum(axis=1)
            return {"sum": total}, total

        def closing(self, state):
            return state["sum"] / 2

    router = named(Fading(0.5, [1.0, 2.0]), 1, 2, alpha=3.0, alpha_start=1.5, call="restart")
    router.save(tmp_path / "router.json")
    loaded = Router.load(tmp_path / "router.json")
    assert loaded == router
    episodes = episodes_for(router, 5, n=30)
    found = loaded.handoffs(episodes).values
    for row in range(30):
        total = episodes.dataset["features"].values[row].sum()
        expected = 0 if total >= 1.5 else -1
        for t, u in enumerate(episodes.dataset["diagnostics"].values[row, : episodes.n_steps[row]]):
            total = 0.5 * total + u @ [1, 2]
            expected = t + 1 if expected < 0 and total >= 3 else expected
        expected = episodes.n_steps[row] if expected < 0 and total / 2 >= 3 else expected
        assert found[row] == expected
    assert len(set(found.tolist())) > 3


OWN_MODULE = """
from bayes_tacit.router import Rule, register_rule

@register_rule
class Elsewhere(Rule):
    policy = "elsewhere"
"""


@pytest.mark.usefixtures("registered")
def test_the_environment_names_modules_with_rules(tmp_path, monkeypatch):
    (tmp_path / "rules_from_elsewhere.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import rules_from_elsewhere

    text = Router(rule=rules_from_elsewhere.Elsewhere()).to_json()
    monkeypatch.delitem(sys.modules, "rules_from_elsewhere")
    del RULES["elsewhere"]
    with pytest.raises(ValueError, match=r"policy is 'elsewhere'; expected one of .*BAYES_TACIT_RULES names modules"):
        Router.from_json(text)
    monkeypatch.setenv("BAYES_TACIT_RULES", "json, rules_from_elsewhere")
    assert Router.from_json(text).policy == "elsewhere"


@pytest.mark.usefixtures("registered")
def test_no_rule_takes_the_name_of_the_librarys_and_none_goes_without():
    with pytest.raises(InvalidDataError, match="policy of the rule is 'count'; expected a name other than"):
        register_rule(type("Mine", (Rule,), {"policy": "count", "__module__": "mine"}))
    with pytest.raises(InvalidDataError, match="policy of the rule is ''"):
        register_rule(type("Mine", (Rule,), {"__module__": "mine"}))
    with pytest.raises(InvalidDataError, match="expected a subclass of Rule"):
        register_rule(int)
    first, second = (type("Mine", (Rule,), {"policy": "mine", "__module__": "mine"}) for _ in range(2))
    register_rule(first)
    assert register_rule(second) is RULES["mine"] is second, "as a module that is loaded again does"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rules.Chance([0.0], [0.0], 0.0, [1.0]), r"scale of a chance\[0\] is 0.0; expected a number above 0"),
        (lambda: rules.Chance([0.0], [1.0], np.nan, [1.0]), "intercept of Chance is nan"),
        (lambda: rules.FixedStep(-2), "checkpoint of the handoff is -2"),
        (lambda: rules.Prefix(0, rules.Chance([], [], 0.0, [])), "steps of the prefix is 0"),
        (lambda: rules.Ended(("median",), rules.Chance([], [], 0.0, [])), "summaries is 'median'"),
        (lambda: rules.Ended(("last", "last"), rules.Chance([], [], 0.0, [])), "summaries is .*expected different"),
        (lambda: rules.Experience([0.0], [1.0], [[0.0]], [1], [2], [1], [0], nearest=1), "cheap of an experience is 2"),
        (lambda: rules.Experience([0.0], [1.0], [[0.0]], [1], [1], [1], [0], nearest=2), "nearest is 2"),
        (lambda: named(rules.Signs([0.5]), 0, 2), r"shape of levels is \(1,\); expected the shape \(2,\)"),
        (lambda: named(rules.Signal(), 0, 2), "number of diagnostics is 2; expected 1"),
        (lambda: named(rules.TaskChance(rules.Chance([0.0], [1.0], 0.0, [1.0])), 2, 1), "shape of slopes of a chance"),
        (lambda: Router(rule="count"), "rule is 'count'; expected a Rule"),
        (lambda: Router(rule=Rule(), alpha=np.nan), "alpha is nan"),
        (lambda: Router(rule=Rule(), call="again"), "call is 'again'; expected 'strong' or 'strong_once' or 'restart'"),
    ],
)
def test_numbers_that_make_no_rule_are_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()
