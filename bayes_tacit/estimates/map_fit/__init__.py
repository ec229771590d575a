"""The penalized maximum likelihood estimate, as the model's MAP."""

from bayes_tacit.estimates.map_fit.fit import fit_map
from bayes_tacit.estimates.map_fit.profile import ProfilePoint
from bayes_tacit.estimates.map_fit.result import MapFit
from bayes_tacit.estimates.map_fit.values import Restart

__all__ = ["MapFit", "ProfilePoint", "Restart", "fit_map"]
