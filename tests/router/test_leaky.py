"""Routers whose past fades: the same scores online as in bulk, snapshots, files."""

import json
import warnings
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from test_router_files import VALIDATOR

from bayes_tacit import Router, fit_map
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.scores.core import Draws


def faded(fit, memory, *, clock, draws, seed=3):
    """A router with parameters around those of a fit, with one memory or one for each draw."""
    rng = np.random.default_rng(seed)
    base = Router.from_fit(fit, alpha=0.3)
    width = len(fit.w) + clock
    parameters = Draws(
        w=rng.dirichlet(np.full(width, 5.0), size=draws),
        gamma0=fit.gamma0 + 0.1 * rng.normal(size=draws),
        gamma=fit.gamma + 0.1 * rng.normal(size=(draws, len(fit.gamma))),
        beta0=fit.beta0 + 0.1 * rng.normal(size=draws),
        beta=fit.beta + 0.1 * rng.normal(size=(draws, len(fit.beta))),
        s=fit.s * np.exp(0.1 * rng.normal(size=draws)),
        family=base.draws.family,
        memory=memory,
        clock=clock,
    )
    return replace(base, draws=parameters)


ROUTERS = {
    "point": (0.6, False, 1),
    "point, clock": (0.6, True, 1),
    "point, clock alone": (1.0, True, 1),
    "highest value": (0.0, False, 1),
    "posterior": (0.6, False, 20),
    "posterior, clock": (0.6, True, 20),
    "learned": (np.linspace(0, 1, 20), False, 20),
    "learned, clock": (np.linspace(0, 1, 20), True, 20),
}


@pytest.fixture(params=ROUTERS)
def router(request, example_fit):
    memory, clock, draws = ROUTERS[request.param]
    return faded(example_fit, memory, clock=clock, draws=draws)


def steps_of(episodes, row):
    n = int(episodes.n_steps[row])
    values = episodes.dataset["diagnostics"].values[row, :n]
    return [dict(zip(episodes.diagnostic_names, step.tolist(), strict=True)) for step in values]


def features_of(episodes, row):
    return dict(zip(episodes.feature_names, episodes.dataset["features"].values[row].tolist(), strict=True))


def test_scores_online_are_those_in_bulk(router, example):
    few = type(example)(example.dataset.isel(episode=slice(0, 6)))
    bulk = router.scores(few).values
    for row in range(6):
        state = router.start(features_of(example, row), shadow=True)
        decisions = [state.observe(step) for step in steps_of(example, row)]
        scores = [decision.score for decision in decisions]
        np.testing.assert_allclose(scores, bulk[row, : len(scores)], rtol=1e-9)
        total = np.cumsum([decision.risk for decision in decisions])
        np.testing.assert_allclose(total, [decision.cumulative_risk for decision in decisions], rtol=1e-9)
        assert (np.diff(scores) >= 0).all()


def test_an_episode_goes_on_from_a_snapshot_to_the_last_bit(router, example):
    steps = steps_of(example, 1)
    whole, first = (router.start(features_of(example, 1), shadow=True) for _ in range(2))
    expected = [whole.observe(step) for step in steps]
    for step in steps[:4]:
        first.observe(step)
    again = router.restore(json.loads(json.dumps(first.snapshot())))
    assert [again.observe(step) for step in steps[4:]] == expected[4:]


def test_a_file_says_how_the_past_fades(router, tmp_path):
    router.save(tmp_path / "router.json")
    again = Router.load(tmp_path / "router.json")
    assert again == router
    np.testing.assert_array_equal(again.draws.memory, router.draws.memory)
    assert again.draws.clock == router.draws.clock
    content = json.loads((tmp_path / "router.json").read_text())
    assert content["schema_version"] == 2
    VALIDATOR.validate(content)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({key: value for key, value in content.items() if key != "memory"})


def test_a_router_that_forgets_nothing_says_so(example_fit):
    content = json.loads(Router.from_fit(example_fit, alpha=0.3).to_json())
    assert (content["schema_version"], content["memory"], content["clock"]) == (2, 1.0, False)


def test_another_memory_is_another_router(example_fit):
    one, other = (faded(example_fit, memory, clock=False, draws=1) for memory in (0.6, 0.5))
    assert one != other
    with pytest.raises(InvalidDataError, match="snapshot was taken under another router"):
        other.restore(one.start(features={"entities": 1, "subgoals": 2, "needs_tool": 0}).snapshot())


@pytest.mark.parametrize("memory", [-0.1, 1.5, np.array([0.5, 2.0]), np.array([0.5])])
def test_memories_that_are_none_are_refused(example_fit, memory):
    with pytest.raises(InvalidDataError, match="memory"):
        faded(example_fit, memory, clock=False, draws=2)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "many", np.float64(0.5)])
def test_diagnostics_are_checked_as_without_a_memory(example_fit, value):
    plain, router = Router.from_fit(example_fit, alpha=0.3), faded(example_fit, 0.6, clock=True, draws=1)
    given = dict.fromkeys(router.diagnostic_names, 0.5) | {router.diagnostic_names[0]: value}
    outcomes = []
    for each in (plain, router):
        try:
            outcomes.append(type(each.start(dict.fromkeys(each.feature_names, 1.0)).observe(given).score))
        except InvalidDataError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_fit_with_a_memory_makes_a_router(example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        fit = fit_map(example, memory=0.7, clock=True, restarts=1)
    router = Router.from_fit(fit, alpha=0.3)
    assert (router.draws.memory, router.draws.clock, router.diagnostic_names) == (0.7, True, example.diagnostic_names)
