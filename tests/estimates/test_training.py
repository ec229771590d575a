"""An estimate that meets other training data than it names says so."""

import warnings

import numpy as np
import pytest
from posteriors import random_posterior
from strategies import quietly

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.policies import PosteriorTacitSwitch


def changed(episodes: Episodes) -> Episodes:
    """The same episodes but for one number of one checkpoint inside a window."""
    diagnostics = episodes.dataset["diagnostics"].copy(deep=True)
    row = int(episodes.has_window.argmax())
    diagnostics[row, int(episodes.dataset["window_start"][row]), 0] += 1e-6
    return quietly(Episodes, episodes.dataset.assign(diagnostics=diagnostics))


SETTINGS = {
    "as in the paper": {},
    "at proposals": {"timing": "proposal"},
    "forgetting": {"memory": 0.9},
    "with a clock": {"clock": True},
    "unmarked ones due": {"unmarked": "due"},
    "fixed weights": {"weights": [0.25, 0.25, 0.25, 0.25]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_training_episodes_pass_and_others_are_told(example, settings):
    fit = quietly(fit_map, example, restarts=1, **settings)
    warn_of_other_data(fit, example)
    warn_of_other_data(fit.to_datatree(), example)
    for other in (changed(example), example.take(slice(1000)), example.take(np.arange(len(example))[::-1])):
        with pytest.warns(TacitWarning, match=f"the fit was made from other data.* of these {len(other)} episodes"):
            warn_of_other_data(fit, other)


def test_windows_without_mass_make_no_other_data(example):
    diagnostics = example.dataset["diagnostics"].copy(deep=True)
    row = int(example.has_window.argmax())
    start, end = (int(example.dataset[name][row]) for name in ("window_start", "window_end"))
    diagnostics[row, start : end + 1] = 0
    episodes = quietly(Episodes, example.dataset.assign(diagnostics=diagnostics))
    for zero_mass in (None, "drop_window"):
        fit = quietly(fit_map, episodes, restarts=1, zero_mass=zero_mass)
        warn_of_other_data(fit, episodes)


def test_an_estimate_that_names_no_data_passes(rng, example):
    warn_of_other_data(random_posterior(rng, example), example)


def test_a_posterior_of_other_episodes_is_told_where_it_is_taken_for_one_of_the_training_episodes(example, example_fit):
    policy = PosteriorTacitSwitch(posterior=example_fit.to_datatree())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.fit(example)
    with pytest.warns(TacitWarning, match="the posterior was made from other data"):
        policy.fit(example.take(slice(600)))


def test_a_fit_that_was_read_from_its_file_knows_its_data(example, example_fit, tmp_path):
    example_fit.save(tmp_path / "fit.json")
    example.write(tmp_path / "episodes.jsonl")
    warn_of_other_data(MapFit.load(tmp_path / "fit.json"), quietly(Episodes.read, tmp_path / "episodes.jsonl"))
