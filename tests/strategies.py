"""Small episodes to test with: one fixed set, and Hypothesis strategies for any valid set."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import RESERVED
from bayes_tacit.errors import TacitWarning

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = TEXT.filter(lambda name: name and name not in RESERVED and not name.startswith("carried"))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NONNEGATIVE = st.floats(min_value=0, allow_infinity=False) | st.just(0.0)
INT64 = st.integers(-(2**63), 2**63 - 1)
CARRIED = {
    "number": st.floats(allow_infinity=False),
    "integer": INT64,
    "flag": st.booleans(),
    "text": TEXT,
}
DTYPES = {"number": float, "integer": np.int64, "flag": bool, "text": object}


def tasks_frame() -> pd.DataFrame:
    """One episode of each outcome, about which there is nothing to note."""
    return pd.DataFrame(
        {
            "episode": ["a", "b", "c", "d"],
            "cheap_success": [False, False, True, True],
            "strong_success": [True, False, True, False],
            "window_start": [1.0, np.nan, np.nan, np.nan],
            "window_end": [2.0, np.nan, np.nan, np.nan],
            "food": [1.0, 0.0, 1.0, 0.0],
            "entities": [12.0, 7.0, 3.0, 5.5],
        }
    )


def steps_frame() -> pd.DataFrame:
    """Rollouts of 3, 1, 4 and 2 steps."""
    return pd.DataFrame(
        {
            "episode": list("aaabccccdd"),
            "step": [0, 1, 2, 0, 0, 1, 2, 3, 0, 1],
            "repeat": [0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.5, 1.0, 0.0, 3.0],
            "invalid": [0.25, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0],
        }
    )


def dataset() -> xr.Dataset:
    """The same four episodes as a dataset, with variables that are carried along."""
    out = Episodes.from_frames(tasks_frame(), steps_frame()).dataset.copy(deep=True)
    out["kind"] = ("episode", np.array(["heat", "cool", "heat", ""], dtype=object))
    out["tokens"] = (("episode", "step"), np.arange(16).reshape(4, 4))
    return out


def episodes() -> Episodes:
    """The four episodes of `dataset`."""
    return Episodes(dataset())


def quietly(make: Any, *args: Any, **kwargs: Any) -> Any:
    """Call something that makes episodes, whatever is noted about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return make(*args, **kwargs)


@st.composite
def datasets(draw: st.DrawFn, largest: float | None = None) -> xr.Dataset:
    """Any valid dataset of up to 6 episodes: ragged, with or without features, with carried variables.

    `largest` bounds the size of features and diagnostics.
    """
    nonnegative = NONNEGATIVE if largest is None else st.floats(0, largest)
    finite = FINITE if largest is None else st.floats(-largest, largest)
    n = draw(st.integers(1, 6))
    n_steps = np.array(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n)))
    horizon = int(n_steps.max())
    features = draw(st.lists(NAMES, max_size=3, unique=True))
    diagnostics = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    ids = draw(
        st.lists(TEXT, min_size=n, max_size=n, unique=True) | st.lists(INT64, min_size=n, max_size=n, unique=True)
    )
    outcomes = [draw(st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)])) for _ in range(n)]
    windows = np.full((n, 2), np.nan)
    for i, outcome in enumerate(outcomes):
        if outcome == (0, 1) and draw(st.booleans()):
            windows[i] = sorted(draw(st.tuples(*[st.integers(0, int(n_steps[i]) - 1)] * 2)))
    values = draw(hnp.arrays(float, (n, horizon, len(diagnostics)), elements=nonnegative))
    inside = np.arange(horizon) < n_steps[:, None]
    variables: dict[str, Any] = {
        "features": (("episode", "feature"), draw(hnp.arrays(float, (n, len(features)), elements=finite))),
        "diagnostics": (("episode", "step", "diagnostic"), np.where(inside[..., None], values, np.nan)),
        "n_steps": ("episode", n_steps),
        "cheap_success": ("episode", np.array([outcome[0] == 1 for outcome in outcomes])),
        "strong_success": ("episode", np.array([outcome[1] == 1 for outcome in outcomes])),
        "window_start": ("episode", windows[:, 0]),
        "window_end": ("episode", windows[:, 1]),
    }
    for kind in draw(st.lists(st.sampled_from(sorted(CARRIED)), unique=True)):
        for dims, shape in ((("episode",), (n,)), (("episode", "step"), (n, horizon))):
            elements = hnp.arrays(DTYPES[kind], shape, elements=CARRIED[kind], fill=st.nothing())
            variables[f"carried {kind} {len(dims)}"] = (dims, draw(elements))
    coords = {
        "episode": np.array(ids, dtype=np.int64 if isinstance(ids[0], int) else object),
        "feature": np.array(features, dtype=object),
        "diagnostic": np.array(diagnostics, dtype=object),
    }
    return xr.Dataset(variables, coords=coords)
