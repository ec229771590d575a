"""What is refused and how it is said; what is told."""

import pickle
import re
import tracemalloc
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dataset, datasets, episodes, quietly, steps_frame, tasks_frame

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitWarning


def put(variable, index, value, dtype=None):
    """Return a change that writes one value into a variable."""

    def change(data):
        data = data if dtype is None else data.assign({variable: data[variable].astype(dtype)})
        data[variable][index] = value
        return data

    return change


def window(start, end, episode=0):
    return lambda data: put("window_end", episode, end)(put("window_start", episode, start)(data))


def replaced(variable, dims, values):
    return lambda data: data.assign({variable: (dims, np.asarray(values))})


def renamed(dim, names):
    return lambda data: data.assign_coords({dim: np.array(names, dtype=object)})


BAD_DATASETS = {
    "negative diagnostic": (
        put("diagnostics", (0, 1, 0), -1.0),
        "episode 'a', step 1: diagnostics['repeat'] is -1.0; expected a finite number >= 0",
    ),
    "NaN diagnostic": (
        put("diagnostics", (2, 3, 1), np.nan),
        "episode 'c', step 3: diagnostics['invalid'] is nan; expected a finite number >= 0",
    ),
    "text diagnostic": (
        put("diagnostics", (1, 0, 0), "x", object),
        "episode 'b', step 0: diagnostics['repeat'] is 'x'; expected a number",
    ),
    "NaN feature": (put("features", (1, 1), np.nan), "episode 'b': features['entities'] is nan; expected a finite"),
    "window past the end": (window(1, 3), "episode 'a': window_end is 3; expected a whole checkpoint from 0 to 2, the"),
    "window before the start": (window(-1, 1), "episode 'a': window_start is -1; expected a whole checkpoint from 0"),
    "fractional window": (window(0.5, 1), "episode 'a': window_start is 0.5; expected a whole checkpoint from 0 to 2"),
    "reversed window": (window(2, 1), "episode 'a': window is [2, 1]; expected a window that starts before it ends"),
    "window without end": (window(1, np.nan), "episode 'a': window_end is missing; expected both window_start and"),
    "window on 00": (window(0, 0, 1), "episode 'b': window is [0, 0]; expected no window, since the outcome AB is 00"),
    "repeated text id": (
        renamed("episode", ["a", "b", "a", "d"]),
        "episode 'a', positions 0 and 2: episode is 'a'; expected ids that do not repeat",
    ),
    "mixed ids": (renamed("episode", ["a", 1, "c", "d"]), "position 1: episode is 1; expected ids that are all text"),
    "id with a NUL": (renamed("episode", ["a\0", "b", "c", "d"]), r"episode is 'a\x00'; expected text without NUL"),
    "no ids": (lambda data: data.drop_vars("episode"), "episode is missing; expected a coordinate with the episodes'"),
    "no step": (put("n_steps", 1, 0), "episode 'b': n_steps is 0; expected a whole number from 1 to 4, the length of"),
    "fractional steps": (put("n_steps", 3, 1.5, float), "episode 'd': n_steps is 1.5; expected a whole number from 1"),
    "steps from 1": (lambda data: data.assign_coords(step=[1, 2, 3, 4]), "step is [1, 2, 3, 4]; expected 0, 1, 2, ..."),
    "outcome 2": (put("cheap_success", 1, 2, int), "episode 'b': cheap_success is 2; expected 0 or 1 (False or True)"),
    "neither side": (
        lambda data: put("strong_success", 3, np.nan, float)(
            put("n_steps", 3, 0)(put("cheap_success", 3, np.nan, float)(data))
        ),
        "episode 'd': outcomes is missing; expected an outcome of Cheap or of Strong: neither side was played",
    ),
    "success of a side that was not played": (
        replaced("cheap_played", "episode", [True, True, False, True]),
        "episode 'c': n_steps is 4; expected 0, since Cheap was not played",
    ),
    "counts without trials": (
        replaced("strong_successes", "episode", [1, 0, 1, 0]),
        "strong_trials is missing; expected both strong_successes and strong_trials, or neither",
    ),
    "negative successes": (
        lambda data: data.assign(strong_trials=("episode", [1, 1, 1, 1]), strong_successes=("episode", [1, 0, 1, -1])),
        "episode 'd': strong_successes is -1; expected a whole number >= 0",
    ),
    "outcome as text": (put("cheap_success", 0, "yes", object), "episode 'a': cheap_success is 'yes'; expected 0 or 1"),
    "repeated feature": (renamed("feature", ["food", "food"]), "feature name is 'food'; expected names that do not"),
    "reserved feature": (renamed("feature", ["food", "cheap_success"]), "feature name is 'cheap_success'; expected a"),
    "feature named by number": (renamed("feature", ["food", 3]), "feature name is 3; expected a name that is a text"),
    "no feature names": (lambda data: data.drop_vars("feature"), "feature is missing; expected a coordinate with the"),
    "feature like a carried variable": (renamed("feature", ["food", "kind"]), "feature name is 'kind'; expected a"),
    "diagnostic like a carried variable": (
        renamed("diagnostic", ["repeat", "tokens"]),
        "diagnostic name is 'tokens'; expected a name that no carried variable has",
    ),
    "mixed carried variable": (
        replaced("mix", "episode", np.array(["x", 1, None, 2.5], dtype=object)),
        "mix is 'x'; expected values of one kind",
    ),
    "carried list": (
        replaced("tags", "episode", np.array([{"x": 1}, None, None, None], dtype=object)),
        "tags is {'x': 1}; expected values of one kind",
    ),
    "carried number too large": (
        replaced("seed", "episode", np.array([2**63, 1, 2, 3], dtype=np.uint64)),
        "seed is 9223372036854775808; expected whole numbers that int64 can hold",
    ),
    "no diagnostics": (lambda data: data.isel(diagnostic=[]), "diagnostics is []; expected at least one diagnostic"),
    "no episodes": (lambda data: data.isel(episode=[]), "episodes is []; expected at least one episode"),
    "wrong dims": (replaced("n_steps", ("step",), [1, 2, 3, 4]), "dims of n_steps is ('step',); expected dims"),
    "half a window variable": (lambda data: data.drop_vars("window_end"), "window_end is missing; expected a variable"),
    **{
        f"no {name}": (
            lambda data, name=name: data.drop_vars(name),
            f"{name} is missing; expected a variable with dims",
        )
        for name in ("features", "diagnostics", "n_steps", "cheap_success", "strong_success")
    },
    "schema 0": (lambda data: data.assign_attrs(schema_version=0), "schema_version is 0; expected a version from 1 to"),
    "not a dataset": (lambda data: data["features"].values.tolist(), "dataset is [[1.0, 12.0]"),
}


@pytest.mark.parametrize("name", BAD_DATASETS)
def test_bad_dataset_is_refused_with_episode_field_value_and_expectation(name):
    change, message = BAD_DATASETS[name]
    data = [change(dataset())]
    if message.startswith(("episode '", "window_", "feature name", "diagnostic name")):
        data.append(change(dataset()).chunk(episode=1))
    for given_data in data:
        with pytest.raises(InvalidDataError) as caught:
            Episodes(given_data)
        assert str(caught.value).startswith(message)


def column(table, name, values):
    """Return a change of one column."""

    def change(tasks, steps):
        altered = {name: values}
        return (tasks.assign(**altered), steps) if table == "tasks" else (tasks, steps.assign(**altered))

    return change


def rows(change):
    """Return a change of the steps table."""
    return lambda tasks, steps: (tasks, change(steps))


BAD_FRAMES = {
    "gap": (rows(lambda s: s.drop(1)), "episode 'a', step 1 missing: step is 2; expected every step from 0"),
    "from 1": (
        rows(lambda s: s.assign(step=s["step"] + (s["episode"] == "d"))),
        "episode 'd', step 0 missing: step is 1; expected every step from 0",
    ),
    "repeated step": (
        rows(lambda s: pd.concat([s, s.iloc[[5]]])),
        "episode 'c', step 1 repeated: step is 1; expected every step from 0 to the last one exactly once",
    ),
    "fractional step": (
        rows(lambda s: s.assign(step=s["step"] + 0.5 * (s.index == 3))),
        "episode 'b': step is 0.5; expected a whole number counted from 0",
    ),
    "missing step": (
        rows(lambda s: s.assign(step=s["step"].astype("Int64").mask(s.index == 4))),
        "episode 'c': step is missing; expected a whole number counted from 0",
    ),
    "unknown episode": (
        rows(lambda s: s.assign(episode=s["episode"].replace("d", "e"))),
        "episode 'e': steps['episode'] is 'e'; expected an episode of the tasks table",
    ),
    "task without steps": (rows(lambda s: s[s["episode"] != "c"]), "episode 'c': n_steps is 0; expected at least one"),
    "repeated task": (
        column("tasks", "episode", ["a", "b", "b", "d"]),
        "episode 'b': tasks['episode'] is 'b'; expected ids that do not repeat",
    ),
    "ids of another type": (
        column("tasks", "episode", [1, 2, 3, 4]),
        "episode 'a': steps['episode'] is 'a'; expected an episode of the tasks table, whose ids are whole numbers; "
        "those of the steps are text",
    ),
    "missing id": (
        column("tasks", "episode", ["a", None, "c", "d"]),
        "position 1: tasks['episode'] is missing; expected ids that are all text or all whole numbers",
    ),
    "text feature": (
        column("tasks", "kind", ["heat", "cool", "heat", "cool"]),
        "episode 'a': features['kind'] is 'heat'; expected a number; if this column is none of the features, "
        "name those that are with features=[...]",
    ),
    "dates as ids": (
        column("tasks", "episode", pd.date_range("2026-01-01", periods=4)),
        "tasks['episode'] is np.datetime64('2026-01-01T00:00:00",
    ),
    "text diagnostic": (
        column("steps", "action", "look"),
        "episode 'a', step 0: diagnostics['action'] is 'look'; expected a number; if this column is none of the "
        "diagnostics, name those that are with diagnostics=[...]",
    ),
    "missing diagnostic": (
        column("steps", "repeat", pd.array([0, 1, None, 0, 0, 1, 0, 0, 1, 0], dtype="Float64")),
        "episode 'a', step 2: diagnostics['repeat'] is nan; expected a finite number >= 0",
    ),
    "no outcome column": (
        lambda tasks, steps: (tasks.drop(columns="cheap_success"), steps),
        "tasks['cheap_success'] is missing; expected a column of that name; the columns are ['episode', ",
    ),
    "one end of the window": (
        lambda tasks, steps: (tasks.drop(columns="window_end"), steps),
        "episode 'a': window_end is missing; expected both window_start and window_end, or neither",
    ),
    "no diagnostics": (rows(lambda s: s[["episode", "step"]]), "diagnostics is []; expected at least one diagnostic"),
    "no tasks": (lambda tasks, steps: (tasks.iloc[:0], steps), "tasks is []; expected at least one row"),
    "nothing": (lambda *_: (None, None), "tasks is None; expected a pandas.DataFrame"),
    "repeated column": (
        lambda tasks, steps: (pd.concat([tasks, tasks[["food"]]], axis=1), steps),
        "column of tasks is 'food'; expected column names that do not repeat",
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames_are_refused_with_episode_field_value_and_expectation(name, tmp_path):
    change, message = BAD_FRAMES[name]
    frames = change(tasks_frame(), steps_frame())
    with pytest.raises(InvalidDataError) as caught:
        Episodes.from_frames(*frames)
    assert message in str(caught.value)
    if all(isinstance(frame, pd.DataFrame) and frame.columns.is_unique for frame in frames) and 0 not in frames[0]:
        # What is wrong with a value, or with which are there, is said alike of the same tables in Parquet.
        (tmp_path / "e.parquet").mkdir()
        for table, frame in zip(("tasks", "steps"), frames, strict=True):
            frame.to_parquet(tmp_path / "e.parquet" / f"{table}.parquet")
        with pytest.raises(InvalidDataError, match=r"e\.parquet") as caught:
            Episodes.read(tmp_path / "e.parquet")
        assert re.split(r"[;:] ", message)[-2 if ";" in message else -1][:20] in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["fod"]}, "features is 'fod'; expected names among the other columns of tasks: ['food'"),
        ({"features": ["episode"]}, "features is 'episode'; expected names among the other columns"),
        ({"features": "food"}, "features is 'food'; expected a list of column names"),
        ({"features": 3}, "features is 3; expected a list of column names"),
        ({"diagnostics": np.array(3)}, "diagnostics is array(3); expected a list of column names"),
        ({"features": [["food"]]}, "features is ['food']; expected names among the other columns of tasks"),
        ({"features": ["food", "food"]}, "features is ['food', 'food']; expected names that do not repeat"),
        ({"diagnostics": ["loop"]}, "diagnostics is 'loop'; expected names among the other columns of steps"),
    ],
)
def test_odd_choice_of_columns_is_refused_with_the_columns_there_are(arguments, message):
    with pytest.raises(InvalidDataError) as caught:
        Episodes.from_frames(tasks_frame(), steps_frame(), **arguments)
    assert message in str(caught.value)


def test_column_carried_along_in_both_tables_is_refused():
    tasks, steps = tasks_frame().assign(cost=1.0), steps_frame().assign(cost=2.0)
    with pytest.raises(
        InvalidDataError, match="column is 'cost'; expected columns carried along to be in one table only"
    ):
        Episodes.from_frames(tasks, steps, features=["food"], diagnostics=["repeat"])


def test_dataset_of_a_newer_schema_is_refused():
    with pytest.raises(FileFormatError, match=r"schema_version 2, newer than the 1 .*upgrade"):
        Episodes(dataset().assign_attrs(schema_version=2))


def test_error_says_the_same_after_it_crossed_a_process_boundary():
    with pytest.raises(InvalidDataError) as caught:
        Episodes(window(1, np.nan)(dataset()))
    back = pickle.loads(pickle.dumps(caught.value))
    assert str(back) == str(caught.value)
    assert (back.episode, back.field, back.expected) == ("a", "window_end", caught.value.expected)


@settings(deadline=None)
@given(data=datasets(), choice=st.data())
def test_any_single_corruption_is_refused_and_names_its_episode(data, choice):
    i = choice.draw(st.integers(0, data.sizes["episode"] - 1))
    step = choice.draw(st.integers(0, int(data["n_steps"][i]) - 1))
    name = choice.draw(
        st.sampled_from(["diagnostics", "n_steps", "outcome", "window", *["features"] * data.sizes["feature"]])
    )
    field = name
    if name == "diagnostics":
        column = choice.draw(st.integers(0, data.sizes["diagnostic"] - 1))
        value = choice.draw(st.floats(max_value=0, exclude_max=True) | st.sampled_from([np.nan, np.inf]))
        data["diagnostics"][i, step, column] = value
        field = f"diagnostics[{data['diagnostic'].values[column]!r}]"
    elif name == "features":
        column = choice.draw(st.integers(0, data.sizes["feature"] - 1))
        value = choice.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
        data["features"][i, column] = value
        field = f"features[{data['feature'].values[column]!r}]"
    elif name == "n_steps":
        value = float(choice.draw(st.integers(-5, 0) | st.integers(data.sizes["step"] + 1, 99)))
        data["n_steps"][i] = value
    elif name == "outcome":
        field = choice.draw(st.sampled_from(["cheap_success", "strong_success"]))
        value = choice.draw(st.integers(2, 9))
        data = data.assign({field: data[field].astype(int)})
        data[field][i] = value
    else:
        data["window_start"][i], data["window_end"][i] = 0, data["n_steps"].values[i]
        field, value = "window", None
    with pytest.raises(InvalidDataError) as caught:
        quietly(Episodes, data)
    error = caught.value
    assert error.episode == data["episode"].values[i]
    assert error.field is not None
    assert error.field.startswith(field)
    assert value is None or error.value == value or (value != value and error.value != error.value)


@settings(deadline=None)
@given(data=datasets())
def test_any_valid_dataset_is_accepted_and_accepted_again(data):
    once = quietly(Episodes, data)
    assert quietly(Episodes, once.dataset).identical(once)


def test_values_past_the_end_are_never_read():
    data = dataset()
    reference = Episodes(data)
    data["diagnostics"][1, 1:] = -7.0
    data["tokens"][1, 1:] = 99
    for given_data in (data, data.chunk(episode=2)):
        made = Episodes(given_data)
        assert np.isnan(made.dataset["diagnostics"].values[1, 1:]).all()
        assert made.identical(reference)


# What is told


def quiet_window(data):
    data["diagnostics"][0, 1:3] = 0
    return data


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda data: data.assign(features=data["features"] * [0, 1]), "constant features: 'food'"),
        (
            lambda data: data.assign(diagnostics=data["diagnostics"] * [1, 0]),
            "diagnostics that are zero everywhere",
        ),
        (window(np.nan, np.nan), "AB = 01 without a window, so that nobody says when (1): 'a'"),
        (quiet_window, "windows over which all diagnostics are zero"),
    ],
)
def test_what_is_unusual_is_told_once_at_the_callers_line(change, note):
    assert episodes().notes() == []
    with pytest.warns(TacitWarning) as caught:
        made = Episodes(change(dataset()))
    assert [str(warning.message) for warning in caught] == made.notes()
    assert made.notes()[0].startswith(note)
    assert len(made.notes()) == 1
    assert caught[0].filename == __file__


def test_window_is_told_to_have_mass_at_either_of_its_ends():
    for step in (1, 2):
        data = dataset()
        data["diagnostics"][0] = [[1, 1], [0, 0], [0, 0], [np.nan, np.nan]]
        data["diagnostics"][0, step, 1] = 1e-300
        assert Episodes(data).notes() == []


def test_nothing_is_told_when_selecting():
    data = window(np.nan, np.nan)(dataset())
    made = quietly(Episodes, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = made.take([0])
        made.split({"one": ["a"], "rest": ["b", "c"]})
    assert any(note.startswith("constant features: 'food', 'entities'") for note in part.notes())


def test_chunked_data_is_validated_without_loading_all_of_it():
    n, horizon, d, block = 4000, 100, 25, 100
    data = xr.Dataset(
        {
            "features": (("episode", "feature"), np.arange(n)[:, None]),
            "diagnostics": (("episode", "step", "diagnostic"), da.ones((n, horizon, d), chunks=(block, horizon, d))),
            "n_steps": ("episode", np.full(n, horizon)),
            "cheap_success": ("episode", np.ones(n)),
            "strong_success": ("episode", np.ones(n)),
        },
        coords={"episode": np.arange(n), "feature": ["x"], "diagnostic": [f"u{k}" for k in range(d)]},
    )
    tracemalloc.start()
    made = Episodes(data)
    made.summary()
    made.fingerprint()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.dataset["diagnostics"].chunks is not None
    assert peak < 0.2 * n * horizon * d * 8
