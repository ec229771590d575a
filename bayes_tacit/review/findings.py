"""What checks share: what each returns, the verdict over all, what they read from a posterior, bins and envelopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
LEVEL = 0.01
"""How often a comparison with what chance gives may fail although the model is right, at most."""
ROUNDING = 1e-9
DECIMALS = 9
"""Standardizing and back moves a value by rounding; what was one value is to stay one."""
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


def unjudged(name: str, sentence: str, advice: str = "", *, hint: bool = False) -> CheckResult:
    """Return the result of a check that has nothing to judge by."""
    return CheckResult(name, None, pd.DataFrame(), sentence, advice, hint=hint)


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
    if failed:
        names = ", ".join(result.name for result in failed)
        count = f"{agreement}. But {len(failed)} of {len(others)} checks of the model failed ({names})."
        decisive = next((f"{result.sentence} " for result in failed if result.decisive), "")
        return Headline("bad" if decisive or len(failed) >= MANY else "warning", decisive + count)
    if left := [result.name for result in others if result.passed is None]:
        return Headline("warning", f"{agreement}. But {', '.join(left)} could not be judged.")
    return Headline("good", f"{agreement}. All {len(others)} checks of the model passed.")


def too_few(name: str, draws: np.ndarray) -> CheckResult | None:
    """Return the result of a check that has not enough predictive draws to judge by; None if there are enough."""
    if len(draws) >= FEWEST_DRAWS:
        return None
    advice = f"Sample again with `predictive_draws` (and `draws`) of at least {FEWEST_DRAWS}."
    return unjudged(name, f"There are {len(draws)} predictive draws, too few to judge by.", advice)


def group_of(tree: xr.DataTree, name: str) -> xr.Dataset:
    """Return a group of a posterior; refuse a tree that has none of that name."""
    if name not in tree.children:
        raise InvalidDataError(
            f"a group {name!r}, as sample_posterior gives it", field="groups of the tree", value=list(tree.children)
        )
    return tree[name].to_dataset()


def names_in(constant: xr.Dataset) -> list[str]:
    """Return the names of the features that a model saw."""
    return [str(name) for name in constant["feature"].values] if "feature" in constant.coords else []


def require_same_data(tree: xr.DataTree, episodes: Episodes) -> None:
    """Refuse episodes that are not the ones that a posterior was fitted on."""
    constant, posterior, spec = group_of(tree, "constant_data"), group_of(tree, "posterior"), spec_of(tree)
    diagnostics = (constant if "w" in constant else posterior)["diagnostic"].values.tolist()
    own = spec.features.names if isinstance(spec.features, Design) else episodes.feature_names
    for kind, names, given in (
        ("features", names_in(constant), own),
        ("diagnostics", diagnostics[:-1] if spec.clock else diagnostics, episodes.diagnostic_names),
    ):
        if names != list(given):
            expected = f"{names}, on which the posterior was fitted"
            raise InvalidDataError(expected, field=f"{kind} of the episodes", value=list(given))
    if absent := [name for name in ("episode", *DESCRIPTIONS) if name not in constant.variables]:
        expected = f"{', '.join(map(repr, absent))} among them, as sample_posterior gives it"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    known, ids = set(constant["episode"].values.tolist()), set(episodes.ids.tolist())
    if known != ids:
        parts = [
            f"{len(odd)} {what}, such as {min(odd, key=str)!r}"
            for odd, what in ((ids - known, "unknown"), (known - ids, "missing"))
            if odd
        ]
        expected = f"the {len(known)} episodes that the posterior was fitted on ({'; '.join(parts)})"
        raise InvalidDataError(expected, field="number of episodes", value=len(ids))
    evidence = collect_evidence(episodes, spec)
    sums = evidence.grid or evidence
    arrays = evidence.strong_success, evidence.features, evidence.timed, sums.before, sums.within
    for (name, description), array in zip(DESCRIPTIONS.items(), arrays, strict=True):
        fitted = constant[name].values
        if fitted.shape != array.shape or not np.allclose(fitted, array):
            expected = f"those that the posterior was fitted on: the ids agree, but not {description}"
            raise InvalidDataError(expected, field="episodes", value=f"{len(episodes)} episodes")


def flat_draws(array: xr.DataArray) -> np.ndarray:
    """Return draws as rows: (draw, ...)."""
    values = array.transpose("chain", "draw", ...).values
    return values.reshape(-1, *values.shape[2:])


def by_parameter(posterior: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the draws of every single parameter, by a name such as "w[repeat]"."""
    out: dict[str, xr.DataArray] = {}
    for name, array in posterior.data_vars.items():
        extra = [dim for dim in array.dims if dim not in ("chain", "draw")]
        labels = array[extra[0]].values if extra else ()
        out |= {f"{name}[{label}]": array.sel({extra[0]: label}, drop=True) for label in labels}
        out |= {} if extra else {str(name): array}
    return out


def cut(values: np.ndarray, quantiles: np.ndarray, weight: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Cut values into bins at quantiles of their weights, and yield the members of each as a mask, by rising values.

    Equal values share a bin, few distinct ones have one each, values without weight are in none, and no bin is empty.
    `quantiles` are the inner ends of the bins, rising, as parts of all weight.

    Examples
    --------
    >>> [mask.tolist() for mask in cut(np.array([3.0, 1.0, 2.0]), np.array([0.5]))]
    [[False, True, True], [True, False, False]]
    """
    weight = np.ones(np.shape(values)) if weight is None else weight
    known, rounded = weight > 0, _rounded(values)
    ends = np.unique(rounded[known])
    if len(ends) > len(quantiles) + 1:
        order = np.argsort(rounded[known], kind="stable")
        share = np.cumsum(weight[known][order])
        inner = rounded[known][order][np.searchsorted(share, quantiles * share[-1])]
        ends = np.unique(np.append(inner, ends[-1]))
    place = np.searchsorted(ends, rounded, side="left")
    yield from ((place == number) & known for number in range(len(ends)))


def evenly(count: int) -> np.ndarray:
    """Return the inner ends of `count` bins of equal weight."""
    return np.arange(1, count) / count


def span(inside: np.ndarray) -> str:
    """Return the name of a bin: the range of the values in it."""
    least, most = _rounded(inside).min(), _rounded(inside).max()
    return f"{least:.4g}" if least == most else f"{least:.3g} to {most:.3g}"


def _rounded(values: np.ndarray) -> np.ndarray:
    # Adding zero takes the sign from what was rounded to zero.
    rounded: np.ndarray = np.round(values, DECIMALS) + 0.0
    return rounded


@dataclass(frozen=True)
class Envelope:
    """A band that holds all shares of a replicated data set at once, with probability 1 - LEVEL.

    It has the mean of each share and the band, and on the arcsine scale each share's mean and sd, and of each replicate
    the largest distance of a share from its mean, in these sds.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    worst: np.ndarray

    def p_value(self, observed: np.ndarray) -> float:
        """Return the share of replicates that lie at least as far out as the observed shares, counting these too."""
        return chance_of(self.worst, _distance(_stable(observed) - self.center, self.spread).max())


def envelope(replicates: np.ndarray) -> Envelope:
    """Compute the band from (draw, share) replicates.

    Each share is standardized by its predictive mean and sd on the arcsine scale, where its sd hardly depends on its
    size and a share near 0 or 1 is not skewed. The half-width is the quantile 1 - LEVEL of the largest absolute value
    over the shares: one statement is made however many shares there are.
    """
    stable = _stable(replicates)
    center, spread = stable.mean(axis=0), stable.std(axis=0)
    worst = _distance(stable - center, spread).max(axis=1)
    reach = limit_of(worst, LEVEL) * spread
    lower, upper = (np.sin((center + side * reach).clip(0, np.pi / 2)) ** 2 for side in (-1, 1))
    return Envelope(replicates.mean(axis=0), lower, upper, center, spread, worst)


def _stable(share: np.ndarray) -> np.ndarray:
    return np.arcsin(np.sqrt(share))


def _distance(difference: np.ndarray, spread: np.ndarray) -> np.ndarray:
    # In sds; infinite from a share that never varies, rounding aside.
    out = np.where(np.abs(difference) < ROUNDING, 0.0, np.inf)
    np.divide(np.abs(difference), spread, out=out, where=spread > ROUNDING)
    return out


def chance_of(worst: np.ndarray, observed: float) -> float:
    """Return the share of what chance gave that is at least as far out as what was observed, counting that too."""
    return float((1 + (worst >= observed - 1e-12).sum()) / (1 + len(worst)))


def limit_of(worst: np.ndarray, level: float) -> float:
    """Return what chance exceeds with probability `level`."""
    return float(np.quantile(worst, 1 - level, method="higher"))
