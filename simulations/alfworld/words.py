"""What the pages on ALFWorld say of the benchmark."""

from __future__ import annotations

from pathlib import Path

from simulations.played.experiment import Experiment
from simulations.played.page_tables import success_rates, times
from simulations.played.story import Words

REAL_MODELS = """## With language models

The same experiment runs with any pair of actors:

```python
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
from bayes_tacit.agents.playing import Players
from simulations.alfworld.experiment import run_experiment

players = Players(
    cheap=EndpointActor(Endpoint("http://127.0.0.1:8000/v1", "qwen-4b")),
    strong=EndpointActor(Endpoint("http://127.0.0.1:8001/v1", "qwen-27b")),
)
experiment = run_experiment("path/to/alfworld", "played-by-models", players=players, repeatable=False)
```

The rule-based teacher then still marks by replayed handoffs; a model or people mark with `bayes-tacit teach`. Step by \
step from the shell: `bayes-tacit collect`, `teach`, `fit` or `sample`, `select`, `evaluate`."""


def opening(experiment: Experiment) -> str:
    """Say which games are for what."""
    fit, select, test = (len(experiment.pairs[part]) for part in ("fit", "select", "test"))
    return (
        f"Fitted on {fit} games of valid_seen, chosen on {select} others under {experiment.share:.0%} of Pure Strong's "
        f"cost, evaluated once on {test} games of valid_train, by playing every policy through the loop."
    )


def rates(experiment: Experiment) -> str:
    """Say how often each actor wins alone, on the games that they were tuned on and on the others."""
    return success_rates(experiment, {"valid_seen": ("fit", "select"), "the test games": ("test",)}, "wins")


def marked(experiment: Experiment) -> str:
    """Say what the teacher marked."""
    return (
        f"The rule-based teacher marked {int(experiment.training.has_window.sum())} of the "
        f"{experiment.counts['fit']['01']} fit games with AB = 01, each with one checkpoint: the first at which three "
        "steps had told nothing new and a handoff, replayed, succeeds. That is a best case of a teacher."
    )


def took(kept: Path) -> str:
    """Say how long playing took."""
    return f"{times(kept, 'games')} Fitting and choosing take about a minute more, the larger protocol several."


ALFWORLD = Words(
    tasks="games",
    data="path/to/alfworld",
    opening=opening,
    alarm="First Alarm hands off for good at the first repeated action.",
    cost=("Cost in calls of the 4B model (the paper's units: Cheap 1, Strong 6.75, a call of the value head 1.75)."),
    unit="calls of the 4B model",
    rates=rates,
    marked=marked,
    took=took,
    models=REAL_MODELS,
)
