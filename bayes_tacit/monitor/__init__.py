"""What a log of sessions shows: handoffs, cost, success, calibration, drift; as numbers and as one HTML page."""

from bayes_tacit.monitor.page import monitor
from bayes_tacit.monitor.summary import Summary, summarize

__all__ = ["Summary", "monitor", "summarize"]
