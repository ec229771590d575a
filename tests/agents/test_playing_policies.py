"""Policies that are played on tasks: what is told apart, and what is kept."""

from __future__ import annotations

import pytest

from bayes_tacit import load_example
from bayes_tacit.agents.playing import Entry
from bayes_tacit.policies import PrefixRouter, StepDeferral, TacitSwitch, TaskRouter

TRAINING = load_example()


def identity(controller):
    return Entry("policy", controller).identity


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_identities_tell_settings_and_fits_apart():
    halves = TRAINING.split({"a": 0.5, "b": 0.5}).values()
    found = []
    for training in halves:
        found += [identity(TacitSwitch().fit(training).controller({"alpha": a})) for a in (0.2, 0.3)]
        found += [identity(TaskRouter().fit(training).controller({"alpha": a})) for a in (0.2, 0.3)]
        prefix = PrefixRouter(prefixes=(1, 2)).fit(training)
        found += [identity(prefix.controller({"k": k, "alpha": a})) for k in (1, 2) for a in (0.2, 0.3)]
    deferral = StepDeferral("uncertainty").fit(TRAINING)
    found += [identity(deferral.controller({"alpha": a})) for a in (0.2, 0.3)]
    assert len(set(found)) == len(found) == 18
    again = next(iter(TRAINING.split({"a": 0.5, "b": 0.5}).values()))
    assert identity(TaskRouter().fit(again).controller({"alpha": 0.2})) == found[2]
