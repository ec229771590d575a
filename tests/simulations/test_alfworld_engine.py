"""The real engine, on a small game of our own; official games are played where their folder is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from simulations.alfworld import (
    KITCHEN,
    KITCHEN_TASKS,
    AlfworldEnvironment,
    list_games,
    split_games,
    write_kitchen,
)

DATA = os.environ.get("ALFWORLD_DATA")
official = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "json_2.1.1").is_dir(),
    reason="runs with ALFWORLD_DATA=<folder of the official games>",
)


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kitchen(tmp_path_factory.mktemp("game"))


def test_importing_the_package_imports_no_engine():
    code = (
        "import sys, simulations.alfworld; "
        "print([name for name in ('alfworld', 'textworld', 'fast_downward') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_the_engine_the_error_names_the_extra(game):
    code = (
        "import sys; sys.modules['textworld'] = None; sys.modules['fast_downward'] = None\n"
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


def test_two_games_at_once_do_not_disturb_each_other(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = AlfworldEnvironment(write_kitchen(tmp_path / "a"))
    other = AlfworldEnvironment(write_kitchen(tmp_path / "b", kitchen={**KITCHEN, "Shelf_1": ("Knife_2",)}))
    with one, other:
        one.reset()
        other.reset()
        assert "nothing" in one.step("go to shelf 1").observation.text
        assert "a knife" in other.step("go to shelf 1").observation.text
        assert "nothing" in one.step("examine shelf 1").observation.text


def test_a_closed_game_begins_again(game):
    environment = AlfworldEnvironment(game)
    first = environment.reset()
    environment.close()
    with pytest.raises(InvalidDataError, match="reset"):
        environment.step("look")
    assert environment.reset() == first
    environment.close()


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
    from bayes_tacit.agents import PureController, run_episode
    from simulations.alfworld import StrongActor

    with AlfworldEnvironment(write_kitchen(tmp_path, task)) as environment:
        played = run_episode(environment, None, StrongActor(overlooks=0.0), PureController("strong"), episode=task)
    assert played.end.success
    assert played.end.actions <= 25


def test_what_is_timed_knows_that_there_are_no_official_games(tmp_path):
    """The package sets ALFWORLD_DATA to a folder of its own when it is imported; that is not where games are."""
    program = "import os; from benchmarks import playing; print(os.environ.get('ALFWORLD_DATA'))"
    variables = {name: value for name, value in os.environ.items() if name != "ALFWORLD_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        env={**variables, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
