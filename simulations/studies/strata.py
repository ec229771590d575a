"""Noisy, repeated, missing and unpaired outcomes, and wrong marks: what the sum over strata brings back.

Episodes are drawn from the paper's model itself, so that q is known, and then spoiled as logs are; the last design asks
in the mechanism simulator, which no model was made for, what all of it does to decisions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import Episodes, Noise, approximate_posterior, fit_map, handoff_score, incidence
from bayes_tacit.decisions.collecting import next_tasks
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import TacitSwitch
from models.mechanism import FULL
from simulations.mechanism import calibration
from simulations.model_based import TRUTH, Truth, quietly, simulate, true_scores
from simulations.model_based import incidence as true_incidence
from simulations.studies.contest import CAP, FITTING, contest, draw_worlds
from simulations.studies.noise import Corruption
from simulations.studies.recovery import held_out_error
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table, mean_and_half_width, with_half_width

N, N_BANDS, N_TEST = 4000, 1000, 2000
RATE = 0.2
PAIRS = 400
NOISY = Noise(sensitivity=(8, 2), specificity=(8, 2))
KNOWN = Noise(sensitivity=1 - RATE, specificity=1 - RATE)
MARKS = Noise(mark_error=(1, 4), lateness=(2, 1, 1))
DRAWS, SAMPLES, N_JUDGED = 300, 6, 150
HALF, NAMED, RANDOM = 500, 100, (100, 200, 400)
SETTINGS = {"estimates": 1.0, "bands": 0.5, "next": 1.0, "decisions": 0.5}
HIDDEN = ("window_start", "window_end")


def flipped(episodes: Episodes, rng: np.random.Generator, rate: float = RATE) -> Episodes:
    """Turn a share of Strong's outcomes round, as in the study `noise`."""
    return Corruption.draw(len(episodes), rng).flip_outcomes(episodes, rate)


def flipped_by_task(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    """Turn about a fifth of the outcomes round, the more often the larger the first feature is."""
    x = episodes.dataset["features"].values[:, 0]
    chance = special.expit(-1.6 + 1.0 * x)
    wrong = rng.random(len(episodes)) < chance
    order = Corruption(np.zeros(len(x)), np.where(wrong, 0.0, 1.0), np.zeros(len(x), dtype=bool))
    return order.flip_outcomes(episodes, float(wrong.mean()))


def repeated(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    """Play Strong three times on every task, each rollout wrong in a fifth of the cases; a mark needs one success."""
    data = episodes.dataset
    can = data["strong_success"].values
    successes = rng.binomial(3, np.where(can, 1 - RATE, RATE))
    marks: dict[str, Any] = {name: ("episode", np.where(successes > 0, data[name].values, np.nan)) for name in HIDDEN}
    trials = np.full(len(can), 3)
    counts: dict[str, Any] = {"strong_successes": ("episode", successes), "strong_trials": ("episode", trials)}
    return quietly(data.drop_vars("strong_success").assign(**counts, **marks))


def unmarked(episodes: Episodes, rng: np.random.Generator) -> Episodes:  # noqa: ARG001
    """Remove all marks."""
    return quietly(episodes.dataset.assign({name: ("episode", np.full(len(episodes), np.nan)) for name in HIDDEN}))


def one_sided(episodes: Episodes, pairs: int) -> Episodes:
    """Let Cheap play the first half and Strong the other, but for some pairs among them; no mark is left."""
    at, n = np.arange(len(episodes)), len(episodes)
    return played(episodes, (at < n // 2) | (at >= n - pairs), at >= n // 2)


def played(episodes: Episodes, cheap: np.ndarray, strong: np.ndarray) -> Episodes:
    """Keep the sides that are said to be played, and no mark."""
    data = episodes.dataset
    hidden = {name: np.full(len(episodes), np.nan) for name in HIDDEN}
    hidden["cheap_success"] = np.where(cheap, data["cheap_success"].values.astype(float), np.nan)
    hidden["strong_success"] = np.where(strong, data["strong_success"].values.astype(float), np.nan)
    hidden["n_steps"] = np.where(cheap, data["n_steps"].values, 0)
    return quietly(data.assign({name: ("episode", values) for name, values in hidden.items()}))


def remarked(episodes: Episodes, mark: np.ndarray) -> Episodes:
    """Replace every mark."""
    marks = np.where(episodes.has_window, mark, np.nan)
    return quietly(episodes.dataset.assign(dict.fromkeys(HIDDEN, ("episode", marks))))


def late(episodes: Episodes, rng: np.random.Generator) -> Episodes:  # noqa: ARG001
    """Move every mark one step on, but for those at the last step."""
    return remarked(episodes, np.minimum(episodes.dataset["window_start"].values + 1, episodes.n_steps - 1))


def contaminated(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    """Put a fifth of the marks anywhere."""
    anywhere = rng.integers(0, episodes.n_steps)
    wrong = rng.random(len(episodes)) < RATE
    return remarked(episodes, np.where(wrong, anywhere, episodes.dataset["window_start"].values))


def lucky_by_task(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    """Let Cheap's luck depend on the first feature where Strong fails, then hide a side of each task but 400."""
    data = episodes.dataset
    luck = rng.random(len(episodes)) < special.expit(TRUTH.cheap_alone + data["features"].values[:, 0])
    cheap = np.where(data["strong_success"].values, data["cheap_success"].values, luck)
    return one_sided(quietly(data.assign(cheap_success=("episode", cheap))), PAIRS)


@dataclass(frozen=True)
class Condition:
    """How training data are spoiled, and how they are read."""

    spoil: Callable[[Episodes, np.random.Generator], Episodes]
    noise: Noise | None
    bands: bool = False


def as_drawn(episodes: Episodes, rng: np.random.Generator) -> Episodes:  # noqa: ARG001
    """Leave everything as it is."""
    return episodes


CONDITIONS = {
    "clean, marked pairs": Condition(as_drawn, None, bands=True),
    f"{PAIRS} of them": Condition(lambda episodes, _: episodes.take(slice(PAIRS)), None),
    "no mark": Condition(unmarked, None, bands=True),
    "a fifth of B flipped, the paper's likelihood": Condition(flipped, None, bands=True),
    "a fifth of B flipped, rates learned": Condition(flipped, NOISY, bands=True),
    "Strong played three times, a fifth flipped, rates learned": Condition(repeated, NOISY, bands=True),
    "flipped the more the larger x1, rates learned": Condition(flipped_by_task, NOISY),
    "halves by one side each, no pair": Condition(lambda episodes, _: one_sided(episodes, 0), None),
    f"the same with {PAIRS} pairs": Condition(lambda episodes, _: one_sided(episodes, PAIRS), None, bands=True),
    "the same, luck depends on x1, c the same for all": Condition(lucky_by_task, None),
    "the same, luck depends on x1, c by features": Condition(lucky_by_task, Noise(lucky_by_features=True)),
    "every mark a step late, as they are": Condition(late, None),
    "every mark a step late, lateness learned": Condition(late, MARKS, bands=True),
    "a fifth of the marks anywhere, as they are": Condition(contaminated, None),
    "a fifth of the marks anywhere, mark error learned": Condition(contaminated, MARKS, bands=True),
}
DECISIONS = {
    "clean, as the paper": ("outcome", None, None),
    "clean, unmarked as due": ("due", None, None),
    "a fifth of B flipped, as the paper": ("outcome", None, flipped),
    "a fifth of B flipped, rates learned": ("due", NOISY, flipped),
    "a fifth of B flipped, rates known": ("due", KNOWN, flipped),
    "halves by one side each, 400 pairs": ("due", None, lambda episodes, _: one_sided(episodes, PAIRS)),
}


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Spoil one sample in every way, fit, and judge all fits on the same clean tasks."""
    with warnings.catch_warnings():
        # That there are no marks, or sides were not played, is what is studied.
        warnings.simplefilter("ignore", TacitWarning)
        how = {"estimates": _estimates, "bands": _bands, "next": _next, "decisions": _decisions}
        return how[setting.name](number, seeds)


def _samples(
    n: int, seeds: np.random.SeedSequence, truth: Truth = TRUTH
) -> tuple[Episodes, Episodes, np.random.SeedSequence]:
    training, held_out, noise = seeds.spawn(3)
    drawn = simulate(truth, n, np.random.default_rng(training))
    return drawn, simulate(truth, N_TEST, np.random.default_rng(held_out)), noise


def _estimates(number: int, seeds: np.random.SeedSequence) -> list[Row]:
    episodes, test, noise = _samples(N, seeds)
    rows: list[Row] = []
    for name, condition in CONDITIONS.items():
        spoiled = condition.spoil(episodes, np.random.default_rng(noise))
        fit = fit_map(spoiled, ridge=1e-3, weights=[1.0], restarts=2, seed=number, noise=condition.noise)
        rates = {f"rate_{rate}": value for rate, (value, _) in fit.rates.items() if "[" not in rate}
        rows.append({"condition": name, "q_rmse": held_out_error(fit, test), **rates})
    return rows


def _bands(number: int, seeds: np.random.SeedSequence) -> list[Row]:
    rows: list[Row] = []
    for sample in seeds.spawn(SAMPLES):
        episodes, test, noise = _samples(N_BANDS, sample)
        test = test.take(slice(N_JUDGED))
        truth = true_scores(TRUTH, test)
        for name, condition in CONDITIONS.items():
            if condition.bands:
                spoiled = condition.spoil(episodes, np.random.default_rng(noise))
                tree = approximate_posterior(
                    spoiled, DRAWS, ridge=1e-3, weights=[1.0], seed=number, noise=condition.noise
                )
                q = handoff_score(tree, test).values[0]
                low, high = np.quantile(q, [0.05, 0.95], axis=0)
                error = np.sqrt(np.mean((q.mean(axis=0) - truth) ** 2))
                inside = (low <= truth) & (truth <= high)
                rows.append({"condition": name, "q_rmse": float(error), "coverage": float(inside.mean())})
    return rows


def _next(number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Complete the tasks that are named, or as many and more at random, and fit again."""
    training, held_out, order = seeds.spawn(3)
    episodes = simulate(TRUTH, 2 * HALF, np.random.default_rng(training))
    test = simulate(TRUTH, N_TEST, np.random.default_rng(held_out))
    at = np.arange(2 * HALF)
    shuffled = np.random.default_rng(order).permutation(at)
    found = next_tasks(one_sided(episodes, 0), NAMED, ridge=1e-3, weights=[1.0], seed=number)
    sets = {"none": at[:0], f"{NAMED} named": found.table["episode"].to_numpy(dtype=int)}
    sets |= {f"{n} at random": shuffled[:n] for n in RANDOM}
    pi = true_incidence(TRUTH, test.dataset["features"].values)
    truth = true_scores(TRUTH, test)[:, -1] - (1 - pi) * special.expit(TRUTH.cheap_alone)
    rows: list[Row] = []
    for name, chosen in sets.items():
        both = np.isin(at, chosen)
        seen = played(episodes, (at < HALF) | both, (at >= HALF) | both)
        fit = fit_map(seen, ridge=1e-3, weights=[1.0], restarts=2, seed=number, noise=Noise())
        gain = handoff_score(fit, test).values[:, -1] - (1 - incidence(fit, test).values) * fit.rates["lucky"][0]
        half = len(pi) // 2
        lost = np.sort(truth)[-half:].mean() - truth[np.argsort(gain)[-half:]].mean()
        error = float(np.sqrt(np.mean((gain - truth) ** 2)))
        rows.append({"condition": name, "gain_rmse": error, "lost": float(lost), "said": found.as_many})
    return rows


def _decisions(number: int, seeds: np.random.SeedSequence) -> list[Row]:
    worlds_seed, noise = seeds.spawn(2)
    worlds = draw_worlds(calibration().mechanism, worlds_seed)
    training = worlds["train"].episodes

    def policy(name: str) -> TacitSwitch:
        unmarked_as, rates, spoil = DECISIONS[name]
        spoiled = training if spoil is None else spoil(training, np.random.default_rng(noise))
        options: dict[str, Any] = {
            **FITTING,
            "unmarked": unmarked_as,
            "weights": FULL.weights,
            "noise": rates,
            "seed": number,
        }
        if unmarked_as == "due" and spoil is not None:  # without a floor, a window without risk is left out
            options["zero_mass"] = "drop_window"
        return replace(TacitSwitch(name=name), estimator=lambda _: fit_map(spoiled, **options))

    result = contest([policy(name) for name in DECISIONS], worlds, CAP)
    return [
        {"condition": name, "success": float(found.success.mean()), "cost": float(found.cost.mean())}
        for name, found in result.outcomes.items()
    ]


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001
    """Put the conditions beside each other."""
    estimates, bands, following, decisions = (table[table["setting"] == name] for name in SETTINGS)
    clean = next(iter(CONDITIONS))

    def by(rows: pd.DataFrame, column: str) -> pd.DataFrame:
        return rows.set_index(["replicate", "condition"])[column].unstack()  # noqa: PD010

    errors = by(estimates, "q_rmse")
    times = errors.mean() / errors[clean].mean()
    found = [str(column) for column in table.columns if str(column).startswith("rate_")]
    rates = estimates.groupby("condition")[found].mean()

    def learned(name: str) -> str:
        return ", ".join(
            f"{str(rate).removeprefix('rate_')} {value:.2f}" for rate, value in rates.loc[name].dropna().items()
        )

    first = markdown_table(
        ["what the fit sees", "RMSE of q", "times the clean fit's", "learned"],
        [
            [name, with_half_width(*mean_and_half_width(errors[name]), digits=4), f"{times[name]:.2f}", learned(name)]
            for name in CONDITIONS
        ],
    )
    bands = bands.assign(replicate=bands["replicate"] * SAMPLES + bands.groupby(["replicate", "condition"]).cumcount())
    coverage, band_errors = by(bands, "coverage"), by(bands, "q_rmse")
    gains, lost = by(following, "gain_rmse") * 100, by(following, "lost") * 100
    fourth = markdown_table(
        ["tasks of which the other side is played, too", "RMSE of a task's gain, points", "success lost, points"],
        [
            [name, *(with_half_width(*mean_and_half_width(each[name]), digits=2) for each in (gains, lost))]
            for name in following["condition"].unique()
        ],
    )
    many = following["said"].replace(np.inf, np.nan).median()
    second = markdown_table(
        ["what the posterior sees", "coverage of 90% bands", "RMSE of the mean of q"],
        [
            [
                name,
                with_half_width(*mean_and_half_width(coverage[name]), digits=3),
                with_half_width(*mean_and_half_width(band_errors[name]), digits=4),
            ]
            for name, condition in CONDITIONS.items()
            if condition.bands
        ],
    )
    success = by(decisions, "success") * 100
    reference = next(iter(DECISIONS))
    third = markdown_table(
        ["what TACIT-Switch was fitted on", f"success at cost {CAP:g}, %", "minus the first row"],
        [
            [
                name,
                with_half_width(*mean_and_half_width(success[name]), digits=2),
                with_half_width(*mean_and_half_width(success[name] - success[reference]), digits=2),
            ]
            for name in DECISIONS
        ],
    )
    return "\n\n".join(
        [
            f"{N:,} training and {N_TEST:,} clean test tasks a replicate, one signal, ridge 0.001. Where rates are "
            f"learned their priors are those of `{NOISY}` and `{MARKS}`; c has a flat prior.",
            first,
            "Rows with *depends* or *the larger x1* break an assumption: Strong's errors, or Cheap's luck, hang on the "
            "task. Unpaired logs without a mark say when a handoff is due through the final risks of Cheap's rollouts "
            "alone, which are all alike here (their logs have a standard deviation of 0.13): the hardest case.",
            f"Bands of `approximate_posterior` with {N_BANDS:,} training tasks, {SAMPLES} samples a replicate. In one "
            "sample all bands hold the truth, or miss it, nearly together, since few parameters decide on all of them: "
            f"its coverage has a standard deviation of {coverage[clean].std():.2f} between samples, so that a handful "
            "says nothing. The paper's likelihood on flipped outcomes is the wrong model, all others are right:",
            second,
            f"What to collect next: {HALF} tasks by Cheap only, {HALF} others by Strong only, no mark. `next_tasks` "
            f"names {NAMED}; it said (median) that these are worth about {many:.0f} at random. A task's gain is "
            "E[B - A]; lost is the true gain, per task handed off, that is missed by handing off the half with the "
            "highest fitted gains:",
            fourth,
            "Decisions, in the mechanism simulator, whose teacher leaves no mark where no handoff is good. There no "
            "model is right, and with rates learned the strata come to tell which tasks are marked: sensitivity and "
            "specificity sum to less than 1, of which `fit_map` warns. Rates known as numbers keep them what they are:",
            third,
            "Real pairs of models with a side of most training tasks hidden: [a page of their own](hidden_sides.md).",
        ]
    )


STUDY = Study(
    name="strata",
    title="Noisy, repeated, missing and unpaired outcomes, and wrong marks",
    description="Flipped, repeated, missing and unpaired outcomes, late and wrong marks: errors, bands and decisions.",
    settings=[Setting(name, share=share) for name, share in SETTINGS.items()],
    parameters={
        "episodes": [N, N_BANDS, N_TEST],
        "rate": RATE,
        "pairs": PAIRS,
        "conditions": list(CONDITIONS),
        "decisions": list(DECISIONS),
        "noise": [NOISY.to_record(), MARKS.to_record()],
        "truth": TRUTH.as_record(),
        "draws": [DRAWS, SAMPLES, N_JUDGED],
        "next": [HALF, NAMED, *RANDOM],
    },
    replicate=replicate,
    summarize=summarize,
    replicates=16,
    seed=25,
)
