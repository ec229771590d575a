"""A report of draws that went wrong: it says what is wrong, and what could not be made."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from pages import Page

from bayes_tacit.review.reporting import report
from bayes_tacit.review.reporting.write import PARTS


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
    ("sickness", "said"),
    [
        ("one chain", "There is one chain"),
        ("2 chains of 20 draws", "effective sample size"),
        ("3 draws", "too few for any diagnostic"),
        ("NaN draws", "s is NaN or infinite in 500 of 2000 draws"),
        ("all NaN", "beta0 is NaN or infinite in 2000 of 2000 draws"),
        ("stuck", "does not move in any chain"),
    ],
)
def test_a_sick_posterior_gets_a_page_that_says_what_is_wrong(posterior, example, tmp_path, sickness, said):
    tree = sick(posterior, sickness)
    page = Page(report(tree, example, tmp_path / "sick.html", alpha=0.3, chosen=["task-0001"]))
    assert "Do not trust it yet" in page.text
    assert said in page.text
    assert "verdict bad" in {attrs.get("class") for attrs in page.all("div")}
    assert "badge good" not in {attrs.get("class") for attrs in page.all("span")}
    assert [attrs["id"] for attrs in page.all("section") if attrs["id"] in PARTS] == list(PARTS)
    assert plt.get_fignums() == []
