"""Paired outcomes and teacher windows, turned into what each episode says about its threshold.

Every episode says whether Strong succeeded. Beyond that, on the cumulative-risk scale R:

========================  =====================================  =========
episode                   what it says of the threshold kappa    kind
========================  =====================================  =========
AB = 01, window [a, b]    R(a-1) < kappa <= R(b)                 interval
the same, R(a-1) = 0      kappa <= R(b)                          left
AB = 11                   kappa > R(H-1)                         right
AB = 01 without window    nothing
B = 0                     nothing
========================  =====================================  =========

R depends on the weights w that are still to be learned, but only through the diagnostics summed up to the two
bounding checkpoints. Those sums are all that the likelihood needs, whatever the horizon.
"""

from bayes_tacit.model.evidence.collect import collect_evidence, typical_log_threshold
from bayes_tacit.model.evidence.record import Evidence, ZeroMass
from bayes_tacit.model.evidence.simplex import Weights

__all__ = ["Evidence", "Weights", "ZeroMass", "collect_evidence", "typical_log_threshold"]
