"""What an episode may use and what it has used."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_tacit import validate
from bayes_tacit.agents.protocols import Agent
from bayes_tacit.data.costs import CostModel, cost_of_calls


@dataclass(frozen=True)
class Budget:
    """How long an episode may be.

    Attributes
    ----------
    actions
        Executed actions, invalid ones included.
    calls
        Calls of either agent that were answered, discarded proposals included; None for no limit.

    Both count anew after a restart, since a restart is a full rollout.
    """

    actions: int = 50
    calls: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("budget of actions", self.actions, 1)
        if self.calls is not None:
            validate.whole("budget of calls", self.calls, 1)

    def spent(self, actions: int, calls: int) -> bool:
        """Tell whether nothing more may be done."""
        return actions >= self.actions or (self.calls is not None and calls >= self.calls)


class Account:
    """Counts calls and turns them into cost.

    Examples
    --------
    >>> from bayes_tacit.data.costs import StepCost
    >>> account = Account(StepCost.paper("9b"))
    >>> [account.call("cheap"), account.call("strong"), account.one_off(1)], account.total
    ([2.25, 6.75, 1.75], 10.75)
    """

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self.cheap_calls = 0
        self.strong_calls = 0
        self.one_off_calls = 0
        self.total = self._evaluate()

    def call(self, agent: Agent) -> float:
        """Count a call and give what it adds to the cost."""
        if agent == "cheap":
            self.cheap_calls += 1
        else:
            self.strong_calls += 1
        return self._added()

    def one_off(self, calls: int) -> float:
        """Count calls that are no steps and give what they add to the cost."""
        self.one_off_calls += validate.whole("one-off calls", calls, 0)
        return self._added() if calls else 0.0

    def _added(self) -> float:
        before, self.total = self.total, self._evaluate()
        return self.total - before

    def _evaluate(self) -> float:
        return float(cost_of_calls(self._cost, [self.cheap_calls], [self.strong_calls], [self.one_off_calls])[0])
