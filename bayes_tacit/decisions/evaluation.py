"""What decisions give: a world in which it is known what comes of each, and the one evaluation of all routers in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import AVERAGES, CostModel, LoggedCost, Outcomes, TokenCost, averages, cost_of_calls
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import plain
from bayes_tacit.data.timing import HANDOFFS, NEVER, Handoff, Timing, discards_proposal, handoff_steps
from bayes_tacit.decisions.selection import SAME, Candidates, as_scores, check_scores
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import Router
from bayes_tacit.router.rule import Scores, reached_from, start_reached_from

SingleSteps = Callable[[Router, np.ndarray], np.ndarray]
"""Plays a router that calls Strong for single steps at thresholds (k,): gives (4, k, episode).

The four are success, cost, Cheap's calls and Strong's calls. Cheap acts; where the router's score of its step reaches
the threshold, Strong acts one step (the one that was scored under "proposal", the next under "post_action"), then Cheap
acts again.
"""

AT_ONCE = 1 << 21
"""Episodes times thresholds that are played at a time."""


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
    single_steps
        Plays routers that call Strong for single steps; None where they cannot be replayed.

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
    <World: 2 episodes of up to 2 steps; Pure Cheap 50.0% at cost 2, Pure Strong 100.0% at cost 6; no single steps>
    """

    episodes: Episodes
    counterfactuals: Counterfactuals
    cost: CostModel | None = None
    single_steps: SingleSteps | None = None

    def __post_init__(self) -> None:
        """Match the counterfactuals to the episodes, and check that there is one unit of cost."""
        if not isinstance(self.episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=self.episodes)
        if not isinstance(self.counterfactuals, Counterfactuals):
            raise InvalidDataError("Counterfactuals", field="counterfactuals", value=self.counterfactuals)
        given: object = self.single_steps
        if given is not None and not callable(given):
            raise InvalidDataError("a function of a router and thresholds, or None", field="single_steps", value=given)
        if not _in_place(self.counterfactuals, self.episodes):
            object.__setattr__(self, "counterfactuals", self.counterfactuals.match(self.episodes))
        if self.cost is not None:
            _check_costs(self.counterfactuals, self.cost)

    @classmethod
    def from_restarts(
        cls,
        episodes: Episodes,
        *,
        strong_steps: str | npt.ArrayLike | None = None,
        cost: CostModel | LoggedCost | TokenCost,
    ) -> World:
        """Make a world from paired rollouts alone, in which every handoff restarts the task with Strong.

        Examples
        --------
        >>> from bayes_tacit import StepCost, load_example
        >>> episodes = load_example()
        >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
        >>> world.handoffs("restart")
        <Counterfactuals: 1200 episodes, restarts at steps 0 to 29 or never; Pure Cheap 26.8%, Pure Strong 70.0%>
        """
        table = Counterfactuals.from_restarts(episodes, strong_steps=strong_steps, cost=cost)
        return cls(episodes, table, None if isinstance(cost, LoggedCost | TokenCost) else cost)

    def handoffs(self, kind: Handoff) -> Counterfactuals:
        """Return what comes of each permanent handoff that resumes from Cheap's state, or that restarts the task.

        What comes of a restart is known wherever the other is: it ends as a handoff at step 0.
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
        """Return some of the tasks, by their positions."""
        some, play = self.episodes.take(rows), self.single_steps

        def of_some(router: Router, thresholds: np.ndarray) -> np.ndarray:
            assert play is not None
            return np.asarray(play(router, thresholds))[:, :, rows]

        played = None if play is None else of_some
        return World(some, self.counterfactuals.select(some.ids), self.cost, played)

    def outcomes(self, router: Router, seen: Episodes | None = None) -> Outcomes:
        """Return what comes of a router's decisions, by episode."""
        found = router.score(self.episodes if seen is None else seen)
        if router.call == "strong_once":
            return Outcomes(*self._single_steps(router, found))
        columns = _columns(router, found, self.episodes.n_steps)
        levels = np.array([1.0])
        # Every column against its own threshold, as 0 and 1.
        reached = np.where(np.isnan(columns), np.nan, columns >= reached_from(_levels(router, found, columns.shape[1])))
        if found.opening is not None:
            reached[:, 0] = found.opening >= start_reached_from(router.alpha_start)
        first = _first(reached, levels)[0]
        table, handoffs = self._table(router, found)
        row = np.arange(len(self))
        self._known(router, found).check_played(row, handoffs[first])
        return Outcomes(*table[:, row, first])

    def points(self, routers: Sequence[Router], seen: Episodes | None = None) -> pd.DataFrame:
        """Return success, cost, strong share and intervention rate of each router, one row each.

        Routers that share a rule and differ only in thresholds are evaluated together.
        """
        out = np.empty((len(AVERAGES), len(routers)))
        for places in _alike(routers):
            out[:, places] = self._group_points([routers[place] for place in places], seen)
        return pd.DataFrame(dict(zip(AVERAGES, out, strict=True)))

    def each(self, routers: Sequence[Router]) -> np.ndarray:
        """Return success and cost of each router in each episode: (2, router, episode).

        Routers that share a rule and differ only in thresholds are evaluated together.
        """
        out = np.empty((2, len(routers), len(self)))
        for places in _alike(routers):
            out[:, places] = self._group_each([routers[place] for place in places])
        return out

    def _group_each(self, routers: list[Router]) -> np.ndarray:
        router = routers[0]
        found = router.score(self.episodes)
        alpha, start = (np.array([getattr(one, name) for one in routers]) for name in ("alpha", "alpha_start"))
        single = router.call == "strong_once"
        joint = None if single else _joint(router, found, self.episodes.n_steps, alpha, start)
        if joint is None:
            outcomes = [self.outcomes(one) for one in routers]
            return np.array([[one.success for one in outcomes], [one.cost for one in outcomes]])
        columns, thresholds = joint
        table, handoffs = self._table(router, found)
        first, row = _first(columns, reached_from(thresholds)), np.arange(len(self))
        self._known(router, found).check_played(np.broadcast_to(row, first.shape).ravel(), handoffs[first].ravel())
        return table[:2, row, first]

    def _group_points(self, routers: list[Router], seen: Episodes | None) -> np.ndarray:
        """Average over episodes for routers of one rule: (variable, router)."""
        router = routers[0]
        found = router.score(self.episodes if seen is None else seen)
        alpha, start = (np.array([getattr(one, name) for one in routers]) for name in ("alpha", "alpha_start"))
        if router.call == "strong_once":
            return self._single_points(routers, found, alpha)
        joint = _joint(router, found, self.episodes.n_steps, alpha, start)
        if joint is None:
            points = [self.outcomes(one, seen).point() for one in routers]
            return np.array([[point[name] for point in points] for name in AVERAGES])
        columns, thresholds = joint
        table, handoffs = self._table(router, found)
        order = np.argsort(thresholds, kind="stable")
        check = self._known(router, found).check_played
        sums = np.empty((5, len(routers)))
        sums[:, order] = _sums(columns, thresholds[order], np.stack([*table, table[3] > 0]), handoffs, check)
        return np.stack(list(averages(sums, len(self)).values()))

    def _known(self, router: Router, found: Scores) -> Counterfactuals:
        """Return what comes of its handoffs; any table says it of a router that decides before the first step alone."""
        return self.counterfactuals if np.isnan(found.steps).all() else self.handoffs(router.handoff)

    def _table(self, router: Router, found: Scores) -> tuple[np.ndarray, np.ndarray]:
        """Return success, cost and calls (4, episode, column) of a first crossing in each column, and its handoff step.

        The columns are: before the first step, each checkpoint, the ended episode where the rule asks about it, never.
        """
        known, whole = self._known(router, found), self.counterfactuals.table()
        later = known.table(discards_proposal=discards_proposal(router.timing))
        steps = handoff_steps(np.arange(later.shape[2] - 1), router.timing)
        start, never = whole[:, :, :1], later[:, :, NEVER:]
        parts, handoffs = [start, later[:, :, np.minimum(steps, later.shape[2] - 1)]], [[0], steps]
        if found.closing is not None:
            kept, strong = never[:, :, 0], start[:, :, 0]
            cost = kept[1] + strong[1] if self.cost is None else cost_of_calls(self.cost, kept[2], strong[3])
            parts.append(np.stack([strong[0], cost, kept[2], strong[3]])[:, :, None])
            handoffs.append([0])
        table = np.concatenate([*parts, never], axis=2)
        if router.rule.one_off and self.cost is not None:
            scores = router.usable(found.steps, self.episodes.n_steps)
            asked = np.cumsum(~np.isnan(np.column_stack([np.full(len(self), np.nan), scores])), axis=1)
            asked = router.rule.one_off * asked[:, np.r_[: asked.shape[1], [-1] * (table.shape[2] - asked.shape[1])]]
            charged = asked > 0
            table[1, charged] = cost_of_calls(self.cost, table[2, charged], table[3, charged], asked[charged])
        return table, np.concatenate([*handoffs, [NEVER]])

    def _single_steps(self, router: Router, found: Scores) -> np.ndarray:
        """Return what comes of a router that calls Strong for single steps: (4, episode)."""
        own = np.full(len(self), router.alpha) if found.thresholds is None else found.thresholds
        used, place = np.unique(own, return_inverse=True)
        later = self._play(router, used)[:, place, np.arange(len(self))]
        if found.opening is None:
            return later
        started = found.opening >= start_reached_from(router.alpha_start)
        return np.where(started, self.counterfactuals.table()[:, :, 0], later)

    def _single_points(self, routers: list[Router], found: Scores, alpha: np.ndarray) -> np.ndarray:
        sums = np.empty((5, len(routers)))
        plain_ones = found.thresholds is None and found.opening is None
        size = max(1, AT_ONCE // len(self)) if plain_ones else 1
        for start in range(0, len(routers), size):
            some = slice(start, start + size)
            if plain_ones:
                played = self._play(routers[0], alpha[some])
            else:
                played = self._single_steps(routers[start], found)[:, None]
            sums[:4, some] = played.sum(axis=2)
            sums[4, some] = np.count_nonzero(played[3], axis=1)
        return np.stack(list(averages(sums, len(self)).values()))

    def _play(self, router: Router, thresholds: np.ndarray) -> np.ndarray:
        if self.single_steps is None:
            raise InvalidDataError(
                "a function that replays them, World(..., single_steps=...): counterfactuals of permanent handoffs do "
                "not say what comes of single steps of Strong",
                field="single_steps of the world",
                value=None,
            )
        played = np.asarray(self.single_steps(router, thresholds), dtype=float)
        shape = (4, len(thresholds), len(self))
        if played.shape != shape:
            raise InvalidDataError(f"{shape}", field="shape of what the world's single_steps gives", value=played.shape)
        return played

    @cached_property
    def _restarts(self) -> Counterfactuals:
        return self.counterfactuals.restarted(self.cost)

    def __len__(self) -> int:
        return len(self.episodes)

    def __repr__(self) -> str:
        size = f"{len(self)} episode{'s' if len(self) > 1 else ''} of up to {self.episodes.horizon} steps"
        pure = {"Cheap": self.counterfactuals.pure_cheap, "Strong": self.counterfactuals.pure_strong}
        rates = ", ".join(f"Pure {n} {o.success.mean():.1%} at cost {o.cost.mean():.4g}" for n, o in pure.items())
        known = f"{'with' if self.single_steps else 'no'} single steps"
        only = "; restarts only" if self.counterfactuals.handoff == "restart" else ""
        return f"<World: {size}; {rates}; {known}{only}>"


def operating_points(
    scores: npt.ArrayLike | xr.DataArray,
    counterfactuals: Counterfactuals,
    candidates: Candidates | npt.ArrayLike,
    timing: Timing,
) -> pd.DataFrame:
    """Look up what each threshold gives on episodes whose counterfactuals are known.

    Parameters
    ----------
    scores
        (episode, step), NaN past the end of an episode: development episodes. A DataArray is matched by its ids; a
        plain array must be in the order of the counterfactuals.
    counterfactuals
        What would come of each handoff. Under "proposal" the Cheap call whose proposal is discarded is charged.
    candidates
        Thresholds.
    timing
        What a checkpoint is: "post_action" or "proposal".

    Returns
    -------
    pandas.DataFrame
        One row for each candidate, by rising alpha: `alpha`, `success`, `cost`, `strong_share`, `intervention_rate`
        (as `Outcomes.point` defines them) and `target`.

    Examples
    --------
    >>> from bayes_tacit.data.costs import StepCost
    >>> counterfactuals = Counterfactuals.from_calls(
    ...     ["a", "b"], success=[[1, 1, 0], [1, 1, 1]], strong_calls=[[3, 2, 1], [3, 2, 1]], never_success=[0, 1],
    ...     cost=StepCost(cheap=1, strong=3),
    ... )
    >>> operating_points([[0.2, 0.6, 0.7], [0.1, 0.3, 0.4]], counterfactuals, [0.2, 0.5], "post_action")
       alpha  success  cost  strong_share  intervention_rate  target
    0    0.2      1.0   6.0      0.500000                1.0     NaN
    1    0.5      0.5   4.0      0.166667                0.5     NaN
    """
    if isinstance(scores, xr.DataArray) and "episode" in scores.coords:
        ids = scores["episode"].values
        counterfactuals = counterfactuals if np.array_equal(ids, counterfactuals.ids) else counterfactuals.select(ids)
    values = as_scores(scores)
    check_scores(values, counterfactuals.ids, counterfactuals.n_steps)
    # The longest rollouts may not be among these.
    values = values[:, : int(counterfactuals.n_steps.max())]
    candidates = candidates if isinstance(candidates, Candidates) else Candidates(np.asarray(candidates))
    later = counterfactuals.table(discards_proposal=discards_proposal(timing))
    handoffs = np.append(handoff_steps(np.arange(values.shape[1]), timing), NEVER)
    table = np.stack([*later, later[3] > 0])[:, :, handoffs]
    sums = _sums(values, candidates.alpha, table, handoffs, counterfactuals.check_played)
    columns = averages(sums, len(counterfactuals))
    return pd.DataFrame({"alpha": candidates.alpha, **columns, "target": candidates.target})


def _alike(routers: Sequence[Router]) -> list[list[int]]:
    """Put the places of routers together that differ in nothing but thresholds."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, router in enumerate(routers):
        key = id(router.rule), router.pace, router.last_handoff, router.call, router.timing
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _columns(router: Router, found: Scores, n_steps: np.ndarray) -> np.ndarray:
    """Put all scores of an episode side by side: (episode, column), NaN where a crossing would hand over nothing."""
    opening = np.full(len(n_steps), np.nan) if found.opening is None else found.opening
    closing = [] if found.closing is None else [np.where(router.too_late(n_steps), np.nan, found.closing)]
    late = router.too_late(handoff_steps(np.arange(found.steps.shape[1]), router.timing))
    return np.column_stack([opening, np.where(late, np.nan, router.usable(found.steps, n_steps)), *closing])


def _levels(router: Router, found: Scores, columns: int) -> np.ndarray:
    """Return the threshold of each column, but for that of the first: (column,), or (episode, column) by task."""
    alpha = [router.alpha_at(step) for step in range(columns - 1)]
    levels = np.array([math.inf, *(math.inf if each is None else each for each in alpha)])
    if found.thresholds is not None:
        levels = np.repeat(found.thresholds[:, None], columns, axis=1)
    if router.rule.closes:
        levels[..., -1] = router.alpha
    return levels


def _joint(
    router: Router, found: Scores, n_steps: np.ndarray, alpha: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return scores (episode, column) and thresholds (router,) of which one is for all columns; None if there are none.

    A start that is the same for all routers is put in as reached or not; a pace is put into the scores.
    """
    if found.thresholds is not None:
        return None
    columns = _columns(router, found, n_steps)
    if router.pace:
        steps = np.arange(found.steps.shape[1])
        columns[:, 1 : 1 + len(steps)] *= np.exp(router.pace * steps)
    if found.opening is None or (start == start[0]).all():
        if found.opening is not None:
            started = found.opening >= start_reached_from(start[0])
            columns[:, 0] = np.where(started, math.inf, -math.inf)
        return columns, alpha
    if (alpha == math.inf).all():
        columns[:, 1:] = np.nan
        return columns, start
    return (columns, alpha) if (alpha == start).all() else None


def _first(columns: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Find the first column that reaches each threshold, (threshold, episode); the number of columns for none."""
    out = np.empty((len(thresholds), len(columns)), dtype=np.int64)
    for row, threshold in enumerate(thresholds):
        above = columns >= threshold
        first = above.argmax(axis=1)
        out[row] = np.where(above[np.arange(len(columns)), first], first, columns.shape[1])
    return out


def _sums(
    columns: np.ndarray,
    alpha: np.ndarray,
    table: np.ndarray,
    handoffs: np.ndarray,
    check: Callable[[np.ndarray, np.ndarray], None],
) -> np.ndarray:
    """Sum a table (variable, episode, column) over episodes, at the first column that reaches each rising threshold.

    The thresholds that an episode first reaches in a column are neighbours: those above its highest score before it and
    not above the one in it. What a handoff there gives is put in where they begin and taken out where they end, and one
    running sum over the thresholds does the rest. The time does not depend on how many thresholds there are.
    """
    # NaN reaches nothing.
    highest = np.fmax.accumulate(np.where(np.isnan(columns), -np.inf, columns), axis=1)
    reached = np.searchsorted(reached_from(alpha), highest, side="right")
    reached[highest == -np.inf] = 0
    begin = np.column_stack([np.zeros(len(columns), dtype=int), reached])
    # The last column of the table is for the thresholds that are never reached.
    end = np.column_stack([reached, np.full(len(columns), len(alpha))])
    at = np.nonzero(begin < end)
    check(at[0], handoffs[at[1]])
    out = np.empty((len(table), len(alpha)))
    for row, variable in enumerate(table):
        value = variable[at]
        put_in, taken_out = (np.bincount(edge[at], value, minlength=len(alpha) + 1) for edge in (begin, end))
        out[row] = np.cumsum(put_in - taken_out)[:-1]
    return out


def _in_place(counterfactuals: Counterfactuals, episodes: Episodes) -> bool:
    """Check whether there is nothing to reorder and nothing to complain about."""
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
