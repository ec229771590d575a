"""The checks of a report: how often they catch what the model does not have, and how often they cry wolf.

Every data set is fitted by NUTS, and all checks that a report shows are run on it. The page is green if none of them
failed and none was left open.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special, stats

from bayes_tacit import WeaklyInformativePrior
from bayes_tacit.review.checks import headline
from simulations.model_based import quietly
from simulations.studies.misfits import HORIZON, PROBABILITY, WEIGHTS, Drawn, Tasks, covered, judged, reached
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import COLOURS, figure_file, markdown_table, mean_and_half_width

N_EPISODES = 500
MANY, TELLING, FEWER_EPISODES = 20, 5, 300
"""Diagnostics in the data sets with many of them, how many of these count, and how many episodes there are."""


def right(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Draw from the model itself; weights, slopes and spread differ from data set to data set."""
    tasks = Tasks.draw(rng, n)
    location = rng.normal(1.0, 0.2) + tasks.x @ rng.normal(0.0, 0.3, size=2)
    return tasks.due(rng, reached(tasks.risk(rng.dirichlet([2.0, 2.0, 2.0])), location, rng.uniform(0.3, 0.8)))


def square(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the square of a feature, of which the model knows nothing, move the threshold."""
    tasks = Tasks.draw(rng, n)
    return tasks.due(rng, reached(tasks.risk(), 1 + 1.2 * (tasks.x[:, 0] ** 2 - 1), 0.3))


def interaction(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the product of two features move the threshold."""
    tasks = Tasks.draw(rng, n)
    return tasks.due(rng, reached(tasks.risk(), 1 + 0.9 * tasks.x[:, 0] * tasks.x[:, 1], 0.3))


def heavy_tails(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Draw log thresholds from a Cauchy distribution."""
    tasks = Tasks.draw(rng, n)
    location = 1 + 0.4 * tasks.x[:, 0]
    with np.errstate(divide="ignore"):
        place = (np.log(tasks.risk()) - location[:, None]) / 0.3
    return tasks.due(rng, stats.cauchy.cdf(place))


def latest_risk(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let a step's own risk decide, whatever came before it."""
    tasks = Tasks.draw(rng, n)
    highest = np.maximum.accumulate(tasks.u @ WEIGHTS, axis=1)
    return tasks.due(rng, reached(highest, 0.35 + 0.3 * tasks.x[:, 0], 0.4))


def by_the_clock(rng: np.random.Generator, n: int = N_EPISODES) -> Drawn:
    """Let the number of steps decide, whatever happens in them."""
    tasks = Tasks.draw(rng, n)
    steps = np.broadcast_to(np.arange(1.0, HORIZON + 1), (n, HORIZON))
    return tasks.due(rng, reached(steps, 1.9 + 0.3 * tasks.x[:, 0], 0.35))


def many_diagnostics(rng: np.random.Generator, n: int = FEWER_EPISODES) -> Drawn:
    """Draw from the model, with 20 diagnostics of which 15 count for nothing."""
    tasks = Tasks.draw(rng, n, MANY)
    w = np.zeros(MANY)
    w[:TELLING] = rng.dirichlet(np.full(TELLING, 5.0))
    return tasks.due(rng, reached(tasks.risk(w), 1 + tasks.x @ np.array([0.4, -0.2]), 0.5))


MISFITS: dict[str, Callable[..., Drawn]] = {
    "square of a feature": square,
    "two features act together": interaction,
    "heavy-tailed thresholds": heavy_tails,
    "latest risk alone": latest_risk,
    "marks by the clock": by_the_clock,
}
"""What the model does not have."""


RIGHT, NOISE = "right model", f"{MANY} diagnostics, {MANY - TELLING} of them noise"
SPARSE, TELLING_ONLY = f"{NOISE}, sparse prior", f"only the {TELLING} that count"
CONCENTRATION = 0.25
SHORT, SHORTEST = {"chains": 4, "draws": 400}, {"chains": 2, "draws": 300}
LONG = {"chains": 4, "draws": 1000, "tune": 1000}
LEAST_POWER, MOST_ALARMS, ASKED = 0.8, 0.05, 200
CHECKS = {
    "Sampler": "sampler",
    "Crossing steps": "crossing steps",
    "Crossings by covariate": "by covariate",
    "Incidence calibration": "incidence",
    "Leave-one-out": "LOO",
    "Prior sensitivity": "prior",
    "Prior of the weights": "weights",
    "MAP against posterior": "MAP",
}
"""The checks that this study is about, and their columns; `wrong_models` is about all."""
JUDGED_BY_CHANCE = ("crossing steps", "by covariate", "incidence")
WORLDS: dict[str, Callable[..., Drawn]] = {RIGHT: right, **MISFITS, NOISE: many_diagnostics}


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Draw a data set, sample its posterior, run all checks, and see how much of the true q(t) the bands hold."""
    world = setting.values["world"]
    # Data sets of one kind are the same in all settings that have it.
    kind = list(WORLDS).index(world)
    drawn = WORLDS[world](np.random.default_rng([int(np.asarray(seeds.entropy)), kind, number]))
    episodes = drawn.episodes
    if setting.values.get("telling"):
        episodes = quietly(episodes.dataset.isel(diagnostic=slice(0, TELLING)))
    prior = WeaklyInformativePrior(concentration=setting.values.get("concentration", 1.0))
    short = {"chains": setting.values["chains"], "draws": setting.values["draws"], "tune": setting.values["draws"]}
    tree, results = judged(episodes, prior, number, **short)
    results = [result for result in results if result.name in CHECKS]
    sampler, *others = results
    again = not sampler.passed and not any(result.passed is False for result in others)
    if again:
        # As the sampler's own advice has it; the lengths are then the library's default.
        tree, results = judged(episodes, prior, number, **LONG)
        results = [result for result in results if result.name in CHECKS]
    row: Row = {
        "green": int(headline(results).passed),
        "again": int(again),
        "covered": covered(tree, episodes, drawn.q),
    }
    for result in results:
        if result.hint:
            continue
        name = CHECKS[result.name]
        row[name] = int(result.passed is False)
        if name in JUDGED_BY_CHANCE:
            row[f"p, {name}"] = np.nan if result.p_value is None else result.p_value
    return [row]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Return the share of pages that are not green, what failed in them, and the coverage of the bands."""
    _plot(table, folder / "power.png")
    wrong = [*MISFITS, NOISE]
    return "\n\n".join(
        [
            _reading(table, wrong),
            f"## Power, and false alarms\n\n{_alarms(table, [RIGHT, *wrong])}",
            "Each check fails in so many percent of the data sets:",
            _by_check(table, [RIGHT, *wrong]),
            "![Share of pages that are not green, and p-values of a right model](power.png)",
            f"A data set has {N_EPISODES} tasks ({FEWER_EPISODES} with {MANY} diagnostics), two features, rollouts of "
            "8 to 15 steps, and windows of two steps. In the right ones weights, slopes, intercepts and spread are "
            "drawn anew for each. In the wrong ones log kappa is 1 + 1.2 (x1^2 - 1) or 1 + 0.9 x1 x2 plus Normal(0, "
            "0.3), or Cauchy with scale 0.3 around a line in x1; or the handoff is due by the highest single risk so "
            f"far, or by the number of steps alone. With {MANY} diagnostics the model is right, and the bands are not: "
            "a Dirichlet(1) prior leaves a part of the weight with what means nothing. Levels and limits of the checks "
            "were settled on other seeds.",
            "## Many diagnostics",
            _many(table),
            _lengths(table),
        ]
    )


def _of(table: pd.DataFrame, setting: str) -> pd.DataFrame:
    return table[table["setting"] == setting]


def _not_green(part: pd.DataFrame) -> pd.Series:
    """Return where a page is not green; that only the sampler's check failed is not enough for a wrong model."""
    if part["setting"].iloc[0] == RIGHT:
        return 1 - part["green"]
    return part[[column for column in CHECKS.values() if column != "sampler"]].max(axis=1)


def _share(flags: pd.Series) -> str:
    """Return a share in percent with its 95% interval (Jeffreys)."""
    n, k = len(flags), int(flags.sum())
    lower = 0.0 if k == 0 else float(special.betaincinv(k + 0.5, n - k + 0.5, 0.025))
    upper = 1.0 if k == n else float(special.betaincinv(k + 0.5, n - k + 0.5, 0.975))
    return f"{k / n:.1%} ({lower:.0%} to {upper:.0%})"


def _reading(table: pd.DataFrame, wrong: list[str]) -> str:
    alarms = _not_green(_of(table, RIGHT)).mean()
    power = {name: _not_green(_of(table, name)).mean() for name in wrong}
    worst = min(power, key=lambda name: power[name])
    met = power[worst] >= LEAST_POWER and alarms <= MOST_ALARMS
    return (
        f"**Reading.** Of {len(_of(table, RIGHT))} data sets that the model is right about, {alarms:.1%} have a page "
        f"that is not green (at most {MOST_ALARMS:.0%} was asked for). Of each kind that it is wrong about, "
        f"{power[worst]:.0%} do at the least (at least {LEAST_POWER:.0%} was asked for). "
        + _settled(len(_of(table, RIGHT)), met=met)
    )


def _settled(right_ones: int, *, met: bool) -> str:
    if right_ones < ASKED:
        return f"False alarms were to be counted over {ASKED} data sets: {right_ones} do not settle them."
    return "Both hold." if met else "**Not both hold.**"


def _alarms(table: pd.DataFrame, names: list[str]) -> str:
    rows = []
    for name in names:
        part = _of(table, name)
        coverage, half = mean_and_half_width(part["covered"])
        rows.append([name, str(len(part)), _share(_not_green(part)), f"{coverage:.0%} ± {half or 0:.0%}"])
    head = ["data", "data sets", "pages that are not green (95% interval)", f"true q(t) in the {PROBABILITY:.0%} band"]
    return markdown_table(head, rows)


def _by_check(table: pd.DataFrame, names: list[str]) -> str:
    columns = list(CHECKS.values())
    rows = [[name, *(f"{100 * _of(table, name)[column].mean():.1f}" for column in columns)] for name in names]
    return markdown_table(["data", *columns], rows)


def _many(table: pd.DataFrame) -> str:
    common = min(len(_of(table, name)) for name in (NOISE, SPARSE, TELLING_ONLY))
    rows = []
    for name, label in (
        (NOISE, "Dirichlet(1), the default"),
        (SPARSE, f"Dirichlet({CONCENTRATION})"),
        (TELLING_ONLY, f"only the {TELLING} diagnostics that count"),
    ):
        part = _of(table, name).head(common)
        coverage, half = mean_and_half_width(part["covered"])
        shares = (_share(part[column]) for column in ("sampler", "weights", "green"))
        rows.append([label, f"{coverage:.1%} ± {half or 0:.1%}", *shares])
    head = [
        "prior of the weights",
        f"true q(t) in the {PROBABILITY:.0%} band",
        "sampler's check fails",
        "check of the weights' prior fails",
        "page is green",
    ]
    sparse, default = (_of(table, name).head(common)["covered"].to_numpy() for name in (SPARSE, NOISE))
    gain, half = mean_and_half_width(pd.Series(sparse - default))
    return (
        f"The same {common} data sets under other priors:\n\n{markdown_table(head, rows)}\n\n"
        f"**Is a sparse prior the better default for many diagnostics?** For the bands it is better: it covers "
        f"{100 * gain:.1f} ± {100 * (half or 0):.1f} points more of the true q(t) on the same data. As a default it is "
        f"not: its posterior has long tails towards weights of zero, in which {SHORT['chains']} chains of "
        f"{SHORT['draws']} draws do not pass the sampler's own check, and its bands still lean on the prior, which the "
        "report says of both. Neither gives a page to trust. What does is to leave out what means nothing: with "
        f"the {TELLING} diagnostics that count, bands cover as they say. So Dirichlet(1) stays the default, and the "
        "report advises fewer diagnostics, or a smaller concentration with more draws."
    )


def _lengths(table: pd.DataFrame) -> str:
    part = _of(table, RIGHT)
    return (
        f"Posteriors are of {SHORT['chains']} chains of {SHORT['draws']} draws; of wrong models, and of {MANY} "
        f"diagnostics, of {SHORTEST['chains']} chains of {SHORTEST['draws']}. Where the sampler's check failed and no "
        f"other one did, the posterior was sampled again with {LONG['draws']} draws a chain, the library's default, as "
        f"its advice has it: {int(part['again'].sum())} of {len(part)} right models. A wrong one counts as caught if a "
        "check other than the sampler's failed."
    )


def _plot(table: pd.DataFrame, path: Path) -> None:
    names = [RIGHT, *MISFITS, NOISE]
    shares = [_not_green(_of(table, name)).mean() for name in names]
    with figure_file(path, 1, 2, (11.0, 3.8)) as (_, axes):
        left, right_axis = axes[0]
        position = np.arange(len(names))[::-1]
        left.barh(position, shares, color=[COLOURS[0], *[COLOURS[1]] * (len(names) - 1)], height=0.6)
        left.axvline(LEAST_POWER, color="#555555", linestyle="--", linewidth=1, label="at least, where wrong")
        left.axvline(MOST_ALARMS, color="#555555", linestyle=":", linewidth=1.4, label="at most, where right")
        left.set_yticks(position, names)
        left.set(xlabel="share of pages that are not green", xlim=(0, 1.02))
        left.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=2)
        levels = np.linspace(0, 1, 201)
        for style, name in enumerate(JUDGED_BY_CHANCE):
            p = _of(table, RIGHT)[f"p, {name}"].dropna().to_numpy()
            right_axis.plot(levels, [(p <= level).mean() for level in levels], color=COLOURS[style], label=name)
        right_axis.plot([0, 1], [0, 1], color="#555555", linewidth=1, linestyle="--", label="uniform")
        right_axis.set(xlabel="p", ylabel="share of right models with at most p", xlim=(0, 1), ylim=(0, 1))
        right_axis.legend(loc="upper left")


STUDY = Study(
    name="power",
    title="What the checks of a report catch",
    description="How often the report is green for right models and for six wrong ones, check by check.",
    settings=[
        Setting(RIGHT, {"world": RIGHT, **SHORT}),
        *(Setting(name, {"world": name, **SHORTEST}, share=0.1) for name in MISFITS),
        Setting(NOISE, {"world": NOISE, **SHORTEST}, share=0.1),
        Setting(SPARSE, {"world": NOISE, "concentration": CONCENTRATION, **SHORT}, share=0.1),
        Setting(TELLING_ONLY, {"world": NOISE, "telling": True, **SHORTEST}, share=0.1),
    ],
    parameters={"episodes": N_EPISODES, "fewer_episodes": FEWER_EPISODES, "probability": PROBABILITY, "long": LONG},
    replicate=replicate,
    summarize=summarize,
    replicates=200,
    seed=20261125,
    paired=True,
    cheapest="two features act together",
    agreement=(0.1, 0.2),
    unsteady=("sampler", "again", "LOO", "prior", "MAP"),
)
