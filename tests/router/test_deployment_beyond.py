"""Routers beyond the paper: memory, clock, pace, start and restarts, and files from before there were any."""

import dataclasses
import json
import math

import numpy as np
import pytest
from bayes_tacit.router.control import Checkpoint, RouterController
from bayes_tacit.router.pace import AT_HAND
from hypothesis import given
from hypothesis import strategies as st
from routers import EVERY_ROUTER, FEATURES, ROLLOUTS, random_router

from bayes_tacit import Episodes, Router, fit_map, load_example
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.memory import peaks, with_clock
from bayes_tacit.router import DecisionLog, Ranges, Start, replay

FIRST_VERSION = """{
  "format": "bayes_tacit.router",
  "schema_version": 1,
  "family": "lognormal",
  "timing": "post_action",
  "rule": 0.1,
  "alpha": 0.3,
  "diagnostics": ["u0", "u1"],
  "features": [{"name": "x0", "mean": -0.8019314252534474, "scale": 1.7119111846047406}],
  "parameters": {"w": [[0.7108186185940337, 0.28918138140596616], [0.06497332809279628, 0.9350266719072037]],
    "gamma0": [1.7236763397318837, 1.6076098223278608], "gamma": [[0.22462373122037735], [0.49043491288757324]],
    "beta0": [0.3818306327534165, -0.06999859920923152], "beta": [[-0.2874795616308266], [0.4800057266997334]],
    "s": [0.9283743256759842, 0.8909617263261187]},
  "provenance": {"created_by": "bayes_tacit 0.1.0", "versions": {"numpy": "2.0.0"}, "inference_method": "nutpie",
    "draws_available": 4000, "data_fingerprint": null, "seed": 3},
  "fingerprint": "5adec86e72795eaca4d48d7b9cf13ca025eecf535291f0a1294965c76ad7c3e0"
}"""
FINGERPRINT = "5adec86e72795eaca4d48d7b9cf13ca025eecf535291f0a1294965c76ad7c3e0"
FIRST_SNAPSHOT = {
    "format": "bayes_tacit.handoff_state",
    "schema_version": 1,
    "router": FINGERPRINT,
    "features": [0.5],
    "shadow": False,
    "episode": "a",
    "step": 1,
    "total": [0.5, 1.0],
    "handoff_step": None,
    "finished": False,
    "checksum": "fedd18c3534180de18228a770f010df871c5b494fafa0a8edc9e42e5ba17e7bd",
}
FIRST_LOG = f"""\
{{"event": "start", "episode": "a", "schema_version": 1, "router": "{FINGERPRINT}", "alpha": 0.3, "rule": 0.1, \
"timing": "post_action", "shadow": false, "features": {{"x0": 0.5}}}}
{{"event": "observe", "episode": "a", "diagnostics": {{"u0": 0.5, "u1": 1.0}}, "step": 0, "risk": 0.8060520133282925, \
"cumulative_risk": 0.8060520133282925, "pi": 0.8740063433005518, "score": 0.23333874223866993, \
"lower": 0.22890525588962682, "upper": 0.3087080101724028, "alpha": 0.3, "handoff": false, "handoff_step": null}}
{{"event": "finish", "episode": "a"}}
"""


def episodes_of(router: Router, rng: np.random.Generator, n: int = 12, steps: int = 6) -> Episodes:
    """Random episodes with the router's names; some diagnostics are zero."""
    import pandas as pd

    u = rng.exponential(0.5, (n, steps, len(router.diagnostic_names))) * (rng.uniform(size=(n, steps, 1)) < 0.7)
    x = rng.normal(size=(n, len(router.feature_names)))
    tasks = pd.DataFrame(x, columns=list(router.feature_names)).assign(
        episode=range(n), cheap_success=False, strong_success=False, window_start=np.nan, window_end=np.nan
    )
    long = pd.DataFrame(u.reshape(n * steps, -1), columns=list(router.diagnostic_names)).assign(
        episode=np.repeat(np.arange(n), steps), step=np.tile(np.arange(steps), n)
    )
    long = long[rng.integers(1, steps + 1, n)[long["episode"]] > long["step"]]
    return Episodes.from_frames(tasks, long)


def observed(router: Router, episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """Scores and handoffs of all episodes, one checkpoint after the other."""
    features, diagnostics = (episodes.dataset[name].values for name in ("features", "diagnostics"))
    scores, handoffs = np.full(diagnostics.shape[:2], np.nan), np.full(len(episodes), -1)
    for i, n_steps in enumerate(episodes.n_steps):
        state = router.start(features[i].tolist())
        for t in range(n_steps):
            scores[i, t] = state.observe(diagnostics[i, t].tolist()).score
        if state.handoff_step is not None:
            handoffs[i] = state.handoff_step + (router.timing == "post_action" or state.handoff_step < 0)
    return scores, handoffs


@given(EVERY_ROUTER, st.integers(0, 1000))
def test_observing_step_by_step_is_what_whole_tables_say(router, seed):
    episodes = episodes_of(router, np.random.default_rng(seed))
    for timing in ("post_action", "proposal"):
        timed = dataclasses.replace(router, timing=timing)
        scores, handoffs = observed(timed, episodes)
        np.testing.assert_allclose(scores, timed.scores(episodes).values, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(handoffs, timed.handoffs(episodes).values)


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("memory", [0.0, 0.6, 0.95])
def test_the_risk_of_a_point_estimate_is_that_of_peaks_taken_anew(memory, clock):
    router = random_router(3, memory=memory, clock=clock)
    u = np.random.default_rng(1).exponential(size=(30, 3))
    state = router.start([0.0, 0.0])
    seen = [state.observe(row.tolist()).cumulative_risk for row in u]
    np.testing.assert_allclose(seen, router.draws.cumulative_risk(u[None])[0, :, 0], rtol=1e-14)
    held = peaks(with_clock(u) if clock else u, np.array([memory] * 3 + [1.0] * clock))
    np.testing.assert_allclose(seen, held @ router.draws.w[0], rtol=1e-14)


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("diagnostics", [1, 4, 23])
def test_a_memory_gives_the_risk_of_a_table_to_the_last_bit(diagnostics, clock):
    router = random_router(5, diagnostics=diagnostics, memory=0.7, clock=clock)
    u = np.random.default_rng(2).exponential(size=(40, diagnostics)) * 3.0
    u[7:15] = 0.0
    state = router.start([0.0, 0.0])
    seen = [state.observe(row.tolist()).cumulative_risk for row in u]
    assert seen == router.draws.cumulative_risk(u[None])[0, :, 0].tolist()


@pytest.mark.parametrize("pace", [0.004, -0.004])
def test_the_threshold_of_a_late_step_is_computed_when_it_comes(pace):
    state = random_router(0, alpha=0.5, pace=pace).start([0.0, 0.0])
    seen = [state.observe([0, 0, 0]).alpha for _ in range(AT_HAND + 5)]
    np.testing.assert_allclose(seen, 0.5 * np.exp(-pace * np.arange(AT_HAND + 5)), rtol=1e-14)


@given(EVERY_ROUTER, FEATURES, ROLLOUTS, st.booleans())
def test_snapshots_logs_and_files_change_nothing(tmp_path_factory, router, features, rollout, shadow):
    loaded = Router.from_json(router.to_json())
    assert loaded == router
    assert loaded.to_json() == router.to_json()
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    state = router.start(features, shadow=shadow)
    with DecisionLog(path) as log:
        other = loaded.start(features, shadow=shadow, episode="a", log=log)
        assert other.opening == state.opening
        for diagnostics in rollout:
            other = loaded.restore(json.loads(json.dumps(other.snapshot())), log=log)
            assert other.opening == state.opening
            assert other.observe(diagnostics) == state.observe(diagnostics)
    found = replay(path, router)
    assert found.agrees
    assert found.decisions == len(rollout) + (router.at_start is not None)


@given(EVERY_ROUTER, FEATURES, ROLLOUTS)
def test_the_first_score_at_its_own_alpha_decides(router, features, rollout):
    state = router.start(features)
    made = [state.observe(diagnostics) for diagnostics in rollout]
    opened = state.opening is not None and state.opening.score >= router.at_start.threshold
    assert (state.opening is None) == (router.at_start is None)
    assert opened == (state.opening is not None and state.opening.handoff)
    strong = {"resume": "strong", "restart": "restart"}[router.handoff]
    crossed = -1 if opened else None
    for step, decision in enumerate(made):
        if router.alpha == math.inf:
            assert decision.alpha is None
        else:
            assert decision.alpha == pytest.approx(router.alpha * math.exp(-router.pace * step))
            if crossed is None and decision.score >= decision.alpha:
                crossed = step
        assert decision.handoff_step == crossed
        assert decision.call == ("cheap" if crossed is None else strong)


def test_shadow_mode_opens_without_handing_off():
    router = random_router(2, started=True, alpha=0.9)
    router = dataclasses.replace(router, at_start=dataclasses.replace(router.at_start, threshold=-5.0))
    state = router.start([0.0, 0.0], shadow=True)
    assert (state.opening.handoff, state.opening.would_handoff, state.opening.call) == (False, True, "cheap")
    assert (state.handoff, state.handoff_step) == (False, -1)
    assert "shadow mode" in state.opening.reason
    assert "before the first step" in state.observe([1, 1, 1]).reason
    assert router.start([0.0, 0.0]).handoff


def test_a_start_score_is_computed_as_its_equation_says():
    router = random_router(4, draws=6, started=True, rule=0.3)
    x = (np.array([1.0, -2.0]) - router.feature_mean) / router.feature_scale
    pi = 1 / (1 + np.exp(-(router.draws.gamma0 + router.draws.gamma @ x)))
    cheap = 1 / (1 + np.exp(-(router.at_start.intercept + router.at_start.slopes @ x)))
    opening = router.start([1.0, -2.0]).opening
    assert opening.score == pytest.approx(np.quantile(router.at_start.weight * pi - cheap, 0.3))
    assert opening.lower < opening.score < opening.upper
    assert (opening.step, opening.alpha, opening.risk) == (-1, router.at_start.threshold, None)


def test_the_threshold_never_falls_to_zero():
    router = random_router(0, alpha=0.5, pace=900.0)
    state = router.start([0.0, 0.0])
    assert [state.observe([0, 0, 0]).handoff for _ in range(5)] == [False] * 5
    assert state.observe([1, 0, 0]).handoff


def test_a_controller_lets_strong_begin_where_the_start_says_so():
    router = random_router(2, started=True, alpha=0.9, handoff="restart")
    features = {"x0": 0.0, "x1": 0.0}
    for threshold, call in ((-5.0, "restart"), (5.0, "cheap")):
        start = dataclasses.replace(router.at_start, threshold=threshold)
        pilot = RouterController(dataclasses.replace(router, at_start=start)).begin(features, "a")
        choice = pilot.before()
        assert choice.call == call
        assert choice.facts["alpha"] == threshold
        assert not pilot.before().facts, "asked again, it has nothing new to say"
    pilot = RouterController(dataclasses.replace(router, at_start=None)).begin(features, "a")
    assert not pilot.before().facts
    assert pilot.checkpoint(Checkpoint(dict.fromkeys(router.diagnostic_names, 1e9))).call == "restart"


def test_files_snapshots_and_logs_of_the_first_version_are_read(tmp_path):
    router = Router.from_json(FIRST_VERSION)
    assert router.fingerprint == FINGERPRINT
    assert (router.pace, router.at_start, router.handoff, router.ranges) == (0, None, "resume", None)
    again = Router.from_json(router.to_json())
    assert again == router
    assert json.loads(router.to_json())["schema_version"] == 2
    decision = again.restore(FIRST_SNAPSHOT).observe([0.2, 0.0])
    assert decision.score == pytest.approx(0.2916185538542668, rel=1e-12)
    (tmp_path / "log.jsonl").write_text(FIRST_LOG)
    found = replay(tmp_path / "log.jsonl", again)
    assert found.agrees
    assert found.decisions == 1


def test_a_log_with_another_opening_is_found(tmp_path):
    router = random_router(2, started=True)
    with DecisionLog(tmp_path / "log.jsonl") as log:
        router.start([0, 0], episode="a", log=log)
    line = json.loads((tmp_path / "log.jsonl").read_text())
    line["opening"]["score"] += 0.1
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = replay(tmp_path / "log.jsonl", router).mismatches
    assert (found.step, found.field) == (-1, "score")


def test_ranges_of_training_are_kept_and_say_what_is_outside():
    episodes = load_example()
    router = dataclasses.replace(Router.from_fit(fit_map(episodes), alpha=0.3), ranges=Ranges.of(episodes))
    loaded = Router.from_json(router.to_json())
    assert loaded.ranges == router.ranges
    assert loaded.fingerprint != dataclasses.replace(router, ranges=None).fingerprint
    row = dict(zip(episodes.feature_names, episodes.dataset["features"].values[0].tolist(), strict=True))
    assert router.ranges.outside("features", row) == ()
    assert router.ranges.outside("features", row | {"entities": 1e6}) == ("entities",)
    assert router.ranges.diagnostics["stalled"][-1] == np.nanmax(episodes.dataset["diagnostics"].values[..., 2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; expected a number above 0 and at most 1"),
        ({"alpha": 0, "pace": 0.1}, "alpha is 0; expected a number above 0"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"pace": math.inf}, "pace is inf; expected a finite number"),
        ({"handoff": "again"}, "handoff is 'again'"),
        ({"at_start": Start(1, 0.2, np.zeros(3), np.zeros((3, 2)))}, "shape of intercept of the start"),
        ({"at_start": Start(1, 0.2, 0.0, [1.0])}, "shape of slopes of the start"),
        ({"ranges": Ranges({}, {})}, "names in the ranges of features"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidDataError, match=message):
        dataclasses.replace(random_router(), **settings)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((-1, 0.2, 0.0, [0.0]), "weight of the start is -1"),
        ((1, math.inf, 0.0, [0.0]), "threshold of the start is inf"),
        ((1, 0.2, [0.0, 1.0], [[0.0]]), "shape of slopes"),
        ((1, 0.2, math.nan, [0.0]), r"intercept of the start\[0\] is nan"),
    ],
)
def test_a_start_of_wrong_numbers_is_refused(numbers, message):
    with pytest.raises(InvalidDataError, match=message):
        Start(*numbers)


def test_a_router_says_what_is_beyond_the_paper():
    router = random_router(1, memory=0.6, clock=True, started=True, pace=0.1, handoff="restart")
    assert repr(router).startswith("<Router: a point estimate >= alpha 0.3, post_action, memory 0.6, clock 0.")
    assert ", pace 0.1, start >= 0.2, handoff restart; 3 diagnostics" in repr(router)
