"""From a formula, as formulaic reads it, to a design that needs it no more."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import VARIABLES
from bayes_tacit.errors import InvalidDataError, MissingDependencyError
from bayes_tacit.model.design.columns import Column, Design, Factor, Level, Number, Spline, level_names
from bayes_tacit.model.design.factors import FUNCTIONS

KNOWN = "columns, C(column), bs(column, df=4), log, log1p, sqrt or exp of a column, I(column**2), joined by + : *"


def design_of(formula: str, episodes: Episodes) -> Design:
    """Read a formula on the features and carried columns of training episodes.

    Parameters
    ----------
    formula
        Terms joined by +, such as "bs(words, df=4) + C(kind) + hardness:tools". The intercept is always there.
    episodes
        The training episodes: knots and levels are taken from them.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> design_of("bs(entities, df=4) + subgoals:needs_tool", load_example()).names[3:]
    ('bs(entities, df=4)[4]', 'subgoals:needs_tool')
    """
    try:
        import formulaic
        from formulaic.errors import FormulaicError
    except ImportError as error:
        raise MissingDependencyError("a formula needs the package formulaic") from error
    if not isinstance(formula, str) or not formula.strip():
        raise InvalidDataError("a formula, such as 'bs(words, df=4) + C(kind)'", field="features", value=formula)
    try:
        frame = pd.DataFrame(columns_of(episodes, _names(episodes)))
        matrix = formulaic.model_matrix(formula, frame, na_action="raise", context={})
        spec = matrix.model_spec
    except (FormulaicError, SyntaxError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InvalidDataError):
            raise
        raise InvalidDataError(f"a formula of {KNOWN} ({error})", field="features", value=formula) from error
    if "Intercept" not in matrix.columns:
        raise InvalidDataError("a formula with its intercept, without 0 or -1", field="features", value=formula)
    levels: dict[str, tuple[str, ...]] = {}
    columns: list[Column] = []
    for structure in spec.structure:
        names = [name for name in structure.columns if name != "Intercept"]
        made = {
            ":".join(part[0] for part in product): tuple(part[1] for part in product)
            for term in structure.scoped_terms
            for product in itertools.product(*(_parts(each, spec, levels, formula) for each in term.factors))
        }
        columns += [Column(name, made[name]) for name in names]
    if not columns:
        raise InvalidDataError("a formula with at least one term", field="features", value=formula)
    found = Design(formula, tuple(columns), levels)
    if not np.allclose(design_matrix(found, episodes), matrix[list(found.names)].to_numpy(dtype=float)):
        raise InvalidDataError(f"a formula of {KNOWN}", field="features", value=formula)
    return found


def design_matrix(design: Design, episodes: Episodes) -> np.ndarray:
    """Evaluate a design on episodes: (episode, column)."""
    return design.matrix(columns_of(episodes, design.inputs), episodes.ids.tolist())


def columns_of(episodes: Episodes, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Give columns of episodes by name: features, or what is carried along with one value an episode."""
    dataset, known, out = episodes.dataset, _names(episodes), {}
    for name in names:
        if name in episodes.feature_names:
            out[name] = dataset["features"].sel(feature=name).values
        elif name in known:
            out[name] = dataset[name].values
        else:
            raise InvalidDataError(f"one of {', '.join(known)}", field="a column of the episodes", value=name)
    return out


def _names(episodes: Episodes) -> tuple[str, ...]:
    """Name the features, and what is carried along with one value an episode; not what is only known at the end."""
    arrays = episodes.dataset.data_vars.items()
    carried = (str(name) for name, array in arrays if array.dims == ("episode",) and name not in VARIABLES)
    return (*episodes.feature_names, *carried)


def _parts(scoped: Any, spec: Any, levels: dict[str, tuple[str, ...]], formula: str) -> list[tuple[str, Factor]]:  # noqa: ANN401
    """Give the columns of one factor of a term, each with formulaic's name for it."""
    expression = str(scoped.factor)
    kind, state = spec.encoder_state[expression]
    tree = ast.parse(expression, mode="eval").body
    if str(kind.value) == "categorical":
        inner = tree.args[0] if isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords else tree
        if isinstance(inner, ast.Name):
            raw = list(state["categories"])
            known = tuple(level_names(np.array(raw, dtype=object)).tolist())
            levels[inner.id] = known
            pairs = [(str(each), Level(inner.id, text)) for each, text in zip(raw, known, strict=True)]
            if scoped.reduced:
                return [(f"{expression}[T.{label}]", level) for label, level in pairs[1:]]
            return [(f"{expression}[{label}]", level) for label, level in pairs]
    elif isinstance(tree, ast.Name):
        return [(expression, Number(tree.id))]
    elif isinstance(tree, ast.Call):
        found = _called(tree, expression, spec)
        if found:
            return found
    raise InvalidDataError(f"{KNOWN}, not {expression!r}", field="features", value=formula)


def _called(tree: ast.Call, expression: str, spec: Any) -> list[tuple[str, Factor]]:  # noqa: ANN401
    name = ast.unparse(tree.func).removeprefix("np.")
    if not tree.args:
        return []
    argument = tree.args[0]
    if name == "I" and isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Pow):
        base, power = argument.left, argument.right
        if isinstance(base, ast.Name) and isinstance(power, ast.Constant) and isinstance(power.value, int | float):
            return [(expression, Number(base.id, power=float(power.value)))]
    if not isinstance(argument, ast.Name):
        return []
    if name in FUNCTIONS:
        return [(expression, Number(argument.id, name))]
    if name == "bs":
        settings = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
        knots = tuple(float(knot) for knot in spec.transform_state[expression]["knots"])
        degree = int(settings.get("degree", 3))
        first = 0 if settings.get("include_intercept", False) else 1
        size = len(knots) - degree - 1
        return [(f"{expression}[{at}]", Spline(argument.id, knots, degree, at)) for at in range(first, size)]
    return []
