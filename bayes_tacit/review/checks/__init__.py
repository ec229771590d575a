"""Checks of a posterior: each is a function that gives a small value, with a sentence, a table and a figure."""

from bayes_tacit.review.checks.base import CheckResult
from bayes_tacit.review.checks.comparison import compare_models
from bayes_tacit.review.checks.crossing_steps import check_crossing_steps
from bayes_tacit.review.checks.incidence import check_incidence_calibration
from bayes_tacit.review.checks.loo import check_loo
from bayes_tacit.review.checks.map_agreement import check_map_agreement
from bayes_tacit.review.checks.memory import check_memory
from bayes_tacit.review.checks.overall import Headline, headline
from bayes_tacit.review.checks.paper_memory import check_beside_paper, check_by_likelihood
from bayes_tacit.review.checks.prior_sensitivity import check_prior_sensitivity
from bayes_tacit.review.checks.run import run_checks
from bayes_tacit.review.checks.sampler import check_sampler
from bayes_tacit.review.checks.structure import check_structure
from bayes_tacit.review.checks.weights import check_weights

__all__ = [
    "CheckResult",
    "Headline",
    "check_beside_paper",
    "check_by_likelihood",
    "check_crossing_steps",
    "check_incidence_calibration",
    "check_loo",
    "check_map_agreement",
    "check_memory",
    "check_prior_sensitivity",
    "check_sampler",
    "check_structure",
    "check_weights",
    "compare_models",
    "headline",
    "run_checks",
]
