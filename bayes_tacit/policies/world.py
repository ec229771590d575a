"""World: episodes, and what would come of every decision on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayes_tacit import validate
from bayes_tacit.data.costs import CostModel, LoggedCost, cost_of_calls
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import HANDOFFS, Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control import Chance

StepReplay = Callable[[str, np.ndarray], np.ndarray]
"""Plays step deferral: takes the name of a diagnostic and thresholds (k,), gives (4, k, episode).

The four are success, cost, Cheap's calls and Strong's calls. Cheap acts; where the diagnostic after its step is at
least the threshold, Strong acts the following step only, then Cheap acts again.
"""

JudgedReplay = Callable[[Chance, np.ndarray], np.ndarray]
"""Plays deferral of steps that look wrong: takes a probability of that and thresholds (k,), gives (4, k, episode).

The probability is a function of the task's features and of the step's diagnostics, by their names with `last` before
them (`last risk`). Cheap acts; where it is at least the threshold, Strong acts as in a `StepReplay`.
"""

SAME = 1e-9
"""Relative difference below which two costs are the same number, rounded differently."""


@dataclass(frozen=True, eq=False)
class World:
    """Episodes, and what would come of every decision on them.

    All policies are evaluated on the same world, so they see the same tasks and the same luck: two that decide alike
    get the same outcomes.

    Attributes
    ----------
    episodes
        What policies look at. They see features and diagnostics, not outcomes and windows.
    counterfactuals
        What comes of each permanent handoff, for the same episodes; brought into their order.
    cost
        What calls cost, the same as in the counterfactuals. It prices what they do not hold, such as a restart. None
        where their costs are no function of calls, such as tokens; a one-off call is then free.
    deferral
        Plays step deferral; None where it cannot be replayed.
    judged
        Plays deferral of steps that a model judges to be wrong; None where it cannot be replayed.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_tacit.data.costs import StepCost
    >>> tasks = pd.DataFrame({"episode": ["a", "b"], "cheap_success": [0, 1], "strong_success": [1, 1],
    ...                       "window_start": [0, None], "window_end": [0, None], "x": [3, 1]})
    >>> steps = pd.DataFrame({"episode": ["a", "a", "b", "b"], "step": [0, 1, 0, 1], "risk": [1.0, 2.0, 0.5, 0.0]})
    >>> cost = StepCost(cheap=1, strong=3)
    >>> counterfactuals = Counterfactuals.from_calls(
    ...     ["a", "b"], success=[[1, 0], [1, 1]], strong_calls=[[2, 1], [2, 1]], never_success=[0, 1], cost=cost
    ... )
    >>> World(Episodes.from_frames(tasks, steps), counterfactuals, cost)
    <World: 2 episodes of up to 2 steps; Pure Cheap 50.0% at cost 2, Pure Strong 100.0% at cost 6; no step deferral>
    """

    episodes: Episodes
    counterfactuals: Counterfactuals
    cost: CostModel | None = None
    deferral: StepReplay | None = None
    judged: JudgedReplay | None = None

    def __post_init__(self) -> None:
        """Match the counterfactuals to the episodes, and check that there is one unit of cost."""
        if not isinstance(self.episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=self.episodes)
        if not isinstance(self.counterfactuals, Counterfactuals):
            raise InvalidDataError("Counterfactuals", field="counterfactuals", value=self.counterfactuals)
        for field, what in (("deferral", "a diagnostic's name"), ("judged", "a probability")):
            given: object = getattr(self, field)
            if given is not None and not callable(given):
                raise InvalidDataError(f"a function of {what} and thresholds, or None", field=field, value=given)
        if not _in_place(self.counterfactuals, self.episodes):
            object.__setattr__(self, "counterfactuals", self.counterfactuals.match(self.episodes))
        if self.cost is not None:
            _check_costs(self.counterfactuals, self.cost)

    @classmethod
    def from_restarts(
        cls, episodes: Episodes, *, strong_steps: str | npt.ArrayLike | None = None, cost: CostModel | LoggedCost
    ) -> World:
        """Make a world from paired rollouts alone, in which every handoff restarts the task with Strong.

        Parameters
        ----------
        episodes, strong_steps, cost
            As for `Counterfactuals.from_restarts`.

        Examples
        --------
        >>> from bayes_tacit import StepCost, load_example
        >>> episodes = load_example()
        >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
        >>> world.handoffs("restart")
        <Counterfactuals: 1200 episodes, restarts at steps 0 to 29 or never; Pure Cheap 26.8%, Pure Strong 70.0%>
        """
        table = Counterfactuals.from_restarts(episodes, strong_steps=strong_steps, cost=cost)
        return cls(episodes, table, None if isinstance(cost, LoggedCost) else cost)

    def handoffs(self, kind: Handoff) -> Counterfactuals:
        """Give what comes of each permanent handoff that resumes from Cheap's state, or that restarts the task.

        What comes of a restart is known wherever the other is: it ends as a handoff at step 0.

        Raises
        ------
        InvalidDataError
            If "resume" is asked for and the world was made from paired rollouts, which cannot tell.
        """
        validate.choice("handoff", kind, HANDOFFS)
        if kind == self.counterfactuals.handoff:
            return self.counterfactuals
        if kind == "restart":
            return self._restarts
        raise InvalidDataError(
            "'restart', the handoffs that this world knows: paired rollouts do not say what comes of resuming",
            field="handoff",
            value=kind,
        )

    def take(self, rows: np.ndarray) -> World:
        """Give some of the tasks, by their positions.

        Examples
        --------
        >>> from bayes_tacit import StepCost, load_example
        >>> episodes = load_example()
        >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
        >>> len(world.take(np.arange(0, 100, 2)))
        50
        """
        some = self.episodes.take(rows)
        replays = _of_some(self.deferral, rows), _of_some(self.judged, rows)
        return World(some, self.counterfactuals.select(some.ids), self.cost, *replays)

    @cached_property
    def _restarts(self) -> Counterfactuals:
        return self.counterfactuals.restarted(self.cost)

    def __len__(self) -> int:
        return len(self.episodes)

    def __repr__(self) -> str:
        size = f"{len(self)} episode{'s' if len(self) > 1 else ''} of up to {self.episodes.horizon} steps"
        pure = {"Cheap": self.counterfactuals.pure_cheap, "Strong": self.counterfactuals.pure_strong}
        rates = ", ".join(f"Pure {n} {o.success.mean():.1%} at cost {o.cost.mean():.4g}" for n, o in pure.items())
        known = f"{'with' if self.deferral else 'no'} step deferral"
        only = "; restarts only" if self.counterfactuals.handoff == "restart" else ""
        return f"<World: {size}; {rates}; {known}{only}>"


def _of_some[Signal](
    replay: Callable[[Signal, np.ndarray], np.ndarray] | None, rows: np.ndarray
) -> Callable[[Signal, np.ndarray], np.ndarray] | None:
    """Give a replay of some of the tasks; None where there is none of all."""
    if replay is None:
        return None

    def of_some(signal: Signal, thresholds: np.ndarray) -> np.ndarray:
        return np.asarray(replay(signal, thresholds))[:, :, rows]

    return of_some


def _in_place(counterfactuals: Counterfactuals, episodes: Episodes) -> bool:
    """Tell whether there is nothing to reorder and nothing to complain about."""
    return (
        np.array_equal(counterfactuals.ids, episodes.ids)
        and np.array_equal(counterfactuals.n_steps, episodes.n_steps)
        and np.array_equal(counterfactuals.table()[0, :, -1], episodes.dataset["cheap_success"].values)
        and np.array_equal(counterfactuals.table()[0, :, 0], episodes.dataset["strong_success"].values)
    )


def _check_costs(counterfactuals: Counterfactuals, cost: CostModel) -> None:
    _, known, cheap, strong = counterfactuals.table()
    differs = np.abs(cost_of_calls(cost, cheap, strong) - known) > SAME * (1 + known)
    if differs.any():
        row, handoff = (int(at) for at in np.unravel_index(differs.argmax(), differs.shape))
        calls = f"{cheap[row, handoff]:g} Cheap and {strong[row, handoff]:g} Strong calls"
        expected = (
            f"{float(cost_of_calls(cost, cheap[row, [handoff]], strong[row, [handoff]])[0]):g}, what the world's "
        )
        raise InvalidDataError(
            f"{expected}cost says of {calls}: make them one with counterfactuals.with_cost(cost)",
            episode=plain(counterfactuals.ids[row]),
            field="cost",
            value=float(known[row, handoff]),
            where=f"handoff {handoff}" if handoff < counterfactuals.n_steps[row] else "Cheap rollout",
        )
