"""Whether episodes are those that an estimate was made from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import Unmarked, collect_evidence
from bayes_tacit.model.memory import Memory
from bayes_tacit.model.settings import settings_of
from bayes_tacit.validate import choice


def warn_of_other_data(estimate: MapFit | xr.DataTree, episodes: Episodes, *, stacklevel: int = 2) -> None:
    """Warn if a fit or a posterior names other data than these episodes as what it was made from.

    Parameters
    ----------
    estimate
        What `fit_map` or `sample_posterior` gave. One that does not say what it was made from passes.
    episodes
        What is taken for its training episodes.
    stacklevel
        Whose line the warning names, as for `warnings.warn`.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> warn_of_other_data(fit_map(episodes), episodes)
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
    """Tell whether these are the episodes that a fit or a posterior was made from; None if it does not say.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> fit = fit_map(episodes)
    >>> made_from(fit, episodes), made_from(fit, episodes.take(slice(100)))
    (True, False)
    """
    settings = _of_fit(estimate) if isinstance(estimate, MapFit) else _of_tree(estimate)
    return None if settings is None else settings.fingerprint in _fingerprints(settings, episodes)


@dataclass(frozen=True)
class _Settings:
    """How evidence was collected, under one of several weights that were held fixed or none, and its digest."""

    fingerprint: str
    timing: Timing
    memory: Memory
    clock: bool
    unmarked: Unmarked
    weights: tuple[np.ndarray | None, ...]
    design: str | None = None
    groups: str | None = None


def _of_fit(fit: MapFit) -> _Settings:
    weights = (fit.w if fit.weights_fixed else None,)
    return _Settings(fit.data_fingerprint, fit.timing, fit.memory, fit.clock, fit.unmarked, weights, fit.design)


def _of_tree(tree: xr.DataTree) -> _Settings | None:
    attrs = settings_of(tree)
    if "data_fingerprint" not in attrs or "posterior" not in tree.children:
        return None
    posterior = tree["posterior"].to_dataset()
    drawn = "w" in posterior
    w = posterior["w"].values[0, 0] if drawn else tree["constant_data"].to_dataset()["w"].values
    # The tree of a fit has its weights among the draws, whether they were held fixed or not.
    weights = (None, w) if drawn and attrs.get("inference_method") == "map" else (None if drawn else w,)
    return _Settings(
        fingerprint=str(attrs["data_fingerprint"]),
        timing=choice("timing", attrs.get("timing"), TIMINGS),
        memory="learned" if attrs.get("memory") == "learned" else float(attrs.get("memory", 1.0)),
        clock=bool(attrs.get("clock", False)),
        unmarked=attrs.get("unmarked", "outcome"),
        weights=weights,
        design=attrs.get("design"),
        groups=attrs.get("groups"),
    )


def _fingerprints(settings: _Settings, episodes: Episodes) -> set[str]:
    """Give the digests that the episodes have under these settings, with and without windows that have no mass."""
    found = set()
    for weights in settings.weights:
        try:
            evidence = collect_evidence(
                episodes,
                timing=settings.timing,
                memory=settings.memory,
                clock=settings.clock,
                unmarked=settings.unmarked,
                weights=weights,
                features=None if settings.design is None else Design.from_json(settings.design),
                groups=settings.groups,
            )
        except InvalidDataError:  # other diagnostics than the weights are for
            continue
        found |= {evidence.fingerprint(), replace(evidence, zero_mass=evidence.zero_mass[:0]).fingerprint()}
    return found
