"""What the fit says: how diagnostics are weighed, and how far to trust the posterior."""

from __future__ import annotations

import xarray as xr

from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.policies.tacit_switch import FittedTacitSwitch
from simulations.played.experiment import Experiment
from simulations.played.policies import POSTERIOR, TACIT
from simulations.studies.tables import markdown_table


def weights(experiment: Experiment) -> str:
    """Give the weights as a table: the point estimate, the posterior mean, and its central 90%."""
    by_map, tree = estimates(experiment)
    drawn = tree["posterior"]["w"].stack(sample=("chain", "draw"))
    lower, upper = drawn.quantile([0.05, 0.95], "sample")
    columns = by_map.w, drawn.mean("sample"), lower, upper
    names = [str(name) for name in experiment.training.diagnostic_names]
    rows = [
        [f"`{name}`", f"{point:.2f}", f"{mean:.2f}", f"{low:.2f} to {high:.2f}"]
        for name, point, mean, low, high in zip(names, *(map(float, column) for column in columns), strict=True)
    ]
    table = markdown_table(["diagnostic", "penalized maximum likelihood", "posterior mean", "central 90%"], rows)
    values = experiment.training.dataset["diagnostics"].transpose("diagnostic", ...).values
    silent = ", ".join(f"`{name}`" for name, some in zip(names, values, strict=True) if not (some > 0).any())
    if silent:
        table += f"\n\nZero at every step of the training rollouts, so that nothing is learned of its weight: {silent}."
    if "sample_stats" not in tree:
        return table
    verdict = " ".join(line.strip() for line in str(judge(tree)).splitlines())
    return f"{table}\n\nThe posterior, judged by its chains: {verdict}"


def estimates(experiment: Experiment) -> tuple[MapFit, xr.DataTree]:
    """Give the point estimate, and the posterior."""
    by_map, by_posterior = (experiment.comparison.fitted[name] for name in (TACIT, POSTERIOR))
    assert isinstance(by_map, FittedTacitSwitch)
    assert isinstance(by_map.estimate, MapFit)
    assert isinstance(by_posterior, FittedTacitSwitch)
    assert isinstance(by_posterior.estimate, xr.DataTree)
    return by_map.estimate, by_posterior.estimate
