"""A game of ALFWorld as the loop plays it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayes_tacit.agents.protocols import Observation, StepResult
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError
from bayes_tacit.files import as_path
from simulations.alfworld.text import NOTHING_HAPPENS, task_of

if TYPE_CHECKING:
    from simulations.alfworld.engine import KeptPddlEnv

BANNER = "-= Welcome to TextWorld, ALFRED! =-"

Place = frozenset[Any]
"""Where a game stands, as the engine tells places apart."""

START: Place = frozenset()

_idle: list[KeptPddlEnv] = []
"""Engines that no game uses: their libraries stay loaded, and loading more would only take memory."""


class AlfworldEnvironment:
    """One game on the real engine.

    The engine is deterministic, so what an action did once where the game stood is not computed again, whichever way
    led there: playing the same actions after a reset takes no time, and a new action is played on the engine brought
    there by the shortest way that is known, without its words being derived. Many continuations of one rollout thus
    cost little more than what is new in them.

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
    >>> from simulations.alfworld import AlfworldEnvironment, list_games
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
        self._steps: dict[tuple[Place, str], tuple[StepResult, Place]] = {}
        self._ways: dict[Place, tuple[str, ...]] = {}
        self._at: Place | None = None
        self._engine_at: Place = START

    def reset(self) -> Observation:
        """Begin the game, or begin it again."""
        if self._first is None:
            self._engine = _engine_for(self.game)
            state = self._engine.reset()
            text = state.feedback.replace(BANNER, "").strip()
            self._first = _observation(text, state, task_of(text))
            self._ways = {START: ()}
            self._engine_at = START
        self._at = START
        return self._first

    def step(self, action: str) -> StepResult:
        """Take an action; one that is not admissible counts, changes nothing, and is not valid."""
        if self._at is None:
            raise InvalidDataError("reset() first", field="state of the game", value="not begun")
        known = self._steps.get((self._at, action))
        if known is None:
            known = self._steps[self._at, action] = self._play(self._at, action)
        result, self._at = known
        return result

    def contents(self) -> dict[str, list[str]]:
        """Tell what is where when the game begins, by receptacle: what its author knows, and no player sees."""
        self.reset()
        assert self._engine is not None
        self._engine.bring_to(())
        self._engine_at = START
        return self._engine.contents()

    def close(self) -> None:
        """Give the engine to the next game; this one can be begun again later."""
        if self._engine is not None:
            _idle.append(self._engine)
        self._engine = self._first = self._at = None
        self._steps = {}

    def __enter__(self) -> AlfworldEnvironment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play(self, at: Place, action: str) -> tuple[StepResult, Place]:
        assert self._engine is not None
        assert self._first is not None
        if self._engine_at != at:
            self._engine.bring_to(self._ways[at])
        state, reward, done = self._engine.step(action)
        self._engine_at = self._engine.place
        self.engine_steps += 1
        way = (*self._ways[at], action)
        if len(way) < len(self._ways.get(self._engine_at, (*way, ""))):
            self._ways[self._engine_at] = way
        result = StepResult(
            _observation(state.feedback.strip(), state, self._first.task),
            reward=float(reward),
            done=bool(done),
            success=bool(state["won"]),
            valid=state.feedback != NOTHING_HAPPENS,
        )
        return result, self._engine_at


def _observation(text: str, state: Mapping[str, Any], task: str) -> Observation:
    return Observation(text, tuple(state["admissible_commands"]), task)


def _engine_for(game: os.PathLike[str]) -> KeptPddlEnv:
    try:
        from simulations.alfworld.engine import KeptPddlEnv
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"playing ALFWorld needs the package {error.name!r}: pip install --group benchmarks"
        ) from error
    engine = _idle.pop() if _idle else KeptPddlEnv()
    try:
        engine.load(game)
    except (KeyError, TypeError, ValueError) as error:
        _idle.append(engine)
        raise FileFormatError(f"{game}: {error!r}; expected a game of ALFWorld, game.tw-pddl") from error
    return engine
