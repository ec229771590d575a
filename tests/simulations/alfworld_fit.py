"""A fit with a benchmark's names, for tests that play: a handful of tasks is too few to fit anything on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from bayes_tacit import Episodes, fit_map
from simulations.alfworld import DIAGNOSTICS, FEATURES


@cache
def fit_of_made_up_episodes(names=FEATURES, diagnostics=DIAGNOSTICS, timing="post_action"):
    """Fit made-up episodes, once for each benchmark; by default ALFWorld's."""
    rng = np.random.default_rng(0)
    n, n_steps = 120, 10
    features = pd.DataFrame(rng.integers(0, 2, (n, len(names))), columns=list(names))
    risk = rng.exponential(0.4, (n, n_steps, len(diagnostics)))
    crossing = (risk.mean(axis=2).cumsum(axis=1) < rng.lognormal(0, 0.7, n)[:, None]).sum(axis=1)
    strong = rng.random(n) < 0.7
    # A mark is read as the proposal that follows, if proposals are checkpoints.
    due = strong & (crossing < n_steps - (timing == "proposal"))
    mark = np.where(due, crossing, np.nan)
    known = {"cheap_success": ~due, "strong_success": strong, "window_start": mark, "window_end": mark}
    tasks = features.assign(episode=np.arange(n), **known)
    steps = pd.DataFrame(risk.reshape(-1, len(diagnostics)), columns=list(diagnostics))
    places = np.indices((n, n_steps)).reshape(2, -1)
    episodes = Episodes.from_frames(tasks, steps.assign(episode=places[0], step=places[1]))
    return fit_map(episodes, ridge=0.1, timing=timing)
