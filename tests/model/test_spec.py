"""What a model is, as one value: checked, carried by fits and posteriors, written and read back."""

import json

import numpy as np
import pandas as pd
import pytest
from simulate import quietly

from bayes_tacit import ModelSpec, build_model, fit_map, sample_posterior
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates import posterior as sampling
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.families import LOGNORMAL
from bayes_tacit.model.spec import spec_of

SIMPLEX = "weights is .*expected nonnegative numbers that sum to 1, one a diagnostic"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": []}, "family is .*expected 'lognormal' or 'loglogistic'"),
        ({"timing": None}, "timing is None"),
        ({"timing": "later"}, "timing is 'later'; expected 'post_action' or 'proposal'"),
        *(({"memory": wrong}, "memory is .*expected a number from 0 to 1") for wrong in (-0.1, 1.1, "short", None)),
        *(({"memory": wrong}, "memory is .*expected a number from 0 to 1") for wrong in (float("nan"), True)),
        ({"clock": 1}, "clock is 1; expected True or False"),
        ({"unmarked": "late"}, "unmarked is 'late'; expected 'due' or 'outcome'"),
        ({"zero_mass": "zzz"}, "zero_mass is 'zzz'; expected 'refuse' or 'drop_window'"),
        ({"weights": ["0.25"] * 4}, SIMPLEX),
        ({"weights": "abcd"}, SIMPLEX),
        ({"weights": {}}, SIMPLEX),
        ({"weights": [[1.0], [0.0, 0.0]]}, SIMPLEX),
        ({"weights": [0.5, 0.5, 0.5, 0.5]}, SIMPLEX),
        ({"weights": [1.5, -0.5, 0.0, 0.0]}, SIMPLEX),
        ({"weights": [np.nan, 1.0, 0.0, 0.0]}, SIMPLEX),
        ({"features": " "}, "features is ' '; expected a formula"),
        ({"groups": 3}, "groups is 3; expected the name of a column"),
    ],
)
def test_a_wrong_field_is_named_in_a_spec_and_by_keyword(example, settings, message):
    for use in (lambda: ModelSpec(**settings), lambda: fit_map(example, **settings)):
        with pytest.raises(InvalidDataError, match=message):
            use()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda data: fit_map(data, weights=[0.5, 0.5]), "expected 4 .* sum to 1, one for each of repeat, uncertainty"),
        (lambda data: fit_map(data, weights={"repeat": 1.0}), "weights is .*one for each of repeat, uncertainty"),
        (lambda data: fit_map(data, memory="learned"), "memory is 'learned'; expected a number from 0 to 1, or 'prof"),
        (lambda data: build_model(data, memory="profile"), "memory is 'profile'; expected .* or 'learned'"),
        (lambda data: fit_map(data, groups="task_type"), "groups is 'task_type'; expected None: at the mode"),
        (lambda data: fit_map(data, spec={"clock": True}), "spec is {'clock': True}; expected a ModelSpec"),
    ],
)
def test_what_the_data_or_the_function_cannot_take_is_refused(example, use, message):
    with pytest.raises(InvalidDataError, match=message):
        use(example)


def test_a_diagnostic_that_is_called_clock_leaves_no_room_for_one(example):
    dataset = example.dataset.assign_coords(diagnostic=["clock", "b", "c", "d"])
    with pytest.raises(InvalidDataError, match="'clock', which is taken where clock is True"):
        fit_map(quietly(dataset), clock=True)


def test_keywords_stand_for_a_spec_and_beside_one_replace_its_fields(example, monkeypatch):
    spec = ModelSpec(family=LOGNORMAL, memory=0.5, clock=True, unmarked="outcome")
    assert repr(spec) == "ModelSpec(memory=0.5, clock=True, unmarked='outcome')"
    fit = fit_map(example, spec=spec, memory=0.9, restarts=1)
    assert fit.spec == ModelSpec(memory=0.9, clock=True, unmarked="outcome")
    assert fit == fit_map(example, memory=0.9, clock=True, unmarked="outcome", restarts=1)
    assert (fit.family, fit.timing, fit.memory, fit.clock, fit.unmarked) == (
        "lognormal",
        "post_action",
        0.9,
        True,
        "outcome",
    )
    seen = []

    def stop(_, given):
        seen.append(given)
        raise InterruptedError

    monkeypatch.setattr(sampling, "collect_evidence", stop)
    with pytest.raises(InterruptedError):
        sample_posterior(example, spec=spec, memory="learned", weights=[0.25] * 4)
    assert seen == [ModelSpec(memory="learned", clock=True, unmarked="outcome", weights=(0.25,) * 4)]
    model = build_model(example, spec=spec, memory=0.9, zero_mass="drop_window")
    (carried,) = model.coords["setting"]
    assert {"memory": 0.9, "clock": 1, "zero_mass": "drop_window"}.items() <= json.loads(carried).items()


SPECS = {
    "default": ModelSpec(),
    "much else": ModelSpec("weibull", "proposal", 0.25, clock=True, unmarked="outcome", zero_mass="drop_window"),
    "weights": ModelSpec(weights=np.array([0.1, 0.2, 0.3, 0.4])),
    "weights by name": ModelSpec(weights=pd.Series({"a": 0.25, "b": 0.75})),
    "formula and groups": ModelSpec(features="log1p(entities)", groups="task_type", memory="learned"),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_spec_is_read_back_from_json(spec):
    assert ModelSpec.of_record(json.loads(json.dumps(spec.to_record()))) == spec


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"timing": "proposal", "weights": [0.25] * 4},
        {"features": "np.log1p(entities)", "memory": 0.5, "clock": True},
    ],
)
def test_a_posterior_says_what_its_model_is(example, settings):
    fit = fit_map(example, restarts=1, **settings)
    tree = fit.to_datatree()
    assert spec_of(tree) == fit.spec
    assert fit.weights_fixed == ("weights" in settings)
    # The design that a formula came to reads new data as the old.
    again = collect_evidence(example.take(slice(0, 600)), fit.spec)
    assert again.feature_names == fit.feature_names
    for name, value in {"family": "cauchy", "clock": 7, "weights": "[0.5", "design": "{}"}.items():
        with pytest.raises(InvalidDataError):
            spec_of(_with(tree, name, value))


def _with(tree, name, value):
    other = tree.copy()
    other.attrs = {**tree.attrs, name: value}
    return other


def test_a_tree_of_something_else_has_no_spec(example_fit):
    tree = example_fit.to_datatree()
    tree.attrs = {"family": "lognormal"}
    with pytest.raises(InvalidDataError, match=r"attrs of the tree is .*expected 'timing' among them"):
        spec_of(tree)
