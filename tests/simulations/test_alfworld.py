"""ALFWorld on the real engine: its texts, its games, the kitchens, features and diagnostics."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_tacit.agents import History, Observation, Proposal, Step, StepResult
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.router import pure
from simulations.alfworld import (
    DESCRIPTORS,
    DIAGNOSTICS,
    FEATURES,
    KITCHEN_TASKS,
    AlfworldEnvironment,
    AlfworldExtractor,
    list_games,
    router_descriptors,
    split_games,
    task_features,
    write_kitchen,
    write_kitchens,
)
from simulations.alfworld.text import read_scene

DATA = os.environ.get("ALFWORLD_DATA")
official = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "json_2.1.1").is_dir(),
    reason="runs with ALFWORLD_DATA=<folder of the official games>",
)


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kitchen(tmp_path_factory.mktemp("game"))


def test_importing_the_package_needs_no_engine_and_playing_without_one_names_the_extra(game):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('alfworld', 'textworld', 'fast_downward')))\n"
        "from simulations.alfworld import AlfworldEnvironment\n"
        "from bayes_tacit.errors import MissingDependencyError\n"
        f"environment = AlfworldEnvironment({str(game)!r})\n"
        "try:\n    environment.reset()\nexcept MissingDependencyError as error:\n    print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install --group benchmarks" in printed


def test_a_game_is_played_to_its_end_by_hand(game):
    with AlfworldEnvironment(game) as environment:
        first = environment.reset()
        assert first.task == "put a mug in shelf."
        assert first.text.startswith("You are in the middle of a room.")
        assert {"go to shelf 1", "look", "inventory"} <= set(first.admissible or ())
        seen = environment.step("go to countertop 1")
        assert (
            seen.observation.text == "You arrive at countertop 1. On the countertop 1, you see a knife 1, and a mug 2."
        )
        assert (seen.reward, seen.done, seen.success, seen.valid) == (0, False, False, True)
        nonsense = environment.step("put mug 2 in/on moon 1")
        assert nonsense.observation.text == "Nothing happens."
        assert (nonsense.done, nonsense.valid) == (False, False)
        assert nonsense.observation.admissible == seen.observation.admissible
        environment.step("take mug 2 from countertop 1")
        environment.step("go to shelf 1")
        end = environment.step("move mug 2 to shelf 1")
        assert (end.reward, end.done, end.success) == (1, True, True)


def random_walk(environment, seed, length=25):
    rng = np.random.default_rng(seed)
    observation = environment.reset()
    seen = [observation]
    for _ in range(length):
        choices = [*(observation.admissible or ()), "no such action"]
        # Half of the actions are others than walking, or little would happen.
        near = [one for one in choices if not one.startswith("go to")] if rng.random() < 0.5 else choices
        result = environment.step(near[rng.integers(len(near))])
        observation = result.observation
        seen.append(result)
        if result.done:
            break
    return seen


def package_walk(path, seed, length=25):
    """The same walk on the package's own environment, with its own wrapper for names."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    from bayes_tacit.agents import Observation, StepResult

    argv = sys.argv
    infos = textworld.EnvInfos(feedback=True, won=True, admissible_commands=True)
    environment = AlfredDemangler(PddlEnv(infos))
    # Given a path, the package leaves the file open.
    environment.load(json.loads(path.read_text()))
    state = environment.reset()
    sys.argv = argv

    class Plain:
        def reset(self):
            text = state.feedback.replace("-= Welcome to TextWorld, ALFRED! =-", "").strip()
            task = text.split("Your task is to: ")[1]
            return Observation(text, tuple(state["admissible_commands"]), task)

        def step(self, action):
            now, reward, done = environment.step(action)
            words = now.feedback.strip()
            observation = Observation(words, tuple(now["admissible_commands"]), self.reset().task)
            return StepResult(observation, float(reward), done, now["won"], words != "Nothing happens.")

    return random_walk(Plain(), seed, length)


@pytest.mark.parametrize("task", ["put two mug in shelf.", "look at mug under the desklamp."])
def test_the_fast_engine_says_word_for_word_what_the_package_says(tmp_path, task):
    path = write_kitchen(tmp_path, task)
    with AlfworldEnvironment(path) as environment:
        for seed in range(2):
            assert random_walk(environment, seed, 15) == package_walk(path, seed, 15)


@official
def test_official_games_are_word_for_word_those_of_the_package():
    game = list_games("valid_seen")[3]
    with AlfworldEnvironment(game.path) as environment:
        assert random_walk(environment, 1, 20) == package_walk(game.path, 1, 20)


def test_playing_again_is_exact_and_asks_the_engine_for_nothing(game):
    with AlfworldEnvironment(game) as environment:
        once = random_walk(environment, 5)
        taken = environment.engine_steps
        assert random_walk(environment, 5) == once
        assert environment.engine_steps == taken


def test_a_branch_from_a_known_path_is_what_a_fresh_environment_plays(game):
    actions = ["go to cabinet 1", "open cabinet 1", "fly", "take mug 1 from cabinet 1", "go to sinkbasin 1"]
    branch = ["clean mug 1 with sinkbasin 1", "inventory", "examine mug 1"]
    with AlfworldEnvironment(game) as known, AlfworldEnvironment(game) as fresh:
        known.reset()
        for action in [*actions, "go to shelf 1", "look"]:
            known.step(action)
        known.reset()
        fresh.reset()
        for action in actions + branch:
            assert known.step(action) == fresh.step(action)
        assert "clean" in fresh.step("examine mug 1").observation.text


def test_opening_a_game_keeps_the_command_line(game):
    before = list(sys.argv)
    with AlfworldEnvironment(game) as environment:
        environment.reset()
    assert sys.argv == before


def test_what_is_no_game_is_refused(tmp_path):
    with pytest.raises(MissingFileError, match=r"game\.tw-pddl"):
        AlfworldEnvironment(tmp_path / "game.tw-pddl")
    (tmp_path / "game.tw-pddl").write_text(json.dumps({"grammar": ""}))
    with pytest.raises(FileFormatError, match="pddl_domain"):
        AlfworldEnvironment(tmp_path / "game.tw-pddl").reset()


def test_games_are_listed_by_id_without_unsolvable_and_unsupported_ones(tmp_path):
    for name, solvable in (("b-Mug", True), ("a-Mug", True), ("c-Mug", False), ("d-Sliced", True), ("movable-e", True)):
        folder = tmp_path / "json_2.1.1" / "valid_seen" / name / "trial_1"
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(json.dumps({"solvable": solvable}))
    games = list_games("valid_seen", tmp_path)
    assert [game.id for game in games] == ["valid_seen/a-Mug/trial_1", "valid_seen/b-Mug/trial_1"]
    assert all(game.path.is_file() for game in games)
    with pytest.raises(MissingFileError, match="valid_unseen"):
        list_games("valid_unseen", tmp_path)


def test_no_folder_of_games_is_said(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(MissingFileError, match="ALFWORLD_DATA"):
        list_games("valid_seen")


def test_a_split_is_a_partition_whatever_the_order_of_the_games(tmp_path):
    from simulations.alfworld import Game

    games = [Game(f"g{at:02}", tmp_path) for at in range(20)]
    groups = split_games(games, (12, 5), seed=3)
    assert [len(group) for group in groups] == [12, 5, 3]
    assert sorted(game.id for group in groups for game in group) == [game.id for game in games]
    assert split_games(games[::-1], (12, 5), seed=3) == groups
    assert split_games(games, (12, 5), seed=4) != groups
    with pytest.raises(InvalidDataError, match="at most 20"):
        split_games(games, (12, 9), seed=3)


@pytest.mark.parametrize("task", KITCHEN_TASKS)
def test_every_task_of_the_kitchen_can_be_won(tmp_path, task):
    from bayes_tacit.agents import run_episode
    from simulations.alfworld import StrongActor

    with AlfworldEnvironment(write_kitchen(tmp_path, task)) as environment:
        played = run_episode(environment, None, StrongActor(overlooks=0.0), pure("strong"), episode=task)
    assert played.end.success
    assert played.end.actions <= 25


def test_what_makes_no_kitchen_is_told_and_nothing_written(tmp_path):
    with pytest.raises(InvalidDataError, match=r"task is 'fly\.'; expected 'put a mug in shelf\.' or"):
        write_kitchen(tmp_path / "new", "fly.")
    with pytest.raises(InvalidDataError, match=r"name in the kitchen is 'Mug'; expected a kind and a number"):
        write_kitchen(tmp_path / "new", kitchen={"Shelf_1": ["Mug"]})
    with pytest.raises(InvalidDataError, match="count is 0"):
        write_kitchens(tmp_path / "new", "own", 0)
    assert not (tmp_path / "new").exists()


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
        ("put a hot potato in garbagecan.", {"state_hot", "target_food"}, {"needs_tool", "target_food"}),
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


def test_at_an_unexecuted_proposal_only_the_action_counts():
    history = History(first("put a mug in shelf."))
    result = StepResult(Observation(EMPTY_SHELF, ADMISSIBLE))
    history = history.then(Step("cheap", Proposal("look"), result))
    again = AlfworldExtractor().diagnostics(history, Proposal("look", nll=math.log(2)), None)
    assert tuple(again.values()) == (1, 0, 0.5, 0, 0)
    other = AlfworldExtractor().diagnostics(history, Proposal("sing"), None)
    assert tuple(other.values()) == (0, 0, 0, 1, 0)


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
