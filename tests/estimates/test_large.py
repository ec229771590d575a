"""Data that are read, fitted and scored a piece at a time give what they give as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from simulate import simulate_model

from bayes_tacit import Episodes, MapFit, decisive_scores, fit_map
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.estimates import objective

pytest.importorskip("dask")


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return simulate_model(np.random.default_rng(12), 700, widest=1)


@pytest.fixture(scope="module")
def folder(episodes: Episodes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "episodes.parquet"
    episodes.write(path)
    return path


def assert_same(one: MapFit, other: MapFit) -> None:
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s", "objective"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, err_msg=name)
    for name, errors in one.standard_errors.items():
        np.testing.assert_allclose(errors, other.standard_errors[name], rtol=1e-7, err_msg=name)


def test_a_fit_by_pieces_is_the_fit(episodes, monkeypatch):
    whole = fit_map(episodes, restarts=2)
    floored = fit_map(episodes, restarts=2, floor=0.05)
    monkeypatch.setattr(objective, "PIECE", 37)
    assert_same(fit_map(episodes, restarts=2), whole)
    assert_same(fit_map(episodes, restarts=2, floor=0.05), floored)


@pytest.mark.parametrize("size", [1, 64, 10_000])
@pytest.mark.parametrize("suffix", [".parquet", ".zarr"])
def test_episodes_that_stay_on_disk_give_the_same_fit_and_scores(episodes, suffix, size, tmp_path):
    if size == 1:
        episodes = episodes.take(slice(0, 40))
    path = tmp_path / f"episodes{suffix}"
    episodes.write(path)
    lazy = Episodes.read(path, chunks={"episode": size})
    assert lazy.dataset["diagnostics"].chunks is not None
    xr.testing.assert_identical(lazy.load().dataset, Episodes.read(path).dataset)
    fit = fit_map(lazy, restarts=1)
    assert_same(fit, fit_map(episodes, restarts=1))
    np.testing.assert_allclose(decisive_scores(fit, lazy), decisive_scores(fit, episodes), rtol=1e-12)


def test_a_cluster_of_two_workers_gives_the_same_fit(episodes, folder):
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings) as cluster, Client(cluster):
        assert_same(fit_map(Episodes.read(folder, chunks={"episode": 100}), restarts=1), fit_map(episodes, restarts=1))


def test_steps_that_cannot_be_read_in_chunks_are_refused(episodes, folder, tmp_path):
    frame = pq.read_table(folder / "steps.parquet")
    path = tmp_path / "other.parquet"
    for changed, message in (
        (frame.take(np.arange(len(frame))[::-1]), "not in the order of the tasks"),
        (frame.slice(1), "not 0, 1, 2"),
    ):
        episodes.write(path)
        pq.write_table(changed, path / "steps.parquet")
        with pytest.raises(FileFormatError, match=message):
            Episodes.read(path, chunks={"episode": 50})
    carried = episodes.dataset.assign(note=(("episode", "step"), np.zeros((len(episodes), episodes.horizon))))
    Episodes(carried).write(path)
    with pytest.raises(InvalidDataError, match=r"columns of steps is \['note'\]; expected no column that is carried"):
        Episodes.read(path, chunks={"episode": 50})
