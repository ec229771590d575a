"""What `collect` and `evaluate` share: the benchmark, which of its tasks are played, by whom, and for how long."""

from __future__ import annotations

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
    from bayes_tacit.agents.benchmark import Benchmark, Suite, Task
    from bayes_tacit.agents.playing import Players
    from bayes_tacit.agents.protocols import Actor, Agent

SCRIPTED = "scripted"


@dataclass(frozen=True)
class Playing:
    """The options that commands which play have in common."""

    out: Annotated[Path, typer.Option(help="Folder for the transcripts; a stopped run goes on from it.")]
    benchmark: Annotated[
        str, typer.Option(help="What is played: a benchmark that is installed, or module:object of a Suite.")
    ]
    data: Annotated[
        Path | None,
        typer.Option(help="Its folder of tasks; by default the benchmark knows one, as from an environment variable."),
    ] = None
    split: Annotated[
        str | None, typer.Option(help="Which of the benchmark's splits; by default the one meant for this command.")
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
        typer.Option("--unsafe-sandbox", help="Run agents' code without a sandbox where none can be made."),
    ] = False
    cost: Annotated[str, typer.Option(help="What calls cost, in calls of the 4B model: 4b, or 9b for a 9B Cheap.")] = (
        "4b"
    )
    actions: Annotated[
        int | None, typer.Option(help="Actions that an episode may take; by default what the benchmark says.")
    ] = None
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1
    seed: Seed = 0
    as_json: AsJson = False

    def players(self) -> Players:
        """Return who plays, at what cost, for how long."""
        from bayes_tacit import validate
        from bayes_tacit.agents import Budget
        from bayes_tacit.agents.playing import Players
        from bayes_tacit.data.costs import StepCost

        suite = self.suite()
        validate.choice("--cost", self.cost, ("4b", "9b", "27b"))
        validate.whole("--seed", self.seed, 0)
        cheap = Seat("cheap", self.cheap, self.cheap_model, self.cheap_key)
        strong = Seat("strong", self.strong, self.strong_model, self.strong_key)
        actions = suite.actions if self.actions is None else self.actions
        budget = Budget(actions, calls=actions if suite.counts_calls else None)
        first, second = (seat.actor(suite, self.seed) for seat in (cheap, strong))
        return Players(first, second, StepCost.paper(self.cost), budget)

    def suite(self) -> Suite:
        """Return what `--benchmark` names."""
        from bayes_tacit.agents.benchmark import find_suite

        return find_suite(self.benchmark)

    def opened(self, command: str) -> tuple[Benchmark[Any], list[Any]]:
        """Return the benchmark, and the tasks of it that a command is to play."""
        suite = self.suite()
        if self.split is not None and not suite.splits:
            raise InvalidDataError(f"none with --benchmark {self.benchmark}", field="--split", value=self.split)
        if self.unsafe_sandbox and not suite.runs_code:
            raise InvalidDataError(
                f"none with --benchmark {self.benchmark}, which runs no code", field="--unsafe-sandbox", value=True
            )
        with told():
            benchmark = suite.open(self.data, self.split or suite.splits.get(command), self.unsafe_sandbox)
        return benchmark, _wanted(benchmark.tasks(), self.games, self.first)


def plays(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Playing` to a command, which takes them as one argument `playing`."""
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

    def actor(self, suite: Suite, seed: int) -> Actor:
        """Make the actor."""
        from bayes_tacit.keys import shown_address, shown_variable

        if self.who.startswith(("http://", "https://")):
            if not self.model:
                raise InvalidDataError("the name of the model there", field=f"--{self.agent}-model", value=self.model)
            return self._model(suite, self.model, seed)
        if self.model or self.key_variable:
            raise InvalidDataError(
                f"none with --{self.agent} {shown_address(self.who)}",
                field=f"--{self.agent}-model, --{self.agent}-key",
                value=(self.model, shown_variable(self.key_variable)),
            )
        if self.who == SCRIPTED:
            return self._scripted(suite, seed)
        if Path(self.who).is_dir():
            from bayes_tacit.agents.recorded import RecordedActor

            return RecordedActor(Path(self.who), self.agent)
        expected = "scripted, http://... or https://..., or a folder of rollouts"
        raise InvalidDataError(expected, field=f"--{self.agent}", value=shown_address(self.who))

    def _scripted(self, suite: Suite, seed: int) -> Actor:
        if suite.scripted is None:
            raise InvalidDataError(
                "an endpoint's address or a folder of rollouts: this benchmark has no scripted agents",
                field=f"--{self.agent}",
                value=self.who,
            )
        return suite.scripted(self.agent, seed)

    def _model(self, suite: Suite, model: str, seed: int) -> Actor:
        from bayes_tacit.agents.endpoint import Endpoint

        return suite.model(Endpoint(self.who, model, self.key_variable, seed=seed))


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
