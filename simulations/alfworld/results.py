"""The results of the experiment as files: a page to read, a figure, a table of episodes, and pages of some episodes."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from bayes_tacit import __version__
from bayes_tacit.agents.pages import write_page
from bayes_tacit.agents.transcript import Transcript, write_transcript
from bayes_tacit.policies.comparison import in_words
from simulations.alfworld.curves import curves, plot_curves
from simulations.alfworld.estimated import weights
from simulations.alfworld.experiment import BUDGET_SHARE, PARTS, Experiment
from simulations.alfworld.kept_time import seconds_spent
from simulations.alfworld.policies import POSTERIOR, TACIT
from simulations.alfworld.recommended import advice_table, advice_words
from simulations.alfworld.stories import Story
from simulations.studies.table_file import write_table
from simulations.studies.tables import markdown_table

PAGE, EPISODES, TRAINING, FIGURE = "README.md", "episodes.parquet", "training.nc", "curves.png"
STAGES = {"rollouts": "paired rollouts", "continuations": "continuations", "played": "policies on the test games"}

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
        _policies(experiment),
        "First Alarm hands off for good at the first repeated action. The paper has Task Router, Step Deferral, "
        "Prefix router and TACIT-Switch; the others are the library's. unmarked = due reads a game without a mark as "
        "due by the end of its rollout; memory by likelihood is chosen by the marks alone.",
        f"Cost in calls of the 4B model (the paper's units: Cheap 1, Strong 6.75, a call of the value head 1.75). The "
        f"cap on the development games was {experiment.comparison.cap:.2f}. Strong share: of all calls; interventions: "
        "games in which Strong was called at all. Every test episode was played with its policy's controller deciding "
        "live, and its success, cost and calls are what the table of continuations says of that decision: the "
        "experiment stops where they differ.",
        *story.reliance(experiment),
        *_advice(experiment),
        f"## Gain of {TACIT} over each, paired bootstrap, 10,000 resamples",
        _gains(experiment, TACIT),
        f"The same for {POSTERIOR}:",
        _gains(experiment, POSTERIOR),
        "## Paired outcomes",
        "A is Cheap's success alone, B is Strong's.",
        _counts(experiment),
        _rates(experiment),
        *story.about,
        f"The rule-based teacher marked {marked} of the {experiment.counts['fit']['01']} fit games with "
        "AB = 01, each with one checkpoint: the first at which three steps had told nothing new and a handoff, "
        "replayed, succeeds. That is a best case of a teacher.",
        "## What was learned",
        weights(experiment),
        f"The training episodes with their marks are in [{TRAINING}]({TRAINING}): `Episodes.read` reads them.",
        "## Success at each budget",
        _curve_table(curve),
        "Each policy's setting is chosen on the development games at each budget, given as a share of Pure Strong's "
        "cost there; success on test games in %, mean cost on test games in brackets.",
        *more,
        "## Episodes",
        "\n".join(f"- [{name}]({name}.html): {words}" for name, words in shown),
        f"The first of each kind by id, under {POSTERIOR}: the transcript with q(t) and the central 90% of its "
        f"posterior beside it, and as it was recorded in the file of the same name with the ending `.jsonl`. All "
        f"episodes of all policies are in [{EPISODES}]({EPISODES}).",
        "## How long it took",
        _times(kept),
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

    return (
        f"**Reading.** {TACIT} solves {share(TACIT)} of Pure Strong's cost, by posterior mean {share(POSTERIOR)}; Pure "
        f"Strong solves {points['Pure Strong']['success']:.1%}, Pure Cheap {share('Pure Cheap')}. The best baseline is "
        f"{best} with {share(best)}; the difference in success is {100 * gain['success_difference']:+.1f} points, 95% "
        f"interval {100 * gain['success_difference_lower']:+.1f} to {100 * gain['success_difference_upper']:+.1f}."
    )


def _advice(experiment: Experiment) -> list[str]:
    """Say what is recommended from fit and development games, and what came of it on the test games."""
    advice = experiment.recommendation
    if advice is None:
        return []
    points = {str(row["policy"]): row for row in experiment.comparison.table.to_dict("records")}
    best = max((name for name in points if not name.startswith("Pure")), key=lambda name: points[name]["success"])
    named, top = (
        f"{points[name]['success']:.1%} at a cost of {points[name]['cost']:.2f}" for name in (advice.name, best)
    )
    return [
        "## What is recommended",
        f"{advice_words(advice)} On the test games {advice.name} solves {named}; the best of all policies there is "
        f"{best}, {top}.",
        advice_table(advice),
        f"Each policy's setting is chosen on four fifths of the {advice.n_tasks} development games and judged on the "
        "last fifth, in turn; test games are not looked at. Intervals and probabilities: Bayesian bootstrap.",
    ]


def _policies(experiment: Experiment) -> str:
    comparison, n = experiment.comparison, len(experiment.pairs["test"])
    rows = []
    for row in comparison.table.to_dict("records"):
        name = str(row["policy"])
        setting = in_words(comparison.fitted[name], comparison.choices[name])
        rows.append(
            [
                name,
                "" if name.startswith("Pure") else setting,
                f"{100 * row['development_success']:.1f}% at {row['development_cost']:.1f}",
                f"{round(row['success'] * n)}/{n} ({100 * row['success']:.1f}%)",
                f"{row['cost']:.2f}",
                f"{100 * row['strong_share']:.1f}%",
                f"{100 * row['intervention_rate']:.1f}%",
            ]
        )
    head = ["policy", "chosen setting", "development", "successes", "mean cost", "strong share", "interventions"]
    return markdown_table(head, rows)


def _gains(experiment: Experiment, policy: str) -> str:
    rows = [
        [
            str(row["over"]),
            *(
                f"{scale * row[name]:+.{digits}f} ({scale * row[f'{name}_lower']:+.{digits}f} to "
                f"{scale * row[f'{name}_upper']:+.{digits}f})"
                for name, scale, digits in (("success_difference", 100, 1), ("cost_difference", 1, 2))
            ),
        ]
        for row in experiment.comparison.gains(policy).to_dict("records")
    ]
    return markdown_table(["over", "success, points (95% interval)", "mean cost (95% interval)"], rows)


def _counts(experiment: Experiment) -> str:
    counts = experiment.counts
    rows = [[part, *(str(counts.loc[outcome, part]) for outcome in counts.index)] for part in PARTS]
    return markdown_table(["games", *(f"AB = {outcome}" for outcome in counts.index)], rows)


def _rates(experiment: Experiment) -> str:
    """Say how often each actor wins alone, on the games that they were tuned on and on the others."""
    said = []
    for words, parts in (("valid_seen", ("fit", "select")), ("the test games", ("test",))):
        pairs = [pair for part in parts for pair in experiment.pairs[part]]
        for name, wins in (
            ("Cheap", sum(pair.cheap.end.success for pair in pairs)),
            ("Strong", sum(pair.strong.end.success for pair in pairs)),
        ):
            low, high = binomtest(wins, len(pairs)).proportion_ci(method="wilson")
            said.append(f"{name} wins {wins} of {len(pairs)} ({wins / len(pairs):.1%}, {low:.1%} to {high:.1%})")
        said[-2:] = [f"On {words} {said[-2]} and {said[-1]}"]
    return f"{'. '.join(said)}; in brackets 95% intervals by Wilson's method."


def _curve_table(curve: pd.DataFrame) -> str:
    cells = {
        (row["share"], row["policy"]): f"{100 * row['success']:.1f} ({row['cost']:.0f})"
        for row in curve.to_dict("records")
    }
    names, shares = list(curve["policy"].unique()), sorted({share for share, _ in cells})
    rows = [[f"{share:.0%}", *(cells.get((share, name), "") for name in names)] for share in shares]
    return markdown_table(["budget", *names], rows)


def _times(kept: Path) -> str:
    rows = [[words, f"{seconds_spent(kept / stage) / 60:.1f}"] for stage, words in STAGES.items()]
    total = sum(seconds_spent(kept / stage) for stage in STAGES)
    table = markdown_table(["what was played", "minutes"], [*rows, ["in all", f"{total / 60:.1f}"]])
    return (
        f"{table}\n\nWall-clock time from file to file, pauses left out, with two workers on two cores that others "
        f"used as well (Python {platform.python_version()}). Fitting and choosing take about a minute more."
    )
