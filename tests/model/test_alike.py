"""Data without a mark whose final risks are alike: told where a fit or a posterior is made, and in the report."""

import warnings

import numpy as np
import pytest
import xarray as xr

from bayes_tacit import Episodes, fit_map
from bayes_tacit.errors import TacitWarning
from bayes_tacit.model.evidence import LEAST_SPREAD, collect_evidence
from bayes_tacit.review.crossings import _alike
from simulations.studies.unmarked import TASKS, TRUTH

TOLD = "no threshold is bounded from both sides"


def without_marks(kind: str) -> Episodes:
    """The study's tasks, every mark taken away."""
    rng = np.random.default_rng(3)
    dataset = TASKS[kind](rng).simulate(TRUTH, rng).dataset
    nowhere = dataset["window_start"].copy(data=np.full(dataset.sizes["episode"], np.nan))
    return Episodes(dataset.assign(window_start=nowhere, window_end=nowhere))


@pytest.fixture(scope="module", params=["alike", "differ"])
def told(request) -> tuple[str, Episodes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return request.param, without_marks(request.param)


def test_a_fit_without_marks_warns_only_where_final_risks_are_alike(told):
    kind, episodes = told
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_map(episodes, ridge=0.01)
    assert any(TOLD in str(each.message) for each in caught) == (kind == "alike")


def test_the_report_s_check_says_the_same(told):
    kind, episodes = told
    evidence = collect_evidence(episodes)
    bounds = {f"diagnostics_{side}": (("t", "d"), getattr(evidence, side)) for side in ("before", "within")}
    constant = xr.Dataset({**bounds, "n_interval": evidence.n_interval})
    assert bool(_alike(constant)) == (kind == "alike")
    learned = xr.Dataset(
        {name: (("node", *dims), np.stack([values, values])) for name, (dims, values) in bounds.items()}
        | {"n_interval": evidence.n_interval}
    )
    assert _alike(learned) == _alike(constant)
    risk = np.log((evidence.before + evidence.within).sum(axis=1))
    assert (risk.std() < LEAST_SPREAD) == (kind == "alike")


def test_one_mark_is_enough_for_silence(told):
    _, episodes = told
    dataset = episodes.dataset
    only_strong = dataset["strong_success"].values & ~dataset["cheap_success"].values
    at = np.where(np.arange(len(only_strong)) == np.flatnonzero(only_strong)[0], 5.0, np.nan)
    marked = dataset["window_start"].copy(data=at)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_map(Episodes(dataset.assign(window_start=marked, window_end=marked)), ridge=0.01)
    assert not any(TOLD in str(each.message) for each in caught)


def test_sampling_warns_before_it_begins(monkeypatch):
    from bayes_tacit.estimates import posterior as sampling

    class BegunError(Exception):
        pass

    def begin(*_args):
        raise BegunError

    monkeypatch.setattr(sampling, "compiled_for", begin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        episodes = without_marks("alike")
    with pytest.warns(TacitWarning, match=TOLD), pytest.raises(BegunError):
        sampling.sample_posterior(episodes)
