"""The comparison of policies: fitted on training data, chosen on development data, evaluated once on test data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import Choice, bootstrap, choose
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import FittedPolicy, Policy


@dataclass(frozen=True, eq=False)
class Comparison:
    """What came of a comparison.

    Attributes
    ----------
    cap
        The budget on development data.
    table
        One row a policy: `policy`, `setting` (in words), `development_success`, `development_cost`, and on test data
        `success`, `cost`, `strong_share`, `intervention_rate`.
    fitted, choices, outcomes
        By name: the fitted policy, what was chosen on development data, and what came of it on test data by episode.
    """

    cap: float
    table: pd.DataFrame
    fitted: Mapping[str, FittedPolicy]
    choices: Mapping[str, Choice]
    outcomes: Mapping[str, Outcomes]

    def gains(self, policy: str, *, resamples: int = 10_000, probability: float = 0.95, seed: int = 0) -> pd.DataFrame:
        """Compare one policy with each other one, `over`, on the same test tasks, by paired bootstrap intervals."""
        if policy not in self.outcomes:
            raise InvalidDataError(f"one of {list(self.outcomes)}", field="policy", value=policy)
        rows = []
        for other, theirs in self.outcomes.items():
            if other == policy:
                continue
            intervals = bootstrap(
                self.outcomes[policy], theirs, resamples=resamples, probability=probability, seed=seed
            )
            row: dict[str, object] = {"over": other}
            for name in ("success_difference", "cost_difference"):
                row[name] = intervals.loc[name, "estimate"]
                row |= {f"{name}_{end}": intervals.loc[name, end] for end in ("lower", "upper")}
            rows.append(row)
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"<Comparison under a cap of {self.cap:g}>\n{self.table.to_string(index=False)}"


def compare(
    policies: Iterable[Policy | FittedPolicy], training: Episodes | None, development: World, test: World, cap: float
) -> Comparison:
    """Fit policies, choose each one's setting under a budget, and evaluate the frozen choices.

    Parameters
    ----------
    policies
        Policies with different names, fitted or not; what is fitted already is taken as it is.
    training
        What the others are fitted on; their candidates come from it too. None if all are fitted.
    development
        Where each policy's setting is chosen, by `bayes_tacit.choose`.
    test
        Where each choice is evaluated, once.
    cap
        The highest mean cost on development data. Pure Cheap and Pure Strong are references and need not meet it.

    Raises
    ------
    InvalidDataError
        If no candidate of a policy is within the cap; the message names the policy and the lowest cost there is.

    Examples
    --------
    >>> import numpy as np
    >>> from bayes_tacit import Counterfactuals, StepCost, load_example
    >>> from bayes_tacit.policies import PureCheap, PureStrong, TacitSwitch, TaskRouter
    >>> cost = StepCost(cheap=1, strong=3)
    >>> def world(part):      # as if Strong could take over at any step and finish in as many as Cheap had left
    ...     left = part.n_steps[:, None] - np.arange(part.horizon)
    ...     known = part.dataset["cheap_success"].values, part.dataset["strong_success"].values[:, None]
    ...     calls, success = (np.where(left > 0, values, np.nan) for values in (left, known[1]))
    ...     table = Counterfactuals.from_calls(
    ...         part.ids, success=success, strong_calls=calls, never_success=known[0], cost=cost
    ...     )
    ...     return World(part, table, cost)
    >>> parts = load_example().split({"training": 0.5, "development": 0.25, "test": 0.25})
    >>> result = compare(
    ...     [PureCheap(), TaskRouter(), TacitSwitch(), PureStrong()],
    ...     parts["training"], world(parts["development"]), world(parts["test"]), cap=30,
    ... )
    >>> result.table[["policy", "development_cost", "success", "cost"]].round(2)
             policy  development_cost  success   cost
    0    Pure Cheap             18.01     0.25  19.00
    1   Task Router             29.35     0.40  29.95
    2  TACIT-Switch             29.81     0.67  32.61
    3   Pure Strong             54.02     0.69  57.00
    """
    chosen = tuple(policies)
    _check(chosen, training, development, test)
    fitted: dict[str, FittedPolicy] = {}
    choices: dict[str, Choice] = {}
    outcomes: dict[str, Outcomes] = {}
    rows = []
    for policy in chosen:
        fit = fitted[policy.name] = fitted_of(policy, training)
        choice = choices[policy.name] = _choice(policy.name, fit, development, cap)
        result = outcomes[policy.name] = fit.outcomes(test, choice.point)
        rows.append(
            {
                "policy": policy.name,
                "setting": fit.in_words(choice),
                "development_success": choice.success,
                "development_cost": choice.cost,
                **result.point(),
            }
        )
    table = pd.DataFrame(rows)
    return Comparison(
        float(cap), table, MappingProxyType(fitted), MappingProxyType(choices), MappingProxyType(outcomes)
    )


def success_cost_curve(
    fitted: FittedPolicy | Mapping[str, FittedPolicy], development: World, test: World, caps: Iterable[float]
) -> pd.DataFrame:
    """Choose a setting under each of many budgets, and evaluate it.

    Parameters
    ----------
    fitted
        A fitted policy, or several by name, as `Comparison.fitted` has them.
    development, test
        Where the settings are chosen, and evaluated.
    caps
        The budgets.

    Returns
    -------
    pandas.DataFrame
        A row for each cap: `cap`, the columns of the candidates, `development_success`, `development_cost`, and on test
        data `success`, `cost`, `strong_share`, `intervention_rate`; all NaN where no candidate is within the cap. With
        several policies, one under the other, with `policy` as the first column.
    """
    budgets = [float(cap) for cap in caps]
    if not isinstance(fitted, Mapping):
        return fitted.curve(development, test, budgets)
    curves = {name: one.curve(development, test, budgets) for name, one in fitted.items()}
    if not curves:
        raise InvalidDataError("at least one fitted policy", field="fitted", value={})
    return pd.concat(curves, names=["policy"]).reset_index("policy").reset_index(drop=True)


def describe(policies: Iterable[Policy]) -> pd.DataFrame:
    """Say what each policy sees and when it decides.

    Examples
    --------
    >>> from bayes_tacit.policies import PureCheap, TaskRouter
    >>> for row in describe([PureCheap(), TaskRouter()]).itertuples(index=False):
    ...     print(f"{row.policy} | {row.sees} | {row.decides}")
    Pure Cheap | Nothing. | Never: Cheap acts from start to end.
    Task Router | The task's features. | Before the first step: Cheap or Strong for the whole episode.
    """
    rows = [(policy.name, policy.sees, policy.decides) for policy in policies]
    return pd.DataFrame(rows, columns=["policy", "sees", "decides"])


def fitted_of(policy: Policy | FittedPolicy, training: Episodes | None) -> FittedPolicy:
    """Return a policy that was fitted as it is, and fit one that was not."""
    if not isinstance(policy, Policy):
        return policy
    assert training is not None
    return policy.fit(training)


def _choice(name: str, fitted: FittedPolicy, development: World, cap: float) -> Choice:
    if fitted.reference:
        points = fitted.operating_points(development)
        return choose(points, max(cap, float(points["cost"].max())))
    try:
        return fitted.choose(development, cap)
    except InvalidDataError as error:
        raise InvalidDataError(error.expected, field=error.field, value=error.value, where=f"policy {name!r}") from None


def _check(
    policies: tuple[Policy | FittedPolicy, ...], training: Episodes | None, development: World, test: World
) -> None:
    names = [policy.name for policy in policies]
    if not names:
        raise InvalidDataError("at least one policy", field="policies", value=[])
    if len(set(names)) < len(names):
        raise InvalidDataError("policies with different names: give name=...", field="names of policies", value=names)
    to_fit = [policy.name for policy in policies if isinstance(policy, Policy)]
    if (to_fit or training is not None) and not isinstance(training, Episodes):
        raise InvalidDataError(f"Episodes, to fit {', '.join(to_fit)}", field="training", value=training)
    for field, value in (("development", development), ("test", test)):
        if not isinstance(value, World):
            raise InvalidDataError("World", field=field, value=value)
