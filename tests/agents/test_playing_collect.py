"""Paired rollouts and continuations: played once, kept, gone on with after a stop, and what a plain loop gives."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from toy_world import deferral

from bayes_tacit.agents import Budget, History, Step, read_transcript
from bayes_tacit.agents.pairs import episodes_from_transcripts
from bayes_tacit.agents.playing import Continuations, Players, collect, collected, transcript_path
from bayes_tacit.agents.teacher import feasible_by
from bayes_tacit.data.costs import StepCost
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.router.rules import Chance, StepChance, TaskSignal
from simulations.alfworld import (
    KITCHEN_TASKS,
    Alfworld,
    AlfworldEnvironment,
    AlfworldExtractor,
    CheapActor,
    Game,
    StrongActor,
    write_kitchen,
)
from simulations.alfworld.benchmark import DESCRIPTORS
from simulations.played.setup import single_steps

COST = StepCost.paper("4b")
GAMES = Alfworld()
PLAYERS = Players(CheapActor(2), StrongActor(2), COST, Budget(16))


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    found = []
    for number, task in enumerate(list(KITCHEN_TASKS)[:3]):
        folder = tmp_path_factory.mktemp(f"game{number}")
        found.append(Game(f"own/task-{number}/trial_1", write_kitchen(folder, task)))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("collected")


@pytest.fixture(scope="module")
def pairs(games, folder):
    return collect(GAMES, folder, PLAYERS, tasks=games)


def counting(told):
    """A progress that keeps what it is told."""

    @contextmanager
    def progress(of):
        told.append((0, of))
        yield lambda done: told.append((done, of))

    return progress


@cache
def opened(game):
    return AlfworldEnvironment(game.path)


def plain(game, until, handoff, signal=None, threshold=None):
    """A straightforward loop: Cheap before the handoff and Strong after, or single steps deferred to Strong."""
    environment = opened(game)
    history = History(environment.reset())
    calls = {"cheap": 0, "strong": 0}
    deferred = False
    while len(history) < until:
        agent = "strong" if deferred or (handoff is not None and len(history) >= handoff) else "cheap"
        proposal = (PLAYERS.cheap if agent == "cheap" else PLAYERS.strong).act(history)
        result = environment.step(proposal.action)
        calls[agent] += 1
        if signal is not None:
            value = AlfworldExtractor().diagnostics(history, proposal, result)[signal]
            deferred = agent == "cheap" and value >= threshold
        history = history.then(Step(agent, proposal, result))
        if result.done:
            return int(result.success), calls["cheap"], calls["strong"]
    return 0, calls["cheap"], calls["strong"]


# Three games are too few to vary in every feature, and no teacher has seen them.
@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_rollouts_are_kept_and_make_episodes(games, folder, pairs):
    assert [pair.task for pair in pairs] == games
    assert all(
        read_transcript(transcript_path(folder, game, agent)).conclusive
        for game in games
        for agent in ("cheap", "strong")
    )
    episodes = episodes_from_transcripts((pair.cheap, pair.strong) for pair in pairs)
    assert len(episodes.feature_names) == 12
    assert len(episodes.diagnostic_names) == 5
    assert episodes.ids.tolist() == [game.id for game in games]
    assert episodes.outcomes.tolist() == [pair.outcome for pair in pairs]
    for pair, game in zip(pairs, games, strict=True):
        assert plain(game, 16, None)[0] == pair.cheap.end.success
        assert plain(game, 16, 0)[0] == pair.strong.end.success


def test_what_is_there_is_not_played_again_and_what_is_torn_is(games, folder, pairs):
    told = []
    assert collect(GAMES, folder, PLAYERS, tasks=games, progress=counting(told)) == pairs
    assert not told
    torn = transcript_path(folder, games[1], "cheap")
    whole = torn.read_text()
    torn.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    assert len(collected(games, folder, PLAYERS)) == 2
    again = collect(GAMES, folder, PLAYERS, tasks=games, progress=counting(told))
    assert told == [(0, 1), (1, 1)]
    assert [step.proposal.action for step in again[1].cheap.steps] == [s.proposal.action for s in pairs[1].cheap.steps]
    assert again[0] == pairs[0]


def test_rollouts_of_others_are_not_mixed_in(games, folder, pairs):
    assert pairs
    for other in (Players(CheapActor(3), PLAYERS.strong, COST, Budget(16)), Players(PLAYERS.cheap, PLAYERS.strong)):
        with pytest.raises(InvalidDataError, match="another folder"):
            collect(GAMES, folder, other, tasks=games)


def test_two_processes_give_what_one_gives(games, tmp_path, pairs):
    parallel = collect(GAMES, tmp_path, PLAYERS, tasks=games, workers=2)
    for one, other in zip(pairs, parallel, strict=True):
        assert [step.result for step in one.cheap.steps] == [step.result for step in other.cheap.steps]
        assert [step.result for step in one.strong.steps] == [step.result for step in other.strong.steps]


def test_every_continuation_is_what_a_plain_loop_plays(games, pairs, tmp_path):
    table = Continuations(GAMES, pairs, tmp_path, PLAYERS).counterfactuals()
    for row, (game, pair) in enumerate(zip(games, pairs, strict=True)):
        for handoff in range(0, len(pair.cheap.steps), 3):
            success, cheap, strong = plain(game, 16, handoff)
            steps = np.full(len(games), -1)
            steps[row] = handoff
            found = table.outcomes_at(steps)
            got = tuple(getattr(found, name)[row] for name in ("success", "cheap_calls", "strong_calls", "cost"))
            assert got == (success, cheap, strong, cheap + 6.75 * strong)
    assert table.pure_cheap.success.tolist() == [pair.cheap.end.success for pair in pairs]


def test_continuations_are_played_once_and_only_where_asked(pairs, tmp_path, monkeypatch):
    told = []
    continued = Continuations(GAMES, pairs, tmp_path, PLAYERS, progress=counting(told))
    first = continued.at([[3], [], [1, 2]])
    assert [sorted(one) for one in first] == [[3], [], [1, 2]]
    assert [done for done, _ in told] == [0, 1, 2]
    monkeypatch.setattr(AlfworldEnvironment, "reset", None)
    assert continued.at([[3], [], [2, 1]]) == [first[0], {}, {2: first[2][2], 1: first[2][1]}]
    assert [done for done, _ in told] == [0, 1, 2]


class Opened(StepChance):
    """Would hand over at once if its opening were asked."""

    policy = "opened"

    def opening(self, state):
        return np.ones(len(state["x"]))


def single_step_routers():
    """By name: the chance is an increasing function of the signal, and looks at a descriptor."""
    some = Chance(np.zeros(12), np.ones(12), 0.2, np.zeros(12))
    own = TaskSignal([0.1], 0.0, some, some, [[0, 1], [0, 1]], [0, 0], 1.0)
    looked_at = Chance(np.zeros(14), np.ones(14), 0.0, [0] * 13 + [1])
    names = AlfworldExtractor().feature_names
    more = (*names, next(name for name in DESCRIPTORS if name not in names))
    signal = deferral(0.5, "uncertainty", "post_action")
    return {
        "signal": signal,
        "by task": replace(signal, rule=own, alpha_start=-1.0, feature_names=names),
        "chance": replace(signal, rule=StepChance(looked_at), feature_names=more),
        "opened": replace(signal, rule=Opened(looked_at), alpha_start=0.5, feature_names=more),
    }


def test_single_steps_are_what_a_plain_loop_plays_whatever_the_rule(games, pairs, tmp_path):
    """What a rule asks before the first step, and a task's own threshold, are the world's to look at."""
    levels, told = np.array([0.3, 0.9]), []
    continued = Continuations(GAMES, pairs, tmp_path, PLAYERS, progress=counting(told))
    played = [[plain(game, 16, None, "uncertainty", level) for game in games] for level in levels]
    expected = np.array([[(done, c + 6.75 * s, c, s) for done, c, s in row] for row in played]).transpose(2, 0, 1)
    for name, router in single_step_routers().items():
        at = levels if name in ("signal", "by task") else 1 / (1 + np.exp(-levels))
        told.clear()
        np.testing.assert_array_equal(single_steps(continued, router, at), expected)
        # The scores of Step Deferral by task are those of Step Deferral.
        assert bool(told) == (name != "by task")
    alone = single_steps(continued, router, np.array([np.inf]))[:, 0]
    assert alone[0].tolist() == [pair.cheap.end.success for pair in pairs]
    assert not alone[3].any()


def test_continuations_of_other_rollouts_are_refused(games, pairs, tmp_path):
    Continuations(GAMES, pairs[:1], tmp_path / "kept", PLAYERS).at([[1]])
    others = collect(
        GAMES, tmp_path / "others", Players(CheapActor(9), StrongActor(9), COST, Budget(16)), tasks=games[:1]
    )
    with pytest.raises(InvalidDataError, match="another folder"):
        Continuations(GAMES, others, tmp_path / "kept", PLAYERS).at([[1]])


def test_a_handoff_that_was_not_played_is_no_failure_but_an_error(pairs, tmp_path):
    table = Continuations(GAMES, pairs, tmp_path, PLAYERS).counterfactuals([[3], [], [2]])
    full = Continuations(GAMES, pairs, tmp_path, PLAYERS).counterfactuals()
    for steps in ([3, -1, 2], [0, 0, 0], [-1, -1, -1], [0, len(pairs[1].cheap.steps), 2]):
        for found, expected in zip(
            vars(table.outcomes_at(steps)).values(), vars(full.outcomes_at(steps)).values(), strict=True
        ):
            assert found.tolist() == expected.tolist()
    with pytest.raises(
        InvalidDataError, match="episode 'own/task-1/trial_1': handoff is 4; expected one that was played"
    ):
        table.outcomes_at([3, 4, 2])
    assert np.isnan(table.table()[[0, 1, 3], 1, 4]).all()
    assert table.table()[2, 1, 4] == 4
    feasible = feasible_by(table)
    assert feasible(pairs[0].cheap, 2) == bool(full.outcomes_at([3, -1, -1]).success[0])
    with pytest.raises(InvalidDataError, match="episode 'own/task-0/trial_1': handoff is 6"):
        feasible(pairs[0].cheap, 5)


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"key": ["handoff", 1]}', '{"key": 1, "rollout": "x"}'])
def test_a_line_that_is_no_continuation_is_named(pairs, tmp_path, line):
    continued = Continuations(GAMES, pairs[:1], tmp_path, PLAYERS)
    continued.at([[1]])
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(FileFormatError, match=r"continuations\.jsonl, line 2: .*expected what came of a continuation"):
        continued.at([[1]])
