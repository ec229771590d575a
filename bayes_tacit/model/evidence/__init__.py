"""Paired outcomes and teacher windows, turned into what each episode says about its threshold.

Every episode says whether Strong succeeded. Beyond that, on the cumulative-risk scale R:

========================  =====================================  =========
episode                   what it says of the threshold kappa    kind
========================  =====================================  =========
AB = 01, window [a, b]    R(a-1) < kappa <= R(b)                 interval
the same, R(a-1) = 0      kappa <= R(b)                          left
AB = 11                   kappa > R(H-1)                         right
AB = 01 without window    "outcome": nothing
the same                  "due": kappa <= R(H-1)                 left
B = 0                     nothing
========================  =====================================  =========

How an AB = 01 episode without a window is read is a choice (`unmarked`). The paper lets it count for its outcome
alone, while every AB = 11 episode still pushes thresholds up: the more marks are missing, the lower the scores. Read
as due, it says that the threshold was crossed by the end of the rollout. That assumes that since Strong solves the task
and Cheap does not, the handoff was due before Cheap's rollout ended, and that the mark is missing for reasons that have
nothing to do with when. No mark at all is needed then, if final risks differ between tasks; where they are alike, the
bands are too narrow, and a warning says so (`bayes_tacit.model.evidence.alike`). An episode in which no risk was ever
seen still says nothing.

R depends on the weights w that are still to be learned, but only through the diagnostics summed up to the two
bounding checkpoints. Those sums are all that the likelihood needs, whatever the horizon.
"""

from bayes_tacit.model.evidence.collect import collect_evidence, typical_log_threshold
from bayes_tacit.model.evidence.record import Evidence, Unmarked, ZeroMass
from bayes_tacit.model.evidence.simplex import Weights

__all__ = [
    "Evidence",
    "Unmarked",
    "Weights",
    "ZeroMass",
    "collect_evidence",
    "typical_log_threshold",
]
