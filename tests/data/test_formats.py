"""Files: what is written comes back, what is broken is refused, nothing is left half-written."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from strategies import dataset, datasets, episodes, quietly, steps_frame, tasks_frame

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import COUNTS, RESERVED
from bayes_tacit.errors import (
    FileFormatError,
    InvalidDataError,
    MissingDependencyError,
)

SUFFIXES = [".jsonl", ".parquet", ".nc", ".zarr"]
RECORD = {
    "episode": "a",
    "features": {"food": 1, "entities": 12},
    "cheap_success": False,
    "strong_success": True,
    "window": [1, 1],
    "diagnostics": [{"repeat": 0, "invalid": 1}, {"repeat": 1, "invalid": 0}],
}
OTHER = RECORD | {"episode": "b", "features": {"food": 0, "entities": 7}, "strong_success": False, "window": None}


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def listing(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# Round trips


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=datasets())
def test_round_trip_keeps_every_value(suffix, data, tmp_path):
    written = quietly(Episodes, data)
    path = tmp_path / f"episodes{suffix}"
    written.write(path)
    back = quietly(Episodes.read, path)
    xr.testing.assert_equal(back.dataset, written.dataset)
    assert {name: back.dataset[name].dtype for name in back.dataset.variables} == {
        name: written.dataset[name].dtype for name in written.dataset.variables
    }
    assert back.identical(written)
    assert back.fingerprint() == written.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=datasets())
def test_reading_in_chunks_gives_the_same_episodes(suffix, data, tmp_path):
    path = tmp_path / f"episodes{suffix}"
    written = quietly(Episodes, data)
    written.write(path)
    lazy = quietly(Episodes.read, path, chunks={"episode": 2})
    assert lazy.dataset["diagnostics"].chunks is not None
    assert lazy.identical(written)
    assert lazy.notes() == written.notes()
    xr.testing.assert_equal(lazy.load().dataset, written.dataset)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_numbers_that_are_hard_to_print_come_back_bit_for_bit(suffix, tmp_path):
    data = dataset()
    hard = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 2.0**53 + 2]
    data["features"][:, 0] = hard
    data["features"][:, 1] = [-0.0, 0.0, 1e15, -1e22]
    Episodes(data).write(tmp_path / f"e{suffix}")
    back = Episodes.read(tmp_path / f"e{suffix}").dataset["features"].values
    assert back.tobytes() == data["features"].values.tobytes()


@pytest.mark.parametrize("suffix", [".parquet", ".nc", ".zarr"])
def test_datetimes_come_back_where_they_can_be_held(suffix, tmp_path):
    data = dataset()
    data["when"] = ("episode", np.array(["2026-01-01T00:00:00.123456789", "NaT", "1999-12-31", "2000"], dtype="M8[ns]"))
    Episodes(data).write(tmp_path / f"e{suffix}")
    assert Episodes.read(tmp_path / f"e{suffix}").identical(Episodes(data))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_other_dims_and_attributes_come_back_from_array_formats(suffix, tmp_path):
    data = dataset().assign_coords(model=["small", "large"])
    data["cost"] = (("episode", "model"), np.arange(8.0).reshape(4, 2), {"units": "seconds"})
    data["lookup"] = ("model", [1, 2])
    data.attrs["origin"] = "unit test"
    Episodes(data).write(tmp_path / f"e{suffix}")
    back = Episodes.read(tmp_path / f"e{suffix}")
    assert back.identical(Episodes(data))
    assert back.dataset["cost"].attrs == {"units": "seconds"}
    assert back.dataset.attrs == {"origin": "unit test", "schema_version": 1}


# JSON Lines


def test_json_line_is_read_as_documented(tmp_path):
    extra = {"kind": "heat", "steps": [{"tokens": 5}, {"tokens": 7}]}
    path = write_lines(tmp_path / "e.jsonl", RECORD | extra, OTHER)
    read = Episodes.read(path)
    assert read.ids.tolist() == ["a", "b"]
    assert read.feature_names == ("food", "entities")
    assert read.diagnostic_names == ("repeat", "invalid")
    assert read.outcomes.tolist() == ["01", "00"]
    assert read.has_window.tolist() == [True, False]
    assert read.dataset["kind"].values.tolist() == ["heat", ""]
    np.testing.assert_array_equal(read.dataset["tokens"].values, [[5, 7], [np.nan, np.nan]])
    np.testing.assert_array_equal(read.dataset["diagnostics"].values[0], [[0, 1], [1, 0]])


def test_written_json_lines_look_as_documented(tmp_path):
    episodes().write(tmp_path / "e.jsonl")
    first, second = map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines()[:2])
    assert first == {
        "episode": "a",
        "features": {"food": 1, "entities": 12},
        "cheap_success": False,
        "strong_success": True,
        "window": [1, 2],
        "diagnostics": [{"repeat": 0, "invalid": 0.25}, {"repeat": 1, "invalid": 0}, {"repeat": 0, "invalid": 1}],
        "steps": [{"tokens": 0}, {"tokens": 1}, {"tokens": 2}],
        "kind": "heat",
    }
    assert "window" not in second


def test_json_lines_may_have_blank_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(RECORD).encode() + b"\n\n  \r\n" + json.dumps(OTHER).encode())
    assert len(Episodes.read(path)) == 2


def test_json_outcomes_and_numbers_may_be_booleans_or_0_and_1(tmp_path):
    record = RECORD | {"cheap_success": 0, "strong_success": 1, "features": {"food": True, "entities": 12}}
    read = Episodes.read(write_lines(tmp_path / "e.jsonl", record, OTHER))
    assert read.outcomes[0] == "01"
    assert read.dataset["features"].values[0].tolist() == [1.0, 12.0]


STEP = {"repeat": 0, "invalid": 1}
BAD_RECORDS = {
    "text id needed": ({"episode": 1.5}, ["episode is 1.5", "text or a whole number"]),
    "other id type": ({"episode": 7}, ["episode 7", "all text or all whole numbers"]),
    "repeated id": ({"episode": "a"}, ["episode 'a'", "does not repeat", "line 1"]),
    "number as text": ({"features": {"food": "1", "entities": 1}}, ["features['food'] is '1'", "a finite number"]),
    "feature absent": ({"features": {"food": 1}}, ["features['entities'] is missing", "['food', 'entities']"]),
    "feature too many": ({"features": {"food": 1, "entities": 1, "x": 4}}, ["features['x'] is 4", "same keys"]),
    "neither side": ({"strong_success": None, "cheap_success": None, "diagnostics": []}, ["neither side was played"]),
    "success without steps": ({"diagnostics": []}, ["diagnostics is []", "at least one step"]),
    "steps without an outcome": ({"cheap_success": None}, ["cheap_success is missing", "since there are diagnostics"]),
    "more successes than trials": (
        {"strong_successes": 4, "strong_trials": 3, "strong_success": True},
        ["strong_successes is 4", "at most strong_trials, which is 3"],
    ),
    "trials alone": ({"strong_trials": 3}, ["strong_successes is missing", "both"]),
    "counts that say otherwise": (
        {"strong_successes": 3, "strong_trials": 3, "strong_success": False},
        ["strong_success is False", "3 of 3 rollouts succeeded"],
    ),
    "mark without a rollout": (
        {"cheap_success": None, "diagnostics": [], "strong_success": True, "window": [0, 0]},
        ["window is [0, 0]", "no Cheap rollout"],
    ),
    "window of one": ({"window": [1]}, ["window is [1]", "two whole numbers"]),
    "negative": ({"diagnostics": [STEP, {"repeat": -1, "invalid": 0}]}, ["step 1", "['repeat'] is -1", ">= 0"]),
    "diagnostic absent": ({"diagnostics": [STEP, {"repeat": 0}]}, ["step 1", "['invalid'] is missing", "same keys"]),
    "carried list": ({"tags": ["x"]}, ["tags is ['x']", "a number, a text, true, false or null"]),
    "steps too short": ({"steps": [{}]}, ["length of steps is 1", "expected 2"]),
    "steps not objects": ({"steps": [1, 2]}, ["steps is 1", "an object"]),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_json_record_is_refused_with_line_episode_field_and_value(name, tmp_path):
    change, fragments = BAD_RECORDS[name]
    path = write_lines(tmp_path / "e.jsonl", RECORD, OTHER | change)
    with pytest.raises(InvalidDataError) as caught:
        Episodes.read(path)
    message = str(caught.value)
    for fragment in [*fragments, f"{path}:2" if name != "schema 0" else "e.jsonl"]:
        assert fragment in message
    if "episode" not in change and name != "schema 0":
        assert "episode 'b'" in message


@pytest.mark.parametrize("name", sorted(RESERVED - set(RECORD) - {"steps", "schema_version", *COUNTS}))
def test_reserved_key_of_a_record_is_refused(name, tmp_path):
    path = write_lines(tmp_path / "e.jsonl", RECORD, OTHER | {name: 0})
    with pytest.raises(InvalidDataError) as caught:
        Episodes.read(path)
    assert str(caught.value).startswith(
        f"episode 'b', {path}:2: key is {name!r}; expected a name other than the reserved"
    )


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_key_of_a_step_is_refused(name, tmp_path):
    path = write_lines(tmp_path / "e.jsonl", RECORD, OTHER | {"steps": [{}, {name: 0}]})
    with pytest.raises(InvalidDataError) as caught:
        Episodes.read(path)
    message = f"episode 'b', {path}:2: key of steps is {name!r}; expected a name other than the reserved"
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("place", ["record", "features", "diagnostics", "steps"])
@pytest.mark.parametrize("text", ["plain", "with: colons", 'quoted \\" : "'])
def test_repeated_key_is_refused_wherever_it_is(place, text, tmp_path):
    record = RECORD | {"kind": text, "steps": [{"action": text}, {"action": text}]}
    path = write_lines(tmp_path / "e.jsonl", record, OTHER)
    assert Episodes.read(path).dataset["kind"].values.tolist() == [text, ""]
    keys = {"record": '"kind"', "features": '"food"', "diagnostics": '"repeat"', "steps": '"action"'}
    line = json.dumps(record).replace(keys[place], f"{keys[place]}: 0, {keys[place]}", 1)
    path.write_text(f"{line}\n")
    with pytest.raises(FileFormatError, match=f":1 is not one JSON object: key '{keys[place][1:-1]}' is repeated"):
        Episodes.read(path)


BAD_LINES = {
    "empty file": (b"", "has no episode"),
    "not JSON": (b"episode: a\n", ":1 is not one JSON object"),
    "cut short": (json.dumps(RECORD).encode()[:-20], ":1 is not one JSON object.*cut short"),
    "not UTF-8": (json.dumps(RECORD).encode() + b'\n{"episode": "\xff"}', ":2 is not UTF-8"),
    "repeated key": (b'{"episode": "a", "episode": "b"}\n', ":1 .*'episode' is repeated"),
    "newer": (json.dumps(RECORD | {"schema_version": 2}).encode(), ":1 has schema_version 2, newer.*upgrade"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_file_that_is_not_json_lines_is_refused_with_its_line(name, tmp_path):
    content, match = BAD_LINES[name]
    (tmp_path / "e.jsonl").write_bytes(content)
    with pytest.raises(FileFormatError, match=match):
        Episodes.read(tmp_path / "e.jsonl")


# Parquet


def write_tables(folder: Path, tasks: pd.DataFrame, steps: pd.DataFrame) -> Path:
    folder.mkdir()
    tasks.to_parquet(folder / "tasks.parquet")
    steps.to_parquet(folder / "steps.parquet")
    return folder


def test_tables_of_another_tool_are_read_as_frames(tmp_path):
    path = write_tables(tmp_path / "e.parquet", tasks_frame(), steps_frame().sample(frac=1, random_state=0))
    assert Episodes.read(path).identical(Episodes.from_frames(tasks_frame(), steps_frame()))


def test_text_in_tables_of_another_tool_is_refused_with_advice_that_can_be_followed(tmp_path):
    tasks = tasks_frame().assign(kind="heat")
    path = write_tables(tmp_path / "e.parquet", tasks, steps_frame())
    with pytest.raises(InvalidDataError) as caught:
        Episodes.read(path)
    assert str(caught.value) == (
        f"episode 'a', in {path}: features['kind'] is 'heat'; expected a number; if this column is none of the "
        "features, read the tables with pandas and name those that are with Episodes.from_frames(tasks, steps, "
        "features=[...])"
    )
    tables = (pd.read_parquet(path / f"{name}.parquet") for name in ("tasks", "steps"))
    assert Episodes.from_frames(*tables, features=["food", "entities"]).dataset["kind"].values.tolist() == ["heat"] * 4


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_sided_and_repeated_rollouts_come_back_from_every_format(suffix, tmp_path):
    tasks = pd.DataFrame(
        {
            "episode": list("abcde"),
            "cheap_success": [0, 1, None, 0, 1],
            "strong_success": [1, None, 0, 1, 1],
            "strong_successes": [1, 0, 0, 2, 5],
            "strong_trials": [1, 0, 1, 3, 5],
            "window_start": [1, None, None, 0, None],
            "window_end": [1, None, None, 0, None],
            "task": list("ttuvw"),
            "food": [1.0, 1.0, 0.0, 2.0, 3.0],
        }
    )
    steps = pd.DataFrame({"episode": list("aabde"), "step": [0, 1, 0, 0, 0], "repeat": [0.0, 1, 2, 1, 1]})
    written = quietly(Episodes.from_frames, tasks, steps, features=["food"])
    written.write(tmp_path / f"e{suffix}")
    back = quietly(Episodes.read, tmp_path / f"e{suffix}")
    assert back.identical(written)
    assert back.outcomes.tolist() == ["01", "1-", "-0", "01", "11"]
    assert back.cheap_played.tolist() == [True, True, False, True, True]
    assert [counts.tolist() for counts in back.strong_counts] == [[1, 0, 0, 2, 5], [1, 0, 1, 3, 5]]
    again = quietly(Episodes.from_frames, *back.to_frames(), features=["food"], diagnostics=["repeat"])
    assert again.identical(written)
    assert back.pairs().ids.tolist() == ["a", "d", "e"]
    single = quietly(Episodes.from_frames, tasks.iloc[[1, 2]], steps.iloc[[2]], features=["food"])
    assert written.select(["b", "c"]).identical(single)


# Files that are not what they say


@pytest.mark.parametrize("name", ["e.csv", "e", "e.json", "e.nc.gz"])
def test_unknown_suffix_is_refused_with_the_known_ones(name, tmp_path):
    for act in (Episodes.read, episodes().write):
        with pytest.raises(FileFormatError, match=r"expected one of \.jsonl, \.parquet, \.nc, \.zarr"):
            act(tmp_path / name)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("chunks", [None, {"episode": 2}])
@pytest.mark.parametrize("variable", ["diagnostics", "cheap_success", "window_start", "kind"])
def test_zarr_store_with_a_missing_chunk_is_refused_rather_than_read_as_zeros(variable, chunks, tmp_path):
    path = tmp_path / "e.zarr"
    episodes().write(path)
    shutil.rmtree(path / variable / "c")
    with pytest.raises(FileFormatError, match=f"1 of the 1 chunks of '{variable}' are missing"):
        Episodes.read(path, chunks=chunks)


def test_zarr_store_of_zarr_2_is_read(tmp_path):
    plain = episodes().dataset.drop_vars(["kind", "tokens"])
    numbered = plain.assign_coords(episode=np.arange(4), feature=["food", "entities"], diagnostic=["repeat", "invalid"])
    numbered["feature"] = numbered["feature"].astype("U")
    numbered["diagnostic"] = numbered["diagnostic"].astype("U")
    numbered.to_zarr(tmp_path / "e.zarr", zarr_format=2, consolidated=False)
    assert Episodes.read(tmp_path / "e.zarr").identical(Episodes(numbered))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_bad_value_in_a_file_is_refused_with_file_episode_and_step(suffix, tmp_path):
    path = tmp_path / f"e{suffix}"
    bad = dataset()
    bad["diagnostics"][2, 3, 1] = -0.5
    bad.to_netcdf(path, engine="h5netcdf") if suffix == ".nc" else bad.to_zarr(path, consolidated=False)
    for chunks in (None, {"episode": 1}):
        with pytest.raises(InvalidDataError) as caught:
            Episodes.read(path, chunks=chunks)
        assert str(caught.value) == (
            f"episode 'c', step 3, in {path}: diagnostics['invalid'] is -0.5; expected a finite number >= 0"
        )


@pytest.mark.parametrize("suffix", [".jsonl"])
def test_chunks_are_refused_where_a_format_has_none(suffix, tmp_path):
    episodes().write(tmp_path / f"e{suffix}")
    with pytest.raises(InvalidDataError, match=r"chunks is \{'episode': 2\}; expected no chunks"):
        Episodes.read(tmp_path / f"e{suffix}", chunks={"episode": 2})


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (10, "chunks is 10; expected sizes by dim, such as {'episode': 1000}"),
        ({"episode": 0}, "chunks['episode'] is 0; expected a whole number >= 1"),
        ({"episode": 2.5}, "chunks['episode'] is 2.5; expected a whole number >= 1"),
    ],
)
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_odd_chunks_are_refused(suffix, chunks, message, tmp_path):
    episodes().write(tmp_path / f"e{suffix}")
    with pytest.raises(InvalidDataError) as caught:
        Episodes.read(tmp_path / f"e{suffix}", chunks=chunks)
    assert str(caught.value).startswith(message)


def test_chunks_without_dask_say_what_to_install(tmp_path, monkeypatch):
    episodes().write(tmp_path / "e.zarr")
    monkeypatch.setattr("bayes_tacit.data.formats.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bayes_tacit\[scale\]'"):
        Episodes.read(tmp_path / "e.zarr", chunks={"episode": 2})


# What a format cannot hold


def with_variable(name: str, dims: object, values: object) -> Episodes:
    data = dataset()
    data[name] = (dims, values)
    return Episodes(data)


TIMES = np.array(["2026-01-01"] * 4, dtype="M8[ns]")
UNHOLDABLE = {
    "other dims in JSON": (".jsonl", ("cost", ("episode", "model"), np.ones((4, 2))), "dims of cost"),
    "steps alone in Parquet": (".parquet", ("discount", "step", np.ones(4)), "dims of discount"),
    "datetimes in JSON": (".jsonl", ("when", "episode", TIMES), "when is dtype"),
    "infinity in JSON": (".jsonl", ("cost", "episode", np.array([1, 2, np.inf, 3])), "episode 'c': cost is inf"),
    "durations in Zarr": (".zarr", ("took", "episode", np.ones(4).astype("m8[s]")), "took is dtype"),
    "slash in netCDF": (".nc", ("a/b", "episode", np.ones(4)), "variable name is 'a/b'"),
}


@pytest.mark.parametrize("name", UNHOLDABLE)
def test_variable_that_a_format_cannot_hold_is_refused_before_writing(name, tmp_path):
    suffix, variable, match = UNHOLDABLE[name]
    with pytest.raises(InvalidDataError, match=f"{match}.*expected"):
        with_variable(*variable).write(tmp_path / f"e{suffix}")
    assert listing(tmp_path) == []


def test_attribute_that_a_file_cannot_hold_is_refused_and_nothing_is_left(tmp_path):
    data = dataset().assign_attrs(settings={"nested": 1})
    with pytest.raises(FileFormatError, match=r"e\.nc: netCDF cannot hold these episodes"):
        Episodes(data).write(tmp_path / "e.nc")
    assert listing(tmp_path) == []


# Atomic writing


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_again_replaces_the_old_content(suffix, tmp_path):
    path = tmp_path / f"e{suffix}"
    episodes().write(path)
    part = episodes().take([2, 1])
    part.write(path)
    assert quietly(Episodes.read, path).identical(part)
    assert listing(tmp_path) == [path.name]


@pytest.mark.parametrize("moment", ["first block", "last block", "moving into place"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_failure_while_writing_leaves_the_old_file_and_nothing_else(suffix, moment, tmp_path, monkeypatch):
    path = tmp_path / f"e{suffix}"
    episodes().write(path)
    broken: set[str] = set()

    def fail(*_):
        raise OSError("disk full")

    def read_block(values, block_info=None):
        place = block_info[0]["chunk-location"][0] if block_info else None
        return fail() if broken and place == (0 if moment == "first block" else 3) else values

    lazy = dataset().chunk(episode=1)
    lazy["diagnostics"] = lazy["diagnostics"].copy(data=lazy["diagnostics"].data.map_blocks(read_block, dtype=float))
    unreadable = Episodes(lazy)
    if moment == "moving into place":
        monkeypatch.setattr("bayes_tacit.files._flush", fail)
        monkeypatch.setattr("bayes_tacit.files._swap_folder", fail)
    else:
        broken.add(moment)
    with pytest.raises(OSError, match="disk full"):
        unreadable.write(path)
    assert listing(tmp_path) == [path.name]
    assert Episodes.read(path).identical(episodes())


@pytest.mark.parametrize("suffix", [".parquet", ".zarr"])
def test_folder_that_is_not_ours_is_never_overwritten(suffix, tmp_path):
    path = tmp_path / f"e{suffix}"
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileFormatError, match="exists and is not"):
        episodes().write(path)
    assert (path / "thesis.txt").read_text() == "years of work"
    assert listing(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_lazy_episodes_are_not_written_over_what_they_are_read_from(suffix, tmp_path):
    path = tmp_path / f"e{suffix}"
    episodes().write(path)
    lazy = Episodes.read(path, chunks={"episode": 2})
    with pytest.raises(FileFormatError, match="still read from"):
        lazy.take([0, 1]).write(path)
    lazy.take([0, 1]).load().write(path)
    assert quietly(Episodes.read, path).identical(episodes().take([0, 1]))
