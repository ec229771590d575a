"""Tasks that are there twice and features that give the outcome away are found; coarse data are left alone."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from posteriors import random_posterior
from simulate import quietly

from bayes_tacit import Episodes, fit_map
from bayes_tacit.errors import ConvergenceError
from bayes_tacit.model.evidence import collect_evidence, warn_of_scales
from bayes_tacit.review.oddities import check_data
from simulations.studies.misfits import right


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return right(np.random.default_rng(5), 300).episodes


def posterior_of(rng, episodes):
    """Random draws, with what a posterior carries of outcomes and features."""
    tree = random_posterior(rng, episodes)
    evidence = collect_evidence(episodes, zero_mass="drop_window")
    constant = tree["constant_data"].to_dataset()
    tree["constant_data"] = xr.DataTree(
        constant.assign(
            strong_outcome=("episode", evidence.strong_success), features=(("episode", "feature"), evidence.features)
        )
    )
    return tree


def test_tasks_under_a_new_id_are_counted_and_named(rng, episodes):
    again = episodes.dataset.isel(episode=slice(0, 20)).assign_coords(episode=np.arange(1000, 1020))
    joined = quietly(xr.concat([episodes.dataset, again], "episode", data_vars="minimal"))
    result = check_data(posterior_of(rng, joined), joined)
    assert result.passed is False
    assert "20 of 320 episodes are there again under another id" in result.sentence
    assert "such as 1000" in result.sentence
    assert check_data(posterior_of(rng, episodes), episodes).passed


def test_coarse_data_may_have_tasks_that_are_alike(rng, episodes):
    dataset = episodes.dataset.copy(deep=True)
    dataset["features"] = dataset["features"].round().clip(-1, 1)
    dataset["diagnostics"] = (dataset["diagnostics"] > 2).where(dataset["diagnostics"].notnull()).astype(float) * 0
    dataset["diagnostics"][:, 0] = 1.0
    coarse = quietly(dataset)
    result = check_data(posterior_of(rng, coarse), coarse)
    assert result.passed
    assert "which coarse data may be" in result.sentence


def test_a_feature_that_holds_the_outcome_is_named(rng, episodes):
    dataset = episodes.dataset.copy(deep=True)
    dataset["features"][:, 1] = dataset["strong_success"] + 0.5 * rng.random(len(episodes))
    leaked = quietly(dataset)
    result = check_data(posterior_of(rng, leaked), leaked)
    assert (result.passed, result.decisive) == (False, True)
    assert "one side of x2" in result.sentence
    assert "leaked" in result.advice


def test_features_that_nearly_determine_each_other_are_not_said_to_determine_the_outcome(rng, episodes):
    dataset = episodes.dataset.copy(deep=True)
    dataset["features"][:, 1] = dataset["features"][:, 0] + 1e-5 * rng.normal(size=len(episodes))
    with pytest.raises(ConvergenceError, match="'x1', 'x2' nearly determine each other"):
        fit_map(quietly(dataset), ridge=0, zero_mass="drop_window")


@pytest.mark.parametrize(("factor", "said"), [(1e8, "times as large"), (0.0, "the same but for a factor")])
def test_diagnostics_that_no_sampler_can_weigh_are_told_before_it_starts(episodes, factor, said):
    dataset = episodes.dataset.copy(deep=True)
    dataset["diagnostics"][..., 1] = (
        dataset["diagnostics"][..., 1] * factor if factor else 3 * dataset["diagnostics"][..., 0]
    )
    evidence = collect_evidence(quietly(dataset), zero_mass="drop_window")
    with pytest.warns(match=said):
        warn_of_scales(evidence)
