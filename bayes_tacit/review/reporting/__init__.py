"""The report: a posterior, its checks and its scores as one HTML file that needs nothing else."""

from bayes_tacit.review.reporting.write import report

__all__ = ["report"]
