import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate import quietly, simulate_model

from bayes_tacit import Episodes
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.model.evidence import Evidence, collect_evidence

RISKS = {  # two diagnostics by step
    "mark": [(1, 0), (2, 1), (4, 3), (8, 0)],
    "range": [(1, 1), (0, 0), (3, 0), (0, 5), (1, 1)],
    "early": [(2, 7), (1, 0), (1, 0)],
    "quiet start": [(0, 0), (0, 0), (5, 1)],
    "missing": [(1, 2), (3, 4)],
    "both": [(1, 0), (0, 2), (3, 0)],
    "both, no risk": [(0, 0), (0, 0)],
    "cured": [(9, 9)],
    "cheap only": [(2, 2), (1, 1)],
    "no mass": [(1, 0), (0, 0), (1, 1)],
    "last": [(1, 0), (2, 2)],
}
WINDOWS = {"mark": (2, 2), "range": (2, 3), "early": (0, 1), "quiet start": (2, 2), "no mass": (1, 1), "last": (1, 1)}


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    """One episode of every kind, small enough to check by hand."""
    succeed = {"both": (1, 1), "both, no risk": (1, 1), "cured": (0, 0), "cheap only": (1, 0)}
    tasks = pd.DataFrame(
        [
            (name, *succeed.get(name, (0, 1)), *WINDOWS.get(name, (None, None)), float(number))
            for number, name in enumerate(RISKS)
        ],
        columns=["episode", "cheap_success", "strong_success", "window_start", "window_end", "x"],
    )
    steps = pd.DataFrame(
        [(name, step, *values) for name, risks in RISKS.items() for step, values in enumerate(risks)],
        columns=["episode", "step", "u0", "u1"],
    )
    with pytest.warns(TacitWarning):
        return Episodes.from_frames(tasks, steps)


def bounds(evidence: Evidence) -> dict[str, tuple[list[float], list[float], str]]:
    kinds = ["left"] * evidence.n_left + ["interval"] * evidence.n_interval + ["right"] * evidence.n_right
    rows = zip(evidence.episode[evidence.timed], evidence.before, evidence.within, kinds, strict=True)
    return {str(name): (before.tolist(), within.tolist(), kind) for name, before, within, kind in rows}


def test_each_kind_of_episode_gives_the_bounds_worked_out_by_hand(episodes):
    evidence = collect_evidence(episodes, unmarked="outcome")
    assert bounds(evidence) == {
        "mark": ([3, 1], [4, 3], "interval"),
        "range": ([1, 1], [3, 5], "interval"),
        "early": ([0, 0], [3, 7], "left"),
        "quiet start": ([0, 0], [5, 1], "left"),
        "both": ([4, 2], [0, 0], "right"),
        "last": ([1, 0], [2, 2], "interval"),
    }
    assert evidence.episode[evidence.zero_mass].tolist() == ["no mass"]


def test_untimed_episodes_still_say_whether_strong_succeeded(episodes):
    evidence = collect_evidence(episodes)
    assert evidence.n == len(RISKS)
    assert evidence.strong_success.sum() == 9


def test_proposal_timing_moves_a_mark_to_the_next_proposal(episodes):
    found = bounds(collect_evidence(episodes, timing="proposal"))
    assert found["mark"] == ([7, 4], [8, 0], "interval")
    assert found["range"] == ([4, 1], [1, 6], "interval")
    assert found["early"] == ([2, 7], [2, 0], "interval")
    assert found["both"] == ([4, 2], [0, 0], "right")


def test_a_mark_after_the_last_step_is_open_above_for_proposals(episodes):
    found = bounds(collect_evidence(episodes, timing="proposal"))
    assert found["last"] == ([3, 2], [0, 0], "right")
    assert found["quiet start"] == ([5, 1], [0, 0], "right")


def test_fixed_weights_decide_what_counts_as_risk(episodes):
    found = bounds(collect_evidence(episodes, weights=[0.0, 1.0]))
    assert found["last"] == ([0], [2], "left")
    assert found["both"] == ([2], [0], "right")


def test_features_are_standardized_with_their_own_mean_and_scale(episodes):
    evidence = collect_evidence(episodes)
    assert evidence.features.mean() == pytest.approx(0, abs=1e-12)
    assert evidence.features.std() == pytest.approx(1)
    np.testing.assert_allclose(
        evidence.features * evidence.standardization.scale + evidence.standardization.mean,
        episodes.dataset["features"].values,
    )


def test_values_past_the_end_of_a_rollout_are_never_read(rng):
    episodes = simulate_model(rng, 60, widest=2)
    padded = episodes.dataset.pad(step=(0, 3)).assign_coords(step=np.arange(15))
    first, second = collect_evidence(episodes), collect_evidence(quietly(padded))
    np.testing.assert_array_equal(first.before, second.before)
    np.testing.assert_array_equal(first.within, second.within)


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), n=st.integers(40, 120), chunk=st.integers(1, 200))
@settings(max_examples=25, deadline=None)
def test_sums_agree_with_a_plain_loop_however_the_data_are_chunked(seed, n, chunk):
    episodes = simulate_model(np.random.default_rng(seed), n, widest=3)
    evidence = collect_evidence(quietly(episodes.dataset.chunk(episode=chunk)))
    data = episodes.dataset
    for row, i in enumerate(evidence.timed):
        risks = data["diagnostics"].values[i]
        if bool(data["cheap_success"][i]):
            before, within = risks[: int(data["n_steps"][i])].sum(axis=0), np.zeros(4)
        else:
            start, end = int(data["window_start"][i]), int(data["window_end"][i])
            before, within = risks[:start].sum(axis=0), risks[start : end + 1].sum(axis=0)
        np.testing.assert_allclose(evidence.before[row], before, rtol=1e-12)
        np.testing.assert_allclose(evidence.within[row], within, rtol=1e-12)


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_an_episode_without_a_window_is_due_by_its_last_checkpoint(episodes, timing):
    due = bounds(collect_evidence(episodes, timing=timing, unmarked="due"))
    assert due.pop("missing") == ([0, 0], [4, 6], "left")
    assert due == bounds(collect_evidence(episodes, timing=timing, unmarked="outcome"))


def test_an_episode_without_window_or_risk_says_nothing_of_when(episodes):
    dataset = episodes.dataset.copy(deep=True)
    row = dataset["episode"].values.tolist().index("missing")
    dataset["diagnostics"][row] = dataset["diagnostics"][row] * 0
    evidence = collect_evidence(quietly(dataset), unmarked="due")
    assert "missing" not in bounds(evidence)
    assert row not in evidence.zero_mass


def test_a_reading_of_missing_windows_that_is_not_known_is_refused(episodes):
    with pytest.raises(InvalidDataError, match="unmarked is 'late'; expected 'due' or 'outcome'"):
        collect_evidence(episodes, unmarked="late")
