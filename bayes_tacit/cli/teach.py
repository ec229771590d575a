"""The command that asks a teacher: teach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bayes_tacit.cli.common import CHECK_FAILED, AsJson, Force, Seed, new_file, show, told
from bayes_tacit.errors import InvalidDataError, MissingFileError

if TYPE_CHECKING:
    from bayes_tacit.agents.teacher import Evidence, Lesson, Mark, Teacher
    from bayes_tacit.agents.transcript import Transcript

    Pairs = list[tuple[Transcript, Transcript]]


def teach(
    rollouts: Annotated[
        Path, typer.Argument(help="A folder with Pure Cheap and Pure Strong transcripts.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The episodes with their windows: .jsonl, .parquet, .nc or .zarr.")],
    marks: Annotated[Path | None, typer.Option(help="Human marks, .csv: episode, window_start, window_end.")] = None,
    counterfactuals: Annotated[
        Path | None, typer.Option(help="Mark by rule from what each handoff gives: .csv, .parquet or .nc.")
    ] = None,
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
    OpenAI-compatible endpoint (--model, --base-url, --keep), or by a rule (--counterfactuals). Exit code 1 means that
    the model gave no usable mark for some episodes; these are written without a window.

    Example: `bayes-tacit teach rollouts --model deepseek --base-url https://example.org/v1 --key-variable KEY
    --keep marks --out episodes.jsonl`
    """
    from bayes_tacit.agents.endpoint.secrets import shown_address
    from bayes_tacit.agents.teacher import with_marks
    from bayes_tacit.agents.transcript import episodes_from_transcripts, read_pairs

    target = new_file(out, force=force)
    given = {"--marks": marks, "--counterfactuals": counterfactuals, "--model": model}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InvalidDataError("one of --marks, --counterfactuals and --model", field="teachers", value=chosen)
    if (model is None) != (base_url is None) or (model is None) != (keep is None):
        raise InvalidDataError(
            "--model, --base-url and --keep together",
            field="options of the model",
            value=(model, shown_address(base_url), keep),
        )
    pairs = read_pairs(rollouts)
    if not pairs:
        raise MissingFileError(f"{rollouts}: no finished pair; expected Pure Cheap and Pure Strong transcripts")
    failed: list[str] = []
    with told():
        if marks is not None:
            found = _human(marks)
        elif counterfactuals is not None:
            found = _by_rule(pairs, counterfactuals, stalled)
        else:
            settings = (cast("str", base_url), cast("str", model), key_variable)
            lessons = _by_model(pairs, settings, timeout, attempts, seed, cast("Path", keep), retry_failed)
            found = {name: lesson.mark for name, lesson in lessons.items() if lesson.mark is not None}
            failed = [name for name, lesson in lessons.items() if lesson.error is not None]
        episodes = with_marks(episodes_from_transcripts(pairs), found, cast("Evidence", evidence))
    episodes.write(target)
    due = int((episodes.outcomes == "01").sum())
    text = f"{len(episodes)} episodes, {due} with AB = 01, {len(found)} of them marked; written to {out}"
    if failed:
        text += f"\nno usable mark for {', '.join(failed)}"
    facts = {"episodes": len(episodes), "due": due, "marked": len(found), "failed": failed, "written": str(out)}
    show(text, facts, as_json=as_json)
    if failed:
        raise typer.Exit(CHECK_FAILED)


def _human(path: Path) -> dict[str, Mark]:
    from bayes_tacit.agents.teacher import read_marks

    return read_marks(path)


def _by_rule(pairs: Pairs, path: Path, stalled: int) -> dict[str, Mark]:
    from bayes_tacit.agents.teacher import RuleTeacher, feasible_by, stalled_for
    from bayes_tacit.data.costs import StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals

    # The rule looks at successes alone, so a table without costs will do.
    table = Counterfactuals.read(path, cost=StepCost(1, 1))
    teacher = RuleTeacher(feasible_by(table), stalled_for(stalled))
    lessons = [teacher.mark(cheap, strong) for cheap, strong in pairs if _is_due(cheap, strong)]
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

    return mark_pairs(pairs, teacher, keep, retry_failed=retry_failed, told=tell)


def _is_due(cheap: Transcript, strong: Transcript) -> bool:
    return not cheap.end.success and strong.end.success
