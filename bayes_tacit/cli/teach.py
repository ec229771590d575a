"""The command that asks a teacher: teach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import CHECK_FAILED, AsJson, Force, Seed, about, new_file, read_episodes, show, told
from bayes_tacit.errors import InvalidDataError, MissingFileError

if TYPE_CHECKING:
    from bayes_tacit.agents.marks import Mark, MarkEvidence
    from bayes_tacit.agents.teacher import Lesson, Teacher
    from bayes_tacit.agents.transcript import Transcript
    from bayes_tacit.data.episodes import Episodes

    Pairs = list[tuple[Transcript, Transcript]]

EPISODES = (".jsonl", ".parquet", ".nc", ".zarr")
"""Suffixes of episodes; a folder of transcripts has none of them."""


def teach(
    rollouts: Annotated[
        Path,
        typer.Argument(help="A folder with Pure Cheap and Pure Strong transcripts, or episodes.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="The episodes with their windows: .jsonl, .parquet, .nc or .zarr.")],
    marks: Annotated[Path | None, typer.Option(help="Human marks, .csv: episode, window_start, window_end.")] = None,
    counterfactuals: Annotated[
        Path | None, typer.Option(help="Mark by rule from what each handoff gives: .csv, .parquet or .nc.")
    ] = None,
    rule: Annotated[int | None, typer.Option(help="Mark by rule: so many unproductive steps in a row.")] = None,
    diagnostics: Annotated[
        str | None, typer.Option(help="What makes a step unproductive, with commas; all but uncertainty by default.")
    ] = None,
    cheap_log: Annotated[Path | None, typer.Option(help="The log that the episodes are from, for --model.")] = None,
    strong_log: Annotated[Path | None, typer.Option(help="The same of Strong.")] = None,
    format: Annotated[str, typer.Option(help="Format of these logs, as for import.")] = "auto",  # noqa: A002
    model: Annotated[str | None, typer.Option(help="Ask this model, behind --base-url.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address such as http://127.0.0.1:8000/v1.")] = None,
    key_variable: Annotated[str | None, typer.Option(help="Environment variable that holds the key.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for what the model said; a stopped run goes on from it.")
    ] = None,
    evidence: Annotated[str, typer.Option(help="one_step: the recommended checkpoint; range: all of it.")] = "range",
    stalled: Annotated[int, typer.Option(help="For the rule: steps without progress until failure is clear.")] = 3,
    attempts: Annotated[int, typer.Option(help="Answers of the model until it is given up on.")] = 3,
    timeout: Annotated[float, typer.Option(help="Seconds for an answer of the model.")] = 120.0,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask again where no answer did.")] = False,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Mark where Cheap should have handed off, and write the episodes with their windows.

    Only episodes in which Cheap failed and Strong succeeded are marked: by people (--marks), by a model behind an
    OpenAI-compatible endpoint (--model, --base-url, --keep), or by a rule (--rule on any diagnostics, or
    --counterfactuals). Episodes that import wrote are marked in the same way; for a model, with --cheap-log and
    --strong-log. Exit code 1 means that the model gave no usable mark for some episodes; these are written without a
    window.

    Example: `bayes-tacit teach rollouts --model deepseek --base-url https://example.org/v1 --key-variable KEY
    --keep marks --out episodes.jsonl`
    """
    from bayes_tacit.agents.marks import with_marks
    from bayes_tacit.keys import shown_address

    target = new_file(out, force=force)
    given = {"--marks": marks, "--counterfactuals": counterfactuals, "--model": model, "--rule": rule}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InvalidDataError("one of --marks, --counterfactuals, --model and --rule", field="teachers", value=chosen)
    if (model is None) != (base_url is None) or (model is None) != (keep is None):
        raise InvalidDataError(
            "--model, --base-url and --keep together",
            field="options of the model",
            value=(model, shown_address(base_url), keep),
        )
    failed: list[str] = []
    with told():
        before, pairs = _read(
            rollouts, cheap_log, strong_log, format, shown=chosen[0] in ("--counterfactuals", "--model")
        )
        if marks is not None:
            found = _human(marks)
        elif rule is not None:
            validate.whole("--rule", rule, 1)
            found = _unproductive(before, rule, diagnostics)
        elif counterfactuals is not None:
            found = _by_rule(pairs, counterfactuals, stalled)
        else:
            settings = (cast("str", base_url), cast("str", model), key_variable)
            lessons = _by_model(pairs, settings, timeout, attempts, seed, cast("Path", keep), retry_failed)
            found = {name: lesson.mark for name, lesson in lessons.items() if lesson.mark is not None}
            failed = [name for name, lesson in lessons.items() if lesson.error is not None]
        with about(*filter(None, (rollouts, marks))):
            episodes = with_marks(before, found, cast("MarkEvidence", evidence))
    episodes.write(target)
    due = int((episodes.outcomes == "01").sum())
    text = f"{len(episodes)} episodes, {due} with AB = 01, {len(found)} of them marked; written to {out}"
    if failed:
        text += f"\nno usable mark for {', '.join(failed)}"
    facts = {"episodes": len(episodes), "due": due, "marked": len(found), "failed": failed, "written": str(out)}
    show(text, facts, as_json=as_json)
    if failed:
        raise typer.Exit(CHECK_FAILED)


def _read(
    source: Path, cheap_log: Path | None, strong_log: Path | None, form: str, *, shown: bool
) -> tuple[Episodes, Pairs]:
    """Read transcripts, or episodes and, for a teacher who reads them, the logs that they are from."""
    from bayes_tacit.agents import episodes_from_transcripts, read_pairs
    from bayes_tacit.agents.pairs import pairs_from_logs

    if source.suffix.lower() not in EPISODES:
        pairs = read_pairs(source)
        if not pairs:
            raise MissingFileError(f"{source}: no finished pair; expected Pure Cheap and Pure Strong transcripts")
        return episodes_from_transcripts(pairs), pairs
    episodes = read_episodes(source)
    if not shown:
        return episodes, []
    if cheap_log is None or strong_log is None:
        raise InvalidDataError(
            "both logs that the episodes are from, for the teacher to read",
            field="--cheap-log and --strong-log",
            value=(cheap_log, strong_log),
        )
    return episodes, pairs_from_logs(episodes, cheap_log, strong_log, format=form)


def _unproductive(episodes: Episodes, n_steps: int, diagnostics: str | None) -> dict[str, Mark]:
    from bayes_tacit.agents.marks import mark_unproductive

    names = None if diagnostics is None else [name.strip() for name in diagnostics.split(",")]
    return mark_unproductive(episodes, n_steps, diagnostics=names)


def _human(path: Path) -> dict[str, Mark]:
    from bayes_tacit.agents.marks import read_marks

    return read_marks(path)


def _by_rule(pairs: Pairs, path: Path, stalled: int) -> dict[str, Mark]:
    from bayes_tacit.agents.teacher import RuleTeacher, feasible_by, is_due, stalled_for
    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals

    # The rule looks at successes alone, so a table without costs will do.
    table = Counterfactuals.read(path, cost=StepCost(1, 1))
    teacher = RuleTeacher(feasible_by(table), stalled_for(stalled))
    lessons = [teacher.mark(cheap, strong) for cheap, strong in pairs if is_due(cheap, strong)]
    return {lesson.episode: lesson.mark for lesson in lessons if lesson.mark is not None}


def _by_model(
    pairs: Pairs,
    settings: tuple[str, str, str | None],
    timeout: float,
    attempts: int,
    seed: int,
    keep: Path,
    retry_failed: bool,
) -> dict[str, Lesson]:
    from bayes_tacit.agents.endpoint import Endpoint
    from bayes_tacit.agents.teacher import ModelTeacher, mark_pairs

    address, model, key_variable = settings
    endpoint = Endpoint(address, model, key_variable, max_tokens=512, timeout=timeout, logprobs=False)
    teacher: Teacher = ModelTeacher(endpoint, attempts=attempts, seed=seed)

    def tell(lesson: Lesson) -> None:
        sys.stderr.write(f"{lesson.episode}: {lesson.error or lesson.mark}\n")

    return mark_pairs(pairs, teacher, keep, retry_failed=retry_failed, on_lesson=tell)
