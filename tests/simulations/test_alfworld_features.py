"""Features and diagnostics on transcripts worked out by hand, and what must hold for all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_tacit.agents import History, Observation, Proposal, Step, StepResult
from bayes_tacit.errors import InvalidDataError
from simulations.alfworld import (
    DESCRIPTORS,
    DIAGNOSTICS,
    FEATURES,
    AlfworldExtractor,
    router_descriptors,
    task_features,
)
from simulations.alfworld.text import read_scene, read_task, receptacles, task_of

ROOM = "You are in a room. Looking quickly around you, you see a fridge 1, a drawer 2, a drawer 1, and a shelf 1."
ADMISSIBLE = ("go to fridge 1", "go to drawer 1", "go to drawer 2", "go to shelf 1", "look", "inventory")


def first(task: str) -> Observation:
    return Observation(f"{ROOM}\n\nYour task is to: {task}", ADMISSIBLE, task)


@pytest.mark.parametrize(
    ("task", "features", "descriptors"),
    [
        ("put a mug in shelf.", {"target_kitchenware", "receptacle_surface"}, {"receptacle_surface"}),
        ("put some soapbar on toilet.", {"target_household"}, set()),
        ("find two pen and put them in drawer.", {"form_pick_two", "receptacle_openable"}, {"receptacle_openable"}),
        ("put two cellphone in bed.", {"form_pick_two", "receptacle_surface"}, {"receptacle_surface"}),
        (
            "clean some apple and put it in fridge.",
            {"state_clean", "target_food", "receptacle_openable", "receptacle_appliance"},
            {"receptacle_openable", "needs_tool", "target_food"},
        ),
        (
            "put a hot potato in garbagecan.",
            {"state_hot", "target_food"},
            {"needs_tool", "target_food"},
        ),
        (
            "cool some pan and put it in stoveburner.",
            {"state_cold", "target_kitchenware", "receptacle_appliance"},
            {"needs_tool", "state_cold"},
        ),
        ("examine the statue with the desklamp.", {"form_examine", "target_household"}, {"needs_tool"}),
        ("look at mug under the floorlamp.", {"form_examine", "target_kitchenware"}, {"needs_tool"}),
    ],
)
def test_features_and_descriptors_are_those_read_by_hand(task, features, descriptors):
    found = task_features(first(task))
    assert tuple(found) == FEATURES
    assert len(FEATURES) == 12
    assert found.pop("visible_entities") == 4
    assert {name for name, value in found.items() if value} == features
    assert set(found.values()) <= {0.0, 1.0}
    described = router_descriptors(first(task))
    assert tuple(described) == DESCRIPTORS
    assert {name for name, value in described.items() if value} == descriptors


def test_a_task_in_other_words_is_refused_with_those_words():
    with pytest.raises(InvalidDataError, match="paint the fence"):
        read_task("paint the fence.")
    with pytest.raises(InvalidDataError, match="Your task is to"):
        task_of("You are in a room.")


def test_the_task_is_no_part_of_the_room():
    text = f"{ROOM}\n\nYour task is to: put a mug 1 in shelf."
    assert receptacles(text) == ("fridge 1", "drawer 2", "drawer 1", "shelf 1")


def test_a_scene_is_read_in_both_wordings():
    opened = "You open the fridge 1. The fridge 1 is open. In it, you see a egg 2, and a mug 1."
    assert read_scene(opened).contents == (("fridge 1", ("egg 2", "mug 1")),)
    empty = "You arrive at shelf 1. On the shelf 1, you see nothing."
    assert read_scene(empty).contents == (("shelf 1", ()),)
    assert read_scene("You close the drawer 12.").closed == ("drawer 12",)
    assert read_scene("You pick up the egg 2 from the fridge 1.").contents == ()


# A transcript by hand: what Cheap does, what it sees, and the five diagnostics of each step.
EMPTY_SHELF = "You arrive at loc 1. On the shelf 1, you see nothing."
DRAWER = "You arrive at loc 2. The drawer 1 is closed."
NOTHING = "Nothing happens."
WORKED = [
    # action, answer, valid, fallback, nll -> repeated, cycle, uncertainty, invalid, unchanged
    ("go to shelf 1", EMPTY_SHELF, True, False, None, (0, 0, 0, 0, 0)),
    ("go to drawer 1", DRAWER, True, False, math.log(2), (0, 0, 0.5, 0, 0)),
    ("go to shelf 1", EMPTY_SHELF, True, False, 0.0, (1, 0, 0, 0, 0)),
    ("go to drawer 1", DRAWER, True, False, math.log(4), (1, 1, 0.75, 0, 0)),
    ("go to drawer 1", DRAWER, True, False, None, (1, 0, 0, 0, 1)),
    ("fly away", NOTHING, False, False, None, (0, 0, 0, 1, 1)),
    ("look", "You are facing the drawer 1.", True, True, None, (0, 0, 0, 1, 0)),
    ("go to fridge 1", "You arrive at loc 3. The fridge 1 is closed.", True, False, None, (0, 0, 0, 0, 0)),
    ("look", "You are facing the fridge 1.", True, False, None, (0, 0, 0, 0, 0)),
    ("inventory", "You are not carrying anything.", True, False, None, (0, 0, 0, 0, 0)),
    ("go to fridge 1", "You arrive at loc 3. The fridge 1 is closed.", True, False, None, (1, 0, 0, 0, 0)),
    ("look", "You are facing the fridge 1.", True, False, None, (1, 0, 0, 0, 0)),
    ("inventory", "You are not carrying anything.", True, False, None, (1, 1, 0, 0, 0)),
]


def test_diagnostics_are_those_worked_out_by_hand():
    history = History(first("put a mug in shelf."))
    for action, text, valid, fallback, nll, expected in WORKED:
        proposal = Proposal(action, nll=nll, fallback=fallback)
        result = StepResult(Observation(text, ADMISSIBLE), valid=valid)
        found = AlfworldExtractor().diagnostics(history, proposal, result)
        assert tuple(found) == DIAGNOSTICS
        assert tuple(found.values()) == pytest.approx(expected), action
        history = history.then(Step("cheap", proposal, result))


def test_an_unchanged_observation_with_a_reward_is_no_stall():
    history = History(first("put a mug in shelf."))
    same = StepResult(Observation(history.observation.text, ADMISSIBLE), reward=1.0)
    assert AlfworldExtractor().diagnostics(history, Proposal("look"), same)["unchanged_observation"] == 0


def test_at_an_unexecuted_proposal_only_the_action_counts():
    history = History(first("put a mug in shelf."))
    result = StepResult(Observation(EMPTY_SHELF, ADMISSIBLE))
    history = history.then(Step("cheap", Proposal("look"), result))
    again = AlfworldExtractor().diagnostics(history, Proposal("look", nll=math.log(2)), None)
    assert tuple(again.values()) == (1, 0, 0.5, 0, 0)
    other = AlfworldExtractor().diagnostics(history, Proposal("sing"), None)
    assert tuple(other.values()) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("nll", [-0.1, math.nan])
def test_a_likelihood_above_one_is_refused(nll):
    with pytest.raises(InvalidDataError, match="nll"):
        AlfworldExtractor().diagnostics(History(first("put a mug in shelf.")), Proposal("look", nll=nll), None)


steps = st.builds(
    lambda action, text, valid, fallback, nll, reward: Step(
        "cheap",
        Proposal(action, nll=nll, fallback=fallback),
        StepResult(Observation(text, ADMISSIBLE), reward=reward, valid=valid),
    ),
    st.sampled_from([*ADMISSIBLE, "fly"]),
    st.sampled_from([NOTHING, DRAWER, EMPTY_SHELF]),
    st.booleans(),
    st.booleans(),
    st.none() | st.floats(0, 1e6),
    st.sampled_from([0.0, 1.0]),
)


@given(st.lists(steps, max_size=12), steps)
def test_diagnostics_are_between_zero_and_one(before, last):
    history = History(first("put a mug in shelf."), tuple(before))
    for result in (last.result, None):
        values = AlfworldExtractor().diagnostics(history, last.proposal, result).values()
        assert all(math.isfinite(value) and 0 <= value <= 1 for value in values)


@given(st.permutations(ADMISSIBLE))
def test_nothing_is_wrong_where_every_action_is_new_and_answered(order):
    history = History(first("put a mug in shelf."))
    for at, action in enumerate(order):
        proposal = Proposal(action, nll=0.0)
        result = StepResult(Observation(f"Something new, the {at}th.", ADMISSIBLE))
        assert not any(AlfworldExtractor().diagnostics(history, proposal, result).values())
        history = history.then(Step("cheap", proposal, result))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=14))
def test_a_cycle_is_what_a_plain_search_for_repeated_blocks_finds(letters):
    observation = Observation("x", tuple("abc"))
    history = History(
        first("put a mug in shelf."),
        tuple(Step("cheap", Proposal(letter), StepResult(observation)) for letter in letters[:-1]),
    )
    word = "".join(letters)
    expected = any(
        word.endswith(block * 2)
        for block in (word[-2:], word[-3:])
        if len(word) >= 2 * len(block) and len(set(block)) > 1
    )
    found = AlfworldExtractor().diagnostics(history, Proposal(letters[-1]), StepResult(observation))
    assert found["short_cycle"] == float(expected)
