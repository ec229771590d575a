import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import xarray as xr
from lifelines import LogNormalAFTFitter
from scipy import special
from simulate import TRUTH, quietly, simulate_model

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.errors import (
    ConvergenceError,
    EvidenceError,
    FileFormatError,
    InvalidDataError,
    MissingFileError,
    TacitWarning,
)
from bayes_tacit.estimates.map_result import weight_interval
from bayes_tacit.estimates.objective import PaperObjective, minimize_newton
from bayes_tacit.model.evidence import collect_evidence

PARAMETERS = ("w", "gamma0", "gamma", "beta0", "beta", "s")


@pytest.fixture(scope="module")
def scalar_episodes() -> Episodes:
    """One diagnostic, so that survival packages can fit the same model."""
    return simulate_model(np.random.default_rng(11), 1500, n_diagnostics=1, widest=1)


def standardized(episodes: Episodes) -> np.ndarray:
    raw = episodes.dataset["features"].values
    return (raw - raw.mean(axis=0)) / raw.std(axis=0)


def assert_same_estimates(fit: MapFit, other: dict[str, np.ndarray] | MapFit, atol: float) -> None:
    for name in PARAMETERS:
        value = other[name] if isinstance(other, dict) else getattr(other, name)
        np.testing.assert_allclose(value, getattr(fit, name), atol=atol, err_msg=name)


def test_gamma_agrees_with_statsmodels_logit(scalar_episodes):
    fit = fit_map(scalar_episodes, ridge=0.0)
    design = sm.add_constant(standardized(scalar_episodes))
    peer = sm.Logit(scalar_episodes.dataset["strong_success"].values.astype(float), design).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose([fit.gamma0, *fit.gamma], peer.params, atol=1e-7)
    np.testing.assert_allclose([fit.standard_errors["gamma0"], *fit.standard_errors["gamma"]], peer.bse, rtol=1e-6)


def test_beta_and_s_agree_with_lifelines_interval_censoring(scalar_episodes):
    fit = fit_map(scalar_episodes, ridge=0.0)
    data = scalar_episodes.dataset
    risk = np.nancumsum(data["diagnostics"].values[..., 0], axis=1)
    start, end = data["window_start"].values, data["window_end"].values
    timed = scalar_episodes.has_window | (scalar_episodes.outcomes == "11")
    rows = np.flatnonzero(timed)
    censored = ~scalar_episodes.has_window[rows]
    last = np.where(censored, data["n_steps"].values[rows] - 1, np.nan_to_num(end[rows])).astype(int)
    first = np.where(censored, data["n_steps"].values[rows], np.nan_to_num(start[rows])).astype(int)
    # lifelines takes the logarithm of a lower bound of zero; this one has no mass below it either.
    lower = np.where(first > 0, risk[rows, first - 1], 1e-12).clip(min=1e-12)
    upper = np.where(censored, np.inf, risk[rows, last])
    table = pd.DataFrame(standardized(scalar_episodes)[rows], columns=["x0", "x1", "x2"])
    peer = LogNormalAFTFitter().fit_interval_censoring(table.assign(lower=lower, upper=upper), "lower", "upper")
    mu = peer.params_["mu_"]
    np.testing.assert_allclose([fit.beta0, *fit.beta], mu[["Intercept", "x0", "x1", "x2"]], atol=1e-4)
    assert fit.s == pytest.approx(np.exp(peer.params_["sigma_"]["Intercept"]), abs=1e-4)
    errors = peer.standard_errors_["mu_"]
    ours = [fit.standard_errors["beta0"], *fit.standard_errors["beta"]]
    np.testing.assert_allclose(ours, errors[["Intercept", "x0", "x1", "x2"]], rtol=1e-2)


def test_fit_is_what_pymc_finds_as_the_map(example_fit, ridge_model):
    import pymc as pm
    import pytensor

    # Machine code takes twenty times as long to make as these few calls take without it.
    with ridge_model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        found = pm.find_MAP(method="BFGS", options={"gtol": 1e-8}, progressbar=False)
    assert_same_estimates(example_fit, found, atol=1e-5)


def test_starts_from_far_away_agree_on_the_example(example):
    fit = fit_map(example, restarts=12, seed=7)
    assert all(restart.converged for restart in fit.restarts)
    assert np.ptp([restart.objective for restart in fit.restarts]) < 1e-9
    assert_same_estimates(fit, fit_map(example, restarts=1), atol=1e-6)


def test_error_shrinks_like_the_root_of_n():
    def error(n: int) -> float:
        fits = [
            fit_map(simulate_model(np.random.default_rng([n, seed]), n), ridge=0.0, restarts=1) for seed in range(12)
        ]
        errors = [
            np.concatenate([np.ravel(getattr(fit, name) - TRUTH[name]) for name in ("w", "beta0", "s")]) for fit in fits
        ]
        return float(np.sqrt(np.mean(np.square(errors))))

    small, large = error(400), error(6400)
    assert large < 0.03
    assert 2.5 < small / large < 6.5


@pytest.mark.parametrize("change", [lambda x: x * 1000.0 - 17.0, lambda x: x * 1e200], ids=["shifted", "huge"])
def test_features_may_come_in_any_unit(example, example_fit, change):
    rescaled = quietly(example.dataset.assign(features=change(example.dataset["features"])))
    assert_same_estimates(example_fit, fit_map(rescaled), atol=1e-8)


def test_fixed_weights_stay_and_the_rest_is_fitted_given_them(example, example_fit):
    given = fit_map(example, weights=example_fit.w)
    np.testing.assert_array_equal(given.w, example_fit.w)
    assert_same_estimates(given, example_fit, atol=1e-6)
    assert given.weights_fixed
    assert np.isnan(given.standard_errors["w"]).all()
    # They may ignore a diagnostic.
    half = fit_map(example, weights=[0.5, 0.5, 0.0, 0.0])
    cut = fit_map(quietly(example.dataset.isel(diagnostic=[0, 1])), weights=[0.5, 0.5])
    for name in PARAMETERS[1:]:
        np.testing.assert_allclose(getattr(half, name), getattr(cut, name), atol=1e-8)


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_fixed_weights_may_be_given_by_name(example, make):
    named = make({"invalid": 0.1, "stalled": 0.2, "uncertainty": 0.3, "repeat": 0.4})
    np.testing.assert_array_equal(fit_map(example, weights=named).w, [0.4, 0.3, 0.2, 0.1])


def test_a_model_without_features_is_fitted(example):
    fit = fit_map(quietly(example.dataset.isel(feature=slice(0))))
    assert fit.gamma.shape == fit.beta.shape == (0,)
    rate = example.dataset["strong_success"].values.mean()
    assert 1 / (1 + np.exp(-fit.gamma0)) == pytest.approx(rate, abs=1e-9)


def with_diagnostic(episodes: Episodes, name: str, values: np.ndarray) -> Episodes:
    """Add a diagnostic with the given value at every step, (episode, step)."""
    dataset = episodes.dataset
    given = dataset["diagnostics"].values
    wide = np.concatenate([given, np.where(np.isnan(given[..., 0]), np.nan, values)[..., None]], axis=-1)
    names = [*episodes.diagnostic_names, name]
    dataset = dataset.drop_dims("diagnostic").assign(diagnostics=(("episode", "step", "diagnostic"), wide))
    return quietly(dataset.assign_coords(diagnostic=names))


def test_a_diagnostic_that_only_misleads_ends_on_the_boundary_without_a_standard_error(rng):
    """Its sum is large exactly where the threshold has not been crossed, so any weight on it makes the fit worse."""
    episodes = simulate_model(rng, 1500, n_diagnostics=2)
    safe = (episodes.outcomes == "11").astype(float)[:, None]
    fit = fit_map(with_diagnostic(episodes, "misleading", np.broadcast_to(safe, (1500, 12))), ridge=0.0)
    alone = fit_map(episodes, ridge=0.0)
    assert fit.w[2] < 1e-6
    assert np.isnan(fit.standard_errors["w"][2])
    np.testing.assert_allclose(fit.w[:2], alone.w, atol=1e-5)
    for name in ("gamma", "beta0", "beta", "s"):
        np.testing.assert_allclose(fit.standard_errors[name], alone.standard_errors[name], rtol=1e-4, err_msg=name)


def test_an_interval_whose_lower_bound_rests_on_a_boundary_weight_does_not_stop_the_fit():
    """Without that diagnostic the row is left-censored; the standard errors must see it so."""
    rng = np.random.default_rng(114)
    rng.choice([60, 150, 400])
    fit = fit_map(simulate_model(rng, 60, widest=1))
    assert fit.converged
    assert fit.w.min() < 1e-6
    assert np.isfinite(fit.standard_errors["s"])


@pytest.fixture(scope="module")
def free_fit(example) -> MapFit:
    return fit_map(example, ridge=0.0)


@pytest.mark.parametrize("columns", [[0], [1], [3], [0, 1, 2, 3]])
@pytest.mark.parametrize("unit", [1e-8, 8.0, 1e8, 1e200])
def test_the_unit_of_diagnostics_does_not_matter(example, free_fit, columns, unit):
    """Measured in another unit, its weight changes by that factor and nothing else does."""
    factor, fit = np.ones(4), free_fit
    factor[columns] = unit
    other = fit_map(quietly(example.dataset.assign(diagnostics=example.dataset["diagnostics"] * factor)), ridge=0.0)
    assert other.objective == pytest.approx(fit.objective, abs=1e-9)
    assert np.ptp([restart.objective for restart in other.restarts]) < 1e-8
    expected = fit.w / factor / (fit.w / factor).sum()
    np.testing.assert_allclose(other.w, expected, rtol=1e-5)
    assert other.beta0 == pytest.approx(fit.beta0 - np.log((fit.w / factor).sum()), abs=1e-5)
    assert other.s == pytest.approx(fit.s, abs=1e-7)
    for name in ("gamma", "beta", "s"):
        np.testing.assert_allclose(other.standard_errors[name], fit.standard_errors[name], rtol=1e-5)


def test_a_weight_that_vanished_by_mistake_comes_back(example):
    """A start so close to a vertex that the gradient in the logit is negligible is not taken for an optimum."""
    objective = PaperObjective.of(collect_evidence(example), 0.01, 1e-12)
    newton = partial(minimize_newton, tolerance=1e-9, max_iterations=500)
    w = np.array([1e-12, 0.5, 0.3, 0.2])
    start = np.concatenate([objective.threshold.basis.T @ np.log(w), [1.7, -0.3, 0.5, 0.2], [2.0]])
    found = objective.fit(objective.fit_incidence(newton), start, newton).optimum
    assert found.derivatives.value == pytest.approx(fit_map(example).objective, abs=1e-9)


def test_windows_that_can_be_met_exactly_are_an_error_that_says_so(rng):
    with pytest.raises(ConvergenceError, match=r"can be met exactly.*scale s"):
        fit_map(simulate_model(rng, 9))


def test_a_zero_mass_window_is_floored_dropped_or_refused(example):
    dataset = example.dataset.copy(deep=True)
    row = int(np.flatnonzero(example.has_window)[0])
    start, end = int(dataset["window_start"][row]), int(dataset["window_end"][row])
    dataset["diagnostics"][row, start : end + 1] = 0.0
    episodes = quietly(dataset)
    name = str(episodes.ids[row])
    with pytest.warns(TacitWarning, match=f"{name}.*they are floored"):
        floored = fit_map(episodes)
    assert floored.floored == (name,)
    assert floored.restarts[0].floored == 1
    with pytest.raises(EvidenceError, match=f"{name}.*every diagnostic is zero.*drop_window"):
        fit_map(episodes, floor=None)
    with pytest.raises(EvidenceError, match="every diagnostic is zero"):
        fit_map(episodes, zero_mass="refuse")
    dropped = fit_map(episodes, floor=None, zero_mass="drop_window", unmarked="outcome")
    again = fit_map(episodes, zero_mass="drop_window", unmarked="outcome")
    assert_same_estimates(dropped, again, atol=1e-9)
    unmarked = dataset.copy(deep=True)
    unmarked["window_start"][row] = unmarked["window_end"][row] = np.nan
    assert_same_estimates(dropped, fit_map(quietly(unmarked), floor=None, unmarked="outcome"), atol=1e-9)


def test_an_outlier_beyond_the_floor_is_counted_and_no_longer_pulls(rng):
    """The floor caps what one absurd window can do; without it the whole fit moves."""
    episodes = simulate_model(rng, 400, n_diagnostics=1)
    dataset = episodes.dataset.copy(deep=True)
    dataset["diagnostics"] = dataset["diagnostics"].clip(min=1e-3)
    rows = np.flatnonzero(episodes.has_window)[:4]
    dataset["diagnostics"][rows, 0] = 1e-12
    dataset["window_start"][rows] = dataset["window_end"][rows] = 0
    clean = fit_map(Episodes(dataset.drop_isel(episode=rows)), ridge=0.0)
    with_floor = fit_map(Episodes(dataset), ridge=0.0)
    without = fit_map(Episodes(dataset), ridge=0.0, floor=None)
    assert set(with_floor.floored) == set(episodes.ids[rows].tolist())
    assert abs(with_floor.s - clean.s) < 0.02
    assert without.s > 1.5 * clean.s
    assert with_floor.gradient_norm < 1e-6


def test_identical_diagnostics_are_named_in_a_warning(example, example_fit):
    dataset = example.dataset
    twice = xr.concat([dataset[["diagnostics"]], dataset[["diagnostics"]].isel(diagnostic=[0])], "diagnostic")
    dataset = dataset.drop_dims("diagnostic").assign(diagnostics=twice["diagnostics"])
    dataset = dataset.assign_coords(diagnostic=["repeat", "uncertainty", "stalled", "invalid", "again"])
    with pytest.warns(TacitWarning, match="'again' cannot be told apart from 'repeat'"):
        fit = fit_map(quietly(dataset))
    alone = example_fit
    assert fit.w[0] + fit.w[4] == pytest.approx(alone.w[0], abs=1e-5)
    assert np.isnan(fit.standard_errors["w"][[0, 4]]).all()
    for name in ("beta0", "beta", "s"):
        np.testing.assert_allclose(fit.standard_errors[name], alone.standard_errors[name], rtol=1e-5)


def test_a_zero_diagnostic_gets_no_weight_and_a_constant_feature_no_coefficient(example):
    dataset = example.dataset.copy(deep=True)
    dataset["diagnostics"][..., 3] = dataset["diagnostics"][..., 3] * 0.0
    dataset["features"][:, 1] = 4.0
    fit = fit_map(quietly(dataset), ridge=0.0)
    assert fit.w[3] == fit.gamma[1] == fit.beta[1] == 0
    assert np.isnan([fit.standard_errors["w"][3], fit.standard_errors["gamma"][1]]).all()


def test_a_feature_that_determines_the_outcome_is_named(example):
    dataset = example.dataset.copy(deep=True)
    dataset["features"][:, 0] = dataset["strong_success"].astype(float)
    with pytest.raises(ConvergenceError, match=r"strong_success is determined by 'entities'.*ridge"):
        fit_map(quietly(dataset), ridge=0.0)
    with pytest.warns(TacitWarning, match="every success of Strong is on one side of feature 'entities'"):
        assert fit_map(quietly(dataset), ridge=0.01).converged


def test_dependent_features_are_named_and_harmless(example):
    dataset = example.dataset.copy(deep=True)
    dataset["features"][:, 1] = 2 * dataset["features"][:, 0] + 1
    with pytest.warns(TacitWarning, match="feature 'subgoals' cannot be told apart from 'entities'"):
        assert fit_map(quietly(dataset), ridge=0.0).converged


def test_too_few_iterations_are_an_error_not_an_estimate(example):
    with pytest.raises(ConvergenceError, match=r"stopped after \d+ iterations with a gradient of .*max_iterations"):
        fit_map(example, max_iterations=1)


def one_sided(example: Episodes, **changes: object) -> Episodes:
    return quietly(example.dataset.assign({name: ("episode", value) for name, value in changes.items()}))


def test_one_class_of_strong_outcomes_is_refused(example):
    n = len(example)
    nothing = np.full(n, np.nan)
    failed = one_sided(example, strong_success=np.zeros(n, bool), window_start=nothing, window_end=nothing)
    with pytest.raises(EvidenceError, match="strong_success is False for all 1200 episodes"):
        fit_map(failed)
    with pytest.raises(EvidenceError, match="strong_success is True for all"):
        fit_map(example.take(example.dataset["strong_success"].values))


def test_evidence_that_bounds_the_threshold_on_one_side_is_refused(example):
    nothing = np.full(len(example), np.nan)
    with pytest.raises(EvidenceError, match="none of the 1200 episodes has a usable teacher window"):
        fit_map(one_sided(example, window_start=nothing, window_end=nothing), unmarked="outcome")
    at_once = np.where(example.has_window, 0.0, np.nan)
    early = one_sided(example, window_start=at_once)
    with pytest.raises(EvidenceError, match="start before any risk was seen, and no AB = 11 episode has seen any"):
        fit_map(early.take(early.outcomes != "11"), unmarked="outcome")
    # One that is there and never saw any risk is not denied.
    diagnostics = early.dataset["diagnostics"]
    calm = quietly(early.dataset.assign(diagnostics=diagnostics * (early.outcomes != "11")[:, None, None]))
    assert "11" in calm.outcomes
    with pytest.raises(EvidenceError, match="no AB = 11 episode has seen any"):
        fit_map(calm, unmarked="outcome")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": -0.1}, "ridge is -0.1; expected a number from 0 to 1e6"),
        ({"ridge": "x"}, "ridge is 'x'"),
        ({"ridge": None}, "ridge is None"),
        ({"ridge": True}, "ridge is True"),
        ({"ridge": 1e300}, "ridge is 1e.300"),
        ({"restarts": 2.5}, "restarts is 2.5; expected a whole number >= 1"),
        ({"restarts": True}, "restarts is True"),
        ({"seed": -1}, "seed is -1; expected a whole number >= 0"),
        ({"seed": None}, "seed is None"),
        ({"floor": "x"}, "floor is 'x'"),
        ({"ridge": np.nan}, "ridge is nan"),
        ({"restarts": 0}, "restarts is 0; expected a whole number >= 1"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"floor": 0.0}, "floor is 0.0; expected a number between 0 and 1"),
        ({"floor": 1.5}, "floor is 1.5"),
    ],
)
def test_bad_settings_are_named(example, settings, message):
    with pytest.raises(InvalidDataError, match=message):
        fit_map(example, **settings)


@pytest.mark.parametrize("wrong", [None, 3, pd.DataFrame(), xr.Dataset()])
def test_anything_but_episodes_is_refused(wrong):
    with pytest.raises(InvalidDataError, match=r"expected Episodes; see Episodes\.from_frames"):
        fit_map(wrong)


def test_the_printed_table_names_every_parameter(example_fit):
    text = str(example_fit)
    for name in ("w[repeat]", "gamma0", "gamma[entities]", "beta0", "beta[needs_tool]", "s"):
        assert name in text
    assert "5 of 5 starts agree" in text
    assert "0 episodes floored" in text
    assert list(example_fit.summary().columns) == ["estimate", "se", "lower_95", "upper_95"]
    ends = example_fit.summary().loc["w[invalid]", ["lower_95", "upper_95"]].astype(float)
    np.testing.assert_allclose(ends, weight_interval(example_fit.w[3], example_fit.standard_errors["w"][3]))
    assert "gamma[entities]" in example_fit._repr_html_()


def test_a_fit_cannot_be_changed_and_differs_from_another(example_fit, free_fit):
    assert example_fit != free_fit
    with pytest.raises(ValueError, match="read-only"):
        example_fit.w[0] = 5.0


def test_intervals_of_weights_are_normal_on_the_logit_scale_and_stay_on_the_simplex():
    w, error = np.array([0.9, 0.0995, 0.0005, 0.0]), np.array([0.04, 0.04, 0.002, np.nan])
    lower, upper = weight_interval(w, error)
    slope = w[:3] * (1 - w[:3])
    for reach in (special.logit(upper[:3]) - special.logit(w[:3]), special.logit(w[:3]) - special.logit(lower[:3])):
        np.testing.assert_allclose(reach, 1.959964 * error[:3] / slope, rtol=1e-6)
    assert (lower[:3] > 0).all()
    assert (upper[:3] < 1).all()
    assert np.isnan([lower[3], upper[3]]).all()


def test_html_table_escapes_names(example):
    dataset = example.dataset.assign_coords(feature=["<script>", "b", "c"])
    html = fit_map(quietly(dataset))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_saved_fit_is_read_back_exactly(example, tmp_path):
    path = tmp_path / "fit.json"
    fit = fit_map(example, seed=np.int64(3))
    fit.save(path)
    loaded = MapFit.load(path)
    assert loaded == fit
    for name, value in (vars(fit) | fit.standard_errors).items():
        if name != "standard_errors":
            np.testing.assert_array_equal((vars(loaded) | loaded.standard_errors)[name], value)
    assert str(loaded) == str(fit)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not valid JSON"),
        (lambda _: "hello", "not valid JSON"),
        (lambda _: "[]", "expected a fit written by MapFit.save"),
        (lambda text: _changed(text, schema_version=2), "schema_version is 2; expected 1: .*newer"),
        (lambda text: _changed(text, format="other"), "format"),
        (lambda text: _changed(text, s=-1.0), "s: .*greater than 0"),
        (lambda text: _changed(text, w=[0.9, 0.9, 0.1, 0.1]), "w sums to 2.0"),
        (lambda text: _changed(text, gamma=[0.1]), "gamma has 1 numbers for 3 feature_names"),
        (lambda text: _changed(text, spec={"timing": "later"}), "spec: .*the key spec.family, which is missing"),
        (lambda text: _changed(text, extra=1), "extra"),
    ],
)
def test_a_damaged_fit_file_is_refused_with_its_name(example_fit, tmp_path, damage, message):
    path = tmp_path / "fit.json"
    example_fit.save(path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(FileFormatError, match=rf"fit\.json: .*{message}"):
        MapFit.load(path)
    with pytest.raises(MissingFileError, match=r"nothing\.json: no such file; expected a fit"):
        MapFit.load(tmp_path / "nothing.json")


def _changed(text: str, **changes: object) -> str:
    return json.dumps(json.loads(text) | changes)


@pytest.mark.parametrize("clock", [False, True])
def test_a_fit_under_a_memory_recovers_what_the_episodes_were_drawn_with(clock):
    episodes = simulate_model(np.random.default_rng(11), 4000, memory=0.5)
    fit = fit_map(episodes, ridge=0.0, memory=0.5, clock=clock, restarts=2)
    assert (fit.memory, fit.clock, fit.diagnostic_names[-1]) == (0.5, clock, "clock" if clock else "u3")
    truth = {**TRUTH, "w": np.append(TRUTH["w"], 0.0) if clock else TRUTH["w"]}
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        error = np.nan_to_num(np.asarray(fit.standard_errors[name]), nan=0.0)
        assert (np.abs(getattr(fit, name) - truth[name]) <= 3.5 * error + 2e-3).all(), name


@pytest.mark.parametrize("clock", [False, True])
def test_the_profile_finds_the_memory_that_the_episodes_were_drawn_with(clock, tmp_path):
    episodes = simulate_model(np.random.default_rng(3), 2500, memory=0.6, horizon=20)
    fit = fit_map(episodes, memory="profile", clock=clock, restarts=1)
    assert abs(fit.memory - 0.6) < 0.04
    assert min(point.objective for point in fit.profile) == pytest.approx(fit.objective, abs=1e-9)
    assert {0.0, 1.0, fit.memory} <= {point.memory for point in fit.profile}
    assert f"memory {fit.memory:.3g} by profile likelihood" in str(fit)
    within = [point.memory for point in fit.profile if point.objective - fit.objective <= 1.9207 / 2500]
    assert f"those from {min(within):.3g} to {max(within):.3g} are within 1.9 nats" in str(fit)
    behind = 2500 * (next(point.objective for point in fit.profile if point.memory == 1) - fit.objective)
    assert f"memory 1 is {behind:.1f} nats behind" in str(fit)
    assert ("windows have no mass" in str(fit)) is not clock
    fixed = fit_map(episodes, memory=fit.memory, clock=clock, restarts=1)
    assert_same_estimates(fit, fixed, atol=0)
    fit.save(tmp_path / "fit.json")
    assert MapFit.load(tmp_path / "fit.json") == fit != fixed


def test_a_profile_needs_the_same_windows_at_every_memory(example):
    with pytest.raises(InvalidDataError, match="zero_mass with memory 'profile' is 'drop_window'"):
        fit_map(example, memory="profile", zero_mass="drop_window")


def without_marks(episodes: Episodes) -> Episodes:
    dataset = episodes.dataset.copy(deep=True)
    dataset["window_start"][:] = dataset["window_end"][:] = np.nan
    return quietly(dataset)


def test_without_a_single_mark_the_fit_is_the_probit_regression_of_current_status_data():
    episodes = without_marks(simulate_model(np.random.default_rng(4), 1500, n_diagnostics=1))
    with pytest.raises(EvidenceError, match="unmarked='due' needs no window"):
        fit_map(episodes, unmarked="outcome")
    fit = fit_map(episodes, unmarked="due", ridge=0.0)
    dataset = episodes.dataset
    strong, cheap = dataset["strong_success"].values, dataset["cheap_success"].values
    total = np.nansum(dataset["diagnostics"].values[..., 0], axis=1)
    rows = strong & (total > 0)
    design = np.column_stack([np.ones(rows.sum()), standardized(episodes)[rows], np.log(total[rows])])
    probit = sm.Probit(~cheap[rows], design).fit(disp=0)
    scale = 1 / probit.params[-1]
    assert fit.s == pytest.approx(scale, rel=1e-5)
    np.testing.assert_allclose([fit.beta0, *fit.beta], -probit.params[:-1] * scale, rtol=1e-4, atol=1e-6)
    assert fit.n_timed == rows.sum()
    assert "due by the end of the rollout" in str(fit)


def test_outcomes_that_risk_separates_point_to_the_posterior():
    episodes = without_marks(simulate_model(np.random.default_rng(0), 30))
    with pytest.raises(ConvergenceError, match=r"can be met exactly.* sample_posterior"):
        fit_map(episodes, unmarked="due")


def test_risk_that_speaks_against_a_handoff_points_to_the_posterior():
    dataset = without_marks(simulate_model(np.random.default_rng(0), 300, n_diagnostics=1)).dataset
    strong, cheap = dataset["strong_success"].values, dataset["cheap_success"].values
    turned = quietly(dataset.assign(cheap_success=("episode", np.where(strong, ~cheap, cheap))))
    with pytest.raises(ConvergenceError, match=r"s grows without end.* sample_posterior"):
        fit_map(turned, unmarked="due")
