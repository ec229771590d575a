"""The learned pair, on kitchens of our own: lessons, rankers, actors, and who was trained on what."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from bayes_tacit.agents import Budget, History, Observation, Proposal, PureController, Step, StepResult, run_episode
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.errors import EvidenceError, FileFormatError, InvalidDataError
from simulations.alfworld import AlfworldEnvironment, write_kitchen, write_kitchens
from simulations.alfworld.learned import (
    LearnedActor,
    LearnedPair,
    Lesson,
    Ranker,
    cues,
    fit_ranker,
    fold_of,
    learn_pair,
    lessons_of,
    walkthrough,
)

N, FOLDS = 15, 3


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    return write_kitchens(tmp_path_factory.mktemp("games"), "own", N, seed=5)


@pytest.fixture(scope="module")
def taught(games):
    """Lessons by game, and the environments, which stay open for playing."""
    opened = {game.id: AlfworldEnvironment(game.path) for game in games}
    lessons = {}
    for number, game in enumerate(games):
        environment = opened[game.id]
        lessons[game.id] = lessons_of(environment, walkthrough(environment), copies=2, seed=number)
    yield lessons, opened
    for environment in opened.values():
        environment.close()


@pytest.fixture(scope="module")
def pair(taught):
    lessons, _ = taught
    folds = {game: number % FOLDS for number, game in enumerate(sorted(lessons))}
    return learn_pair(lessons, folds, cheap_games=2, seed=3), folds


def planned(path):
    """The walkthrough that the package itself gives, by its planner."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    argv = sys.argv
    infos = textworld.EnvInfos(admissible_commands=True, extras=["walkthrough"])
    environment = AlfredDemangler(PddlEnv(infos))
    environment.load(json.loads(path.read_text()))
    state = environment.reset()
    sys.argv = argv
    return state["extra.walkthrough"]


@pytest.mark.parametrize("task", ["put a hot apple in shelf.", "look at mug under the desklamp."])
def test_a_walkthrough_is_as_short_as_the_packages_planner_finds(tmp_path, task):
    path = write_kitchen(tmp_path, task)
    with AlfworldEnvironment(path) as environment:
        commands = walkthrough(environment)
        shortest = len(planned(path))
        assert shortest <= len(commands) <= shortest + 1
        # One in the game's file is taken as it is, if it wins.
        content = json.loads(path.read_text())
        for given, wins in ((["inventory", *commands], True), (list(commands[:-1]), False)):
            path.write_text(json.dumps(content | {"walkthrough": given}))
            if wins:
                assert walkthrough(environment) == tuple(given)
            else:
                with pytest.raises(InvalidDataError, match=r"walkthrough is .*expected commands that win"):
                    walkthrough(environment)


def test_a_lesson_is_a_place_that_can_be_reached_with_the_walkthroughs_next_command(taught):
    lessons, opened = taught
    detours = 0
    for game, some in lessons.items():
        commands = walkthrough(opened[game])
        assert [lesson.command for lesson in some[: len(commands)]] == list(commands)
        for lesson in some:
            history = lesson.history
            assert history.observation.admissible[lesson.place] == lesson.command
            assert lesson.command in commands
            # The way there is one that the engine answers so.
            opened[game].reset()
            for step in history.steps:
                assert opened[game].step(step.proposal.action) == step.result
            # What is done on the way beyond the walkthrough is looking.
            extra = Counter(history.actions) - Counter(commands)
            assert all(action.startswith(("go to ", "open ")) for action in extra)
            detours += bool(extra)
    assert detours > N
    with pytest.raises(InvalidDataError, match="copies is -1"):
        lessons_of(opened[game], commands, -1, 0)


def test_a_detour_shows_nothing_that_is_wanted(taught):
    lessons, opened = taught
    led_astray = 0
    for game, some in lessons.items():
        commands = walkthrough(opened[game])
        for lesson in some:
            if lesson.history.actions and lesson.history.actions[-1] not in commands:
                led_astray += 1
                wanted = set(lesson.history.task.rstrip(".").split())
                takes = (one.split()[1] for one in lesson.history.observation.admissible if one.startswith("take "))
                assert not wanted & set(takes)
    assert led_astray > N


def test_weights_solve_the_likelihoods_equations(taught):
    """At the optimum the cues of right commands exceed those expected by the penalty's pull, 2 ridge v, and no more."""
    lessons = [lesson for some in taught[0].values() for lesson in some][:60]
    ridge = 0.01
    ranker = fit_ranker(lessons, "large", ridge)
    excess: Counter[str] = Counter()
    for lesson in lessons:
        found = cues(lesson.history, "large")
        for chance, one in zip(ranker.chances(lesson.history), found, strict=True):
            for cue in one:
                excess[cue] -= chance
        for cue in found[lesson.place]:
            excess[cue] += 1
    weights = np.array(list(ranker.weights.values()))
    pull = np.array([excess[cue] / len(lessons) for cue in ranker.weights])
    assert np.abs(pull - 2 * ridge * weights).max() < 1e-4
    assert np.abs(weights).max() > 0.3


def test_two_commands_and_one_cue_are_a_logistic_model():
    def lesson(right):
        first = Observation("You see a shelf 1.", ("go to shelf 1", "look"), task="put a mug in shelf.")
        return Lesson(History(first), right)

    lessons = [lesson("go to shelf 1")] * 3 + [lesson("look")]
    ranker = fit_ranker(lessons, "small", ridge=0.05)
    (go, look), (chance, _) = cues(lessons[0].history, "small"), ranker.chances(lessons[0].history)
    count = len(go) + len(look)
    # Every cue of a command has the same weight, a for going and b for looking, so that a and b are all that is sought.
    by_hand = optimize.minimize(
        lambda v: (
            np.log1p(np.exp(len(look) * v[1] - len(go) * v[0])) * 0.75
            + np.log1p(np.exp(len(go) * v[0] - len(look) * v[1])) * 0.25
            + 0.05 * (len(go) * v[0] ** 2 + len(look) * v[1] ** 2)
        ),
        [0.0, 0.0],
    ).x
    assert len(ranker.weights) == count
    assert [ranker.weights[go[0]], ranker.weights[look[0]]] == pytest.approx(by_hand.tolist(), abs=1e-4)
    assert 0.5 < chance < 0.75


def test_small_cues_forget_and_large_ones_know_where_things_were_seen():
    first = Observation(
        "You see a desk 1, and a shelf 1.", ("go to desk 1", "go to shelf 1"), task="put a mug in shelf."
    )
    seen = StepResult(Observation("On the desk 1, you see a mug 1.", ("go to shelf 1", "take mug 1 from desk 1")))
    away = StepResult(Observation("On the shelf 1, you see nothing.", ("go to desk 1", "look")))
    history = History(first)
    for action, result in (("go to desk 1", seen), ("go to shelf 1", away)):
        history = history.then(Step("cheap", Proposal(action), result))
    unseen = History(first).then(Step("cheap", Proposal("go to shelf 1"), away))
    assert cues(history, "small") == cues(unseen, "small")
    new = set(cues(history, "large")[0]) - set(cues(unseen, "large")[0])
    assert any("where target is" in cue for cue in new)


def test_an_actor_does_the_same_again_and_says_how_likely_it_was(pair, taught):
    actor = pair[0].cheap
    (environment, *_) = taught[1].values()
    history = History(environment.reset())
    proposal = actor.act(history)
    assert proposal == actor.act(history)
    at = history.observation.admissible.index(proposal.action)
    chances = actor.ranker(history).chances(history)
    assert chances.sum() == pytest.approx(1)
    assert proposal.nll == pytest.approx(-math.log(chances[at]))
    # What it does is drawn by what it says.
    seeds = 400
    drawn = Counter(LearnedActor("a", actor.rankers, seed).act(history).action for seed in range(seeds))
    for chance, command in zip(chances, history.observation.admissible, strict=True):
        assert abs(drawn[command] / seeds - chance) < 4 * math.sqrt(0.25 / seeds)
    sharper = actor.ranker(history).chances(history, 3.0)
    assert sharper.max() > chances.max()
    with pytest.raises(ActorError, match="no admissible command"):
        actor.act(History(Observation("Nothing.", (), task="put a mug in shelf.")))


def test_nobody_plays_a_game_that_it_was_trained_on(pair):
    learned, folds = pair
    for fold in range(FOLDS):
        held_out = {game for game, of in folds.items() if of == fold}
        assert set(learned.strong_games[fold]) == set(folds) - held_out
        assert not set(learned.cheap_games[fold]) & held_out
        assert len(learned.cheap_games[fold]) == 2
    # Whose turn it is, is told by the room; tasks in the same room are in the same fold.
    rooms = [f"You see a shelf {n}, and a desk 1. Your task is to: {task}" for n in range(40) for task in ("a", "b")]
    turns = [fold_of(room, 3) for room in rooms]
    assert turns[::2] == turns[1::2]
    assert set(turns) == {0, 1, 2}
    actor = LearnedActor("a", tuple(Ranker("small", {"go": float(n)}) for n in range(3)))
    for room, turn in zip(rooms, turns, strict=True):
        assert actor.ranker(History(Observation(room))) is actor.rankers[turn]


def test_memory_and_more_games_win_more(pair, taught):
    learned, folds = pair
    won = Counter()
    for game, environment in taught[1].items():
        for agent, actor in (("cheap", learned.cheap), ("strong", learned.strong)):
            alone = LearnedActor(actor.name, (actor.rankers[folds[game]],), actor.seed)
            actors = (alone, None) if agent == "cheap" else (None, alone)
            played = run_episode(environment, *actors, PureController(agent), episode=game, budget=Budget(20))
            won[agent] += played.end.success
    assert won["strong"] >= won["cheap"] + N // 5
    assert won["strong"] > N // 2


def test_a_pair_is_kept_in_a_file_and_read_again(pair, tmp_path):
    learned, _ = pair
    learned.write(tmp_path / "pair.json")
    again = LearnedPair.read(tmp_path / "pair.json")
    assert repr(again.cheap) == repr(learned.cheap)
    assert repr(again.strong) == repr(learned.strong)
    assert repr(again.cheap) != repr(again.strong)
    assert again.strong_games == learned.strong_games
    (tmp_path / "other.json").write_text('{"cheap": {}}')
    with pytest.raises(FileFormatError, match="expected a learned pair"):
        LearnedPair.read(tmp_path / "other.json")


def test_what_cannot_be_learned_from_is_told(taught):
    lessons, _ = taught
    with pytest.raises(EvidenceError, match="no lesson"):
        fit_ranker([], "small")
    with pytest.raises(InvalidDataError, match="size is 'huge'"):
        fit_ranker(next(iter(lessons.values())), "huge")
    for folds in (dict.fromkeys(lessons, 0), {game: 2 * (n % 2) for n, game in enumerate(lessons)}):
        with pytest.raises(InvalidDataError, match="folds is"):
            learn_pair(lessons, folds)


def test_the_committed_pair_wins_within_what_was_asked_of_it():
    results = Path(__file__).parents[2] / "simulations" / "results" / "alfworld_learned"
    episodes = pd.read_parquet(results / "episodes.parquet")
    won = episodes.groupby("policy")["success"].mean()
    assert 0.10 < won["Pure Cheap"] < 0.45
    assert won["Pure Strong"] > won["Pure Cheap"] + 0.20
    assert len(episodes["episode"].unique()) == 134
