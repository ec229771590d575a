import numpy as np
import pandas as pd
import pytest
from handoff_worlds import random_world
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_tacit import Counterfactuals, Outcomes, StepCost
from bayes_tacit.errors import FileFormatError, InvalidDataError, TacitWarning

NAN = np.nan


def small(**changes):
    """Two episodes, of three steps and of two; Strong then needs 4, 3, 2 and 3, 2 calls."""
    arrays = {
        "success": [[1, 1, 0], [1, 0, NAN]],
        "strong_calls": [[4, 3, 2], [3, 2, NAN]],
        "never_success": [0, 1],
        "cost": StepCost(cheap=1, strong=3),
    }
    return Counterfactuals.from_calls(["a", "b"], **(arrays | changes))


def frame():
    return pd.DataFrame(
        {
            "episode": ["a", "a", "a", "a", "b", "b", "b"],
            "handoff": [0, 1, 2, None, 0, 1, None],
            "success": [1, 1, 0, 0, 1, 0, 1],
            "cheap_calls": [0, 1, 2, 3, 0, 1, 2],
            "strong_calls": [4, 3, 2, 0, 3, 2, 0],
            "cost": [12, 10, 8, 3, 9, 7, 2],
        }
    )


def changed(name, at, value):
    dataset = small().dataset.copy(deep=True)
    dataset[name].values[at] = value
    return lambda: Counterfactuals(dataset)


# Looking up


def test_a_handoff_after_the_last_action_is_the_same_as_none():
    at_the_end, never = small().outcomes_at([3, 2]), small().pure_cheap
    for name in ("success", "cost", "cheap_calls", "strong_calls"):
        np.testing.assert_array_equal(getattr(at_the_end, name), getattr(never, name))
    assert at_the_end.point()["intervention_rate"] == 0


def test_a_discarded_proposal_is_one_more_cheap_call_where_there_is_a_handoff():
    counterfactuals = small()
    with_proposal = counterfactuals.outcomes_at([0, -1], discards_proposal=True)
    np.testing.assert_array_equal(with_proposal.cheap_calls, [1, 2])
    np.testing.assert_array_equal(with_proposal.cost, [13, 2])
    np.testing.assert_array_equal(counterfactuals.outcomes_at([3, 2], discards_proposal=True).cost, [3, 2])


def test_the_charge_of_a_discarded_proposal_is_the_models_for_one_more_call():
    counterfactuals = small(cost=lambda cheap, strong, _: cheap**2 + 3 * strong)
    np.testing.assert_array_equal(counterfactuals.outcomes_at([2, 0], discards_proposal=True).cost, [9 + 6, 1 + 9])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.data())
def test_every_look_up_is_its_cell(seed, data):
    counterfactuals = random_world(seed, n=5).counterfactuals
    handoff = [data.draw(st.integers(-1, int(n))) for n in counterfactuals.n_steps]
    outcomes = counterfactuals.outcomes_at(handoff)
    for i, k in enumerate(handoff):
        cell = counterfactuals.dataset.isel(episode=i)
        never = k == -1 or k == counterfactuals.n_steps[i]
        assert outcomes.success[i] == (cell["never_success"] if never else cell["success"][k])
        assert outcomes.cost[i] == (cell["never_cost"] if never else cell["cost"][k])


def test_pure_policies_are_the_ends_of_the_table():
    assert small().pure_strong.point() == {"success": 1.0, "cost": 10.5, "strong_share": 1.0, "intervention_rate": 1.0}
    assert small().pure_cheap.point() == {"success": 0.5, "cost": 2.5, "strong_share": 0.0, "intervention_rate": 0.0}


# Making and taking


def test_a_table_of_rows_gives_the_same_counterfactuals_in_any_order():
    from_frame = Counterfactuals.from_frame(frame().sample(frac=1, random_state=3)).select(["a", "b"])
    expected = small().dataset.drop_vars("proposal_cost")
    assert from_frame.dataset.equals(expected)
    priced = Counterfactuals.from_frame(frame().drop(columns="cost"), cost=StepCost(1, 3))
    assert priced.dataset.equals(small().dataset)


def test_another_cost_model_changes_the_costs_alone():
    dearer = small().with_cost(StepCost(1, 6))
    np.testing.assert_array_equal(dearer.pure_strong.cost, [24, 18])
    np.testing.assert_array_equal(dearer.pure_cheap.cost, small().pure_cheap.cost)
    np.testing.assert_array_equal(dearer.pure_strong.success, small().pure_strong.success)


def test_handoffs_that_no_rollout_reaches_are_cut_off():
    dataset = small().dataset.pad(handoff=(0, 2), constant_values=NAN).assign_coords(handoff=range(5))
    assert Counterfactuals(dataset).dataset.equals(small().dataset)


def test_the_table_is_its_own():
    success = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, NAN]])
    counterfactuals = small(success=success)
    success[:] = 0
    np.testing.assert_array_equal(counterfactuals.pure_strong.success, [1, 1])
    np.testing.assert_array_equal(counterfactuals.dataset["success"][:, 0], [1, 1])
    with pytest.raises(ValueError, match="read-only"):
        counterfactuals.dataset["success"].values[0, 0] = 0


def test_matching_brings_them_into_the_order_of_the_episodes():
    world = random_world(3, n=6)
    episodes = world.episodes.take([4, 0, 2])
    np.testing.assert_array_equal(world.counterfactuals.match(episodes).ids, episodes.ids)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
@pytest.mark.parametrize("seed", range(3))
def test_files_give_back_the_same_table_to_the_last_bit(tmp_path, suffix, seed):
    table = random_world(seed).counterfactuals.with_cost(StepCost(cheap=1 / 3, strong=np.pi))
    table.write(tmp_path / f"table{suffix}")
    again = Counterfactuals.read(tmp_path / f"table{suffix}")
    assert again.dataset.identical(table.dataset)
    assert [entry.name for entry in tmp_path.iterdir()] == [f"table{suffix}"]


def test_a_file_without_costs_takes_them_from_a_model(tmp_path):
    frame().drop(columns="cost").to_csv(tmp_path / "calls.csv", index=False)
    with pytest.raises(FileFormatError, match=r"calls.csv: .*expected a column 'cost'"):
        Counterfactuals.read(tmp_path / "calls.csv")
    given = Counterfactuals.read(tmp_path / "calls.csv", cost=StepCost(cheap=1, strong=3))
    assert given.dataset.identical(small().dataset)
    frame().assign(cost=5).to_csv(tmp_path / "costs.csv", index=False)
    assert (Counterfactuals.read(tmp_path / "costs.csv", cost=StepCost(1, 3)).pure_strong.cost == 5).all()


def test_another_end_of_the_strong_rollout_is_told():
    world = random_world(2)
    dataset = world.counterfactuals.dataset.copy(deep=True)
    dataset["success"][3, 0] = 1 - dataset["success"][3, 0]
    with pytest.warns(
        TacitWarning, match=r"does not end as the episode's Strong rollout did \(1 of 30, first 'task-3'"
    ):
        Counterfactuals(dataset).match(world.episodes)


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Counterfactuals(small().dataset.drop_vars("cost")), "cost is missing; expected a variable with dims"),
        (lambda: Counterfactuals(small().dataset.drop_vars("episode")), "episode is missing; expected a coordinate"),
        (
            lambda: Counterfactuals(small().dataset.assign(cost=("episode", [1, 2]))),
            r"dims of cost is \('episode',\); expected dims \('episode', 'handoff'\)",
        ),
        (
            lambda: Counterfactuals(small().dataset.assign_coords(handoff=[1, 2, 3])),
            r"handoff is \[1, 2, 3\]; expected 0, 1, 2, ... in order",
        ),
        (
            lambda: Counterfactuals(small().dataset.assign_coords(episode=["a", "a"])),
            "episode 'a': episode is 'a'; expected ids that do not repeat",
        ),
        (changed("success", (0, 1), 0.5), "episode 'a', handoff 1: success is 0.5; expected 0 or 1"),
        (changed("success", (0, 1), NAN), "episode 'a', handoff 1: success is nan; expected 0 or 1; only past"),
        (changed("cost", (0, 2), -1), "episode 'a', handoff 2: cost is -1.0; expected a finite number >= 0"),
        (changed("strong_calls", (1, 2), 2), "episode 'b', handoff 2: strong_calls is 2.0; expected NaN, past the end"),
        (changed("cheap_calls", (1, 0), 1), "episode 'b', handoff 0: cheap_calls is 1.0; expected 0: a handoff at"),
        (changed("never_success", 1, 2), "episode 'b': never_success is 2.0; expected 0 or 1$"),
        (lambda: small(success=[[1, "x", 0]]), "success is .*; expected numbers"),
        (lambda: small(never_success=[1]), r"shape of never_success is \(1,\); expected \(2,\)"),
        (lambda: small(cost=5), "cost is 5; expected StepCost"),
        (lambda: small().outcomes_at([4, 0]), "episode 'a': handoff is 4; expected at most 3, the length of its"),
        (lambda: small().outcomes_at([0]), r"shape of handoff is \(1,\); expected \(2,\)"),
        (lambda: Counterfactuals.from_frame(frame()).outcomes_at([0, 0], discards_proposal=True), "expected a"),
        (lambda: small().select(["c"]), "episode 'c': episode is 'c'; expected an id of these 2 episodes"),
        (
            lambda: Counterfactuals.from_frame(frame().iloc[:3]),
            r"episode 'a': handoff in its rows is \[0, 1, 2\]; expected also a row",
        ),
        (lambda: Counterfactuals.from_frame(frame().iloc[[3, 6]]), "handoff is missing; expected rows with a handoff"),
        (lambda: Counterfactuals.from_frame(frame().iloc[[0, 0, 3]]), "episode 'a': handoff is 0; expected one row"),
        (lambda: Counterfactuals.from_frame(frame().assign(handoff=0.5)), "handoff is 0.5; expected a whole number >="),
        (lambda: Counterfactuals.from_frame(frame().drop(index=1)), "episode 'a', handoff 1: success is nan"),
    ],
)
def test_a_wrong_table_or_look_up_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()


def test_episodes_of_other_rollouts_are_refused():
    world = random_world(3, n=6)
    longer = world.counterfactuals.dataset.copy(deep=True)
    longer["never_success"].values[:] = 1 - longer["never_success"].values
    with pytest.raises(InvalidDataError, match=r"episode 'task-0': never_success is .*as in the episodes"):
        Counterfactuals(longer).match(world.episodes)
    other = random_world(4, n=6)
    with pytest.raises(InvalidDataError, match=r"n_steps is .*as in the episodes: both are about the same Cheap"):
        other.counterfactuals.match(world.episodes)
    with pytest.raises(InvalidDataError, match="expected an id of these 2 episodes"):
        small().match(world.episodes)


# Outcomes


def test_strong_share_is_of_all_calls_not_of_each_episode():
    outcomes = Outcomes(success=[1, 0], cost=[1, 1], cheap_calls=[1, 8], strong_calls=[1, 0])
    assert outcomes.point()["strong_share"] == 0.1
    assert outcomes.point()["intervention_rate"] == 0.5
    assert Outcomes([1], [0], [0], [0]).point()["strong_share"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"success": [0.5, 1]}, "position 0: success is 0.5; expected 0 or 1"),
        ({"cost": [1, NAN]}, "position 1: cost is nan; expected a finite number >= 0"),
        ({"strong_calls": [1, -1]}, "position 1: strong_calls is -1.0; expected a finite number >= 0"),
        ({"cost": [1]}, "number of episodes in cost is 1; expected 2, as there are in success"),
        ({"success": []}, r"shape of success is \(0,\); expected \(episode,\), at least 1"),
    ],
)
def test_what_is_no_outcome_is_refused(changes, message):
    arrays = {"success": [0, 1], "cost": [1, 2], "cheap_calls": [1, 1], "strong_calls": [0, 1]}
    with pytest.raises(InvalidDataError, match=message):
        Outcomes(**(arrays | changes))
