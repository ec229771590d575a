"""Paired rollouts as episodes, one line each, and what they look like as they go by."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.extractor import FLAGS, UNCERTAINTY
from bayes_tacit.logs.store import Store

Columns = Mapping[str, Mapping[str, float | str]]
"""What a user's table says of each task: values by column, by task."""

_SPENT = ("input_tokens", "output_tokens", "cost")
_CARRIED = tuple(f"{side}_{name}" for name in ("score", *_SPENT) for side in ("cheap", "strong"))
_STEPS = tuple(f"step_{name}" for name in _SPENT)
OWN_NAMES = ("prompt_length", "n_tools", "strong_steps", "task", "trial", *_CARRIED, *_STEPS, *FLAGS, UNCERTAINTY)
"""Names that the importer gives, and a user's columns cannot have."""


@dataclass
class Range:
    """The least, the mean and the greatest of some numbers, as they go by."""

    least: float = math.inf
    most: float = -math.inf
    total: float = 0.0
    count: int = 0

    def add(self, values: Sequence[float]) -> None:
        """Take some more."""
        self.least, self.most = min(self.least, *values), max(self.most, *values)
        self.total, self.count = self.total + math.fsum(values), self.count + len(values)

    def take(self, value: float) -> None:
        """Take one more."""
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float:
        """Their mean, NaN of none."""
        return self.total / self.count if self.count else math.nan


@dataclass
class Tally:
    """What is counted while episodes are written."""

    outcomes: Counter[str] = field(default_factory=Counter)
    flags: Counter[int] = field(default_factory=Counter)
    episodes_with: Counter[int] = field(default_factory=Counter)
    uncertainty: Range = field(default_factory=Range)
    features: dict[str, Range] = field(default_factory=dict)
    cheap_steps: int = 0
    strong_steps: int = 0


@dataclass(frozen=True)
class Plan:
    """What each line holds, which is the same for all of them.

    Attributes
    ----------
    flags
        The diagnostics that are 0 or 1.
    uncertainty
        Whether every Cheap step has one.
    n_tools
        Whether the log says which tools were offered.
    carried, steps
        What is known of at least one rollout, or of its steps.
    trials
        Whether a task has several episodes.
    columns
        The user's table.
    """

    flags: tuple[str, ...]
    uncertainty: bool
    n_tools: bool
    carried: tuple[str, ...]
    steps: tuple[str, ...]
    trials: bool
    columns: Columns

    @classmethod
    def of(cls, store: Store, wanted: Sequence[str] | None, columns: Columns) -> Plan:
        """Look at what the paired rollouts have."""
        joined = "FROM pair JOIN cheap c ON c.id = pair.cheap JOIN strong s ON s.id = pair.strong"
        known = {name: f"count({name[0]}.{name.split('_', 1)[1]})" for name in _CARRIED}
        known |= {name: f"count(c.{name})" for name in (*_STEPS, "nll", "n_tools")}
        (counts,) = store.rows(f"SELECT count(*), max(pair.rank), {', '.join(known.values())} {joined}")
        total, trials, *found = counts
        have = dict(zip(known, found, strict=True))
        names = (*FLAGS, UNCERTAINTY) if wanted is None else tuple(wanted)
        return cls(
            flags=tuple(name for name in FLAGS if name in names),
            uncertainty=UNCERTAINTY in names and have["nll"] == total,
            n_tools=have["n_tools"] == total,
            carried=tuple(name for name in _CARRIED if have[name]),
            steps=tuple(name for name in _STEPS if have[name]),
            trials=(trials or 1) > 1,
            columns=columns,
        )


def write_episodes(store: Store, plan: Plan, file: TextIO) -> Tally:
    """Write the pairs in the order of Cheap's log, and count."""
    tally = Tally()
    for line in _lines(store, plan, tally):
        file.write(line)
    return tally


def _lines(store: Store, plan: Plan, tally: Tally) -> Iterator[str]:
    bits = [(FLAGS.index(name), json.dumps(name)) for name in plan.flags]
    shown = [
        ", ".join([f"{name}: {mask >> bit & 1}" for bit, name in bits]) + (", " if bits and plan.uncertainty else "")
        for mask in range(1 << len(FLAGS))
    ]
    rows_of_steps = [f"{{{text}}}" for text in shown]
    carried = "".join(f", {name[0]}.{name.split('_', 1)[1]}" for name in plan.carried)
    steps = "".join(f", c.{name}" for name in plan.steps)
    query = (
        "SELECT c.task, pair.rank, c.success, s.success, c.flags, length(s.flags), c.nll, c.prompt_length, c.n_tools, "
        f"c.features, c.place {carried}{steps} "
        "FROM pair JOIN cheap c ON c.id = pair.cheap JOIN strong s ON s.id = pair.strong ORDER BY pair.rowid"
    )
    n_carried = len(plan.carried)
    for task, rank, cheap, strong, flags, strong_steps, nll, length, n_tools, given, place, *more in store.rows(query):
        features: dict[str, float] = {"prompt_length": length}
        if plan.n_tools:
            features["n_tools"] = n_tools
        if given is not None:
            features |= json.loads(given)
        extra: dict[str, Any] = {"strong_steps": strong_steps}
        if plan.columns:
            for name, value in _row_of(plan.columns, task, place).items():
                if isinstance(value, str):
                    extra[name] = value
                else:
                    features[name] = value
        extra |= zip(plan.carried, more[:n_carried], strict=True)
        episode = task
        if plan.trials:
            episode, extra["task"], extra["trial"] = f"{task}#{rank}", task, rank
        _count(tally, f"{cheap}{strong}", flags, strong_steps, features)
        if plan.uncertainty:
            values = array("d", nll)
            tally.uncertainty.add(values)
            pairs = zip(flags, values, strict=True)
            diagnostics = ", ".join([f'{{{shown[flag]}"{UNCERTAINTY}": {value!r}}}' for flag, value in pairs])
        else:
            diagnostics = ", ".join([rows_of_steps[flag] for flag in flags])
        if plan.steps:
            extra["steps"] = _by_step(plan.steps, more[n_carried:], len(flags))
        yield (
            f'{{"episode": {_json(episode)}, "features": {{{_members(features)}}}, '
            f'"cheap_success": {_WORDS[cheap]}, "strong_success": {_WORDS[strong]}, '
            f'"diagnostics": [{diagnostics}], {_members(extra)}}}\n'
        )


_WORDS = ("false", "true")
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _members(values: Mapping[str, Any]) -> str:
    """Write the members of a JSON object; a lone whole number, the most common case, without the encoder."""
    if len(values) == 1:
        ((name, value),) = values.items()
        if value.__class__ is int:
            return f'"{name}": {value}'  # the name is one of ours
    return _json(values)[1:-1]


def _row_of(columns: Columns, task: str, place: str) -> Mapping[str, float | str]:
    if task not in columns:
        raise InvalidDataError(
            "a row of that task in the table of --tasks", episode=task, field="task", value=task, where=place
        )
    return columns[task]


def _count(tally: Tally, outcome: str, flags: bytes, strong_steps: int, features: Mapping[str, float]) -> None:
    tally.outcomes[outcome] += 1
    tally.cheap_steps += len(flags)
    tally.strong_steps += strong_steps
    tally.flags.update(flags)
    present = 0
    for flag in set(flags):
        present |= flag
    tally.episodes_with[present] += 1
    for name, value in features.items():
        if name not in tally.features:
            tally.features[name] = Range()
        tally.features[name].take(value)


def _by_step(names: Sequence[str], blobs: Sequence[bytes | None], n_steps: int) -> list[dict[str, float | None]]:
    columns = [[None] * n_steps if blob is None else array("d", blob).tolist() for blob in blobs]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
