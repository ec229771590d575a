"""What was learned: how diagnostics are weighed, how far to trust the posterior, what Step Deferral relies on."""

from __future__ import annotations

from collections import Counter

import xarray as xr

from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.posterior import judge
from bayes_tacit.policies.tacit_switch import FittedTacitSwitch
from simulations.alfworld.experiment import Experiment
from simulations.alfworld.policies import DEFERRAL, POSTERIOR, TACIT
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
    if "sample_stats" not in tree:
        return table
    verdict = " ".join(line.strip() for line in str(judge(tree)).splitlines())
    return f"{table}\n\nThe posterior, judged by its chains: {verdict}"


def reliance(experiment: Experiment) -> str:
    """Say which actions Step Deferral leaves to whom: where Cheap is unsure, and why that pays here."""
    doing = {agent: executed(experiment.played[DEFERRAL], agent) for agent in ("strong", "cheap")}
    total = sum(count.total() for count in doing.values())
    moves = {agent: count["go"] / max(1, count.total()) for agent, count in doing.items()}
    return (
        f"**Why {DEFERRAL} does what it does here.** It looks at the likelihood of Cheap's proposal, which for a "
        "script is exact: low wherever Cheap does not know where to look, and that is what Strong knows better. On the "
        f"test games Strong takes {doing['strong'].total() / total:.0%} of the actions in its episodes; "
        f"{moves['strong']:.0%} of those are moves to a receptacle, {moves['cheap']:.0%} of Cheap's are. Cheap opens, "
        "takes and puts for a seventh of the price, and by its error process a step of Strong's ends its confusion. A "
        "language model's likelihood need not say as much, and one step of help need not set it right. A permanent "
        "handoff pays Strong's price for every action that follows, and comes when actions were already wasted: "
        "cumulative risk has to grow first."
    )


def estimates(experiment: Experiment) -> tuple[MapFit, xr.DataTree]:
    """Give the point estimate, and the posterior."""
    by_map, by_posterior = (experiment.comparison.fitted[name] for name in (TACIT, POSTERIOR))
    assert isinstance(by_map, FittedTacitSwitch)
    assert isinstance(by_map.estimate, MapFit)
    assert isinstance(by_posterior, FittedTacitSwitch)
    assert isinstance(by_posterior.estimate, xr.DataTree)
    return by_map.estimate, by_posterior.estimate


def executed(transcripts: list[Transcript], agent: str) -> Counter[str]:
    """Count an agent's executed actions by their verb."""
    return Counter(
        record.proposal.action.partition(" ")[0]
        for transcript in transcripts
        for record in transcript.executed
        if record.agent == agent
    )
