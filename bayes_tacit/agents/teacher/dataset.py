"""Marking a set of rollouts: each mark is kept as soon as it is there, so that a stopped run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from bayes_tacit.agents.teacher.marks import Mark
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError
from bayes_tacit.files import as_path, atomic_path

FORMAT = "bayes_tacit.mark"
SCHEMA_VERSION = 1

Message = dict[str, str]
"""One message of a conversation: its role and its content."""


@dataclass(frozen=True)
class Lesson:
    """What a teacher said about an episode.

    Attributes
    ----------
    episode
        Id of the task.
    mark
        The range; None where the teacher gave none.
    teacher
        Who said it.
    exchange
        The conversation, where there was one.
    error
        Why there is no mark, where the teacher's answers did not pass the check.
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


def mark_pairs(
    pairs: Iterable[tuple[Transcript, Transcript]],
    teacher: Teacher,
    folder: str | os.PathLike[str],
    *,
    retry_failed: bool = False,
    told: Callable[[Lesson], None] | None = None,
) -> dict[str, Lesson]:
    """Have a teacher mark every episode with AB = 01.

    Each lesson is written to the folder at once, whole or not at all, and not asked for again. An endpoint that is
    down raises `ActorError`; the next run goes on from there.

    Parameters
    ----------
    pairs
        A Cheap and a Strong transcript of each task; those that are not AB = 01 are passed over.
    teacher
        Who marks. Lessons of another teacher in the folder are refused: keep one folder for each.
    folder
        Where lessons are kept; made if it does not exist.
    retry_failed
        Whether to ask again where the teacher's answers did not pass the check.
    told
        Called with each new lesson.

    Returns
    -------
    dict
        Lessons by episode.
    """
    home = as_path(folder)
    if not home.absolute().parent.is_dir():
        raise MissingFileError(f"{home.parent}: no such folder; expected the folder in which to make {home.name}")
    home.mkdir(exist_ok=True)
    lessons: dict[str, Lesson] = {}
    for cheap, strong in pairs:
        if cheap.episode != strong.episode:
            raise InvalidDataError(
                "a Strong transcript of the same episode", episode=cheap.episode, field="episode", value=strong.episode
            )
        if not (cheap.conclusive and strong.conclusive) or cheap.end.success or not strong.end.success:
            continue
        path = home / _file_name(cheap.episode)
        known = _read(path, teacher.name, cheap.episode) if path.exists() else None
        if known is None or (retry_failed and known.error is not None):
            try:
                known = teacher.mark(cheap, strong)
            except TeacherError as error:
                known = Lesson(cheap.episode, None, teacher.name, error.exchange, str(error))
            if known.mark is not None:
                known.mark.check(len(cheap.checkpoints), cheap.episode)
            _write(known, path)
            if told is not None:
                told(known)
        elif known.mark is not None:
            known.mark.check(len(cheap.checkpoints), cheap.episode)
        lessons[cheap.episode] = known
    return lessons


def _file_name(episode: str) -> str:
    """Give a file name that every id has to itself."""
    name = quote(episode, safe="")
    # Most file systems take names of up to 255 bytes; leading dots would hide the file.
    if len(name) > 200 or name.startswith("."):
        name = hashlib.sha256(episode.encode()).hexdigest()
    return f"{name}.json"


def _write(lesson: Lesson, path: Path) -> None:
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **asdict(lesson)}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _read(path: Path, teacher: str, episode: str) -> Lesson:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["schema_version"] != SCHEMA_VERSION:
            raise ValueError("another format")
        mark = _mark(content["mark"])
        exchange = tuple({"role": str(said["role"]), "content": str(said["content"])} for said in content["exchange"])
        lesson = Lesson(content["episode"], mark, content["teacher"], exchange, content["error"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path}: not a mark ({error}); expected one that mark_pairs wrote") from None
    for field, found, wanted in (("teacher", lesson.teacher, teacher), ("episode", lesson.episode, episode)):
        if found != wanted:
            raise FileFormatError(
                f"{path}: {field} is {found!r}; expected {wanted!r} (keep one folder for each teacher)"
            )
    return lesson


def _mark(given: Mapping[str, int] | None) -> Mark | None:
    return None if given is None else Mark(given["start"], given["end"], given["recommended"])
