"""The results of the experiment as files: a page to read, a figure, a table of episodes, and pages of some episodes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from bayes_tacit import __version__
from bayes_tacit.agents.pages import write_page
from bayes_tacit.agents.transcript import Transcript, write_transcript
from simulations.played.advice import advice_section
from simulations.played.curves import curves, plot_curves
from simulations.played.estimated import weights
from simulations.played.experiment import Experiment
from simulations.played.luck import luck_section
from simulations.played.page_tables import (
    counts_table,
    curve_table,
    gains_table,
    interval,
    policies_table,
)
from simulations.played.policies import POSTERIOR, TACIT
from simulations.played.remarks import forgetting_nothing, remarks
from simulations.played.story import Story
from simulations.studies.table_file import write_table

PAGE, EPISODES, TRAINING, FIGURE = "README.md", "episodes.parquet", "training.nc", "curves.png"


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
        plot_curves(experiment, table, temporary / FIGURE, story.words)
        identity = {"experiment": story.command, "version": __version__, "cap": experiment.comparison.cap}
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
    words, n = story.words, len(experiment.pairs["test"])
    parts = [
        f"# {story.title}",
        words.opening(experiment),
        _reading(experiment),
        story.is_not,
        f"![Success against cost]({FIGURE})",
        f"## Policies on the {n} test {words.tasks}",
        policies_table(experiment),
        f"{words.alarm} The paper has Task Router, Step Deferral, Prefix router and TACIT-Switch; the others are the "
        f"library's. unmarked = due reads a {words.tasks[:-1]} without a mark as due by the end of its rollout; memory "
        "by likelihood is chosen by the marks alone. The analogues are ours of two systems that the paper names as "
        "related; the docstrings of `Trim` and `EvoRoute` say what each keeps and drops.",
        *remarks(experiment),
        f"{words.cost} The cap on the development {words.tasks} was {experiment.comparison.cap:.2f}. Strong share: of "
        f"all calls; interventions: {words.tasks} in which Strong was called at all. Every test episode was played "
        "with its policy's controller deciding live, and its success, cost and calls are what the table of "
        "continuations says of that decision: the experiment stops where they differ.",
        *story.reliance(experiment),
        *luck_section(experiment, words.tasks),
        *advice_section(experiment, words.tasks),
        f"## Gain of {TACIT} over each, paired bootstrap, 10,000 resamples",
        gains_table(experiment, TACIT),
        f"The same for {POSTERIOR}:",
        gains_table(experiment, POSTERIOR),
        "## Paired outcomes",
        "A is Cheap's success alone, B is Strong's.",
        counts_table(experiment, words.tasks),
        words.rates(experiment),
        *story.about,
        words.marked(experiment),
        "## What was learned",
        weights(experiment),
        f"The training episodes with their marks are in [{TRAINING}]({TRAINING}): `Episodes.read` reads them.",
        "## Success at each budget",
        curve_table(curve),
        f"Each policy's setting is chosen on the development {words.tasks} at each budget, given as a share of Pure "
        f"Strong's cost there; success on test {words.tasks} in %, mean cost on test {words.tasks} in brackets.",
        *more,
        "## Episodes",
        "\n".join(f"- [{name}]({name}.html): {said}" for name, said in shown),
        f"The first of each kind by id, under {POSTERIOR}: the transcript with q(t) and the central 90% of its "
        f"posterior beside it, and as it was recorded in the file of the same name with the ending `.jsonl`. All "
        f"episodes of all policies are in [{EPISODES}]({EPISODES}).",
        "## How long it took",
        words.took(kept),
        words.models,
        f"Made by `python -m simulations {story.command} --data {words.data}` with bayes_tacit {__version__}.",
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
    itself = f", which is {TACIT} with another threshold here" if best in forgetting_nothing(experiment) else ""
    return (
        f"**Reading.** {TACIT} solves {share(TACIT)} of Pure Strong's cost, by posterior mean {share(POSTERIOR)}; Pure "
        f"Strong solves {points['Pure Strong']['success']:.1%}, Pure Cheap {share('Pure Cheap')}. The best other "
        f"policy is {best} with {share(best)}{itself}; the difference in success is {difference} points."
    )
