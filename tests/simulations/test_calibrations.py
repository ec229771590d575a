"""Calibrations to the headline figure alone, and the paper's optimizer beside ours."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning
from models.alfworld import ALFWORLD
from simulations.mechanism import calibrated, held_out, simulate
from simulations.studies import calibrations, optimizer


def test_every_committed_calibration_is_one_that_is_kept():
    found = held_out.read()
    assert len(found) >= 4
    assert all(held_out.kept(one) for one in found)


def test_a_calibration_whose_marks_are_off_track_is_not_kept():
    one = held_out.read()[0]
    few = held_out.HeldOut(one.seed, one.target_share, one.mechanism, (*one.checked[:-1], 10.0))
    assert not held_out.kept(few)


def test_marks_of_the_fitted_mechanism_are_nearly_all_off_track_and_those_of_calibrations_are_not():
    assert held_out.recoverable_share(simulate(calibrated(), 4_000, seed=1)) < 0.05
    for one in held_out.read():
        assert held_out.recoverable_share(simulate(one.mechanism, 4_000, seed=1)) > 0.2


def test_spread_tells_calibrations_from_replicates():
    index = pd.MultiIndex.from_product([["a", "b"], [0, 1]], names=["setting", "replicate"])
    found = calibrations.spread(pd.Series([1.0, 3.0, 11.0, 13.0], index=index))
    assert found["mean"] == 7
    assert (found["least"], found["most"]) == (2, 12)
    assert found["sd"] == pytest.approx(np.sqrt(50))
    # Student-t with two degrees of freedom, a variance of 2 within, four values.
    assert found["half"] == pytest.approx(4.302653 * np.sqrt(2 / 4))


@pytest.fixture(scope="module")
def played() -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.read(optimizer.RESULTS / "alfworld" / "training.nc")


def test_the_objective_in_the_papers_terms_is_that_of_the_fit_and_has_its_gradient(played):
    fit, terms = ALFWORLD.fit(played), optimizer.paper_terms(ALFWORLD, played)
    w = np.log(np.maximum(fit.w, 1e-12))
    at = np.concatenate([w, [fit.gamma0], fit.gamma, [fit.beta0], fit.beta, [np.log(np.expm1(fit.s))]])
    assert terms(at)[0] == pytest.approx(fit.objective, abs=1e-9)
    start = np.random.default_rng(0).normal(scale=0.5, size=len(at))
    np.testing.assert_allclose(terms(start)[1], approx_fprime(start, lambda x: terms(x)[0], 1e-6), atol=2e-5)


def test_adam_that_is_not_stopped_early_comes_to_our_optimum_from_above(played):
    ours = ALFWORLD.fit(played)
    excess = [
        optimizer.fit_adam(ALFWORLD, optimizer.ADAMS[name], played).objective - ours.objective
        for name in ("rate 0.05, patient", "rate 0.05, stops at once")
    ]
    assert 0 <= excess[0] < 1e-3 < excess[1]
