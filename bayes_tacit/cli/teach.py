"""The command that asks a teacher: teach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import CHECK_FAILED, AsJson, Force, Seed, about, listed, new_file, read_episodes, show, told
from bayes_tacit.errors import InvalidDataError, MissingFileError

if TYPE_CHECKING:
    from bayes_tacit.agents.marks import Mark, MarkEvidence
    from bayes_tacit.agents.teacher import Lesson, Teacher
    from bayes_tacit.agents.transcript import Transcript
    from bayes_tacit.data.episodes import Episodes

    Pairs = list[tuple[Transcript, Transcript]]

FEW, MOST = 0.1, 0.8
"""Shares of episodes that a rule marks too few of, and of marks that go on to the end of a rollout."""

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
    from bayes_tacit.agents.marks import read_marks, with_marks
    from bayes_tacit.keys import shown_address

    target = new_file(out, force=force)
    given = {"--marks": marks, "--counterfactuals": counterfactuals, "--model": model, "--rule": rule}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InvalidDataError("one of --marks, --counterfactuals, --model and --rule", field="teachers", value=chosen)
    if (model is None) != (base_url is None) or (model is None) != (keep is None):
        value = (model, shown_address(base_url), keep)
        raise InvalidDataError("--model, --base-url and --keep together", field="options of the model", value=value)
    failed: list[str] = []
    notes: list[str] = []
    with told():
        before, pairs = _read(
            rollouts, cheap_log, strong_log, format, shown=chosen[0][2:] in ("counterfactuals", "model")
        )
        if marks is not None:
            found = read_marks(marks)
        elif rule is not None:
            found, notes = _unproductive(before, rule, listed(diagnostics))
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
    lines = [f"{len(episodes)} episodes, {due} with AB = 01, {len(found)} of them marked; written to {out}"]
    lines += [f"no usable mark for {', '.join(failed)}"] if failed else []
    lines += [f"note: {note}" for note in notes]
    facts = {"episodes": len(episodes), "due": due, "marked": len(found), "failed": failed, "notes": notes}
    then = ("recommend", out, "--handoff restart --cap 50% --out router.json")
    if "strong_steps" not in episodes.dataset:
        then = ("fit", out, "--out fit.json")
    show("\n".join(lines), {**facts, "written": str(out)}, as_json=as_json, then=then)
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


def _unproductive(episodes: Episodes, n_steps: int, diagnostics: list[str] | None) -> tuple[dict[str, Mark], list[str]]:
    """Mark by rule; where that is next to nothing, or up to the end of everything, return what would do better."""
    from bayes_tacit.agents.marks import mark_unproductive

    validate.whole("--rule", n_steps, 1)

    def marked(steps: int) -> dict[str, Mark]:
        return mark_unproductive(episodes, steps, diagnostics=diagnostics)

    found, notes = marked(n_steps), []
    due = int((episodes.outcomes == "01").sum())
    if due and len(found) < FEW * due:
        less = next((steps for steps in range(n_steps - 1, 0, -1) if len(marked(steps)) >= FEW * due), None)
        notes.append(
            f"the rule marks {len(found)} of {due} episodes, too few to learn from; "
            + (
                f"--rule {less} marks {len(marked(less))}"
                if less
                else "these signs say little here: choose others with --diagnostics, ask a model or people, or go on "
                "without marks (recommend needs none)"
            )
        )
    lengths = dict(zip(map(str, episodes.ids.tolist()), episodes.n_steps.tolist(), strict=True))

    def open_ended(marks: dict[str, Mark]) -> int:
        return sum(mark.end == lengths[name] - 1 for name, mark in marks.items())

    if found and open_ended(found) > MOST * len(found):
        others = ((steps, marked(steps)) for steps in range(1, 2 * n_steps + 2))
        better = [
            steps for steps, marks in others if FEW * due <= len(marks) and open_ended(marks) <= MOST * len(marks)
        ]
        notes.append(
            f"{open_ended(found)} of {len(found)} marks go on to the end of the rollout, and say little of when: "
            "--evidence one_step takes the first step of each"
            + (f", and --rule {better[-1]} ends more of them before" if better else "")
        )
    return found, notes


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
