"""A pair of analysts by rule: they answer DABench's questions whose words name the method, without a language model.

They make it possible to play DABench at its full size, through the real sandbox, where no model is at hand. What comes
out says how the policies compare with this pair, and nothing about language models.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bayes_tacit.agents.protocols import Agent, History, Proposal, Step
from simulations.dabench.questions import FAILED, RAN, read_reply
from simulations.draws import pick, uniforms

WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("relationship", ("relationship", "significance", "significant", "correlationtype")),
    ("p_value", ("p", "pvalue", "pval")),
    ("normality", ("normal", "normality", "isnormal", "normally", "distribution", "decision", "adherence")),
    ("skewness", ("skew", "skewness")),
    ("kurtosis", ("kurt", "kurtosis")),
    ("quartile_range", ("iqr",)),
    ("outliers", ("outlier", "outliers")),
    ("missing", ("missing", "null", "nulls", "nan")),
    ("correlation", ("correlation", "corr", "coefficient", "r")),
    ("std", ("std", "sd", "stddev", "stdev", "deviation")),
    ("variance", ("variance", "var")),
    ("median", ("median",)),
    ("mode", ("mode",)),
    ("mean", ("mean", "average", "avg")),
    ("minimum", ("min", "minimum", "lowest", "smallest")),
    ("maximum", ("max", "maximum", "highest", "largest")),
    ("distinct", ("unique", "distinct")),
    ("total", ("sum",)),
    ("rows", ("count", "number", "num", "rows", "total")),
)
"""Statistics, and words of an answer's name that tell that one is asked for; the first that is found counts."""

_NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DECIMALS = re.compile(r"(?:to|up to|with|at)?\s*(\w+)\s+decimal", re.IGNORECASE)
_TEST_WORDS = {
    "shapiro": "shapiro",
    "kolmogorov": "ks",
    "normaltest": "omnibus",
    "d'agostino": "omnibus",
    "anderson": "anderson",
}


@dataclass(frozen=True)
class Wanted:
    """One answer that a question asks for."""

    name: str  # As in `@name[value]`
    statistic: str | None  # What it is; None where no rule tells
    columns: tuple[str, ...]  # The columns that it is of, the most likely first
    decimals: int | None  # To how many it is rounded; None where the question does not say
    # For an answer in words: what is said if a test is passed, and if it is not.
    choices: tuple[str, str] | None = None


@dataclass(frozen=True)
class Task:
    """The words of a task, as `Question.text` puts them together."""

    # question, constraints, format: Its parts.
    question: str
    constraints: str
    format: str
    file_name: str  # The table

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the answers, each once."""
        return tuple(dict.fromkeys(re.findall(r"@(\w+)\[", self.format)))

    @property
    def method(self) -> str:
        """Question and constraints in lower case."""
        return f"{self.question}\n{self.constraints}".lower()

    @property
    def normality_test(self) -> str | None:
        """Which test of normality is named; "skewness" for a limit on it."""
        found = [test for word, test in _TEST_WORDS.items() if word in self.method]
        return found[0] if found else "skewness" if "skew" in self.method else None

    @property
    def outlier_rule(self) -> Literal["iqr", "z"] | None:
        """How outliers are told: by quartiles or by z-scores."""
        if "iqr" in self.method or "interquartile" in self.method or "quartile range" in self.method:
            return "iqr"
        return "z" if re.search(r"z[- ]?score", self.method) else None

    def alpha(self) -> float:
        """Return the level of significance."""
        found = re.search(r"(?:alpha|significance)[^.]{0,40}?(0\.\d+)", self.method)
        return float(found.group(1)) if found else 0.05


def read_task(text: str) -> Task:
    r"""Take the words of a task apart.

    Examples
    --------
    >>> task = read_task(
    ...     "What is the mean of \"Fare\"?\n\nConstraints: Round to two decimal places.\n\n"
    ...     "Answer format: @mean_fare[mean]\n\nThe table is in the file 'a.csv' of the working folder."
    ... )
    >>> task.names, task.file_name
    (('mean_fare',), 'a.csv')
    >>> wanted(task, ["Fare", "Age"])
    [Wanted(name='mean_fare', statistic='mean', columns=('Fare',), decimals=2, choices=None)]
    """
    body, _, place = text.rpartition("\n\nThe table is in the file ")
    question, _, rest = body.partition("\n\nConstraints: ")
    constraints, _, form = rest.rpartition("\n\nAnswer format: ")
    file_name = place.removesuffix(" of the working folder.").strip("'\"")
    return Task(question, constraints, form, file_name)


def wanted(task: Task, columns: Sequence[str]) -> list[Wanted]:
    """Return what each answer is, given the columns of the table."""
    mentioned = mentioned_columns(task, columns)
    return [_wanted(task, name, mentioned) for name in task.names]


def mentioned_columns(task: Task, columns: Sequence[str]) -> list[str]:
    """Return the columns that the question names, in the order in which it does; quoted ones before others."""
    text = f"{task.question}\n{task.constraints}"
    found: dict[str, tuple[int, int]] = {}
    for column in columns:
        name = column.strip()
        if not name:
            continue
        quoted = re.search(rf"[\"'`“(]{re.escape(name)}[\"'`”)]", text)
        spoken = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        loose = (
            re.search(rf"(?<![a-z0-9]){_loosely(name)}(?:s|es)?(?![a-z0-9])", text.lower()) if len(name) > 2 else None
        )
        for rank, match in enumerate((quoted, spoken, loose)):
            if match is not None:
                found[column] = (rank, match.start())
                break
    return sorted(found, key=lambda column: found[column])


def _loosely(name: str) -> str:
    """Return a pattern for a name whose words may be joined in any way."""
    words = re.findall(r"[a-z]+|[0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return r"[\s_\-.]*".join(map(re.escape, words)) if words else re.escape(name.lower())


def _wanted(task: Task, name: str, mentioned: Sequence[str]) -> Wanted:
    tokens = _tokens(name)
    statistic = next((kind for kind, words in WORDS if any(word in words for word in (*tokens, "".join(tokens)))), None)
    ranked = sorted(mentioned, key=lambda column: -_overlap(tokens, column))
    described = _description(task, name)
    choices = _choices(task, described) if statistic in ("normality", "relationship") else None
    decimals = _decimals(described) if _decimals(described) is not None else _decimals(task.format)
    decimals = decimals if decimals is not None else _decimals(task.constraints)
    return Wanted(name, statistic, tuple(ranked), decimals, choices)


def _tokens(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[_\W]+|(?<=[a-z])(?=\d)", spaced.lower()) if word]


def _overlap(tokens: Sequence[str], column: str) -> int:
    """Count the words of a column's name that an answer's name has, and letters where a name is one word of several."""
    words = _tokens(column)
    joined = "".join(tokens)
    return 2 * sum(word in tokens for word in words) + (len(words) > 0 and "".join(words) in joined)


def _description(task: Task, name: str) -> str:
    """Return the sentence of the format that speaks of the answer's placeholder."""
    placeholder = re.search(rf"@{re.escape(name)}\[(.*?)\]", task.format)
    if placeholder is None:
        return ""
    quoted = re.search(rf"[\"'“]{re.escape(placeholder.group(1))}[\"'”]", task.format)
    if quoted is None:
        return task.format[placeholder.end() :].partition("@")[0]
    return re.split(r"[.;\n]\s|[.;\n]$|, (?:and )?[\"']", task.format[quoted.end() :], maxsplit=1)[0]


def _decimals(text: str) -> int | None:
    for word in _DECIMALS.findall(text):
        if word.isdigit() or word.lower() in _NUMBERS:
            return int(word) if word.isdigit() else _NUMBERS[word.lower()]
    if re.search(r"\binteger\b", text):
        return 0
    return None


def _choices(task: Task, described: str) -> tuple[str, str] | None:
    """Find the two answers in words: what is said if a test is passed, and if it is not."""
    for text in (described, task.format, task.constraints):
        words = re.findall(r"[\"'“]([A-Za-z][\w \-]{0,30}?)[\"'”]", text)
        words = [word for word in dict.fromkeys(words) if not re.search(rf"\[{re.escape(word)}\]", task.format)]
        negative = [word for word in words if re.match(r"(?i)(not|non|no\b|no$|false|none|in)", word)]
        positive = [word for word in words if word not in negative]
        if negative and positive:
            return positive[0], negative[0]
    for pair in (("Yes", "No"), ("yes", "no"), ("True", "False"), ("true", "false")):
        if all(re.search(rf"\b{word}\b", f"{described} {task.format}") for word in pair):
            return pair
    return None


MARK = "answer:"
"""What a printed answer begins with."""

LOOK = """\
import json
import pandas as pd
df = pd.read_csv({file!r})
print(json.dumps(list(df.columns)))
"""

PRELUDE = """\
import numpy as np
import pandas as pd
from scipy import stats
df = pd.read_csv({file!r})
"""

NUMBERS = """\
def numbers(column):
    values = df[column]
    if values.dtype == object or str(values.dtype).startswith("str"):
        values = values.astype(str).str.replace(r"[,$%]", "", regex=True)
    return pd.to_numeric(values, errors="coerce")
"""


def look(task: Task) -> str:
    """Write the call that shows the columns of the table."""
    return LOOK.format(file=task.file_name)


def compute(task: Task, answers: Sequence[Wanted], *, careful: bool) -> str:
    """Write the call that computes all answers that are understood.

    What is computed is what the constraints name. Without `careful`, columns are taken as they are, and of the
    constraints only the decimals are read.
    """
    lines = [PRELUDE.format(file=task.file_name)]
    if careful:
        lines.append(NUMBERS)
    for answer in answers:
        lines += _lines(task, answer, careful=careful)
    return "\n".join(lines) + "\n"


def _lines(task: Task, answer: Wanted, *, careful: bool) -> list[str]:
    expression = _expression(task, answer, careful=careful)
    if expression is None:
        return []
    setup, value = expression
    if answer.decimals is not None and answer.choices is None:
        value = f"round(float({value}), {answer.decimals})" if answer.decimals else f"int(round(float({value})))"
    return [*setup, f"print({MARK + answer.name!r}, {value})"]


def _expression(task: Task, answer: Wanted, *, careful: bool) -> tuple[list[str], str] | None:
    """Return lines that prepare a value, and the value; None where there is no rule."""
    if answer.statistic is None:
        return None
    if answer.statistic in ("correlation", "p_value", "relationship") and (
        "correlat" in task.method or "relationship" in task.method
    ):
        return _correlation(task, answer, careful=careful)
    if answer.statistic == "missing" and not answer.columns:
        return [], "df.isna().sum().sum()"
    if answer.statistic == "rows" and not answer.columns:
        return [], "len(df)"
    if not answer.columns:
        return None
    column = answer.columns[0]
    series = f"numbers({column!r})" if careful else f"df[{column!r}]"
    if answer.statistic == "missing":
        return [], f"df[{column!r}].isna().sum()"
    if answer.statistic == "distinct":
        return [], f"df[{column!r}].nunique()"
    setup = [f"x = {series}.dropna()"]
    if careful:
        setup += _prepared(task, answer)
    value = _of_one(task, answer, careful=careful)
    return None if value is None else (setup, value)


def _correlation(task: Task, answer: Wanted, *, careful: bool) -> tuple[list[str], str] | None:
    if len(answer.columns) < 2:
        return None
    one, other = answer.columns[:2]
    method = "spearman" if careful and "spearman" in task.method else "pearson"
    read = "numbers({!r})" if careful else "df[{!r}]"
    setup = [
        f"pair = pd.concat([{read.format(one)}, {read.format(other)}], axis=1).dropna()",
        f"r, p = stats.{method}r(pair.iloc[:, 0], pair.iloc[:, 1])",
    ]
    if answer.statistic == "correlation":
        return setup, "r"
    if answer.statistic == "p_value":
        return setup, "p"
    if not careful:
        return None
    if {"linear", "nonlinear", "none"} <= set(
        task.format.replace('"', " ").replace("'", " ").replace(",", " ").split()
    ):
        return setup, f"'none' if p >= {task.alpha()} else 'linear' if abs(r) >= 0.5 else 'nonlinear'"
    yes, no = answer.choices or ("Yes", "No")
    return setup, f"{yes!r} if p < {task.alpha()} else {no!r}"


OUTSIDE = {
    "iqr": "(x < x.quantile(0.25) - 1.5 * (x.quantile(0.75) - x.quantile(0.25)))"
    " | (x > x.quantile(0.75) + 1.5 * (x.quantile(0.75) - x.quantile(0.25)))",
    "z": "((x - x.mean()) / x.std(ddof=0)).abs() > 3",
}
"""Which values are outliers, by rule."""


def _prepared(task: Task, answer: Wanted) -> list[str]:
    """Take outliers away, or all else, where the constraints or the answer's name say so."""
    if task.outlier_rule is None or answer.statistic == "outliers":
        return []
    outside = OUTSIDE[task.outlier_rule]
    if "outlier" in answer.name.lower():
        return [f"x = x[{outside}]"]
    removed = any(word in task.method for word in ("remov", "prun", "exclud", "without outlier", "drop"))
    return [f"x = x[~({outside})]"] if removed and "do not remove" not in task.method else []


SIMPLE = {
    "mean": "x.mean()",
    "median": "x.median()",
    "minimum": "x.min()",
    "maximum": "x.max()",
    "total": "x.sum()",
    "mode": "x.mode().iloc[0]",
    "rows": "len(x)",
    "quartile_range": "x.quantile(0.75) - x.quantile(0.25)",
}

NORMALITY = {
    "shapiro": "stats.shapiro(x)[1]",
    "omnibus": "stats.normaltest(x)[1]",
    "ks": "stats.kstest((x - x.mean()) / x.std(), 'norm')[1]",
}


def _of_one(task: Task, answer: Wanted, *, careful: bool) -> str | None:
    """Return a statistic of the values x."""
    kind = answer.statistic
    if kind in SIMPLE:
        return SIMPLE[kind]
    population = careful and "population" in task.method
    if kind == "std":
        return f"x.std(ddof={0 if population else 1})"
    if kind == "variance":
        return f"x.var(ddof={0 if population else 1})"
    if kind in ("skewness", "kurtosis"):
        own = careful and "scipy" in task.method
        return {"skewness": "stats.skew(x)", "kurtosis": "stats.kurtosis(x)"}[kind] if own else f"x.{kind[:4]}()"
    if not careful:
        return None
    if kind == "outliers":
        return f"int(({OUTSIDE[task.outlier_rule or 'iqr']}).sum())"
    test = task.normality_test
    if kind == "p_value":
        return NORMALITY.get(test or "")
    if kind == "normality" and answer.choices is not None:
        yes, no = answer.choices
        if test == "skewness":
            return f"{yes!r} if abs(x.skew()) < 0.5 else {no!r}"
        if test in NORMALITY:
            return f"{yes!r} if {NORMALITY[test]} > {task.alpha()} else {no!r}"
    return None


UNKNOWN = "unknown"
"""An answer of which nothing is known."""


@dataclass(frozen=True)
class Notes:
    """What one analyst takes from a history."""

    columns: tuple[str, ...] | None  # Of the table, once anybody has printed them; None before
    # What its own latest call that printed any found, by name; None before there was one.
    answers: dict[str, str] | None
    own: tuple[Step, ...]  # Its own steps

    @classmethod
    def of(cls, history: History, agent: Agent) -> Notes:
        """Read a history; a restart begins a new one."""
        own = tuple(step for step in history.steps if step.agent == agent)
        columns = next((shown for step in history.steps if (shown := _columns(step)) is not None), None)
        answers = next((found for step in reversed(own) if (found := printed_answers(step))), None)
        return cls(columns, answers, own)

    @property
    def calls(self) -> list[str]:
        """The code of its own steps; of a step that was no call, an empty text."""
        return [read_reply(step.proposal.action).code for step in self.own]

    @property
    def failed(self) -> bool:
        """Whether its latest step was a call that failed."""
        return bool(self.own) and _status(self.own[-1]) == FAILED


def printed_answers(step: Step) -> dict[str, str]:
    """Return the answers that a call printed, by name."""
    if _status(step) != RAN:
        return {}
    lines = [line for line in step.result.observation.text.splitlines() if line.startswith(MARK)]
    return dict(line.removeprefix(MARK).split(" ", 1) for line in lines)


def call(code: str, words: str = "") -> str:
    """Write a reply that is a call."""
    return f"{words}\n```python\n{code}```".lstrip()


def answer(task: Task, answers: Sequence[Wanted], found: dict[str, str]) -> str:
    """Write a reply that is the final answer; what was not found is said to be unknown."""
    names = [one.name for one in answers] or list(task.names)
    return "\n".join(f"@{name}[{found.get(name, UNKNOWN)}]" for name in names)


def _status(step: Step) -> str:
    return step.result.observation.text.partition("\n")[0]


def _columns(step: Step) -> tuple[str, ...] | None:
    """Read the columns out of what a call printed."""
    if _status(step) != RAN:
        return None
    for line in step.result.observation.text.splitlines()[1:]:
        if line.startswith("["):
            try:
                columns = json.loads(line)
            except ValueError:
                continue
            if isinstance(columns, list) and columns and all(isinstance(name, str) for name in columns):
                return tuple(columns)
    return None


@dataclass(frozen=True)
class CarefulAnalyst:
    """Answers by rules, seeing only what a player sees; the same history always gives the same reply.

    It looks at the table's columns unless they have been shown, computes in one call what the words of the question and
    of its constraints name (`reading`, `writing`), and answers. It trusts no number that it has not computed itself. If
    its call fails, or where no rule applies, it answers what it has, which is wrong.
    """

    name: str = "careful analyst"

    def act(self, history: History) -> Proposal:
        """Return the next reply."""
        task, notes = read_task(history.task), Notes.of(history, "strong")
        if notes.columns is None and not notes.failed:
            return Proposal(call(look(task), "Let me look at the table."))
        answers = wanted(task, notes.columns or ())
        code = compute(task, answers, careful=True)
        if not notes.failed and code not in notes.calls:
            return Proposal(call(code, "Now I compute what is asked."))
        return Proposal(answer(task, answers, notes.answers or {}))


OVERVIEW = """\
import pandas as pd
df = pd.read_csv({file!r})
print(df.describe())
"""

MOST_OVERVIEWS = 3


@dataclass(frozen=True)
class Haste:
    """What goes wrong with it, as probabilities.

    Attributes
    ----------
    skips_look
        In an episode: it does not look at the table first, but takes the columns to be called as the question's quoted
        words are, in lower case. Where they are not, its call fails.
    repeats
        After a call of its own that failed: it makes the same call again; else it looks at the table.
    rambles
        At a step: it says something that is neither code nor an answer.
    dithers
        Where its call found not every answer: it prints an overview of the table once more, up to three times; else it
        answers what it has.
    """

    skips_look: float = 0.5
    repeats: float = 0.5
    rambles: float = 0.08
    dithers: float = 0.6


@dataclass(frozen=True)
class HastyAnalyst:
    """Answers badly, by rules, seeing only what a player sees.

    It computes simple statistics of columns as they are, and of the constraints it reads the decimals only. What is
    drawn depends on the seed, the question and the visible history, so it plays the same episode again in the same way
    and can be asked to go on from any history. Its likelihood is exact: the probability of what it drew.

    Parameters
    ----------
    seed
        For everything that is drawn.
    haste
        What goes wrong.
    """

    seed: int = 0
    haste: Haste = Haste()
    name: str = "hasty analyst"

    def act(self, history: History) -> Proposal:
        """Return the next reply."""
        task, notes = read_task(history.task), Notes.of(history, "cheap")
        draws = uniforms(self.seed, history, 2, "hasty analyst")
        said, probability = pick({"rambles": self.haste.rambles, "works": 1 - self.haste.rambles}, draws[0])
        if said == "rambles":
            return Proposal("I think the table has what is needed; let me consider.", nll=-math.log(probability))
        reply, chosen = self._work(task, notes, history, float(draws[1]))
        return Proposal(reply, nll=-math.log(probability * chosen))

    def _work(self, task: Task, notes: Notes, history: History, draw: float) -> tuple[str, float]:
        """Return a reply, and its probability among those that it might have given here."""
        calls = notes.calls
        if notes.failed:
            what, chosen = pick({"again": self.haste.repeats, "look": 1 - self.haste.repeats}, draw)
            return call(calls[-1] if what == "again" else look(task)), chosen
        if notes.columns is None and self._looks(history):
            return call(look(task)), 1.0
        answers = self._understood(task, notes.columns)
        code = compute(task, answers, careful=False)
        if code not in calls:
            return call(code), 1.0
        found = notes.answers or {}
        overview = OVERVIEW.format(file=task.file_name)
        if all(one.name in found for one in answers) or calls.count(overview) == MOST_OVERVIEWS:
            return answer(task, answers, found), 1.0
        what, chosen = pick({"overview": self.haste.dithers, "answer": 1 - self.haste.dithers}, draw)
        return call(overview) if what == "overview" else answer(task, answers, found), chosen

    def _looks(self, history: History) -> bool:
        """Return whether it looks at the table first, in this episode."""
        return bool(uniforms(self.seed, history, 1, "hasty look", step=0)[0] >= self.haste.skips_look)

    def _understood(self, task: Task, columns: Sequence[str] | None) -> list[Wanted]:
        """Return what is wanted; columns that it has not seen are guessed from the quoted words."""
        if columns is not None:
            return wanted(task, columns)
        quoted = re.findall(r"[\"'`]([A-Za-z][\w .]*?)[\"'`]", f"{task.question}\n{task.constraints}")
        guessed = list(dict.fromkeys(word.lower() for word in quoted))
        return [replace(one, columns=one.columns or tuple(guessed)) for one in wanted(task, guessed)]
