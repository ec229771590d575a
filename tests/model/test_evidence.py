import warnings

import numpy as np
import pandas as pd
import pytest
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, fit_map
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates import posterior as sampling
from bayes_tacit.model.evidence import Evidence, collect_evidence
from simulations.studies.unmarked import TASKS, TRUTH

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
    assert (evidence.n, evidence.strong_success.sum()) == (len(RISKS), 9)  # untimed ones included


def test_proposal_timing_moves_a_mark_to_the_next_proposal(episodes):
    found = bounds(collect_evidence(episodes, timing="proposal"))
    assert found["mark"] == ([7, 4], [8, 0], "interval")
    assert found["range"] == ([4, 1], [1, 6], "interval")
    assert found["early"] == ([2, 7], [2, 0], "interval")
    assert found["both"] == ([4, 2], [0, 0], "right")
    # A mark after the last step is open above.
    assert found["last"] == ([3, 2], [0, 0], "right")
    assert found["quiet start"] == ([5, 1], [0, 0], "right")


def test_fixed_weights_decide_what_counts_as_risk(episodes):
    found = bounds(collect_evidence(episodes, weights=[0.0, 1.0]))
    assert found["last"] == ([0], [2], "left")
    assert found["both"] == ([2], [0], "right")


def test_values_past_the_end_of_a_rollout_are_never_read(rng):
    episodes = simulate_model(rng, 60, widest=2)
    padded = episodes.dataset.pad(step=(0, 3)).assign_coords(step=np.arange(15))
    first, second = collect_evidence(episodes), collect_evidence(quietly(padded))
    np.testing.assert_array_equal(first.before, second.before)
    np.testing.assert_array_equal(first.within, second.within)


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


# Without a mark, final risks that are alike say little of when to hand over.

ALIKE = "no threshold is bounded from both sides"


def without_marks(kind: str) -> Episodes:
    """The study's tasks, every mark taken away."""
    rng = np.random.default_rng(3)
    dataset = TASKS[kind](rng).simulate(TRUTH, rng).dataset
    nowhere = dataset["window_start"].copy(data=np.full(dataset.sizes["episode"], np.nan))
    return Episodes(dataset.assign(window_start=nowhere, window_end=nowhere))


@pytest.fixture(scope="module", params=["alike", "differ"])
def unmarked_tasks(request) -> tuple[str, Episodes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return request.param, without_marks(request.param)


def test_a_fit_without_marks_warns_only_where_final_risks_are_alike(unmarked_tasks):
    kind, episodes = unmarked_tasks
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_map(episodes, ridge=0.01)
    assert any(ALIKE in str(each.message) for each in caught) == (kind == "alike")


def test_one_mark_is_enough_for_silence(unmarked_tasks):
    _, episodes = unmarked_tasks
    dataset = episodes.dataset
    only_strong = dataset["strong_success"].values & ~dataset["cheap_success"].values
    at = np.where(np.arange(len(only_strong)) == np.flatnonzero(only_strong)[0], 5.0, np.nan)
    marked = dataset["window_start"].copy(data=at)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_map(Episodes(dataset.assign(window_start=marked, window_end=marked)), ridge=0.01)
    assert not any(ALIKE in str(each.message) for each in caught)


def test_sampling_warns_before_it_begins(monkeypatch):

    class BegunError(Exception):
        pass

    def begin(*_args, **_settings):
        raise BegunError

    monkeypatch.setattr(sampling, "draw_samples", begin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        episodes = without_marks("alike")
    with pytest.warns(TacitWarning, match=ALIKE), pytest.raises(BegunError):
        sampling.sample_posterior(episodes)
