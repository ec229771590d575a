"""A game of ALFWorld as the loop plays it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayes_tacit.agents.alfworld.text import NOTHING_HAPPENS, task_of
from bayes_tacit.agents.protocols import Observation, StepResult
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError
from bayes_tacit.files import as_path

if TYPE_CHECKING:
    from bayes_tacit.agents.alfworld.engine import KeptPddlEnv

BANNER = "-= Welcome to TextWorld, ALFRED! =-"

_idle: list[KeptPddlEnv] = []
"""Engines that no game uses: their libraries stay loaded, and loading more would only take memory."""


class AlfworldEnvironment:
    """One game on the real engine.

    The engine is deterministic, so what was seen once along a path of actions is not computed again: playing the same
    actions after a reset takes no time, and a new action after a known path is played on the engine brought there
    without its words being derived. Many continuations of one rollout thus cost little more than what is new in them.

    Parameters
    ----------
    game
        The game file, `game.tw-pddl`.

    Attributes
    ----------
    engine_steps
        Steps that the engine really took, those to come back to a known place not counted.

    Examples
    --------
    >>> from bayes_tacit.agents.alfworld import AlfworldEnvironment, list_games
    >>> game = list_games("valid_seen")[0]  # doctest: +SKIP
    >>> with AlfworldEnvironment(game.path) as environment:  # doctest: +SKIP
    ...     environment.reset().task
    'look at alarmclock under the desklamp.'
    """

    def __init__(self, game: str | os.PathLike[str]) -> None:
        self.game = as_path(game)
        self.engine_steps = 0
        if not self.game.is_file():
            raise MissingFileError(f"{self.game}: no such file; expected a game of ALFWorld, game.tw-pddl")
        self._engine: KeptPddlEnv | None = None
        self._first: Observation | None = None
        self._seen: dict[tuple[str, ...], StepResult] = {}
        self._path: tuple[str, ...] | None = None
        self._engine_path: tuple[str, ...] = ()

    def reset(self) -> Observation:
        """Begin the game, or begin it again."""
        if self._first is None:
            self._engine = _engine_for(self.game)
            state = self._engine.reset()
            text = state.feedback.replace(BANNER, "").strip()
            self._first = _observation(text, state, task_of(text))
            self._engine_path = ()
        self._path = ()
        return self._first

    def step(self, action: str) -> StepResult:
        """Take an action; one that is not admissible counts, changes nothing, and is not valid."""
        if self._path is None:
            raise InvalidDataError("reset() first", field="state of the game", value="not begun")
        path = (*self._path, action)
        known = self._seen.get(path)
        if known is None:
            known = self._seen[path] = self._play(self._path, action)
        self._path = path
        return known

    def contents(self) -> dict[str, list[str]]:
        """Tell what is where when the game begins, by receptacle: what its author knows, and no player sees."""
        self.reset()
        assert self._engine is not None
        self._engine.bring_to(())
        self._engine_path = ()
        return self._engine.contents()

    def close(self) -> None:
        """Give the engine to the next game; this one can be begun again later."""
        if self._engine is not None:
            _idle.append(self._engine)
        self._engine = self._first = self._path = None
        self._seen = {}

    def __enter__(self) -> AlfworldEnvironment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play(self, path: tuple[str, ...], action: str) -> StepResult:
        assert self._engine is not None
        assert self._first is not None
        if self._engine_path != path:
            self._engine.bring_to(path)
        self._engine_path = (*path, action)
        state, reward, done = self._engine.step(action)
        self.engine_steps += 1
        return StepResult(
            _observation(state.feedback.strip(), state, self._first.task),
            reward=float(reward),
            done=bool(done),
            success=bool(state["won"]),
            valid=state.feedback != NOTHING_HAPPENS,
        )


def _observation(text: str, state: Mapping[str, Any], task: str) -> Observation:
    return Observation(text, tuple(state["admissible_commands"]), task)


def _engine_for(game: os.PathLike[str]) -> KeptPddlEnv:
    try:
        from bayes_tacit.agents.alfworld.engine import KeptPddlEnv
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"playing ALFWorld needs the package {error.name!r}: pip install 'bayes_tacit[agents]'"
        ) from error
    engine = _idle.pop() if _idle else KeptPddlEnv()
    try:
        engine.load(game)
    except (KeyError, TypeError, ValueError) as error:
        _idle.append(engine)
        raise FileFormatError(f"{game}: {error!r}; expected a game of ALFWorld, game.tw-pddl") from error
    return engine
