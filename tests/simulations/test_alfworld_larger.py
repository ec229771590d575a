"""The larger protocol and the recommendation, on kitchens of our own."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from alfworld_fit import fit_of_made_up_episodes

from bayes_tacit import StepCost, load_example
from bayes_tacit.agents import Budget
from bayes_tacit.agents.playing import Players, collect
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.policies import FirstAlarm, PureCheap, PureStrong, StepDeferral, TacitSwitch, Trim, TunedSwitch, World
from simulations.alfworld import CheapActor, ErrorProcess, StrongActor, list_games, write_kitchens
from simulations.alfworld.experiment import BENCHMARK, alfworld_setup, compared_policies, larger_section
from simulations.played.crossed import cross_validate, crossed_table
from simulations.played.needed import needed_handoffs
from simulations.played.page import advice_table, advice_words
from simulations.played.policies import BY_LIKELIHOOD, DUE, POSTERIOR, TACIT, is_family
from simulations.played.recommended import recommended

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

N, PARTS = 11, 3
MILD = ErrorProcess(skips_state=0.3, settles_for_one=0.2, overlooks=0.2, loses_composure=0.05)
PLAYERS = Players(CheapActor(7, MILD), StrongActor(7, overlooks=0.3), budget=Budget(18))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    data, home = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home")
    write_kitchens(data, "own", N, seed=1)
    pairs = collect(BENCHMARK, home / "rollouts", PLAYERS, tasks=list_games("own", data))
    return pairs, alfworld_setup(home, PLAYERS, standstill=1)


class Spying:
    """Fits nothing, and remembers what it was to be fitted on."""

    def __init__(self):
        self.seen = []

    def __call__(self, episodes):
        self.seen.append(episodes)
        return fit_of_made_up_episodes()


@pytest.fixture(scope="module")
def found(played):
    spy = Spying()

    def policies():
        alarm = FirstAlarm("repeated_action")
        deferral = StepDeferral("uncertainty", average_steps=(0, 2, 12), timing="proposal")
        tacit = TacitSwitch(estimator=spy, candidates=fixed_grid(0.05, 0.5, n=10), name=TACIT)
        trim = Trim(unmarked="outcome", average_steps=(1, 2))
        dear = StepDeferral("uncertainty", average_steps=(1e6,), timing="proposal", name="Always deferring")
        return [PureCheap(), alarm, deferral, trim, dear, tacit, PureStrong()]

    return cross_validate(*played, policies, parts=PARTS), spy


def test_every_game_is_judged_once_by_what_was_fitted_without_it(played, found):
    pairs, _ = played
    result, spy = found
    ids = [pair.task.id for pair in pairs]
    assert len(spy.seen) == PARTS
    trained = [set(one.ids.tolist()) for one in spy.seen]
    order = np.random.default_rng(2027).permutation(N)
    for part, some in enumerate(trained):
        held_out = {ids[at] for at in order[part::PARTS]}
        assert not some & held_out
        # Settings are chosen on three tenths of the other games, which are not fitted on.
        assert len(some) == N - len(held_out) - round(0.3 * (N - len(held_out)))
    for name, agent in (("Pure Cheap", "cheap"), ("Pure Strong", "strong")):
        ends = [getattr(pair, agent).end for pair in pairs]
        assert result.outcomes[name].success.tolist() == [end.success for end in ends]
        assert result.outcomes[name].cost.tolist() == [end.cost for end in ends]
    assert not np.isnan(result.outcomes[TACIT].cost).any()
    assert 0 < result.outcomes["TRIM analogue"].strong_calls.sum() < result.outcomes["Pure Strong"].strong_calls.sum()


def test_where_nothing_is_within_the_cap_cheap_plays_alone(found):
    result, _ = found
    assert result.beyond == ("Always deferring",) * PARTS
    assert result.outcomes["Always deferring"].cost.tolist() == result.outcomes["Pure Cheap"].cost.tolist()
    assert f"Always deferring ({PARTS})" in "".join(larger_section(result, ""))


def test_marks_are_complete_ranges(found):
    result, spy = found
    start, end = (
        np.concatenate([one.dataset[name].values[one.has_window] for one in spy.seen])
        for name in ("window_start", "window_end")
    )
    assert (end > start).any()
    assert 0 < result.wide <= result.marked <= result.failed


def test_the_section_says_what_came_of_it(found):
    result, _ = found
    page = "\n".join(larger_section(result, "These are kitchens."))
    for row in crossed_table(result).to_dict("records"):
        wins = round(row["success"] * N)
        assert f"| {row['policy']} | {wins}/{N} ({100 * wins / N:.1f}%) | {row['cost']:.2f} |" in page
    gain = 100 * (result.outcomes[TACIT].success - result.outcomes["Pure Cheap"].success).mean()
    assert f"{gain:+.1f} (" in page
    assert "These are kitchens." in page


def test_a_recommendation_is_made_of_the_families_alone():
    parts = load_example().split({"training": 0.5, "development": 0.1, "other": 0.4})
    steps = parts["development"].n_steps
    world = World.from_restarts(parts["development"], strong_steps=steps, cost=StepCost(cheap=1, strong=3))
    alarm = FirstAlarm("uncertainty", handoff="restart")
    tacit = TacitSwitch(options={"restarts": 1}, handoff="restart", name=POSTERIOR)
    fitted = {policy.name: policy.fit(parts["training"]) for policy in (PureCheap(), alarm, tacit, PureStrong())}
    advice = recommended(fitted, parts["training"], world, 40)
    assert list(advice.table["policy"]) + list(advice.left_out) == ["Pure Cheap", "First Alarm", "Pure Strong"]
    assert f"names **{advice.name}**" in advice_words(advice, "games")
    assert f"| **{advice.name}** |" in advice_table(advice)
    assert recommended(fitted, parts["training"], world.take(np.arange(5)), 40) is None
    names = [policy.name for policy in compared_policies()]
    assert {name for name in names if not is_family(name)} >= {DUE, BY_LIKELIHOOD, POSTERIOR}
    assert {"Count", "Landmark", "Cascade", "Tuned switch", TACIT} <= {name for name in names if is_family(name)}


def test_a_policy_that_searches_needs_every_handoff(played):
    pairs, setup = played
    episodes = setup.episodes(pairs)
    alarm = FirstAlarm("repeated_action").fit(episodes)
    some = needed_handoffs([alarm], episodes)
    lengths = episodes.n_steps.tolist()
    assert any(len(steps) < length for steps, length in zip(some, lengths, strict=True))
    learner = SimpleNamespace(fits={1.0: fit_of_made_up_episodes()})
    searching = TunedSwitch(("memory",), lambda _: learner).fit(episodes)
    every = needed_handoffs([alarm, searching], episodes)
    assert [len(steps) for steps in every] == lengths
