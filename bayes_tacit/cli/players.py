"""What `collect` and `evaluate` share: the benchmark, which of its tasks are played, by whom, and for how long."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bayes_tacit.cli.common import AsJson, Seed, told
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import read_text

if TYPE_CHECKING:
    from bayes_tacit.agents.playing import Benchmark, Players, Task
    from bayes_tacit.agents.protocols import Actor, Agent

SCRIPTED = "scripted"
ALFWORLD, DABENCH = BENCHMARKS = ("alfworld", "dabench")
ACTIONS = {ALFWORLD: 50, DABENCH: 12}
"""Actions of an episode, as in the paper's experiments."""

SIGNALS = {ALFWORLD: "uncertainty", DABENCH: "nll"}
"""What step deferral looks at: 1 - exp(-NLL) of Cheap's proposal, or the NLL itself."""


@dataclass(frozen=True)
class Playing:
    """The options that commands which play have in common."""

    out: Annotated[Path, typer.Option(help="Folder for the transcripts; a stopped run goes on from it.")]
    benchmark: Annotated[str, typer.Option(help="What is played: alfworld or dabench.")] = ALFWORLD
    data: Annotated[
        Path | None,
        typer.Option(help="Its folder of games or questions; by default what ALFWORLD_DATA or DABENCH_DATA says."),
    ] = None
    split: Annotated[
        str | None, typer.Option(help="ALFWorld: folder of games; by default valid_seen, in evaluate valid_unseen.")
    ] = None
    games: Annotated[
        Path | None, typer.Option("--games", "--tasks", help="Only these: a text file with one id a line.")
    ] = None
    first: Annotated[int | None, typer.Option(help="Only the first so many, by id.")] = None
    cheap: Annotated[
        str,
        typer.Option(help="Who plays Cheap: scripted, an endpoint's address, or a folder of rollouts to replay."),
    ] = SCRIPTED
    cheap_model: Annotated[str | None, typer.Option(help="Name of the model behind that endpoint.")] = None
    cheap_key: Annotated[str | None, typer.Option(help="Environment variable that holds its key.")] = None
    strong: Annotated[
        str,
        typer.Option(help="Who plays Strong: scripted, an endpoint's address, or a folder of rollouts to replay."),
    ] = SCRIPTED
    strong_model: Annotated[str | None, typer.Option(help="Name of the model behind that endpoint.")] = None
    strong_key: Annotated[str | None, typer.Option(help="Environment variable that holds its key.")] = None
    unsafe_sandbox: Annotated[
        bool,
        typer.Option("--unsafe-sandbox", help="DABench: run code also where this system lacks a wall of the sandbox."),
    ] = False
    cost: Annotated[str, typer.Option(help="What calls cost, in calls of the 4B model: 4b, or 9b for a 9B Cheap.")] = (
        "4b"
    )
    actions: Annotated[
        int | None, typer.Option(help="Actions that an episode may take; by default 50, of DABench 12.")
    ] = None
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1
    seed: Seed = 0
    as_json: AsJson = False

    def players(self) -> Players:
        """Give who plays, at what cost, for how long."""
        from bayes_tacit import validate
        from bayes_tacit.agents.accounts import Budget
        from bayes_tacit.agents.playing import Players
        from bayes_tacit.data.costs import StepCost

        validate.choice("--benchmark", self.benchmark, BENCHMARKS)
        validate.choice("--cost", self.cost, ("4b", "9b", "27b"))
        validate.whole("--seed", self.seed, 0)
        cheap = Seat("cheap", self.cheap, self.cheap_model, self.cheap_key)
        strong = Seat("strong", self.strong, self.strong_model, self.strong_key)
        actions = ACTIONS[self.benchmark] if self.actions is None else self.actions
        # A question is answered in so many calls, discarded proposals included; a game in so many actions.
        budget = Budget(actions, calls=actions if self.benchmark == DABENCH else None)
        first, second = (seat.actor(self.benchmark, self.seed) for seat in (cheap, strong))
        return Players(first, second, StepCost.paper(self.cost), budget)

    def opened(self, split: str) -> tuple[Benchmark[Any], list[Any]]:
        """Give the benchmark, and the tasks of it that are to be played."""
        benchmark = self._alfworld(split) if self.benchmark == ALFWORLD else self._dabench()
        return benchmark, _wanted(benchmark.tasks(), self.games, self.first)

    def _alfworld(self, split: str) -> Benchmark[Any]:
        from bayes_tacit.agents.alfworld import Alfworld

        if self.unsafe_sandbox:
            raise InvalidDataError(
                "none with --benchmark alfworld, which runs no code", field="--unsafe-sandbox", value=True
            )
        return Alfworld(split if self.split is None else self.split, self.data)

    def _dabench(self) -> Benchmark[Any]:
        from bayes_tacit.agents.dabench import DABench, check_walls

        if self.split is not None:
            raise InvalidDataError("none with --benchmark dabench", field="--split", value=self.split)
        folder = self.data or os.environ.get("DABENCH_DATA")
        if not folder:
            raise MissingFileError("no folder of DABench: pass --data, or set the variable DABENCH_DATA")
        with told():
            check_walls(unsafe=self.unsafe_sandbox)
        return DABench(folder, unsafe=self.unsafe_sandbox)


def plays(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Playing`, which it takes as one argument `playing`."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature(command).parameters.items()
        if name != "playing"
    ]
    shared = get_type_hints(Playing, include_extras=True)
    options = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=shared[field.name],
        )
        for field in fields(Playing)
    ]

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401
        command(playing=Playing(**{option.name: given.pop(option.name) for option in options}), **given)

    run.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
    return run


@dataclass(frozen=True)
class Seat:
    """Who plays one of the two roles, as the command line says it."""

    agent: Agent
    who: str
    model: str | None
    key_variable: str | None

    def actor(self, benchmark: str, seed: int) -> Actor:
        """Make the actor."""
        from bayes_tacit.keys import shown_address, shown_variable

        if self.who.startswith(("http://", "https://")):
            if not self.model:
                raise InvalidDataError("the name of the model there", field=f"--{self.agent}-model", value=self.model)
            return self._model(benchmark, self.model, seed)
        if self.model or self.key_variable:
            raise InvalidDataError(
                f"none with --{self.agent} {shown_address(self.who)}",
                field=f"--{self.agent}-model, --{self.agent}-key",
                value=(self.model, shown_variable(self.key_variable)),
            )
        if self.who == SCRIPTED:
            return self._scripted(benchmark, seed)
        if Path(self.who).is_dir():
            from bayes_tacit.agents.playing import RecordedActor

            return RecordedActor(Path(self.who), self.agent)
        expected = "scripted, http://... or https://..., or a folder of rollouts"
        raise InvalidDataError(expected, field=f"--{self.agent}", value=shown_address(self.who))

    def _scripted(self, benchmark: str, seed: int) -> Actor:
        if benchmark == ALFWORLD:
            from bayes_tacit.agents.alfworld import CheapActor, StrongActor

            return CheapActor(seed) if self.agent == "cheap" else StrongActor(seed)
        from bayes_tacit.agents.dabench.analyst import CarefulAnalyst, HastyAnalyst

        return HastyAnalyst(seed) if self.agent == "cheap" else CarefulAnalyst()

    def _model(self, benchmark: str, model: str, seed: int) -> Actor:
        from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, whole_answer

        endpoint = Endpoint(self.who, model, self.key_variable, seed=seed)
        if benchmark == ALFWORLD:
            return EndpointActor(endpoint)
        from bayes_tacit.agents.dabench import dabench_prompt

        return EndpointActor(endpoint, dabench_prompt(), mode="generate", reads=whole_answer)


def _wanted(tasks: list[Task], listed: Path | None, first: int | None) -> list[Task]:
    """Choose the tasks that are to be played."""
    from bayes_tacit import validate

    if listed is not None:
        known = {task.id: task for task in tasks}
        lines = read_text(listed, "a text file with one id of a task a line").splitlines()
        wanted = [line.strip() for line in lines if line.strip()]
        if not wanted:
            raise FileFormatError(f"{listed}: names no task; expected one id of a task a line")
        for name in wanted:
            if name not in known:
                raise InvalidDataError(
                    f"an id such as {next(iter(known), '...')!r}", field="task", value=name, where=str(listed)
                )
        tasks = [known[name] for name in dict.fromkeys(wanted)]
    if first is not None:
        tasks = tasks[: validate.whole("--first", first, 1)]
    if not tasks:
        raise MissingFileError("no task to play; expected at least one that can be solved")
    return tasks
