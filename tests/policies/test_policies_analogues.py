"""TRIM's and EvoRoute's analogues, against statsmodels and scikit-learn, and in worlds where each must win or lose."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from policy_worlds import draw_tasks, episodes_of, world_of
from simulate import quietly
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors

from bayes_tacit import Counterfactuals, Episodes, StepCost
from bayes_tacit.data.frames import dataset_from_frames
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies import EvoRoute, FirstAlarm, StepDeferral, TaskRouter, Trim, World
from bayes_tacit.policies.learned import halved, step_labels
from bayes_tacit.policies.logistic import L2Logistic


@cache
def training() -> Episodes:
    return episodes_of(draw_tasks(1, 150))


def labelled(rows: list[dict], steps: int = 4) -> Episodes:
    tasks = pd.DataFrame(
        [{"episode": f"e{at}", "window_start": None, "window_end": None, **row} for at, row in enumerate(rows)]
    )
    tasks["x"] = 1.0
    known = [{"episode": name, "step": t, "risk": 0.1 * t} for name in tasks["episode"] for t in range(steps)]
    return quietly(dataset_from_frames(tasks, pd.DataFrame(known), ["x"], ["risk"]))


def test_a_steps_label_is_what_outcomes_and_windows_say_of_it():
    episodes = labelled(
        [
            {"cheap_success": 1, "strong_success": 0},
            {"cheap_success": 0, "strong_success": 1, "window_start": 1, "window_end": 2},
            {"cheap_success": 0, "strong_success": 1},
            {"cheap_success": 0, "strong_success": 0},
        ]
    )
    right, marked, neither = [0, 0, 0, 0], [0, -1, 1, 1], [-1, -1, -1, -1]
    due, outcome = (step_labels(episodes, "post_action", way).tolist() for way in ("due", "outcome"))
    assert due == [right, marked, [-1, -1, -1, 1], neither]
    assert outcome == [right, marked, neither, neither]
    # A mark after an action is aligned with the next proposal.
    assert step_labels(episodes, "proposal", "due")[1].tolist() == [0, 0, -1, 1]


def test_trims_model_is_the_logistic_regression_of_statsmodels():
    episodes = training()
    labels = step_labels(episodes, "post_action", "due")
    data = episodes.dataset
    rows = [[*data["features"].values[at], *data["diagnostics"].values[at, t]] for at, t in np.argwhere(labels >= 0)]
    expected = sm.Logit(labels[labels >= 0], sm.add_constant(np.array(rows))).fit(disp=0, method="newton", tol=1e-12)
    fitted = Trim(logistic=L2Logistic(penalty=1e-9)).fit(episodes)
    scores = fitted.scores(episodes)
    np.testing.assert_allclose(scores[labels >= 0], expected.predict(), atol=1e-8)
    assert np.isnan(scores[np.arange(scores.shape[1]) >= episodes.n_steps[:, None]]).all()


def test_trim_says_what_it_lacks():
    only_right = labelled([{"cheap_success": 1, "strong_success": 1}] * 3)
    with pytest.raises(EvidenceError, match="12 to be right and 0 to be wrong, of 12 training steps; expected both"):
        Trim().fit(only_right)
    with pytest.raises(
        InvalidDataError, match="single_steps of the world is None; expected a function that replays them"
    ):
        Trim().fit(training()).operating_points(world_of(draw_tasks(2, 30), replayed=False))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_without_condensing_evoroute_averages_over_scikit_learns_neighbours(timing):
    episodes = training()
    moments = int(episodes.n_steps.sum()) + (len(episodes) if timing == "proposal" else 0)
    k = 20
    fitted = EvoRoute(limit=moments, nearest=k / moments, prices=(0,), timing=timing, cost=StepCost(1, 5)).fit(episodes)
    past = fitted.make(fitted.candidates.iloc[0]).rule.experience
    assert len(past.places) == moments
    assert past.nearest == k
    gain = KNeighborsRegressor(k).fit(past.places, np.column_stack([past.cheap, past.strong, past.cost]))
    data = episodes.dataset
    found = fitted.make({"price": 0.3, "alpha": 0.1}).score(episodes)
    scores = np.column_stack([found.opening, found.steps])
    for at in range(0, 150, 10):
        values = data["diagnostics"].values[at, : episodes.n_steps[at]]
        for seen in range(len(values) + 1):
            known = values[:seen]
            history = [known.sum(axis=0), known[-1], known.max(axis=0)] if seen else [np.zeros(2)] * 3
            moment = np.concatenate([data["features"].values[at], *history, [np.log1p(seen)]])
            z = (moment - np.array(past.mean)) / np.array(past.scale)
            cheap, strong, cost = gain.predict([z])[0]
            assert scores[at, seen] == pytest.approx(strong - cheap - 0.3 * cost, abs=1e-9)


def test_the_condensed_experience_is_bounded_and_loses_no_moment():
    episodes = training()
    fitted = EvoRoute(limit=50, nearest=0.1).fit(episodes)
    past, n = fitted.make(fitted.candidates.iloc[0]).rule.experience, int(episodes.n_steps.sum())
    assert past.places.shape == (50, 2 + 3 * 2 + 1)
    assert past.count.sum() == n
    assert past.count.max() <= 2 * past.count.min() + 1
    weights = episodes.n_steps
    assert past.cheap.sum() == (episodes.dataset["cheap_success"].values * weights).sum()
    assert past.strong.sum() == (episodes.dataset["strong_success"].values * weights).sum()
    # Its mean place is that of all moments, which are standardized.
    np.testing.assert_allclose((past.places * past.count[:, None]).sum(axis=0) / n, 0, atol=1e-9)
    rng = np.random.default_rng(1)
    asked = np.asarray(past.mean) + rng.normal(size=(40, 9)) * np.asarray(past.scale)
    z = (asked - np.array(past.mean)) / np.array(past.scale)
    near = NearestNeighbors(n_neighbors=5).fit(past.places).kneighbors(z, return_distance=False)
    expected = np.stack([past.count[near], past.cheap[near], past.strong[near], past.cost[near]], axis=-1).sum(axis=1)
    np.testing.assert_allclose(past.ask(asked), expected, rtol=1e-12)
    # One by one, as a router asks, it is the same to the last bit.
    np.testing.assert_array_equal(np.concatenate([past.ask(one[None]) for one in asked]), past.ask(asked))
    huge = past.ask(np.full((1, 9), 1e300))
    assert huge[0, 0] == n
    assert len(halved(np.zeros((10, 2)), 64)) == 10


def slips(seed: int, n: int, *, lasting: bool) -> World:
    """Tasks of six steps. Cheap slips once, which risk shows when it happens and a feature scales.

    If a slip lasts, only a handoff for good helps. If not, the step after it decides: Strong gets it right.
    """
    rng = np.random.default_rng(seed)
    steps, cost = 6, StepCost(cheap=1, strong=4)
    scale = rng.integers(0, 2, n)
    slip = rng.integers(0, 9, n)  # beyond the end: none
    values = rng.uniform(0, 1, (n, steps)) + 4.0 * scale[:, None] * np.ones(steps)
    values[np.arange(n)[slip < 5], slip[slip < 5]] += 2.0
    cheap = slip >= 5
    tasks = pd.DataFrame({"episode": np.arange(n), "cheap_success": cheap, "strong_success": True, "x": scale})
    tasks["window_start"] = tasks["window_end"] = np.where(cheap, np.nan, slip)
    long = [{"episode": at, "step": t, "risk": values[at, t]} for at in range(n) for t in range(steps)]
    episodes = quietly(dataset_from_frames(tasks, pd.DataFrame(long), ["x"], ["risk"]))
    handoff = np.arange(steps)
    success = cheap[:, None] | (handoff <= slip[:, None] + 1)
    table = Counterfactuals.from_calls(
        episodes.ids, success=success, strong_calls=np.tile(steps - handoff, (n, 1)), never_success=cheap, cost=cost
    )

    def play(score: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        out = np.zeros((4, len(thresholds), n))
        for row, alpha in enumerate(thresholds):
            deferred, acts = np.zeros((n, steps), dtype=bool), np.zeros(n, dtype=bool)
            for t in range(steps):
                deferred[:, t] = acts
                acts = ~acts & (score[:, t] >= alpha)
            helped = deferred[np.arange(n), np.minimum(slip + 1, steps - 1)] & (slip < 5) & (not lasting)
            strong = deferred.sum(axis=1)
            out[:, row] = cheap | helped, cost.cheap * (steps - strong) + cost.strong * strong, steps - strong, strong
        return out

    def single_steps(router, thresholds):
        return play(router.score(episodes).steps, thresholds * (1 - 1e-9))

    return World(episodes, table, cost, single_steps)


@pytest.mark.parametrize("lasting", [False, True])
def test_trim_wins_where_a_step_mends_a_slip_and_evoroute_where_it_lasts(lasting):
    train, development, test = (slips(seed, n, lasting=lasting) for seed, n in ((1, 1200), (2, 400), (3, 400)))
    success = {}
    for policy in (Trim(unmarked="outcome"), StepDeferral("risk"), EvoRoute(), FirstAlarm("risk"), TaskRouter()):
        fitted = policy.fit(train.episodes)
        point = fitted.choose(development, cap=11.0 if lasting else 8.0).point
        success[policy.name] = fitted.outcomes(test, point).success.mean()
    alone = test.counterfactuals.pure_cheap.success.mean()
    if lasting:
        # Single steps mend nothing then.
        assert success["TRIM analogue"] == success["Step Deferral"] == alone
        assert success["EvoRoute analogue"] > max(success["First Alarm"], success["Task Router"]) + 0.05
    else:
        # The budget is for a step of Strong's after a slip, not for the rest of the task. By the risk alone half of
        # the tasks look as if they slipped all the time: the feature tells them apart.
        assert success["TRIM analogue"] > 0.95
        assert (
            success["TRIM analogue"] > max(other for name, other in success.items() if name != "TRIM analogue") + 0.05
        )
