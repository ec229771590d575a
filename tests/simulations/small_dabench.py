"""A folder of a few questions in DABench's layout, and the experiment on it with policies that fit in no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from alfworld_fit import fit_of_made_up_episodes

from bayes_tacit.decisions.selection import Candidates
from bayes_tacit.policies import (
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
)
from simulations.__main__ import main
from simulations.dabench import DESCRIPTORS, DIAGNOSTICS, FEATURES
from simulations.dabench import experiment as command
from simulations.played.policies import DEFERRAL, POSTERIOR, TACIT

ASKED = ("outliers", "mean", "mean", "std", "outliers", "outliers", "wisdom", "wisdom", "mean")
N = len(ASKED)
ABSENT = "absent.csv"


def write_questions(home):
    """Write questions that both answer, that only the careful analyst does, and that neither does; one has no table."""
    (home / "da-dev-tables").mkdir(parents=True)
    rng = np.random.default_rng(1)
    fare = np.append(rng.lognormal(3, 1, 30), [2_000.0])
    age = 20 + rng.normal(0, 5, 31)
    pd.DataFrame({"Fare Paid": fare, "Age": age}).to_csv(home / "da-dev-tables" / "trips.csv", index=False)
    # Both know a mean. Cheap knows no outliers, and overlooks what a deviation is to be of; nobody knows of wisdom.
    kinds = {
        "outliers": ("Values whose z-score is above 3 are outliers.", _outliers),
        "mean": ("Two decimal places.", lambda values: f"{values.mean():.2f}"),
        "std": ("Of the population. Two decimal places.", lambda values: f"{values.std():.2f}"),
        "wisdom": ("Two decimal places.", lambda values: "42"),  # noqa: ARG005
    }
    with (home / "da-dev-questions.jsonl").open("w") as questions, (home / "da-dev-labels.jsonl").open("w") as labels:
        for at, name in enumerate(ASKED):
            constraints, statistic = kinds[name]
            column, values = (("Fare Paid", fare), ("Age", age))[at % 2]
            question = {
                "id": at + 1,
                "question": f'What is the {name} of "{column}"?',
                "concepts": ["Summary Statistics", "Feature Engineering"][: 1 + at % 2],
                "constraints": constraints,
                "format": f"@{name}_value[value]" + ", an integer" * (name == "outliers"),
                "file_name": ABSENT if at == N - 1 else "trips.csv",
                "level": ("easy", "hard")[at % 2],
            }
            questions.write(json.dumps(question) + "\n")
            answers = [[f"{name}_value", statistic(values)]]
            labels.write(json.dumps({"id": at + 1, "common_answers": answers}) + "\n")
    return home


def _outliers(values):
    return str(int((np.abs(values - values.mean()) > 3 * values.std()).sum()))


def policies(seed=0):  # noqa: ARG001
    fit = fit_of_made_up_episodes(FEATURES, DIAGNOSTICS, "proposal")
    # The made-up episodes are riskier than questions: their scores are small here, and the first sign is above 1e-20.
    alpha, coarser = Candidates([1e-20, 1e-7, 1e-3]), Candidates([1e-20, 1e-3])
    return [
        PureCheap(),
        TaskRouter.dabench(DESCRIPTORS),
        StepDeferral("nll", average_steps=(0, 1, 2), timing="proposal", name=DEFERRAL),
        PrefixRouter(prefixes=(1, 2), n_candidates=5),
        TacitSwitch(estimator=lambda _: fit, candidates=alpha, name=TACIT),
        PosteriorTacitSwitch(posterior=fit.to_datatree(), candidates=coarser, name=POSTERIOR),
        PureStrong(),
    ]


def run(data, out, kept, *more):
    """Run the command as it is, with these policies in the place of those that take minutes to fit."""
    command.compared_policies = policies
    few = ("Pure Cheap", TACIT, "Pure Strong")
    command.without_posterior = lambda seed: [policy for policy in policies(seed) if policy.name in few]
    words = ["dabench", "--data", data, "--out", out, "--kept", kept, *more]
    return main([str(word) for word in words])


if __name__ == "__main__":
    sys.exit(run(*map(Path, sys.argv[1:])))
