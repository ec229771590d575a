"""Policies by value: the closed form of the advantage, and what it is worth to wait, where it is known."""

import numpy as np
import pandas as pd
import pytest

from bayes_tacit import Counterfactuals, Episodes, Router, StepCost, World
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import ByValue
from bayes_tacit.router.rule import Chance, Line
from bayes_tacit.router.rules import Advantage, Outlook, indifference

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
COST = StepCost(cheap=1, strong=5)
STEPS = 4


def tasks(seed, n=1500, wrong=0.0):
    """Tasks of which the first step says whether Cheap will fail, and nothing before it does; Strong solves 9 in 10.

    Some of the signs are `wrong`.
    """
    rng = np.random.default_rng(seed)
    cheap, strong = rng.random(n) < 0.5, rng.random(n) < 0.9
    ids = [f"{seed}-{at}" for at in range(n)]
    noise = rng.random(n)
    sign = cheap == (rng.random(n) < wrong) if wrong else ~cheap
    frame = pd.DataFrame({"episode": ids, "cheap_success": cheap, "strong_success": strong, "noise": noise})
    steps = pd.DataFrame(
        {
            "episode": np.repeat(ids, STEPS),
            "step": np.tile(np.arange(STEPS), n),
            "sign": np.repeat(sign, STEPS) + 0.0,
            "spare": rng.random(n * STEPS),
        }
    )
    return Episodes.from_frames(frame, steps, features=["noise"])


def world_of(episodes):
    return World.from_restarts(episodes, strong_steps=np.full(len(episodes), STEPS), cost=COST)


@pytest.fixture(scope="module")
def worlds():
    return world_of(tasks(0)), world_of(tasks(1))


@pytest.mark.parametrize("waiting", [False, True])
def test_it_hands_off_those_that_fail_once_that_is_seen(worlds, waiting):
    """Under a cap that pays for one Cheap step and Strong on the failing half, nothing else is better."""
    training, test = worlds
    cap = 0.5 * 4 + 0.5 * (1 + 20)
    fitted = ByValue(training.counterfactuals, waiting=waiting).fit(training.episodes)
    setting = fitted.choose(training, cap * 1.03).point
    fails = ~test.episodes.dataset["cheap_success"].values
    assert np.mean(fitted.handoffs(test.episodes, setting) == np.where(fails, 1, -1)) > 0.98


def test_waiting_is_worth_what_it_saves(worlds):
    """At the start a handoff gains 0.9 - 0.5 for 20 - 4; waiting a step and stopping the failing half gains more.

    With lambda, waiting is worth 0.5 * (0.9 - lambda 17) more than going on, so it is better than stopping at once,
    0.4 - 16 lambda, unless lambda is below -0.05 / 7.5: it always is. The advantage does not see that.
    """
    training, test = worlds
    fitted = {waiting: ByValue(training.counterfactuals, waiting=waiting).fit(training.episodes) for waiting in (0, 1)}
    now, induced = (fitted[waiting].make({"alpha": 1.0}).score(test.episodes) for waiting in (0, 1))
    assert np.median(now.opening) == pytest.approx(0.4 / 16, rel=0.1)
    assert np.median(induced.opening) < 0.01
    fails = ~test.episodes.dataset["cheap_success"].values
    # Once Cheap is seen to fail, Strong gains 0.9 for 20 steps' price less the three that Cheap would still take.
    assert np.median(induced.steps[fails, 0]) == pytest.approx(0.9 / 17, rel=0.15)
    assert induced.steps[~fails, 0].max() < induced.steps[fails, 0].min()


def test_the_score_is_where_stopping_is_worth_as_much_as_going_on():
    """Between the lambdas of a grid, the worth of stopping is a straight line."""
    lambdas = np.array([0.0, 1.0, 3.0])
    worth = np.array([[2.0, -1.0, 5.0], [1.0, -2.0, 4.0], [-1.0, -3.0, 3.0]])
    np.testing.assert_allclose(indifference(lambdas, worth), [2.0, -1.0, 3.0])


def test_a_reader_s_chances_are_taken_as_they_are():
    flat = Chance(np.zeros(2), np.ones(2), 0.0, np.zeros(2))
    later = Chance(np.zeros(9), np.ones(9), 0.0, np.zeros(9))
    lines = [Line(np.zeros(k), np.ones(k), 10.0, np.zeros(k), 1.0) for k in (2, 9)]
    rule = Advantage(Outlook((0, 1), flat, flat, lines[0]), Outlook((4, 5), later, later, lines[1]))
    router = Router(rule=rule, feature_names=("a", "b"), diagnostic_names=("fails", "solves"), alpha=0.05)
    state = router.start({"a": 0.0, "b": np.log(3)})
    assert rule.opening(rule.begin(np.array([[0.0, np.log(3)]]))) == pytest.approx([0.025])
    assert state.observe({"fails": 0.4, "solves": 0.7}).score == pytest.approx(0.01)
    assert state.observe({"fails": 0.8, "solves": 0.7}).handoff


def test_it_is_kept_in_a_router_file(worlds, tmp_path):
    training, test = worlds
    fitted = ByValue(training.counterfactuals, waiting=True).fit(training.episodes)
    router = fitted.router({"alpha": 0.02})
    router.save(tmp_path / "router.json")
    again = Router.load(tmp_path / "router.json")
    assert again == router
    assert (again.handoffs(test.episodes) == router.handoffs(test.episodes)).all()


def test_resumed_handoffs_are_learned_from_their_table():
    """Strong that resumes early solves all, and late nothing; the advantage falls from step to step."""
    episodes = tasks(2, 400)
    n = len(episodes)
    success = np.tile([1.0, 1.0, 0.0, 0.0], (n, 1))
    calls = np.tile([4.0, 3.0, 2.0, 1.0], (n, 1))
    cheap = episodes.dataset["cheap_success"].values.astype(float)
    table = Counterfactuals.from_calls(
        episodes.ids, success=success, strong_calls=calls, never_success=cheap, cost=COST
    )
    fitted = ByValue(table).fit(episodes)
    assert fitted.make({"alpha": 1.0}).call == "strong"
    scores = fitted.scores(episodes)
    assert (scores[:, 0] > scores[:, 1]).all()
    assert (scores[:, 1] < 0).mean() > 0.4


def test_more_certainty_asks_for_more_and_the_likeliest_is_the_advantage(worlds, tmp_path):
    """The score falls with the certainty, the band holds the score, and half of the draws are above `Advantage`'s."""
    training, test = worlds
    likeliest = ByValue(training.counterfactuals).fit(training.episodes).make({"alpha": 0.02}).score(test.episodes)
    routers = [
        ByValue(training.counterfactuals, certain=certain, n_draws=1_000).fit(training.episodes).router({"alpha": 0.02})
        for certain in (0.5, 0.8, 0.95)
    ]
    half, most, nearly = (router.score(test.episodes) for router in routers)
    assert (half.opening > most.opening).all()
    assert (most.steps > nearly.steps).all()
    np.testing.assert_allclose(half.opening, likeliest.opening, atol=1e-3)
    np.testing.assert_allclose(half.steps, likeliest.steps, atol=1e-3)
    routers[2].save(tmp_path / "router.json")
    again = Router.load(tmp_path / "router.json")
    assert again == routers[2]
    state = again.start({"noise": 0.3})
    decision = state.observe({"sign": 1.0, "spare": 0.5})
    assert decision.lower == pytest.approx(decision.score)
    assert decision.upper > decision.lower


def test_certainty_leaves_nothing_for_waiting(worlds):
    for wrong in ({"certain": 1.0}, {"certain": 0.8, "waiting": True}, {"certain": 0.8, "n_draws": 0}):
        with pytest.raises(InvalidDataError):
            ByValue(worlds[0].counterfactuals, **wrong)


@pytest.mark.slow
def test_the_draws_are_those_of_a_pymc_model_by_nuts(rng):
    """Likelihood and prior to the power of 1 / (moments of a task), with flat intercepts and a known variance."""
    import pymc as pm

    episodes, strong_steps = tasks(5, 400, wrong=0.3), rng.integers(2, 9, 400)
    known = World.from_restarts(episodes, strong_steps=strong_steps, cost=COST).counterfactuals
    rule = ByValue(known, certain=0.8, n_draws=20_000).fit(episodes).make({"alpha": 1.0}).rule.later
    x, u = episodes.dataset["features"].values, episodes.dataset["diagnostics"].values
    checkpoints = range(STEPS - 1)
    columns = [
        np.column_stack([x, u[:, : t + 1].sum(1), u[:, t], u[:, : t + 1].max(1), np.full(len(x), np.log1p(t))])
        for t in checkpoints
    ]
    design = np.insert((np.concatenate(columns) - rule.mean) / rule.scale, 0, 1.0, axis=1)
    cheap = np.tile(episodes.dataset["cheap_success"].values, STEPS - 1)
    price = np.concatenate([5.0 * strong_steps - (STEPS - 1 - t) for t in checkpoints])
    residual = (price - design @ rule.price.mean(axis=0)).std()
    width, power = design.shape[1], 1 / (STEPS - 1)
    with pm.Model():
        for name, outcome, unit in (("cheap", cheap, 1.0), ("price", price, residual)):
            # A prior to a power is one with a wider standard deviation.
            slopes = pm.Normal(f"{name}_slopes", 0, unit * (10 * power) ** -0.5, shape=width - 1)
            line = pm.Flat(f"{name}_intercept", initval=0.0) + design[:, 1:] @ slopes
            said = pm.Normal.dist(line, residual) if name == "price" else pm.Bernoulli.dist(logit_p=line)
            pm.Potential(name, power * pm.logp(said, outcome).sum())
        trace = pm.sample(1000, tune=600, chains=2, cores=1, random_seed=1, progressbar=False, target_accept=0.9)
    for name in ("cheap", "price"):
        parts = (trace.posterior[f"{name}_{part}"].values for part in ("intercept", "slopes"))
        drawn = np.column_stack([part.reshape(2_000, -1) for part in parts])
        held = getattr(rule, name)
        spread = held.std(axis=0)
        np.testing.assert_allclose((drawn.mean(axis=0) - held.mean(axis=0)) / spread, 0, atol=0.15)
        np.testing.assert_allclose(drawn.std(axis=0) / spread, 1, atol=0.12)
