"""Pages on a router: what to run at each budget and what alpha does, and what a router would have done on logs."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import pandas as pd

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.estimates.map_fit import fit_map
from bayes_tacit.files import save_page, writable_page
from bayes_tacit.html import render, table_of
from bayes_tacit.scores.score import handoff_score

SHOWN = {"01": 4, "11": 2, "00": 2}
"""Example episodes, by outcomes AB."""

PARTS = {"answer": "Answer", "budget": "Budget", "alpha": "Alpha", "policies": "Policies", "provenance": "Provenance"}

TASKS = 200
"""Rows of the table of tasks on the page of a replay."""

BARS = 24
"""Most bars of its histogram."""


class Recommended(Protocol):
    """What the page needs of a recommendation; what `recommend` returns has it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def cap(self) -> float: ...  # noqa: D102
    @property
    def table(self) -> pd.DataFrame: ...  # noqa: D102
    @property
    def frontier(self) -> pd.DataFrame | None: ...  # noqa: D102


def recommendation_page(
    result: Recommended,
    world: World,
    path: str | os.PathLike[str],
    *,
    title: str = "Which policy to run",
    overwrite: bool = True,
) -> None:
    """Write a page on a recommendation: one HTML file that needs neither a network nor other files.

    A slider moves the budget: the policy, its success with the interval, its cost, the coin flip of the same cost and
    Pure Strong move with it. Another moves alpha on q(t) of a few episodes, from a fit that has not seen them.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example, recommend
    >>> from bayes_tacit.policies import PureCheap, TacitSwitch
    >>> tasks = load_example()
    >>> world = World.from_restarts(tasks, strong_steps=tasks.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> tried = [PureCheap(), TacitSwitch(handoff="restart")]
    >>> result = recommend(world, cap=40, policies=tried, frontier=5)
    >>> recommendation_page(result, world, "page.html")  # doctest: +SKIP
    """
    target = writable_page(path, overwrite=overwrite)
    if result.frontier is None:
        raise InvalidDataError("what it gives at other budgets: recommend(..., frontier=21)", field="frontier")
    pure = {
        "cheap": world.counterfactuals.pure_cheap.point(),
        "strong": world.counterfactuals.pure_strong.point(),
    }
    columns = ["policy", "setting", "success", "success_lower", "success_upper", "cost"]
    table = table_of(
        result.table[[name for name in columns if name in result.table]],
        "On tasks that it was not chosen on",
        formats={**dict.fromkeys(("success", "success_lower", "success_upper"), ".1%"), "cost": ",.4g"},
        labelled=False,
    )
    n = len(world)
    cap = float(result.cap) if math.isfinite(result.cap) else None
    page = render(
        "recommendation.html",
        title=title,
        subtitle=f"From {n:,} tasks that both models did. Written by bayes_tacit {version('bayes_tacit')}.",
        parts=PARTS,
        sentence=result.reason,
        policies=table,
        numbers={"budgets": budgets(result, pure), "pure": pure, "cap": cap, "episodes": examples(world.episodes)},
        provenance={
            "Tasks": f"{n:,}",
            "Cap": "none" if cap is None else f"{cap:.4g}",
            "Policies": f"{len(result.table)}",
        },
    )
    save_page(target, page)


def budgets(result: Recommended, pure: dict[str, dict[str, float]]) -> list[dict[str, object]]:
    """Return what is named at each budget, with the coin flip of the same cost beside it."""
    assert result.frontier is not None
    rows = result.frontier.assign(policy=result.frontier.get("policy", result.name))
    cheap, strong = pure["cheap"], pure["strong"]
    span = strong["cost"] - cheap["cost"]
    share = np.clip((rows["cost"] - cheap["cost"]) / span, 0, 1) if span else np.zeros(len(rows))
    rows["flip"] = cheap["success"] + share * (strong["success"] - cheap["success"])
    names = ["cap", "policy", "success", "success_lower", "success_upper", "cost", "flip"]
    return [{name: row[name] for name in names} for _, row in rows.iterrows()]


def examples(episodes: Episodes) -> list[dict[str, object]]:
    """Return q(t) of a few episodes from a fit on all others; none where nothing can be fitted."""
    length, outcomes = episodes.n_steps, np.asarray(episodes.outcomes)
    rows = [row for kind, most in SHOWN.items() for row in _longest(length, outcomes == kind, most)]
    if not rows:
        return []
    shown = episodes.take(np.array(rows))
    rest = episodes.take(np.setdiff1d(np.arange(len(episodes)), rows))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            scores = handoff_score(fit_map(rest), shown).values
    except TacitError:
        return []
    data = shown.dataset
    return [
        {
            "id": str(shown.ids[at]),
            "q": scores[at, : shown.n_steps[at]].round(5).tolist(),
            "window": None if not marked else [int(data["window_start"][at]), int(data["window_end"][at])],
            "cheap": str(shown.outcomes[at])[0] == "1",
            "strong": str(shown.outcomes[at])[1] == "1",
        }
        for at, marked in enumerate(shown.has_window)
    ]


def _longest(length: np.ndarray, wanted: np.ndarray, most: int) -> list[int]:
    found = np.flatnonzero(wanted)
    return found[np.argsort(-length[found], kind="stable")][:most].tolist()


def replay_page(
    tasks: pd.DataFrame, facts: Mapping[str, Any], path: str | os.PathLike[str], *, overwrite: bool = True
) -> None:
    """Write a page on what a router would have done on logs, in the look of the other pages.

    Parameters
    ----------
    tasks
        By task `steps`, `handoff_step` (-1 where nothing is handed off), and `success` and `cost` of restarts, NaN
        where they are not known.
    facts
        What `bayes-tacit replay --json` says: `tasks` and `handed_off`; with Strong's log `pairs`, `success`, `cost`,
        `coin_flip`, `above_coin`, and those of `pure_cheap` and `pure_strong`.
    """
    target = writable_page(path, overwrite=overwrite)
    steps = tasks["handoff_step"].to_numpy()
    handed = steps[steps >= 0]
    sentence = f"{facts['handed_off']:,} of {facts['tasks']:,} tasks would have been handed off."
    summary = {"Tasks": f"{facts['tasks']:,}", "Handed off": f"{facts['handed_off']:,}"}
    above = facts.get("above_coin")
    if above is not None:
        side = "below" if above < 0 else "above"
        sentence += f" Success is {100 * abs(above):.1f} points {side} a coin flip of the same cost."
        summary |= {"Tasks with both models": f"{facts['pairs']:,}", "Success": f"{facts['success']:.1%}"}
        summary |= {"Cost": f"{facts['cost']:,.4g}", "Coin flip, same cost": f"{facts['coin_flip']:.1%}"}
        summary |= {"Points above the coin flip": f"{100 * above:+.1f}"}
        for name in ("cheap", "strong"):
            pure = facts[f"pure_{name}"]
            summary[f"{name.capitalize()} alone"] = f"{pure['success']:.1%} at {pure['cost']:,.4g}"
    width = 1 + int(handed.max(initial=0)) // BARS
    counts = np.bincount(handed // width).tolist() if len(handed) else []
    shown = tasks.head(TASKS).dropna(axis="columns", how="all")
    page = render(
        "replay.html",
        title="What the router would have done",
        subtitle=f"On {facts['tasks']:,} tasks of a log. Written by bayes_tacit {version('bayes_tacit')}.",
        parts={"answer": "Answer", "handoffs": "Handoffs", "tasks": "Tasks", "provenance": "Provenance"},
        sentence=sentence,
        level="warning" if above is not None and above < 0 else "good",
        summary=summary,
        counts=counts,
        width=width,
        tasks=table_of(
            shown.assign(handoff_step=[str(step) if step >= 0 else "never" for step in shown["handoff_step"]]),
            "Each task" if len(tasks) <= TASKS else f"The first {TASKS} of {len(tasks):,} tasks",
            formats={"success": "g", "cost": ",.4g"},
        ),
        provenance={
            "Tasks": f"{facts['tasks']:,}",
            "Success and cost": "no log of Strong" if above is None else "restarts",
        },
    )
    save_page(target, page)
