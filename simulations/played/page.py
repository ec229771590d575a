"""The page of results of a played experiment: its tables, its figures, and what is kept beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit import __version__
from bayes_tacit.agents.pages import write_page
from bayes_tacit.agents.transcript import Transcript, write_transcript
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.policies import success_cost_curve
from bayes_tacit.review.style import policy_style
from simulations.development_choice import Chosen
from simulations.played.crossed import Crossed, crossed_words
from simulations.played.experiment import PARTS, Experiment
from simulations.played.kept import write_kept
from simulations.played.luck import CENTRAL, chosen_again
from simulations.played.policies import ALARM, DEFERRAL, DUE, POSTERIOR, PURE, TACIT
from simulations.studies.storage import write_table
from simulations.studies.tables import figure_file, fill, markdown_table
from simulations.tuned import SearchedPolicy


@dataclass(frozen=True)
class Story:
    """Which page has the words on a pair, and what its tasks are called."""

    page: str
    command: str
    unit: str  # Of costs, for the figures
    tasks: str = "games"
    more: Callable[[Experiment], Mapping[str, str]] = lambda _: {}  # Tables that only this page has


PLAIN = (
    *(f"{name} = 0" for name in ("clock", "pace", "cheap", "strong")),
    *(f"{name} = 1" for name in ("incidence", "location", "start_weight", "start_level")),
    "start = inf",
)
"""Numbers of a searched setting that change nothing."""


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


def luck_table(experiment: Experiment, tasks: str) -> str:
    """Show how much of each policy's success on the test tasks hangs on which tasks it was chosen on."""
    points = {str(row["policy"]): row for row in experiment.comparison.table.to_dict("records")}

    def spread(values: pd.Series) -> str:
        return "{:.1f} to {:.1f}".format(*np.quantile(values, CENTRAL))

    rows = [
        [
            name,
            f"{100 * points[name]['success']:.1f} at {points[name]['cost']:.1f}",
            spread(100 * again["success"]),
            spread(again["cost"]),
            f"{again['setting'].value_counts(normalize=True).iloc[0]:.0%}",
        ]
        for name, again in chosen_again(experiment).items()
    ]
    head = ["policy", f"success on the test {tasks}, %, at its cost", "central 90% of the success, had others chosen"]
    return markdown_table([*head, "of the cost", "the setting that is chosen most often, in"], rows)


def curve_table(curve: pd.DataFrame) -> str:
    """Return success and cost of each policy at each budget."""
    cells = {
        (row["share"], row["policy"]): f"{100 * row['success']:.1f} ({row['cost']:.0f})"
        for row in curve.to_dict("records")
    }
    names, shares = list(curve["policy"].unique()), sorted({share for share, _ in cells})
    rows = [[f"{share:.0%}", *(cells.get((share, name), "") for name in names)] for share in shares]
    return markdown_table(["budget", *names], rows)


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


CAPS = tuple(share / 100 for share in range(30, 101, 5))
"""Budgets on the development tasks, as shares of what Pure Strong costs there."""


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


def plot_curves(experiment: Experiment, table: pd.DataFrame, path: Path, story: Story, *, others: bool = True) -> None:
    """Draw lines of points in a table (policy, cost, success), and a ring around what was chosen.

    With `others`, policies that are not in the table are drawn by what was chosen alone.
    """
    drawn = {*table["policy"], *PURE}
    points = {
        row["policy"]: (row["cost"], 100 * row["success"])
        for row in experiment.comparison.table.to_dict("records")
        if others or row["policy"] in drawn
    }
    with figure_file(path, size=(9.6, 5.4)) as (figure, axes):
        ax = axes[0, 0]
        for name, point in points.items():
            color, marker = policy_style(name)
            curve = table[table["policy"] == name].drop_duplicates(["cost", "success"]).sort_values("cost")
            style: dict[str, Any] = {"color": color, "marker": marker, "label": name}
            if name in PURE:
                ax.plot(*point, markersize=9, linestyle="", **style)
                continue
            if curve.empty:
                filled = "none" if name.endswith("restart") else "full"
                ax.plot(*point, markersize=6, linestyle="", fillstyle=filled, **style)
            else:
                line = "--" if "quantile" in name else ":" if name == DUE else "-"
                ax.plot(curve["cost"], 100 * curve["success"], line, markersize=5, linewidth=1.4, **style)
            ax.plot(*point, "o", mfc="none", mec=color, mew=1.8, markersize=14)
        ax.margins(0.08)
        ax.set(
            xlabel=f"mean cost of a test {story.tasks[:-1]} ({story.unit})", ylabel=f"success on test {story.tasks}, %"
        )
        figure.legend(
            loc="outside right center", title=f"ringed: chosen under\n{experiment.share:.0%} of Pure Strong's cost"
        )


def grid(experiment: Experiment) -> pd.DataFrame:
    """Return what the stated settings of the paper's policies and of First Alarm give on the test tasks.

    Only the ringed ones were chosen, on development tasks; the others show the shape. Of the prefix router these are
    the thresholds at the prefix that was chosen.
    """
    tables = []
    for name in ("Task Router", DEFERRAL, "Prefix router", ALARM, TACIT):
        if name in experiment.comparison.fitted:
            one, chosen = experiment.comparison.fitted[name], experiment.comparison.choices[name].point
            settings = one.candidates
            if "k" in settings:
                settings = settings[settings["k"] == chosen["k"]]
            tables.append(one.operating_points(experiment.test, settings).assign(policy=name))
    return pd.concat(tables, ignore_index=True)


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
    return markdown_table(["diagnostic", "penalized maximum likelihood", "posterior mean", "central 90%"], rows)


def estimates(experiment: Experiment) -> tuple[MapFit, xr.DataTree]:
    """Return the point estimate, and the posterior."""
    by_map, by_posterior = (experiment.comparison.fitted[name] for name in (TACIT, POSTERIOR))
    assert isinstance(by_map.estimate, MapFit)
    assert isinstance(by_posterior.estimate, xr.DataTree)
    return by_map.estimate, by_posterior.estimate


PAGE, EPISODES, TRAINING = "README.md", "episodes.parquet", "training.nc"


def write_results(experiment: Experiment, folder: Path, story: Story, found: Crossed | None = None) -> None:
    """Write everything aside, then put it into the folder, the page last."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as aside:
        temporary = Path(aside)
        table = curves(experiment)
        plot_curves(experiment, table, temporary / "curves.png", story)
        plot_curves(experiment, grid(experiment), temporary / "grid.png", story, others=False)
        identity = {"experiment": story.command, "version": __version__, "cap": experiment.comparison.cap}
        write_table(experiment.episodes, identity, temporary / EPISODES)
        experiment.training.write(temporary / TRAINING)
        write_kept(experiment, temporary)
        shown = []
        for name, words, transcript in telling_episodes(experiment):
            write_page(transcript, temporary / f"{name}.html", words)
            write_transcript(transcript, temporary / f"{name}.jsonl")
            shown.append(f"- [{name}]({name}.html): {words}")
        advice = experiment.recommendation
        page = fill(
            story.page,
            policies=policies_table(experiment),
            luck=luck_table(experiment, story.tasks),
            advice="" if advice is None else advice_table(advice),
            gains=gains_table(experiment, TACIT),
            gains_posterior=gains_table(experiment, POSTERIOR),
            outcomes=counts_table(experiment, story.tasks),
            **story.more(experiment),
            weights=weights(experiment),
            budgets=curve_table(table),
            larger="It was not played to its end." if found is None else "\n\n".join(crossed_words(found)),
            episodes="\n".join(shown),
        )
        made = f"Made by `python -m simulations {story.command}` with bayes_tacit {__version__}."
        (temporary / PAGE).write_text(f"{page.rstrip()}\n\n{made}\n", encoding="utf-8")
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
