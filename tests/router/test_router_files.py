"""Router files: every rule is read back exactly and fits the schema; what is wrong is named in a sentence."""

import dataclasses
import json
import math
import subprocess
import sys
import tracemalloc

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from routers import ONE_OF, every_router, named, random_router

from bayes_tacit import Router
from bayes_tacit.errors import FileFormatError
from bayes_tacit.router import Ranges, files, rules
from bayes_tacit.router.rule import RULES

VALIDATOR = jsonschema.Draft202012Validator(files.schema())
HEAVY = {"arviz", "dask", "h5netcdf", "matplotlib", "pandas", "pymc", "pytensor", "rich", "sklearn", "xarray", "zarr"}


def router_of(policy: str) -> Router:
    d = 1 if issubclass(RULES[policy], rules.Signal) else 2
    return named(ONE_OF[policy](np.random.default_rng(1), 2, d), 2, d)


def content_of(router: Router) -> dict:
    return json.loads(router.to_json())


def changed(content: dict, path: str, value: object) -> dict:
    """Set what a path such as "rule.w.0" leads to; a function is applied to what is there."""
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


def test_the_schema_is_a_valid_one_and_names_every_key_and_rule():
    schema = files.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["required"]) == set(schema["properties"]) == set(content_of(random_router()))
    assert set(schema["properties"]["policy"]["enum"]) == set(RULES)


@given(every_router())
def test_a_router_is_read_back_exactly_and_fits_the_schema(case):
    text = case[0].to_json()
    loaded = Router.from_json(text)
    VALIDATOR.validate(json.loads(text))
    assert loaded == case[0]
    assert loaded.to_json() == text
    for each in dataclasses.fields(loaded.rule):
        ours, theirs = (getattr(router.rule, each.name) for router in (loaded, case[0]))
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)


def test_a_router_of_a_fit_says_where_it_comes_from(example, example_fit, tmp_path):
    Router.from_fit(example_fit, alpha=0.4).with_ranges_of(example).save(tmp_path / "router.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["router.json"]
    content = json.loads((tmp_path / "router.json").read_text())
    VALIDATOR.validate(content)
    provenance = content["provenance"]
    assert provenance["data_fingerprint"] == example_fit.data_fingerprint
    assert provenance["seed"] == example_fit.seed
    assert provenance["created_by"].startswith("bayes_tacit ")
    assert provenance["versions"]["numpy"] == np.__version__
    assert content["features"] == list(example_fit.feature_names)
    assert content["rule"]["mean"] == example_fit.feature_mean.tolist()
    assert content["rule"]["w"] == [example_fit.w.tolist()]
    assert set(content["ranges"]["features"]) == set(example_fit.feature_names)


@pytest.mark.parametrize("policy", ONE_OF)
def test_what_a_file_should_not_hold_is_refused_for_every_rule_by_reader_and_schema(policy):
    content = content_of(router_of(policy))
    assert content["policy"] == policy
    changes = [{"timing": "later"}, {"call": "again"}, {"rule": None}, {"more": 1}, {"features": [1]}]
    changes += [{"policy": "coin"}, {"pace": "fast"}, {"rule": {**content["rule"], "more": 1}}]
    changes += [{"schema_version": other} for other in (0, 2, "1", None)]
    for key in content["rule"]:
        changes.append({"rule": {name: one for name, one in content["rule"].items() if name != key}})
        changes.append({"rule": content["rule"] | {key: {"many": 1}}})
    for change in changes:
        with pytest.raises(FileFormatError, match=r"^router: .*expected") as caught:
            Router.from_json(json.dumps(content | change))
        assert "\n" not in str(caught.value)
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(content | change)
    for key in content:
        less = {name: one for name, one in content.items() if name != key}
        with pytest.raises(FileFormatError, match=f"{key}.*(missing|None)"):
            Router.from_json(json.dumps(less))
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(less)
    with pytest.raises(FileFormatError, match=r"fingerprint is .*; expected the digest of its content"):
        Router.from_json(json.dumps(content | {"fingerprint": "0" * 64}))


WRONG_VALUES = [
    ("format", "bayes_tacit.fit", "format is 'bayes_tacit.fit'; expected 'bayes_tacit.router'"),
    ("schema_version", 2, "schema_version is 2; expected 1, all that this bayes_tacit reads"),
    ("policy", ["count"], r"policy is \['count'\]; expected one of "),
    ("timing", "later", "timing is 'later'; expected 'post_action' or 'proposal'"),
    ("call", "again", "call is 'again'; expected 'strong' or 'strong_once' or 'restart'"),
    ("alpha", 0, "alpha is 0; expected a number above 0 and at most 1"),
    ("pace", None, "pace is None; expected a finite number"),
    ("ranges", {"features": {}}, "expected the key ranges.diagnostics, which is missing"),
    ("design", {"a": 1}, "router.json: "),
    ("diagnostics", "u0", "diagnostics is 'u0'; expected a list of names"),
    ("diagnostics.1", "u0", r"diagnostics\[1\] is 'u0'; expected names that differ"),
    ("diagnostics", ["u0", "u1"], "shape of w is"),
    ("features", ["x0"], "shape of feature mean is"),
    ("rule.family", "cauchy", "family is 'cauchy'; expected 'lognormal' or 'loglogistic' or"),
    ("rule.quantile", 1.5, "rule is 1.5; expected"),
    ("rule.memory", [1.5], r"memory is \[1.5\]; expected numbers from 0 to 1"),
    ("rule.clock", 1, "rule.clock is 1; expected a valid boolean"),
    ("rule.start", {"weight": 1}, "expected the key rule.start.intercept, which is missing"),
    ("rule.mean.0", None, r"rule.mean.0 is None; expected a valid number"),
    ("rule.scale.1", 0, r"feature scale\[1\] is 0.0; expected a number above 0"),
    ("rule.s.1", -0.5, r"s\[1\] is -0.5; expected a number above 0"),
    ("rule.gamma.1", [1, 2, 3], "a list of the rule is .*; expected lists of one length"),
    ("rule.w.2", [0.5, 0.5, 0.1], r"sum of w\[2\] is 1.1; expected 1 within 1e-06"),
    ("rule.w", lambda given: given[:2], r"shape of w is \(2, 3\)"),
    ("rule.more", 1, "rule.more is 1; expected no such key"),
    ("provenance", None, "provenance is None; expected an object with the keys created_by"),
    ("provenance.more", 5, "a key of provenance is 'more'; expected one of created_by"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_file_and_field(tmp_path, path, value, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        read(changed(content_of(random_router(draws=3)), path, value), tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'router.json'}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("alpha", 0.31), ("alpha_start", 0.5), ("pace", 0.1), ("timing", "proposal"), ("call", "restart"),
        ("diagnostics.0", "other"), ("features.0", "other"), ("rule.family", "loglogistic"), ("rule.quantile", 0.2),
        ("rule.mean.0", lambda mean: math.nextafter(mean, 9)), ("rule.scale.0", 3), ("rule.w.0", [0.2, 0.3, 0.5]),
        ("rule.gamma0.0", 0.1), ("rule.s.0", lambda s: math.nextafter(s, 9)), ("rule.memory", [0.5]),
        ("provenance.seed", 1), ("provenance.versions.numpy", "0"),
    ],
)  # fmt: skip
def test_any_change_of_a_valid_value_is_noticed(tmp_path, path, value):
    with pytest.raises(FileFormatError, match=r"fingerprint is .*: it was changed after it was saved"):
        read(changed(content_of(random_router()), path, value), tmp_path)


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


def test_a_range_that_falls_or_lacks_a_name_is_refused(tmp_path):
    router = dataclasses.replace(random_router(), ranges=Ranges(*(dict.fromkeys(names, (0.0,) * 7) for names in (
        ("x0", "x1"), ("u0", "u1", "u2")))))  # fmt: skip
    content = content_of(router)
    with pytest.raises(FileFormatError, match=r"range of features\['x0'\] is .*; expected numbers that do not fall"):
        read(changed(content, "ranges.features.x0", [1, 0, 0, 0, 0, 0, 0]), tmp_path)
    with pytest.raises(FileFormatError, match=r"ranges\.features\.x0"):
        read(changed(content, "ranges.features.x0", [1, 0]), tmp_path)


def test_any_rule_runs_without_anything_heavy(tmp_path):
    for policy in ONE_OF:
        router_of(policy).save(tmp_path / f"{policy}.json")
    code = f"""
import sys
from pathlib import Path
from bayes_tacit.router import DecisionLog, Router, replay
for path in sorted(Path({str(tmp_path)!r}).glob("*.json")):
    router = Router.load(path)
    with DecisionLog(path.with_suffix(".jsonl")) as log:
        state = router.start({{"x0": 0.5, "x1": 1}}, episode=1, log=log)
        state.observe({{"u0": 1, "u1": 1}})
        state = router.restore(state.snapshot(), log=log)
        state.finish()
    assert replay(path.with_suffix(".jsonl"), router).agrees
print(*sorted({{name.split(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"numpy", "scipy", "bayes_tacit"} <= loaded
    assert not loaded & HEAVY
