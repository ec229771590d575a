"""Remarks under the table of policies: what a chosen setting comes to where its numbers do not show it."""

from __future__ import annotations

from bayes_tacit.policies.base import number_in
from bayes_tacit.policies.trim import FittedTrim
from simulations.played.experiment import Experiment
from simulations.played.page_tables import setting_of
from simulations.played.policies import ALARM, DEFERRAL, TACIT

LOW = 1e-6
"""Below this a threshold is as good as zero."""


def remarks(experiment: Experiment) -> list[str]:
    """Give them as sentences; none where nothing is to be said."""
    said = []
    choices, fitted = experiment.comparison.choices, experiment.comparison.fitted
    if ALARM in choices and number_in(choices[ALARM].point, "alpha") <= 0:
        said.append(
            f"The threshold of {ALARM} that was chosen, 0, is reached by every step: here it hands over after the "
            "first one, whatever that was."
        )
    plain = forgetting_nothing(experiment)
    if plain:
        low = all(number_in(choices[name].point, "alpha") < LOW for name in plain)
        threshold = "next to nothing of risk is enough for it" if low else "one that the paper's grid does not have"
        said.append(
            f"Where memory = 1 and nothing else is chosen ({', '.join(plain)}), nothing is forgotten: that is {TACIT} "
            f"with another threshold, and {threshold}."
        )
    timings = [fitted[DEFERRAL].timing] if DEFERRAL in fitted else []  # type: ignore[attr-defined]
    judging = [one for one in fitted.values() if isinstance(one, FittedTrim)]
    if timings == ["proposal"] and any(one.timing == "post_action" for one in judging):
        said.append(
            f"The TRIM analogue judges a step after it was taken, since some diagnostics are known only then, and "
            f"Strong takes the next one; {DEFERRAL} judges the proposal, and Strong replaces it."
        )
    return said


def forgetting_nothing(experiment: Experiment) -> list[str]:
    """Name the policies that search for a memory and have chosen to forget nothing, and all else as it is.

    One that restarts the task is none of them: that is another handoff.
    """
    names = []
    for name, choice in experiment.comparison.choices.items():
        if getattr(experiment.comparison.fitted[name], "handoff", "resume") == "restart":
            continue
        if "memory" in choice.point and number_in(choice.point, "memory") == 1:
            parts = setting_of(experiment, name).split(", ")
            if [part for part in parts if not part.startswith("alpha = ")] == ["memory = 1"]:
                names.append(name)
    return names
