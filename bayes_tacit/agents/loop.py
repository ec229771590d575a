"""The paper's Algorithm 1: Cheap plays, a router looks at each checkpoint, and Strong may take over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from os import PathLike
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.protocols import (
    Actor,
    ActorError,
    Agent,
    Environment,
    Extractor,
    History,
    Observation,
    Proposal,
    ReplayError,
    Step,
    StepResult,
)
from bayes_tacit.agents.transcript import (
    ChoiceRecord,
    End,
    Failure,
    Header,
    Record,
    ResetRecord,
    RouterCall,
    Status,
    StepRecord,
    Transcript,
    TranscriptWriter,
)
from bayes_tacit.data.costs import CostModel, StepCost, cost_of_calls
from bayes_tacit.data.timing import discards_proposal
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import Call, Decision, HandoffState, Router

NON_NEGATIVE = "a finite number >= 0"


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
        """Check whether nothing more may be done."""
        return actions >= self.actions or (self.calls is not None and calls >= self.calls)


@dataclass(frozen=True)
class Retry:
    r"""How often a transient error is answered by asking again, and after how long.

    Before attempt k + 1 the wait is :math:`\min(\mathrm{first} \cdot \mathrm{factor}^{k-1}, \mathrm{longest})` times a
    factor drawn evenly from [1 - jitter, 1 + jitter], so that many episodes do not all come back at once; and at least
    as long as the other side asked for, though never above `patience`.

    Attributes
    ----------
    attempts
        Calls in all.
    first, factor, longest
        Seconds of the first wait, its growth, and its limit.
    jitter
        From 0 to 1.
    patience
        The longest wait in seconds that another side may ask for; a longer one is an error that is not transient.

    Examples
    --------
    >>> retry = Retry(first=1, longest=3, jitter=0)
    >>> [retry.wait(attempt, np.random.default_rng(0)) for attempt in (1, 2, 3, 4)]
    [1.0, 2.0, 3.0, 3.0]
    """

    attempts: int = 5
    first: float = 1.0
    factor: float = 2.0
    longest: float = 30.0
    jitter: float = 0.5
    patience: float = 120.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("attempts", self.attempts, 1)
        for name in ("first", "longest", "patience"):
            validate.number(name, getattr(self, name), NON_NEGATIVE, least=0)
        validate.number("factor", self.factor, "a finite number >= 1", least=1)
        validate.number("jitter", self.jitter, "a number from 0 to 1", least=0, most=1)

    def wait(self, attempt: int, rng: np.random.Generator) -> float:
        """Return the seconds to wait after so many failed attempts."""
        # The exponent is bounded so that a large number of attempts does not overflow.
        base = min(self.first * self.factor ** min(attempt - 1, 64), self.longest)
        return float(base * rng.uniform(1 - self.jitter, 1 + self.jitter))


class GivenUpError(ActorError):
    """An actor gave no answer however often it was asked; `failures` has each attempt."""

    def __init__(self, message: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(message)
        self.failures = failures


def asked_again[T](
    call: Callable[[], T], name: str, retry: Retry, rng: np.random.Generator, sleep: Callable[[float], None]
) -> tuple[T, tuple[Failure, ...]]:
    """Make a call until it is answered; return the answer and the attempts that failed before it.

    `GivenUpError` where it is not transient, the attempts are used up, or the other side asks for too long a wait.
    """
    failures: list[Failure] = []
    while True:
        try:
            return call(), tuple(failures)
        except ActorError as error:
            attempt = len(failures) + 1
            asked = error.retry_after or 0.0
            if not error.transient or attempt >= retry.attempts or asked > retry.patience:
                failures.append(Failure(str(error), None))
                calls = "1 call" if attempt == 1 else f"{attempt} calls"
                raise GivenUpError(f"{name}: {error} ({calls})", tuple(failures)) from error
            waited = max(retry.wait(attempt, rng), asked)
            failures.append(Failure(str(error), waited))
        sleep(waited)


DEFAULT_BUDGET = Budget()
DEFAULT_COST = StepCost(cheap=1, strong=3)
DEFAULT_RETRY = Retry()


def run_episode(
    environment: Environment,
    cheap: Actor | None,
    strong: Actor | None,
    router: Router,
    *,
    episode: str,
    extractor: Extractor | None = None,
    budget: Budget = DEFAULT_BUDGET,
    cost: CostModel = DEFAULT_COST,
    retry: Retry = DEFAULT_RETRY,
    recorded: Transcript | None = None,
    path: str | PathLike[str] | None = None,
    info: Mapping[str, Any] | None = None,
    shadow: bool = False,
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
    router restarts        the task begins anew with Strong, and a full budget; at the end of Cheap's episode, too
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
        The agents; None for one that the router never calls.
    router
        Decides, such as `Router.load("router.json")`; `pure("cheap")` plays without any decision. Where its timing is
        "proposal" a checkpoint is Cheap's proposal before it is executed.
    episode
        Id of the task.
    extractor
        Gives features and diagnostics; without one there are none. The router may also look at `nll`, the negative
        log-likelihood of Cheap's action (0 where it is not known), if no diagnostic is called so.
    budget, cost, retry
        How long the episode may be, what answered calls cost (discarded proposals and the prefix before a restart
        too), and what to do about transient errors.
    recorded
        A Cheap rollout of this task: as long as Cheap alone has acted, its proposals are taken from there, and the
        environment must answer as it did then (`ReplayError`).
    path
        Where to write the transcript as the episode goes; it gets this name when it is finished.
    info
        JSON values to keep in the transcript's header.
    shadow
        Decide and record, but never call Strong.
    seed, sleep, clock
        For the jitter of waits; to wait and tell the time, in seconds.

    Returns
    -------
    Transcript
        What happened, the same as in the file.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation, Proposal, StepResult
    >>> from bayes_tacit.router import pure
    >>> class Door:
    ...     def reset(self):
    ...         return Observation("A door.", ("open", "wait"), task="open the door")
    ...     def step(self, action):
    ...         return StepResult(Observation(action), done=action == "open", success=action == "open")
    >>> class Opener:
    ...     name = "opener"
    ...     def act(self, history):
    ...         return Proposal("open" if len(history) == 2 else "wait")
    >>> transcript = run_episode(Door(), Opener(), None, pure("cheap"), episode="door")
    >>> transcript.end.status, transcript.end.success, transcript.end.cost
    ('done', True, 3.0)
    """
    if recorded is not None and recorded.episode != episode:
        raise InvalidDataError(
            "the id of the recorded rollout", episode=recorded.episode, field="episode", value=episode
        )
    names = (None if cheap is None else cheap.name, None if strong is None else strong.name)
    header = Header(episode, router.policy, router.timing, *names, budget.actions, budget.calls, dict(info or {}))
    rng = np.random.default_rng(seed)

    def ask(actor: Actor, history: History) -> tuple[Proposal, tuple[Failure, ...]]:
        return asked_again(lambda: actor.act(history), actor.name, retry, rng, sleep)

    actors: dict[Agent, Actor | None] = {"cheap": cheap, "strong": strong}
    play = _Play(environment, actors, router, header, extractor, budget, cost, ask, clock, shadow)
    if recorded is not None:
        play.first = recorded.history(0).first
        cheap_alone = takewhile(
            lambda step: step.run == 0 and step.agent == "cheap" and step.result is not None, recorded.steps
        )
        play.recorded = tuple(cheap_alone)
    if path is None:
        return play.run(lambda _: None)
    with TranscriptWriter(path) as writer:
        return play.run(writer.write)


class _EnvironmentBrokeError(Exception):
    """The environment raised; the message says what."""


@dataclass
class _Play:
    """One episode while it is played."""

    environment: Environment
    actors: Mapping[Agent, Actor | None]
    router: Router
    header: Header
    extractor: Extractor | None
    budget: Budget
    cost: CostModel
    ask: Callable[[Actor, History], tuple[Proposal, tuple[Failure, ...]]]
    clock: Callable[[], float]
    shadow: bool
    # What Cheap proposed and the environment answered, for as long as Cheap alone has acted.
    recorded: tuple[StepRecord, ...] = ()
    first: Observation | None = None
    history: History = field(default_factory=lambda: History(Observation("")))
    restarts: int = -1
    calls_in_run: int = 0
    handoff_step: int | None = None

    def run(self, write: Callable[[Header | Record | End], None]) -> Transcript:
        """Play to the end."""
        self.write, self.records = write, list[Record]()
        self.calls = {"cheap": 0, "strong": 0, "one-off": 0}
        self.total = self._price()
        write(self.header)
        began = self.clock()
        error, failures = None, tuple[Failure, ...]()
        status: Status
        try:
            status = self._play()
        except GivenUpError as given_up:
            status, error, failures = "actor_error", str(given_up), given_up.failures
        except _EnvironmentBrokeError as broke:
            status, error = "environment_error", str(broke)
        end = End(
            status,
            status == "done" and self._last().success,
            len(self.history),
            self.calls["cheap"],
            self.calls["strong"],
            self.calls["one-off"],
            self.total,
            self.handoff_step,
            self.restarts > 0,
            self.clock() - began,
            error,
            failures,
        )
        write(end)
        return Transcript(self.header, tuple(self.records), end)

    def _play(self) -> Status:
        state = self.router.start(self._reset(), shadow=self.shadow, episode=self.header.episode)
        call = self._said(state.opening)
        while (over := self._over()) is None and call in ("cheap", "strong_once"):
            if call == "cheap":
                call = self._cheap_step(state)
            else:
                self._strong_step()
                call = "cheap"
        if over is not None and self._said(state.finish()) != "restart":
            return over
        if over is not None or call == "restart":
            self._reset()
        self.handoff_step = len(self.history)
        while (over := self._over()) is None:
            self._strong_step()
        return over

    def _over(self) -> Status | None:
        if self.history.steps and self._last().done:
            return "done"
        return "budget" if self.budget.spent(len(self.history), self.calls_in_run) else None

    def _said(self, decision: Decision | None) -> Call:
        """Record what was decided before the first step, or when Cheap's episode has ended."""
        if decision is None:
            return "cheap"
        choice = RouterCall(decision.call, facts=decision._asdict())
        self._record(ChoiceRecord(self.restarts, len(self.history), choice))
        return decision.call

    def _cheap_step(self, state: HandoffState) -> Call:
        """Have Cheap propose, and return who acts next; under "proposal" what is not Cheap's turn is discarded."""
        before = self.history
        step = self._ask_for("cheap")
        if not discards_proposal(self.router.timing):
            step = self._execute(step)
        diagnostics = None
        if self.extractor is not None:
            given = self.extractor.diagnostics(before, step.proposal, step.result)
            names, where = self.extractor.diagnostic_names, f"step {len(before)}"
            diagnostics = _numbers(given, names, "diagnostics", self.header.episode, where, least=0.0)
        decision = state.observe({"nll": step.proposal.nll or 0.0, **(diagnostics or {})})
        asked = decision.score is not None
        # After the last step there is nothing to hand over, and nothing is asked.
        one_off = self.router.rule.one_off if asked and self._over() is None else 0
        choice = RouterCall(decision.call, one_off, decision._asdict() if asked else {})
        cost = step.cost + (self._charge("one-off", one_off) if one_off else 0.0)
        step = replace(step, diagnostics=diagnostics, choice=choice, cost=cost)
        if not step.executed and decision.call == "cheap":
            step = self._execute(step)
        self._record(step)
        return decision.call

    def _strong_step(self) -> None:
        self._record(self._execute(self._ask_for("strong")))

    def _ask_for(self, agent: Agent) -> StepRecord:
        """Have an agent propose, and charge it."""
        failures, at = tuple[Failure, ...](), len(self.history)
        if agent == "cheap" and at < len(self.recorded):
            proposal = self.recorded[at].proposal
        else:
            actor = self.actors[agent]
            if actor is None:
                expected = "an actor: the router calls it"
                raise InvalidDataError(expected, episode=self.header.episode, field=agent, value=None)
            began = self.clock()
            proposal, failures = self.ask(actor, self.history)
            if proposal.nll is not None:
                validate.number(f"nll at {self._place()}", proposal.nll, f"None or {NON_NEGATIVE}", least=0)
            proposal = proposal if proposal.seconds else replace(proposal, seconds=self.clock() - began)
        self.calls_in_run += 1
        cost = self._charge(agent, 1)
        return StepRecord(self.restarts, at, agent, proposal, False, None, None, None, failures, cost, 0.0)

    def _execute(self, step: StepRecord) -> StepRecord:
        """Send the action to the environment; if that breaks, the call is still on record."""
        began = self.clock()
        try:
            result = self.environment.step(step.proposal.action)
        except Exception as error:
            self._record(replace(step, executed=True, seconds=self.clock() - began))
            raise _EnvironmentBrokeError(_words(error)) from error
        seconds = self.clock() - began
        validate.number(f"reward at {self._place()}", result.reward)
        if step.agent == "strong":
            self.recorded = ()  # from here on there is nothing to compare
        if step.step < len(self.recorded) and result != (known := self.recorded[step.step].result):
            raise ReplayError(f"{self._place()}: {step.proposal.action!r} gave {result!r}; recorded {known!r}")
        self.history = self.history.then(Step(step.agent, step.proposal, result))
        return replace(step, executed=True, result=result, seconds=seconds)

    def _reset(self) -> Mapping[str, float]:
        """Begin, or begin again; return the task's features."""
        self.restarts += 1
        self.calls_in_run = 0
        began = self.clock()
        try:
            first = self.environment.reset()
        except Exception as error:
            raise _EnvironmentBrokeError(_words(error)) from error
        seconds = self.clock() - began
        episode = self.header.episode
        self.history = History(first, episode=episode)
        if self.first not in (None, first):
            raise ReplayError(f"episode {episode!r}: the first observation is {first!r}; recorded {self.first!r}")
        features = None
        if self.extractor is not None and self.restarts == 0:
            given = self.extractor.features(first)
            features = _numbers(given, self.extractor.feature_names, "features", episode)
        self._record(ResetRecord(self.restarts, first, features, seconds))
        return features or {}

    def _charge(self, agent: str, calls: int) -> float:
        """Count calls and return what they add to the cost."""
        self.calls[agent] += calls
        before, self.total = self.total, self._price()
        return self.total - before

    def _price(self) -> float:
        return float(cost_of_calls(self.cost, *([count] for count in self.calls.values()))[0])

    def _record(self, record: Record) -> None:
        self.records.append(record)
        self.write(record)

    def _last(self) -> StepResult:
        return self.history.steps[-1].result

    def _place(self) -> str:
        return f"episode {self.header.episode!r}, step {len(self.history)}"


def _numbers(
    given: Mapping[str, float],
    names: tuple[str, ...],
    field: str,
    episode: str,
    where: str | None = None,
    least: float = -np.inf,
) -> dict[str, float]:
    """Return finite numbers by name, in the extractor's order."""
    if set(given) != set(names):
        raise InvalidDataError(
            f"{list(names)}", episode=episode, field=f"names of {field}", value=[*given], where=where
        )
    out = {}
    for name in names:
        value = float(given[name])
        if not np.isfinite(value) or value < least:
            expected = "a finite number" if least == -np.inf else NON_NEGATIVE
            raise InvalidDataError(expected, episode=episode, field=f"{field}[{name!r}]", value=value, where=where)
        out[name] = value
    return out


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
