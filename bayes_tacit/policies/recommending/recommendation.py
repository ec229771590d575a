"""What is recommended: a policy with its setting, what to expect of it, and how it stands to the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayes_tacit.decisions.selection import Choice
from bayes_tacit.policies.base import FittedPolicy
from bayes_tacit.router import PolicyRouter, Router


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The policy to use, and the evidence.

    Attributes
    ----------
    name
        Its name.
    fitted, choice
        The policy, fitted on training episodes, and what was chosen for it on all development tasks.
    cap
        The budget.
    table
        A row for each policy, from the simplest on: `policy`, its `setting` in words, held-out `success` with the ends
        `success_lower` and `success_upper` of its interval, `cost`, `probability_best` (that no other has more
        success on tasks like these), `ahead` (by how much the recommended one is ahead of it) with its interval, and
        `development_success` and `development_cost` of the chosen setting, on the tasks that it was chosen on.
    expected
        `success` and `cost` to expect on new tasks, with the ends of their intervals.
    best
        The policy with the most held-out success.
    simplest
        The simplest policy within one standard error of the best where there is too little data to tell the two apart;
        otherwise the best.
    left_out
        Policies that could not be fitted, judged or paid for, with the reason.
    n_tasks
        How many development tasks there were.
    frontier
        What it gives at other budgets, if that was asked for: `cap`, held-out `success` with its interval, and `cost`.
    """

    name: str
    fitted: FittedPolicy
    choice: Choice
    cap: float
    table: pd.DataFrame
    expected: Mapping[str, float]
    best: str
    simplest: str
    left_out: Mapping[str, str]
    n_tasks: int
    frontier: pd.DataFrame | None = None

    @property
    def setting(self) -> Mapping[str, object]:
        """The chosen setting, as `fitted.outcomes(world, setting)` and `fitted.controller(setting)` take it."""
        return self.choice.point

    @property
    def too_little(self) -> bool:
        """Whether there is too little data to tell the best from a simpler policy."""
        return self.simplest != self.best

    @property
    def reason(self) -> str:
        """Why this one, in a few sentences."""
        row = self._row(self.name)
        expected = self.expected
        said = [
            f"{self.name} is recommended: on new tasks expect {expected['success']:.1%} success "
            f"({expected['success_lower']:.1%} to {expected['success_upper']:.1%}) at a cost of "
            f"{expected['cost']:.4g} ({expected['cost_lower']:.4g} to {expected['cost_upper']:.4g}), under a cap of "
            f"{self.cap:.4g}."
        ]
        if not self.too_little:
            said.append(f"It is the best of {len(self.table)} with probability {row['probability_best']:.0%}.")
        elif self.name == self.simplest:
            ahead = -float(self._row(self.best)["ahead"])
            said.append(
                f"{self.n_tasks} development tasks are too few to tell whether {self.best} is better (it is "
                f"{100 * ahead:+.1f} points ahead on them), so the simplest policy within one standard error is taken."
            )
        else:
            ahead = float(self._row(self.simplest)["ahead"])
            said.append(
                f"It has the most held-out success and is the best of {len(self.table)} with probability "
                f"{row['probability_best']:.0%}, but {self.n_tasks} development tasks are too few to tell it from "
                f"{self.simplest}, the simplest policy within one standard error (it is {100 * ahead:+.1f} points "
                "ahead of that)."
            )
        return " ".join(said)

    def router(self) -> Router | PolicyRouter:
        """Give the router that decides so, to be saved and run by an agent."""
        return self.fitted.router(self.setting)

    def to_dict(self) -> dict[str, object]:
        """Give everything but the fitted policy, as JSON takes it."""
        return {
            "policy": self.name,
            "setting": dict(self.setting),
            "cap": self.cap,
            "expected": dict(self.expected),
            "best": self.best,
            "simplest": self.simplest,
            "too_little_data": self.too_little,
            "development_tasks": self.n_tasks,
            "policies": self.table.to_dict("records"),
            "left_out": dict(self.left_out),
            "frontier": None if self.frontier is None else self.frontier.to_dict("records"),
        }

    def _row(self, name: str) -> pd.Series[Any]:
        return self.table.iloc[int((self.table["policy"] == name).argmax())]

    def __repr__(self) -> str:
        shown = pd.DataFrame({"policy": self.table["policy"], "cost": self.table["cost"].map("{:.4g}".format)})
        for name in ("success", "success_lower", "success_upper", "probability_best", "ahead"):
            shown[f"{name}, %"] = (100 * self.table[name]).map("{:.1f}".format)
        return f"{self.reason}\n\n{shown.to_string(index=False)}"
