"""The studies on the mechanism simulator: what is coupled, what is chosen, and what their pages say."""

import numpy as np
import pandas as pd
import pytest
from mechanism_peer import Peer
from policy_worlds import draw_tasks, world_of
from scipy import stats

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import FirstAlarm, PrefixRouter, families
from simulations.mechanism import calibration
from simulations.studies import curves, mechanism, random_mechanisms, sensitivity, small_samples
from simulations.studies.contest import (
    ABLATIONS,
    ALARM,
    ALL,
    ANALOGUES,
    BEYOND,
    FAMILIES,
    PAPERS,
    TACIT,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
)

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


def test_first_alarm_is_compared_but_is_no_policy_of_the_papers():
    assert ALARM in BEYOND
    assert set(ALL) == {*PAPERS, *BEYOND}
    assert not {policy.name for policy in BEYOND} & set(mechanism.PAPERS_NAMES.values())
    for study in (mechanism, random_mechanisms, curves, sensitivity):
        assert ALARM.name in study.STUDY.parameters["policies"]


def test_analogues_have_rows_and_can_be_recommended(worlds):
    names = names_of(ANALOGUES)
    assert names == ["TRIM analogue", "EvoRoute analogue"]
    for study in (mechanism, random_mechanisms, curves):
        assert set(names) <= set(study.STUDY.parameters["policies"])
    for study in (sensitivity, small_samples):
        assert set(names) <= set(study.STUDY.parameters["ours"][1:])
    alone = {row["policy"]: row for row in policy_rows(contest(ANALOGUES, worlds))}
    assert all(0 < row["strong_share"] < 1 for row in alone.values())
    # What is recommended is chosen from what the library tries in such a world, in its order.
    assert names_of(FAMILIES) == names_of(families(worlds["train"].episodes, worlds["development"])[2:])


def test_hidden_states_are_those_of_an_independent_simulator(worlds):
    tasks = worlds["test"].deferral.tasks
    expected = Peer(tasks.mechanism, tasks.draws).cheap()["state"]
    np.testing.assert_array_equal(mechanism.hidden_states(worlds["test"]), expected)
    with pytest.raises(InvalidDataError, match="a world of the mechanism simulator"):
        mechanism.hidden_states(world_of(draw_tasks(1, 5)))


def test_handoffs_are_put_beside_the_hidden_states_by_hand(worlds, result):
    states = mechanism.hidden_states(worlds["test"]).tolist()
    for name, found in mechanism.of_handoffs(result, np.array(states), mechanism.LASTING).items():
        outcomes = result.outcomes[name]
        off, delays, won = [], [], []
        for task, path in enumerate(states):
            if outcomes.strong_calls[task] > 0:
                seen = path[: int(outcomes.cheap_calls[task])]
                off.append(seen[-1] == 2)
                won.append(outcomes.success[task])
                if 2 in seen:
                    delays.append(len(seen) - 1 - seen.index(2))
        assert len(off) > 100
        assert found["handoff_off_track"] == pytest.approx(np.mean(off))
        assert found["handoff_delay"] == pytest.approx(np.mean(delays))
        assert found["handoff_success"] == pytest.approx(np.mean(won))


def test_what_an_alarm_gives_away_is_counted_by_hand(worlds):
    states = mechanism.hidden_states(worlds["test"])
    risks = worlds["test"].episodes.dataset["diagnostics"].values[:, :, 0]
    seen = [(risk >= 0.9, state == 2) for risk, state in zip(risks.ravel(), states.ravel(), strict=True) if state >= 0]
    found = mechanism.of_alarms(worlds["test"], states, 0.9)
    assert found["alarms_off_track"] == pytest.approx(np.mean([off for alarm, off in seen if alarm]))
    assert found["off_track_with_alarm"] == pytest.approx(np.mean([alarm for alarm, off in seen if off]))
    assert found["elsewhere_with_alarm"] == pytest.approx(np.mean([alarm for alarm, off in seen if not off]))


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ([-1.0, -1.2, -1.1], "**1.10 ± 0.25 points above TACIT-Switch**, ahead in 3 of 3"),
        ([1.0, 1.2, 1.1], "**1.10 ± 0.25 points below TACIT-Switch**, ahead in 0 of 3"),
        ([1.0, -1.0, 0.3], "level with TACIT-Switch (its gain 0.10 ± 2.52 points), ahead in 1 of 3"),
    ],
)
def test_whoever_is_ahead_is_said_to_be(gains, words):
    assert words in mechanism._beside_alarm(pd.Series(gains))


def test_the_gain_over_first_alarm_is_paired_by_replicate():
    rows = [
        {"setting": "baseline", "policy": policy, "replicate": number, "success": value, "cap": 16.0}
        for policy, values in ((ALARM.name, {2: 0.6, 1: 0.5}), (TACIT.name, {1: 0.7, 2: 0.7}))
        for number, value in values.items()
    ]
    table = pd.DataFrame(rows)
    assert sensitivity._over_alarm(table, "baseline").sort_index().tolist() == pytest.approx([20, 10])
    assert curves._over_alarm(table).startswith("15.00 ± ")


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


def test_correlations_are_by_rank_and_the_strongest_is_first(rng):
    known = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    margin = np.exp(-known["b"]) + 0.01 * known["c"]
    found = random_mechanisms.correlated(known, margin)
    assert found[0][0] == "b"
    for name, value, p in found:
        ranks = known[name].rank(), margin.rank()
        assert value == pytest.approx(np.corrcoef(*ranks)[0, 1])
        assert p >= stats.spearmanr(known[name], margin).pvalue


def test_the_interval_of_a_median_is_near_that_of_order_statistics(rng):
    values = pd.Series(rng.normal(size=200))
    middle, low, high = random_mechanisms.median_interval(values)
    ordered = np.sort(values)
    assert middle == pytest.approx(np.median(values))
    # Of 200 values, the 86th and the 115th are the ends of the classical 95% interval.
    assert ordered[80] <= low <= ordered[92]
    assert ordered[107] <= high <= ordered[119]


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
    success = {"Task Router": 0.6, "First Alarm": 0.65, "TACIT-Switch": 0.7, "risk-only": 0.9}
    table = pd.DataFrame([{"policy": name, "cap": 16.0, "success": value} for name, value in success.items()])
    assert curves.leader(table, 16.0) == TACIT.name
    assert curves.leader(table[table["policy"] != TACIT.name], 16.0) == FirstAlarm().name


def test_fits_that_could_not_be_made_are_told():
    rows = [{"setting": "100", "policy": "maximum likelihood", "success": np.nan}] * 2
    rows.append({"setting": "100", "policy": "posterior mean", "success": 0.7})
    assert "maximum likelihood at n = 100: 2" in small_samples._failures(pd.DataFrame(rows))
    assert small_samples._failures(pd.DataFrame(rows[2:])) == "Every fit could be made."
