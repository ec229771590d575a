"""The section of a page on what is recommended, and why."""

from __future__ import annotations

from bayes_tacit.policies import Recommendation
from simulations.played.experiment import Experiment
from simulations.played.page_tables import interval
from simulations.played.policies import DEFERRAL
from simulations.studies.tables import markdown_table


def advice_section(experiment: Experiment, tasks: str) -> list[str]:
    """Say what is recommended from fit and development tasks, and what came of it on the test tasks."""
    advice = experiment.recommendation
    if advice is None:
        return []
    points = {str(row["policy"]): row for row in experiment.comparison.table.to_dict("records")}
    best = max((name for name in points if not name.startswith("Pure")), key=lambda name: points[name]["success"])
    named, top = (
        f"{points[name]['success']:.1%} at a cost of {points[name]['cost']:.2f}" for name in (advice.name, best)
    )
    return [
        "## What is recommended",
        f"{advice_words(advice, tasks)} On the test {tasks} {advice.name} solves {named}; the best of all policies "
        f"there is {best}, {top}. {_against_deferral(experiment, advice.name)}",
        advice_table(advice),
        f"Each policy's setting is chosen on four fifths of the {advice.n_tasks} development {tasks} and judged on the "
        f"last fifth, in turn; test {tasks} are not looked at. Intervals and probabilities: Bayesian bootstrap.",
    ]


def _against_deferral(experiment: Experiment, name: str) -> str:
    """Compare what is recommended with Step Deferral, which was the best of the paper's policies for a script."""
    if name == DEFERRAL:
        return "That is Step Deferral itself."
    (row,) = [one for one in experiment.comparison.gains(name).to_dict("records") if one["over"] == DEFERRAL]
    success, cost = (
        interval(row, measure, *shown)
        for measure, shown in (("success_difference", (100, 1)), ("cost_difference", (1, 2)))
    )
    return f"Against {DEFERRAL} it is {success} points of success at a cost that differs by {cost}."


def advice_table(advice: Recommendation) -> str:
    """Give what each policy is expected to do on new games, by cross-validation on the development games."""
    rows = [
        [
            f"**{row['policy']}**" if row["policy"] == advice.name else str(row["policy"]),
            f"{100 * row['success']:.1f}% ({100 * row['success_lower']:.1f} to {100 * row['success_upper']:.1f})",
            f"{row['cost']:.1f}",
            f"{100 * row['ahead']:+.1f} ({100 * row['ahead_lower']:+.1f} to {100 * row['ahead_upper']:+.1f})",
            f"{100 * row['probability_best']:.0f}%",
        ]
        for row in advice.table.to_dict("records")
    ]
    head = ["policy", "held-out success (95% interval)", "cost", "named one ahead by, points", "is the best"]
    return markdown_table(head, rows)


def advice_words(advice: Recommendation, tasks: str) -> str:
    """Say which policy is named, and why."""
    expected = advice.expected
    why = "it has the highest held-out success"
    if advice.too_little:
        why = (
            f"{advice.best} has the highest held-out success, but {advice.n_tasks} {tasks} cannot tell the two apart "
            f"to a point, and {advice.name} is the simplest policy within one standard error of it"
        )
    return (
        f"`recommend` names **{advice.name}**: {why}. Of whatever it names on such {tasks} it expects "
        f"{100 * expected['success']:.1f}% ({100 * expected['success_lower']:.1f} to "
        f"{100 * expected['success_upper']:.1f}) at a cost of {expected['cost']:.1f}."
    )
