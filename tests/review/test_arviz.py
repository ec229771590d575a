"""ArviZ's own functions on our tree, called as its documentation calls them."""

import arviz as az
import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_tacit import save_posterior
from bayes_tacit.estimates.completion import AS_SEEN, seen_or_not
from bayes_tacit.model.evidence import collect_evidence


def test_loo_and_compare_need_no_name_of_a_variable(posterior):
    loo = az.loo(posterior)
    assert loo.n_data_points == posterior["constant_data"].sizes["episode"]
    table = az.compare({"one": posterior, "other": posterior})
    assert table["elpd_diff"].tolist() == [0, 0]


def test_sensitivity_to_prior_and_likelihood(posterior):
    table = az.psense_summary(posterior)
    assert (table["prior"].astype(float) < 0.05).all()
    # Twice the likelihood, which a tree with parts and their sum would give, moves the posterior twice as much.
    doubled = posterior.copy()
    twice = posterior["log_likelihood"].to_dataset()[["total"]] * 2
    doubled["log_likelihood"] = xr.DataTree(twice)
    more = az.psense_summary(doubled)["likelihood"].astype(float)
    assert (more / table["likelihood"].astype(float)).median() == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("draw", [az.plot_loo_pit, az.plot_ppc_pit])
def test_pictures_of_predictive_probabilities_are_drawn_without_a_warning(posterior, draw):
    collection = draw(posterior)
    figure = collection.viz["figure"].item()
    texts = [text.get_text() for text in figure.findobj(plt.Text)]
    assert "total" in texts
    (p_value,) = [float(text[2:6]) for text in texts if text.startswith("p=")]
    assert p_value > 0.01
    plt.close("all")


def test_predictive_draws_are_drawn_beside_what_was_seen(posterior):
    collection = az.plot_ppc_dist(posterior, kind="ecdf", num_samples=20)
    assert collection.viz["figure"].item().axes[0].has_data()
    plt.close("all")


def interval_probabilities(posterior, example, shift):
    """Return the LOO probability integral transforms of all episodes after beta0 was moved."""
    moved = posterior["posterior"].to_dataset().isel(draw=slice(0, None, 5))
    moved = moved.assign(beta0=moved["beta0"] + shift)
    rng = np.random.default_rng(3)
    drawn = seen_or_not(moved, collect_evidence(example), rng)["total"]
    below, same = ((drawn < AS_SEEN).mean(("chain", "draw")), (drawn == AS_SEEN).mean(("chain", "draw")))
    return (below + rng.random(below.shape) * same).values


def test_interval_probabilities_are_uniform_under_the_fit_and_not_under_a_wrong_one(posterior, example):
    assert stats.kstest(interval_probabilities(posterior, example, 0.0), "uniform").pvalue > 0.05
    for shift in (-0.3, 0.3):
        assert stats.kstest(interval_probabilities(posterior, example, shift), "uniform").pvalue < 1e-4


def test_a_draw_is_within_what_was_seen_with_the_likelihood_of_the_episode(posterior):
    share = (posterior["posterior_predictive"]["total"] == AS_SEEN).mean(("chain", "draw"))
    likelihood = np.exp(posterior["log_likelihood"]["total"]).mean(("chain", "draw"))
    draws = posterior["posterior"].sizes["chain"] * posterior["posterior"].sizes["draw"]
    z = (share - likelihood) / np.sqrt(likelihood * (1 - likelihood) / draws + 1e-9)
    assert float(np.abs(z).max()) < 5
    assert float((z**2).mean()) == pytest.approx(1, abs=0.2)


def test_loo_of_the_kept_log_likelihood_is_that_of_all_its_digits(posterior, example):
    from bayes_tacit.estimates.completion import pointwise_log_likelihood

    exact = posterior.copy()
    draws = posterior["posterior"].to_dataset()
    full = pointwise_log_likelihood(draws, collect_evidence(example))
    exact["log_likelihood"] = xr.DataTree(full[["total"]])
    assert arviz_stats.loo(posterior).elpd == pytest.approx(arviz_stats.loo(exact).elpd, abs=0.02)


def test_the_file_of_the_example_is_small(posterior, tmp_path):
    """Half of the default's draws: its file of 4,000 is 13 MB."""
    save_posterior(posterior, tmp_path / "posterior.nc")
    assert (tmp_path / "posterior.nc").stat().st_size < 7.5e6
