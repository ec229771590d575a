"""Records with noisy, repeated and missing outcomes and wrong marks: held to sums over Z written out by hand."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, ModelSpec, RidgePrior, fit_map
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.estimates.completion import _records_by_draw, pointwise_log_likelihood
from bayes_tacit.estimates.map_result import MapFit
from bayes_tacit.estimates.mixture import MixtureObjective
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.strata import Noise

FULL = Noise(sensitivity=(8, 2), specificity=0.9, lucky_by_features=True, mark_error=(1, 4), lateness=(2, 1, 1))
NOISES = {
    "exact": Noise(),
    "noisy outcomes": Noise(sensitivity=(8, 2), specificity=(8, 2)),
    "wrong marks": Noise(mark_error=0.1, lateness=1),
    "all of it": FULL,
}


def mixed(rng: np.random.Generator, n: int = 40, *, exact: bool = False) -> Episodes:
    """Episodes of all kinds: sides not played, Strong played up to three times, two rollouts of Cheap on some tasks."""
    dataset = simulate_model(rng, n, widest=1).dataset.copy(deep=True)
    strong = dataset["strong_success"].values
    trials = rng.integers(0, 4, n)
    successes = np.where(strong, trials, 0) if exact else rng.binomial(trials, np.where(strong, 0.8, 0.2))
    played = (rng.random(n) < 0.8) | (trials == 0)
    task = np.arange(n) // (1 if exact else 2) * 10
    features = dataset["features"].values[task // 10]
    ever = (np.bincount(task, successes) > 0)[task]
    marked = played & ~dataset["cheap_success"].values & (successes > 0 if exact else ever)
    windows = {
        name: ("episode", np.where(marked & ~np.isnan(dataset[name].values), dataset[name].values, np.nan))
        for name in ("window_start", "window_end")
    }
    cheap = np.where(played, dataset["cheap_success"].values.astype(float), np.nan)
    return quietly(
        dataset.drop_vars("strong_success").assign(
            features=(("episode", "feature"), features),
            cheap_success=("episode", cheap),
            n_steps=("episode", np.where(played, dataset["n_steps"].values, 0)),
            strong_successes=("episode", successes),
            strong_trials=("episode", trials),
            task=("episode", task),
            **windows,
        )
    )


def by_hand(episodes: Episodes, noise: Noise, at: dict[str, np.ndarray]) -> dict[object, float]:
    """Log-likelihood of every task: a sum over Z, delays and whether a mark is wrong, one number at a time."""
    data = episodes.dataset
    x = (lambda raw: (raw - raw.mean(axis=0)) / raw.std(axis=0))(
        data["features"].values[np.unique(data["task"].values, return_index=True)[1]]
    )
    tasks = np.unique(data["task"].values).tolist()
    successes, trials = episodes.strong_counts
    noisy = not noise.exact_outcomes
    rate = {name: at.get(name, getattr(noise, name)) for name in ("sensitivity", "specificity", "mark_error")}
    delays = noise.delays
    late = [float(at.get(f"lateness[{k}]", 1.0)) for k in range(len(delays))]
    out = {}
    for number, task in enumerate(tasks):
        rows = np.flatnonzero(data["task"].values == task)
        pi = special.expit(at["gamma0"] + x[number] @ at["gamma"])
        center = at["beta0"] + x[number] @ at["beta"]
        c = float(at.get("lucky", np.nan))
        if noise.lucky_by_features:
            slopes = [at[f"lucky_slope[{name}]"] for name in episodes.feature_names]
            c = special.expit(at["lucky0"] + x[number] @ np.array(slopes))
        k, m = int(successes[rows].sum()), int(trials[rows].sum())
        can = pi * rate["sensitivity"] ** k * (1 - rate["sensitivity"]) ** (m - k)
        cannot = (1 - pi) * rate["specificity"] ** (m - k) * (1 - rate["specificity"]) ** k
        for row in rows:
            steps = int(data["n_steps"].values[row])
            if not steps:
                continue
            risk = np.cumsum(data["diagnostics"].values[row, :steps] @ at["w"])
            below = lambda t, risk=risk, center=center: (  # noqa: E731
                float(stats.norm.cdf((np.log(risk[t]) - center) / at["s"])) if t >= 0 and risk[t] > 0 else 0.0
            )
            end = below(steps - 1)
            a, b = data["window_start"].values[row], data["window_end"].values[row]
            if data["cheap_success"].values[row]:
                can, cannot = can * (1 - end), cannot * c
            elif np.isnan(a):
                can, cannot = can * end, cannot * (1 - c)
                if noisy and k:
                    can, cannot = can * (1 - at["marked"]), cannot * (1 - at["stray"])
            else:
                a, b = int(a), int(b)
                share = (b - a + 1) / steps
                right = 0.0
                for weight, delay in zip(late, delays, strict=True):
                    last = b if b == steps - 1 else b - delay
                    if last >= 0:
                        right += weight * (below(last) - below(max(a - delay, 0) - 1))
                can *= (1 - rate["mark_error"]) * right + rate["mark_error"] * share * end
                cannot *= (1 - c) * share
                if noisy:
                    can, cannot = can * at["marked"], cannot * at["stray"]
        out[task] = math.log(can + cannot)
    return out


@pytest.mark.parametrize("name", NOISES)
def test_records_have_the_likelihood_that_a_sum_over_strata_gives(name):
    noise, rng = NOISES[name], np.random.default_rng(8)
    episodes = mixed(rng, exact=noise.exact_outcomes)
    objective = MixtureObjective.of(collect_evidence(episodes, noise=noise, zero_mass="drop_window"), 0.0)
    point = objective.start(np.append(rng.normal(scale=0.3, size=7), 1.4), rng)
    point[:4] = rng.normal(size=4)
    found = np.logaddexp(*objective.terms(point))
    expected = by_hand(episodes, noise, objective.parameters(point))
    # A record is called as its first episode, which comes in the order of tasks here.
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-10)


@pytest.mark.parametrize("name", NOISES)
def test_derivatives_of_the_objective_are_exact(name):
    rng = np.random.default_rng(3)
    noise = NOISES[name]
    episodes = mixed(rng, 60, exact=noise.exact_outcomes)
    objective = MixtureObjective.of(collect_evidence(episodes, noise=noise, zero_mass="drop_window"), 0.02)
    point = objective.start(np.append(rng.normal(scale=0.3, size=7), 1.2), rng)
    here = objective.derivatives(point)
    moves = 1e-6 * np.eye(len(point))
    gradient = [(objective.derivatives(point + h).value - objective.derivatives(point - h).value) / 2e-6 for h in moves]
    hessian = [
        (objective.derivatives(point + h).gradient - objective.derivatives(point - h).gradient) / 2e-6 for h in moves
    ]
    np.testing.assert_allclose(here.gradient, gradient, atol=1e-7)
    np.testing.assert_allclose(here.hessian, hessian, atol=1e-7)


def every_record(steps: int, trials: int) -> tuple[Episodes, list[tuple[int, int, int]]]:
    """All that can be seen of one task that is marked at single steps, in the order of predictions."""
    seen = []
    for k in range(trials, -1, -1):
        marks = range(steps) if k else ()
        seen += [(k, 0, mark) for mark in marks] + [(k, 0, -1), (k, 1, -1)]
    tasks = pd.DataFrame(seen, columns=["strong_successes", "cheap_success", "window_start"])
    tasks["window_start"] = tasks["window_start"].where(tasks["window_start"] >= 0).astype(float)
    tasks = tasks.assign(episode=range(len(seen)), window_end=tasks["window_start"], strong_trials=trials)
    tasks["x"] = np.random.default_rng(0).normal(size=len(seen))
    rows = list(itertools.product(range(len(seen)), range(steps)))
    table = pd.DataFrame(rows, columns=["episode", "step"]).assign(u=[0.5, 0.1, 0.4, 0.3][:steps] * len(seen))
    return Episodes.from_frames(tasks, table), seen


@pytest.mark.parametrize("trials", [1, 2])
def test_what_can_be_seen_of_a_task_has_probability_one_and_predictions_are_in_its_order(trials):
    noise = replace(FULL, lucky_by_features=False)
    with pytest.warns():
        episodes, seen = every_record(4, trials)
    evidence = collect_evidence(episodes, noise=noise)
    evidence = replace(evidence, features=np.zeros_like(evidence.features))
    sample = ("chain", "draw")
    values = {"gamma0": 0.3, "beta0": -0.2, "s": 0.6, "sensitivity": 0.8, "lucky": 0.3, "mark_error": 0.2}
    values |= {"marked": 0.7, "stray": 0.4}
    posterior = xr.Dataset({name: (sample, [[value]]) for name, value in values.items()})
    posterior = posterior.assign(
        gamma=((*sample, "feature"), [[[0.0]]]),
        beta=((*sample, "feature"), [[[0.0]]]),
        w=((*sample, "diagnostic"), [[[1.0]]]),
        lateness=((*sample, "delay"), [[[0.5, 0.3, 0.2]]]),
    ).assign_coords(chain=[0], draw=[0])
    ways = np.array([math.comb(trials, k) for k, *_ in seen])
    probability = ways * np.exp(pointwise_log_likelihood(posterior, evidence)["total"].values.ravel())
    assert probability.sum() == pytest.approx(1.0, abs=1e-12)
    before = _records_by_draw(posterior, evidence)[1].ravel()
    np.testing.assert_allclose(before, np.cumsum(probability) - probability, atol=1e-12)


def test_one_exact_outcome_gives_the_papers_estimate_and_luck_from_the_failures():
    episodes = simulate_model(np.random.default_rng(4), 500)
    paper, latent = fit_map(episodes), fit_map(episodes, noise=Noise())
    for name in ("w", "gamma", "beta"):
        np.testing.assert_allclose(getattr(latent, name), getattr(paper, name), atol=1e-7)
        np.testing.assert_allclose(latent.standard_errors[name], paper.standard_errors[name], atol=1e-5)
    failed = episodes.dataset["strong_success"].values == 0
    luck = episodes.dataset["cheap_success"].values[failed].mean()
    assert latent.rates["lucky"][0] == pytest.approx(luck, abs=1e-6)
    assert latent.rates["lucky"][1] == pytest.approx(np.sqrt(luck * (1 - luck) / failed.sum()), rel=1e-3)


def flipped(episodes: Episodes, rate: float, rng: np.random.Generator) -> Episodes:
    """Turn a share of Strong's outcomes round; a success that is one no more loses its mark."""
    data = episodes.dataset
    strong = data["strong_success"].values ^ (rng.random(len(episodes)) < rate)
    windows = {
        name: ("episode", np.where(strong, data[name].values, np.nan)) for name in ("window_start", "window_end")
    }
    return quietly(data.assign(strong_success=("episode", strong), **windows))


def test_rates_and_parameters_are_found_where_a_fifth_of_the_outcomes_is_wrong():
    rng = np.random.default_rng(2)
    clean = simulate_model(rng, 6000)
    wrong = flipped(clean, 0.2, rng)
    blind, told = fit_map(wrong, ridge=0), fit_map(wrong, ridge=0, noise=NOISES["noisy outcomes"])
    truth = fit_map(clean, ridge=0)
    for name in ("sensitivity", "specificity"):
        estimate, error = told.rates[name]
        assert abs(estimate - 0.8) < 3 * error < 0.15
    assert np.abs(told.gamma - truth.gamma).max() < 0.15 < np.abs(blind.gamma - truth.gamma).max()
    assert "sensitivity: learned from the data (" in str(told)
    few = fit_map(wrong.take(slice(60)), ridge=0.1, noise=NOISES["noisy outcomes"])
    assert "sensitivity: the data hardly tell it" in str(few)


def test_learned_rates_that_contradict_themselves_are_told():
    rng = np.random.default_rng(3)
    clean = simulate_model(rng, 2000).dataset
    # Strong's outcomes say nothing of the task, but whether there is a mark says all.
    strong = rng.random(2000) < 0.5
    kept = strong & ~clean["cheap_success"].values & clean["strong_success"].values
    marks = {name: ("episode", np.where(kept, clean[name].values, np.nan)) for name in ("window_start", "window_end")}
    with pytest.warns(match="the strata, so that these tell something else"):
        fit_map(quietly(clean.assign(strong_success=("episode", strong), **marks)), noise=NOISES["noisy outcomes"])


def test_two_sides_on_different_tasks_are_enough_to_learn_from():
    clean = simulate_model(np.random.default_rng(6), 8000).dataset
    half = np.arange(8000) % 2 == 0
    both = quietly(
        clean.assign(
            cheap_success=("episode", np.where(half, clean["cheap_success"].values.astype(float), np.nan)),
            n_steps=("episode", np.where(half, clean["n_steps"].values, 0)),
            strong_success=("episode", np.where(half, np.nan, clean["strong_success"].values.astype(float))),
            **{name: ("episode", np.full(8000, np.nan)) for name in ("window_start", "window_end")},
        )
    )
    fit = fit_map(both)
    assert np.abs(fit.w - [0.4, 0.3, 0.2, 0.1]).max() < 0.12
    assert abs(fit.beta0 - 0.6) < 0.25
    assert abs(fit.rates["lucky"][0] - 0.4) < 4 * fit.rates["lucky"][1] + 0.02


def test_late_and_wrong_marks_are_told_from_right_ones():
    rng = np.random.default_rng(7)
    clean = simulate_model(rng, 4000).dataset
    start, last = clean["window_start"].values, clean["n_steps"].values - 1
    late = np.minimum(start + 1, last)
    anywhere = rng.integers(0, last + 1)
    mark = np.where(np.isnan(start), np.nan, np.where(rng.random(4000) < 0.2, anywhere, late))
    bad = quietly(clean.assign(window_start=("episode", mark), window_end=("episode", mark)))
    fit = fit_map(bad, noise=Noise(mark_error=(1, 4), lateness=(1, 1, 1)))
    assert fit.rates["lateness[1]"][0] > 0.9
    assert abs(fit.rates["mark_error"][0] - 0.2) < 0.06
    truth, blind = fit_map(quietly(clean)), fit_map(bad, zero_mass="drop_window")
    assert abs(fit.beta0 - truth.beta0) < 0.05 < abs(blind.beta0 - truth.beta0)


def test_a_fit_under_noise_comes_back_from_its_file_and_its_posterior_from_attributes(tmp_path):
    fit = fit_map(mixed(np.random.default_rng(1), 400), noise=FULL, ridge=0.1, zero_mass="drop_window")
    fit.save(tmp_path / "fit.json")
    assert MapFit.load(tmp_path / "fit.json") == fit
    assert ModelSpec.of_attrs(fit.spec.as_attrs()) == fit.spec
    assert "lateness[2]" in fit.summary().index


def test_pymc_states_the_same_density():
    from bayes_tacit import build_model

    episodes, rng = mixed(np.random.default_rng(5), 50), np.random.default_rng(0)
    evidence = collect_evidence(episodes, noise=FULL, zero_mass="drop_window")
    objective = MixtureObjective.of(evidence, 0.01)
    model = build_model(episodes, RidgePrior(0.01), noise=FULL, zero_mass="drop_window")
    density = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    differences = []
    for _ in range(3):
        point = objective.start(np.append(rng.normal(scale=0.3, size=7), 1.4), rng)
        values = objective.parameters(point)
        values["lateness"] = np.array([values[f"lateness[{k}]"] for k in range(3)])
        values["lucky_slope"] = np.array([values[f"lucky_slope[{name}]"] for name in episodes.feature_names])
        at = model.initial_point()
        for variable in model.free_RVs:
            transform, value = model.rvs_to_transforms[variable], np.asarray(values[variable.name])
            forward = value if transform is None else transform.forward(value, *variable.owner.inputs).eval()
            at[model.rvs_to_values[variable].name] = forward
        differences.append(float(density(at)) + evidence.n * objective.derivatives(point).value)
    # They differ by what normalizes the priors, a constant.
    assert np.ptp(differences) < 1e-9


def test_the_mode_under_a_prior_learns_the_rates_too():
    noise = Noise(sensitivity=(8, 2), specificity=(8, 2))
    wrong = flipped(simulate_model(np.random.default_rng(2), 400), 0.1, np.random.default_rng(1))
    fit, same = fit_map(wrong, noise=noise), fit_map(wrong, noise=noise, prior=RidgePrior(0.01), restarts=1)
    for name, (estimate, error) in fit.rates.items():
        np.testing.assert_allclose(same.rates[name], (estimate, error), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(same.w, fit.w, atol=1e-6)


def test_settings_that_say_nothing_are_refused_in_a_sentence():
    for given, said in (
        ({"sensitivity": 1.2}, "noise: sensitivity is 1.2; expected a number from 0 to 1, or a pair"),
        ({"specificity": (0, 2)}, "a pair (a, b) of positive numbers"),
        ({"sensitivity": 0.5, "specificity": 0.5}, "sum to more than 1"),
        ({"mark_error": 1.0}, "marks say nothing"),
        ({"lateness": (1.0,)}, "concentrations of two numbers of steps or more"),
        ({"lateness": -1}, "lateness is -1"),
        ({"lucky": 0.3, "lucky_by_features": True}, "learned by features"),
    ):
        with pytest.raises(InvalidDataError) as caught:
            Noise(**given)
        assert said in str(caught.value)


def test_data_that_the_settings_cannot_explain_are_refused_by_name():
    episodes = mixed(np.random.default_rng(1))
    with pytest.raises(InvalidDataError, match=r"rollouts of Strong that all end alike.*pass noise="):
        collect_evidence(episodes)
    with pytest.raises(InvalidDataError, match="'due' where a side was not played"):
        collect_evidence(episodes, unmarked="outcome")
    with pytest.raises(InvalidDataError, match="or clock=True beside 'learned'"):
        collect_evidence(episodes, noise=FULL, memory="learned")
    other = episodes.dataset.copy(deep=True)
    other["features"][1, 0] += 1.0
    with pytest.raises(InvalidDataError, match=r"as in episode 0 of the same task"):
        collect_evidence(quietly(other), noise=FULL)
    only = episodes.take(episodes.strong_counts[1] == 0)
    with pytest.raises(EvidenceError, match="0 of 0 rollouts of Strong succeeded"):
        fit_map(only)
