"""Success-cost curves of all policies at all caps, beside nearly the best that any permanent handoff could do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import AVERAGES
from bayes_tacit.policies import success_cost_curve
from bayes_tacit.review.style import policy_style
from simulations.mechanism import calibration
from simulations.mechanism.exact import optimal_reference
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ABLATIONS,
    ADDED,
    ALARM,
    ALL,
    BASELINES,
    BEYOND,
    CAP,
    NEARLY,
    OF_ANALOGUES,
    TACIT,
    TUNED,
    contest,
    draw_worlds,
    names_of,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import figure_file, markdown_table, mean_and_half_width, with_half_width

CAPS = tuple(float(cap) for cap in range(10, 28))
BEST = "best possible"
REFERENCE_CAPS = (10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 24.0)
INDUCTION_TASKS = 100_000
LEARNED = (*names_of((*BASELINES, *BEYOND, *ABLATIONS)), TACIT.name, *names_of(ADDED))


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Choose every policy's setting at every cap; or, in the other setting, solve for the best possible."""
    mechanism = calibration().mechanism
    if setting.name == BEST:
        seed = int(seeds.generate_state(1)[0])
        n = INDUCTION_TASKS
        found = optimal_reference(mechanism, REFERENCE_CAPS, n_train=n, n_test=n, seed=seed)
        return [{"policy": BEST, **{str(key): value for key, value in row.items()}} for row in found.to_dict("records")]
    worlds = draw_worlds(mechanism, seeds)
    result = contest((*ALL, *ABLATIONS, *ADDED), worlds)
    curves = success_cost_curve(
        {name: result.fitted[name] for name in LEARNED}, worlds["development"], worlds["test"], CAPS
    )
    pure: list[Row] = [
        {"policy": name, "cap": np.inf, **result.outcomes[name].point()} for name in ("Pure Cheap", "Pure Strong")
    ]
    found = curves[["policy", "cap", *AVERAGES]].dropna()
    return [*({str(key): value for key, value in row.items()} for row in found.to_dict("records")), *pure]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show the curves, and every policy's distance from the best possible."""
    _plot(table, folder / "curves.png")
    gap = {name: reached(table, BEST, CAP) - reached(table, name, CAP) for name in LEARNED}
    leads = {
        name: _spans([cap for cap in CAPS if leader(table, cap) == name])
        for name in (TACIT.name, ALARM.name, TUNED.name)
    }
    return "\n\n".join(
        [
            f"**Reading.** Nearly the best that a permanent handoff can do at a cost of {CAP:g} is "
            f"{reached(table, BEST, CAP):.1f}%; TACIT-Switch is {gap[TACIT.name]:.1f} points below it, the best of "
            f"the paper's baselines {min(gap[name] for name in names_of(BASELINES)):.1f}, and First Alarm, which the "
            f"paper does not have, {gap[ALARM.name]:.1f} (TACIT-Switch minus First Alarm, paired by replicate: "
            f"{_over_alarm(table)} points). The tuned switch, whose numbers are searched on development outcomes, is "
            f"{gap[TUNED.name]:.1f} below it: of the gap between TACIT-Switch and the best possible it closes "
            f"{1 - gap[TUNED.name] / gap[TACIT.name]:.0%}. Of all policies but the ablations, TACIT-Switch has the "
            f"highest success at caps {leads[TACIT.name]}, First Alarm at caps {leads[ALARM.name]}, the tuned switch "
            f"at caps {leads[TUNED.name]}.",
            "![Success against cost](curves.png)",
            "Success on test tasks, %, at each development cap:",
            markdown_table(
                ["cap", *LEARNED, BEST],
                [[f"{cap:g}", *(_cell(table, name, cap) for name in LEARNED), _cell(table, BEST, cap)] for cap in CAPS],
            ),
            f"The best possible is found by backward induction on {INDUCTION_TASKS:,} tasks whose every counterfactual "
            "handoff is known, and measured once on as many others. It sees what TACIT-Switch sees (features and all "
            "risks "
            "so far) and may also hand off before the first step; it meets each cap on average, where the policies "
            "stay a "
            "little below it on test tasks. Step Deferral and the TRIM analogue hand over single steps, so they are "
            "not bound by it. At caps that a policy cannot use up, its curve is flat. The cascade and First Alarm are "
            f"not in the paper. {OF_ANALOGUES}",
        ]
    )


def reached(table: pd.DataFrame, policy: str, cap: float) -> float:
    """Return a policy's mean success at a cap, in percent; NaN where it has none."""
    return 100 * float(table[(table["policy"] == policy) & np.isclose(table["cap"], cap)]["success"].mean())


def _over_alarm(table: pd.DataFrame) -> str:
    at_cap = table[np.isclose(table["cap"], CAP)].pivot_table(index="replicate", columns="policy", values="success")
    return with_half_width(*mean_and_half_width(100 * (at_cap[TACIT.name] - at_cap[ALARM.name])), digits=2)


def leader(table: pd.DataFrame, cap: float) -> str:
    """Name the policy with the highest mean success at a cap, ablations aside."""
    names = [name for name in LEARNED if name not in names_of(ABLATIONS)]
    return max(names, key=lambda name: np.nan_to_num(reached(table, name, cap), nan=-1.0))


def _spans(caps: list[float]) -> str:
    """Write rising whole caps as spans, such as "11 to 24 and 27"."""
    spans: list[list[float]] = []
    for cap in caps:
        if spans and cap == spans[-1][-1] + 1:
            spans[-1].append(cap)
        else:
            spans.append([cap])
    words = [f"{span[0]:g} to {span[-1]:g}" if len(span) > 1 else f"{span[0]:g}" for span in spans]
    return " and ".join(words) or "none"


def _cell(table: pd.DataFrame, policy: str, cap: float) -> str:
    values = 100 * table[(table["policy"] == policy) & np.isclose(table["cap"], cap)]["success"]
    return with_half_width(*mean_and_half_width(values), digits=2) if len(values) else ""


def _plot(table: pd.DataFrame, path: Path) -> None:
    means = table.groupby(["policy", "cap"])[["success", "cost"]].mean()
    with figure_file(path, size=(8.2, 4.6)) as (figure, axes):
        ax = axes[0, 0]
        for name in (BEST, *LEARNED):
            color, marker = policy_style(name)
            curve = means.loc[name]
            line = {"linestyle": "--", "linewidth": 1.4} if name == BEST else {"linewidth": 1.5}
            ax.plot(
                curve["cost"], 100 * curve["success"], color=color, marker=marker, markersize=4.5, label=name, **line
            )
        for name, offset, align in (("Pure Cheap", (8, -4), "left"), ("Pure Strong", (0, 9), "center")):
            color, marker = policy_style(name)
            cost, success = means.loc[name][["cost", "success"]].to_numpy()[0]
            ax.plot([cost], [100 * success], marker, color=color, markersize=9)
            ax.annotate(name, (cost, 100 * success), xytext=offset, textcoords="offset points", ha=align)
        ax.axvline(CAP, color="#777777", linewidth=1, linestyle=":")
        ax.set(
            xlabel="mean cost of a test task (a Cheap step costs 1, a Strong step 3)", ylabel="success on test tasks, %"
        )
        figure.legend(loc="outside right center")


STUDY = Study(
    name="curves",
    title="Success-cost curves and the best possible",
    description="Success against cost at every cap for all policies, and their distance from the best possible.",
    settings=[Setting("policies"), Setting(BEST, share=0.05)],
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "sizes": dict(SIZES),
        "caps": CAPS,
        "reference_caps": REFERENCE_CAPS,
        "induction_tasks": INDUCTION_TASKS,
        "policies": names_of((*ALL, *ABLATIONS, *ADDED)),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=20,
    seed=20261206,
    agreement=NEARLY,
)
