"""Plots draw the numbers that they stand for, legibly, on a page and on a phone."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from posteriors import random_posterior

from bayes_tacit import credible_band, fit_map, handoff_score, incidence, judge, run_checks
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_result import weight_interval
from bayes_tacit.review.plots import (
    crossed_by_step,
    incidence_calibration,
    plot_calibration,
    plot_crossing_steps,
    plot_handoff_score,
    plot_handoff_scores,
    plot_weights,
)
from bayes_tacit.review.reporting import _draw_others, _draw_ranks, parameter_table
from bayes_tacit.review.style import NARROW, WIDE, lazily, narrowly, regridded

WITH_WINDOW = "task-0001"
WITHOUT_WINDOW = "task-0000"


@pytest.fixture(autouse=True)
def closed_figures(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def tree(example):
    return random_posterior(np.random.default_rng(1), example, chains=2, draws=50)


def labelled(ax):
    handles, labels = ax.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def outline(band):
    """Lower and upper edge of a filled band, from its polygon."""
    x, y = band.get_paths()[0].vertices.T
    return np.array([(y[x == t].min(), y[x == t].max()) for t in np.unique(x)]).T


def shown_texts(figure):
    """Every text that is drawn, with its place; Matplotlib keeps tick labels beyond the axes without drawing them."""
    FigureCanvasAgg(figure).draw()
    hidden = set()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = [text for text in figure.findobj(mpl.text.Text) if text.get_text().strip() and text.get_visible()]
    return [(text, text.get_window_extent()) for text in texts if text not in hidden]


def fits_in_its_figure(figure):
    """Whether no text leaves the figure and no two texts overlap."""
    boxes = [box for _, box in shown_texts(figure)]
    width, height = figure.bbox.max
    inside = all(box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1 for box in boxes)
    return inside and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_fits_score_is_drawn_with_its_ceiling(example, example_fit):
    ax = plot_handoff_score(example_fit, example, WITHOUT_WINDOW)
    n = int(example.n_steps[0])
    parts = labelled(ax)
    assert set(parts) == {"q(t)", r"incidence $\pi$"}
    np.testing.assert_array_equal(parts["q(t)"].get_ydata(), handoff_score(example_fit, example).values[0, :n])
    np.testing.assert_array_equal(parts["q(t)"].get_xdata(), np.arange(n))
    assert set(parts[r"incidence $\pi$"].get_ydata()) == {float(incidence(example_fit, example)[0])}
    assert ax.get_xlabel() == "step (checkpoints, counted from 0)"
    assert ax.get_ylabel() == "handoff score q(t) (probability)"
    assert ax.get_title(loc="left") == WITHOUT_WINDOW
    assert ax.get_ylim() == (0, 1)


def test_a_posteriors_score_is_drawn_as_its_mean_inside_its_band(example, tree):
    ax = plot_handoff_score(tree, example, WITH_WINDOW, probability=0.8)
    band = credible_band(tree, example.select([WITH_WINDOW]), probability=0.8).isel(episode=0)
    parts = labelled(ax)
    np.testing.assert_array_equal(parts["mean of q(t)"].get_ydata(), band["mean"])
    lower, upper = outline(parts["80% band"])
    np.testing.assert_allclose(lower, band["lower"])
    np.testing.assert_allclose(upper, band["upper"])
    ceiling = float(incidence(tree, example).sel(episode=WITH_WINDOW).mean())
    assert parts[r"incidence $\pi$"].get_ydata()[0] == pytest.approx(ceiling)


def test_the_first_crossing_is_marked_where_the_score_reaches_alpha(example, example_fit):
    ax = plot_handoff_score(example_fit, example, WITH_WINDOW, alpha=0.3)
    q = handoff_score(example_fit, example).sel(episode=WITH_WINDOW).values
    step = int(np.argmax(q >= 0.3))
    parts = labelled(ax)
    assert set(parts[r"$\alpha$ = 0.3"].get_ydata()) == {0.3}
    assert parts["first crossing"].get_xdata().tolist() == [step]
    assert parts["first crossing"].get_ydata().tolist() == [q[step]]
    assert "first crossing" not in labelled(plot_handoff_score(example_fit, example, WITH_WINDOW, alpha=0.99))
    assert r"$\alpha$ = 0.352" in labelled(plot_handoff_score(example_fit, example, WITH_WINDOW, alpha=0.351628))


def test_the_teacher_window_is_shaded_at_its_checkpoints(example, example_fit):
    row = example.select([WITH_WINDOW]).dataset.isel(episode=0)
    first, last = float(row["window_start"]), float(row["window_end"])
    window = labelled(plot_handoff_score(example_fit, example, WITH_WINDOW))["teacher window"]
    assert (window.get_x(), window.get_x() + window.get_width()) == (first - 0.5, last + 0.5)
    proposal = fit_map(example, timing="proposal", restarts=1)
    shifted = labelled(plot_handoff_score(proposal, example, WITH_WINDOW))["teacher window"]
    assert shifted.get_x() == window.get_x() + 1


def test_small_multiples_draw_each_episode_in_its_own_panel(example, tree):
    ids = example.ids[[4, 2, 7, 0]].tolist()
    figure = plot_handoff_scores(tree, example, ids, alpha=0.3, columns=3)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ids
    band = credible_band(tree, example.select(ids))
    for i, ax in enumerate(figure.axes):
        n = int(example.select([ids[i]]).n_steps[0])
        np.testing.assert_array_equal(labelled(ax)["mean of q(t)"].get_ydata(), band["mean"].values[i, :n])
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {label for ax in figure.axes for label in labelled(ax)}
    assert figure.get_supxlabel() == "step (checkpoints, counted from 0)"
    assert figure.get_supylabel() == "handoff score q(t) (probability)"
    assert len(plot_handoff_scores(tree, example).axes) == 9


def test_weights_of_a_posterior_are_drawn_with_their_intervals(example, tree):
    parts = labelled(ax := plot_weights(tree, probability=0.5))
    w = tree["posterior"]["w"].values.reshape(100, 4)
    np.testing.assert_allclose(parts["posterior mean"].get_xdata(), w.mean(axis=0))
    segments = np.array([[start[0], end[0]] for start, end in parts["50% interval"].get_segments()])
    np.testing.assert_allclose(segments.T, np.quantile(w, [0.25, 0.75], axis=0))
    assert [label.get_text() for label in ax.get_yticklabels()] == list(example.diagnostic_names)
    assert set(parts["equal weights"].get_xdata()) == {0.25}


def test_weights_of_a_fit_are_drawn_with_the_intervals_of_its_table(example, example_fit):
    parts = labelled(plot_weights(example_fit, probability=0.95))
    np.testing.assert_array_equal(parts["estimate"].get_xdata(), example_fit.w)
    segments = np.array([[start[0], end[0]] for start, end in parts["95% interval"].get_segments()])
    errors = example_fit.standard_errors["w"]
    np.testing.assert_allclose(segments.T, weight_interval(example_fit.w, errors), rtol=1e-6)
    fixed = fit_map(example, weights=[0.7, 0.1, 0.1, 0.1])
    parts = labelled(plot_weights(fixed))
    np.testing.assert_array_equal(parts["estimate"].get_xdata(), fixed.w)


def test_calibration_draws_its_table(example, example_fit):
    ax = plot_calibration(example_fit, example, bins=6, probability=0.8)
    table = incidence_calibration(example_fit, example, bins=6, probability=0.8)
    points, _, (bars,) = labelled(ax)["observed, 80% interval"]
    np.testing.assert_array_equal(points.get_xdata(), table["predicted"])
    np.testing.assert_array_equal(points.get_ydata(), table["observed"])
    ends = np.array([[start[1], end[1]] for start, end in bars.get_segments()])
    np.testing.assert_allclose(ends, table[["lower", "upper"]])
    smallest, largest = table["episodes"].min(), table["episodes"].max()
    assert ax.get_title(loc="left") == f"6 bins of {smallest} to {largest} episodes"
    assert ax.get_ylabel() == "share of episodes where Strong succeeds"


def test_crossing_steps_draw_their_table(example, example_fit):
    ax = plot_crossing_steps(example_fit, example, replicates=30, seed=3)
    table = crossed_by_step(example_fit, example, replicates=30, seed=3)
    parts = labelled(ax)
    for label, column in (
        ("predicted mean", "predicted"),
        ("window has begun", "began"),
        ("window has ended", "ended"),
    ):
        np.testing.assert_array_equal(parts[label].get_ydata(), table[column])
    lower, upper = outline(parts["predicted, 90% interval"])
    np.testing.assert_allclose(lower, table["lower"])
    np.testing.assert_allclose(upper, table["upper"])
    assert ax.get_xlabel() == "step (checkpoints, counted from 0)"


FIGURES = {
    "score": lambda fitted, episodes, ax: plot_handoff_score(fitted, episodes, episodes.ids[1], alpha=0.3, ax=ax),
    "weights": lambda fitted, _, ax: plot_weights(fitted, ax=ax),
    "calibration": lambda fitted, episodes, ax: plot_calibration(fitted, episodes, ax=ax),
    "crossing": lambda fitted, episodes, ax: plot_crossing_steps(fitted, episodes, replicates=3, ax=ax),
}


@pytest.mark.parametrize("name", FIGURES)
def test_given_axes_are_drawn_on_and_returned(example, example_fit, name):
    _, ax = plt.subplots()
    assert FIGURES[name](example_fit, example, ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_off_or_overlaps(example, tree, name):
    long_names = example.dataset.assign_coords(
        episode=[f"alfworld/valid_unseen/pick_and_place_simple-Mug-None-Desk-308/trial_T2019_{i}" for i in range(1200)],
    )
    with pytest.warns(UserWarning, match="window"):
        episodes = type(example)(long_names)
    assert fits_in_its_figure(FIGURES[name](tree, episodes, None).figure)
    if name == "score":
        assert fits_in_its_figure(plot_handoff_scores(tree, episodes, alpha=0.3))
        assert fits_in_its_figure(plot_handoff_scores(tree, episodes, episodes.ids[:1]))


def test_what_cannot_be_drawn_is_refused(example, example_fit):
    with pytest.raises(InvalidDataError, match="expected an id of these 1200 episodes"):
        plot_handoff_score(example_fit, example, "task-9999")
    with pytest.raises(InvalidDataError, match=r"alpha is 1.5; expected a number above 0 and at most 1"):
        plot_handoff_score(example_fit, example, WITH_WINDOW, alpha=1.5)
    with pytest.raises(InvalidDataError, match="number of episodes to draw is 50; expected at most 40"):
        plot_handoff_scores(example_fit, example, example.ids[:50])
    with pytest.raises(InvalidDataError, match="columns is 0; expected a whole number >= 1"):
        plot_handoff_scores(example_fit, example, columns=0)
    with pytest.raises(InvalidDataError, match="probability is 2; expected a number between 0 and 1"):
        plot_weights(example_fit, probability=2)
    with pytest.raises(InvalidDataError, match="expected a group 'posterior'"):
        plot_weights(xr.DataTree())


@pytest.fixture(scope="module")
def drawn(posterior, example) -> dict:
    results = {result.name: result.figure for result in run_checks(posterior, example) if result.figure}
    return results | {"parameters": lazily(_draw_others, parameter_table(posterior, judge(posterior).table))}


def test_on_a_phone_no_text_of_a_check_is_cut_off_at_the_sides(drawn):
    for name, draw in drawn.items():
        with narrowly():
            figure = draw()
        assert (figure.get_figwidth(), draw().get_figwidth()) == (NARROW, WIDE), name
        texts = shown_texts(figure)
        assert len(texts) > 4
        for text, box in texts:
            assert box.x0 >= -1, (name, text.get_text())
            assert box.x1 <= figure.bbox.width + 1, (name, text.get_text())
        panels = [axis.get_window_extent() for axis in figure.axes if axis.axison]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(panels, 2))


def test_rank_plots_have_one_scale_that_is_written_and_keep_it_on_a_phone(tree):
    figure = lazily(_draw_ranks, tree)()
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
