"""Logs that people have: read in their formats, turned into step diagnostics, paired into episodes.

Names are imported when they are used: the extractor runs in agents, which need nothing of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_tacit.logs.extractor import StepExtractor
    from bayes_tacit.logs.importing import episodes_from_logs, import_logs, read_rollouts
    from bayes_tacit.logs.pairing import ImportReport
    from bayes_tacit.logs.rollout import Rollout

__all__ = ["ImportReport", "Rollout", "StepExtractor", "episodes_from_logs", "import_logs", "read_rollouts"]

_HOME = {
    "ImportReport": "pairing",
    "Rollout": "rollout",
    "StepExtractor": "extractor",
    "episodes_from_logs": "importing",
    "import_logs": "importing",
    "read_rollouts": "importing",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_tacit.logs' has no attribute {name!r}")
    return getattr(import_module(f"bayes_tacit.logs.{_HOME[name]}"), name)
