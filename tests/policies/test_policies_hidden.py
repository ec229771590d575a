"""What a policy could not see at deployment does not reach its decisions."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from policy_worlds import draw_tasks, episodes_of, world_of
from posteriors import random_posterior
from simulate import quietly

from bayes_tacit import Episodes
from bayes_tacit.policies import (
    Cascade,
    Count,
    EvoRoute,
    FirstAlarm,
    Landmark,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    Trim,
    compare,
)

FIT = {"ridge": 0.01, "restarts": 2}
SCRAMBLED = ("cheap_success", "strong_success", "window_start", "window_end", "tool", "label", "nll")


@pytest.fixture(scope="module")
def training() -> Episodes:
    return episodes_of(draw_tasks(1, 300))


@pytest.fixture(scope="module")
def test_episodes() -> Episodes:
    return episodes_of(draw_tasks(3, 150))


@pytest.fixture(scope="module")
def fitted(training):
    tree = random_posterior(np.random.default_rng(0), training, draws=20)
    policies = {
        "router": TaskRouter(),
        "prefix": PrefixRouter(),
        "cascade": Cascade(),
        "deferral": StepDeferral("risk"),
        "alarm": FirstAlarm("risk"),
        "count": Count(),
        "landmark": Landmark(),
        "trim": Trim(),
        "evoroute": EvoRoute(limit=64),
        "map": TacitSwitch(options=FIT),
        "mean": PosteriorTacitSwitch("mean", tree),
        "quantile": PosteriorTacitSwitch(0.2, tree),
        "ablation": TacitSwitch(options=FIT, view=without_features),
        "cheap": PureCheap(),
        "strong": PureStrong(),
    }
    return {name: policy.fit(training) for name, policy in policies.items()}


def without_features(episodes: Episodes) -> Episodes:
    return quietly(episodes.dataset.isel(feature=slice(0)))


def some_settings(policy):
    return [row for _, row in policy.candidates.iloc[:: max(1, len(policy.candidates) // 12)].iterrows()]


def decisions(policy, episodes: Episodes) -> list[np.ndarray]:
    """Whatever a policy decides on episodes, for a dozen settings."""
    return [policy.handoffs(episodes, setting) for setting in some_settings(policy)]


def with_scrambled_outcomes(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    dataset = episodes.dataset.copy(deep=True)
    n = len(episodes)
    cheap, strong = rng.random(n) < 0.5, rng.random(n) < 0.5
    start = np.where(~cheap & strong, rng.integers(0, episodes.n_steps), np.nan)
    dataset = dataset.assign(
        cheap_success=("episode", cheap),
        strong_success=("episode", strong),
        window_start=("episode", start),
        window_end=("episode", start),
        tool=("episode", rng.permutation(dataset["tool"].values)),
        label=("episode", rng.permutation(n).astype(str)),
        nll=(("episode", "step"), rng.random(dataset["nll"].shape)),
    )
    return quietly(dataset)


def with_diagnostics(episodes: Episodes, values: np.ndarray, n_steps: np.ndarray | None = None) -> Episodes:
    dataset = episodes.dataset.drop_vars(["nll"])
    changes = {"diagnostics": (("episode", "step", "diagnostic"), values)}
    # Windows may lie outside rollouts of another length; they are hidden anyway.
    blank = xr.full_like(dataset["window_start"], np.nan)
    if n_steps is not None:
        changes["n_steps"] = ("episode", n_steps)
    return quietly(dataset.assign(**changes, window_start=blank, window_end=blank))


def test_scrambled_outcomes_windows_and_carried_fields_change_no_decision(fitted, test_episodes, rng):
    scrambled = with_scrambled_outcomes(test_episodes, rng)
    for name in SCRAMBLED:
        assert not np.array_equal(scrambled.dataset[name].values, test_episodes.dataset[name].values)
    for name, policy in fitted.items():
        before, after = decisions(policy, test_episodes), decisions(policy, scrambled)
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), name
        if name not in ("cheap", "strong"):
            assert any(len(np.unique(one)) > 1 for one in before), f"{name} decides the same everywhere"


def test_task_router_does_not_see_diagnostics_or_lengths(fitted, test_episodes, rng):
    values = rng.random(test_episodes.dataset["diagnostics"].shape)
    changed = with_diagnostics(test_episodes, values, rng.permutation(test_episodes.n_steps))
    for before, after in zip(*(decisions(fitted["router"], one) for one in (test_episodes, changed)), strict=True):
        np.testing.assert_array_equal(before, after)


def test_prefix_router_does_not_see_what_comes_after_its_prefix(fitted, test_episodes, rng):
    values = test_episodes.dataset["diagnostics"].values
    for k in (1, 2, 3, 4):
        goes_on = test_episodes.n_steps > k
        later = np.where((np.arange(values.shape[1]) < k)[:, None], np.nan_to_num(values), 9 * rng.random(values.shape))
        lengths = np.where(goes_on, rng.integers(k + 1, values.shape[1] + 1, len(values)), test_episodes.n_steps)
        changed = with_diagnostics(test_episodes, later, lengths)
        setting = {"k": k, "alpha": 0.5}
        before, after = (fitted["prefix"].scores(one, setting)[:, k - 1] for one in (test_episodes, changed))
        np.testing.assert_array_equal(before, after)
        assert np.isfinite(before[goes_on]).all()


@pytest.mark.parametrize("name", ["map", "mean", "quantile", "ablation", "alarm", "count", "landmark"])
def test_a_permanent_handoff_does_not_see_what_comes_after_its_decision(fitted, test_episodes, rng, name):
    policy, values = fitted[name], test_episodes.dataset["diagnostics"].values
    horizon = values.shape[1]
    for setting in some_settings(policy):
        handoff = policy.handoffs(test_episodes, setting)
        handed_off = handoff >= 0
        decided = np.where(handed_off, handoff, test_episodes.n_steps)[:, None, None]
        later = np.where(np.arange(horizon)[:, None] < decided, np.nan_to_num(values), 9 * rng.random(values.shape))
        # An episode that goes on for longer is handed off where it was.
        lengths = np.where(handed_off, rng.integers(np.maximum(handoff, 1), horizon + 1), test_episodes.n_steps)
        changed = with_diagnostics(test_episodes, later, lengths)
        np.testing.assert_array_equal(policy.handoffs(changed, setting), handoff)


def test_a_view_gets_blank_outcomes_when_it_is_asked_for_decisions(training, test_episodes):
    asked = []

    def view(episodes: Episodes) -> Episodes:
        asked.append(episodes)
        return episodes

    policy = TacitSwitch(options=FIT, view=view).fit(training)
    asked.clear()
    policy.scores(test_episodes)
    (seen,) = asked
    assert set(seen.outcomes.tolist()) == {"00"}
    assert not seen.has_window.any()
    assert "tool" not in seen.dataset


def test_another_test_set_changes_nothing_that_was_frozen(training):
    policies = [
        TaskRouter(),
        PrefixRouter(),
        Cascade(),
        StepDeferral("risk", n_candidates=15),
        FirstAlarm("risk"),
        Count(),
        Landmark(),
        TacitSwitch(options=FIT),
    ]
    development, test, other = (world_of(draw_tasks(seed, 60)) for seed in (4, 5, 6))
    first, second = (compare(policies, training, development, world, 10) for world in (test, other))
    swapped = compare(policies, training, test, development, 10)
    assert (first.table["success"] != second.table["success"]).any()
    for name in first.choices:
        assert repr(first.choices[name]) == repr(second.choices[name])
        assert first.fitted[name].candidates.equals(swapped.fitted[name].candidates)
        frozen = first.choices[name].point
        again = first.fitted[name].outcomes(test, frozen)
        np.testing.assert_array_equal(again.cost, first.outcomes[name].cost)
        np.testing.assert_array_equal(swapped.fitted[name].outcomes(test, frozen).cost, first.outcomes[name].cost)
