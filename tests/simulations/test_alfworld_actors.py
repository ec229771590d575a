"""The scripted pair, and the pair that learned from walkthroughs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_tacit.agents import History, Observation, Proposal, Step, StepResult, run_episode
from bayes_tacit.agents.protocols import ActorError
from bayes_tacit.errors import EvidenceError, FileFormatError, InvalidDataError
from bayes_tacit.router import handoff_at, pure
from simulations.alfworld import (
    AlfworldEnvironment,
    AlfworldExtractor,
    CheapActor,
    ErrorProcess,
    StrongActor,
    write_kitchen,
    write_kitchens,
)
from simulations.alfworld.learned import (
    LearnedActor,
    LearnedPair,
    Ranker,
    cues,
    fit_ranker,
    fold_of,
    learn_pair,
    lessons_of,
    walkthrough,
)
from simulations.alfworld.plan import Belief, learn_places, usual_places

FLAWLESS = ErrorProcess(
    **dict.fromkeys((field for field in ErrorProcess.__dataclass_fields__ if field != "recovers"), 0.0)
)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory):
    with AlfworldEnvironment(
        write_kitchen(tmp_path_factory.mktemp("kitchen"), "cool some mug and put it in shelf.")
    ) as one:
        yield one


def actions(transcript):
    return [step.proposal.action for step in transcript.steps]


def play(environment, actor, agent, **more):
    pair = (actor, None) if agent == "cheap" else (None, actor)
    return run_episode(environment, *pair, pure(agent), episode="kitchen", extractor=AlfworldExtractor(), **more)


@pytest.mark.parametrize(("actor", "agent"), [(CheapActor, "cheap"), (StrongActor, "strong")])
def test_the_same_seed_gives_the_same_transcript_and_another_another(kitchen, actor, agent):
    once, again, other = (play(kitchen, actor(seed), agent) for seed in (1, 1, 2))
    assert [(step.proposal.action, step.proposal.nll, step.result) for step in once.steps] == [
        (step.proposal.action, step.proposal.nll, step.result) for step in again.steps
    ]
    assert actions(once) != actions(other)


def test_a_handoff_at_a_recorded_step_replays_the_prefix_exactly(kitchen):
    cheap = play(kitchen, CheapActor(3), "cheap")
    for step in (1, 4, 9):
        continued = run_episode(
            kitchen, CheapActor(3), StrongActor(), handoff_at(step), episode="kitchen", recorded=cheap
        )
        assert [one.result for one in continued.executed[:step]] == [one.result for one in cheap.executed[:step]]
        assert {one.agent for one in continued.executed[step:]} == {"strong"}
        unrecorded = run_episode(kitchen, CheapActor(3), StrongActor(), handoff_at(step), episode="kitchen")
        assert actions(unrecorded) == actions(continued)


def test_strong_goes_on_from_what_others_have_done(kitchen):
    """Cheap has brought the mug to the shelf without cooling it: Strong knows where it is and what is missing."""
    history = History(kitchen.reset())
    for action in ["go to countertop 1", "take mug 2 from countertop 1", "go to shelf 1", "move mug 2 to shelf 1"]:
        history = history.then(Step("cheap", Proposal(action), kitchen.step(action)))
    taken = []
    actor = StrongActor(overlooks=0.0)
    while not history.steps[-1].result.done:
        action = actor.act(history).action
        taken.append(action)
        history = history.then(Step("strong", Proposal(action), kitchen.step(action)))
    assert taken == [
        "take mug 2 from shelf 1",
        "go to fridge 1",
        "cool mug 2 with fridge 1",
        "go to shelf 1",
        "move mug 2 to shelf 1",
    ]


@pytest.mark.parametrize("actor", [StrongActor(), CheapActor(errors=FLAWLESS)], ids=["strong", "cheap"])
def test_what_stands_at_the_same_spot_is_examined_not_walked_to(actor):
    """A desk and its drawer are one spot: from the drawer no command goes to the desk."""
    seen = "You are in the middle of a room. Looking quickly around you, you see a desk 1, and a drawer 1."
    first = Observation(f"{seen}\n\nYour task is to: look at book under the desklamp.", ("go to drawer 1",))
    here = ("close drawer 1", "examine desk 1", "examine drawer 1", "look", "take book 1 from desk 1")
    there = Observation("You arrive at drawer 1. The drawer 1 is open. In it, you see nothing.", here, first.task)
    history = History(replace(first, task="look at book under the desklamp."))
    history = history.then(Step("cheap", Proposal("go to drawer 1"), StepResult(there)))
    assert actor.act(history).action == "examine desk 1"


def test_a_step_of_strong_ends_the_confusion_of_cheap(kitchen):
    """After it Cheap may become confused again, as at any step; after a step of its own it still is."""
    history = History(kitchen.reset())
    result = kitchen.step("look")
    by_cheap = history.then(Step("cheap", Proposal("look"), result))
    by_strong = history.then(Step("strong", Proposal("look"), result))
    errors = replace(FLAWLESS, loses_composure=0.5, recovers=0.0)
    confused = [actor for actor in (CheapActor(seed, errors) for seed in range(60)) if actor.confused(history)]
    assert 15 < len(confused) < 45
    assert all(actor.confused(by_cheap) for actor in confused)
    assert 0.2 < np.mean([actor.confused(by_strong) for actor in confused]) < 0.8


def test_cheap_reports_the_probability_with_which_it_acts(kitchen):
    """Over many seeds it does each thing as often as it says, given what it says."""
    history = History(kitchen.reset())
    expected: Counter[str] = Counter()
    found: Counter[str] = Counter()
    n = 2000
    for seed in range(n):
        actor = CheapActor(seed)
        chances = actor.chances(history)
        assert math.isclose(sum(chances.values()), 1)
        expected.update(chances)
        proposal = actor.act(history)
        found[proposal.action] += 1
        assert math.isclose(math.exp(-(proposal.nll or 0.0)), chances[proposal.action])
    for action, total in expected.items():
        assert abs(found[action] - total) < 4.5 * math.sqrt(total) + 1


def test_belief_follows_what_is_taken_moved_and_heated():
    def after(*steps):
        first = Observation("You see a fridge 1, a shelf 1, and a microwave 1.", (), "put a hot egg in shelf.")
        return Belief.of(
            History(first, tuple(Step("cheap", Proposal(a), StepResult(Observation(t), valid=v)) for a, t, v in steps))
        )

    opened = (
        "open fridge 1",
        "You open the fridge 1. The fridge 1 is open. In it, you see a egg 1, and a egg 2.",
        True,
    )
    take = ("take egg 1 from fridge 1", "You pick up the egg 1 from the fridge 1.", True)
    heat = ("heat egg 1 with microwave 1", "You heat the egg 1 using the microwave 1.", True)
    put = ("put egg 1 in/on shelf 1", "You put the egg 1 in/on the shelf 1.", True)
    refused = ("take egg 2 from fridge 1", "Nothing happens.", False)
    assert after().unseen() == ["fridge 1", "shelf 1", "microwave 1"]
    belief = after(opened, take, heat)
    assert (belief.holding, belief.states, belief.contents["fridge 1"]) == ("egg 1", {"egg 1": {"hot"}}, ["egg 2"])
    belief = after(opened, take, heat, refused, put)
    assert belief.holding is None
    assert belief.where(["egg"]) == [("egg 2", "fridge 1"), ("egg 1", "shelf 1")]
    cooled = after(opened, take, heat, ("cool egg 1 with fridge 1", "You cool the egg 1 using the fridge 1.", True))
    assert cooled.states == {"egg 1": {"cool"}}
    assert after(("go to fridge 1", "You arrive at loc 1. The fridge 1 is closed.", True)).closed == {"fridge 1"}


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 12))
def test_any_history_can_be_gone_on_from(kitchen, seed, length):
    rng = np.random.default_rng(seed)
    history = History(kitchen.reset())
    for _ in range(length):
        choices = [*(history.observation.admissible or ()), "nonsense", ""]
        action = choices[rng.integers(len(choices))]
        result = kitchen.step(action)
        history = history.then(Step("cheap", Proposal(action), result))
        if result.done:
            return
    for actor in (CheapActor(seed), StrongActor(seed)):
        proposal = actor.act(history)
        assert proposal == actor.act(history)
        assert proposal.nll is not None
        assert proposal.nll >= 0
    assert StrongActor(seed).act(history).action in (history.observation.admissible or ())


def test_the_table_counts_places_in_game_files(tmp_path):
    from simulations.alfworld import Game

    places = learn_places([Game("one", write_kitchen(tmp_path))])
    assert places.receptacles["cabinet"] == 2
    assert places.held["cabinet"] == {"plate": 1, "mug": 1}
    assert places.held["countertop"] == {"mug": 1, "knife": 1}
    assert "shelf" not in places.held
    assert places.chance("mug", "cabinet") == pytest.approx((1 + 0.5) / (2 + 2))


def test_the_committed_table_is_that_of_the_games_set_aside():
    data = os.environ.get("ALFWORLD_DATA")
    if not data or not (Path(data) / "json_2.1.1" / "valid_train").is_dir():
        pytest.skip("runs with ALFWORLD_DATA=<folder of the official games>")
    from simulations.alfworld.games import make_splits

    splits = make_splits(data)
    played = {game.id for group in (splits.fit, splits.select, splits.test) for game in group}
    assert not played & set(usual_places().games)
    assert learn_places(splits.knowledge).as_dict() == usual_places().as_dict()


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
