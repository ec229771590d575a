"""The container: what it holds, how it is looked at, how it is taken apart."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dataset, datasets, episodes, quietly, steps_frame, tasks_frame

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.validation import DiagnosticSummary, FeatureSummary, Spread
from bayes_tacit.errors import InvalidDataError, TacitWarning


def test_properties_tell_what_is_there():
    made = episodes()
    assert len(made) == 4
    assert made.ids.tolist() == ["a", "b", "c", "d"]
    assert made.feature_names == ("food", "entities")
    assert made.diagnostic_names == ("repeat", "invalid")
    assert made.horizon == 4
    assert made.n_steps.tolist() == [3, 1, 4, 2]
    assert made.outcomes.tolist() == ["01", "00", "11", "10"]
    assert made.has_window.tolist() == [True, False, False, False]


def test_dataset_has_the_documented_dims_dtypes_and_padding():
    data = episodes().dataset
    described = {name: (array.dims, array.dtype) for name, array in data.variables.items()}
    assert described == {
        "episode": (("episode",), object),
        "step": (("step",), np.int64),
        "feature": (("feature",), object),
        "diagnostic": (("diagnostic",), object),
        "features": (("episode", "feature"), np.float64),
        "diagnostics": (("episode", "step", "diagnostic"), np.float64),
        "n_steps": (("episode",), np.int64),
        "cheap_success": (("episode",), np.bool_),
        "strong_success": (("episode",), np.bool_),
        "window_start": (("episode",), np.float64),
        "window_end": (("episode",), np.float64),
        "kind": (("episode",), object),
        "tokens": (("episode", "step"), np.int64),
    }
    np.testing.assert_array_equal(
        np.isnan(data["diagnostics"].values).all(axis=2), np.arange(4) >= data["n_steps"].values[:, None]
    )
    assert data["tokens"].values.tolist() == [[0, 1, 2, 0], [4, 0, 0, 0], [8, 9, 10, 11], [12, 13, 0, 0]]
    assert data.attrs["schema_version"] == 1


@pytest.mark.parametrize(
    "dtypes",
    [
        {"cheap_success": int, "strong_success": float},
        {"cheap_success": object, "strong_success": "int8"},
        {"n_steps": float, "features": "float32", "diagnostics": object},
        {"n_steps": "uint8", "window_start": object, "window_end": "float32"},
    ],
)
def test_other_dtypes_with_the_same_values_make_the_same_episodes(dtypes):
    data = dataset()
    assert Episodes(data.assign({name: data[name].astype(dtype) for name, dtype in dtypes.items()})).identical(
        episodes()
    )


def test_order_of_dims_and_extra_steps_make_no_difference():
    data = dataset().transpose("diagnostic", "step", "feature", "episode").pad(step=(0, 3), constant_values=0)
    made = Episodes(data.drop_vars("step"))
    assert made.horizon == 4
    assert made.identical(episodes())


def test_no_features_are_fine():
    made = Episodes.from_frames(tasks_frame().drop(columns=["food", "entities"]), steps_frame())
    assert made.feature_names == ()
    assert made.dataset["features"].shape == (4, 0)
    assert made.summary().features == ()


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (np.array([1, 2, 3, 4], dtype="int8"), np.array([1, 2, 3, 4])),
        (np.array([1.5, np.nan, 2, 3], dtype="float32"), np.array([1.5, np.nan, 2, 3])),
        (np.array([1, None, 3, 4], dtype=object), np.array([1, np.nan, 3, 4])),
        (np.array([True, None, False, True], dtype=object), np.array([1, np.nan, 0, 1])),
        (np.array([True, True, False, True], dtype=object), np.array([True, True, False, True])),
        (np.array(["x", "", "yy", "z"]), np.array(["x", "", "yy", "z"], dtype=object)),
        (np.array(["x", None, np.nan, pd.NA], dtype=object), np.array(["x", "", "", ""], dtype=object)),
        (np.array(["x", "y", "", "é"], dtype=np.dtypes.StringDType()), np.array(["x", "y", "", "é"], dtype=object)),
        (np.array([None] * 4, dtype=object), np.full(4, np.nan)),
        (np.array([1, 2.5, 3, 4], dtype=object), np.array([1, 2.5, 3, 4])),
        (np.array(["2026-01-01"] * 4, dtype="M8[D]"), np.array(["2026-01-01"] * 4, dtype="M8[ns]")),
    ],
)
def test_carried_variables_become_one_of_the_canonical_dtypes(values, kept):
    made = Episodes(dataset().assign(extra=("episode", values)))
    assert made.dataset["extra"].dtype == kept.dtype
    np.testing.assert_array_equal(made.dataset["extra"].values, kept)


# Frames


def test_order_of_rows_makes_no_difference():
    shuffled = steps_frame().sample(frac=1, random_state=3)
    assert Episodes.from_frames(tasks_frame(), shuffled).identical(Episodes.from_frames(tasks_frame(), steps_frame()))


@pytest.mark.parametrize("dtype_backend", ["numpy_nullable", "pyarrow"])
def test_nullable_dtypes_make_the_same_episodes(dtype_backend):
    tasks = tasks_frame().convert_dtypes(dtype_backend=dtype_backend)
    steps = steps_frame().convert_dtypes(dtype_backend=dtype_backend)
    assert Episodes.from_frames(tasks, steps).identical(Episodes.from_frames(tasks_frame(), steps_frame()))


def test_booleans_and_categories_are_numbers_and_text():
    tasks = tasks_frame().assign(food=lambda f: f["food"] == 1, episode=lambda f: f["episode"].astype("category"))
    steps = steps_frame().assign(episode=lambda f: f["episode"].astype("category"))
    assert Episodes.from_frames(tasks, steps).identical(Episodes.from_frames(tasks_frame(), steps_frame()))


def test_chosen_columns_are_features_in_that_order_and_the_rest_is_carried_along():
    tasks = tasks_frame().assign(kind=["heat", None, "cool", "heat"])
    steps = steps_frame().assign(action="look", tokens=pd.array([1, None] * 5, dtype="Int64"))
    made = Episodes.from_frames(tasks, steps, features=["entities"], diagnostics=["invalid", "repeat"])
    assert made.feature_names == ("entities",)
    assert made.diagnostic_names == ("invalid", "repeat")
    assert made.dataset["food"].values.tolist() == [1, 0, 1, 0]
    assert made.dataset["kind"].values.tolist() == ["heat", "", "cool", "heat"]
    assert made.dataset["action"].values[1].tolist() == ["look", "", "", ""]
    np.testing.assert_array_equal(made.dataset["tokens"].values[0], [1, np.nan, 1, np.nan])


@settings(deadline=None)
@given(data=datasets())
def test_to_frames_is_the_inverse_of_from_frames(data):
    made = quietly(Episodes, data)
    tasks, steps = made.to_frames()
    back = quietly(Episodes.from_frames, tasks, steps, features=made.feature_names, diagnostics=made.diagnostic_names)
    assert back.identical(made)


def test_frames_cannot_hold_other_dims():
    made = Episodes(dataset().assign(cost=(("episode", "model"), np.ones((4, 2)))))
    with pytest.raises(InvalidDataError, match=r"dims of cost is \('episode', 'model'\); expected dims"):
        made.to_frames()


# Selecting


@pytest.mark.parametrize(
    ("indexer", "ids"),
    [
        ([2, 0], "ca"),
        (np.array([-1]), "d"),
        (1, "b"),
        (slice(None, None, -2), "db"),
        ([True, False, False, True], "ad"),
        (np.array([False, True, True, False]), "bc"),
    ],
)
def test_take_follows_numpy_indexing(indexer, ids):
    assert episodes().take(indexer).ids.tolist() == list(ids)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda e: e.select(["a", "x"]), "episode 'x': episode is 'x'; expected an id of these 4 episodes"),
        (lambda e: e.select("a"), "ids is 'a'; expected a list of ids"),
        (lambda e: e.select(["a", "b", "a"]), "episode 'a': selection is 'a'; expected each episode at most once"),
        (lambda e: e.select([]), "selection is []; expected at least one episode"),
        (lambda e: e.take([4]), "indexer is [4]; expected positions of 4 episodes, or a boolean for each"),
        (lambda e: e.take([]), "selection is []; expected at least one episode"),
        (lambda e: e.take([[1, 2], [3, 4]]), "indexer is [[1, 2], [3, 4]]; expected positions of 4 episodes"),
        (lambda e: e.take(slice(None, None, 0)), "indexer is slice(None, None, 0); expected positions of 4 episodes"),
        (lambda e: e.select([None]), "episode missing: episode is missing; expected an id of these 4 episodes"),
        (lambda e: e.read(None), "path is None; expected the name of a file or folder"),
    ],
)
def test_odd_selections_are_refused(act, message):
    with pytest.raises(InvalidDataError) as caught:
        act(episodes())
    assert str(caught.value).startswith(message)


def test_ids_that_are_numbers_are_named_as_numbers():
    made = Episodes(dataset().assign_coords(episode=[5, 6, 7, 8]))
    assert made.select(np.array([7, 5])).ids.tolist() == [7, 5]
    for act, message in (
        (lambda: made.take([1, 1]), "episode 6: selection is 6; expected each episode at most once"),
        (lambda: made.select([True]), "episode True: episode is True; expected an id of these 4 episodes"),
    ):
        with pytest.raises(InvalidDataError) as caught:
            act()
        assert str(caught.value) == message


@settings(deadline=None)
@given(data=datasets(), choice=st.data())
def test_selected_episodes_are_those_that_would_be_made_from_the_selected_data(data, choice):
    order = choice.draw(st.permutations(range(data.sizes["episode"])))
    order = order[: choice.draw(st.integers(1, len(order)))]
    assert quietly(Episodes, data).take(order).identical(quietly(Episodes, data.isel(episode=order)))


@settings(max_examples=6, deadline=None)
@given(data=datasets(), size=st.integers(1, 4))
def test_chunked_episodes_equal_those_in_memory(data, size):
    plain, lazy = quietly(Episodes, data), quietly(Episodes, data.chunk(episode=size))
    assert lazy.dataset["diagnostics"].chunks is not None
    assert lazy.identical(plain)
    assert lazy.fingerprint() == plain.fingerprint()
    assert lazy.notes() == plain.notes()
    reverse = np.arange(len(plain))[::-1]
    assert lazy.take(reverse).notes() == plain.take(reverse).notes()
    for mine, other in zip(lazy.to_frames(), plain.to_frames(), strict=True):
        pd.testing.assert_frame_equal(mine, other)


def test_selecting_keeps_arrays_on_disk():
    lazy = Episodes(dataset().chunk(episode=1))
    for part in (lazy.take([3, 1]), lazy.select(["a"]), lazy.split({"x": 0.5, "y": 0.5})["x"]):
        assert part.dataset["diagnostics"].chunks is not None
        assert part.load().dataset["diagnostics"].chunks is None


def test_episodes_survive_pickling_and_copying():
    assert pickle.loads(pickle.dumps(episodes())).identical(episodes())
    assert copy.deepcopy(episodes()).identical(episodes())


# What cannot be changed


def made_in_every_way(folder):
    when = np.array(["2026-01-01", "NaT", "1999-12-31", "2000-01-01"], dtype="M8[ns]")
    whole = Episodes(dataset().assign(when=("episode", when)))
    whole.write(folder / "e.nc")
    yield "dataset", whole
    yield "frames", Episodes.from_frames(tasks_frame(), steps_frame())
    yield "file", Episodes.read(folder / "e.nc")
    yield "loaded", Episodes.read(folder / "e.nc", chunks={"episode": 2}).load()
    yield "taken", whole.take([2, 0])
    yield "sliced", whole.take(slice(1, 3))
    yield "pickled", pickle.loads(pickle.dumps(whole))
    yield "copied", copy.deepcopy(whole)


def test_arrays_of_episodes_cannot_be_written_into(tmp_path):
    for way, made in made_in_every_way(tmp_path):
        for name, variable in made.dataset.variables.items():
            with pytest.raises(ValueError, match="read-only"):
                variable.values[...] = variable.values
            assert not variable.values.flags.writeable, (way, name)
        with pytest.raises(ValueError, match="read-only"):
            made.ids[0] = "z"


def test_what_is_put_into_the_dataset_does_not_get_into_the_episodes():
    made = episodes()
    before = made.fingerprint()
    made.dataset["features"] = made.dataset["features"] * 2
    made.dataset.attrs["origin"] = "elsewhere"
    assert made.fingerprint() == before
    assert "origin" not in made.dataset.attrs


@pytest.mark.parametrize("ids", [["a", "b", "c", "d"], [1, 2, 3, 4]])
def test_given_dataset_stays_the_users_own(ids):
    rng = np.random.default_rng(0)
    data = dataset().assign_coords(episode=ids).assign(n_steps=("episode", np.full(4, 4)))
    data["diagnostics"] = (("episode", "step", "diagnostic"), rng.random((4, 4, 2)))
    data["cost"] = (("episode", "model"), rng.random((4, 2)))
    made = Episodes(data.assign_coords(model=[1, 2]))
    before = made.fingerprint()
    for name in data.data_vars:
        data[name].values[...] = data[name].values[::-1].copy()
    data["episode"].values[:2] = data["episode"].values[:2][::-1].copy()
    assert made.fingerprint() == before


# Identity


def changed(variable, index, value):
    data = dataset()
    data[variable][index] = value
    return data


@pytest.mark.parametrize(
    "other",
    [
        changed("features", (0, 0), np.nextafter(1.0, 2.0)),
        changed("features", (1, 0), -0.0),
        changed("diagnostics", (2, 3, 0), 1.5),
        changed("cheap_success", 3, False),
        changed("window_start", 0, 2),
        changed("kind", 3, "x"),
        changed("tokens", (0, 0), 7),
        dataset().isel(episode=[1, 0, 2, 3]),
        dataset().isel(feature=[1, 0]),
        dataset().isel(diagnostic=[1, 0]),
        dataset().assign_coords(episode=["a", "b", "c", "e"]),
        dataset().assign_coords(feature=["food", "entity"]),
        dataset().rename(kind="sort"),
        dataset().drop_vars("kind"),
        dataset().assign(tokens=dataset()["tokens"].astype(float)),
    ],
)
def test_any_difference_changes_the_fingerprint(other):
    made = Episodes(other)
    assert not made.identical(episodes())
    assert made.fingerprint() != episodes().fingerprint()


def test_fingerprint_is_a_sha256_and_does_not_change_between_versions():
    assert re.fullmatch("[0-9a-f]{64}", episodes().fingerprint())
    assert episodes().fingerprint() == "138ae11573dc0633b310b2f86822d75eeec5340155dd3b970861bdcc3d9e9742"


def test_attributes_and_order_of_carried_variables_do_not_count():
    data = dataset()
    swapped = data[[*reversed(list(data.data_vars))]].assign_attrs(origin="elsewhere")
    assert Episodes(swapped).identical(episodes())


# Looking at it


def test_repr_is_short_and_readable():
    assert repr(episodes()).splitlines() == [
        "<Episodes: 4 episodes of up to 4 steps>",
        "  features (2):    food, entities",
        "  diagnostics (2): repeat, invalid",
        "  outcomes AB:     00: 1, 01: 1 (1 with a window), 10: 1, 11: 1",
        "  carried along:   kind, tokens",
    ]
    assert "read by Dask" in repr(Episodes(dataset().chunk(episode=2)))


def test_html_escapes_what_users_wrote():
    data = dataset().assign_coords(feature=["<script>alert(1)</script>", "a&b"], diagnostic=["<b>", "invalid"])
    made = Episodes(data)
    for html in (made._repr_html_(), made.summary()._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        assert "a&amp;b" in html
        assert "<b>," not in html


def test_summary_counts_what_is_there():
    summary = episodes().summary()
    assert summary.n_episodes == 4
    assert summary.steps == Spread(1, 2.5, 4)
    assert summary.outcomes == {"00": 1, "01": 1, "10": 1, "11": 1}
    assert list(summary.outcomes) == ["00", "01", "10", "11"]
    assert (summary.one_step_windows, summary.range_windows) == (0, 1)
    assert (summary.without_window, summary.right_censored) == (0, 1)
    assert summary.window_width == Spread(2, 2.0, 2)
    assert summary.features[1] == FeatureSummary("entities", 6.875, pytest.approx(10.796875**0.5), 3.0, 12.0)
    assert summary.diagnostics == (DiagnosticSummary("repeat", 0.75, 0.5), DiagnosticSummary("invalid", 0.425, 0.5))
    assert summary.notes == ()


@settings(deadline=None)
@given(data=datasets())
def test_summary_adds_up(data):
    made = quietly(Episodes, data)
    summary = made.summary()
    assert sum(summary.outcomes.values()) == len(made)
    assert summary.one_step_windows + summary.range_windows == made.has_window.sum()
    assert summary.one_step_windows + summary.range_windows + summary.without_window == summary.outcomes["01"]
    assert list(summary.notes) == made.notes()
    assert all(0 <= diagnostic.nonzero <= 1 for diagnostic in summary.diagnostics)


def test_summary_prints_as_a_page():
    with pytest.warns(TacitWarning, match="constant"):
        summary = Episodes(dataset().assign(features=dataset()["features"] * [0, 1])).summary()
    assert str(summary).splitlines() == [
        "4 episodes, steps 1 to 4, median 2.5",
        "",
        "Outcome (Cheap, Strong)   episodes  share",
        "00  neither succeeds             1  25.0%",
        "01  only Strong succeeds         1  25.0%",
        "10  only Cheap succeeds          1  25.0%",
        "11  both                         1  25.0%",
        "",
        "Timing (window widths 2 to 2, median 2)  episodes",
        "01  window of one step                          0",
        "01  window of several steps                     1",
        "01  no window                                   0",
        "11  right-censored                              1",
        "",
        "Feature    mean     sd  min  max",
        "food          0      0    0    0",
        "entities  6.875  3.286    3   12",
        "",
        "Diagnostic   mean  nonzero",
        "repeat       0.75    50.0%",
        "invalid     0.425    50.0%",
        "",
        "Notes",
        "  constant features: 'food'",
    ]


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_means_of_the_largest_numbers_are_finite(example):
    few = example.take(range(3))
    usual = few.summary()
    dataset = few.dataset.copy(deep=True)
    dataset["diagnostics"][..., 0] = np.where(dataset["diagnostics"][..., 0] >= 0, 1e308, np.nan)
    dataset["features"][:, 0] = [1e308, -1e308, 1.5e308]
    found = Episodes(dataset).summary()
    assert found.diagnostics[0].mean == pytest.approx(1e308)
    assert found.features[0].mean == pytest.approx(0.5e308)
    assert found.features[0].sd == pytest.approx(np.std([1, -1, 1.5]) * 1e308)
    assert (found.features[1:], found.diagnostics[1:]) == (usual.features[1:], usual.diagnostics[1:])
