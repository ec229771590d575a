"""The page of results of a played experiment: its story, tables, curves and remarks."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from scipy.stats import binomtest

from bayes_tacit import __version__
from bayes_tacit.agents.pages import write_page
from bayes_tacit.agents.transcript import Transcript, write_transcript
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.policies import success_cost_curve
from bayes_tacit.policies.base import number_in
from bayes_tacit.review.style import policy_style
from bayes_tacit.router.rules import StepChance
from simulations.development_choice import Chosen
from simulations.played.experiment import PARTS, Experiment
from simulations.played.luck import luck_section
from simulations.played.policies import ALARM, DEFERRAL, DUE, POSTERIOR, TACIT
from simulations.studies.storage import write_table
from simulations.studies.tables import figure_file, markdown_table
from simulations.tuned import SearchedPolicy


@dataclass(frozen=True)
class Words:
    """What pages say of a benchmark."""

    tasks: str  # What its tasks are called, such as "games"
    data: str  # How its folder is called in a command
    opening: Callable[[Experiment], str]  # Says which tasks were fitted, chosen and tested on
    alarm: str  # Says where First Alarm hands off
    cost: str  # Says what calls cost
    unit: str  # Of costs, for the figure
    rates: Callable[[Experiment], str]  # Says how often each actor succeeds alone
    marked: Callable[[Experiment], str]  # Says what the teacher marked
    took: Callable[[Path], str]  # Says how long playing took, given what was kept
    models: str  # A section on the same experiment with language models


@dataclass(frozen=True)
class Story:
    """What a page says about its pair."""

    words: Words  # What it says of the benchmark
    title: str  # Of the page
    is_not: str  # What the page is not
    command: str  # How it is made
    reliance: Callable[[Experiment], Sequence[str]]  # Says why policies do what they do with this pair; paragraphs
    tasks: str  # Which tasks are at hand, in a sentence
    about: Sequence[str] = ()  # Paragraphs on how the pair plays alone


PAUSE = 300.0
"""Seconds without a new file after which nobody was playing."""


def seconds_spent(folder: Path) -> float:
    """Add up the time from file to file, pauses left out."""
    times = sorted(path.stat().st_mtime for path in folder.glob("*.jsonl"))
    gaps = (after - before for before, after in pairwise(times))
    return sum(gap for gap in gaps if gap < PAUSE)


PLAIN = (
    *(f"{name} = 0" for name in ("clock", "pace", "cheap", "strong")),
    *(f"{name} = 1" for name in ("incidence", "location", "start_weight", "start_level")),
    "start = inf",
)
"""Numbers of a searched setting that change nothing."""

STAGES = {"rollouts": "paired rollouts", "continuations": "continuations", "played": "policies on the test {}"}


def policies_table(experiment: Experiment) -> str:
    """Return a row for each policy: its setting, and what it does on development and test games."""
    comparison, n = experiment.comparison, len(experiment.pairs["test"])
    rows = []
    for row in comparison.table.to_dict("records"):
        name = str(row["policy"])
        rows.append(
            [
                name,
                "" if name.startswith("Pure") else setting_of(experiment, name),
                f"{100 * row['development_success']:.1f}% at {row['development_cost']:.1f}",
                f"{round(row['success'] * n)}/{n} ({100 * row['success']:.1f}%)",
                f"{row['cost']:.2f}",
                f"{100 * row['strong_share']:.1f}%",
                f"{100 * row['intervention_rate']:.1f}%",
            ]
        )
    head = ["policy", "chosen setting", "development", "successes", "mean cost", "strong share", "interventions"]
    return markdown_table(head, rows)


def setting_of(experiment: Experiment, name: str) -> str:
    """Return the setting that was chosen for a policy, without what is as in the plain one."""
    words = experiment.comparison.fitted[name].in_words(experiment.comparison.choices[name])
    return ", ".join(part for part in words.split(", ") if part not in PLAIN)


def gains_table(experiment: Experiment, policy: str) -> str:
    """Return what a policy gains over each other one."""
    rows = [
        [str(row["over"]), interval(row, "success_difference", 100, 1), interval(row, "cost_difference", 1, 2)]
        for row in experiment.comparison.gains(policy).to_dict("records")
    ]
    return markdown_table(["over", "success, points (95% interval)", "mean cost (95% interval)"], rows)


def interval(row: Mapping[Hashable, Any], name: str, scale: float, digits: int) -> str:
    """Return a difference with its interval."""
    middle, low, high = (f"{scale * row[one]:+.{digits}f}" for one in (name, f"{name}_lower", f"{name}_upper"))
    return f"{middle} ({low} to {high})"


def counts_table(experiment: Experiment, tasks: str) -> str:
    """Return how many tasks of each part had each paired outcome."""
    counts = experiment.counts
    rows = [[part, *(str(counts.loc[outcome, part]) for outcome in counts.index)] for part in PARTS]
    return markdown_table([tasks, *(f"AB = {outcome}" for outcome in counts.index)], rows)


def success_rates(experiment: Experiment, groups: Mapping[str, tuple[str, ...]], wins_or: str) -> str:
    """Say how often each actor succeeds alone, by groups of parts."""
    said = []
    for words, parts in groups.items():
        pairs = [pair for part in parts for pair in experiment.pairs[part]]
        each = []
        for name, wins in (
            ("Cheap", sum(pair.cheap.end.success for pair in pairs)),
            ("Strong", sum(pair.strong.end.success for pair in pairs)),
        ):
            low, high = binomtest(wins, len(pairs)).proportion_ci(method="wilson")
            each.append(f"{name} {wins_or} {wins} of {len(pairs)} ({wins / len(pairs):.1%}, {low:.1%} to {high:.1%})")
        said.append(f"On {words} {' and '.join(each)}")
    return f"{'. '.join(said)}; in brackets 95% intervals by Wilson's method."


def curve_table(curve: pd.DataFrame) -> str:
    """Return success and cost of each policy at each budget."""
    cells = {
        (row["share"], row["policy"]): f"{100 * row['success']:.1f} ({row['cost']:.0f})"
        for row in curve.to_dict("records")
    }
    names, shares = list(curve["policy"].unique()), sorted({share for share, _ in cells})
    rows = [[f"{share:.0%}", *(cells.get((share, name), "") for name in names)] for share in shares]
    return markdown_table(["budget", *names], rows)


def times(kept: Path, tasks: str) -> str:
    """Say how long playing took."""
    rows = [[words.format(tasks), f"{seconds_spent(kept / stage) / 60:.1f}"] for stage, words in STAGES.items()]
    total = sum(seconds_spent(kept / stage) for stage in STAGES)
    table = markdown_table(["what was played", "minutes"], [*rows, ["in all", f"{total / 60:.1f}"]])
    return (
        f"{table}\n\nWall-clock time from file to file as they were last written, pauses left out, on two cores that "
        f"others used as well (Python {platform.python_version()}); what was added to a file later hides how long its "
        "first part took."
    )


def advice_section(experiment: Experiment, tasks: str) -> list[str]:
    """Say what is recommended from fit and development tasks, and what came of it on the test tasks."""
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
        f"{advice_words(advice, tasks)} On the test {tasks} {advice.name} solves {named}; the best of all policies "
        f"there is {best}, {top}. {_against_deferral(experiment, advice.name)}",
        advice_table(advice),
        f"Each policy's setting is chosen on four fifths of the {advice.n_tasks} development {tasks} and judged on the "
        f"last fifth, in turn; test {tasks} are not looked at. Intervals and probabilities: Bayesian bootstrap.",
    ]


def _against_deferral(experiment: Experiment, name: str) -> str:
    """Compare what is recommended with Step Deferral, which was the best of the paper's policies for a script."""
    if name == DEFERRAL:
        return "That is Step Deferral itself."
    (row,) = [one for one in experiment.comparison.gains(name).to_dict("records") if one["over"] == DEFERRAL]
    success, cost = (
        interval(row, measure, *shown)
        for measure, shown in (("success_difference", (100, 1)), ("cost_difference", (1, 2)))
    )
    return f"Against {DEFERRAL} it is {success} points of success at a cost that differs by {cost}."


def advice_table(advice: Chosen) -> str:
    """Return what each policy is expected to do on new games, by cross-validation on the development games."""
    rows = [
        [
            f"**{row['policy']}**" if row["policy"] == advice.name else str(row["policy"]),
            f"{100 * row['success']:.1f}% ({100 * row['success_lower']:.1f} to {100 * row['success_upper']:.1f})",
            f"{row['cost']:.1f}",
            f"{100 * row['ahead']:+.1f} ({100 * row['ahead_lower']:+.1f} to {100 * row['ahead_upper']:+.1f})",
            f"{100 * row['probability_best']:.0f}%",
        ]
        for row in advice.table.to_dict("records")
    ]
    head = ["policy", "held-out success (95% interval)", "cost", "named one ahead by, points", "is the best"]
    return markdown_table(head, rows)


def advice_words(advice: Chosen, tasks: str) -> str:
    """Say which policy is named, and why."""
    expected = advice.expected
    why = "it has the highest held-out success"
    if advice.too_little:
        why = (
            f"{advice.best} has the highest held-out success, but {advice.n_tasks} {tasks} cannot tell the two apart "
            f"to a point, and {advice.name} is the simplest policy within one standard error of it"
        )
    return (
        f"`recommend` names **{advice.name}**: {why}. Of whatever it names on such {tasks} it expects "
        f"{100 * expected['success']:.1f}% ({100 * expected['success_lower']:.1f} to "
        f"{100 * expected['success_upper']:.1f}) at a cost of {expected['cost']:.1f}."
    )


CAPS = tuple(share / 100 for share in range(30, 101, 5))
"""Budgets on the development tasks, as shares of what Pure Strong costs there."""

PURE = ("Pure Cheap", "Pure Strong")


def curves(experiment: Experiment) -> pd.DataFrame:
    """Choose each policy's setting at each budget on the development tasks; return what it does on the test tasks.

    Policies that search for their setting are left out: they have a search for each budget.
    """
    strong = float(experiment.development.counterfactuals.pure_strong.cost.mean())
    fitted = experiment.comparison.fitted.items()
    learned = {name: one for name, one in fitted if name not in PURE and not isinstance(one, SearchedPolicy)}
    table = success_cost_curve(
        learned, experiment.development, experiment.test, [strong * share for share in CAPS]
    ).dropna(subset=["success"])
    return table.assign(share=(table["cap"] / strong).round(6))


def plot_curves(experiment: Experiment, table: pd.DataFrame, path: Path, words: Words) -> None:
    """Draw them."""
    points = {
        row["policy"]: (row["cost"], 100 * row["success"]) for row in experiment.comparison.table.to_dict("records")
    }
    with figure_file(path, size=(9.6, 5.4)) as (figure, axes):
        ax = axes[0, 0]
        for name in table["policy"].unique():
            color, marker = policy_style(name)
            line = "--" if "quantile" in name else ":" if name == DUE else "-"
            curve = table[table["policy"] == name].drop_duplicates(["cost", "success"]).sort_values("cost")
            ax.plot(
                curve["cost"],
                100 * curve["success"],
                line,
                color=color,
                marker=marker,
                markersize=5,
                linewidth=1.4,
                label=name,
            )
            cost, success = points[name]
            ax.plot([cost], [success], "o", mfc="none", mec=color, mew=1.8, markersize=14)
        for name in [name for name in points if name not in {*table["policy"], *PURE}]:
            color, marker = policy_style(name)
            filled = "none" if name.endswith("restart") else "full"
            ax.plot(*points[name], marker, color=color, markersize=6, fillstyle=filled, label=name)
            ax.plot(*points[name], "o", mfc="none", mec=color, mew=1.8, markersize=14)
        for name in PURE:
            color, marker = policy_style(name)
            ax.plot(*points[name], marker, color=color, markersize=9, label=name)
        ax.margins(0.08)
        ax.set(
            xlabel=f"mean cost of a test {words.tasks[:-1]} ({words.unit})", ylabel=f"success on test {words.tasks}, %"
        )
        share = f"{experiment.share:.0%}"
        figure.legend(loc="outside right center", title=f"ringed: chosen under\n{share} of Pure Strong's cost")


def weights(experiment: Experiment) -> str:
    """Return the weights as a table: the point estimate, the posterior mean, and its central 90%."""
    by_map, tree = estimates(experiment)
    drawn = tree["posterior"]["w"].stack(sample=("chain", "draw"))  # noqa: PD013  of xarray
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
    """Return the point estimate, and the posterior."""
    by_map, by_posterior = (experiment.comparison.fitted[name] for name in (TACIT, POSTERIOR))
    assert isinstance(by_map.estimate, MapFit)
    assert isinstance(by_posterior.estimate, xr.DataTree)
    return by_map.estimate, by_posterior.estimate


LOW = 1e-6
"""Below this a threshold is as good as zero."""


def remarks(experiment: Experiment) -> list[str]:
    """Return them as sentences; none where nothing is to be said."""
    said = []
    choices, fitted = experiment.comparison.choices, experiment.comparison.fitted
    if ALARM in choices and number_in(choices[ALARM].point, "alpha") <= 0:
        said.append(
            f"The threshold of {ALARM} that was chosen, 0, is reached by every step: here it hands over after the "
            "first one, whatever that was."
        )
    plain = forgetting_nothing(experiment)
    if plain:
        low = all(number_in(choices[name].point, "alpha") < LOW for name in plain)
        threshold = "next to nothing of risk is enough for it" if low else "one that the paper's grid does not have"
        said.append(
            f"Where memory = 1 and nothing else is chosen ({', '.join(plain)}), nothing is forgotten: that is {TACIT} "
            f"with another threshold, and {threshold}."
        )
    timings = [fitted[DEFERRAL].timing] if DEFERRAL in fitted else []
    judging = [one for one in fitted.values() if isinstance(one.make(one.candidates.iloc[0]).rule, StepChance)]
    if timings == ["proposal"] and any(one.timing == "post_action" for one in judging):
        said.append(
            f"The TRIM analogue judges a step after it was taken, since some diagnostics are known only then, and "
            f"Strong takes the next one; {DEFERRAL} judges the proposal, and Strong replaces it."
        )
    return said


def forgetting_nothing(experiment: Experiment) -> list[str]:
    """Name the policies that search for a memory and have chosen to forget nothing, and all else as it is.

    One that restarts the task is none of them: that is another handoff.
    """
    names = []
    for name, choice in experiment.comparison.choices.items():
        if "memory" not in choice.point or number_in(choice.point, "memory") != 1:
            continue
        parts = [part for part in setting_of(experiment, name).split(", ") if not part.startswith("alpha = ")]
        if parts == ["memory = 1"] and experiment.comparison.fitted[name].router(choice.point).call != "restart":
            names.append(name)
    return names


PAGE, EPISODES, TRAINING, FIGURE = "README.md", "episodes.parquet", "training.nc", "curves.png"


def write_results(experiment: Experiment, kept: Path, folder: Path, story: Story, more: Sequence[str] = ()) -> None:
    """Write everything aside, then put it into the folder, the page last."""
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
    """Yield the first test game of each telling kind under TACIT-Switch by posterior mean: a file name, words, it."""
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
        "left-alone": (~handed & table["success"], "Cheap alone succeeds here, and was left alone."),
        "needless": (handed & table["AB"].isin(["10", "11"]), "Cheap alone succeeds here. The handoff was not needed."),
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
