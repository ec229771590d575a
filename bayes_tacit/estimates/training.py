"""Whether episodes are those that an estimate was made from."""

from __future__ import annotations

import warnings
from dataclasses import replace

import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.estimates.map_result import MapFit
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.spec import settings_of, spec_of


def warn_of_other_data(estimate: MapFit | xr.DataTree, episodes: Episodes, *, stacklevel: int = 2) -> None:
    """Warn if a fit or a posterior names other data than these episodes as what it was made from.

    One that does not say what it was made from passes. `stacklevel` says whose line the warning names, as for
    `warnings.warn`.
    """
    if made_from(estimate, episodes) is not False:
        return
    name = "the fit" if isinstance(estimate, MapFit) else "the posterior"
    warnings.warn(
        f"{name} was made from other data, or from the same in another order: its data_fingerprint is not that of "
        f"these {len(episodes)} episodes, which are taken for its training episodes",
        TacitWarning,
        stacklevel=stacklevel + 1,
    )


def made_from(estimate: MapFit | xr.DataTree, episodes: Episodes) -> bool | None:
    """Return whether these are the episodes that a fit or a posterior was made from; None if it does not say."""
    if isinstance(estimate, MapFit):
        spec, given = estimate.spec, estimate.data_fingerprint
    else:
        settings = settings_of(estimate)
        if "data_fingerprint" not in settings or "posterior" not in estimate.children:
            return None
        spec, given = spec_of(estimate), str(settings["data_fingerprint"])
    try:
        evidence = collect_evidence(episodes, spec)
    except InvalidDataError:  # other diagnostics than the weights are for
        return False
    # Whether windows without mass were floored or dropped is not the question.
    return given in (evidence.fingerprint(), replace(evidence, zero_mass=evidence.zero_mass[:0]).fingerprint())
