"""Files with arrays: nothing from other files, nothing that runs, nothing half."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr
from posteriors import random_posterior

from bayes_tacit import Counterfactuals, Episodes, load_posterior, save_posterior
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.scores.score import handoff_score


@pytest.fixture
def posterior(example):
    return make_posterior(example)


@pytest.fixture(scope="module")
def saved(example, tmp_path_factory):
    """The same in a file."""
    path = tmp_path_factory.mktemp("saved") / "p.nc"
    save_posterior(make_posterior(example), path)
    return path


def make_posterior(example):
    """Return a tree that can be written, as the sampler gives it."""
    tree = random_posterior(np.random.default_rng(1), example)
    for name in ("sample_stats", "observed_data"):
        tree[name] = tree["posterior"].to_dataset()[["s"]]
    tree.attrs |= {"format": "bayes_tacit.posterior", "schema_version": 1, "prior": "{}", "sampler": "nutpie"}
    tree.attrs |= {"draws": 5, "tune": 5, "chains": 2, "seed": 1, "target_accept": 0.9, "data_fingerprint": "0" * 64}
    tree.attrs |= {"created_at": "2026-01-01", "verdict_reasons": "[]", "clock": 0, "memory": 1.0}
    return tree


def change(path, group, name, values):
    """Put other numbers into a netCDF file, as another program would."""
    with h5py.File(path, "r+") as file:
        file[group][name][...] = values(file[group][name][...])


@pytest.mark.parametrize("link", [h5py.SoftLink("/n_steps"), h5py.ExternalLink("other.nc", "/x")])
def test_netcdf_with_links_is_refused(example, tmp_path, link):
    example.write(tmp_path / "e.nc")
    with h5py.File(tmp_path / "e.nc", "r+") as file:
        file["more"] = link
    for read in (Episodes.read, load_posterior, Counterfactuals.read):
        with pytest.raises(FileFormatError, match="'more' is a link"):
            read(tmp_path / "e.nc")


@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle", "json2", "my.codec"])
def test_zarr_packed_by_a_codec_that_may_run_code_is_refused(example, tmp_path, codec):
    example.write(tmp_path / "e.zarr")
    described = tmp_path / "e.zarr" / "n_steps" / "zarr.json"
    content = json.loads(described.read_text())
    content["codecs"].append({"name": codec})
    described.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="is packed by"):
        Episodes.read(tmp_path / "e.zarr")


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_posterior_comes_back_as_it_was(posterior, tmp_path, suffix):
    save_posterior(posterior, tmp_path / f"p.{suffix}")
    back = load_posterior(tmp_path / f"p.{suffix}")
    assert back["posterior"].to_dataset().identical(posterior["posterior"].to_dataset())
    assert back.attrs == posterior.attrs


def test_a_posterior_with_a_chunk_missing_is_refused(posterior, tmp_path):
    posterior["sample_stats"] = posterior["sample_stats"].to_dataset().assign(none=("chain", np.zeros(2)))
    save_posterior(posterior, tmp_path / "p.zarr")
    load_posterior(tmp_path / "p.zarr")
    shutil.rmtree(tmp_path / "p.zarr" / "posterior" / "s" / "c")
    with pytest.raises(FileFormatError, match=r"p\.zarr is cut short: 1 of the 1 chunks of posterior/s are missing"):
        load_posterior(tmp_path / "p.zarr")


@pytest.mark.parametrize("content", ["thesis.txt", "zarr.json"])
def test_a_posterior_does_not_take_the_place_of_a_folder_of_other_things(posterior, example, tmp_path, content):
    other = tmp_path / "x.zarr"
    other.mkdir()
    (other / content).write_text("mine")
    with pytest.raises(FileFormatError, match=r"x\.zarr exists and is not a posterior in Zarr; it is left as it is"):
        save_posterior(posterior, other)
    assert (other / content).read_text() == "mine"
    shutil.rmtree(other)
    example.write(other)
    with pytest.raises(FileFormatError, match="it is left as it is"):
        save_posterior(posterior, other)
    shutil.rmtree(other)
    save_posterior(posterior, other)
    save_posterior(posterior, other)
    load_posterior(other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("family", "normal"),
        ("timing", ""),
        ("memory", 2.0),
        ("clock", 7),
        ("schema_version", 0),
        ("format", 5),
        ("tune", 0),
        ("seed", -1),
        ("target_accept", float("nan")),
        ("zero_mass", "floor"),
        ("design", 3),
        ("prior", 7),
        ("interrupted", "no"),
    ],
)
def test_a_posterior_file_with_a_wrong_attribute_is_refused_by_name(saved, tmp_path, name, value):
    shutil.copy(saved, tmp_path / "p.nc")
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        file.attrs.pop(name, None)
        if value is not None:
            file.attrs[name] = value
    with pytest.raises(FileFormatError, match=rf"p\.nc: {name} is "):
        load_posterior(tmp_path / "p.nc")


@pytest.mark.parametrize("value", [np.nan, 0.0, -1.0, np.inf])
def test_a_scale_that_cannot_divide_is_refused_in_files_and_in_memory(posterior, example, tmp_path, value):
    posterior["constant_data"]["feature_scale"][0] = value
    save_posterior(posterior, tmp_path / "p.nc")
    with pytest.raises(FileFormatError, match=r"p\.nc: feature scale\[0\] is .*; expected a "):
        load_posterior(tmp_path / "p.nc")
    with pytest.raises(InvalidDataError, match="feature scale"):
        handoff_score(posterior, example)


SMALL = """
import resource, signal, sys
from bayes_tacit import load_example, load_posterior, save_posterior
source, target = sys.argv[1:]
given = {"e.zarr": load_example().write, "p.nc": lambda path: save_posterior(tree, path)}
tree = load_posterior(source)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
for name, write in given.items():
    try:
        write(f"{target}/{name}")
    except OSError as error:
        print("OSError", error)
"""


def test_a_limit_of_file_size_is_one_clear_error_and_leaves_nothing(saved, tmp_path):
    command = [sys.executable, "-c", SMALL, str(saved), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert [line[:7] for line in run.stdout.splitlines()] == ["OSError"] * 2, run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_posterior_file_that_another_program_changed_is_refused(saved, tmp_path):
    shutil.copy(saved, tmp_path / "p.nc")
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        file.attrs["seed"] = 2
    with pytest.raises(FileFormatError, match=r"p\.nc: fingerprint is '\w{64}'; expected the digest of its content"):
        load_posterior(tmp_path / "p.nc")
    for group, name in (("posterior", "gamma0"), ("constant_data", "feature_mean"), ("sample_stats", "s")):
        shutil.copy(saved, tmp_path / "p.nc")
        change(tmp_path / "p.nc", group, name, lambda values: values * 1.001)
        with pytest.raises(FileFormatError, match="it was changed after it was saved"):
            load_posterior(tmp_path / "p.nc")


WRONG_DRAWS = {
    "s": (0.0, np.nan, -1.0, np.inf),
    "gamma0": (np.nan, -np.inf),
    "beta": (np.nan,),
    "w": (-0.1, np.nan, 7.0),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG_DRAWS.items() for value in values])
def test_draws_that_no_score_can_take_are_refused_by_name_unless_any_will_do(posterior, tmp_path, name, value):
    posterior["posterior"][name][1, 2] = value
    save_posterior(posterior, tmp_path / "p.nc")
    with pytest.raises(FileFormatError, match=rf"p\.nc: .*{name}(\[.*)? is "):
        load_posterior(tmp_path / "p.nc")
    load_posterior(tmp_path / "p.nc", finite=False)


def without(dataset, *names):
    return dataset.drop_vars(names)


WRONG_GROUPS = {
    "no w": ("posterior", lambda group: without(group, "w"), "'w' with dim 'diagnostic' among them"),
    "no s": ("posterior", lambda group: without(group, "s"), "'s' among them"),
    "no names": ("posterior", lambda group: without(group, "diagnostic"), "coordinate 'diagnostic' is None"),
    "weights": ("posterior", lambda group: group.assign(w=group["w"] / 2), r"sum of w\[0\] is 0"),
    "other features": (
        "posterior",
        lambda group: group.assign_coords(feature=["a", "b", "c"]),
        r"features of posterior is \['a', 'b', 'c'\]",
    ),
    "no scale": ("constant_data", lambda group: without(group, "feature_scale"), "'feature_scale' with dim 'feature'"),
    "no mean": ("constant_data", lambda group: without(group, "feature_mean"), "'feature_mean' with dim 'feature'"),
    "text": ("posterior", lambda group: group.assign(w=group["w"].astype(str)), r"posterior\['w'\] is"),
}


@pytest.mark.parametrize("name", WRONG_GROUPS)
def test_a_group_without_what_scores_need_is_refused(posterior, tmp_path, name):
    group, altered, said = WRONG_GROUPS[name]
    tree = xr.DataTree.from_dict(
        {each: posterior[each].to_dataset() for each in posterior.children}
        | {group: altered(posterior[group].to_dataset())}
    )
    tree.attrs = posterior.attrs
    save_posterior(tree, tmp_path / "p.nc")
    with pytest.raises(FileFormatError, match=rf"p\.nc: .*{said}"):
        load_posterior(tmp_path / "p.nc")
    if name != "weights":
        with pytest.raises(FileFormatError, match=rf"p\.nc: .*{said}"):
            load_posterior(tmp_path / "p.nc", finite=False)
