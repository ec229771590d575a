"""The posterior by NUTS: sampling, the verdict on it, and the files it is kept in."""

from bayes_tacit.estimates.posterior.sampling import sample_posterior
from bayes_tacit.estimates.posterior.storage import load_posterior, save_posterior
from bayes_tacit.estimates.posterior.verdict import Verdict, judge

__all__ = ["Verdict", "judge", "load_posterior", "sample_posterior", "save_posterior"]
