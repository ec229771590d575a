"""How sure the averages of a policy are, and its difference from another one on the same tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.errors import InvalidDataError


def bootstrap(
    outcomes: Outcomes,
    baseline: Outcomes | None = None,
    *,
    resamples: int = 10_000,
    probability: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute percentile intervals by resampling tasks with replacement.

    A resample takes a task with everything that was done on it, so a difference compares the two policies on the same
    tasks. The interval is about which tasks were drawn; it does not know that a candidate was chosen on them.

    Parameters
    ----------
    outcomes
        What came of a policy, by episode.
    baseline
        What came of another policy on the same episodes, in the same order.
    resamples
        How many sets of tasks are drawn.
    probability
        Mass of the intervals, equal-tailed.
    seed
        Decides the draws.

    Returns
    -------
    pandas.DataFrame
        Rows `success` and `cost`, and with a baseline `success_difference` and `cost_difference`; columns `estimate`,
        `lower` and `upper`.

    Examples
    --------
    >>> ours = Outcomes(success=[1, 1, 1, 0], cost=[5, 4, 5, 6], cheap_calls=[2, 1, 2, 3], strong_calls=[1, 1, 1, 1])
    >>> theirs = Outcomes(success=[1, 0, 1, 0], cost=[3, 3, 3, 3], cheap_calls=[3, 3, 3, 3], strong_calls=[0, 0, 0, 0])
    >>> bootstrap(ours, theirs, seed=1)
                        estimate  lower  upper
    success                 0.75   0.25   1.00
    cost                    5.00   4.25   5.75
    success_difference      0.25   0.00   0.75
    cost_difference         2.00   1.25   2.75
    """
    resamples = validate.whole("resamples", resamples, 1, 10_000_000)
    probability = validate.probability("probability", probability)
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    columns = _columns(outcomes, baseline)
    values = np.column_stack(list(columns.values()))
    n = len(values)
    means = np.empty((resamples, values.shape[1]))
    for mean in means:
        times_drawn = np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
        mean[:] = times_drawn @ values / n
    tail = (1 - probability) / 2
    lower, upper = np.quantile(means, [tail, 1 - tail], axis=0)
    return pd.DataFrame({"estimate": values.mean(axis=0), "lower": lower, "upper": upper}, index=list(columns))


def _columns(outcomes: Outcomes, baseline: Outcomes | None) -> dict[str, np.ndarray]:
    given = {"outcomes": outcomes} if baseline is None else {"outcomes": outcomes, "baseline": baseline}
    for name, value in given.items():
        if not isinstance(value, Outcomes):
            raise InvalidDataError("Outcomes", field=name, value=value)
    columns = {"success": outcomes.success, "cost": outcomes.cost}
    if baseline is None:
        return columns
    if len(baseline) != len(outcomes):
        expected = f"{len(outcomes)}, the same as of the other policy: they are paired"
        raise InvalidDataError(expected, field="number of episodes of the baseline", value=len(baseline))
    differences = {f"{name}_difference": ours - getattr(baseline, name) for name, ours in columns.items()}
    return columns | differences
