"""What a check returns, the verdict over all checks, and what checks read from a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.spec import spec_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 3
"""Failed checks that are too many for trust of any kind."""
FEWEST_DRAWS = 200
"""Predictive draws below which a 1% tail is not known well enough to judge by: two draws are expected in it."""
DESCRIPTIONS = {
    "strong_outcome": "strong_success",
    "features": "the features",
    "timed_position": "which of them have a window or are AB = 11, or their order",
    "diagnostics_before": "the windows or the diagnostics before them",
    "diagnostics_within": "the windows or the diagnostics within them",
}


@dataclass(frozen=True, repr=False, eq=False)
class CheckResult:
    """What one check found.

    Attributes
    ----------
    name
        What was checked, in a few words.
    passed
        Whether it is as it should be; None where there is nothing to pass (a comparison), or too little to judge by.
    table
        The numbers behind it.
    sentence
        The finding in one sentence.
    advice
        What to do about it; empty if there is nothing to do.
    figure
        A function without arguments that draws the finding; a new figure each time.
    decisive
        Whether the model must not be used if this one failed, whatever the others say.
    p_value
        How often chance alone is as far off, where the check is a comparison with chance.
    hint
        Whether it is only a remark, and does not count in the verdict.

    Examples
    --------
    >>> print(CheckResult("Coin", False, pd.DataFrame(), "9 of 10 tosses were heads.", "Use another coin."))
    FAILED  Coin: 9 of 10 tosses were heads. Use another coin.
    """

    name: str
    passed: bool | None
    table: pd.DataFrame
    sentence: str
    advice: str = ""
    figure: Callable[[], Figure] | None = None
    decisive: bool = False
    p_value: float | None = None
    hint: bool = False

    @property
    def status(self) -> str:
        """Return "passed", "failed" or "not judged"."""
        return {True: "passed", False: "failed", None: "not judged"}[self.passed]

    def __str__(self) -> str:
        mark = {True: "passed", False: "FAILED", None: "--"}[self.passed]
        return f"{mark:6}  {self.name}: {self.sentence}" + (f" {self.advice}" if self.advice else "")

    __repr__ = __str__


@dataclass(frozen=True)
class Headline:
    """The verdict on everything; the report, the command line and a notebook show the same.

    Attributes
    ----------
    level
        "good"; "warning", if the draws can be trusted and the model fits, but something needs care; or "bad".
    sentence
        Why, in one sentence or two.
    """

    level: Literal["good", "warning", "bad"]
    sentence: str

    @property
    def words(self) -> str:
        """What to do with the posterior, in a few words."""
        return {"good": "Trust it.", "warning": "Trust it with care.", "bad": "Do not trust it yet."}[self.level]

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing was left open."""
        return self.level == "good"

    def __str__(self) -> str:
        return f"{self.words} {self.sentence}"


def headline(results: Sequence[CheckResult]) -> Headline:
    """Sum up the checks, of which the first is that of the sampler.

    It is "bad" if the sampler's check failed, if one did that compares the model's predictions with the data, or if
    three did; "warning" if another one failed or could not be judged; else "good". Hints do not count.

    Examples
    --------
    >>> import pandas as pd
    >>> sampler = CheckResult("Sampler", True, pd.DataFrame(), "The chains agree.")
    >>> off = CheckResult("Leave-one-out", False, pd.DataFrame(), "An episode decides the fit.")
    >>> print(headline([sampler, off]))
    Trust it with care. The chains agree. But 1 of 1 checks of the model failed (Leave-one-out).
    """
    sampler, *rest = results
    others = [result for result in rest if not result.hint]
    if sampler.passed is False:
        return Headline("bad", sampler.sentence)
    agreement = sampler.sentence.removesuffix(".")
    failed = [result for result in others if result.passed is False]
    unjudged = [result.name for result in others if result.passed is None]
    if failed:
        names = ", ".join(result.name for result in failed)
        count = f"{agreement}. But {len(failed)} of {len(others)} checks of the model failed ({names})."
        decisive = [result for result in failed if result.decisive]
        if decisive:
            return Headline("bad", f"{decisive[0].sentence} {count}")
        return Headline("bad" if len(failed) >= MANY else "warning", count)
    if unjudged:
        return Headline("warning", f"{agreement}. But {', '.join(unjudged)} could not be judged.")
    return Headline("good", f"{agreement}. All {len(others)} checks of the model passed.")


def too_few(name: str, draws: np.ndarray) -> CheckResult | None:
    """Return the result of a check that has not enough predictive draws to judge by; None if there are enough."""
    if len(draws) >= FEWEST_DRAWS:
        return None
    sentence = f"There are {len(draws)} predictive draws, too few to judge by."
    advice = f"Sample again with `predictive_draws` (and `draws`) of at least {FEWEST_DRAWS}."
    return CheckResult(name, None, pd.DataFrame(), sentence, advice)


def group_of(tree: xr.DataTree, name: str) -> xr.Dataset:
    """Return a group of a posterior; refuse a tree that has none of that name."""
    if name not in tree.children:
        raise InvalidDataError(
            f"a group {name!r}, as sample_posterior gives it", field="groups of the tree", value=list(tree.children)
        )
    return tree[name].to_dataset()


def require_same_data(tree: xr.DataTree, episodes: Episodes) -> None:
    """Refuse episodes that are not the ones that a posterior was fitted on."""
    constant = group_of(tree, "constant_data")
    posterior = group_of(tree, "posterior")
    spec = spec_of(tree)
    diagnostics = (constant if "w" in constant else posterior)["diagnostic"].values.tolist()
    features = constant["feature"].values.tolist() if "feature" in constant.coords else []
    for kind, names, own in (
        ("features", features, spec.features.names if isinstance(spec.features, Design) else episodes.feature_names),
        ("diagnostics", diagnostics[:-1] if spec.clock else diagnostics, episodes.diagnostic_names),
    ):
        if names != list(own):
            raise InvalidDataError(
                f"{names}, on which the posterior was fitted", field=f"{kind} of the episodes", value=list(own)
            )
    absent = [name for name in ("episode", *DESCRIPTIONS) if name not in constant.variables]
    if absent:
        expected = f"{', '.join(map(repr, absent))} among them, as sample_posterior gives it"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    _require_same_ids(constant["episode"].values.tolist(), episodes.ids.tolist())
    evidence = collect_evidence(episodes, spec)
    for name, given in {
        "strong_outcome": evidence.strong_success,
        "features": evidence.features,
        "timed_position": evidence.timed,
        "diagnostics_before": (evidence.grid or evidence).before,
        "diagnostics_within": (evidence.grid or evidence).within,
    }.items():
        fitted = constant[name].values
        if fitted.shape != given.shape or not np.allclose(fitted, given):
            raise InvalidDataError(
                f"those that the posterior was fitted on: the ids agree, but not {DESCRIPTIONS[name]}",
                field="episodes",
                value=f"{len(episodes)} episodes",
            )


def _require_same_ids(fitted: list[object], given: list[object]) -> None:
    if set(fitted) == set(given):
        return
    new, gone = sorted(set(given) - set(fitted), key=str), sorted(set(fitted) - set(given), key=str)
    parts = [f"{len(ids)} {what}, such as {ids[0]!r}" for ids, what in ((new, "unknown"), (gone, "missing")) if ids]
    raise InvalidDataError(
        f"the {len(fitted)} episodes that the posterior was fitted on ({'; '.join(parts)})",
        field="number of episodes",
        value=len(given),
    )
