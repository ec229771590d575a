"""Model recovery under correct specification (the paper's model-based AB-AFT study).

The scalar risk weight is fixed at one and nothing is penalized. Recovery fits use three starts of at most 500
iterations; the matched-noise fits use two of at most 350. AB = 11 is right-censored at the horizon with B = 1 observed.
The paper writes the features as a vector with an intercept and does not count them; three are used here.
"""

from __future__ import annotations

from dataclasses import replace

from models.experiment import Experiment

RECOVERY = Experiment(
    features=("x1", "x2", "x3"),
    diagnostics=("risk",),
    weights=(1.0,),
    ridge=0.0,
    restarts=3,
    max_iterations=500,
)

MATCHED_NOISE = replace(RECOVERY, restarts=2, max_iterations=350)
