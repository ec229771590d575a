"""What checks may ask to be done to episodes: marks left out, or features and diagnostics made of what is there."""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError, TacitWarning

KNOTS = 5


def without_marks(episodes: Episodes) -> Episodes:
    """Return the episodes without any teacher window, so that outcomes alone say when a handoff was due.

    Where marks cannot be trusted, since they drift, come late, or are missing by when the handoff was due, who solved
    what still bounds every threshold: AB = 01 crossed by the end of its rollout, AB = 11 did not. That needs rollouts
    whose final risks differ, and more tasks than marks would.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> bool(without_marks(load_example()).has_window.any())
    False
    """
    nothing = ("episode", np.full(len(episodes), np.nan))
    return _quietly(episodes.dataset.assign(window_start=nothing, window_end=nothing))


def with_early_steps(episodes: Episodes, steps: int = 3) -> Episodes:
    """Return the episodes with features that hold what each diagnostic has summed to in Cheap's first steps.

    Where Strong's success shows in them, a fit with these features predicts it from there on (landmarking; van
    Houwelingen, 2007). Its scores are to be used from that step on: a router of such a fit is started after that many
    steps, with their sums as features, and is then told these steps one after the other. Of a rollout that is shorter
    they hold all of it.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> with_early_steps(load_example()).feature_names[-2:]
    ('stalled in 3 steps', 'invalid in 3 steps')
    """
    steps = validate.whole("steps", steps, 1)
    dataset, names = episodes.dataset, [f"{name} in {steps} steps" for name in episodes.diagnostic_names]
    if taken := sorted(set(names) & set(episodes.feature_names)):
        raise InvalidDataError("features of other names than those to be added", field="features", value=taken)
    early = dataset["diagnostics"].isel(step=slice(0, steps)).fillna(0).sum("step").values
    features = np.concatenate([dataset["features"].values, early], axis=1)
    others = dataset.drop_vars("features").drop_dims("feature")
    named = others.assign(features=(("episode", "feature"), features))
    return _quietly(named.assign_coords(feature=[*episodes.feature_names, *names]))


def with_returns(episodes: Episodes, *, power: float | None = None, rate: float | None = None) -> Episodes:
    """Return the episodes with diagnostics that count less and less, or more and more, as they add up.

    A diagnostic's sum S(t) then counts as S(t) to a power, or as log(1 + rate S(t)): each step holds what it adds to
    that, and a router of such a fit is to be told the same.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> sums = load_example().dataset["diagnostics"].sum("step")
    >>> roots = with_returns(load_example(), power=0.5).dataset["diagnostics"].sum("step")
    >>> bool(np.allclose(roots**2, sums))
    True
    """
    if (power is None) == (rate is None):
        raise InvalidDataError("either a power or a rate", field="power, rate", value=(power, rate))
    name, given = ("power", power) if rate is None else ("rate", rate)
    value = validate.number(name, given, "a number above 0", above=0)
    diagnostics = episodes.dataset["diagnostics"]
    sums = diagnostics.fillna(0).cumsum("step").values
    counted = sums**value if rate is None else np.log1p(value * sums)
    steps = np.maximum(np.diff(counted, axis=1, prepend=0.0), 0.0)
    inside = np.where(diagnostics.notnull(), steps, np.nan)
    return _quietly(episodes.dataset.assign(diagnostics=diagnostics.copy(data=inside)))


def with_product(episodes: Episodes, feature: str, *diagnostics: str) -> Episodes:
    """Return the episodes with diagnostics whose weight depends on a feature.

    Each of them is split into five by where the feature lies among five of its quantiles: what a step adds goes to the
    two that are next to it, by nearness. Their weights make a line with bends, the weight of the diagnostic by the
    feature. A router of such a fit is to be told the parts.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> with_product(load_example(), "entities", "repeat").diagnostic_names[:2]
    ('repeat, entities about 6', 'repeat, entities about 11')
    """
    dataset, names = episodes.dataset, episodes.diagnostic_names
    for field, given, known in (("feature", [feature], episodes.feature_names), ("diagnostics", diagnostics, names)):
        if not given or not set(given) <= set(known):
            raise InvalidDataError(f"some of {list(known)}", field=field, value=list(given))
    x = dataset["features"].sel(feature=feature).values
    knots = np.unique(np.quantile(x, np.linspace(0.02, 0.98, KNOTS)))
    share = np.stack([np.interp(x, knots, one) for one in np.eye(len(knots))], axis=1)
    parts, labels = [], []
    for name, values in zip(names, np.moveaxis(dataset["diagnostics"].values, 2, 0), strict=True):
        split = name in diagnostics
        parts += [values * part[:, None] for part in share.T] if split else [values]
        labels += [f"{name}, {feature} about {knot:.3g}" for knot in knots] if split else [name]
    others = dataset.drop_vars("diagnostics").drop_dims("diagnostic")
    made = others.assign(diagnostics=(("episode", "step", "diagnostic"), np.stack(parts, axis=2)))
    return _quietly(made.assign_coords(diagnostic=labels))


def _quietly(dataset: xr.Dataset) -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(dataset)
