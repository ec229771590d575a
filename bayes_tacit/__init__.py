"""When should a cheap LLM agent hand over, for good, to the expensive one? TACIT-Switch, the Bayesian way.

Names are loaded when they are first used, so that what a program does not use costs it nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_tacit.episodes import Episodes
    from bayes_tacit.errors import TacitError
    from bayes_tacit.example import load_example
    from bayes_tacit.map_fit import MapFit, fit_map
    from bayes_tacit.model import build_model
    from bayes_tacit.priors import RidgePrior, WeaklyInformativePrior

__all__ = [
    "Episodes",
    "MapFit",
    "RidgePrior",
    "TacitError",
    "WeaklyInformativePrior",
    "build_model",
    "fit_map",
    "load_example",
]
__version__ = version("bayes_tacit")

_HOME = {
    "Episodes": "episodes",
    "MapFit": "map_fit",
    "RidgePrior": "priors",
    "TacitError": "errors",
    "WeaklyInformativePrior": "priors",
    "build_model": "model",
    "fit_map": "map_fit",
    "load_example": "example",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_tacit' has no attribute {name!r}")
    return getattr(import_module(f"bayes_tacit.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
