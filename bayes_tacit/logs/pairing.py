"""Rollouts on disk until they are paired, pairs as lines of episodes, and a report of what they look like."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs import reader
from bayes_tacit.logs.extractor import FLAGS, UNCERTAINTY
from bayes_tacit.logs.reader import Reader, Script
from bayes_tacit.logs.rollout import SPENT, Row

CHEAP, STRONG = 0, 1
SIDES = ("cheap", "strong")

Columns = Mapping[str, Mapping[str, float | str]]
"""What a user's table says of each task: values by column, by task."""

_CARRIED = tuple(f"{side}_{name}" for name in ("score", *SPENT) for side in SIDES)
_STEPS = tuple(f"step_{name}" for name in SPENT)
OWN_NAMES = (
    *("prompt_length", "n_tools", "strong_steps", "task", "trial"),
    *(*_CARRIED, *_STEPS, *FLAGS, UNCERTAINTY),
    *(*reader.FEATURES, *reader.DIAGNOSTICS),
)
"""Names that the importer gives, and a user's columns and signals cannot have."""

_JOINED = "FROM pair LEFT JOIN cheap c ON c.id = pair.cheap LEFT JOIN strong s ON s.id = pair.strong"
"""Every row of `pair`; what was played by one side only has nothing of the other."""

UnpairedLogs = Literal["auto", "keep", "drop"]
"""What becomes of rollouts without a partner: kept if there are more of them than pairs, kept, or left out."""

ENOUGH_PAIRS = 40
"""Pairs beside one-sided logs from which on nothing more is asked for: enough to see whether the two logs agree."""

_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Sides(NamedTuple):
    """Something of Cheap's log and of Strong's."""

    cheap: str
    strong: str


@dataclass(frozen=True)
class Unpaired:
    """Rollouts of one side without a partner: how many, and the tasks of the first few."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """What a diagnostic or a feature looks like.

    Attributes
    ----------
    least, mean, most
        Over all steps, or all episodes.
    episodes
        Share of the episodes in which a diagnostic is ever above 0; None for a feature.
    """

    name: str
    least: float
    mean: float
    most: float
    episodes: float | None = None

    @property
    def constant(self) -> bool:
        """Whether it never changes."""
        return self.least == self.most


class Store:
    """A database of rollouts in a temporary file of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        # It is thrown away in the end: nothing has to survive a crash.
        for setting in ("journal_mode = OFF", "synchronous = OFF", "temp_store = FILE", "cache_size = -32000"):
            self._connection.execute(f"PRAGMA {setting}")
        for side in SIDES:
            columns = ", ".join((*Row._fields, "place"))
            self._connection.execute(f"CREATE TABLE {side} (id INTEGER PRIMARY KEY, {columns})")

    def add(self, side: int, rows: Iterable[tuple[Row, str]]) -> None:
        """Put rollouts of one side in, in their order; what has names is kept as JSON."""
        columns = (*Row._fields, "place")
        statement = f"INSERT INTO {SIDES[side]} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        plain = ([_json(value) if isinstance(value, Mapping) else value for value in (*row, at)] for row, at in rows)
        self._connection.executemany(statement, plain)
        self._connection.commit()

    def pair(self, *, number_trials: bool, unpaired: UnpairedLogs = "auto") -> None:
        """Find which rollouts belong together: the k-th of a task with the k-th of the same task.

        Rollouts without a partner are kept as rows of their own if they are wanted, or by default if there are more of
        them than pairs.

        Raises
        ------
        InvalidDataError
            If a task comes twice on one side and nothing tells its trials apart, unless they are to be numbered; or if
            there is no pair.
        """
        for side in SIDES:
            self._connection.execute(f"CREATE INDEX {side}_task ON {side} (task, trial)")
            self._refuse_repeats(side, number_trials)
        ranked = (
            "SELECT id, task, row_number() OVER (PARTITION BY task ORDER BY trial IS NULL, length(trial), trial, id) "
            "AS rank FROM {}"
        )
        self._connection.execute(
            f"CREATE TABLE pair AS SELECT c.id AS cheap, s.id AS strong, c.rank AS rank "
            f"FROM ({ranked.format('cheap')}) c JOIN ({ranked.format('strong')}) s "
            "ON c.task = s.task AND c.rank = s.rank ORDER BY c.id"
        )
        if number_trials:
            self._refuse_other_prompts()
        cheap, strong, pairs = self.unpaired(CHEAP), self.unpaired(STRONG), self.value("SELECT count(*) FROM pair")
        if unpaired == "keep" or (unpaired == "auto" and cheap.count + strong.count > pairs):
            for side, ids in zip(SIDES, ("id, NULL", "NULL, id"), strict=True):
                self._connection.execute(
                    f"INSERT INTO pair SELECT {ids}, rank FROM ({ranked.format(side)}) "
                    f"WHERE id NOT IN (SELECT {side} FROM pair WHERE {side} IS NOT NULL) ORDER BY id"
                )
        elif not pairs:
            expected = (
                f"tasks that are in both logs; Cheap has {cheap.count} such as {list(cheap.examples[:2])}, "
                f"Strong {strong.count} such as {list(strong.examples[:2])}"
            )
            raise InvalidDataError(expected, field="paired tasks", value=0)

    def _refuse_repeats(self, side: str, number_trials: bool) -> None:
        numbered = "AND trial IS NOT NULL" if number_trials else ""
        repeats = self.rows(
            f"SELECT task, trial, min(id), max(id) FROM {side} WHERE true {numbered} "
            "GROUP BY task, trial HAVING count(*) > 1 LIMIT 1"
        )
        for task, trial, *ids in repeats:
            places = [self.value(f"SELECT place FROM {side} WHERE id = {identity}") for identity in ids]
            expected, value = "each trial of a task once", f"{task}, trial {trial}"
            if trial is None:
                expected = (
                    "each task once in a log, or a trial beside it (or --trials number, to number them in order: the "
                    "k-th of Cheap then goes with the k-th of Strong, if their prompts agree)"
                )
                value = task
            raise InvalidDataError(expected, episode=task, field="task", value=value, where=" and ".join(places))

    def _refuse_other_prompts(self) -> None:
        """Refuse pairs of numbered trials whose prompts differ: a folder's order does not say what belongs together."""
        several = "SELECT task FROM cheap GROUP BY task HAVING count(*) > 1"
        query = (
            f"SELECT c.task, c.place, s.place {_JOINED} WHERE c.prompt <> s.prompt AND c.task IN ({several}) LIMIT 1"
        )
        for task, *places in self.rows(query):
            expected = (
                "the same prompt on both sides of a pair: give each task a name of its own, or each trial a number"
            )
            where = " and ".join(places)
            raise InvalidDataError(expected, episode=task, field="prompt", value="two that differ", where=where)

    def value(self, query: str) -> Any:  # noqa: ANN401  one value
        """Return the one value of a query."""
        return next(self.rows(query))[0]

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query, one at a time."""
        return self._connection.execute(query)

    def names(self, side: int, column: str) -> dict[str, int]:
        """Return the names in a column of JSON, and how many paired rollouts have each."""
        name = SIDES[side]
        query = f"SELECT j.key, count(*) FROM pair JOIN {name} t ON t.id = pair.{name}, json_each(t.{column}) j"
        return dict(self.rows(f"{query} GROUP BY j.key"))

    def unpaired(self, side: int) -> Unpaired:
        """Return what of a side has no partner."""
        name = SIDES[side]
        missing = f"FROM {name} WHERE id NOT IN (SELECT {name} FROM pair WHERE {name} IS NOT NULL)"
        few = self.rows(f"SELECT task {missing} ORDER BY id LIMIT 5")
        return Unpaired(self.value(f"SELECT count(*) {missing}"), tuple(task for (task,) in few))

    def models(self, side: int) -> str:
        """Return the names of who played a side."""
        names = [name for (name,) in self.rows(f"SELECT DISTINCT model FROM {SIDES[side]}") if name]
        return ", ".join(sorted(names))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


@dataclass(frozen=True)
class Plan:
    """What each line holds, which is the same for all of them.

    `flags`, `signals` and `read` are the diagnostics: those that are 0 or 1, the uncertainty with own signals, and
    those from words. `carried` and `steps` are known of at least one rollout, or of its steps.
    """

    flags: tuple[str, ...]
    signals: tuple[str, ...]
    read: tuple[str, ...]
    n_tools: bool
    carried: tuple[str, ...]
    steps: tuple[str, ...]
    trials: bool
    columns: Columns

    @classmethod
    def of(cls, store: Store, wanted: Sequence[str] | None, columns: Columns) -> Plan:
        """Look at what the paired rollouts have."""
        ((total, played, trials, n_tools),) = store.rows(
            "SELECT count(*), count(pair.cheap), max(pair.rank), count(coalesce(c.n_tools, s.n_tools)) " + _JOINED
        )
        carried = {f"{side}_{name}" for at, side in enumerate(SIDES) for name in store.names(at, "carried")}
        steps, signals = store.names(CHEAP, "steps"), store.names(CHEAP, "signals")
        return cls(
            flags=tuple(name for name in FLAGS if wanted is None or name in wanted),
            signals=tuple(
                name
                for name, count in sorted(signals.items(), key=lambda one: one[0] != UNCERTAINTY)
                if count == played and (wanted is None or name in wanted or name != UNCERTAINTY)
            ),
            read=tuple(name for name in reader.DIAGNOSTICS if wanted is None or name in wanted),
            n_tools=n_tools == total,
            carried=tuple(name for name in _CARRIED if name in carried),
            steps=tuple(name for name in _STEPS if name in steps),
            trials=(trials or 1) > 1,
            columns=columns,
        )


@dataclass
class Range:
    """The least, the mean and the greatest of some numbers, as they go by, and how many lots are ever above 0."""

    least: float = math.inf
    most: float = -math.inf
    total: float = 0.0
    count: int = 0
    ever: int = 0

    def add(self, values: Sequence[float]) -> None:
        """Take some more."""
        self.least, self.most = min(self.least, *values), max(self.most, *values)
        self.total, self.count = self.total + math.fsum(values), self.count + len(values)
        self.ever += max(values) > 0


@dataclass
class Tally:
    """What is counted while episodes are written."""

    outcomes: Counter[str] = field(default_factory=Counter)
    diagnostics: dict[str, Range] = field(default_factory=lambda: defaultdict(Range))
    features: dict[str, Range] = field(default_factory=lambda: defaultdict(Range))
    cheap_steps: int = 0
    strong_steps: int = 0


@dataclass(frozen=True)
class Words:
    """A reader, and what it says of each pair.

    Attributes
    ----------
    reader
        The reader.
    held
        Log-odds of pairs by one that did not see their tasks; what is not here, the reader did not see.
    """

    reader: Reader
    held: Mapping[int, np.ndarray]

    def odds(self, pair: int, script: bytes) -> np.ndarray:
        """Return the log-odds of both sides before the first step of a pair and after each."""
        held = self.held.get(pair)
        return self.reader.odds(Script.from_bytes(script)) if held is None else held


def learn_words(store: Store, plan: Plan, group: str | None, seed: int) -> tuple[list[str], Words | None]:
    """Learn a reader from what each side played; without enough words None. A sentence says what came of it."""
    from bayes_tacit.logs.learning import FEWEST, MOST_WORDS, learn

    if store.value(f"SELECT count(*) {_JOINED} WHERE coalesce(c.words, s.words) IS NULL"):
        return [], None
    pairs, scripts, outcomes, groups, words = [], [], [], [], 0
    # A long log is learned from in part, drawn by a hash of the row's number, so that the same is drawn again.
    columns = "pair.rowid, coalesce(c.task, s.task), c.success, s.success, coalesce(c.words, s.words)"
    query = f"SELECT {columns} {_JOINED} ORDER BY (pair.rowid * 40503) % 65536"
    for pair, task, cheap, strong, script in store.rows(query):
        pairs.append(pair)
        scripts.append(Script.from_bytes(script))
        outcomes.append((cheap, strong))
        groups.append(task if group is None else plan.columns.get(task, {}).get(group, task))
        words += scripts[-1].n_words
        if words > MOST_WORDS:
            break
    both = np.array(outcomes, dtype=float)
    if min(len(set(groups)), *(~np.isnan(both)).sum(axis=0)) < FEWEST:
        return [f"words were not read: a reader is learned from {FEWEST} tasks of each side on"], None
    learned = learn(scripts, both[:, 0], both[:, 1], groups, seed=seed)
    read = Words(learned.reader, dict(zip(pairs, learned.odds, strict=True)))
    kind, (cheap_gain, strong_gain) = "tasks" if group is None else "groups", learned.gains
    return [
        f"words: a reader was learned from {learned.reader.tasks} {kind}; in {kind} left out it takes {cheap_gain:.0%} "
        f"off the log loss of Cheap's success, {strong_gain:.0%} off that of Strong's"
    ], read


def write_episodes(store: Store, plan: Plan, file: TextIO, words: Words | None = None) -> Tally:
    """Write the pairs in the order of Cheap's log, and count."""
    tally = Tally()
    if words is not None:
        file.write(json.dumps({reader.READER: words.reader.to_dict()}) + "\n")
    query = (
        "SELECT coalesce(c.task, s.task), pair.rank, c.success, s.success, coalesce(c.flags, x''), length(s.flags), "
        "coalesce(c.prompt_length, s.prompt_length), coalesce(c.n_tools, s.n_tools), coalesce(c.features, s.features), "
        f"coalesce(c.place, s.place), pair.rowid, coalesce(c.words, s.words), c.carried, s.carried, c.signals, c.steps "
        f"{_JOINED} ORDER BY pair.rowid"
    )
    names: set[str] = set()
    for row in store.rows(query):
        task, rank, cheap, strong, flags, strong_steps, length, n_tools, *texts = row
        features: dict[str, float] = {"prompt_length": length} | ({"n_tools": n_tools} if plan.n_tools else {})
        logged, place, pair, script, *known = texts
        features |= json.loads(logged or "{}")
        carried, other, signals, by_step = (json.loads(text or "{}") for text in known)
        extra: dict[str, Any] = {"strong_steps": strong_steps}
        if plan.columns and task not in plan.columns:
            expected = "a row of that task in the table of --tasks"
            raise InvalidDataError(expected, episode=task, field="task", value=task, where=place)
        for name, value in plan.columns.get(task, {}).items():
            (extra if isinstance(value, str) else features)[name] = value  # type: ignore[assignment]
        columns = {name: [mask >> FLAGS.index(name) & 1 for mask in flags] for name in plan.flags}
        columns |= {name: signals[name] for name in plan.signals if flags}
        if words is not None:
            odds = words.odds(pair, script)
            features |= zip(reader.FEATURES, odds[0].round(6).tolist(), strict=True)
            seen = reader.diagnostics_of(odds[:-1], odds[1:]).round(6).T.tolist()
            columns |= {
                name: values for name, values in zip(reader.DIAGNOSTICS, seen, strict=True) if name in plan.read
            }
        spent = {f"cheap_{name}": value for name, value in carried.items()}
        spent |= {f"strong_{name}": value for name, value in other.items()}
        extra |= {name: spent.get(name) for name in plan.carried}
        episode = task
        if plan.trials:
            episode, extra["task"], extra["trial"] = f"{task}#{rank}", task, rank
        names = names or set(features)
        if set(features) != names:
            expected = f"{sorted(names)}, as the first task has; one of one side only needs them in its own log"
            raise InvalidDataError(expected, episode=task, field="features", value=sorted(features), where=place)
        if plan.steps:
            values = ([None] * len(flags) if name not in by_step else by_step[name] for name in plan.steps)
            extra["steps"] = [dict(zip(plan.steps, step, strict=True)) for step in zip(*values, strict=True)]
        steps = [dict(zip(columns, step, strict=True)) for step in zip(*columns.values(), strict=True)]
        record = {
            "episode": episode,
            "features": features,
            "cheap_success": None if cheap is None else bool(cheap),
            "strong_success": None if strong is None else bool(strong),
            "diagnostics": steps or [{} for _ in flags],
        }
        file.write(_json(record | extra) + "\n")
        tally.outcomes["".join("-" if each is None else str(each) for each in (cheap, strong))] += 1
        tally.cheap_steps += len(flags)
        tally.strong_steps += strong_steps or 0
        for name, value in features.items():
            tally.features[name].add((value,))
        for name, column in columns.items() if flags else ():
            tally.diagnostics[name].add(column)
    return tally


@dataclass(frozen=True)
class ImportReport:
    """What came of two logs; printed, it says so in words.

    Attributes
    ----------
    episodes
        How many there are: pairs, and tasks of one side only where these are kept.
    outcomes
        How many by paired outcome AB; "-" for a side that was not played.
    unpaired_cheap, unpaired_strong
        What could not be paired and was left out.
    diagnostics, features
        What they look like.
    carried
        Variables that go along: by episode, and by step.
    trials
        Whether some tasks have several episodes.
    cheap_steps, strong_steps
        Mean steps of a rollout.
    formats, models
        What the logs were, and who played.
    notes
        What else there is to know, one sentence each.
    """

    episodes: int
    outcomes: dict[str, int]
    unpaired_cheap: Unpaired
    unpaired_strong: Unpaired
    diagnostics: tuple[Shape, ...]
    features: tuple[Shape, ...]
    carried: tuple[str, ...]
    trials: bool
    cheap_steps: float
    strong_steps: float
    formats: Sides
    models: Sides
    notes: tuple[str, ...]

    @classmethod
    def of(cls, store: Store, plan: Plan, tally: Tally, formats: Sequence[str], notes: Sequence[str]) -> ImportReport:
        """Put together what was counted."""
        played, answered = (sum(count for ab, count in tally.outcomes.items() if ab[at] != "-") for at in (0, 1))
        shown = ["00", "01", "10", "11", *(ab for ab in ("0-", "1-", "-0", "-1") if tally.outcomes[ab])]
        columns = next(iter(plan.columns.values()), {})
        texts = (name for name, value in columns.items() if isinstance(value, str))

        def shape(name: str, seen: Range, share: float | None = None) -> Shape:
            return Shape(name, seen.least, seen.total / seen.count, seen.most, share)

        report = cls(
            episodes=sum(tally.outcomes.values()),
            outcomes={outcome: tally.outcomes[outcome] for outcome in shown},
            unpaired_cheap=store.unpaired(CHEAP),
            unpaired_strong=store.unpaired(STRONG),
            diagnostics=tuple(shape(name, seen, seen.ever / played) for name, seen in tally.diagnostics.items()),
            features=tuple(shape(name, seen) for name, seen in tally.features.items()),
            carried=("strong_steps", *(("task", "trial") if plan.trials else ()), *texts, *plan.carried, *plan.steps),
            trials=plan.trials,
            cheap_steps=tally.cheap_steps / max(played, 1),
            strong_steps=tally.strong_steps / max(answered, 1),
            formats=Sides(*formats),
            models=Sides(store.models(CHEAP), store.models(STRONG)),
            notes=(),
        )
        return replace(report, notes=(*report._remarks(store), *notes))

    def _remarks(self, store: Store) -> Iterator[str]:
        if self.trials:
            yield "several trials of a task are episodes of their own (task#1, task#2): split them by task"
        without = store.value(
            "SELECT count(*) FROM pair JOIN cheap c ON c.id = pair.cheap "
            f"WHERE json_extract(c.signals, '$.{UNCERTAINTY}') IS NULL"
        )
        if 0 < without < self.episodes:
            yield f"uncertainty is left out: {without} Cheap rollouts have steps without log-probabilities"
        if self.diagnostics and not store.value(f"SELECT coalesce(sum(c.acted), 1) {_JOINED}"):
            yield (
                "no call or action was found in Cheap's turns, so most signs say nothing; if it acts in words, "
                "--action takes a regular expression for how it writes what it does"
            )
        for side in SIDES:
            won, best = next(store.rows(f"SELECT max(success), max(json_extract(carried, '$.score')) FROM {side}"))
            if not won and best is not None:
                yield f"no rollout of {side.title()} is a success: the highest score is {best:g}; see --threshold"
        silent = [shape.name for shape in self.diagnostics if shape.constant]
        if silent:
            yield f"constant diagnostics, from which nothing can be learned: {', '.join(silent)}"
        constant = [shape.name for shape in self.features if shape.constant]
        if constant:
            yield f"constant features: {', '.join(constant)}"
        cheap, strong = (sum(count for ab, count in self.outcomes.items() if ab[at] == "-") for at in (1, 0))
        if cheap or strong:
            pairs = self.episodes - cheap - strong
            yield (
                f"{pairs} tasks were played by both, {cheap} by Cheap only and {strong} by Strong only: fit and sample "
                "learn from all of them when a handoff is due, if what Strong can do depends on the features; what a "
                "restart, a bound or a comparison says needs pairs, and so does whether the rest misleads"
                + ("" if pairs >= ENOUGH_PAIRS else f": play some {ENOUGH_PAIRS} tasks on both")
            )
        if self.outcomes["01"]:
            yield (
                f"no marks: in {self.outcomes['01']} episodes only Strong succeeded, and none says when a handoff was "
                "due; mark them with bayes-tacit teach, or fit with --unmarked due"
            )
        if estimated := store.value(f"SELECT count(*) {_JOINED} WHERE c.estimated OR s.estimated"):
            yield f"tokens of {estimated} pairs are estimated from the letters: the log has no usage of theirs"

    def __str__(self) -> str:
        counts = ", ".join(f"{outcome}: {count}" for outcome, count in self.outcomes.items())
        played = Sides(*(f" ({names})" if names else "" for names in self.models))
        lines = [
            f"{self.episodes} episodes, outcomes AB = {counts}",
            f"steps: {self.cheap_steps:.1f} of Cheap{played.cheap}, {self.strong_steps:.1f} of "
            f"Strong{played.strong} in the mean; formats {self.formats.cheap} and {self.formats.strong}",
        ]
        for side, other, unpaired in (
            ("Cheap", "Strong", self.unpaired_cheap),
            ("Strong", "Cheap", self.unpaired_strong),
        ):
            if unpaired.count:
                few = ", ".join(unpaired.examples) + (", ..." if unpaired.count > len(unpaired.examples) else "")
                lines.append(f"not paired: {unpaired.count} rollouts of {side} without one of {other} ({few})")
        width = max(len(shape.name) for shape in (*self.diagnostics, *self.features))
        lines.append(f"{'diagnostic':<{width}}    mean     max  episodes with it")
        for shape in self.diagnostics:
            share = "" if shape.episodes is None else f"{100 * shape.episodes:14.1f}%"
            constant = "  constant" if shape.constant else ""
            lines.append(f"{shape.name:<{width}} {shape.mean:7.3f} {shape.most:7.3g} {share}{constant}")
        lines.append(f"{'feature':<{width}}    mean     min     max")
        for shape in self.features:
            constant = "  constant" if shape.constant else ""
            lines.append(f"{shape.name:<{width}} {shape.mean:7.4g} {shape.least:7.4g} {shape.most:7.4g}{constant}")
        lines.append(f"carried along: {', '.join(self.carried)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
