"""What came of a policy on each episode, and its averages."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from bayes_tacit.errors import InvalidDataError

AVERAGES = ("success", "cost", "strong_share", "intervention_rate")
"""What a policy is judged by, as `averages` defines it."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Success, cost and calls of one policy, by episode.

    Any policy that has these four can be averaged, compared and chosen by `bayes_tacit.decisions.selection`.

    Attributes
    ----------
    success
        0 or 1.
    cost
        In any unit; whatever the policy called is in it.
    cheap_calls, strong_calls
        How often each agent was asked.

    Examples
    --------
    >>> Outcomes(success=[1, 0], cost=[14, 8], cheap_calls=[2, 8], strong_calls=[4, 0]).point()
    {'success': 0.5, 'cost': 11.0, 'strong_share': 0.2857142857142857, 'intervention_rate': 0.5}
    """

    success: np.ndarray
    cost: np.ndarray
    cheap_calls: np.ndarray
    strong_calls: np.ndarray

    def __post_init__(self) -> None:
        """Bring everything into arrays of one length, and check the numbers."""
        for name in (field.name for field in fields(self)):
            values = _numbers(name, getattr(self, name))
            if values.shape != np.shape(self.success):
                expected = f"{len(np.atleast_1d(self.success))}, as there are in success"
                raise InvalidDataError(expected, field=f"number of episodes in {name}", value=len(values))
            object.__setattr__(self, name, values)
        wrong = (self.success != 0) & (self.success != 1)
        if wrong.any():
            first = int(wrong.argmax())
            value = float(self.success[first])
            raise InvalidDataError("0 or 1", field="success", value=value, where=f"position {first}")

    def __len__(self) -> int:
        return len(self.success)

    def point(self) -> dict[str, float]:
        """Give the averages that a policy is judged by.

        Returns
        -------
        dict
            `success` and `cost`, means over episodes; `strong_share`, Strong's share of all calls of an agent;
            `intervention_rate`, the share of episodes in which Strong was called at all.
        """
        asked = np.count_nonzero(self.strong_calls > 0)
        sums = [self.success.sum(), self.cost.sum(), self.cheap_calls.sum(), self.strong_calls.sum(), asked]
        return {name: float(value) for name, value in averages(np.array(sums), len(self)).items()}


def averages(sums: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Turn sums over n episodes into what a policy is judged by.

    Parameters
    ----------
    sums
        (5, ...): success, cost, Cheap's calls, Strong's calls, and episodes with a Strong call.
    n
        How many episodes.

    Returns
    -------
    dict
        What `Outcomes.point` describes, each with the shape that the sums have beside their first axis. Where no agent
        was called Strong's share is 0.

    Examples
    --------
    >>> averages(np.array([[1.0, 2.0], [22, 30], [10, 2], [4, 8], [1, 2]]), 2)["strong_share"].round(2)
    array([0.29, 0.8 ])
    """
    success, cost, cheap, strong, asked = sums
    calls = cheap + strong
    share = np.divide(strong, calls, out=np.zeros_like(calls), where=calls > 0)
    return dict(zip(AVERAGES, (success / n, cost / n, share, asked / n), strict=True))


def _numbers(name: str, given: object) -> np.ndarray:
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError("a number for each episode", field=name, value=given) from None
    if values.ndim != 1 or not values.size:
        raise InvalidDataError("(episode,), at least 1", field=f"shape of {name}", value=values.shape)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        first = int(wrong.argmax())
        value = float(values[first])
        raise InvalidDataError("a finite number >= 0", field=name, value=value, where=f"position {first}")
    values.flags.writeable = False
    return values
