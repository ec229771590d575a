"""Paired rollouts and continuations: played once, kept, gone on with after a stop, and what a plain loop gives."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bayes_tacit.agents import Budget, History, Step, is_finished
from bayes_tacit.agents.alfworld import (
    KITCHEN_TASKS,
    AlfworldEnvironment,
    AlfworldExtractor,
    CheapActor,
    Game,
    StrongActor,
    write_kitchen,
)
from bayes_tacit.agents.alfworld.collect import Players, collect, read_pairs, transcript_path
from bayes_tacit.agents.alfworld.continuations import Continuations
from bayes_tacit.agents.transcript import episodes_from_transcripts
from bayes_tacit.data.costs import StepCost
from bayes_tacit.errors import InvalidDataError

COST = StepCost.paper("4b")
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
    return collect(games, folder, PLAYERS)


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
    assert [pair.game for pair in pairs] == games
    assert all(is_finished(transcript_path(folder, game, agent)) for game in games for agent in ("cheap", "strong"))
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
    assert collect(games, folder, PLAYERS, progress=lambda *counts: told.append(counts)) == pairs
    assert not told
    torn = transcript_path(folder, games[1], "cheap")
    whole = torn.read_text()
    torn.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    assert len(read_pairs(games, folder, PLAYERS)) == 2
    again = collect(games, folder, PLAYERS, progress=lambda *counts: told.append(counts))
    assert [(done, of) for done, of, _ in told] == [(0, 1), (1, 1)]
    assert [step.proposal.action for step in again[1].cheap.steps] == [s.proposal.action for s in pairs[1].cheap.steps]
    assert again[0] == pairs[0]


def test_rollouts_of_others_are_not_mixed_in(games, folder, pairs):
    assert pairs
    for other in (Players(CheapActor(3), PLAYERS.strong, COST, Budget(16)), Players(PLAYERS.cheap, PLAYERS.strong)):
        with pytest.raises(InvalidDataError, match="another folder"):
            collect(games, folder, other)


def test_two_processes_give_what_one_gives(games, tmp_path, pairs):
    parallel = collect(games, tmp_path, PLAYERS, workers=2)
    for one, other in zip(pairs, parallel, strict=True):
        assert [step.result for step in one.cheap.steps] == [step.result for step in other.cheap.steps]
        assert [step.result for step in one.strong.steps] == [step.result for step in other.strong.steps]


def test_every_continuation_is_what_a_plain_loop_plays(games, pairs, tmp_path):
    table = Continuations(pairs, tmp_path, PLAYERS).counterfactuals()
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
    continued = Continuations(pairs, tmp_path, PLAYERS, progress=lambda *counts: told.append(counts))
    first = continued.at([[3], [], [1, 2]])
    assert [sorted(one) for one in first] == [[3], [], [1, 2]]
    assert [done for done, _, _ in told] == [0, 1, 2]
    monkeypatch.setattr(AlfworldEnvironment, "reset", None)
    assert continued.at([[3], [], [2, 1]]) == [first[0], {}, {2: first[2][2], 1: first[2][1]}]
    assert [done for done, _, _ in told] == [0, 1, 2]


def test_step_deferral_is_what_a_plain_loop_plays(games, pairs, tmp_path):
    thresholds = np.array([0.3, 0.9])
    found = Continuations(pairs, tmp_path, PLAYERS).deferral("uncertainty", thresholds)
    assert found.shape == (4, 2, 3)
    for k, threshold in enumerate(thresholds):
        for row, game in enumerate(games):
            success, cheap, strong = plain(game, 16, None, "uncertainty", threshold)
            assert found[:, k, row].tolist() == [success, cheap + 6.75 * strong, cheap, strong]


def test_continuations_of_other_rollouts_are_refused(games, pairs, tmp_path):
    Continuations(pairs[:1], tmp_path / "kept", PLAYERS).at([[1]])
    others = collect(games[:1], tmp_path / "others", Players(CheapActor(9), StrongActor(9), COST, Budget(16)))
    with pytest.raises(InvalidDataError, match="another folder"):
        Continuations(others, tmp_path / "kept", PLAYERS).at([[1]])
