"""A report of few parameters, and of draws that went wrong: it says what is wrong, and what could not be made."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from pages import Page
from simulate import quietly, simulate_model

from bayes_tacit import Episodes, handoff_score, load_posterior, sample_posterior, save_posterior
from bayes_tacit.review.reporting import report
from bayes_tacit.review.reporting.write import PARTS


@pytest.fixture(scope="module")
def bare() -> tuple[xr.DataTree, Episodes]:
    """No feature, fixed weights, numbers as ids, proposal timing."""
    episodes = quietly(simulate_model(np.random.default_rng(3), 60, widest=1).dataset.isel(feature=slice(0, 0)))
    tree = sample_posterior(
        episodes,
        draws=250,
        tune=300,
        chains=2,
        seed=1,
        weights=[0.4, 0.3, 0.2, 0.1],
        timing="proposal",
        progress=False,
    )
    return tree, episodes


def test_a_posterior_without_features_is_kept_and_read_again(bare, tmp_path):
    tree, episodes = bare
    save_posterior(tree, tmp_path / "bare.nc")
    loaded = load_posterior(tmp_path / "bare.nc")
    xr.testing.assert_equal(loaded["posterior"].to_dataset(), tree["posterior"].to_dataset())
    scores = (handoff_score(one, episodes).values for one in (loaded, tree))
    np.testing.assert_array_equal(*scores)


def test_a_model_without_features_or_learned_weights_gets_a_report_too(bare, tmp_path):
    tree, episodes = bare
    page = Page(report(tree, episodes, tmp_path / "bare.html", chosen=[0, 1]))
    assert [attrs["id"] for attrs in page.all("section") if attrs["id"] in PARTS] == list(PARTS)
    assert "fixed" in page.text
    assert "gamma[" not in page.text


def sick(tree: xr.DataTree, sickness: str) -> xr.DataTree:
    """Give a sound posterior the draws of a run that went wrong."""
    groups = {name: tree[name].to_dataset().copy(deep=True) for name in tree.children}
    sampled = [name for name, dataset in groups.items() if dataset.sizes.get("chain", 0) > 1]
    if sickness == "one chain":
        groups |= {name: groups[name].isel(chain=[0]) for name in sampled}
    elif sickness == "2 chains of 20 draws":
        groups |= {name: groups[name].isel(chain=[0, 1], draw=slice(0, 20)) for name in sampled}
    elif sickness == "3 draws":
        groups |= {name: groups[name].isel(draw=slice(0, 3)) for name in sampled}
    elif sickness == "NaN draws":
        groups["posterior"]["s"][1] = np.nan
        groups["log_likelihood"]["total"][1] = np.nan
    elif sickness == "all NaN":
        for name in ("posterior", "log_likelihood", "sample_stats"):
            groups[name] = groups[name] * np.nan
        groups["sample_stats"]["diverging"] = tree["sample_stats"]["diverging"]
    elif sickness == "stuck":
        for name in ("posterior", "log_likelihood"):
            groups[name] = (
                groups[name].isel(draw=[0] * groups[name].sizes["draw"]).assign_coords(draw=groups[name]["draw"])
            )
    out = xr.DataTree.from_dict(groups)
    out.attrs = dict(tree.attrs)
    return out


@pytest.mark.parametrize(
    ("of", "sickness", "said"),
    [
        ("bare", "one chain", "There is one chain"),
        ("bare", "2 chains of 20 draws", "effective sample size"),
        ("bare", "3 draws", "too few for any diagnostic"),
        ("example", "NaN draws", "s is NaN or infinite in 500 of 2000 draws"),
        ("example", "all NaN", "beta0 is NaN or infinite in 2000 of 2000 draws"),
        ("bare", "stuck", "does not move in any chain"),
    ],
)
def test_a_sick_posterior_gets_a_page_that_says_what_is_wrong(posterior, example, bare, tmp_path, of, sickness, said):
    sound, episodes = (posterior, example) if of == "example" else bare
    written = report(sick(sound, sickness), episodes, tmp_path / "sick.html", alpha=0.3, chosen=episodes.ids[:1])
    page = Page(written)
    assert "Do not trust it yet" in page.text
    assert said in page.text
    assert "verdict bad" in {attrs.get("class") for attrs in page.all("div")}
    assert "badge good" not in {attrs.get("class") for attrs in page.all("span")}
    assert [attrs["id"] for attrs in page.all("section") if attrs["id"] in PARTS] == list(PARTS)
    assert plt.get_fignums() == []
