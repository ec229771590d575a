import dataclasses
import importlib.resources
import json
import math
import os
import tracemalloc

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from routers import ROUTERS, random_router

from bayes_tacit import Router
from bayes_tacit.data.timing import HANDOFFS, TIMINGS
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.router import contents, storage

SCHEMA = json.loads(importlib.resources.files("bayes_tacit.router").joinpath("router.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def content_of(router: Router) -> dict:
    return json.loads(router.to_json())


def changed(content: dict, path: str, value: object) -> dict:
    """Set what a path such as "parameters.w.0" leads to; a function is applied to what is there."""
    content = json.loads(json.dumps(content))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner = content
    for part in parents:
        inner = inner[part]
    inner[last] = value(inner[last]) if callable(value) else value
    return content


def read(content: object, tmp_path) -> Router:
    path = tmp_path / "router.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Router.load(path)


def test_the_schema_is_a_valid_one_and_names_every_key():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for version, name in ((1, "version_1"), (2, "tacit_switch"), (3, "tacit_switch_with_design")):
        described = SCHEMA["$defs"][name]
        assert tuple(described["required"]) == tuple(described["properties"]) == contents.BY_VERSION[version]
    assert tuple(SCHEMA["$defs"]["timing"]["enum"]) == TIMINGS
    assert tuple(SCHEMA["$defs"]["handoff"]["enum"]) == HANDOFFS
    assert all(f"{name}: " in SCHEMA["$defs"]["family"]["description"] for name in FAMILIES)


@given(ROUTERS)
def test_a_router_is_read_back_exactly_and_fits_the_schema(router):
    text = router.to_json()
    loaded = Router.from_json(text)
    VALIDATOR.validate(json.loads(text))
    assert loaded == router
    assert loaded.to_json() == text
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        np.testing.assert_array_equal(getattr(loaded.draws, name), getattr(router.draws, name))


@pytest.mark.parametrize("features", [0, 2])
def test_a_saved_router_fits_the_schema(tmp_path, features):
    router = random_router(features=features, diagnostics=1, draws=2, rule=0.1)
    router.save(tmp_path / "router.json")
    VALIDATOR.validate(json.loads((tmp_path / "router.json").read_text()))
    assert Router.load(tmp_path / "router.json") == router
    assert [entry.name for entry in tmp_path.iterdir()] == ["router.json"]


def test_a_router_of_a_fit_says_where_it_comes_from(example_fit, tmp_path):
    Router.from_fit(example_fit, alpha=0.4).save(tmp_path / "router.json")
    content = json.loads((tmp_path / "router.json").read_text())
    VALIDATOR.validate(content)
    assert content["provenance"]["data_fingerprint"] == example_fit.data_fingerprint
    assert content["provenance"]["seed"] == example_fit.seed
    assert content["provenance"]["created_by"].startswith("bayes_tacit ")
    assert content["provenance"]["versions"]["numpy"] == np.__version__
    assert content["features"][0] == {
        "name": example_fit.feature_names[0],
        "mean": example_fit.feature_mean[0],
        "scale": example_fit.feature_scale[0],
    }
    assert content["parameters"]["w"] == [example_fit.w.tolist()]


def test_names_in_any_script_are_kept(tmp_path):
    router = dataclasses.replace(random_router(diagnostics=2), diagnostic_names=("répété", '繰り返し"\n'))
    router.save(tmp_path / "router.json")
    assert Router.load(tmp_path / "router.json").diagnostic_names == router.diagnostic_names


def test_whole_numbers_may_be_written_without_a_point(tmp_path):
    draws = dataclasses.replace(random_router(draws=2).draws, gamma0=np.array([1.0, 2.0]))
    router = dataclasses.replace(random_router(draws=2), draws=draws, alpha=1)
    content = changed(changed(content_of(router), "parameters.gamma0", [1, 2]), "alpha", 1)
    assert read(content, tmp_path) == router


WRONG_VALUES = [
    (
        "format",
        "bayes_tacit.estimates.map_fit",
        "format is 'bayes_tacit.estimates.map_fit'; expected 'bayes_tacit.router'",
    ),
    ("schema_version", 5, "schema_version is 5; expected at most 4: it was written by a newer bayes_tacit"),
    ("schema_version", 0, "schema_version is 0; expected a whole number from 1 to 4"),
    ("schema_version", "1", "schema_version is '1'; expected a whole number from 1 to 4"),
    ("schema_version", True, "schema_version is True; expected a whole number from 1 to 4"),
    ("family", "cauchy", "family is 'cauchy'; expected 'lognormal' or 'loglogistic' or 'weibull' or 'loggamma'"),
    ("family", ["lognormal"], r"family is \['lognormal'\]"),
    ("timing", "later", "timing is 'later'; expected 'post_action' or 'proposal'"),
    ("rule", "median", "rule is 'median'; expected 'mean' or"),
    ("rule", 1, "rule is 1; expected"),
    ("rule", [0.1], r"rule is \[0.1\]"),
    ("alpha", 0, "alpha is 0; expected a number above 0 and at most 1"),
    ("alpha", 1.5, "alpha is 1.5"),
    ("alpha", "0.3", "alpha is '0.3'"),
    ("alpha", True, "alpha is True"),
    ("alpha", [0.3], "alpha is"),
    ("pace", None, "pace is None; expected a finite number"),
    ("memory", 1.5, r"memory is \[1.5\]; expected numbers from 0 to 1"),
    ("memory", [1, 1, 2], r"memory is \[1.0, 1.0, 2.0\]; expected numbers from 0 to 1"),
    ("memory", [1], "memory is"),
    ("clock", 1, "clock is 1; expected true or false"),
    ("handoff", "again", "handoff is 'again'; expected 'resume' or 'restart'"),
    ("start", {"weight": 1}, "expected the key start.threshold, which is missing"),
    ("ranges", {"features": {}}, "expected the key ranges.diagnostics, which is missing"),
    ("diagnostics", [], r"parameters.w\[0\] is .*; expected a list of 0 numbers"),
    ("diagnostics", "u0", "diagnostics is 'u0'; expected a list of names"),
    ("diagnostics.1", "u0", r"diagnostics\[1\] is 'u0'; expected names that differ"),
    ("diagnostics.1", "", r"diagnostics\[1\] is ''; expected a non-empty string"),
    ("diagnostics.1", 7, r"diagnostics\[1\] is 7; expected a non-empty string"),
    ("diagnostics", ["u0", "u1"], r"parameters.w\[0\] is .*; expected a list of 2 numbers"),
    ("features", {}, r"features is \{\}; expected a list of objects"),
    ("features.0", "x0", r"features\[0\] is 'x0'; expected an object with the keys name, mean, scale"),
    ("features.0", {"name": "x0", "mean": 0}, r"expected the key features\[0\].scale, which is missing"),
    ("features.0.mean", None, r"features\[0\].mean is None; expected a finite number"),
    ("features.0.mean", 10**400, r"features\[0\].mean is 1000"),
    ("features.1.scale", 0, r"feature scale\[1\] is 0.0; expected a number above 0"),
    ("features.1.scale", -1, r"feature scale\[1\] is -1.0"),
    ("features.1.name", "x0", r"features\[1\] is 'x0'; expected names that differ"),
    ("features", lambda given: given[:1], r"parameters.gamma\[0\] is .*; expected a list of 1 numbers"),
    ("parameters", [], r"parameters is \[\]; expected an object with the keys w, gamma0"),
    ("parameters.s", 1, "parameters.s is 1; expected a list of numbers"),
    ("parameters.s", [], "parameters.w is .*; expected a list of 0 lists, one a draw"),
    ("parameters.s.1", 0, r"s\[1\] is 0.0; expected a number above 0"),
    ("parameters.s.1", -0.5, r"s\[1\] is -0.5; expected a number above 0"),
    ("parameters.s.1", "0.5", r"parameters.s\[1\] is '0.5'; expected a number"),
    ("parameters.gamma0", [1], r"parameters.gamma0 is \[1\]; expected a list of 3 numbers"),
    ("parameters.gamma0.2", True, r"parameters.gamma0\[2\] is True; expected a number"),
    ("parameters.gamma0.2", 10**400, "parameters.gamma0 is .*; expected finite numbers"),
    ("parameters.gamma.1", [1, 2, 3], r"parameters.gamma\[1\] is \[1, 2, 3\]; expected a list of 2 numbers"),
    ("parameters.beta.1.0", None, r"parameters.beta\[1\]\[0\] is None; expected a number"),
    ("parameters.beta", 3, "parameters.beta is 3; expected a list of 3 lists, one a draw"),
    ("parameters.w.2", [0.5, 0.5, 0.1], r"sum of w\[2\] is 1.1; expected 1 within 1e-06"),
    ("parameters.w.2", [0.5, 0.5, 3e-6], r"sum of w\[2\] is 1.000003; expected 1 within 1e-06"),
    ("parameters.w.2", [1.5, -0.5, 0], r"w\[2\]\[1\] is -0.5; expected a number >= 0"),
    ("parameters.w", lambda given: given[:2], "parameters.w is .*; expected a list of 3 lists, one a draw"),
    ("provenance", None, "provenance is None; expected an object with the keys created_by"),
    ("provenance.created_by", 1, "provenance.created_by is 1; expected a string"),
    ("provenance.versions", ["numpy"], r"provenance.versions is \['numpy'\]; expected an object of version numbers"),
    ("provenance.versions.numpy", 2, "provenance.versions.numpy is 2; expected a string"),
    ("provenance.seed", -1, "provenance.seed is -1; expected a whole number >= 0"),
    ("provenance.data_fingerprint", 5, "provenance.data_fingerprint is 5; expected a string"),
    ("provenance.more", 5, "a key of provenance is 'more'; expected one of created_by"),
    ("fingerprint", "0" * 64, "fingerprint is '000.*; expected the digest of its content: it was changed after"),
    ("fingerprint", None, "fingerprint is None"),
    ("more", 1, "a key is 'more'; expected one of format, schema_version"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_file_and_field(tmp_path, path, value, message):
    content = content_of(random_router(draws=3))
    with_key = changed({**content, "more": 0, "provenance": {**content["provenance"], "more": 0}}, path, value)
    if path != "more":
        del with_key["more"]
    if path != "provenance.more" and isinstance(with_key["provenance"], dict):
        del with_key["provenance"]["more"]
    with pytest.raises(FileFormatError, match=message) as caught:
        read(with_key, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'router.json'}: ")


@pytest.mark.parametrize("key", contents.KEYS)
def test_a_missing_key_is_named(tmp_path, key):
    content = content_of(random_router())
    del content[key]
    message = "format is None" if key == "format" else f"expected the key {key}, which is missing"
    with pytest.raises(FileFormatError, match=message):
        read(content, tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("alpha", 0.31),
        ("rule", 0.2),
        ("timing", "proposal"),
        ("family", "loglogistic"),
        ("diagnostics.0", "other"),
        ("features.0.name", "other"),
        ("features.0.mean", lambda mean: math.nextafter(mean, 9)),
        ("features.0.scale", 3),
        ("parameters.w.0", [0.2, 0.3, 0.5]),
        ("parameters.gamma0.0", 0.1),
        ("parameters.gamma.0.0", 0.1),
        ("parameters.beta0.0", 0.1),
        ("parameters.beta.0.0", 0.1),
        ("parameters.s.0", lambda s: math.nextafter(s, 9)),
        ("provenance.seed", 1),
        ("provenance.versions.numpy", "0"),
    ],
)
def test_any_change_of_a_valid_value_is_noticed(tmp_path, path, value):
    with pytest.raises(FileFormatError, match=r"fingerprint is .*: it was changed after it was saved"):
        read(changed(content_of(random_router()), path, value), tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path):
    text = random_router().to_json()
    for end in range(0, len(text.rstrip()), 7):
        with pytest.raises(FileFormatError, match="not valid JSON"):
            read(text[:end], tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"it is \[\]; expected an object with the keys format"),
        ("null", "it is None; expected an object"),
        ("[" * 200_000, "not valid JSON"),
        ('{"alpha": NaN}', "not valid JSON .NaN is not a number"),
        ('{"alpha": -Infinity}', "not valid JSON .-Infinity is not a number"),
        ('{"alpha": 0.3, "alpha": 0.4}', "not valid JSON .the key 'alpha' is there twice"),
        ('{"seed": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_what_is_no_router_is_refused(text, message):
    with pytest.raises(FileFormatError, match=f"^router: {message}"):
        Router.from_json(text)


def test_a_number_beyond_doubles_is_refused(tmp_path):
    text = json.dumps(changed(content_of(random_router()), "parameters.gamma0.0", 123.5))
    with pytest.raises(FileFormatError, match=r"gamma0\[0\] is inf; expected a finite number"):
        read(text.replace("123.5", "1e999"), tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "router.json").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FileFormatError, match=r"router.json: not valid JSON"):
        Router.load(tmp_path / "router.json")


def test_a_huge_file_is_refused_without_reading_it(tmp_path):
    with (tmp_path / "router.json").open("wb") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"router.json: larger than 268,435,456 bytes"):
            Router.load(tmp_path / "router.json")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_an_endless_file_is_refused(monkeypatch):
    monkeypatch.setattr(storage, "LARGEST", 1000)
    with pytest.raises(FileFormatError, match="/dev/zero is a pipe or device; expected a router"):
        Router.load("/dev/zero")


def test_no_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(MissingFileError, match=r"none.json: no such file"):
        Router.load(tmp_path / "none.json")
    with pytest.raises(FileFormatError, match=r"is a folder; expected a router written by Router\.save"):
        Router.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="pipe is a pipe or device; expected a router"):
        Router.load(tmp_path / "pipe")
    with pytest.raises(MissingFileError, match="no such folder"):
        random_router().save(tmp_path / "none" / "router.json")


def test_every_error_is_a_tacit_error(tmp_path):
    with pytest.raises(TacitError):
        read("{", tmp_path)
    with pytest.raises(ValueError, match="not valid JSON"):
        read("{", tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("w", np.ones((3, 2)), r"shape of w is \(3, 2\); expected the shape \(3, 3\)"),
        ("gamma", np.zeros((3, 0)), r"shape of gamma is \(3, 0\)"),
        ("beta0", np.array([0, np.nan, 0]), r"beta0\[1\] is nan; expected a finite number"),
        ("s", np.array([]), "number of draws is 0; expected at least one"),
        ("s", np.array([1, 1, np.inf]), r"s\[2\] is inf"),
    ],
)
def test_parameters_given_by_hand_are_checked_as_well(field, value, message):
    router = random_router(draws=3)
    with pytest.raises(InvalidDataError, match=message):
        dataclasses.replace(router, draws=dataclasses.replace(router.draws, **{field: value}))


def test_a_router_needs_a_diagnostic():
    with pytest.raises(InvalidDataError, match="number of diagnostics is 0; expected at least one"):
        dataclasses.replace(random_router(), diagnostic_names=())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_router_in_another_encoding_is_refused(tmp_path, encoding):
    (tmp_path / "router.json").write_text(random_router().to_json(), encoding=encoding)
    with pytest.raises(FileFormatError, match=r"router\.json: not valid JSON"):
        Router.load(tmp_path / "router.json")
