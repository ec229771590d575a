"""How far so few tasks choose: what other development tasks of the same kind would have chosen, by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import Outcomes
from bayes_tacit.decisions.selection import choose
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import World
from bayes_tacit.policies.base import FittedPolicy
from simulations.played.experiment import Experiment
from simulations.played.needed import hands_off

RESAMPLES = 1_000
CENTRAL = (0.05, 0.95)
THRESHOLDS = {"alpha", "target"}
"""What settings of a policy may consist of that has a threshold and nothing else."""

MEASURES: dict[str, Callable[[Outcomes], np.ndarray]] = {
    "success": lambda found: found.success,
    "cost": lambda found: found.cost,
    "intervention_rate": lambda found: found.strong_calls > 0,
}
"""What a choice looks at, by task."""


def chosen_again(experiment: Experiment, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Choose again on resampled development tasks.

    Returns
    -------
    dict
        By policy that hands off for good by a threshold alone: for each resample the row of its candidates that is
        chosen (`setting`; -1 where none is within the cap, and Cheap plays alone), and `success` and `cost` of that on
        the test tasks.
    """
    rng = np.random.default_rng(seed)
    n = len(experiment.development)
    drawn = rng.integers(n, size=(resamples, n))
    strong = experiment.development.counterfactuals.pure_strong.cost
    caps = experiment.share * strong[drawn].mean(axis=1)
    return {
        name: _again(fitted, experiment.development, experiment.test, drawn, caps)
        for name, fitted in experiment.comparison.fitted.items()
        if (hands_off(fitted) and {"alpha"} <= set(fitted.candidates) <= THRESHOLDS)
    }


def _again(fitted: FittedPolicy, development: World, test: World, drawn: np.ndarray, caps: np.ndarray) -> pd.DataFrame:
    candidates = fitted.candidates
    settings = [row for _, row in candidates.iterrows()]
    chosen_on = [fitted.outcomes(development, one) for one in settings]
    tested = [fitted.outcomes(test, one).point() for one in settings]
    columns = {name: np.stack([measure(one) for one in chosen_on]) for name, measure in MEASURES.items()}
    alone = test.counterfactuals.pure_cheap.point()
    rows = []
    for some, cap in zip(drawn, caps.tolist(), strict=True):
        means = {name: values[:, some].mean(axis=1) for name, values in columns.items()}
        try:
            place = choose(candidates.assign(**means), cap).position
        except InvalidDataError:
            place = -1
        point: Mapping[str, float] = alone if place == -1 else tested[place]
        rows.append({"setting": place, "success": point["success"], "cost": point["cost"]})
    return pd.DataFrame(rows)
