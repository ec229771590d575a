"""The commands that play a benchmark: collect and evaluate, with the options that they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bayes_tacit.cli.common import CHECK_FAILED, AsJson, Force, Seed, new_file, show, told
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import read_text

if TYPE_CHECKING:
    from bayes_tacit.agents.benchmark import Benchmark, Suite, Task
    from bayes_tacit.agents.playing import Entry, Players
    from bayes_tacit.agents.protocols import Actor, Agent
    from bayes_tacit.agents.transcript import Transcript
    from bayes_tacit.data.costs import Outcomes
    from bayes_tacit.router import Router

OUTCOMES = ("00", "01", "10", "11")
PURE = {"Pure Cheap": "cheap", "Pure Strong": "strong"}
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

        suite = self.suite
        validate.choice("--cost", self.cost, ("4b", "9b", "27b"))
        validate.whole("--seed", self.seed, 0)
        actions = suite.actions if self.actions is None else self.actions
        budget = Budget(actions, calls=actions if suite.counts_calls else None)
        cheap = self._actor("cheap", self.cheap, self.cheap_model, self.cheap_key)
        strong = self._actor("strong", self.strong, self.strong_model, self.strong_key)
        return Players(cheap, strong, StepCost.paper(self.cost), budget)

    def _actor(self, agent: Agent, who: str, model: str | None, key_variable: str | None) -> Actor:
        """Make the actor that an option names."""
        from bayes_tacit.agents.endpoint import Endpoint
        from bayes_tacit.agents.recorded import RecordedActor
        from bayes_tacit.keys import shown_address, shown_variable

        suite = self.suite
        if who.startswith(("http://", "https://")):
            if not model:
                raise InvalidDataError("the name of the model there", field=f"--{agent}-model", value=model)
            return suite.model(Endpoint(who, model, key_variable, seed=self.seed))
        if model or key_variable:
            field, value = f"--{agent}-model, --{agent}-key", (model, shown_variable(key_variable))
            raise InvalidDataError(f"none with --{agent} {shown_address(who)}", field=field, value=value)
        if who == SCRIPTED and suite.scripted is not None:
            return suite.scripted(agent, self.seed)
        if who != SCRIPTED and Path(who).is_dir():
            return RecordedActor(Path(who), agent)
        expected = "scripted, http://... or https://..., or a folder of rollouts"
        if who == SCRIPTED:
            expected = "an endpoint's address or a folder of rollouts: this benchmark has no scripted agents"
        raise InvalidDataError(expected, field=f"--{agent}", value=shown_address(who))

    @cached_property
    def suite(self) -> Suite:
        """What `--benchmark` names."""
        from bayes_tacit.agents.benchmark import find_suite

        return find_suite(self.benchmark)

    def opened(self, command: str) -> tuple[Benchmark[Any], list[Any]]:
        """Return the benchmark, and the tasks of it that a command is to play."""
        suite = self.suite
        if self.split is not None and not suite.splits:
            raise InvalidDataError(f"none with --benchmark {self.benchmark}", field="--split", value=self.split)
        if self.unsafe_sandbox and not suite.runs_code:
            expected = f"none with --benchmark {self.benchmark}, which runs no code"
            raise InvalidDataError(expected, field="--unsafe-sandbox", value=True)
        with told():
            benchmark = suite.open(self.data, self.split or suite.splits.get(command), self.unsafe_sandbox)
        return benchmark, _wanted(benchmark.tasks(), self.games, self.first)


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
                expected = f"an id such as {next(iter(known), '...')!r}"
                raise InvalidDataError(expected, field="task", value=name, where=str(listed))
        tasks = [known[name] for name in dict.fromkeys(wanted)]
    if first is not None:
        tasks = tasks[: validate.whole("--first", first, 1)]
    if not tasks:
        raise MissingFileError("no task to play; expected at least one that can be solved")
    return tasks


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


@plays
def collect(
    playing: Playing,
    counterfactuals: Annotated[
        Path | None,
        typer.Option(help="Play every handoff too (kept in OUT-handoffs) and write this: .csv, .parquet or .nc."),
    ] = None,
    force: Force = False,
) -> None:
    """Play tasks of a benchmark with Cheap alone and with Strong alone, and keep the transcripts.

    What the folder holds already is not played again, except for rollouts that broke off; a folder of other players is
    refused. Exit code 1 means that some rollouts broke off, such as where an endpoint gave no answer: run it again.

    Example: `bayes-tacit collect --benchmark simulations.alfworld:benchmark --data alfworld --cheap
    http://127.0.0.1:8000/v1 --cheap-model small --strong scripted --workers 2 --out rollouts`
    """
    from bayes_tacit.agents.playing import Continuations
    from bayes_tacit.agents.playing import collect as play
    from bayes_tacit.agents.work import shown

    target = None if counterfactuals is None else new_file(counterfactuals, force=force)
    players = playing.players()
    benchmark, tasks = playing.opened("collect")
    with told():
        pairs = play(benchmark, playing.out, players, tasks=tasks, workers=playing.workers, progress=shown("rollouts"))
    broken = sorted(pair.task.id for pair in pairs if not pair.conclusive)
    counts = Counter(pair.outcome for pair in pairs if pair.conclusive)
    words = ", ".join(f"{counts[outcome]} with AB = {outcome}" for outcome in OUTCOMES)
    lines = [f"{len(pairs)} games: {words}; transcripts in {playing.out}"]
    if broken:
        lines.append(f"broke off: {', '.join(broken)}")
    elif target is not None:
        # Not inside: whoever reads the folder takes every file for a transcript.
        folder = playing.out.with_name(f"{playing.out.name}-handoffs")
        played = Continuations(benchmark, pairs, folder, players, playing.workers, shown("handoffs"))
        played.counterfactuals().write(target)
        lines.append(f"what comes of every handoff: {target}")
    facts: dict[str, object] = {
        "games": len(pairs),
        "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
        "broken": broken,
        "out": str(playing.out),
        "counterfactuals": None if broken or target is None else str(target),
    }
    then = ("teach", playing.out, "--rule 3 --out episodes.jsonl")
    show("\n".join(lines), facts, as_json=playing.as_json, then=() if broken else then)
    if broken:
        raise typer.Exit(CHECK_FAILED)


@plays
def evaluate(
    routers: Annotated[list[Path], typer.Argument(help="Routers, .json, from select.", show_default=False)],
    playing: Playing,
    deferral: Annotated[
        list[float] | None,
        typer.Option(help="Step deferral at this uncertainty (DABench: NLL) of Cheap's proposal, too; repeatable."),
    ] = None,
    pages: Annotated[bool, typer.Option("--pages", help="Write a page for each episode under a router.")] = False,
    resamples: Annotated[int, typer.Option(help="Resamples of the paired bootstrap.")] = 10_000,
) -> None:
    """Play routers on tasks of a benchmark beside Pure Cheap and Pure Strong, and compare them.

    Every episode is played through the loop, with the router deciding live; what two policies have in common is played
    once. Intervals are for the first router's difference from each other policy on the same tasks. Exit code 1 means
    that some episodes broke off, such as where an endpoint gave no answer: run it again.

    Example: `bayes-tacit evaluate router.json --benchmark simulations.alfworld:benchmark --data alfworld --workers 2
    --out played`
    """
    from bayes_tacit.agents.playing import collect, outcomes_of, play_policies
    from bayes_tacit.agents.work import shown

    players = playing.players()
    entries = _entries(routers, deferral or [], playing.suite.signal)
    benchmark, tasks = playing.opened("evaluate")
    out, workers = playing.out, playing.workers
    with told():
        pairs = collect(benchmark, out / "rollouts", players, tasks=tasks, workers=workers, progress=shown("rollouts"))
        sound = [pair for pair in pairs if pair.conclusive]
        played = play_policies(
            benchmark, sound, entries, out / "played", players, workers=workers, progress=shown("policies")
        )
    whole = [at for at in range(len(sound)) if all(episodes[at].conclusive for episodes in played.values())]
    kept = {sound[at].task.id for at in whole}
    broken = [pair.task.id for pair in pairs if pair.task.id not in kept]
    if not whole:
        raise InvalidDataError("at least one game on which no episode broke off", field="games", value=broken)
    outcomes = {name: outcomes_of([episodes[at] for at in whole]) for name, episodes in played.items()}
    if pages:
        _write_pages({name: played[name] for name in _router_names(routers)}, out / "pages")
    ours = _router_names(routers)[0]
    facts = {
        "games": len(whole),
        "policies": {
            name: _facts(name, found, outcomes[ours], ours, resamples, playing.seed) for name, found in outcomes.items()
        },
        "broken": broken,
        "out": str(out),
    }
    text = _table(outcomes, facts, ours) + (f"\nbroke off: {', '.join(broken)}" if broken else "")
    show(text, facts, as_json=playing.as_json, then=() if broken else ("serve", routers[0], "--cheap URL --strong URL"))
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _entries(routers: list[Path], thresholds: list[float], signal: str) -> list[Entry]:
    from bayes_tacit.agents.playing import Entry
    from bayes_tacit.router import Router, pure
    from bayes_tacit.router.rules import Signal

    loaded = zip(_router_names(routers), map(Router.load, routers), strict=True)
    deferral = Router(rule=Signal(), call="strong_once", timing="proposal", diagnostic_names=(signal,))
    playing: dict[str, Router] = {
        "Pure Cheap": pure("cheap"),
        **dict(loaded),
        **{f"Step Deferral {level!r}": replace(deferral, alpha=level) for level in thresholds},
        "Pure Strong": pure("strong"),
    }
    return [Entry(name, router) for name, router in playing.items()]


def _router_names(routers: list[Path]) -> list[str]:
    names = [path.stem for path in routers]
    if len({*names, *PURE}) < len(names) + len(PURE):
        raise InvalidDataError("files with different names", field="routers", value=names)
    return names


def _write_pages(played: dict[str, list[Transcript]], folder: Path) -> None:
    from bayes_tacit.agents.pages import write_page

    folder.mkdir(parents=True, exist_ok=True)
    for name, transcripts in played.items():
        for transcript in transcripts:
            write_page(transcript, folder / f"{transcript.episode.replace('/', '__')}.{name}.html")


def _facts(name: str, found: Outcomes, ours: Outcomes, our_name: str, resamples: int, seed: int) -> dict[str, object]:
    from bayes_tacit.decisions.selection import bootstrap

    facts: dict[str, object] = {"successes": int(found.success.sum()), **found.point()}
    if name != our_name:
        intervals = bootstrap(ours, found, resamples=resamples, seed=seed)
        for row in ("success_difference", "cost_difference"):
            facts[row] = {end: intervals[end].to_dict()[row] for end in ("estimate", "lower", "upper")}
    return facts


def _table(outcomes: dict[str, Outcomes], facts: dict[str, object], ours: str) -> str:
    described = facts["policies"]
    assert isinstance(described, dict)
    width = max(map(len, outcomes))
    lines = [f"{'policy':<{width}}  successes  mean cost  strong share  interventions  success of {ours} minus this"]
    for name, found in outcomes.items():
        fact = described[name]
        line = (
            f"{name:<{width}}  {fact['successes']:>4}/{len(found):<4}  {fact['cost']:>9.2f}  "
            f"{fact['strong_share']:>12.1%}  {fact['intervention_rate']:>13.1%}"
        )
        if name != ours:
            gain = fact["success_difference"]
            line += f"  {gain['estimate']:+.1%} ({gain['lower']:+.1%} to {gain['upper']:+.1%})"
        lines.append(line)
    return "\n".join(lines)
