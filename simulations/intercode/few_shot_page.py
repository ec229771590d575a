"""The page on few tasks a database, from the table of all splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from simulations.studies.figures import COLOURS, MARKERS, figure_file
from simulations.studies.tables import markdown_table

POOLED, UNPOOLED, PARTIAL = "pooled", "unpooled", "partially pooled"
POINT = "{}, point estimate"
ROWS = (POINT.format(POOLED), POINT.format(UNPOOLED), POOLED, UNPOOLED, PARTIAL)
ALL = "all tasks"
FIGURE = "databases.png"
RESAMPLES = 4000

SCORES = {
    "log_score": ("Log score of all that was seen of a task", 3),
    "strong": ("Log score of Strong's outcome alone", 3),
    "brier": ("Brier score of q(t) at the end, for AB = 01", 4),
}
"""Heading and digits of each score; the last one is better if smaller."""


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Write the figure, and give the page."""
    scores = table[table["kind"] == "score"]
    settings = list(dict.fromkeys(scores["setting"]))
    known = {name: Scores.of(scores, "known", settings, name) for name in SCORES}
    new = Scores.of(scores, "new", settings, "log_score")
    _draw(known["log_score"], settings, folder / FIGURE)
    parts = [_reading(known, settings, scores), _pays(known["log_score"], settings, table)]
    for name, (heading, digits) in SCORES.items():
        better = "smaller is better" if name == "brier" else "larger is better"
        parts += [f"## {heading}", _means(known[name], settings, digits, better)]
        parts += [_differences(known[name], settings, digits, better)]
    parts += [f"![Gain over pooled]({FIGURE})", "## Databases never seen", _of_new(new, settings)]
    parts += ["## How far apart the databases are", _spreads(table), _how(table, scores)]
    return "\n\n".join(parts)


class Scores:
    """Means of a score over tasks, and how sure differences are: databases are drawn anew."""

    def __init__(self, sums: dict[tuple[str, str], np.ndarray], tasks: dict[str, np.ndarray]) -> None:
        self.sums, self.tasks = sums, tasks

    @classmethod
    def of(cls, rows: pd.DataFrame, part: str, settings: list[str], name: str) -> Scores:
        """Sum over the splits, by database; a fit that failed in some splits is left out of the setting."""
        rows = rows[rows["part"] == part]
        splits = rows.groupby("setting")["replicate"].nunique()
        sums, tasks = {}, {}
        for setting in settings:
            mine = rows[rows["setting"] == setting]
            for policy, its in mine.groupby("policy"):
                if its["replicate"].nunique() == splits[setting]:
                    by = its.groupby("database")[[name, "tasks"]].sum().sort_index()
                    sums[str(policy), setting], tasks[setting] = by[name].to_numpy(float), by["tasks"].to_numpy(float)
        return cls(sums, tasks)

    def mean(self, policy: str, setting: str) -> float:
        """Give the mean over tasks."""
        return float(self.sums[policy, setting].sum() / self.tasks[setting].sum())

    def gain(self, policy: str, setting: str, over: str) -> tuple[float, float, float]:
        """Give the difference from another on the same tasks, with the central 95% over databases drawn anew."""
        difference, tasks = self.sums[policy, setting] - self.sums[over, setting], self.tasks[setting]
        drawn = np.random.default_rng(0).integers(0, len(tasks), size=(RESAMPLES, len(tasks)))
        low, high = np.quantile(difference[drawn].sum(axis=1) / tasks[drawn].sum(axis=1), [0.025, 0.975])
        return float(difference.sum() / tasks.sum()), float(low), float(high)


def _means(scores: Scores, settings: list[str], digits: int, better: str) -> str:
    body = [[name, *_row(scores, name, settings, digits)] for name in ROWS]
    return markdown_table([f"mean over held-out tasks, {better}", *settings], body)


def _row(scores: Scores, name: str, settings: list[str], digits: int) -> list[str]:
    return [f"{scores.mean(name, one):.{digits}f}" if (name, one) in scores.sums else "" for one in settings]


def _differences(scores: Scores, settings: list[str], digits: int, better: str) -> str:
    body = [
        [f"{PARTIAL} minus {other}", *(_gain(scores, setting, other, digits) for setting in settings)]
        for other in (POOLED, UNPOOLED)
    ]
    return markdown_table([f"difference with 95% interval, {better}", *settings], body)


def _gain(scores: Scores, setting: str, over: str, digits: int) -> str:
    gain, low, high = scores.gain(PARTIAL, setting, over)
    return f"{gain:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def _of_new(scores: Scores, settings: list[str]) -> str:
    names = (POINT.format(POOLED), POOLED, PARTIAL)
    body = [[name, *_row(scores, name, settings, 3)] for name in names]
    body.append([f"{PARTIAL} minus {POOLED}", *(_gain(scores, setting, POOLED, 3) for setting in settings)])
    databases = len(next(iter(scores.tasks.values())))
    return (
        f"Log score of all that was seen, on all tasks of the {databases} databases of which nothing was trained on; a "
        "new database's intercepts are drawn from the spread, one pair for each posterior draw:\n\n"
        + markdown_table(["mean over tasks, larger is better", *settings], body)
    )


def _reading(known: dict[str, Scores], settings: list[str], rows: pd.DataFrame) -> str:
    """Say where partial pooling is ahead by more than chance, and where it is not."""
    said = []
    for other in (POOLED, UNPOOLED):
        words = []
        for setting in settings:
            gain, low, high = known["log_score"].gain(PARTIAL, setting, other)
            verdict = "ahead" if low > 0 else "behind" if high < 0 else "not told apart"
            words.append(f"{verdict} with {setting} ({gain:+.3f}, {low:+.3f} to {high:+.3f})")
        said.append(f"Against {other} it is {', '.join(words)}")
    databases = rows.loc[rows["part"] == "known", "database"].nunique()
    return (
        f"**Reading.** Partially pooled intercepts of {databases} databases, by the mean log score of held-out tasks "
        f"of the same databases, with 95% intervals over databases. {'. '.join(said)}."
    )


def _pays(scores: Scores, settings: list[str], table: pd.DataFrame) -> str:
    """Say whether the posterior and its pooling are worth it here."""
    gains = {other: [scores.gain(PARTIAL, setting, other) for setting in settings] for other in (POOLED, UNPOOLED)}
    behind = any(high < 0 for found in gains.values() for _, _, high in found)
    largest = {other: max(gain for gain, _, _ in found) for other, found in gains.items()}
    few = table[table["setting"] == settings[0]]
    missing = few[(few["kind"] == "failure") & (few["policy"] == POINT.format(POOLED))]
    return (
        "**Does it pay?** "
        + ("Not always: it is behind somewhere. " if behind else "It is nowhere behind by more than chance. ")
        + f"What it gains is small here, at most {largest[POOLED]:+.3f} a task over pooling and "
        f"{largest[UNPOOLED]:+.3f} over each by itself; what it saves is to know beforehand which of the two is "
        f"better. The posterior itself pays where tasks are few: with {settings[0]}, even the pooled point estimate "
        f"does not exist in {len(missing)} of {few['replicate'].nunique()} splits."
    )


def _spreads(table: pd.DataFrame) -> str:
    rows = {str(row["kind"]): row for row in table[table["setting"] == ALL].to_dict("records")}
    said = {
        name: f"{rows[name]['value']:.2f} (90% band {rows[name]['lower']:.2f} to {rows[name]['upper']:.2f})"
        for name in ("gamma_spread", "beta_spread")
    }
    return (
        f"Sampled once from all {rows['loo']['tasks']:,.0f} tasks and all databases: the intercepts of incidence "
        f"have standard deviation {said['gamma_spread']} on the logit scale, those of the log threshold's location "
        f"{said['beta_spread']}. Leave-one-out cross-validation prefers the databases' intercepts to none by "
        f"{rows['loo']['value']:+.1f} elpd (standard error {rows['loo']['lower']:.1f})."
    )


def _how(table: pd.DataFrame, scores: pd.DataFrame) -> str:
    known = scores[scores["part"] == "known"]
    splits = known["replicate"].nunique()
    failed = table[table["kind"] == "failure"].groupby(["policy", "setting"], sort=False).size().reset_index(name="n")
    missing = "; ".join(f"{row.policy}, {row.setting}: {row.n}" for row in failed.itertuples())
    warned = table[table["kind"] == "sampler"].groupby("policy", sort=False).size()
    warnings = "; ".join(f"{policy}: {count}" for policy, count in warned.items())
    runs = splits * scores["setting"].nunique() + 1
    return (
        "## How it was made\n\n"
        f"{splits} random splits for each number of training tasks, which are taken from each of the "
        f"{known['database'].nunique()} databases that are large enough; their other tasks are held out. Only one "
        "database has more than 100 tasks. Pooled: no databases. Unpooled: `C(database)` in the formula. Partially "
        'pooled: `groups="database"`. All three by the posterior, with a clock, so that every window has mass, and the '
        "first two also by the point estimate. Seen of a task are Strong's outcome and, where it succeeds, the "
        "interval of the threshold: the mark of the page on [all policies](../intercode/README.md), by the end of the "
        "rollout where there is none, or past the end where Cheap succeeds, too. Brier is the mean square of q at "
        "Cheap's last turn minus whether only Strong succeeds. Intervals: databases are drawn anew, "
        f"{RESAMPLES:,} times, over all splits at once.\n\n"
        f"Point estimates that do not exist, so that the row is left out there: {missing or 'none'}. Posteriors whose "
        f"sampler's check did not pass, of {runs} each: {warnings or 'none'}; they are counted in. Weights near zero "
        "mix slowly: in those that were looked at R-hat was below 1.02, and one weight had some 300 effective draws."
    )


def _draw(scores: Scores, settings: list[str], path: Path) -> None:
    sizes = [int(setting.split()[0]) for setting in settings]
    with figure_file(path) as (_, axes):
        for at, other in enumerate((POOLED, UNPOOLED)):
            gains = np.array([scores.gain(PARTIAL, setting, other) for setting in settings])
            error = np.abs(gains[:, 1:] - gains[:, :1]).T
            place = [size * (0.97, 1.03)[at] for size in sizes]
            style = {"color": COLOURS[at], "marker": MARKERS[at], "capsize": 3}
            axes[0, 0].errorbar(place, gains[:, 0], yerr=error, label=f"over {other}", **style)
        axes[0, 0].axhline(0.0, color="0.6", linewidth=1)
        axes[0, 0].set(xscale="log", xlabel="training tasks a database", ylabel="gain in log score a task")
        axes[0, 0].set_xticks(sizes, [str(size) for size in sizes])
        axes[0, 0].minorticks_off()
        axes[0, 0].legend()
