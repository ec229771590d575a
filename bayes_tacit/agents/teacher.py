"""The offline teacher: from a failed Cheap and a successful Strong rollout to the range where a handoff was due.

A teacher marks an episode with AB = 01: a model behind an endpoint (`ModelTeacher`), or a rule for worlds in which
handoffs can be replayed (`RuleTeacher`). `mark_pairs` goes through a set of rollouts and can be stopped and resumed;
`pairs_from_logs` makes rollouts of imported logs. Marks of people, and of a rule that looks at diagnostics alone, are
in `bayes_tacit.agents.marks`, as is `with_marks`, which puts marks into `Episodes`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.endpoint import Endpoint
from bayes_tacit.agents.loop import Retry, asked_again
from bayes_tacit.agents.marks import Mark, first_run
from bayes_tacit.agents.transcript import StepRecord, Transcript
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError
from bayes_tacit.files import as_path, atomic_path

if TYPE_CHECKING:
    from bayes_tacit.data.counterfactuals import Counterfactuals

FORMAT = "bayes_tacit.mark"
SCHEMA_VERSION = 1

Message = dict[str, str]
"""One message of a conversation: its role and its content."""

AtCheckpoint = Callable[[Transcript, int], bool]
"""Says of a Cheap rollout and a checkpoint t, counted from 0, whether something holds after action t."""

SHAPE = '{"earliest": ..., "latest": ..., "recommended": ..., "explanation": "..."}'


@dataclass(frozen=True)
class Lesson:
    """What a teacher said about an episode.

    Attributes
    ----------
    episode, teacher
        Id of the task, and who said it.
    mark, error
        The range, or why there is none where the answers did not pass the check.
    exchange
        The conversation, where there was one.
    """

    episode: str
    mark: Mark | None
    teacher: str
    exchange: tuple[Message, ...] = ()
    error: str | None = None


class TeacherError(TacitError, ValueError):
    """A teacher gave no mark that passes the check; `exchange` holds what was said."""

    def __init__(self, message: str, exchange: tuple[Message, ...]) -> None:
        super().__init__(message)
        self.exchange = exchange


class Teacher(Protocol):
    """Whatever marks an episode with AB = 01."""

    @property
    def name(self) -> str:
        """Name for what is kept."""
        ...

    def mark(self, cheap: Transcript, strong: Transcript) -> Lesson:
        """Mark one episode; `TeacherError` if the answers did not pass the check."""
        ...


def is_due(cheap: Transcript, strong: Transcript) -> bool:
    """Check whether a pair is AB = 01, by rollouts that say something about the agents."""
    return cheap.conclusive and strong.conclusive and strong.end.success and not cheap.end.success


def mark_pairs(
    pairs: Iterable[tuple[Transcript, Transcript]],
    teacher: Teacher,
    folder: str | os.PathLike[str],
    *,
    retry_failed: bool = False,
    on_lesson: Callable[[Lesson], None] | None = None,
) -> dict[str, Lesson]:
    """Have a teacher mark every episode with AB = 01.

    Each lesson is written to the folder at once, whole or not at all, and not asked for again. An endpoint that is
    down raises `ActorError`; the next run goes on from there.

    Parameters
    ----------
    pairs
        A Cheap and a Strong transcript of each task; those that are not AB = 01 are passed over.
    teacher
        Who marks.
    folder
        Where lessons are kept; made if it does not exist. One with lessons of another teacher is refused.
    retry_failed
        Whether to ask again where the teacher's answers did not pass the check.
    on_lesson
        Called with each new lesson.
    """
    home = as_path(folder)
    if not home.absolute().parent.is_dir():
        raise MissingFileError(f"{home.parent}: no such folder; expected the folder in which to make {home.name}")
    home.mkdir(exist_ok=True)
    lessons: dict[str, Lesson] = {}
    for cheap, strong in pairs:
        if cheap.episode != strong.episode:
            expected = "a Strong transcript of the same episode"
            raise InvalidDataError(expected, episode=cheap.episode, field="episode", value=strong.episode)
        if not is_due(cheap, strong):
            continue
        path = home / _file_name(cheap.episode)
        known = _read_lesson(path, teacher.name, cheap.episode) if path.exists() else None
        fresh = known is None or (retry_failed and known.error is not None)
        if known is None or fresh:
            try:
                known = teacher.mark(cheap, strong)
            except TeacherError as error:
                known = Lesson(cheap.episode, None, teacher.name, error.exchange, str(error))
        if known.mark is not None:
            known.mark.check(len(cheap.checkpoints), cheap.episode)
        if fresh:
            content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **asdict(known)}
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
            if on_lesson is not None:
                on_lesson(known)
        lessons[cheap.episode] = known
    return lessons


def _file_name(episode: str) -> str:
    """Return a file name that every id has to itself."""
    name = quote(episode, safe="")
    # Most file systems take names of up to 255 bytes; leading dots would hide the file.
    if len(name) > 200 or name.startswith("."):
        name = hashlib.sha256(episode.encode()).hexdigest()
    return f"{name}.json"


def _read_lesson(path: Path, teacher: str, episode: str) -> Lesson:
    from pydantic import TypeAdapter

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if (content.pop("format"), content.pop("schema_version")) != (FORMAT, SCHEMA_VERSION):
            raise ValueError("another format")
        lesson = TypeAdapter(Lesson).validate_python(content)
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise FileFormatError(f"{path}: not a mark ({why}); expected one that mark_pairs wrote") from None
    for name, found, wanted in (("teacher", lesson.teacher, teacher), ("episode", lesson.episode, episode)):
        if found != wanted:
            told = f"{path}: {name} is {found!r}; expected {wanted!r} (keep one folder for each teacher)"
            raise FileFormatError(told)
    return lesson


@dataclass(frozen=True)
class ModelTeacher:
    """Shows both rollouts to a model and asks for the range.

    The answer must be a JSON object with the whole numbers `earliest` <= `recommended` <= `latest` inside the Cheap
    rollout. Text around it and more keys are ignored; the explanation is kept in the exchange and not used. Where the
    answer is not so, the model is asked again, with what was wrong.

    Attributes
    ----------
    endpoint
        The model.
    attempts
        Answers in all before the teacher gives up on an episode.
    retry
        What to do about transient errors of the endpoint.
    longest_observation
        Observations are cut to so many letters.
    seed, sleep
        For the waits.
    """

    endpoint: Endpoint
    attempts: int = 3
    retry: Retry = field(default_factory=Retry)
    longest_observation: int = 600
    seed: int = 0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("attempts", self.attempts, 1)
        validate.whole("longest_observation", self.longest_observation, 1)

    @property
    def name(self) -> str:
        """Name for what is kept."""
        return f"model {self.endpoint.model}"

    def mark(self, cheap: Transcript, strong: Transcript) -> Lesson:
        """Mark one episode.

        Raises
        ------
        TeacherError
            If no answer passes the check.
        ActorError
            If the endpoint gives none.
        """
        exchange = self._opening(cheap, strong)
        n_steps = len(cheap.checkpoints)
        wrong = ""
        for _ in range(self.attempts):
            answer, _ = asked_again(
                lambda: self.endpoint.complete(exchange).text, self.name, self.retry, self._rng, self.sleep
            )
            exchange.append({"role": "assistant", "content": answer})
            try:
                mark = read_answer(answer, n_steps, cheap.episode)
            except InvalidDataError as error:
                wrong = str(error)
                exchange.append(
                    {"role": "user", "content": f"That does not fit: {wrong}. Answer with one JSON object: {SHAPE}"}
                )
            else:
                return Lesson(cheap.episode, mark, self.name, tuple(exchange))
        # The last complaint was not sent.
        raise TeacherError(f"no usable mark in {self.attempts} answers: {wrong}", tuple(exchange[:-1]))

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def _opening(self, cheap: Transcript, strong: Transcript) -> list[Message]:
        text = files("bayes_tacit.agents").joinpath("teacher.txt").read_text(encoding="utf-8")
        n_steps = len(cheap.checkpoints)
        values = {
            "task": cheap.task,
            "n_steps": n_steps,
            "last_step": n_steps - 1,
            "cheap": self._written(cheap),
            "strong": self._written(strong),
        }
        system, user = (Template(part).substitute(values) for part in text.strip("\n").split("\n---\n", 1))
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _written(self, transcript: Transcript) -> str:
        lines = [self._cut(transcript.history(0).first.text)]
        for step in transcript.executed:
            lines += [f"step {step.step}: {step.proposal.action}", self._cut(_text(step) or "")]
        return "\n".join(lines)

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.longest_observation else f"{text[: self.longest_observation]} [...]"


def read_answer(answer: str, n_steps: int, episode: str) -> Mark:
    """Find the mark in an answer: in the first JSON object in it.

    Examples
    --------
    >>> read_answer('Sure: {"earliest": 2, "latest": 4, "recommended": 3, "explanation": "loops"}', 9, "task-1")
    Mark(start=2, end=4, recommended=3)
    """
    decoder, content = json.JSONDecoder(), None
    at = answer.find("{")
    while at >= 0 and content is None:
        try:
            content, _ = decoder.raw_decode(answer, at)
        except (ValueError, RecursionError):
            at = answer.find("{", at + 1)
    if content is None:
        raise InvalidDataError("a JSON object", episode=episode, field="answer", value=answer)
    numbers = {name: content.get(name) for name in ("earliest", "latest", "recommended")}
    for name, value in numbers.items():
        if type(value) is not int or not 0 <= value < n_steps:
            expected = f"a whole number from 0 to {n_steps - 1}"
            raise InvalidDataError(expected, episode=episode, field=name, value=value)
    if not numbers["earliest"] <= numbers["recommended"] <= numbers["latest"]:
        raise InvalidDataError("earliest <= recommended <= latest", episode=episode, field="the range", value=numbers)
    return Mark(numbers["earliest"], numbers["latest"], numbers["recommended"])


@dataclass(frozen=True)
class RuleTeacher:
    """Marks the earliest run of checkpoints at which failure is clear and recovery is possible.

    The rule puts the paper's words into two conditions on a checkpoint t of the failed Cheap rollout:

    - failure risk is clear: by default, no progress in the last three steps (`stalled_for`);
    - recovery remains feasible: a handoff after action t, replayed, succeeds (`feasible_by`).

    The range is the first maximal run of consecutive checkpoints at which both hold, cut to `longest`; the recommended
    checkpoint is its first. Where they hold nowhere there is no mark, and the episode counts as AB = 01 without a
    window. Feasibility knows the future of every handoff, which a person who reads two rollouts can only guess: such
    marks are a best case of a teacher, not a likeness of one.

    Attributes
    ----------
    feasible, clear
        The two conditions.
    longest
        Most checkpoints in a range; None for no limit.
    """

    feasible: AtCheckpoint
    clear: AtCheckpoint
    longest: int | None = None
    name: str = "rule"

    def __post_init__(self) -> None:
        """Check the number."""
        if self.longest is not None:
            validate.whole("longest", self.longest, 1)

    def mark(self, cheap: Transcript, strong: Transcript) -> Lesson:  # noqa: ARG002
        """Mark one episode."""
        both = [self.clear(cheap, at) and self.feasible(cheap, at) for at in range(len(cheap.checkpoints))]
        return Lesson(cheap.episode, first_run(both, self.longest), self.name)


def feasible_by(counterfactuals: Counterfactuals) -> AtCheckpoint:
    """Take recovery as feasible at t where the replayed handoff at step t + 1 succeeded.

    After the last action there is nothing left to hand off, so it is never feasible there. A handoff that was not
    played is an error.
    """
    success = counterfactuals.dataset["success"].transpose("episode", "handoff").values
    positions = {str(episode): at for at, episode in enumerate(counterfactuals.ids.tolist())}

    def feasible(cheap: Transcript, at: int) -> bool:
        if cheap.episode not in positions:
            raise InvalidDataError(
                "an episode of the counterfactuals", episode=cheap.episode, field="episode", value=cheap.episode
            )
        row = success[positions[cheap.episode]]
        counterfactuals.check_played([positions[cheap.episode]], [at + 1])
        # Past the end of the Cheap rollout it is NaN, which is not 1.
        return at + 1 < len(row) and bool(row[at + 1] == 1)

    return feasible


def stalled_for(n_steps: int, progress: Callable[[Transcript, int], bool] | None = None) -> AtCheckpoint:
    """Take failure as clear at t where none of the last `n_steps` actions, t included, made progress.

    Parameters
    ----------
    n_steps
        How long a standstill must be.
    progress
        Says whether action t made progress; by default, whether it was valid and led to a reward or to an observation
        that was not seen before in the episode.
    """
    validate.whole("n_steps", n_steps, 1)
    made = progress or _something_new

    def clear(cheap: Transcript, at: int) -> bool:
        return at + 1 >= n_steps and not any(made(cheap, back) for back in range(at - n_steps + 1, at + 1))

    return clear


def _something_new(cheap: Transcript, at: int) -> bool:
    steps = cheap.executed
    if at >= len(steps):
        return False
    result = steps[at].result
    seen = {cheap.history(0).first.text, *(_text(step) for step in steps[:at])}
    return result is not None and result.valid and (result.reward > 0 or result.observation.text not in seen)


def _text(step: StepRecord) -> str | None:
    return None if step.result is None else step.result.observation.text
