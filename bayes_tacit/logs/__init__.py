"""Logs that people have: read in their formats, turned into step diagnostics, paired into episodes."""

from bayes_tacit.logs.extractor import StepExtractor
from bayes_tacit.logs.importing import episodes_from_logs, import_logs
from bayes_tacit.logs.reading import read_rollouts
from bayes_tacit.logs.report import ImportReport
from bayes_tacit.logs.rollout import Rollout

__all__ = ["ImportReport", "Rollout", "StepExtractor", "episodes_from_logs", "import_logs", "read_rollouts"]
