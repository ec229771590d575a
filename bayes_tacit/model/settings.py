"""The settings of a model as data that it carries, so that whatever samples it, they are known afterwards."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.priors import Prior, prior_to_json

COORDINATE = "setting"
"""Under it the group `constant_data` of a trace that PyMC made holds the settings, as JSON."""


def settings_to_json(evidence: Evidence, family: str, timing: Timing, prior: Prior) -> str:
    """Write down all that a model was stated with, under the names that the attributes of a posterior have."""
    return json.dumps(
        {
            "family": family,
            "timing": timing,
            "memory": evidence.memory,
            "clock": int(evidence.clock),
            "unmarked": evidence.unmarked,
            **design_settings(evidence),
            "prior": prior_to_json(prior),
            "data_fingerprint": evidence.fingerprint(),
        }
    )


def design_settings(evidence: Evidence) -> dict[str, str]:
    """Write down the design and the groups, where there are any."""
    design, grouping = evidence.design, evidence.grouping
    return ({} if design is None else {"design": design.to_json()}) | (
        {} if grouping is None else {"groups": grouping.column}
    )


def settings_of(tree: xr.DataTree) -> dict[str, Any]:
    """Give the settings of a posterior: its attributes, and beside them what its model carried as data.

    Examples
    --------
    >>> settings_of(xr.DataTree())
    {}
    """
    carried: dict[str, Any] = {}
    if "constant_data" in tree.children and COORDINATE in tree["constant_data"].coords:
        text = str(np.ravel(tree["constant_data"].to_dataset()[COORDINATE].values)[0])
        try:
            carried = dict(json.loads(text))
        except (TypeError, ValueError) as error:
            expected = "the settings that build_model wrote, as JSON"
            raise InvalidDataError(expected, field=f"coordinate {COORDINATE!r}", value=text) from error
    return carried | {str(name): value for name, value in tree.attrs.items()}
