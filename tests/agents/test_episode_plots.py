"""The figure of an episode draws what the transcript says."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker, deferral, threshold_router

from bayes_tacit.agents import Budget, run_episode
from bayes_tacit.agents.pages import plot_episode
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import pure


@pytest.fixture(autouse=True)
def closed_figures():
    with mpl.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


def drawn_router(timing="post_action"):
    """Three draws that differ in the threshold, wide enough that q rises step by step."""
    router = threshold_router(3, timing)
    repeated = {name: np.repeat(getattr(router.rule, name), 3, axis=0) for name in ("w", "gamma0", "gamma", "beta")}
    rule = replace(router.rule, **repeated, s=np.full(3, 0.6), beta0=np.log([2.0, 3.0, 4.0]))
    return replace(router, rule=rule)


def play(router, actions=9):
    cheap, strong = Walker("cheap", ("right", *WAIT)), Walker("strong", RIGHT)
    budget = Budget(actions)
    return run_episode(Corridor(4), cheap, strong, router, episode="corridor", extractor=Stalled(), budget=budget)


def labelled(ax):
    return dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_the_curve_is_the_recorded_score_with_its_band_and_crossing(timing):
    played = play(drawn_router(timing))
    assert played.end.success
    above, _ = plot_episode(played).axes
    shown = labelled(above)
    facts = [dict(step.choice.facts) for step in played.checkpoints]
    steps = [step.step for step in played.checkpoints]
    np.testing.assert_array_equal(shown["q(t)"].get_xydata(), [*zip(steps, [f["score"] for f in facts], strict=True)])
    edges = shown["90% band"].get_paths()[0].vertices
    for step, fact in zip(steps, facts, strict=True):
        here = edges[edges[:, 0] == step, 1]
        assert (here.min(), here.max()) == (fact["lower"], fact["upper"])
    (decided,) = [step.step for step in played.checkpoints if step.choice.call == "strong"]
    assert shown["first crossing"].get_xdata() == [decided]
    assert set(shown[r"$\alpha$ = 0.5"].get_ydata()) == {0.5}


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_strong_acts_from_the_handoff_to_the_end(timing):
    played = play(drawn_router(timing))
    above, below = plot_episode(played).axes
    span = labelled(above)["Strong acts"]
    assert span.get_x() == played.end.handoff_step - 0.5
    assert span.get_x() + span.get_width() == played.end.actions - 0.5
    assert below.get_xlim() == (-0.5, played.end.actions - 0.5)


@pytest.mark.parametrize("router", [pure("cheap"), deferral(0.5, "stalled")])
def test_an_episode_without_q_is_refused(router):
    with pytest.raises(InvalidDataError, match=f"policy is '{router.policy}'; expected an episode under a policy that"):
        plot_episode(play(router))
