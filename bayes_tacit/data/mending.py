"""What checks may ask to be done to episodes: to leave out the marks, or to let pi see Cheap's first steps."""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError, TacitWarning


def without_marks(episodes: Episodes) -> Episodes:
    """Return the episodes without any teacher window, so that outcomes alone say when a handoff was due.

    Where marks cannot be trusted, since they drift, come late, or are missing by when the handoff was due, who solved
    what still bounds every threshold: AB = 01 crossed by the end of its rollout, AB = 11 did not. That needs rollouts
    whose final risks differ, and more tasks than marks would.

    Parameters
    ----------
    episodes
        Episodes with some windows.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> bool(without_marks(load_example()).has_window.any())
    False
    """
    dataset = episodes.dataset
    nothing = np.full(len(episodes), np.nan)
    return _quietly(dataset.assign(dict.fromkeys(("window_start", "window_end"), ("episode", nothing))))


def with_early_steps(episodes: Episodes, steps: int = 3) -> Episodes:
    """Return the episodes with features that hold what each diagnostic has summed to in Cheap's first steps.

    Where Strong's success shows in them, a fit with these features predicts it from there on (landmarking; van
    Houwelingen, 2007). Its scores are to be used from that step on: a router of such a fit is started after that many
    steps, with their sums as features, and is then told these steps one after the other. Of a rollout that is shorter
    they hold all of it.

    Parameters
    ----------
    episodes
        Any episodes.
    steps
        How many steps count.

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


def _quietly(dataset: xr.Dataset) -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(dataset)
