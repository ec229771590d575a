import numpy as np
import pymc as pm
import pytest
from scipy import stats
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, RidgePrior, WeaklyInformativePrior, build_model
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.model.evidence import collect_evidence


@pytest.fixture(scope="module")
def model(example: Episodes) -> pm.Model:
    return build_model(example)


@pytest.fixture(scope="module")
def predictive(model: pm.Model):
    with model:
        return pm.sample_prior_predictive(400, random_seed=3)


def test_dims_and_coords_are_named(model, example):
    assert list(model.coords["feature"]) == ["entities", "subgoals", "needs_tool"]
    assert list(model.coords["diagnostic"]) == ["repeat", "uncertainty", "stalled", "invalid"]
    dims = {name: tuple(its) for name, its in model.named_vars_to_dims.items()}
    assert dims["gamma"] == dims["beta"] == ("feature",)
    assert dims["w"] == ("diagnostic",)
    assert dims["strong_success"] == ("episode",)
    assert dims["threshold"] == ("timed",)
    assert list(model.coords["episode"]) == list(example.ids)


def test_the_likelihood_does_not_carry_the_horizon(example):
    longer = quietly(example.dataset.pad(step=(0, 400)).assign_coords(step=np.arange(430)))
    for name, shape in {var.name: var.get_value().shape for var in build_model(longer).data_vars}.items():
        assert 430 not in shape, name


def test_prior_draws_put_the_threshold_on_the_scale_of_the_risk(predictive, example):
    """Neither always at the first step nor always past the end: the crossing step is spread over the rollout."""
    n_steps = example.dataset["n_steps"].sel(episode=predictive["prior_predictive"]["timed"])
    position = (predictive["prior_predictive"]["threshold"] / n_steps).values
    assert 0.05 < (position == 0).mean() < 0.4
    assert 0.05 < (position == 1).mean() < 0.5
    assert ((position >= 0) & (position <= 1)).all()
    rates = predictive["prior_predictive"]["strong_success"].mean("episode").values
    assert 0.3 < rates.mean() < 0.7
    assert (rates < 0.1).any()
    assert (rates > 0.9).any()


def test_predicted_crossing_steps_follow_the_distribution_of_the_threshold(example, rng):
    """Given parameters, the share of draws that cross by step t is F(R(t))."""
    from bayes_tacit.model.likelihood import CrossingSteps

    evidence = collect_evidence(example)
    crossing = CrossingSteps(example, evidence)
    location = 0.8 + 0.1 * rng.normal(size=len(evidence.timed))
    w, s = np.array([0.4, 0.3, 0.2, 0.1]), 0.6
    draws = np.array([crossing.draw(location, s, np.zeros(1), *w, rng=rng) for _ in range(2000)])
    for row in (0, 100, 500, len(evidence.timed) - 1):
        i = evidence.timed[row]
        n_steps = int(example.dataset["n_steps"][i])
        risk = np.cumsum(example.dataset["diagnostics"].values[i, :n_steps] @ w)
        expected = stats.norm.cdf((np.log(risk) - location[row]) / s)
        observed = [(draws[:, row] <= step).mean() for step in range(n_steps)]
        np.testing.assert_allclose(observed, expected, atol=4 * 0.5 / np.sqrt(2000))
        assert draws[:, row].max() <= n_steps


def test_observed_threshold_is_the_last_checkpoint_of_the_window_or_the_end(model, example):
    observed = model.rvs_to_values[model["threshold"]].eval()
    data = example.dataset.sel(episode=list(model.coords["timed"]))
    due = ~data["cheap_success"] & data["window_end"].isnull()
    expected = data["window_end"].fillna(data["n_steps"] - due).values
    np.testing.assert_array_equal(observed, expected)


def test_fixed_weights_are_constant_data(example):
    fixed = build_model(example, weights=[0.4, 0.3, 0.2, 0.1])
    assert "w" not in [variable.name for variable in fixed.free_RVs]
    np.testing.assert_array_equal(fixed["w"].get_value(), [0.4, 0.3, 0.2, 0.1])
    free = build_model(example)
    point = {"gamma0": 0.2, "gamma": [0.1, 0.2, 0.3], "beta0": 0.5, "beta": [0.1, 0.0, -0.1], "s_log__": -0.5}
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    learned = free.compile_logp(vars=free.observed_RVs, mode="FAST_COMPILE")(
        point | {"w_simplex__": (logits - logits.mean())[:-1]}
    )
    assert fixed.compile_logp(vars=fixed.observed_RVs, mode="FAST_COMPILE")(point) == pytest.approx(learned, rel=1e-12)


def test_one_diagnostic_needs_no_weight(rng):
    model = build_model(simulate_model(rng, 200, n_diagnostics=1))
    assert [variable.name for variable in model.free_RVs] == ["gamma0", "beta0", "s", "gamma", "beta"]


def test_a_window_without_mass_is_refused_unless_dropped(example):
    dataset = example.dataset.copy(deep=True)
    row = int(np.flatnonzero(example.has_window)[0])
    dataset["diagnostics"][row, int(dataset["window_start"][row]) : int(dataset["window_end"][row]) + 1] = 0.0
    episodes = quietly(dataset)
    with pytest.raises(EvidenceError, match=f"{episodes.ids[row]}.*zero inside its teacher window"):
        build_model(episodes)
    dropped = build_model(episodes, zero_mass="drop_window")
    assert episodes.ids[row] not in dropped.coords["timed"]
    assert episodes.ids[row] in dropped.coords["episode"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RidgePrior(strength=-1.0), "RidgePrior.strength is -1.0; expected a finite number >= 0"),
        (lambda: WeaklyInformativePrior(scale_spread=0.0), "scale_spread is 0.0; expected a finite number > 0"),
        (lambda: WeaklyInformativePrior(location_slope=float("inf")), "location_slope is inf"),
    ],
)
def test_a_prior_that_is_none_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()
