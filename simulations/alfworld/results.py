"""The results of the experiment as files: a page to read, a figure, a table of episodes, and pages of some episodes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from bayes_tacit import __version__
from bayes_tacit.agents.pages import write_page
from bayes_tacit.agents.transcript import Transcript, write_transcript
from simulations.alfworld.advice import advice_section
from simulations.alfworld.curves import curves, plot_curves
from simulations.alfworld.estimated import weights
from simulations.alfworld.experiment import BUDGET_SHARE, PARTS, Experiment
from simulations.alfworld.page_tables import (
    counts_table,
    curve_table,
    gains_table,
    interval,
    policies_table,
    rates,
    times,
)
from simulations.alfworld.policies import POSTERIOR, TACIT
from simulations.alfworld.stories import Story
from simulations.studies.table_file import write_table

PAGE, EPISODES, TRAINING, FIGURE = "README.md", "episodes.parquet", "training.nc", "curves.png"
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


def write_results(experiment: Experiment, kept: Path, folder: Path, story: Story, more: Sequence[str] = ()) -> None:
    """Write everything aside, then put it into the folder, the page last.

    Parameters
    ----------
    experiment
        What came of it.
    kept
        Where all that was played is.
    folder
        For the results.
    story
        Who plays.
    more
        Further sections of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as aside:
        temporary = Path(aside)
        table = curves(experiment)
        plot_curves(experiment, table, temporary / FIGURE)
        identity = {"experiment": "alfworld", "version": __version__, "cap": experiment.comparison.cap}
        write_table(experiment.episodes, identity, temporary / EPISODES)
        experiment.training.write(temporary / TRAINING)
        shown = []
        for name, words, transcript in telling_episodes(experiment):
            write_page(transcript, temporary / f"{name}.html", words)
            write_transcript(transcript, temporary / f"{name}.jsonl")
            shown.append((name, words))
        (temporary / PAGE).write_text(_page(experiment, table, kept, shown, story, more), encoding="utf-8")
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == PAGE):
            path.replace(folder / path.name)


def telling_episodes(experiment: Experiment) -> Iterator[tuple[str, str, Transcript]]:
    """Give the first test game of each telling kind under TACIT-Switch by posterior mean: a file name, words, it."""
    table = experiment.episodes
    table = table[table["policy"] == POSTERIOR].reset_index(drop=True)
    handed = table["handoff_step"].notna()
    kinds = {
        "rescued": (
            handed & table["success"] & (table["AB"] == "01"),
            "Cheap alone fails here and Strong alone succeeds. The handoff came in time.",
        ),
        "too-late": (
            handed & ~table["success"] & (table["AB"] == "01"),
            "Cheap alone fails here and Strong alone succeeds. Handed over at this step, Strong did not finish.",
        ),
        "left-alone": (
            ~handed & table["success"],
            "Cheap alone succeeds here, and was left alone.",
        ),
        "needless": (
            handed & table["AB"].isin(["10", "11"]),
            "Cheap alone succeeds here. The handoff was not needed.",
        ),
    }
    for name, (chosen, words) in kinds.items():
        if chosen.any():
            yield name, words, experiment.played[POSTERIOR][int(chosen.to_numpy().argmax())]


def _page(
    experiment: Experiment,
    curve: pd.DataFrame,
    kept: Path,
    shown: list[tuple[str, str]],
    story: Story,
    more: Sequence[str],
) -> str:
    sizes = {part: len(experiment.pairs[part]) for part in PARTS}
    marked = int(experiment.training.has_window.sum())
    parts = [
        f"# {story.title}",
        f"Fitted on {sizes['fit']} games of valid_seen, chosen on {sizes['select']} others under "
        f"{BUDGET_SHARE:.0%} of Pure Strong's cost, evaluated once on {sizes['test']} games of valid_train, by playing "
        "every policy through the loop.",
        _reading(experiment),
        story.is_not,
        f"![Success against cost]({FIGURE})",
        f"## Policies on the {sizes['test']} test games",
        policies_table(experiment),
        "First Alarm hands off for good at the first repeated action. The paper has Task Router, Step Deferral, "
        "Prefix router and TACIT-Switch; the others are the library's. unmarked = due reads a game without a mark as "
        "due by the end of its rollout; memory by likelihood is chosen by the marks alone.",
        f"Cost in calls of the 4B model (the paper's units: Cheap 1, Strong 6.75, a call of the value head 1.75). The "
        f"cap on the development games was {experiment.comparison.cap:.2f}. Strong share: of all calls; interventions: "
        "games in which Strong was called at all. Every test episode was played with its policy's controller deciding "
        "live, and its success, cost and calls are what the table of continuations says of that decision: the "
        "experiment stops where they differ.",
        *story.reliance(experiment),
        *advice_section(experiment),
        f"## Gain of {TACIT} over each, paired bootstrap, 10,000 resamples",
        gains_table(experiment, TACIT),
        f"The same for {POSTERIOR}:",
        gains_table(experiment, POSTERIOR),
        "## Paired outcomes",
        "A is Cheap's success alone, B is Strong's.",
        counts_table(experiment),
        rates(experiment),
        *story.about,
        f"The rule-based teacher marked {marked} of the {experiment.counts['fit']['01']} fit games with "
        "AB = 01, each with one checkpoint: the first at which three steps had told nothing new and a handoff, "
        "replayed, succeeds. That is a best case of a teacher.",
        "## What was learned",
        weights(experiment),
        f"The training episodes with their marks are in [{TRAINING}]({TRAINING}): `Episodes.read` reads them.",
        "## Success at each budget",
        curve_table(curve),
        "Each policy's setting is chosen on the development games at each budget, given as a share of Pure Strong's "
        "cost there; success on test games in %, mean cost on test games in brackets.",
        *more,
        "## Episodes",
        "\n".join(f"- [{name}]({name}.html): {words}" for name, words in shown),
        f"The first of each kind by id, under {POSTERIOR}: the transcript with q(t) and the central 90% of its "
        f"posterior beside it, and as it was recorded in the file of the same name with the ending `.jsonl`. All "
        f"episodes of all policies are in [{EPISODES}]({EPISODES}).",
        "## How long it took",
        times(kept),
        REAL_MODELS,
        f"Made by `python -m simulations {story.command} --data path/to/alfworld` with bayes_tacit {__version__}.",
    ]
    return "\n\n".join(parts) + "\n"


def _reading(experiment: Experiment) -> str:
    points = {str(row["policy"]): row for row in experiment.comparison.table.to_dict("records")}
    baselines = [name for name in points if not name.startswith((TACIT, "Pure"))]
    best = max(baselines, key=lambda name: float(points[name]["success"]))
    (gain,) = [row for row in experiment.comparison.gains(TACIT).to_dict("records") if row["over"] == best]

    def share(name: str) -> str:
        return f"{points[name]['success']:.1%} at {points[name]['cost'] / points['Pure Strong']['cost']:.0%}"

    difference = interval(gain, "success_difference", 100, 1)
    return (
        f"**Reading.** {TACIT} solves {share(TACIT)} of Pure Strong's cost, by posterior mean {share(POSTERIOR)}; Pure "
        f"Strong solves {points['Pure Strong']['success']:.1%}, Pure Cheap {share('Pure Cheap')}. The best other "
        f"policy is {best} with {share(best)}; the difference in success is {difference} points."
    )
