"""The report is one sound HTML file, says what the checks say, and opens in a browser; also of sick draws."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from pages import CHROMIUM, Page, assert_sound, opened
from simulate import quietly, simulate_model

from bayes_tacit import (
    Episodes,
    crossing_probability,
    fit_map,
    judge,
    report,
    run_checks,
    sample_posterior,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.html import prose, render
from bayes_tacit.review.checks import check_sampler, headline
from bayes_tacit.review.reporting import PARTS, chosen_table, parameter_table, shown_episodes


@pytest.fixture(scope="module")
def results(posterior, example) -> list:
    return run_checks(posterior, example)


@pytest.fixture(scope="module")
def written(posterior, example, results, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert report(posterior, example, path, alpha=0.3, title="Which tasks <b>& when</b>", results=results) == path
    assert plt.get_fignums() == []
    return path


@pytest.fixture(scope="module")
def page(written) -> Page:
    return Page(written)


def test_the_page_is_sound_and_its_pictures_are_inline(page):
    assert_sound(page, PARTS)
    pictures = page.all("img")
    # Two forest plots, traces, ranks, energy, nine checks, six episodes.
    assert len(pictures) == 22
    for attrs in pictures:
        media, encoded = re.fullmatch(r"data:image/(svg\+xml|png);base64,(.+)", attrs["src"]).groups()
        content = base64.b64decode(encoded, validate=True)
        assert content.startswith(b"\x89PNG") if media == "png" else ET.fromstring(content).tag.endswith("svg")
        assert min(int(attrs["width"]), int(attrs["height"])) > 100


def test_pictures_wider_than_a_phone_are_there_a_second_time_as_wide_as_one(page):
    wide = [attrs for attrs in page.all("img") if int(attrs["width"]) > 500]
    # The energy's two panels are scrolled.
    assert len(page.all("source")) == len(wide) - 1 == 15
    for attrs in page.all("source"):
        assert int(attrs["width"]) == 360
        assert attrs["media"] == "screen and (max-width: 700px)"
        assert attrs["srcset"].startswith("data:image/")


def test_it_says_what_the_checks_say(page, results):
    for result in results:
        assert result.sentence in page.text
    assert headline(results).sentence in page.text
    assert "verdict good" in {attrs.get("class") for attrs in page.all("div")}
    assert "Nothing: no check gave a warning." in page.text
    assert "Which tasks <b>& when</b>" in page.text
    assert "<b>" not in page.content


def test_the_parameter_table_holds_means_and_intervals(posterior):
    table = parameter_table(posterior, judge(posterior).table)
    w = posterior["posterior"]["w"].sel(diagnostic="repeat").values.ravel()
    row = table.loc["w[repeat]"]
    assert row["mean"] == pytest.approx(w.mean())
    assert (row["lower"], row["upper"]) == pytest.approx(tuple(np.quantile(w, [0.05, 0.95])))
    assert len(table) == 13
    assert table.notna().all().all()


def test_the_default_episodes_differ(example):
    chosen = example.select(shown_episodes(example, None))
    assert chosen.outcomes.tolist() == ["01", "01", "01", "11", "11", "00"]
    assert chosen.has_window.tolist() == [True] * 3 + [False] * 3
    place = (chosen.dataset["window_start"].values / chosen.n_steps)[:3]
    assert place[0] < place[1] < place[2]


def test_the_handoff_of_an_episode_is_where_most_draws_have_crossed(posterior, example):
    some = example.select(shown_episodes(example, None))
    table = chosen_table(posterior, some, 0.3)
    crossing = crossing_probability(posterior, some, 0.3)
    for position, said in enumerate(table["likely handoff"]):
        by_step = crossing["by_step"].values[position]
        reached = np.flatnonzero(by_step >= 0.5)
        assert said == (f"step {reached[0]}" if reached.size else "never")


@pytest.fixture(scope="module")
def small() -> tuple[xr.DataTree, Episodes]:
    """Few tasks and few draws: a page in little time."""
    episodes = quietly(simulate_model(np.random.default_rng(4), 120, widest=1).dataset)
    return sample_posterior(episodes, draws=300, tune=300, chains=2, seed=1, cores=1, progress=False), episodes


def test_a_failing_posterior_is_said_to_be_so_at_the_top(small, tmp_path):
    """The sampler and the point estimate are off."""
    tree, episodes = small
    draws = tree["posterior"].to_dataset().copy(deep=True)
    draws["gamma0"][0] += 3.0
    off = tree.copy()
    off["posterior"] = xr.DataTree(draws)
    fit = fit_map(episodes, ridge=5.0)
    failing = Page(report(off, episodes, tmp_path / "failing.html", fit=fit, chosen=episodes.ids[:1]))
    assert "verdict bad" in {attrs.get("class") for attrs in failing.all("div")}
    assert "Do not trust these draws yet" in failing.text
    to_do = failing.text[failing.text.index("What to do") :]
    assert "R-hat of gamma0" in to_do
    assert "ridge of 5" in to_do
    assert "Failed" in failing.text


def test_names_may_hold_what_html_tex_and_paths_would_interpret(small, tmp_path):
    sound, given = small
    odd = [
        "$x^$",
        "a & <b>",
        "a long name " * 20,
        "\"q\"/'r'",
        r"$\frac{$",
        "<script>alert(1)</script>",
        "\u65e5\u672c",
    ]
    names = {
        "diagnostic": odd[: len(given.diagnostic_names)],
        "feature": odd[::-1][: len(given.feature_names)],
    }
    ids = [f"task/{number}<i>$_" for number in range(len(given))]
    tree = sound.copy()
    for group, dataset in sound.children.items():
        renamed = {name: labels for name, labels in names.items() if name in dataset.dims}
        if "episode" in dataset.dims:
            timed = sound["constant_data"]["timed_position"].values
            renamed |= {"episode": ids, "timed": [ids[position] for position in timed]}
        tree[group] = xr.DataTree(dataset.to_dataset().assign_coords(renamed))
    episodes = quietly(given.dataset.assign_coords(names | {"episode": ids}))
    page = Page(report(tree, episodes, tmp_path / "odd.html", alpha=0.3, chosen=ids[:2]))
    for name in [*names["diagnostic"], *names["feature"], *ids[:2]]:
        assert name in page.text
    assert {"i", "b", "script"}.isdisjoint(tag for tag, _ in page.tags)


def test_templates_escape_what_they_are_given():
    shown = render("plain_table.html", header=["<script>"], rows=[['"&']])
    assert "&lt;script&gt;" in shown
    assert "&#34;&amp;" in shown
    assert prose("<b> & `x<y`") == "&lt;b&gt; &amp; <code>x&lt;y</code>"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chosen": ["task-0001", "task-9"]}, r"chosen is \['task-9'\]; expected ids of the episodes, such as"),
        ({"chosen": [f"task-{number:04}" for number in range(41)]}, "number of chosen episodes is 41"),
        ({"alpha": 1.5}, r"alpha is 1\.5"),
        ({"tree": None}, "tree is None; expected a DataTree"),
        ({"tree": xr.DataTree()}, "expected a group 'posterior'"),
    ],
)
def test_unknown_ids_and_settings_are_refused(posterior, example, tmp_path, settings, message):
    with pytest.raises(InvalidDataError, match=message):
        report(**{"tree": posterior, "episodes": example, "path": tmp_path / "r.html"} | settings)
    with pytest.raises(InvalidDataError, match="number of episodes is 1199"):
        report(posterior, quietly(example.dataset.isel(episode=slice(1, None))), tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("report.pdf", FileFormatError, "expected .html or .htm"),
        ("folder.html", FileFormatError, "is a folder"),
        ("nowhere/report.html", MissingFileError, "no such folder"),
        ("old.html", FileFormatError, "exists; expected a new name"),
    ],
)
def test_paths_that_cannot_be_written_are_refused(posterior, example, tmp_path, name, error, message):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "old.html").write_text("old")
    with pytest.raises(error, match=message):
        report(posterior, example, tmp_path / name, overwrite=False)
    assert (tmp_path / "old.html").read_text() == "old"


def test_a_disk_that_is_full_leaves_the_old_file(small, tmp_path, monkeypatch):
    tree, episodes = small
    path = tmp_path / "report.html"
    path.write_text("old")

    def no_room(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(FileFormatError, match=r"cannot be written \(No space left on device\)"):
        report(tree, episodes, path, chosen=episodes.ids[:1], results=[check_sampler(tree)])
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize("width", [1366, 500])
def test_it_opens_in_chromium_without_errors_and_with_its_pictures(written, tmp_path, width):
    assert opened(written, tmp_path, width) == ("pictures 22 bad 0 wide false", [])


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


def test_a_model_without_features_or_learned_weights_gets_a_report_too(bare, tmp_path):
    tree, episodes = bare
    page = Page(report(tree, episodes, tmp_path / "bare.html", chosen=[0, 1]))
    assert_sound(page, PARTS)
    assert "fixed" in page.text
    assert "gamma[" not in page.text


def sick(tree: xr.DataTree, sickness: str) -> xr.DataTree:
    """Return a sound posterior the draws of a run that went wrong."""
    groups = {name: tree[name].to_dataset().copy(deep=True) for name in tree.children}
    sampled = [name for name, dataset in groups.items() if dataset.sizes.get("chain", 0) > 1]
    if sickness == "3 draws":
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
        ("bare", "3 draws", "too few for any diagnostic"),
        ("small", "NaN draws", "s is NaN or infinite in 300 of 600 draws"),
        ("small", "all NaN", "beta0 is NaN or infinite in 600 of 600 draws"),
        ("bare", "stuck", "does not move in any chain"),
    ],
)
def test_a_sick_posterior_gets_a_page_that_says_what_is_wrong(small, bare, tmp_path, of, sickness, said):
    sound, episodes = small if of == "small" else bare
    written = report(sick(sound, sickness), episodes, tmp_path / "sick.html", alpha=0.3, chosen=episodes.ids[:1])
    page = Page(written)
    assert "Do not trust it yet" in page.text
    assert said in page.text
    assert "verdict bad" in {attrs.get("class") for attrs in page.all("div")}
    assert "badge good" not in {attrs.get("class") for attrs in page.all("span")}
    assert_sound(page, PARTS)
    assert plt.get_fignums() == []
