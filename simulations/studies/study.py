"""What a study is, and which there are, by name.

A study is settings, one function that computes a replicate, and one that makes tables and figures of all. Its module,
which may be slow to import, is imported when asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.errors import InvalidDataError

type Row = dict[str, float | int | str | bool]
"""One row of a study's table: plain numbers and words."""


@dataclass(frozen=True)
class Setting:
    """One setting of a study.

    Attributes
    ----------
    name
        As in tables and on the command line.
    values
        What makes it differ from the others, as JSON can hold it.
    share
        How many replicates it gets, as a share of the study's.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0


@dataclass(frozen=True)
class Study:
    """A study that `python -m simulations` runs.

    Its functions are top-level ones, so that other processes can import them.

    Attributes
    ----------
    name
        As on the command line; also the name of the results folder.
    title
        Heading of its page of results.
    description
        One sentence for the list of studies.
    settings
        At least one. Their order is part of the seeds.
    parameters
        Everything else that fixes the numbers, as JSON can hold it. A results folder that was made with other settings
        or parameters is refused.
    replicate
        Takes a setting, the number of the replicate and its `SeedSequence`; returns rows of the study's table. Nothing
        but these arguments may decide the result. `setting` and `replicate` are put in front of each row.
    summarize
        Takes the table (`setting`, `replicate`, and the rows' columns, in the order of settings and replicates) and an
        empty folder; writes figures there and returns the results as Markdown.
    replicates, seed
        Defaults.
    paired
        Whether replicate k has the same seeds in all settings.
    cheapest
        The setting of which a test computes a replicate again; the first by default.
    agreement
        Relative and absolute difference that such a replicate may have from the committed one. On one machine there is
        none; on another, a sampler's path may part at the last bit.
    unsteady
        Columns that such a replicate may have otherwise: verdicts on the draws themselves, which hang on the path.
    arguments
        What the command line needs besides, as its page says it, such as " --data path/to/logs".
    """

    name: str
    title: str
    description: str
    settings: Sequence[Setting]
    parameters: Mapping[str, Any]
    replicate: Callable[[Setting, int, np.random.SeedSequence], list[Row]]
    summarize: Callable[[pd.DataFrame, Path], str]
    replicates: int
    seed: int
    paired: bool = False
    cheapest: str | None = None
    agreement: tuple[float, float] = (1e-6, 1e-7)
    unsteady: Sequence[str] = ()
    arguments: str = ""

    def seeds(self, setting: int, number: int, seed: int) -> np.random.SeedSequence:
        """Return the seeds of one replicate, which depend on nothing else."""
        return np.random.SeedSequence(seed, spawn_key=(0 if self.paired else setting, number))

    def position(self, name: str) -> int:
        """Find a setting."""
        names = [setting.name for setting in self.settings]
        if name not in names:
            raise InvalidDataError(
                f"one of {', '.join(names)}", field="setting", value=name, where=f"study {self.name}"
            )
        return names.index(name)

    def count(self, setting: int, replicates: int) -> int:
        """Return how many replicates a setting gets when the study has so many."""
        return math.ceil(self.settings[setting].share * replicates)

    def design(self) -> str:
        """Return a digest of settings and parameters: results with another one are those of another study."""
        content = {
            "settings": [[setting.name, setting.values] for setting in self.settings],
            "parameters": self.parameters,
            "paired": self.paired,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


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
    "strata": "simulations.studies.strata",
    "teachers": "simulations.studies.teachers",
    "power": "simulations.studies.power",
    "wrong_models": "simulations.studies.wrong_models",
    "stability": "simulations.studies.stability",
    "calibrations": "simulations.studies.calibrations",
    "optimizer": "simulations.studies.optimizer",
    "claim": "simulations.studies.claim",
}
"""Module of each study, in the order in which `all` runs them; the module's `STUDY` is the study."""

EXPERIMENTS = {
    "alfworld": "A scripted pair on the real ALFWorld engine: every policy is played; needs --data.",
    "alfworld_learned": "The same with a pair that learned from the games' walkthroughs; needs --data.",
    "dabench": "Two analysts by rule on DABench's questions in the sandbox: every policy is played; needs --data.",
    "intercode": "Real logs of two language models on SQL tasks: every policy that logs can evaluate; needs --data.",
    "intercode_databases": "The same logs: what partially pooled intercepts of few-shot databases gain; needs --data.",
    "pairs": "Real logs of six pairs: what recommend names on half of the tasks, on the other half; needs --data.",
}
"""What is run by name too and needs games or logs that do not come with the code."""

LOGS = ("intercode", "intercode_databases")
"""Those of them that read the logs of InterCode."""


def load(name: str) -> Study:
    """Return the study of this name."""
    if name not in STUDIES:
        raise InvalidDataError(f"one of {', '.join([*STUDIES, *EXPERIMENTS])}, or all", field="study", value=name)
    return import_module(STUDIES[name]).STUDY
