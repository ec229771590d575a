import warnings
from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import random_posterior
from simulate import leaky_peaks, quietly, simulate_model
from strategies import datasets
from strategies import episodes as four_episodes

from bayes_tacit import (
    MapFit,
    credible_band,
    crossing_probability,
    cumulative_risk,
    fit_map,
    handoff_score,
    incidence,
)
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.scores import score
from bayes_tacit.scores.bands import shortest_interval
from bayes_tacit.scores.fitted import as_draws
from bayes_tacit.scores.score import computed, score_kernel


@pytest.fixture(scope="module")
def episodes():
    return simulate_model(np.random.default_rng(5), 40)


@pytest.fixture(scope="module")
def tree(episodes):
    return random_posterior(np.random.default_rng(6), episodes, chains=2, draws=100)


def lazily(episodes, size):
    return quietly(episodes.dataset.chunk({"episode": size}))


def with_posterior(tree, **changes):
    """The same tree with some variables of its posterior replaced, or dropped where None."""
    dropped = tree["posterior"].to_dataset().drop_vars([name for name, value in changes.items() if value is None])
    kept = {name: value for name, value in changes.items() if value is not None}
    other = xr.DataTree.from_dict(
        {"posterior": dropped.assign(kept), "constant_data": tree["constant_data"].to_dataset()}
    )
    other.attrs = dict(tree.attrs)
    return other


# What is computed


def test_a_fit_gives_one_score_a_checkpoint_and_a_posterior_one_for_each_draw(episodes, tree, example, example_fit):
    q = handoff_score(example_fit, example)
    assert q.dims == ("episode", "step")
    assert q.shape == (1200, 30)
    q = handoff_score(tree, episodes)
    assert q.dims == ("chain", "draw", "episode", "step")
    assert q.sizes == {"chain": 2, "draw": 100, "episode": 40, "step": 12}
    assert (q["episode"] == episodes.ids).all()
    assert q["step"].values.tolist() == list(range(12))


def test_scores_are_missing_exactly_past_the_end_of_an_episode(episodes, tree):
    past_end = np.arange(episodes.horizon) >= episodes.n_steps[:, None]
    for quantity in (handoff_score, cumulative_risk):
        assert (np.isnan(quantity(tree, episodes).values) == past_end).all()
    assert not np.isnan(incidence(tree, episodes)).any()


@pytest.mark.parametrize("family", ["lognormal", "loglogistic"])
def test_every_draw_is_scored_as_the_equations_say(episodes, family):
    from scipy import stats

    tree = random_posterior(np.random.default_rng(7), episodes, chains=2, draws=3, family=family)
    cdf = {"lognormal": stats.norm.cdf, "loglogistic": stats.logistic.cdf}[family]
    posterior, constant = tree["posterior"], tree["constant_data"]
    x = (episodes.dataset["features"] - constant["feature_mean"]) / constant["feature_scale"]
    pi = 1 / (1 + np.exp(-(posterior["gamma0"] + x @ posterior["gamma"])))
    mu = posterior["beta0"] + x @ posterior["beta"]
    risk = (episodes.dataset["diagnostics"].fillna(0) @ posterior["w"]).cumsum("step")
    with np.errstate(divide="ignore"):
        expected = pi * xr.apply_ufunc(cdf, (np.log(risk) - mu) / posterior["s"])
    inside = episodes.dataset["step"] < episodes.dataset["n_steps"]
    for ours, theirs in (
        (handoff_score, expected.where(inside)),
        (cumulative_risk, risk.where(inside)),
        (incidence, pi),
    ):
        result = ours(tree, episodes)
        xr.testing.assert_allclose(result, theirs.transpose(*result.dims), rtol=1e-12)


def test_a_fit_and_its_own_tree_have_the_same_scores(example, example_fit):
    for quantity in (handoff_score, cumulative_risk, incidence):
        point, drawn = quantity(example_fit, example), quantity(example_fit.to_datatree(), example)
        assert drawn.dims == ("chain", "draw", *point.dims)
        np.testing.assert_array_equal(drawn.values[0, 0], point.values)


def test_features_are_standardized_with_the_fits_mean_and_scale(example, example_fit):
    some = example.take(slice(100, 130))
    q = handoff_score(example_fit, some).values
    np.testing.assert_array_equal(q, handoff_score(example_fit, example).values[100:130, : some.horizon])


@settings(deadline=None, max_examples=50)
@given(datasets(largest=1e100), st.integers(0, 2**32 - 1))
def test_any_valid_episodes_have_scores_that_rise_up_to_their_incidence(dataset, seed):
    episodes = quietly(dataset)
    tree = random_posterior(np.random.default_rng(seed), episodes, chains=1, draws=3)
    q, pi = handoff_score(tree, episodes), incidence(tree, episodes)
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    assert (np.isnan(q.values) == ~inside).all()
    assert (q.fillna(0) <= pi).all()
    assert not (q.diff("step") < -1e-15).any()


# Blocks and Dask


@pytest.mark.parametrize("block", [1, 7, 12, 100, 1000, 10**6])
def test_blocks_of_any_size_give_the_same_bits(episodes, tree, block):
    fitted = as_draws(tree)
    inputs = [array.values for array in fitted.columns_of(episodes)]
    whole = computed(score_kernel(fitted), fitted.draws, *inputs, block=10**9)
    np.testing.assert_array_equal(computed(score_kernel(fitted), fitted.draws, *inputs, block=block), whole)


@pytest.mark.parametrize("size", [1, 13, 40])
@pytest.mark.parametrize("quantity", [handoff_score, cumulative_risk, incidence])
def test_dask_gives_what_numpy_gives_and_only_when_asked(episodes, tree, quantity, size):
    pytest.importorskip("dask")
    fit = fit_map(episodes, ridge=0.1)
    for fitted in (tree, fit):
        lazy = quantity(fitted, lazily(episodes, size))
        assert lazy.chunks is not None
        xr.testing.assert_identical(lazy.compute(), quantity(fitted, episodes))


def test_dask_works_on_chunks_that_are_cut_along_steps_and_diagnostics(episodes, tree):
    pytest.importorskip("dask")
    cut = quietly(episodes.dataset.chunk({"episode": 7, "step": 5, "diagnostic": 2, "feature": 1}))
    xr.testing.assert_identical(handoff_score(tree, cut).compute(), handoff_score(tree, episodes))


def test_dask_chunks_are_cut_where_draws_would_make_them_large(episodes, tree, monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.setattr(score, "CHUNK_LIMIT", 8 * 200 * 12 * 3)
    lazy = handoff_score(tree, lazily(episodes, 40))
    assert max(lazy.chunksizes["episode"]) == 3
    xr.testing.assert_identical(lazy.compute(), handoff_score(tree, episodes))


def test_dask_episodes_without_features_have_scores():
    pytest.importorskip("dask")
    episodes = four_episodes()
    bare = quietly(episodes.dataset.isel(feature=[]))
    tree = random_posterior(np.random.default_rng(1), bare)
    for quantity in (handoff_score, incidence):
        xr.testing.assert_identical(quantity(tree, lazily(bare, 2)).compute(), quantity(tree, bare))


# Bands


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.95])
def test_an_equal_tailed_band_is_made_of_quantiles(episodes, tree, probability):
    band = credible_band(tree, episodes, probability=probability)
    q = handoff_score(tree, episodes).values.reshape(200, 40, 12)
    tail = (1 - probability) / 2
    np.testing.assert_allclose(band["mean"], q.mean(axis=0), rtol=1e-12)
    for name, level in (("lower", tail), ("median", 0.5), ("upper", 1 - tail)):
        np.testing.assert_allclose(band[name], np.quantile(q, level, axis=0), rtol=1e-12, err_msg=name)
    assert band.attrs == {"probability": probability, "kind": "equal_tailed"}
    assert band["lower"].dims == ("episode", "step")


@pytest.mark.parametrize("probability", [0.5, 0.9])
def test_a_highest_density_band_is_arvizs(episodes, tree, probability):
    band = credible_band(tree, episodes, probability=probability, kind="highest_density")
    q = handoff_score(tree, episodes)
    inside = ~np.isnan(q.isel(chain=0, draw=0).values)
    theirs = arviz_stats.hdi(q.fillna(0), prob=probability)
    ends = [str(end) for end in theirs["ci_bound"].values]
    for name, end in zip(("lower", "upper"), ends, strict=True):
        np.testing.assert_allclose(
            band[name].values[inside], theirs.sel(ci_bound=end).values[inside], rtol=1e-12, err_msg=name
        )
    equal = credible_band(tree, episodes, probability=probability)
    wider = (equal["upper"] - equal["lower"]) - (band["upper"] - band["lower"])
    assert (wider.values[inside] >= -1e-2).all()
    assert float(wider.mean()) > 0


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_the_shortest_interval_is_the_shortest_of_all_that_span_as_many_draws(values, probability):
    ordered = np.sort(values)
    lower, upper = shortest_interval(ordered, probability)
    reach = min(int(probability * len(ordered)), len(ordered) - 1)
    assert upper - lower == min(ordered[i + reach] - ordered[i] for i in range(len(ordered) - reach))
    assert ((ordered >= lower) & (ordered <= upper)).sum() > reach


def test_quantiles_of_a_band_never_decrease_along_an_episode(episodes, tree):
    band = credible_band(tree, episodes)
    for name in ("mean", "median", "lower", "upper"):
        assert not (band[name].diff("step") < -1e-15).any()
    inside = band["mean"].notnull()
    assert ((band["lower"] <= band["median"]) & (band["median"] <= band["upper"])).where(inside, True).all()


def test_bands_and_crossings_do_not_depend_on_the_size_of_blocks_or_on_dask(episodes, tree, monkeypatch):
    pytest.importorskip("dask")
    whole = credible_band(tree, episodes), crossing_probability(tree, episodes, 0.3)
    for block, group in ((1, 1), (50, 5000), (10**8, 10**8)):
        monkeypatch.setattr(score, "BLOCK", block)
        monkeypatch.setattr(score, "GROUP", group)
        for given_episodes in (episodes, lazily(episodes, 13)):
            xr.testing.assert_identical(credible_band(tree, given_episodes), whole[0])
            xr.testing.assert_identical(crossing_probability(tree, given_episodes, 0.3), whole[1])


# Compiled scores


@pytest.mark.parametrize(
    ("family", "memory", "clock"),
    [("lognormal", 1.0, False), ("lognormal", 0.6, True), ("loglogistic", 1.0, True), ("weibull", 0.0, False)],
)
@pytest.mark.parametrize("n_draws", [1, 700])
def test_compiled_scores_are_numpys_to_the_last_digits_and_never_fall(episodes, family, memory, clock, n_draws):
    tree = random_posterior(np.random.default_rng(9), episodes, chains=1, draws=n_draws, family=family, spread=0.6)
    fitted = as_draws(tree)
    w = np.random.default_rng(1).dirichlet(np.ones(fitted.draws.w.shape[1] + clock), n_draws)
    draws = replace(fitted.draws, w=w, memory=memory, clock=clock)
    features, diagnostics = (array.values.copy() for array in fitted.columns_of(episodes))
    # From no risk at all to far beyond every threshold.
    diagnostics *= 10.0 ** np.linspace(-40, 40, len(diagnostics))[:, None, None]
    diagnostics[:5, :3] = 0.0
    slow, fast = (
        kernel(draws, features, diagnostics)
        for kernel in (score_kernel(fitted), score_kernel(replace(fitted, draws=draws), score.ENOUGH))
    )
    assert fast is not slow
    np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-300)
    assert not (np.diff(fast, axis=1) < 0).any()
    assert (fast[:5, :3] == 0).all() or clock


def test_bands_and_scores_of_many_checkpoints_are_compiled_and_the_same(episodes, tree, monkeypatch):
    few = credible_band(tree, episodes), crossing_probability(tree, episodes, 0.3), handoff_score(tree, episodes)
    monkeypatch.setattr(score, "ENOUGH", 1)
    many = credible_band(tree, episodes), crossing_probability(tree, episodes, 0.3), handoff_score(tree, episodes)
    for one, other in zip(few, many, strict=True):
        xr.testing.assert_allclose(one, other, rtol=1e-12)


# Crossings


@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.6, 1.0])
def test_crossing_probabilities_count_the_draws_that_have_crossed(episodes, tree, alpha):
    crossing = crossing_probability(tree, episodes, alpha)
    q = handoff_score(tree, episodes).values.reshape(200, 40, 12)
    for i, n_steps in enumerate(episodes.n_steps):
        first = [next((t for t in range(n_steps) if q[m, i, t] >= alpha), n_steps) for m in range(200)]
        by_step = [np.mean(np.array(first) <= t) for t in range(n_steps)]
        np.testing.assert_allclose(crossing["by_step"].values[i, :n_steps], by_step, rtol=1e-12)
        assert np.isnan(crossing["by_step"].values[i, n_steps:]).all()
        assert crossing["never"].values[i] == pytest.approx(np.mean(np.array(first) == n_steps), abs=1e-12)
    assert crossing.attrs == {"alpha": alpha}


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, np.nan, "0.3"])
def test_an_alpha_that_is_no_probability_is_refused(episodes, tree, alpha):
    with pytest.raises(InvalidDataError, match=r"alpha is .*; expected a number above 0 and at most 1"):
        crossing_probability(tree, episodes, alpha)


# Names


def test_the_order_of_names_does_not_matter(episodes, tree, example, example_fit):
    turned = quietly(episodes.dataset.isel(feature=[2, 0, 1], diagnostic=[3, 1, 0, 2]))
    xr.testing.assert_identical(handoff_score(tree, turned), handoff_score(tree, episodes))
    turned = quietly(example.dataset.isel(feature=[1, 2, 0], diagnostic=[2, 3, 1, 0]))
    xr.testing.assert_identical(handoff_score(example_fit, turned), handoff_score(example_fit, example))


def test_a_tree_whose_parts_order_their_names_differently_is_read_by_name(episodes, tree):
    turned = with_posterior(tree, gamma=tree["posterior"]["gamma"].isel(feature=[2, 0, 1]))
    assert turned["posterior"]["feature"].values.tolist() == ["x0", "x1", "x2"]
    shuffled = xr.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset().isel(feature=[2, 0, 1]),
            "constant_data": tree["constant_data"].to_dataset(),
        }
    )
    shuffled.attrs = dict(tree.attrs)
    for other in (turned, shuffled):
        xr.testing.assert_identical(handoff_score(other, episodes), handoff_score(tree, episodes))


@pytest.mark.parametrize(("dim", "message"), [("feature", "features"), ("diagnostic", "diagnostics")])
def test_other_names_than_the_fits_are_refused_with_both(episodes, tree, dim, message):
    names = [*episodes.dataset[dim].values[:-1], "other"]
    renamed = quietly(episodes.dataset.assign_coords({dim: names}))
    wanted = str(episodes.dataset[dim].values.tolist()).replace("[", r"\[")
    with pytest.raises(InvalidDataError, match=rf"{message} of the episodes is \[.*'other'\]; expected {wanted}"):
        handoff_score(tree, renamed)
    fewer = quietly(episodes.dataset.isel({dim: slice(1, None)}))
    with pytest.raises(InvalidDataError, match=f"{message} of the episodes"):
        credible_band(tree, fewer)


# Trees


def test_fixed_weights_are_read_from_the_constant_data(episodes):
    tree = random_posterior(np.random.default_rng(3), episodes, fixed_weights=True)
    drawn = with_posterior(tree, w=tree["constant_data"]["w"].expand_dims(chain=2, draw=5))
    np.testing.assert_array_equal(handoff_score(tree, episodes), handoff_score(drawn, episodes))
    risk = cumulative_risk(tree, episodes).values
    np.testing.assert_array_equal(risk[0, 0], risk[1, 4])


@pytest.mark.parametrize("keep_empty", [True, False])
def test_a_model_without_features_gives_all_episodes_the_same_incidence(keep_empty):
    bare = quietly(four_episodes().dataset.isel(feature=[]))
    tree = random_posterior(np.random.default_rng(3), bare)
    if not keep_empty:
        constant = tree["constant_data"].to_dataset().drop_vars(["feature_mean", "feature_scale", "feature"])
        attrs = dict(tree.attrs)
        tree = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset(), "constant_data": constant})
        tree.attrs = attrs
    pi = incidence(tree, bare).values
    np.testing.assert_allclose(pi[..., 0], 1 / (1 + np.exp(-tree["posterior"]["gamma0"].values)))
    assert (pi == pi[..., :1]).all()
    with pytest.raises(InvalidDataError, match="features of the episodes"):
        incidence(tree, four_episodes())


def without_attr(tree, name):
    other = tree.copy()
    other.attrs = {key: value for key, value in tree.attrs.items() if key != name}
    return other


def with_attr(tree, **attrs):
    other = tree.copy()
    other.attrs = {**tree.attrs, **attrs}
    return other


FOREIGN = {
    "no posterior": (
        lambda _: xr.DataTree.from_dict({"prior": xr.Dataset()}),
        r"groups of the tree is \['prior'\]; expected a group 'posterior', as sample_posterior",
    ),
    "no constant data": (
        lambda tree: xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()}),
        r"groups of the tree is \['posterior'\]; expected a group 'constant_data'",
    ),
    "no family": (lambda tree: without_attr(tree, "family"), r"attrs of the tree is \['timing'\]; expected 'family'"),
    "no timing": (lambda tree: without_attr(tree, "timing"), r"attrs of the tree is \['family'\]; expected 'timing'"),
    "another family": (lambda tree: with_attr(tree, family="cauchy"), "family is 'cauchy'; expected 'lognormal' or"),
    "no scale": (lambda tree: with_posterior(tree, s=None), "variables of posterior is .*; expected 's' among them"),
    "no slopes": (lambda tree: with_posterior(tree, beta=None), "variables of posterior .*; expected 'beta' among"),
    "no weights": (
        lambda tree: with_posterior(tree, w=None),
        "variables of constant_data is .*; expected 'w' with dim 'diagnostic'",
    ),
    "another shape": (
        lambda tree: with_posterior(tree, s=tree["posterior"]["w"]),
        r"dims of posterior\['s'\] is .*'diagnostic'\); expected \('chain', 'draw'\)",
    ),
    "a chain that failed": (
        lambda tree: with_posterior(tree, beta0=tree["posterior"]["beta0"] * np.nan),
        r"beta0\[0\] is nan; expected a finite number",
    ),
    "a scale of zero": (
        lambda tree: with_posterior(tree, s=tree["posterior"]["s"] * 0),
        r"s\[0\] is 0.0; expected a number above 0",
    ),
    "weights off the simplex": (
        lambda tree: with_posterior(tree, w=tree["posterior"]["w"] * 2),
        r"sum of w\[0\] is .*; expected 1 within 1e-06",
    ),
    "negative weights": (
        lambda tree: with_posterior(tree, w=tree["posterior"]["w"] * 0 + [0.5, 1.0, -0.25, -0.25]),
        r"w\[0\]\[2\] is -0.25; expected a number >= 0",
    ),
    "no draws": (lambda tree: tree.isel(draw=[]), "number of draws is 0; expected at least one"),
    "no names": (
        lambda tree: with_posterior(tree, diagnostic=None),
        "coordinate 'diagnostic' is None; expected the names of the diagnostics",
    ),
    "other features in its parts": (
        lambda tree: with_posterior(tree, feature=("feature", ["a", "b", "c"])),
        r"features of posterior is \['a', 'b', 'c'\]; expected \['x0', 'x1', 'x2'\]",
    ),
    "a number": (lambda _: 3, "fit is 3; expected a MapFit or a posterior DataTree"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_tree_is_refused_by_what_it_lacks(episodes, tree, case):
    spoil, message = FOREIGN[case]
    with pytest.raises(InvalidDataError, match=message):
        handoff_score(spoil(tree), episodes)


# Other refusals


def test_what_is_not_episodes_is_refused(example_fit, example):
    with pytest.raises(InvalidDataError, match=r"(?s)episodes is <xarray.Dataset.*; expected Episodes"):
        handoff_score(example_fit, example.dataset)


def test_a_result_that_memory_cannot_hold_is_refused_with_what_to_do(episodes, tree, monkeypatch):
    many = xr.concat([tree["posterior"].to_dataset()] * 3, dim="chain")
    monkeypatch.setattr(score, "RESULT_LIMIT", 1 << 20)
    big = xr.DataTree.from_dict({"posterior": many, "constant_data": tree["constant_data"].to_dataset()})
    big.attrs = dict(tree.attrs)
    message = r"600 draws of 40 episodes of 12 steps is '0.0 GiB'; expected at most .* credible_band .* thin .* Dask"
    with pytest.raises(InvalidDataError, match=message):
        handoff_score(big, episodes)
    assert incidence(big, episodes).sizes["chain"] == 6
    assert credible_band(big, episodes)["mean"].shape == (40, 12)
    assert handoff_score(big.isel(draw=slice(None, None, 10)), episodes).sizes["draw"] == 10
    pytest.importorskip("dask")
    assert handoff_score(big, lazily(episodes, 10)).chunks is not None


def test_a_point_estimate_has_neither_band_nor_distribution_of_crossings(example, example_fit):
    with pytest.raises(InvalidDataError, match=r"tree is 'a MapFit'; expected a posterior .* not a band"):
        credible_band(example_fit, example)
    with pytest.raises(InvalidDataError, match=r"tree is 'a MapFit'; expected a posterior .* crossing steps"):
        crossing_probability(example_fit, example, 0.3)


@pytest.mark.parametrize(("probability", "needed"), [(0.9, 100), (0.95, 200), (0.5, 20), (0.99, 1000)])
def test_too_few_draws_for_an_interval_are_refused_with_how_many_are_needed(episodes, probability, needed):
    tree = random_posterior(np.random.default_rng(2), episodes, chains=1, draws=needed)
    assert credible_band(tree, episodes.take(slice(2)), probability=probability)["lower"].shape[0] == 2
    message = f"number of draws is {needed - 1}; expected at least {needed:,} draws for a {probability} interval"
    with pytest.raises(InvalidDataError, match=message):
        credible_band(tree.isel(draw=slice(1, None)), episodes, probability=probability)


def test_an_interval_of_no_kind_or_mass_is_refused(episodes, tree):
    with pytest.raises(InvalidDataError, match="kind is 'hdi'; expected 'equal_tailed' or 'highest_density'"):
        credible_band(tree, episodes, kind="hdi")
    for probability in (0.0, 1.0, 90, np.nan, "0.9"):
        with pytest.raises(InvalidDataError, match=r"probability is .*; expected a number between 0 and 1"):
            credible_band(tree, episodes, probability=probability)


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("memory", [0.0, 0.6, 1.0])
def test_scores_under_a_memory_are_those_of_leaky_peaks_summed_anew(example, memory, clock, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        fit = fit_map(example, memory=memory, clock=clock, restarts=1)
    reached = leaky_peaks(example.dataset["diagnostics"].values, memory)
    risk = reached @ fit.w[:4]
    if clock:
        risk = risk + fit.w[4] * np.arange(1, risk.shape[1] + 1)
    np.testing.assert_allclose(cumulative_risk(fit, example).values, risk, rtol=1e-12)
    found = handoff_score(fit, example)
    assert not (found.diff("step") < 0).any()
    fit.save(tmp_path / "fit.json")
    same = handoff_score(MapFit.load(tmp_path / "fit.json"), example)
    np.testing.assert_array_equal(same.values, found.values)


def test_every_draw_has_its_own_memory(example, example_fit):
    rho = np.array([0.0, 0.3, 0.9, 1.0])
    draws = replace(as_draws(example_fit).draws.take(np.zeros(4, dtype=int)), memory=rho)
    u = example.dataset["diagnostics"].values[:20]
    expected = np.stack([leaky_peaks(u, memory) @ example_fit.w for memory in rho], axis=-1)
    np.testing.assert_allclose(draws.cumulative_risk(u), expected, rtol=1e-12)
