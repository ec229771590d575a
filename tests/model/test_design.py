"""Features by formula: what formulaic makes of it, evaluated without formulaic."""

import json
import subprocess
import sys

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate import quietly

from bayes_tacit import Episodes, MapFit, Router, fit_map, handoff_score
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.model.design import Design, Spline, columns_of, design_matrix, design_of

FORMULA = "bs(entities, df=4) + C(kind) + subgoals:needs_tool"
FORMULAS = (
    FORMULA,
    "C(year)*entities + kind",
    "bs(entities, df=6, degree=2) + C(kind):bs(subgoals, df=4) + I(entities**2)",
    "np.log(entities) + log1p(subgoals) + np.sqrt(entities):C(kind)",
)


@pytest.fixture(scope="module")
def episodes(example) -> Episodes:
    rng = np.random.default_rng(5)
    kinds, years = rng.choice(["a", "b", "c"], len(example)), rng.integers(2001, 2004, len(example))
    return quietly(example.dataset.assign(kind=("episode", kinds), year=("episode", years)))


def frame_of(episodes):
    names = (*episodes.feature_names, "kind", "year")
    return pd.DataFrame(columns_of(episodes, names))


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_design_is_formulaics_own_matrix_also_on_new_data(episodes, formula):
    design = design_of(formula.replace("log1p", "np.log1p"), episodes)
    reference = formulaic.model_matrix(formula.replace("log1p", "np.log1p"), frame_of(episodes))
    assert list(design.names) == [name for name in reference.columns if name != "Intercept"]
    new = episodes.take(slice(0, 50))
    expected = reference.model_spec.get_model_matrix(frame_of(new)).drop(columns="Intercept")
    np.testing.assert_allclose(design_matrix(design, new), expected.to_numpy(dtype=float), atol=1e-12)


@given(at=st.floats(-5, 60), knots=st.lists(st.floats(1, 30), min_size=0, max_size=4), degree=st.integers(0, 4))
@settings(max_examples=60)
def test_splines_are_scipys_and_sum_to_one(at, knots, degree):
    from scipy.interpolate import BSpline

    full = np.array([0.0] * (degree + 1) + sorted(knots) + [40.0] * (degree + 1))
    size = len(full) - degree - 1
    ours = np.array([Spline("x", tuple(full), degree, j).values(np.array([at]))[0] for j in range(size)])
    assert ours.sum() == pytest.approx(1)
    inside = np.clip(at, 0.0, 40.0 - 1e-9)
    theirs = BSpline.design_matrix(np.array([inside]), full, degree).toarray()[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_fit_by_formula_is_the_fit_on_columns_made_by_hand(episodes):
    fit = fit_map(episodes, features=FORMULA)
    by_hand = formulaic.model_matrix(FORMULA, frame_of(episodes)).drop(columns="Intercept").to_numpy(dtype=float)
    dataset = episodes.dataset.drop_dims("feature")
    names = [f"x{j}" for j in range(by_hand.shape[1])]
    plain = quietly(dataset.assign(features=(("episode", "feature"), by_hand)).assign_coords(feature=names))
    other = fit_map(plain)
    np.testing.assert_allclose(fit.beta, other.beta, atol=1e-8)
    np.testing.assert_allclose(handoff_score(fit, episodes).values, handoff_score(other, plain).values, atol=1e-9)
    warn_of_other_data(fit, episodes)


def test_a_router_evaluates_the_formula_from_its_file(episodes, tmp_path):
    fit = fit_map(episodes, features=FORMULA)
    fit.save(tmp_path / "fit.json")
    assert MapFit.load(tmp_path / "fit.json") == fit
    router = Router.from_fit(fit, alpha=0.3)
    router.save(tmp_path / "router.json")
    read = Router.load(tmp_path / "router.json")
    assert read == router
    assert json.loads((tmp_path / "router.json").read_text())["schema_version"] == 1
    scores = router.scores(episodes).values
    raw = frame_of(episodes)[["entities", "kind", "subgoals", "needs_tool"]]
    for row in (0, 7):
        state = read.start(raw.iloc[row].to_dict())
        u = episodes.dataset["diagnostics"].values[row, : episodes.n_steps[row]]
        np.testing.assert_allclose([state.observe(each).score for each in u], scores[row, : len(u)], rtol=1e-9)
        again = read.restore(state.snapshot())
        assert again.features == state.features


def test_a_router_with_a_formula_loads_neither_formulaic_nor_pandas(episodes, tmp_path):
    Router.from_fit(fit_map(episodes, features=FORMULA), alpha=0.3).save(tmp_path / "router.json")
    program = (
        "import sys; from bayes_tacit.router import Router; "
        f"router = Router.load({str(tmp_path / 'router.json')!r}); "
        "router.start({'entities': 12, 'kind': 'b', 'subgoals': 3, 'needs_tool': 1}); "
        "print(sorted({'formulaic', 'pandas', 'xarray', 'pymc'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


GIVEN = {"entities": 12, "kind": "b", "subgoals": 3, "needs_tool": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "z"}, r"features\['kind'\] is 'z'; expected one of a, b, c, the levels in training"),
        ({"entities": "12"}, r"features\['entities'\] is '12'; expected a finite number"),
        ({"entities": float("nan")}, r"features\['entities'\] is nan; expected a finite number"),
    ],
)
def test_a_wrong_value_at_deployment_is_named(episodes, change, message):
    router = Router.from_fit(fit_map(episodes, features=FORMULA), alpha=0.3)
    with pytest.raises(InvalidDataError, match=message):
        router.start(GIVEN | change)
    with pytest.raises(InvalidDataError, match=r"features\['kind'\], which is missing"):
        router.start({name: value for name, value in GIVEN.items() if name != "kind"})


def test_an_unknown_level_in_new_episodes_is_named_with_its_episode(episodes):
    fit = fit_map(episodes, features=FORMULA)
    kinds = episodes.dataset["kind"].values.copy()
    kinds[3] = "z"
    with pytest.raises(InvalidDataError, match=r"episode 'task-0003': features\['kind'\] is 'z'"):
        handoff_score(fit, quietly(episodes.dataset.assign(kind=("episode", kinds))))


@pytest.mark.parametrize(
    "formula", ["poly(entities, 2)", "0 + entities", "missing + entities", "bs(entities", "C(kind, contr.sum)", "1", ""]
)
def test_a_formula_that_cannot_be_kept_is_refused(episodes, formula):
    with pytest.raises(InvalidDataError, match=r"features is .*expected") as refused:
        fit_map(episodes, features=formula)
    assert "\x1b" not in str(refused.value)


def test_a_design_in_a_file_is_checked(episodes):
    design = design_of(FORMULA, episodes)
    assert Design.from_json(design.to_json()) == design
    broken = {
        "columns": [{"name": "x", "factors": [{"kind": "cubic", "column": "entities"}]}],
        "levels": {"kind": ["a", "a"]},
        "groups": "database",
        "formula": 3,
    }
    for name, value in broken.items():
        with pytest.raises(InvalidDataError, match="design"):
            Design.of_record(design.to_record() | {name: value})
    with pytest.raises(InvalidDataError, match=r"^design\.formula is 3; expected"):
        Design.of_record(design.to_record() | {"formula": 3})
