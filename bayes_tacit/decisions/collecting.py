"""What to collect next: the tasks whose missing side, further rollout or mark would tell most of the decision's value.

What a handoff gains on a task is E[B - A]: Strong's success where Cheap would fail, less Cheap's luck where Strong
cannot solve it. Under a budget the tasks that gain most are handed off, so what counts is how much more or less a task
gains than the one at the margin, where that is in doubt. How well these differences are known, by a normal
approximation of the posterior, is what is to be made better. Each thing that can be collected is an observation whose
probability depends on the parameters, and the variance that it takes away in the mean is that of the best linear
prediction from it. A set of them is chosen one after the other, each given those before.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import EvidenceError
from bayes_tacit.estimates.laplace import Approximation, approximate
from bayes_tacit.model.likelihood import records_in
from bayes_tacit.model.spec import ModelSettings, ModelSpec
from bayes_tacit.model.strata import Noise, mean_of
from bayes_tacit.scores.score import cumulative_risk, handoff_score, incidence

KINDS = STRONG, CHEAP, AGAIN, MARK = "play Strong", "play Cheap", "play Strong again", "mark"

JUDGED = 500
"""Tasks at most whose gains are looked at."""

BINS = 4
"""A mark is taken to say in which quarter of its probability it lies."""

RANDOM = 20
"""Random sets that the chosen one is compared with."""

FURTHEST = 16
"""So many times more tasks, drawn at random, are tried to come as far as the chosen ones."""


@dataclass(frozen=True, eq=False)
class NextTasks:
    """What to collect next, and what it is worth.

    Attributes
    ----------
    table
        In order: `episode`, what to `do`, and the standard deviation that is `left` after it and those before it.
    now, chosen, random
        Standard deviation of what a task gains by a handoff beyond the task at the margin, in success: now, after all
        of the table, and after as many drawn at random.
    as_many
        How many at random come as far; infinite where more than can be tried.
    possible
        How many of each kind there are.
    """

    table: pd.DataFrame
    now: float
    chosen: float
    random: float
    as_many: float
    possible: dict[str, int]

    def to_dict(self) -> dict[str, object]:
        """Return all of it as JSON takes it."""
        rows = self.table.to_dict("records")
        numbers = {"now": self.now, "after": self.chosen, "after_random": self.random}
        many = None if math.isinf(self.as_many) else round(self.as_many)
        return {"next": rows, "sd_of_gain": numbers, "as_many_at_random": many, "possible": self.possible}

    def __str__(self) -> str:
        n = len(self.table)
        many = f"more than {FURTHEST * n}" if math.isinf(self.as_many) else f"about {self.as_many:.0f}"
        kinds = ", ".join(f"{count:,} to {kind}" for kind, count in self.possible.items())
        said = (
            f"Beside the task at the margin of the budget, what a handoff gains on a task is known to within "
            f"{100 * self.now:.2f} points (one standard deviation). These {n} make that {100 * self.chosen:.2f}, {n} "
            f"drawn at random {100 * self.random:.2f}; it takes {many} at random to come as far. Of what could be "
            f"collected there are {kinds}."
        )
        shown = self.table.assign(left=(100 * self.table["left"]).map("{:.2f}".format))
        return f"{shown.to_string(index=False)}\n\n{said}"


def next_tasks(
    episodes: Episodes,
    n: int = 20,
    *,
    handed: float = 0.5,
    kinds: Collection[str] = KINDS,
    draws: int = 400,
    ridge: float = 0.01,
    seed: int = 0,
    spec: ModelSpec | None = None,
    **settings: Unpack[ModelSettings],
) -> NextTasks:
    """Name the tasks whose missing side, further rollout or mark tells most.

    Parameters
    ----------
    episodes
        What there is: pairs, tasks of which a side was not played, tasks without a mark.
    n
        How many to name.
    handed
        The budget, as the share of tasks that is handed off.
    kinds
        What can be collected, among "play Strong", "play Cheap", "play Strong again" (where outcomes are noisy) and
        "mark" (where only Strong succeeded). Each counts as one, whatever it costs.
    draws
        Draws of the normal approximation of the posterior.
    ridge, seed, spec, **settings
        As `fit_map` takes them. Where outcomes are noisy (`noise`), Strong may be played again.

    Raises
    ------
    EvidenceError
        If nothing is missing, or no model can be fitted to what there is.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> from bayes_tacit.decisions.collecting import next_tasks
    >>> found = next_tasks(load_example(), 3)  # all are pairs, some without a mark
    >>> set(found.table["do"]), found.now > found.random > found.chosen
    ({'mark'}, True)
    """
    n = validate.whole("n", n, 1, 10_000)
    handed = validate.number("handed", handed, "a share above 0 and below 1", above=0, below=1)
    for kind in kinds:
        validate.choice("kinds", kind, KINDS)
    found = approximate(episodes, draws, spec=spec, ridge=ridge, seed=seed, **settings)
    rng = np.random.default_rng(seed)
    options = {kind: each for kind, each in _possible(found, episodes).items() if kind in kinds}
    if not options:
        raise EvidenceError(
            f"expected tasks on which to {' or to '.join(kinds)}: every task has both sides and its mark, and Strong "
            "is played again only where outcomes are noisy"
        )
    labels = [(kind, record) for kind, (rows, _) in options.items() for record in rows]
    width = max(each.shape[1] for _, each in options.values())
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1]), (0, 0))) for _, each in options.values()]
    told = _Told.of(np.concatenate(padded), _margins(found, episodes, handed, rng))
    order, left = told.greedy(min(n, len(labels)))
    ids = found.objective.evidence.episode
    table = pd.DataFrame(
        {"episode": [ids[labels[at][1]] for at in order], "do": [labels[at][0] for at in order], "left": left}
    )
    sizes = [min(len(labels), round(len(order) * times)) for times in np.geomspace(1, FURTHEST, 9)]
    orders = [rng.permutation(len(labels)) for _ in range(RANDOM)]
    curve = np.mean([[told.left(batch[:size]) for size in sizes] for batch in orders], axis=0)
    reached = curve <= left[-1]
    as_many = float(np.interp(-left[-1], -curve, sizes)) if reached.any() else math.inf
    possible = {kind: len(rows) for kind, (rows, _) in options.items()}
    return NextTasks(table, told.left([]), float(left[-1]), float(curve[0]), as_many, possible)


def _margins(found: Approximation, episodes: Episodes, handed: float, rng: np.random.Generator) -> np.ndarray:
    """Return draws of what tasks gain beyond the one at the margin, (draw, task), weighted by how much that is open."""
    played = np.flatnonzero(episodes.n_steps > 0)
    some = episodes.take(np.sort(rng.choice(played, min(JUDGED, len(played)), replace=False)))
    q = handoff_score(found.tree, some).values[0]
    last = np.take_along_axis(q, (some.n_steps - 1)[None, :, None], axis=2)[..., 0]
    pi = incidence(found.tree, some).values[0]
    gain = last - (1 - pi) * _luck(found).mean(axis=0)[:, None]
    beyond = gain - np.quantile(gain, 1 - handed, axis=1, keepdims=True)
    weight = np.exp(-0.5 * (beyond.mean(axis=0) / np.maximum(beyond.std(axis=0), 1e-12)) ** 2)
    return np.asarray(beyond * np.sqrt(weight / weight.mean()))


def _luck(found: Approximation) -> np.ndarray:
    """Return how often Cheap succeeds where Strong cannot, (record, draw)."""
    evidence, given = found.objective.evidence, found.parameters
    if "lucky0" in given:
        names = np.asarray(evidence.feature_names)[found.objective.varying]
        slopes = np.array([given[f"lucky_slope[{name}]"] for name in names]).reshape(len(names), -1)
        return np.asarray(special.expit(given["lucky0"] + evidence.features[:, found.objective.varying] @ slopes))
    luck = given.get("lucky", np.full(len(found.points), mean_of((evidence.spec.noise or Noise()).lucky)))
    return np.broadcast_to(luck, (evidence.n, len(luck)))


def _possible(found: Approximation, episodes: Episodes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return by kind the records that can be observed so, and the probability of each outcome but one.

    Probabilities are (record, outcome, draw), given what was seen of the record.
    """
    objective, evidence, given = found.objective, found.objective.evidence, found.parameters
    records, noise = records_in(evidence), evidence.spec.noise or Noise()
    can = np.array([special.expit(one - zero) for one, zero in map(objective.terms, found.points)]).T
    sensitivity, specificity = (given.get(name, getattr(noise, name)) for name in ("sensitivity", "specificity"))
    succeeds = can * sensitivity + (1 - can) * (1 - specificity)
    played = np.bincount(records.record, minlength=evidence.n) > 0
    trials = records.successes + records.failures
    unmarked = np.bincount(records.record, records.unmarked, minlength=evidence.n) > 0
    out = {STRONG: (rows := np.flatnonzero(played & (trials == 0)), succeeds[rows, None])}
    rows = np.flatnonzero(~played)
    cheap = episodes.take(np.flatnonzero(episodes.n_steps > 0)[:JUDGED])
    risk = cumulative_risk(found.tree, cheap).values[0]
    final = np.take_along_axis(risk, (cheap.n_steps - 1)[None, :, None], axis=2)[..., 0]
    typical = np.median(np.log(np.maximum(final, 1e-12)), axis=1)
    fails = evidence.family.cdf((typical - given["beta0"] - evidence.features[rows] @ given["beta"].T) / given["s"])
    out[CHEAP] = rows, (can[rows] * (1 - fails) + (1 - can[rows]) * _luck(found)[rows])[:, None]
    rows = np.flatnonzero(played & (trials > 0) & (not noise.exact_outcomes))
    out[AGAIN] = rows, succeeds[rows, None]
    rows = np.flatnonzero(unmarked & (evidence.n == len(episodes)))
    out[MARK] = rows, _marked(found, episodes.take(rows), can[rows]) if len(rows) else np.zeros((0, 1, can.shape[1]))
    return {kind: each for kind, each in out.items() if len(each[0])}


def _marked(found: Approximation, episodes: Episodes, can: np.ndarray) -> np.ndarray:
    """Return the probability that a mark lies in each quarter but the last, (task, quarter, draw)."""
    q, n_steps = handoff_score(found.tree, episodes).values[0], episodes.n_steps
    q = np.where(np.arange(q.shape[2]) < n_steps[:, None], q, 0.0)
    by = q / np.maximum(np.take_along_axis(q, (n_steps - 1)[None, :, None], axis=2), 1e-300)
    mean = by.mean(axis=0)
    ends = np.array([(mean < quarter).argmin(axis=1) for quarter in np.arange(1, BINS) / BINS]).T
    until = np.take_along_axis(by, ends[None], axis=2)
    anywhere = (ends + 1) / n_steps[:, None]
    upto = can[:, None] * until.transpose(1, 2, 0) + (1 - can)[:, None] * anywhere[:, :, None]
    return np.diff(upto, axis=1, prepend=0.0)


@dataclass(frozen=True, eq=False)
class _Told:
    """Candidates and gains as deviations over draws: covariances are inner products.

    Attributes
    ----------
    seen
        (candidate, outcome, direction): probabilities less their means, over the root of the number of draws.
    noise
        (candidate, outcome, outcome): covariance of the outcomes given the parameters, in the mean.
    gains
        (direction, task): the gains likewise. Directions are those in which draws differ.
    tasks
        How many gains there are.
    """

    seen: np.ndarray
    noise: np.ndarray
    gains: np.ndarray
    tasks: int

    @classmethod
    def of(cls, probability: np.ndarray, gains: np.ndarray) -> _Told:
        root = math.sqrt(len(gains))
        mean = probability.mean(axis=2)
        seen = (probability - mean[..., None]) / root
        total = np.einsum("ij,jk->ijk", mean, np.eye(mean.shape[1])) - mean[:, :, None] * mean[:, None]
        noise = total - seen @ seen.transpose(0, 2, 1) + 1e-9 * np.eye(mean.shape[1])
        gains = (gains - gains.mean(axis=0)).T / root
        # What differs between draws has about as many directions as there are parameters.
        flat = seen.reshape(-1, seen.shape[2])
        size, along = np.linalg.eigh(flat.T @ flat / np.sum(flat**2) + gains.T @ gains / np.sum(gains**2))
        along = along[:, -(1 + int(np.searchsorted(np.cumsum(size[::-1]), (1 - 1e-4) * size.sum()))) :]
        return cls(seen @ along, noise, (gains @ along).T, len(gains))

    def left(self, chosen: list[int] | np.ndarray) -> float:
        """Return the standard deviation of a gain once all of these were observed."""
        rows = self.seen[chosen]
        size = self.seen.shape[2]
        weighted = np.linalg.solve(self.noise[chosen], rows).reshape(-1, size)
        after = np.linalg.solve(np.eye(size) + rows.reshape(-1, size).T @ weighted, self.gains)
        return math.sqrt(max(float(np.sum(self.gains * after)), 0.0) / self.tasks)

    def greedy(self, n: int) -> tuple[list[int], list[float]]:
        """Choose n, each the one that tells most beside those before; and what is left after each."""
        after, order, left = np.eye(self.seen.shape[2]), list[int](), list[float]()
        free = np.ones(len(self.seen), dtype=bool)
        for _ in range(n):
            moved = self.seen @ after
            cross, within = moved @ self.gains, self.noise + moved @ self.seen.transpose(0, 2, 1)
            told = np.where(free, np.sum(cross * np.linalg.solve(within, cross), axis=(1, 2)), -np.inf)
            best = int(told.argmax())
            after = after - moved[best].T @ np.linalg.solve(within[best], moved[best])
            free[best] = False
            order.append(best)
            left.append(math.sqrt(max(float(np.sum(self.gains * (after @ self.gains))), 0.0) / self.tasks))
        return order, left
