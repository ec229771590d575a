"""The paper's Algorithm 1: Cheap plays, a controller looks at each checkpoint, and Strong may take over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.accounts import Account, Budget
from bayes_tacit.agents.play import Play
from bayes_tacit.agents.protocols import Actor, Environment, Extractor
from bayes_tacit.agents.recording import Recording
from bayes_tacit.agents.retry import Retry, ask
from bayes_tacit.agents.transcript.record import Header, Transcript
from bayes_tacit.agents.transcript.storage import TranscriptWriter
from bayes_tacit.data.costs import CostModel, StepCost
from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.router.control import Controller

DEFAULT_BUDGET = Budget()
DEFAULT_COST = StepCost(cheap=1, strong=3)
DEFAULT_RETRY = Retry()


def run_episode(
    environment: Environment,
    cheap: Actor | None,
    strong: Actor | None,
    controller: Controller,
    *,
    episode: str,
    extractor: Extractor | None = None,
    budget: Budget = DEFAULT_BUDGET,
    cost: CostModel = DEFAULT_COST,
    retry: Retry = DEFAULT_RETRY,
    recorded: Transcript | None = None,
    path: str | PathLike[str] | None = None,
    info: Mapping[str, Any] | None = None,
    seed: int = 0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.perf_counter,
) -> Transcript:
    """Play one episode.

    =====================  =============================================================================================
    what happens           what follows
    =====================  =============================================================================================
    environment is done    the episode ends, status "done"
    budget is spent        the episode ends, status "budget", no success
    controller restarts    the task begins anew with Strong, and a full budget; at the end of Cheap's episode, too
    invalid action         it counts as an action, is recorded as not valid, and the episode goes on
    unusable answer        the actor's fallback is taken, recorded as such, and the episode goes on
    transient actor error  the same call is made again as `retry` says; each failure is recorded, none is charged
    other actor error      the episode ends, status "actor_error", no success
    environment raises     the episode ends, status "environment_error", no success
    anything else raises   the exception passes, and the file stays torn
    =====================  =============================================================================================

    Parameters
    ----------
    environment
        The task.
    cheap, strong
        The agents; None for one that the controller never calls.
    controller
        The policy, such as `fitted.controller(setting)`; `PureController("cheap")` plays without any decision.
    episode
        Id of the task.
    extractor
        Gives features and diagnostics; without one there are none.
    budget
        How long the episode may be.
    cost
        What calls cost. Every answered call is charged, a discarded proposal and the prefix before a restart too.
    retry
        What to do about transient errors.
    recorded
        A Cheap rollout of this task. As long as Cheap alone has acted, its proposals are taken from there instead of
        asking Cheap, and the environment must answer as it did then.
    path
        Where to write the transcript as the episode goes; it gets this name when it is finished.
    info
        JSON values to keep in the transcript's header.
    seed
        For the jitter of waits.
    sleep, clock
        Wait and tell the time, in seconds.

    Returns
    -------
    Transcript
        What happened, the same as in the file.

    Raises
    ------
    InvalidDataError
        If features or diagnostics are not finite, or diagnostics are negative; if an agent is called that is None.
    ReplayError
        If the environment does not answer as recorded.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation, Proposal, PureController, StepResult
    >>> class Door:
    ...     def reset(self):
    ...         return Observation("A door.", ("open", "wait"), task="open the door")
    ...     def step(self, action):
    ...         return StepResult(Observation(action), done=action == "open", success=action == "open")
    >>> class Opener:
    ...     name = "opener"
    ...     def act(self, history):
    ...         return Proposal("open" if len(history) == 2 else "wait")
    >>> transcript = run_episode(Door(), Opener(), None, PureController("cheap"), episode="door")
    >>> transcript.end.status, transcript.end.success, transcript.end.cost
    ('done', True, 3.0)
    """
    header = Header(
        episode=episode,
        policy=controller.name,
        timing=validate.choice("timing", controller.timing, TIMINGS),
        cheap=None if cheap is None else cheap.name,
        strong=None if strong is None else strong.name,
        max_actions=budget.actions,
        max_calls=budget.calls,
        info=dict(info or {}),
    )
    play = Play(
        environment,
        {"cheap": cheap, "strong": strong},
        controller,
        header,
        extractor,
        budget,
        Account(cost),
        Recording(recorded, episode),
        partial(ask, retry=retry, rng=np.random.default_rng(seed), sleep=sleep),
        clock,
    )
    if path is None:
        return play.run(None)
    with TranscriptWriter(path) as writer:
        return play.run(writer.write)
