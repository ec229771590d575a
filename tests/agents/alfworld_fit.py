"""A fit with ALFWorld's names, for tests that play: a handful of kitchens is too few to fit anything on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from bayes_tacit import Episodes, fit_map
from bayes_tacit.agents.alfworld import DIAGNOSTICS, FEATURES


@cache
def fit_of_made_up_episodes():
    """Fit made-up episodes, once."""
    rng = np.random.default_rng(0)
    n, n_steps = 120, 10
    features = pd.DataFrame(rng.integers(0, 2, (n, len(FEATURES))), columns=list(FEATURES))
    risk = rng.exponential(0.4, (n, n_steps, len(DIAGNOSTICS)))
    crossing = (risk.mean(axis=2).cumsum(axis=1) < rng.lognormal(0, 0.7, n)[:, None]).sum(axis=1)
    strong = rng.random(n) < 0.7
    due = strong & (crossing < n_steps)
    mark = np.where(due, crossing, np.nan)
    known = {"cheap_success": ~due, "strong_success": strong, "window_start": mark, "window_end": mark}
    tasks = features.assign(episode=np.arange(n), **known)
    steps = pd.DataFrame(risk.reshape(-1, len(DIAGNOSTICS)), columns=list(DIAGNOSTICS))
    places = np.indices((n, n_steps)).reshape(2, -1)
    return fit_map(Episodes.from_frames(tasks, steps.assign(episode=places[0], step=places[1])), ridge=0.1)
