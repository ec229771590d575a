"""Cross-validation over all tasks: every task is a test task once.

The tasks are dealt into parts, and for each part policies are fitted on most of the other tasks and chosen on the rest
of them. What comes of each decision is read from the tables of continuations, each of which was played; on the main
experiment's test tasks such tables are checked against episodes that are played live.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from bayes_tacit.agents.marks import MarkEvidence
from bayes_tacit.agents.playing import Pair, Task
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import bootstrap
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.policies import Policy, World, compare
from simulations.played.policies import PURE, TACIT, recommended
from simulations.played.setup import Setup, single_steps
from simulations.studies.tables import markdown_table

PARTS, DEALT, CHOSEN_ON = 5, 2027, 0.3
"""How many parts, the seed of the deal, and the share of the other tasks that settings are chosen on."""

RECOMMENDED = "Recommended"

NO_POSTERIOR = "TACIT-Switch by posterior is left out: it would be sampled for each part."

COLUMNS = ("success", "cost", "cheap_calls", "strong_calls")


@dataclass(frozen=True, eq=False)
class Crossed:
    """What came of it."""

    # By policy, in the order of the tasks; each task under what was fitted and chosen without its part.
    outcomes: Mapping[str, Outcomes]
    named: tuple[str, ...]  # Which policy was recommended, by part
    # marked, failed: How many tasks with AB = 01 the teacher marked, and how many there are.
    marked: int
    failed: int
    wide: int  # How many marks span more than one checkpoint
    # Policies of which nothing was within the cap, once for each part in which that was so: there Cheap plays alone.
    beyond: tuple[str, ...] = ()


def cross_validate[T: Task](
    pairs: Sequence[Pair[T]],
    setup: Setup[T],
    policies: Callable[[], Sequence[Policy]],
    *,
    evidence: MarkEvidence = "range",
    parts: int = PARTS,
) -> Crossed:
    """Hold out each part in turn."""
    world, episodes = setup.world("all", pairs), setup.taught(pairs, evidence)
    order = np.random.default_rng(DEALT).permutation(len(pairs))
    columns: dict[str, np.ndarray] = {}
    named: list[str] = []
    beyond: list[str] = []
    for part in range(parts):
        held_out, others = order[part::parts], np.concatenate([order[at::parts] for at in range(parts) if at != part])
        chosen_on = others[: round(CHOSEN_ON * len(others))]
        training = episodes.take(np.sort(others[len(chosen_on) :]))
        development, test = (_some_of(world, pairs, setup, np.sort(rows)) for rows in (chosen_on, held_out))
        cap = setup.cap(development)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            fitted = {policy.name: policy.fit(training) for policy in policies()}
        outcomes = {}
        for name, policy in fitted.items():
            try:
                outcomes[name] = compare([policy], None, development, test, cap).outcomes[name]
            except InvalidDataError as error:
                if error.field != "cap":
                    raise
                outcomes[name] = test.counterfactuals.pure_cheap
                beyond.append(name)
        advice = recommended(fitted, development, cap)
        if advice is not None:
            outcomes[RECOMMENDED] = outcomes[advice.name]
            named.append(advice.name)
        for name, one in outcomes.items():
            table = columns.setdefault(name, np.full((len(COLUMNS), len(pairs)), np.nan))
            table[:, np.sort(held_out)] = [getattr(one, column) for column in COLUMNS]
    pooled = {name: Outcomes(*table) for name, table in columns.items()}
    return Crossed(pooled, tuple(named), *_marks(episodes), tuple(beyond))


def _some_of[T: Task](world: World, pairs: Sequence[Pair[T]], setup: Setup[T], rows: np.ndarray) -> World:
    """Return the world of some tasks, in which a part's own model of what looks wrong is played on these alone."""
    known = setup.continued("single steps", [pairs[row] for row in rows.tolist()])
    return replace(world.take(rows), single_steps=partial(single_steps, known))


def _marks(episodes: Episodes) -> tuple[int, int, int]:
    start, end = (episodes.dataset[name].values for name in ("window_start", "window_end"))
    marked = episodes.has_window
    return int(marked.sum()), int((episodes.outcomes == "01").sum()), int((end > start)[marked].sum())


def crossed_table(found: Crossed) -> pd.DataFrame:
    """Return a row for each policy: averages over all tasks, and TACIT-Switch's gain over it with a 95% interval."""
    rows = []
    for name, outcomes in found.outcomes.items():
        row = {"policy": name, **outcomes.point()}
        if name != TACIT:
            interval = bootstrap(found.outcomes[TACIT], outcomes, resamples=10_000, seed=0).loc["success_difference"]
            row |= {"gain": interval["estimate"], "gain_lower": interval["lower"], "gain_upper": interval["upper"]}
        rows.append(row)
    return pd.DataFrame(rows)


def crossed_words(found: Crossed) -> list[str]:
    """Return the table of a section, and in words what came of it."""
    table = crossed_table(found)
    n = len(found.outcomes[TACIT].success)
    rows = []
    for row in table.to_dict("records"):
        gain = "" if row["policy"] == TACIT else _points(row["gain"], row["gain_lower"], row["gain_upper"])
        rows.append(
            [
                str(row["policy"]),
                f"{round(row['success'] * n)}/{n} ({100 * row['success']:.1f}%)",
                f"{row['cost']:.2f}",
                f"{100 * row['strong_share']:.1f}%",
                f"{100 * row['intervention_rate']:.1f}%",
                gain,
            ]
        )
    head = ["policy", "successes", "mean cost", "strong share", "interventions", f"{TACIT} ahead by, points (95%)"]
    best = table[~table["policy"].isin([*PURE, RECOMMENDED])].sort_values("success").iloc[-1]
    said = f"The best single policy is {best['policy']} with {best['success']:.1%} at {best['cost']:.2f}."
    if found.beyond:
        parts = ", ".join(f"{name} ({found.beyond.count(name)})" for name in dict.fromkeys(found.beyond))
        said += f" Where nothing of a policy is within the cap, Cheap plays alone; parts in which: {parts}."
    if found.named:
        counts = {name: found.named.count(name) for name in dict.fromkeys(found.named)}
        each = ", ".join(f"{name} ({count} of {len(found.named)})" for name, count in counts.items())
        said += f" Recommended, by part: {each}."
    return [markdown_table(head, rows), said]


def _points(*values: float) -> str:
    middle, low, high = (f"{100 * value:+.1f}" for value in values)
    return f"{middle} ({low} to {high})"
