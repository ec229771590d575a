"""The page of a recommendation: what to run at each budget, and what alpha does in single episodes."""

from __future__ import annotations

import math
import os
import warnings
from importlib.metadata import version
from typing import Protocol

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
