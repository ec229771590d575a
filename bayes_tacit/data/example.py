"""The example set that comes with the package."""

from __future__ import annotations

import warnings
from importlib.resources import as_file, files

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import TacitWarning


def load_example() -> Episodes:
    """Load 1,200 simulated episodes of an agent with four diagnostics and three task features.

    The episodes come from the model itself, so the true parameters are known; the repository's
    `simulations/example.py` holds them and made the file.

    Examples
    --------
    >>> len(load_example())
    1200
    """
    with as_file(files("bayes_tacit.data") / "example.nc") as path, warnings.catch_warnings():
        # It holds AB = 01 episodes without a window on purpose: a user who did not choose the data need not be told.
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes.read(path)
