"""One episode while it is played: the paper's Algorithm 1 for any controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.accounts import Account, Budget
from bayes_tacit.agents.protocols import (
    Actor,
    Agent,
    Environment,
    Extractor,
    History,
    Moment,
    Observation,
    Proposal,
    Step,
    StepResult,
)
from bayes_tacit.agents.recording import Recording
from bayes_tacit.agents.retry import Failure, GivenUpError
from bayes_tacit.agents.transcript.record import (
    ChoiceRecord,
    End,
    Header,
    Record,
    ResetRecord,
    Status,
    StepRecord,
    Transcript,
)
from bayes_tacit.data.timing import discards_proposal
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control import GO_ON, Call, Checkpoint, Choice, Controller, Pilot

Asking = Callable[[Actor, History], tuple[Proposal, tuple[Failure, ...]]]
"""Asks an actor, as often as it takes."""


class _EnvironmentBrokeError(Exception):
    """The environment raised; the cause says what."""


class Play:
    """One episode while it is played."""

    def __init__(
        self,
        environment: Environment,
        actors: Mapping[Agent, Actor | None],
        controller: Controller,
        header: Header,
        extractor: Extractor | None,
        budget: Budget,
        account: Account,
        recording: Recording,
        ask: Asking,
        clock: Callable[[], float],
    ) -> None:
        self._environment = environment
        self._actors = actors
        self._controller = controller
        self._header = header
        self._extractor = extractor
        self._budget = budget
        self._account = account
        self._recording = recording
        self._ask = ask
        self._clock = clock
        self._records: list[Record] = []
        self._run = -1
        self._calls_in_run = 0
        self._handoff_step: int | None = None
        self._history = History(Observation(""))

    def run(self, write: Callable[[Header | Record | End], None] | None) -> Transcript:
        """Play to the end."""
        self._write = write
        if write is not None:
            write(self._header)
        began = self._clock()
        error, failures = None, tuple[Failure, ...]()
        status: Status
        try:
            status = self._play()
        except GivenUpError as given_up:
            status, error, failures = "actor_error", str(given_up), given_up.failures
        except _EnvironmentBrokeError as broke:
            status, error = "environment_error", str(broke)
        end = End(
            status=status,
            success=status == "done" and self._last().success,
            actions=len(self._history),
            cheap_calls=self._account.cheap_calls,
            strong_calls=self._account.strong_calls,
            one_off_calls=self._account.one_off_calls,
            cost=self._account.total,
            handoff_step=self._handoff_step,
            restarted=self._run > 0,
            seconds=self._clock() - began,
            error=error,
            failures=failures,
        )
        if write is not None:
            write(end)
        return Transcript(self._header, tuple(self._records), end)

    def _play(self) -> Status:
        pilot = self._controller.begin(self._reset(), self._header.episode)
        decided: Call | None = None
        for_good = False
        while True:
            over = self._over()
            if for_good:
                if over is not None:
                    return over
                self._strong_step()
                continue
            if over is not None and self._said(pilot.end()) != "restart":
                return over
            call = "restart" if over is not None else decided or self._said(pilot.before())
            decided = None
            if call == "cheap":
                decided = self._cheap_step(pilot)
            elif call == "strong_once":
                self._strong_step()
            else:
                for_good = True
                if call == "restart":
                    self._reset()
                self._handoff_step = len(self._history)

    def _over(self) -> Status | None:
        if self._history.steps and self._last().done:
            return "done"
        return "budget" if self._budget.spent(len(self._history), self._calls_in_run) else None

    def _said(self, choice: Choice) -> Call:
        """Charge and record what the controller said between two calls."""
        added = self._account.one_off(choice.one_off_calls)
        if choice != GO_ON:
            self._record(ChoiceRecord(self._run, len(self._history), choice, added))
        return choice.call

    def _cheap_step(self, pilot: Pilot) -> Call | None:
        """Have Cheap propose; give the controller's word if Cheap does not simply go on."""
        before = self._history
        call = self._ask_for("cheap")
        if not discards_proposal(self._header.timing):
            call = self._execute(call)
        diagnostics = self._diagnostics(before, call.proposal, call.result)
        moment = Moment(before, call.proposal, call.result)
        choice = pilot.checkpoint(Checkpoint(diagnostics or {}, call.proposal.nll, moment))
        cost = call.cost + self._account.one_off(choice.one_off_calls)
        call = replace(call, diagnostics=diagnostics, choice=choice, cost=cost)
        if not call.executed and choice.call == "cheap":
            call = self._execute(call)
        self._record(call)
        return None if choice.call == "cheap" else choice.call

    def _strong_step(self) -> None:
        self._record(self._execute(self._ask_for("strong")))

    def _ask_for(self, agent: Agent) -> StepRecord:
        """Have an agent propose, and charge it."""
        proposal = self._recording.proposal(self._history) if agent == "cheap" else None
        failures = tuple[Failure, ...]()
        if proposal is None:
            actor = self._actors[agent]
            if actor is None:
                raise InvalidDataError(
                    "an actor: the controller calls it", episode=self._header.episode, field=agent, value=None
                )
            began = self._clock()
            proposal, failures = self._ask(actor, self._history)
            proposal = _checked(proposal, self._clock() - began, self._place())
        self._calls_in_run += 1
        return StepRecord(
            run=self._run,
            step=len(self._history),
            agent=agent,
            proposal=proposal,
            executed=False,
            result=None,
            diagnostics=None,
            choice=None,
            failures=failures,
            cost=self._account.call(agent),
            seconds=0.0,
        )

    def _execute(self, call: StepRecord) -> StepRecord:
        """Send the action to the environment; if that breaks, the call is still on record."""
        began = self._clock()
        try:
            result = self._environment.step(call.proposal.action)
        except Exception as error:
            self._record(replace(call, executed=True, seconds=self._clock() - began))
            raise _EnvironmentBrokeError(_words(error)) from error
        seconds = self._clock() - began
        validate.number(f"reward at {self._place()}", result.reward)
        done = replace(call, executed=True, result=result, seconds=seconds)
        self._recording.check(done)
        self._history = self._history.then(Step(call.agent, call.proposal, result))
        return done

    def _reset(self) -> Mapping[str, float]:
        """Begin, or begin again; give the task's features."""
        self._run += 1
        self._calls_in_run = 0
        began = self._clock()
        try:
            first = self._environment.reset()
        except Exception as error:
            raise _EnvironmentBrokeError(_words(error)) from error
        seconds = self._clock() - began
        self._history = History(first, episode=self._header.episode)
        self._recording.check_first(first)
        features = None
        if self._extractor is not None and self._run == 0:
            given = self._extractor.features(first)
            features = _numbers(given, self._extractor.feature_names, "features", self._header.episode)
        self._record(ResetRecord(self._run, first, features, seconds))
        return features or {}

    def _diagnostics(
        self, before: History, proposal: Proposal, result: StepResult | None
    ) -> Mapping[str, float] | None:
        if self._extractor is None:
            return None
        given = self._extractor.diagnostics(before, proposal, result)
        names = self._extractor.diagnostic_names
        return _numbers(given, names, "diagnostics", self._header.episode, f"step {len(before)}", least=0.0)

    def _record(self, record: Record) -> None:
        self._records.append(record)
        if self._write is not None:
            self._write(record)

    def _last(self) -> StepResult:
        return self._history.steps[-1].result

    def _place(self) -> str:
        return f"episode {self._header.episode!r}, step {len(self._history)}"


def _checked(proposal: Proposal, seconds: float, place: str) -> Proposal:
    """Check the NLL, and note the time if the actor did not."""
    if proposal.nll is not None:
        validate.number(f"nll at {place}", proposal.nll, "None or a finite number >= 0", least=0)
    if proposal.seconds:
        return proposal
    return replace(proposal, seconds=seconds)


def _numbers(
    given: Mapping[str, float],
    names: tuple[str, ...],
    field: str,
    episode: str,
    where: str | None = None,
    least: float = -np.inf,
) -> dict[str, float]:
    """Give finite numbers by name, in the extractor's order."""
    if set(given) != set(names):
        raise InvalidDataError(
            f"{list(names)}", episode=episode, field=f"names of {field}", value=[*given], where=where
        )
    expected = "a finite number" if least == -np.inf else "a finite number >= 0"
    out = {}
    for name in names:
        value = float(given[name])
        if not np.isfinite(value) or value < least:
            raise InvalidDataError(expected, episode=episode, field=f"{field}[{name!r}]", value=value, where=where)
        out[name] = value
    return out


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
