"""The policies that are compared: the paper's, those that the library has beyond it, and TACIT-Switch by posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import xarray as xr

from bayes_tacit.agents.playing import PAPER_COST
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.policies import (
    Cascade,
    Count,
    EvoRoute,
    FirstAlarm,
    FittedPolicy,
    Landmark,
    Policy,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    Trim,
    World,
)
from bayes_tacit.policies.from_logs import BY_LIKELIHOOD
from bayes_tacit.policies.tacit_switch import Grid
from models.experiment import UNMARKED, Experiment
from simulations.development_choice import FEWEST, Chosen, choose_policy
from simulations.tuned import STARTED_AND_PACED, Learner, TunedDeferral, TunedSwitch

ALARM = "First Alarm"
DEFERRAL = "Step Deferral"
TACIT = "TACIT-Switch"
DUE = "TACIT-Switch, unmarked = due"
POSTERIOR = "TACIT-Switch, posterior mean"
CAUTIOUS = 0.1
"""The quantile of the second posterior rule: Strong takes over where 90% of the posterior agrees."""

LEVELS = 13
"""Thresholds of Step Deferral by task: each one is played on every task."""


@dataclass(frozen=True)
class Compared:
    """In what the policies of one experiment differ from those of another."""

    experiment: Experiment  # What TACIT-Switch's fit fixes
    # task_router, deferral: These two as the paper has them for the benchmark.
    task_router: TaskRouter
    deferral: StepDeferral
    alarm: str  # The diagnostic that First Alarm looks at
    candidates: Grid  # Thresholds that TACIT-Switch tries, as the paper has them for the benchmark
    cost: StepCost = PAPER_COST  # What calls cost, for the one policy that weighs costs while it decides

    def policies(self, seed: int = 0) -> list[Policy]:
        """Return every policy of the library, the simplest first, and TACIT-Switch by posterior mean and a quantile."""
        fixed, timing, grid = self.experiment, self.experiment.timing, self.candidates
        signal, deferral_timing = self.deferral.diagnostic, self.deferral.timing
        posterior = SampledOnce(seed, timing)
        fitting = {"ridge": fixed.ridge, "restarts": fixed.restarts, "timing": timing}
        learner = Learner({"ridge": fixed.ridge, "timing": timing, "unmarked": UNMARKED})
        by_likelihood = {**fitting, "unmarked": UNMARKED, "memory": "profile", "clock": True}
        return [
            PureCheap(),
            self.task_router,
            FirstAlarm(self.alarm, timing, name=ALARM),
            Count(timing=timing),
            self.deferral,
            PrefixRouter(),
            Cascade(),
            # As many thresholds as Step Deferral has: each one is played on every task.
            Trim(unmarked=UNMARKED, average_steps=self.deferral.average_steps, timing=timing, n_candidates=LEVELS),
            Landmark(timing=timing),
            EvoRoute(cost=self.cost, timing=timing),
            TacitSwitch(estimator=fixed.fit, candidates=grid, name=TACIT),
            TacitSwitch(options={**fitting, "unmarked": "due"}, candidates=grid, name=DUE),
            PosteriorTacitSwitch(posterior=posterior, candidates=grid, name=POSTERIOR),
            PosteriorTacitSwitch(rule=CAUTIOUS, posterior=posterior, candidates=grid),
            TacitSwitch(options=by_likelihood, name=BY_LIKELIHOOD),
            TunedSwitch(("memory",), learner, name="TACIT-Switch with memory"),
            TunedSwitch(STARTED_AND_PACED, learner, name="TACIT-Switch with memory, start and pace"),
            TunedDeferral(signal, LEVELS, timing=deferral_timing),
            TunedSwitch(learner=learner),
            TunedSwitch(learner=learner, handoff="restart", name="Tuned switch, restart"),
            PureStrong(),
        ]


def is_family(name: str) -> bool:
    """Check whether a recommendation is made from a policy too: from all but second readings of TACIT-Switch."""
    return name not in (DUE, BY_LIKELIHOOD) and ", posterior" not in name


PURE = ("Pure Cheap", "Pure Strong")


def recommended(fitted: Mapping[str, FittedPolicy], development: World, cap: float) -> Chosen | None:
    """Recommend one of the fitted policies, tried from the simplest on; None with too few development tasks to say."""
    if len(development) < FEWEST:
        return None
    names = (*PURE, *(name for name in fitted if name not in PURE))
    return choose_policy(development, cap, [fitted[name] for name in names if is_family(name)])


class SampledOnce:
    """Samples the posterior of the same episodes once, for all policies that use it."""

    def __init__(self, seed: int = 0, timing: Timing = DEFAULT_TIMING) -> None:
        self.seed = seed
        self.timing = timing
        self._trees: dict[str, xr.DataTree] = {}

    def __call__(self, episodes: Episodes) -> xr.DataTree:
        """Return the posterior."""
        key = episodes.fingerprint()
        if key not in self._trees:
            self._trees[key] = sample_posterior(
                episodes, seed=self.seed, progress=False, unmarked=UNMARKED, timing=self.timing
            )
        return self._trees[key]
