"""Odd data are found and coarse data left alone; calibration is simulated; remedies do as they say."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from posteriors import changed, random_posterior
from simulate import quietly

from bayes_tacit import Episodes, fit_map, sample_posterior
from bayes_tacit.data.mending import with_product, with_returns
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.model.evidence import collect_evidence, warn_of_scales
from bayes_tacit.review.oddities import check_calibration, check_data
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


def test_simulated_posteriors_hold_the_truth_unless_it_is_drawn_from_elsewhere():
    episodes = right(np.random.default_rng(5), 80, 2, 1).episodes
    options = {"draws": 300, "tune": 300, "chains": 2, "cores": 1, "progress": False, "zero_mass": "drop_window"}
    tree = sample_posterior(episodes, **options)
    sound = check_calibration(tree, episodes, replicates=12)
    assert sound.passed
    assert set(sound.table.index) == {"gamma0", "gamma[x1]", "beta0", "beta[x1]", "s", "w[u1]", "w[u2]"}
    assert len(sound.figure().axes) >= 7
    moved = changed(tree, "posterior", beta0=tree["posterior"]["beta0"].values + 1.5)
    wrong = check_calibration(moved, episodes, replicates=12)
    assert wrong.passed is False
    assert wrong.table["p"].idxmin() == "beta0"
    with pytest.raises(InvalidDataError, match="replicates is 3"):
        check_calibration(tree, episodes, replicates=3)


def test_sums_count_by_a_power_or_a_logarithm(episodes):
    sums = episodes.dataset["diagnostics"].cumsum("step").values
    for given, expected in (({"power": 0.3}, sums**0.3), ({"rate": 4.0}, np.log1p(4 * sums))):
        found = with_returns(episodes, **given).dataset["diagnostics"].cumsum("step").values
        np.testing.assert_allclose(found, expected, atol=1e-9)
    for wrong in ({}, {"power": 1.0, "rate": 1.0}, {"power": 0.0}):
        with pytest.raises(InvalidDataError, match="power"):
            with_returns(episodes, **wrong)


def test_a_diagnostic_is_split_by_a_feature_and_its_parts_sum_to_it(episodes):
    split = with_product(episodes, "x1", "u2")
    assert len(split.diagnostic_names) == len(episodes.diagnostic_names) + 4
    parts = split.dataset["diagnostics"].values[..., 1:6].sum(axis=2)
    np.testing.assert_allclose(parts, episodes.dataset["diagnostics"].values[..., 1])
    for wrong in (("x9", "u1"), ("x1", "u9"), ("x1",)):
        with pytest.raises(InvalidDataError, match="expected some of"):
            with_product(episodes, *wrong)
