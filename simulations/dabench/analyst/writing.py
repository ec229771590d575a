"""Python code for what a question asks: one call that prints every answer on a line of its own."""

from __future__ import annotations

from collections.abc import Sequence

from simulations.dabench.analyst.reading import Task, Wanted

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
    """Give lines that prepare a value, and the value; None where there is no rule."""
    if answer.statistic is None:
        return None
    if answer.statistic in ("correlation", "p_value", "relationship") and _is_correlation(task):
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


def _is_correlation(task: Task) -> bool:
    return "correlat" in task.method or "relationship" in task.method


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
    """Give a statistic of the values x."""
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
