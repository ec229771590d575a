"""The committed results: one replicate of each study, computed again, gives the committed numbers.

Most replicates take ten seconds or more, some half a minute: `make test-studies` computes these, `make test` a few.
"""

from pathlib import Path

import numpy as np
import pytest

from simulations.studies.run import PAGE, Task, perform
from simulations.studies.storage import TABLE, read_identity, read_table
from simulations.studies.study import STUDIES, load

RESULTS = Path(__file__).parents[2] / "simulations" / "results"
COMMITTED = [name for name in STUDIES if (RESULTS / name / TABLE).exists()]
SHORT = ("choosing", "claim", "noise", "optimizer", "recovery", "stability")
SLOW_TO_DRAW = ("sbc", "sbc_extensions")


def test_every_study_has_committed_results():
    assert set(COMMITTED) == set(STUDIES)


@pytest.mark.parametrize("name", COMMITTED)
def test_the_design_is_that_of_the_committed_results(name):
    assert read_identity(RESULTS / name / TABLE)["design"] == load(name).design()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.study) for name in COMMITTED]
)
def test_one_replicate_computed_again_is_as_committed(name):
    study = load(name)
    identity, table = read_identity(RESULTS / name / TABLE), read_table(RESULTS / name / TABLE)
    setting = study.cheapest or study.settings[0].name
    number = min(1, table.loc[table["setting"] == setting, "replicate"].max())
    finished = perform(study, identity["seed"], Task(study.position(setting), number))
    assert finished.failure is None
    committed = table[(table["setting"] == setting) & (table["replicate"] == number)].to_dict("records")
    assert len(finished.rows) == len(committed)
    for row, expected in zip(finished.rows, committed, strict=True):
        for column, value in row.items():
            if column in study.unsteady:
                continue
            if isinstance(value, str):
                assert expected[column] == value
            else:
                relative, absolute = study.agreement
                np.testing.assert_allclose(value, expected[column], rtol=relative, atol=absolute, err_msg=column)


@pytest.mark.parametrize("name", COMMITTED)
def test_the_page_says_what_made_it_and_shows_every_figure(name):
    study, identity = load(name), read_identity(RESULTS / name / TABLE)
    page = (RESULTS / name / PAGE).read_text(encoding="utf-8")
    table = read_table(RESULTS / name / TABLE)
    replicates = table["replicate"].max() + 1
    assert f"python -m simulations {name} --replicates {replicates} --seed {identity['seed']}" in page
    assert f"bayes_tacit {identity['version']}" in page
    for figure in (RESULTS / name).glob("*.png"):
        assert f"]({figure.name})" in page
    for position, setting in enumerate(study.settings):
        numbers = table.loc[table["setting"] == setting.name, "replicate"].unique()
        assert sorted(numbers) == list(range(study.count(position, replicates)))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.study if name in SLOW_TO_DRAW else ()) for name in COMMITTED]
)
def test_the_page_is_what_the_table_gives(name, tmp_path):
    body = load(name).summarize(read_table(RESULTS / name / TABLE), tmp_path)
    assert body.strip() in (RESULTS / name / PAGE).read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (RESULTS / name).glob("*.png")}
