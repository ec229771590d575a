"""What a question asks for, as far as rules can tell: a statistic, columns and decimals for each answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Statistic = Literal[
    "mean",
    "median",
    "std",
    "variance",
    "minimum",
    "maximum",
    "skewness",
    "kurtosis",
    "total",
    "quartile_range",
    "correlation",
    "p_value",
    "relationship",
    "normality",
    "outliers",
    "missing",
    "rows",
    "distinct",
    "mode",
]

WORDS: tuple[tuple[Statistic, tuple[str, ...]], ...] = (
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
"""Words of an answer's name that tell what is asked for; the first that is found counts."""

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
    """One answer that a question asks for.

    Attributes
    ----------
    name
        As in `@name[value]`.
    statistic
        What it is; None where no rule tells.
    columns
        The columns that it is of, the most likely first.
    decimals
        To how many it is rounded; None where the question does not say.
    choices
        For an answer in words: what is said if a test is passed, and if it is not.
    """

    name: str
    statistic: Statistic | None
    columns: tuple[str, ...]
    decimals: int | None
    choices: tuple[str, str] | None = None


@dataclass(frozen=True)
class Task:
    """The words of a task, as `Question.text` puts them together.

    Attributes
    ----------
    question, constraints, format
        Its parts.
    file_name
        The table.
    """

    question: str
    constraints: str
    format: str
    file_name: str

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
        """Give the level of significance."""
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
    """Tell what each answer is, given the columns of the table."""
    mentioned = mentioned_columns(task, columns)
    return [_wanted(task, name, mentioned) for name in task.names]


def mentioned_columns(task: Task, columns: Sequence[str]) -> list[str]:
    """Give the columns that the question names, in the order in which it does; quoted ones before others."""
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
    """Give a pattern for a name whose words may be joined in any way."""
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
    """Give the sentence of the format that speaks of the answer's placeholder."""
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
