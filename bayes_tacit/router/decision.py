"""What the router answers at a checkpoint."""

from __future__ import annotations

from typing import NamedTuple


class Decision(NamedTuple):
    """The answer at one checkpoint.

    Attributes
    ----------
    step
        The checkpoint, counted from 0.
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
        The threshold.
    handoff
        Whether Strong is in control from here on. Always false in shadow mode.
    handoff_step
        The first checkpoint whose score reached alpha, None before it. In shadow mode, where the handoff would have
        been.

    Examples
    --------
    >>> decision = Decision(3, 0.5, 2.0, 0.9, 0.42, None, None, 0.3, handoff=False, handoff_step=3)
    >>> decision.would_handoff
    True
    >>> decision.reason
    'score 0.42 reached alpha 0.3; shadow mode, so no handoff'
    """

    step: int
    risk: float
    cumulative_risk: float
    pi: float
    score: float
    lower: float | None
    upper: float | None
    alpha: float
    handoff: bool
    handoff_step: int | None

    @property
    def would_handoff(self) -> bool:
        """Whether the threshold was crossed, here or before; differs from `handoff` in shadow mode only."""
        return self.handoff_step is not None

    @property
    def reason(self) -> str:
        """The decision in a few words."""
        if self.handoff_step is None:
            return f"score {self.score:.6g} is below alpha {self.alpha:g}"
        shadow = "" if self.handoff else "; shadow mode, so no handoff"
        if self.handoff_step == self.step:
            return f"score {self.score:.6g} reached alpha {self.alpha:g}{shadow}"
        return f"alpha {self.alpha:g} was reached at step {self.handoff_step}{shadow}"
