"""What to collect next, against what comes of collecting it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bayes_tacit import Episodes, Noise, approximate_posterior, credible_band, fit_map, handoff_score
from bayes_tacit.decisions.collecting import next_tasks
from bayes_tacit.errors import EvidenceError, InvalidDataError, TacitWarning
from simulations.model_based import TRUTH, quietly, simulate
from simulations.studies.strata import flipped, played

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

MODEL = {"weights": [1.0], "ridge": 1e-3}


@pytest.fixture(scope="module")
def tasks() -> Episodes:
    return simulate(TRUTH, 600, np.random.default_rng(3))


@pytest.fixture(scope="module")
def unpaired(tasks) -> Episodes:
    half = np.arange(len(tasks)) < len(tasks) // 2
    return played(tasks, half, ~half)


def test_what_is_left_after_collecting_is_what_was_said(tasks, unpaired):
    found = next_tasks(unpaired, 60, **MODEL)
    assert found.now > found.random > found.chosen
    assert 60 < found.as_many < 600
    ids = found.table["episode"].to_numpy()
    half = np.arange(len(tasks)) < len(tasks) // 2
    now = np.isin(np.arange(len(tasks)), ids)
    after = next_tasks(played(tasks, half | now, ~half | now), 1, **MODEL)
    assert after.now == pytest.approx(found.chosen, rel=0.2)
    sides = found.table.set_index("episode")["do"]
    assert set(sides[half[ids]]) == {"play Strong"}
    assert set(sides[~half[ids]]) == {"play Cheap"}


def test_cheap_is_not_played_where_strong_failed(unpaired):
    named = next_tasks(unpaired, 40, kinds=["play Cheap"], **MODEL).table["episode"].to_numpy()
    assert unpaired.dataset["strong_success"].values[named].all()


def test_strong_is_played_again_and_tasks_are_marked_where_that_tells(tasks):
    noisy = Noise(sensitivity=(8, 2), specificity=(8, 2))
    data = flipped(tasks, np.random.default_rng(1)).dataset
    blank = np.where(np.arange(len(tasks)) < 100, np.nan, data["window_start"].values)
    some = quietly(data.assign(dict.fromkeys(("window_start", "window_end"), ("episode", blank))))
    found = next_tasks(some, 3, noise=noisy, **MODEL)
    assert set(found.possible) == {"play Strong again", "mark"}
    assert found.possible["play Strong again"] == len(tasks)
    assert "at random" in str(found)
    assert len(found.to_dict()["next"]) == 3


def test_what_cannot_be_collected_is_refused(tasks, unpaired):
    with pytest.raises(EvidenceError, match="every task has both sides"):
        next_tasks(tasks, 3, **MODEL)
    with pytest.raises(InvalidDataError, match="kinds is 'guess'"):
        next_tasks(unpaired, 3, kinds=["guess"], **MODEL)
    with pytest.raises(InvalidDataError, match="handed is 1"):
        next_tasks(unpaired, 3, handed=1, **MODEL)


def test_approximate_bands_are_the_samplers(example, posterior):
    some = example.take(slice(40))
    own, sampled = (credible_band(tree, some) for tree in (approximate_posterior(example, seed=1), posterior))
    for name in ("lower", "mean", "upper"):
        assert np.nanmax(abs(own[name].values - sampled[name].values)) < 0.06
    assert handoff_score(fit_map(example), some).values[0, 5] == pytest.approx(own["mean"].values[0, 5], abs=0.01)


def test_learned_rates_come_back_at_their_fit(tasks):
    noise = Noise(lucky_by_features=True, mark_error=(1, 4), lateness=(2, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        draws = approximate_posterior(tasks, 50, noise=noise, **MODEL)
        fit = fit_map(tasks, noise=noise, **MODEL)
    assert float(draws["posterior"]["lucky0"].mean()) == pytest.approx(fit.rates["lucky0"][0], abs=0.1)
