"""The reader: the learned part of the extractor, from the words of a conversation to diagnostics and features.

Two ridge logistic regressions say how likely Cheap and Strong succeed, given the prompt, the latest turn, all turns so
far and the signs of `StepExtractor`. Words and pairs of words are hashed to places of a fixed number, with signs
(Weinberger et al., 2009), so a reader holds weights and no word of any log. A conversation so far is a few sums: a turn
costs the same after one step and after a thousand. `bayes_tacit.logs.learning` learns one; to run it takes NumPy.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import parse_json
from bayes_tacit.logs.extractor import FLAGS, StepExtractor
from bayes_tacit.logs.messages import Message, spelled_out, text_of

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

READER = "reader"
"""Attribute of episodes that holds the reader, as JSON."""

FEATURES = ("cheap_promise", "strong_promise")
"""Features that a reader gives: the log-odds, from the prompt, that Cheap and that Strong succeeds."""

DIAGNOSTICS = ("cheap_fails", "cheap_worsens", "strong_solves", "handoff_gains")
"""Diagnostics that a reader gives of a step.

How likely Cheap fails, as seen after the step; how much likelier the step has made it; how likely Strong succeeds; and
by how much a handoff makes success likelier, 0 where it does not.
"""

SIDES = ("cheap", "strong")
BLOCKS = ("prompt", "latest", "prefix")
WIDTH = 2**14
"""Places that words are hashed to, for each block of weights."""

TAIL = 3000
"""Characters of a prompt that are read, from its end: what comes before is mostly the same for all tasks."""

HEAD = 2000
"""Characters at the start, and at the end, of what a turn says and of what is answered."""

MOST = 4.0
"""Standard deviations from the mean that a number counts at most."""

NUMBERS = (
    "prompt_length",
    "step",
    "before_first_step",
    *(f"{name}_so_far" for name in FLAGS),
    *FLAGS,
    "said_length",
    "answered_length",
)
"""What is read beside words."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_PROMPT, _SAID, _ANSWERED = 0x9E3779B1, 0x3C6EF362, 0xDAA66D13
_FULL = np.uint32(0xFFFFFFFF)
_NEVER = 1e-6  # no probability is nearer to 0 or 1

Places = tuple[np.ndarray, np.ndarray]
"""Words of a text: places in ascending order, and how often each is hit, with signs; what cancels is left out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of Cheap as it is read: words of what was said and answered, lengths, and bits of its signs."""

    words: Places
    said: int
    answered: int
    flags: int


def hashed_prompt(text: str, width: int = WIDTH) -> Places:
    """Return the words of a prompt's end.

    Examples
    --------
    >>> places, hits = hashed_prompt("List all singers.")
    >>> len(places), set(abs(hits).tolist())
    (7, {1.0})
    """
    return _gathered([_hashed(text[-TAIL:], _PROMPT)], width)


def hashed_turn(said: str, answered: str, flags: int, width: int = WIDTH) -> Turn:
    """Return a turn as it is read."""
    words = _gathered([_hashed(_cut(said), _SAID), _hashed(_cut(answered), _ANSWERED)], width)
    return Turn(words, len(said), len(answered), flags)


@dataclass(frozen=True)
class Script:
    """The words of one rollout of Cheap, hashed: the prompt's, its length in characters, and each turn."""

    prompt: Places
    length: int
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, messages: Iterable[Message], flags: bytes | bytearray, width: int = WIDTH) -> Script:
        """Hash a conversation, with the flags of `StepExtractor` for each turn."""
        prompt, turns = texts_of(messages)
        hashed = [hashed_turn(*texts, flag, width) for texts, flag in zip(turns, flags, strict=True)]
        return cls(hashed_prompt(prompt, width), len(prompt), tuple(hashed))

    def to_bytes(self) -> bytes:
        """Return the script as bytes, for a database."""
        words = [self.prompt, *(turn.words for turn in self.turns)]
        numbers = [(turn.said, turn.answered, turn.flags) for turn in self.turns]
        parts = [
            np.array([len(self.turns), self.length], "<i4"),
            np.array([len(places) for places, _ in words], "<i4"),
            np.array(numbers, "<i4"),
            *(places.astype("<i4") for places, _ in words),
            *(hits.astype("<i4") for _, hits in words),
        ]
        return b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Script:
        """Read what `to_bytes` returned."""
        numbers = np.frombuffer(raw, "<i4").astype(np.int64)
        n, length = numbers[:2].tolist()
        counts, rest = numbers[2 : 3 + n], numbers[3 + n :]
        about, rest = rest[: 3 * n].reshape(n, 3).tolist(), rest[3 * n :]
        places, hits = (np.split(part, np.cumsum(counts)[:-1]) for part in np.split(rest, 2))
        words = [(place, hit.astype(float)) for place, hit in zip(places, hits, strict=True)]
        turns = (Turn(word, *row) for word, row in zip(words[1:], about, strict=True))
        return cls(words[0], length, tuple(turns))

    @property
    def n_words(self) -> int:
        """Words of all turns."""
        return sum(len(turn.words[0]) for turn in self.turns)


def texts_of(messages: Iterable[Message]) -> tuple[str, list[tuple[str, str]]]:
    """Return the text before the first turn of the assistant, and for each turn what it said and what was answered.

    Calls count as said; whatever is no turn of the assistant, as an answer.

    Examples
    --------
    >>> texts_of([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}])
    ('Hi', [('Hello.', '')])
    """
    prompt: list[str] = []
    turns: list[tuple[list[str], list[str]]] = []
    for message in messages:
        text = text_of(message.get("content"))
        if message.get("role") == "assistant":
            calls = message.get("tool_calls") or ()
            turns.append(([text, *(_call(one.get("function") or {}) for one in calls)], []))
        else:
            (turns[-1][1] if turns else prompt).append(text)
    return " ".join(prompt), [(" ".join(said), " ".join(answered)) for said, answered in turns]


def _call(function: Mapping[str, Any]) -> str:
    arguments = function.get("arguments")
    return f"{function.get('name')} {arguments if isinstance(arguments, str) else json.dumps(arguments)}"


def _cut(text: str) -> str:
    return text if len(text) <= 2 * HEAD else f"{text[:HEAD]} {text[-HEAD:]}"


@lru_cache(maxsize=1 << 16)
def _number(token: str) -> int:
    return crc32(token.encode("utf-8", "surrogatepass"))


def _hashed(text: str, salt: int) -> np.ndarray:
    """Return a number for each token of a text, and for each two tokens in a row."""
    tokens = np.array([_number(token) for token in _TOKEN.findall(text.lower())], dtype=np.uint32)
    pairs = tokens[:-1] * np.uint32(0x85EBCA6B) + tokens[1:] * np.uint32(0xC2B2AE35)
    mixed = (np.concatenate([tokens, pairs ^ (pairs >> np.uint32(15))]) ^ np.uint32(salt)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return mixed ^ (mixed >> np.uint32(16))


def _gathered(hashes: Sequence[np.ndarray], width: int) -> Places:
    """Return the places that numbers stand for; the highest bit is the sign."""
    numbers = np.concatenate(hashes)
    signs = 1.0 - 2.0 * (numbers >> np.uint32(31))
    places, back = np.unique(numbers % np.uint32(width), return_inverse=True)
    hits = np.bincount(back, signs, len(places))
    return places[hits != 0].astype(np.int64), hits[hits != 0]


def row_values(words: Places, rarity: np.ndarray) -> np.ndarray:
    """Return a text's values at its places: the root of the hits, times how rare the place is, of length 1 in all."""
    places, hits = words
    values = np.sign(hits) * np.sqrt(np.abs(hits)) * rarity[places]
    length = math.sqrt(float(values @ values))
    return values / length if length else values


def numbers_of(prompt_length: int, step: int, so_far: Sequence[int], turn: Turn | None) -> np.ndarray:
    """Return what is read beside words after so many steps, in the order of `NUMBERS`."""
    flags = 0 if turn is None else turn.flags
    lengths = (0, 0) if turn is None else (turn.said, turn.answered)
    now = [flags >> bit & 1 for bit in range(len(FLAGS))]
    return np.array(
        [math.log1p(prompt_length), step, turn is None, *so_far, *now, *map(math.log1p, lengths)], dtype=float
    )


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader keeps of a conversation: a few numbers, however long it is, which JSON can hold (`to_dict`).

    Attributes
    ----------
    step
        How many turns were read.
    prompt_length
        In characters.
    prompt, prefix
        What the words of the prompt, and the words of all turns, add to the log-odds of Cheap and of Strong.
    so_far
        How many turns had each sign.
    promise
        Log-odds from the prompt alone.
    before, now
        Log-odds after the turn before, and after the latest.
    """

    step: int
    prompt_length: int
    prompt: tuple[float, float]
    prefix: tuple[float, float]
    so_far: tuple[int, ...]
    promise: tuple[float, float]
    before: tuple[float, float]
    now: tuple[float, float]

    def features(self) -> dict[str, float]:
        """Return the features of the task."""
        return dict(zip(FEATURES, self.promise, strict=True))

    def diagnostics(self) -> dict[str, float]:
        """Return the diagnostics of the latest step."""
        return dict(zip(DIAGNOSTICS, diagnostics_of(np.array(self.before), np.array(self.now)).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Read:
        """Read what `to_dict` returned."""
        given = validate.record("what was read", record, [field.name for field in fields(cls)])
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})  # type: ignore[arg-type]


def diagnostics_of(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the diagnostics of steps, (..., 4), from the log-odds of both sides before and after them, (..., 2)."""
    chances, cheap_before = chance(now), chance(before[..., 0])
    cheap, strong = chances[..., 0], chances[..., 1]
    worse, gain = np.maximum(cheap_before - cheap, 0), np.maximum(strong - cheap, 0)
    return np.stack([1 - cheap, worse, strong, gain], axis=-1)


def chance(log_odds: np.ndarray) -> np.ndarray:
    """Return probabilities, none nearer than a millionth to 0 or 1."""
    return np.clip(1 / (1 + np.exp(-np.clip(log_odds, -40, 40))), _NEVER, 1 - _NEVER)


@dataclass(frozen=True, eq=False)
class Reader:
    """Two logistic regressions on words and signs, as plain numbers.

    Attributes
    ----------
    rarity
        (2, width): how rare each place is, in prompts and in turns.
    words
        (2, 3, width): weights of places, for Cheap and Strong, by block: the prompt, the latest turn, all turns.
    centre, scale
        Mean and standard deviation of `NUMBERS` in training.
    numbers
        (2, 1 + numbers): the intercepts, and the weights of the standardized numbers.
    tasks
        How many tasks it was learned from.

    Examples
    --------
    >>> reader = Reader.blank()
    >>> read = reader.read(reader.start("List all singers."), "sql: SELECT 1", "Error: no table", flags=4)
    >>> read.diagnostics()["cheap_fails"]
    0.5
    """

    rarity: np.ndarray
    words: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    numbers: np.ndarray
    tasks: int = 0

    @classmethod
    def blank(cls, width: int = WIDTH) -> Reader:
        """Return a reader that has learned nothing: it takes both sides for as likely to succeed as not."""
        n = len(NUMBERS)
        return cls(np.ones((2, width)), np.zeros((2, 3, width)), np.zeros(n), np.ones(n), np.zeros((2, 1 + n)))

    @classmethod
    def of(cls, episodes: Episodes) -> Reader | None:
        """Return the reader that episodes were read with, None if there is none."""
        text = episodes.dataset.attrs.get(READER)
        return None if text is None else cls.from_dict(parse_json(text, "the reader of the episodes", "a JSON object"))

    @property
    def width(self) -> int:
        """Number of places."""
        return self.rarity.shape[1]

    def start(self, prompt: str) -> Read:
        """Return what is read of a task before its first step."""
        return self.started(hashed_prompt(prompt, self.width), len(prompt))

    def read(self, read: Read, said: str, answered: str, flags: int) -> Read:
        """Return what is read after one more turn."""
        return self.took(read, hashed_turn(said, answered, flags, self.width))

    def started(self, words: Places, length: int) -> Read:
        """Do what `start` does, with a prompt that was hashed before."""
        prompt = self.words[:, 0, words[0]] @ row_values(words, self.rarity[0])
        none = (0,) * len(FLAGS)
        odds = prompt + self._numbers(numbers_of(length, 0, none, None))
        first = _pair(odds)
        return Read(0, length, _pair(prompt), (0.0, 0.0), none, first, first, first)

    def took(self, read: Read, turn: Turn) -> Read:
        """Do what `read` does, with a turn that was hashed before."""
        values = row_values(turn.words, self.rarity[1])
        latest, added = (self.words[:, block, turn.words[0]] @ values for block in (1, 2))
        prefix, step = np.array(read.prefix) + added, read.step + 1
        so_far = tuple(count + (turn.flags >> bit & 1) for bit, count in enumerate(read.so_far))
        odds = np.array(read.prompt) + latest + prefix / math.sqrt(step)
        odds = odds + self._numbers(numbers_of(read.prompt_length, step, so_far, turn))
        return Read(step, read.prompt_length, read.prompt, _pair(prefix), so_far, read.promise, read.now, _pair(odds))

    def odds(self, script: Script) -> np.ndarray:
        """Return the log-odds of both sides before the first step of a rollout and after each: (n_steps + 1, 2)."""
        read = self.started(script.prompt, script.length)
        rows = [read.now]
        for turn in script.turns:
            read = self.took(read, turn)
            rows.append(read.now)
        return np.array(rows)

    def _numbers(self, values: np.ndarray) -> np.ndarray:
        scaled = np.clip((values - self.centre) / self.scale, -MOST, MOST)
        return self.numbers[:, 0] + self.numbers[:, 1:] @ scaled

    def to_dict(self) -> dict[str, Any]:
        """Return the reader as JSON has it: half-precision numbers as text in base 64."""
        return {
            "width": self.width,
            "tasks": self.tasks,
            "rarity": _packed(self.rarity),
            "words": _packed(self.words),
            **{name: getattr(self, name).tolist() for name in ("centre", "scale", "numbers")},
        }

    @classmethod
    def from_dict(cls, record: object) -> Reader:
        """Read what `to_dict` returned, checking all of it.

        Raises
        ------
        InvalidDataError
            If anything is missing, has another shape or is not finite.
        """
        keys = ["width", "tasks", "rarity", "words", "centre", "scale", "numbers"]
        given = validate.record("reader", record, keys)
        width, n = validate.whole("width of the reader", given["width"], 1, 1 << 20), len(NUMBERS)
        scale = validate.numbers("scale of the reader", given["scale"], (n,))
        return cls(
            _unpacked("rarity", given["rarity"], (2, width)),
            _unpacked("words", given["words"], (2, 3, width)),
            validate.numbers("centre of the reader", given["centre"], (n,)),
            validate.positive("scale of the reader", scale),
            validate.numbers("numbers of the reader", given["numbers"], (2, 1 + n)),
            validate.whole("tasks of the reader", given["tasks"], 0),
        )


def _pair(values: np.ndarray) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def _unpacked(name: str, given: object, shape: tuple[int, ...]) -> np.ndarray:
    expected = f"{math.prod(shape)} half-precision numbers in base 64"
    try:
        raw = base64.b64decode(given, validate=True) if isinstance(given, str) else b""
    except ValueError:
        raw = b""
    if len(raw) != 2 * math.prod(shape):
        raise InvalidDataError(expected, field=f"{name} of the reader", value=given)
    values = np.frombuffer(raw, dtype="<f2").astype(float).reshape(shape)
    return validate.finite(f"{name} of the reader", values, shape)


class Conversation:
    """A conversation as it goes on: messages in, features and the diagnostics of each step out.

    It begins with what stands before the first turn of the assistant; without a reader there are the signs alone.
    `action` is how a text-only agent writes its actions, as for `import_logs`.

    Examples
    --------
    >>> talk = Conversation([{"role": "user", "content": "List all singers."}], Reader.blank())
    >>> said = {"role": "assistant", "content": "<execute>ls</execute>"}
    >>> found = talk.step([said, {"role": "user", "content": "Error: no such file or directory"}])
    >>> found["tool_error"], found["cheap_fails"]
    (1.0, 0.5)
    """

    def __init__(
        self,
        messages: Sequence[Message],
        reader: Reader | None = None,
        tools: Iterable[str] | None = None,
        action: re.Pattern[str] | None = None,
    ) -> None:
        self._extractor, self._reader, self._action = StepExtractor(tools), reader, action
        self._extractor.extend(messages)
        if self._extractor.n_steps:
            raise InvalidDataError("none before the first step", field="turns of the assistant", value=1)
        self._read = None if reader is None else reader.start(texts_of(messages)[0])

    def features(self) -> dict[str, float]:
        """Return the features of the task."""
        return {**self._extractor.features(), **({} if self._read is None else self._read.features())}

    def step(self, messages: Sequence[Message]) -> dict[str, float]:
        """Take one turn of the assistant with what was answered to it, and return the diagnostics of the step."""
        messages = spelled_out(messages, self._action)
        _, turns = texts_of(messages)
        if len(turns) != 1 or messages[0].get("role") != "assistant":
            expected = "one turn of the assistant, and what was answered to it"
            raise InvalidDataError(expected, field="messages", value=f"{len(messages)} with {len(turns)} turns")
        self._extractor.extend(messages)
        found = self._extractor.diagnostics()
        if self._reader is not None and self._read is not None:
            self._read = self._reader.read(self._read, *turns[0], self._extractor.flags[-1])
            found |= self._read.diagnostics()
        return found
