"""Figures of the report as a phone shows them."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from posteriors import random_posterior

from bayes_tacit.review.plots import checks, posterior
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.review.plots.widths import NARROW, WIDE, narrowly, regridded

NAMES = ["gamma0", "gamma[needs_tool]", "place in the threshold's distribution", "w[uncertainty]"]


@pytest.fixture(autouse=True)
def closed_figures():
    with mpl.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def tree(example):
    return random_posterior(np.random.default_rng(1), example, chains=2, draws=50)


def rows(**columns: float) -> pd.DataFrame:
    return pd.DataFrame({name: np.linspace(0.5, 1, 4) * size for name, size in columns.items()}, index=NAMES)


def by_bins(**columns: float) -> pd.DataFrame:
    return rows(**columns).assign(
        by=["predicted pi", "predicted pi", "entities", "place in the threshold's distribution"]
    )


SHARES = {"position": 1, "lower": 0.2, "upper": 0.9, "predicted": 0.5, "observed_least": 0.4, "observed_most": 0.6}
DRAWN = {
    "sampler": lambda: checks.draw_sampler(rows(rhat=1.002, ess_bulk=8000, ess_tail=4000), 1.01, 400),
    "map": lambda: checks.draw_map_agreement(rows(z=0.3), 1.73),
    "prior": lambda: checks.draw_prior_sensitivity(rows(prior=0.01, likelihood=0.1), 0.05),
    "coefficients": lambda: posterior.draw_coefficients(rows(mean=0.5, lower=0.2, upper=1)),
    "structure": lambda: checks.draw_structure(by_bins(z=3), 3.9),
    "incidence": lambda: checks.draw_incidence(
        by_bins(middle=0.9, predicted=0.5, lower=0.3, upper=0.8, observed=0.6), "predicted pi"
    ),
    "crossing": lambda: checks.draw_crossing_steps(rows(**SHARES), pd.Series([0.01, -0.01], index=[0.3, 0.6]), 0.02),
}


def shown_texts(figure):
    """Every text that is drawn, with its place; ticks beyond the axes are kept by Matplotlib, and not drawn."""
    FigureCanvasAgg(figure).draw()
    hidden = set()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = [text for text in figure.findobj(mpl.text.Text) if text.get_text().strip() and text.get_visible()]
    return [(text, text.get_window_extent()) for text in texts if text not in hidden]


@pytest.mark.parametrize("name", DRAWN)
def test_on_a_phone_no_text_is_cut_off_at_the_sides(name):
    with narrowly():
        figure = lazily(DRAWN[name])()
    assert figure.get_figwidth() == NARROW
    texts = shown_texts(figure)
    assert len(texts) > 4
    for text, box in texts:
        assert box.x0 >= -1, text.get_text()
        assert box.x1 <= figure.bbox.width + 1, text.get_text()
    panels = [axis.get_window_extent() for axis in figure.axes if axis.axison]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(panels, 2))


def test_outside_of_a_phone_figures_are_as_wide_as_the_page():
    assert lazily(DRAWN["sampler"])().get_figwidth() == WIDE


def test_rank_plots_have_one_scale_that_is_written_and_keep_it_on_a_phone(tree):
    figure = lazily(posterior.draw_ranks, tree)()
    panels = [axis for axis in figure.axes if axis.lines]
    assert len(panels) == 13
    figure.canvas.draw()
    departures = [np.abs(line.get_ydata()).max() for axis in panels for line in axis.lines]
    assert len({axis.get_ylim() for axis in panels}) == 1
    assert max(departures) <= panels[0].get_ylim()[1] <= 2 * max(departures)
    for axis in panels:
        assert len([label for label in axis.get_yticklabels() if label.get_text()]) >= 3
        assert [text.get_text()[:4] for text in axis.texts] == ["p = "]
    height = panels[0].get_window_extent().height
    narrow = regridded(figure)
    narrow.canvas.draw()
    assert narrow.get_figwidth() == NARROW
    columns = {round(axis.get_window_extent().x0) for axis in narrow.axes}
    assert len(columns) == 2
    assert panels[0].get_window_extent().height > 0.7 * height
