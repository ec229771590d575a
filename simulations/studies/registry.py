"""Which studies there are, by name; a study's module, which may be slow to import, is imported when asked for."""

from __future__ import annotations

from importlib import import_module

from bayes_tacit.errors import InvalidDataError
from simulations.studies.study import Study

STUDIES = {
    "recovery": "simulations.studies.recovery",
    "noise": "simulations.studies.noise",
    "mechanism": "simulations.studies.mechanism",
    "sensitivity": "simulations.studies.sensitivity",
    "random": "simulations.studies.random_mechanisms",
    "curves": "simulations.studies.curves",
    "small_samples": "simulations.studies.small_samples",
    "few_outcomes": "simulations.studies.few_outcomes",
    "choosing": "simulations.studies.choosing",
    "sbc": "simulations.studies.sbc",
    "sbc_extensions": "simulations.studies.sbc_extensions",
    "groups": "simulations.studies.groups",
    "unmarked": "simulations.studies.unmarked",
    "power": "simulations.studies.power",
    "stability": "simulations.studies.stability",
}
"""Module of each study, in the order in which `all` runs them; the module's `STUDY` is the study."""

EXPERIMENTS = {
    "alfworld": "A scripted pair on the real ALFWorld engine: every policy is played; needs --data.",
    "alfworld_learned": "The same with a pair that learned from the games' walkthroughs; needs --data.",
    "dabench": "Two analysts by rule on DABench's questions in the sandbox: every policy is played; needs --data.",
    "intercode": "Real logs of two language models on SQL tasks: every policy that logs can evaluate; needs --data.",
    "intercode_databases": "The same logs: what partially pooled intercepts of few-shot databases gain; needs --data.",
}
"""What is run by name too and needs games or logs that do not come with the code."""

LOGS = ("intercode", "intercode_databases")
"""Those of them that read the logs of InterCode."""


def load(name: str) -> Study:
    """Give the study of this name."""
    if name not in STUDIES:
        raise InvalidDataError(f"one of {', '.join([*STUDIES, *EXPERIMENTS])}, or all", field="study", value=name)
    return import_module(STUDIES[name]).STUDY
