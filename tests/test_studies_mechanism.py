"""The studies on the mechanism simulator: what is coupled, what is chosen, and what their pages say."""

import numpy as np
import pandas as pd
import pytest

from bayes_tacit.policies import PrefixRouter
from simulations.mechanism import calibration
from simulations.studies import curves, mechanism, random_mechanisms, sensitivity, small_samples
from simulations.studies.contest import ABLATIONS, ALL, TACIT, contest, draw_worlds, policy_rows

SMALL = {"train": 600, "development": 300, "test": 400}


@pytest.fixture(scope="module")
def worlds():
    return draw_worlds(calibration().mechanism, np.random.SeedSequence(5), SMALL)


@pytest.fixture(scope="module")
def result(worlds):
    return contest((*ALL, *ABLATIONS), worlds)


def test_rows_hold_averages_and_the_choice(result):
    rows = {row["policy"]: row for row in policy_rows(result)}
    assert set(rows) == {policy.name for policy in (*ALL, *ABLATIONS)}
    assert rows[TACIT.name]["alpha"] == result.choices[TACIT.name].alpha
    assert rows["Prefix router"]["k"] in (1, 2, 3, 4)
    assert rows[TACIT.name]["success"] == result.outcomes[TACIT.name].success.mean()
    assert "setting" not in rows[TACIT.name]
    assert all(row["development_cost"] <= 16 for name, row in rows.items() if not name.startswith("Pure"))


def test_a_fixed_prefix_is_what_a_router_with_that_prefix_alone_gives(worlds, result):
    rows = {row["policy"]: row for row in mechanism.fixed_prefixes(result, worlds["development"], worlds["test"])}
    for k in (1, 4):
        alone = contest([PrefixRouter(prefixes=(k,))], worlds).table.iloc[0]
        assert rows[f"Prefix router, K = {k}"]["success"] == alone["success"]
        assert rows[f"Prefix router, K = {k}"]["cost"] == alone["cost"]


def test_both_axes_leave_the_outcomes_of_both_actors_alone():
    """A replicate has the same seeds in every setting, and what is varied is only what a learner sees."""
    study = sensitivity.STUDY
    assert study.paired
    assert len(study.settings) == 9
    seen = []
    for setting in (study.settings[0], study.settings[1], study.settings[-1]):
        varied = calibration().mechanism
        if setting.values:
            varied = sensitivity.AXES[setting.values["axis"]](varied, setting.values["factor"])
        world = draw_worlds(varied, study.seeds(study.position(setting.name), 3, 1), SMALL)["test"]
        seen.append((world.counterfactuals.table(), world.episodes.dataset))
    for table, dataset in seen[1:]:
        np.testing.assert_array_equal(table, seen[0][0])
        assert not dataset[["features", "diagnostics"]].identical(seen[0][1][["features", "diagnostics"]])


def test_axes_have_the_baseline_and_rising_information():
    for axis in sensitivity.AXES:
        names = sensitivity._along(axis)
        assert len(names) == 5
        assert names.count(sensitivity.BASELINE) == 1
        assert set(names) <= {setting.name for setting in sensitivity.STUDY.settings}


def test_rescues_are_counted_by_hand(worlds):
    world = worlds["test"]
    found = random_mechanisms.rescues(world)
    saved = []
    for i in np.flatnonzero(world.episodes.outcomes == "01"):
        handoff = np.full(len(world.episodes), -1)
        handoff[i] = 5
        saved.append(world.counterfactuals.outcomes_at(handoff).success[i])
    assert found["rescue_late"] == pytest.approx(np.mean(saved))
    cheap_only = world.episodes.dataset["cheap_success"] & ~world.episodes.dataset["strong_success"]
    assert found["only_cheap"] == float(cheap_only.mean())


def test_a_margin_that_can_be_known_is_predicted(rng):
    known = pd.DataFrame(rng.random((120, 3)), columns=["a", "b", "c"])
    margin = 10 * known["a"]
    predicted = random_mechanisms.predict(known, margin)
    assert np.corrcoef(predicted, margin)[0, 1] > 0.95
    noise = pd.Series(rng.normal(size=120))
    assert abs(np.corrcoef(random_mechanisms.predict(known, noise), noise)[0, 1]) < 0.3


@pytest.mark.parametrize(
    ("caps", "words"),
    [([], "none"), ([12.0], "12"), ([12.0, 13.0, 14.0], "12 to 14"), ([11.0, 13.0, 14.0], "11 and 13 to 14")],
)
def test_caps_are_written_as_spans(caps, words):
    assert curves._spans(caps) == words


def test_the_leader_leaves_ablations_aside():
    success = {"Task Router": 0.6, "TACIT-Switch": 0.7, "risk-only": 0.9}
    table = pd.DataFrame([{"policy": name, "cap": 16.0, "success": value} for name, value in success.items()])
    assert curves.leader(table, 16.0) == TACIT.name


def test_fits_that_could_not_be_made_are_told():
    rows = [{"setting": "100", "policy": "maximum likelihood", "success": np.nan}] * 2
    rows.append({"setting": "100", "policy": "posterior mean", "success": 0.7})
    assert "maximum likelihood at n = 100: 2" in small_samples._failures(pd.DataFrame(rows))
    assert small_samples._failures(pd.DataFrame(rows[2:])) == "Every fit could be made."
