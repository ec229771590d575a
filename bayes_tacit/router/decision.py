"""What the router answers at a checkpoint, and who acts then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from bayes_tacit.data.timing import Handoff
from bayes_tacit.scores.ties import reached_from

Call = Literal["cheap", "strong", "strong_once", "restart"]
"""Who acts: Cheap; Strong from here to the end; Strong for one step; Strong from a fresh start to the end."""

STRONG_BY: Mapping[Handoff, Call] = {"resume": "strong", "restart": "restart"}
"""The call that hands off for good, by what Strong does then."""

OPENING = -1
"""The step of what is decided before the first one."""


class Decision(NamedTuple):
    """The answer at one checkpoint; what makes no sense for a policy is None.

    Attributes
    ----------
    step
        The checkpoint, counted from 0; -1 for the decision before the first step.
    risk
        The risk that this checkpoint added, R(t) - R(t-1), which is w u(t) if nothing is forgotten; under a posterior,
        its mean.
    cumulative_risk
        R(t), likewise.
    pi
        The incidence; under a posterior, its mean.
    score
        What is compared with alpha: q(t), or under a posterior its mean or quantile, as the rule says.
    lower, upper
        Ends of the central 90% of q(t) under the posterior; None for a point estimate.
    alpha
        The threshold in force at this step; None if none is ever reached.
    handoff
        Whether Strong is in control from here on. Always false in shadow mode.
    handoff_step
        The first checkpoint whose score reached alpha, None before it. In shadow mode, where the handoff would have
        been.
    call
        Who acts next: "cheap", "strong" to the end, "strong_once", or "restart", with Strong to the end of a task that
        begins anew. Always "cheap" in shadow mode.

    Examples
    --------
    >>> decision = Decision(3, 0.5, 2.0, 0.9, 0.42, None, None, 0.3, handoff=False, handoff_step=3)
    >>> decision.would_handoff
    True
    >>> decision.reason
    'score 0.42 reached alpha 0.3; shadow mode, so no handoff'
    """

    step: int
    risk: float | None
    cumulative_risk: float | None
    pi: float | None
    score: float | None
    lower: float | None
    upper: float | None
    alpha: float | None
    handoff: bool
    handoff_step: int | None
    call: Call = "cheap"

    @property
    def would_handoff(self) -> bool:
        """Whether the threshold was crossed, here or before; differs from `handoff` in shadow mode only."""
        return self.handoff_step is not None

    @property
    def reason(self) -> str:
        """The decision in a few words."""
        if self.handoff_step is None:
            return self._compared()
        shadow = "" if self.handoff else "; shadow mode, so no handoff"
        if self.handoff_step == self.step:
            return f"{self._compared()}{shadow}"
        when = "before the first step" if self.handoff_step == OPENING else f"at step {self.handoff_step}"
        return f"alpha was reached {when}{shadow}"

    def _compared(self) -> str:
        if self.score is None:
            return "decided without a score"
        if self.alpha is None:
            return f"score {self.score:.6g}, and no alpha to reach"
        reached = self.score >= reached_from(self.alpha)
        return f"score {self.score:.6g} {'reached' if reached else 'is below'} alpha {self.alpha:g}"
