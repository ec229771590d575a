"""The scripted pair on the real engine: repeatable, blind to what a player cannot see, able to take over."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_tacit.agents import (
    Budget,
    ForcedHandoffController,
    History,
    Observation,
    Proposal,
    PureController,
    Step,
    StepResult,
    run_episode,
)
from simulations.alfworld import (
    KITCHEN,
    AlfworldEnvironment,
    AlfworldExtractor,
    CheapActor,
    ErrorProcess,
    StrongActor,
    write_kitchen,
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
    return run_episode(
        environment, *pair, PureController(agent), episode="kitchen", extractor=AlfworldExtractor(), **more
    )


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
            kitchen, CheapActor(3), StrongActor(), ForcedHandoffController(step), episode="kitchen", recorded=cheap
        )
        assert [one.result for one in continued.executed[:step]] == [one.result for one in cheap.executed[:step]]
        assert {one.agent for one in continued.executed[step:]} == {"strong"}
        unrecorded = run_episode(
            kitchen, CheapActor(3), StrongActor(), ForcedHandoffController(step), episode="kitchen"
        )
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


def test_strong_recognizes_at_a_later_look_what_it_has_noticed_or_seen_handled(kitchen):
    looks = ["go to countertop 1", "examine countertop 1", "go to shelf 1", "go to countertop 1"]
    handled = ["go to countertop 1", "take knife 1 from countertop 1", "go to shelf 1", "move knife 1 to shelf 1"]
    histories = []
    for actions_taken in (looks, [*handled, "examine shelf 1"]):
        history = History(kitchen.reset())
        histories.append([history := history.then(Step("cheap", Proposal(a), kitchen.step(a))) for a in actions_taken])
    overlooked = 0
    for seed in range(20):
        actor = StrongActor(seed)
        seen = [set(actor._believed(history).contents.get("countertop 1", ())) for history in histories[0]]
        assert seen[0] <= seen[1] <= seen[3]
        overlooked += len(seen[0]) < 2
        assert actor._believed(histories[1][-1]).contents["shelf 1"] == ["knife 1"]
    assert 5 < overlooked < 20


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


def test_strong_puts_away_what_it_does_not_want(kitchen):
    history = History(kitchen.reset())
    for action in ["go to countertop 1", "take knife 1 from countertop 1"]:
        history = history.then(Step("cheap", Proposal(action), kitchen.step(action)))
    assert StrongActor().act(history).action == "move knife 1 to countertop 1"


def test_cheap_without_errors_wins(kitchen):
    for seed in range(5):
        assert play(kitchen, CheapActor(seed, FLAWLESS), "cheap").end.success


@pytest.mark.parametrize(
    ("error", "shows"),
    [
        ("skips_state", lambda done: not any(action.startswith("cool") for action in done)),
        ("slips", lambda done: len(set(done)) > 5),
        ("overlooks", lambda done: not any(action.startswith("take") for action in done)),
    ],
)
def test_each_error_alone_and_certain_keeps_cheap_from_winning(kitchen, error, shows):
    played = play(kitchen, CheapActor(1, replace(FLAWLESS, **{error: 1.0})), "cheap")
    assert not played.end.success
    assert shows(actions(played))


def test_confusion_shows_in_the_diagnostics_and_not_without_it(kitchen):
    errors = replace(FLAWLESS, loses_composure=1.0, recovers=0.0, repeats=0.5, garbles=0.5, rambles=0.0)
    confused = play(kitchen, CheapActor(1, errors), "cheap", budget=Budget(30))
    shown = Counter()
    for step in confused.steps:
        shown.update({name: value for name, value in (step.diagnostics or {}).items() if value})
    assert shown["invalid_action"] > 5
    assert shown["repeated_action"] > 5
    calm = play(kitchen, CheapActor(1, FLAWLESS), "cheap")
    assert not any((step.diagnostics or {})["invalid_action"] for step in calm.steps)


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


def test_actors_see_only_what_is_in_the_text(kitchen, tmp_path):
    """Another kitchen that looks the same from outside is played the same way until something is opened or reached."""
    other_contents = {**KITCHEN, "Cabinet_1": ("Mug_2",), "Cabinet_2": ("Plate_1",)}
    path = write_kitchen(tmp_path, "cool some mug and put it in shelf.", other_contents)
    with AlfworldEnvironment(path) as other:
        for actor in (CheapActor(4), StrongActor(4)):
            here, there = History(kitchen.reset()), History(other.reset())
            assert here == there
            for _ in range(12):
                one, two = actor.act(here), actor.act(there)
                assert one == two
                here = here.then(Step("cheap", one, kitchen.step(one.action)))
                there = there.then(Step("cheap", two, other.step(two.action)))
                if here != there:
                    break


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


def test_what_strong_knows_was_counted_in_other_games_than_are_played():
    from simulations.alfworld import games

    known = usual_places().games
    assert len(known) == len(set(known)) == 66
    assert all(name.startswith("valid_train/") for name in known)
    assert "mug" in usual_places().held["coffeemachine"]
    assert games.SPLIT_SEED == 2026


def test_the_committed_table_is_that_of_the_games_set_aside():
    data = os.environ.get("ALFWORLD_DATA")
    if not data or not (Path(data) / "json_2.1.1" / "valid_train").is_dir():
        pytest.skip("runs with ALFWORLD_DATA=<folder of the official games>")
    from simulations.alfworld.games import make_splits

    splits = make_splits(data)
    played = {game.id for group in (splits.fit, splits.select, splits.test) for game in group}
    assert not played & set(usual_places().games)
    assert learn_places(splits.knowledge).as_dict() == usual_places().as_dict()
