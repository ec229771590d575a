"""What logs alone say about a threshold: bounds on its success and cost, and a first alpha to try.

A log holds both full rollouts of each task and no handoff in between, so what a handoff would have given is not known.
What is certain and what is possible, for an episode whose score crosses so that Strong acts from step k on:

==========================  ==================  ==============================================================
handoff                     success             calls
==========================  ==================  ==============================================================
never, or after the last    A, as in the log    as in the log
action
k = 0 (first proposal       B, as in the log    Strong's own rollout, and the discarded proposal
discarded)
0 < k < H                   0 or 1              k of Cheap (and the discarded proposal); of Strong at least 1,
                                                at most what the step budget leaves
==========================  ==================  ==============================================================

The first two rows hold for the realized rollouts: another run of the same agent on the same task may end differently.
`ASSUMPTIONS` names what narrows the third row. All bounds are about the average over the episodes of the log; how far
that is from the average over all tasks is another question, which more episodes answer.
"""

from bayes_tacit.decisions.bounds.assumptions import ASSUMPTIONS
from bayes_tacit.decisions.bounds.logs import Bounds, bounds_from_logs
from bayes_tacit.decisions.bounds.suggestion import Suggestion, suggest_alpha

__all__ = ["ASSUMPTIONS", "Bounds", "Suggestion", "bounds_from_logs", "suggest_alpha"]
