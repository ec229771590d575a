"""Splits: disjoint, of the sizes asked for, the same for the same seed."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import episodes, quietly

from bayes_tacit.data.episodes import Episodes, largest_remainder, split_by_fraction
from bayes_tacit.errors import InvalidDataError

SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}


def many(n: int = 100, groups: int = 12) -> Episodes:
    rng = np.random.default_rng(5)
    tasks = pd.DataFrame(
        {
            "episode": np.arange(n) * 10,
            "cheap_success": rng.random(n) < 0.4,
            "strong_success": rng.random(n) < 0.7,
            "difficulty": rng.integers(0, 5, n),
            "game": [f"game {k}" for k in rng.integers(0, groups, n)],
        }
    )
    steps = pd.DataFrame({"episode": tasks["episode"], "step": 0, "u": rng.random(n)})
    return quietly(Episodes.from_frames, tasks, steps, features=["difficulty"])


@settings(deadline=None)
@given(weights=st.lists(st.integers(1, 50), min_size=1, max_size=5), n=st.integers(1, 500))
def test_sizes_add_up_and_are_within_one_of_the_exact_share(weights, n):
    shares = np.array(weights) / sum(weights)
    sizes = largest_remainder(shares, n)
    assert sizes.sum() == n
    assert (np.abs(sizes - shares * n) < 1 + 1e-6).all()


@settings(deadline=None)
@given(
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    left=st.integers(0, 20),
    n=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    labels=st.none() | st.integers(1, 10),
    stratify=st.booleans(),
)
def test_parts_never_share_an_episode_or_a_group(weights, left, n, seed, labels, stratify):
    shares = {f"part {k}": weight / (sum(weights) + left) for k, weight in enumerate(weights)}
    rng = np.random.default_rng(seed)
    marks = None if labels is None else rng.integers(0, labels, n)
    options = {} if marks is None else {"strata" if stratify else "groups": marks}
    try:
        parts = split_by_fraction(shares, n, rng, **options)
    except InvalidDataError:
        return  # too few for every part; when that is refused is tested below
    assert list(parts) == list(shares)
    together = np.concatenate(list(parts.values()))
    assert np.unique(together).size == together.size
    assert all((np.diff(positions) > 0).all() for positions in parts.values())
    if not left and not (stratify and marks is not None):
        assert together.size == n
    if marks is not None and not stratify:
        for one, other in combinations(parts.values(), 2):
            assert not set(marks[one]) & set(marks[other])


def test_same_seed_gives_the_same_split_and_another_seed_another():
    one, again, other = (many().split(SHARES, seed=seed)["test"] for seed in (3, 3, 4))
    assert one.identical(again)
    assert not one.identical(other)


@pytest.mark.parametrize("by", ["game", "difficulty"])
def test_groups_stay_together_at_about_the_right_sizes(by):
    whole = many()
    parts = whole.split({"train": 0.6, "test": 0.4}, by=by)
    labels = {name: set(part._grouping(by)) for name, part in parts.items()}
    assert not labels["train"] & labels["test"]
    assert sum(map(len, parts.values())) == 100
    assert len(parts["train"]) == pytest.approx(60, abs=15)


def test_stratified_shares_hold_within_each_outcome():
    whole = many()
    parts = whole.split({"train": 0.75, "test": 0.25}, stratify=True)
    for outcome in ("00", "01", "10", "11"):
        size = (whole.outcomes == outcome).sum()
        assert (parts["test"].outcomes == outcome).sum() == pytest.approx(size / 4, abs=1)


def test_ids_give_parts_in_the_given_order():
    parts = episodes().split({"train": ["d", "a"], "test": ("b",)})
    assert {name: part.ids.tolist() for name, part in parts.items()} == {"train": ["d", "a"], "test": ["b"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": {"a": 0.7, "b": 0.4}}, "sum of the shares is 1.1"),
        ({"parts": {"a": 0.0, "b": 0.4}}, "part 'a' is 0.0; expected a share above 0 and at most 1"),
        ({"parts": {"a": 0.9, "b": 0.01}}, "part 'b' is 0.01; expected a share of 4 episodes that gives every part"),
        ({"parts": {"a": 0.4, "b": 0.3, "c": 0.3}, "by": "food"}, "part 'c' is 0.3; expected a share of 2 groups that"),
        ({"parts": {}}, "parts is {}; expected shares or ids by the name of a part"),
        ({"parts": {"a": ["a", "b"], "b": 0.5}}, "ids is 0.5; expected a list of ids"),
        (
            {"parts": {"x": ["a", "b"], "y": ["c", "a"]}},
            "episode 'a', in both 'x' and 'y': episode is 'a'; expected parts that share no episode",
        ),
        ({"parts": {"x": ["a"], "y": []}}, "part 'y' is []; expected at least one episode in every part"),
        (
            {"parts": {"x": ["a"], "y": ["c"]}, "by": "kind"},
            "episode 'c', in both 'x' and 'y': kind is 'heat'; expected parts that share no kind",
        ),
        ({"parts": {"a": 0.5}, "by": "sort"}, "by is 'sort'; expected one of ['food', 'entities', 'kind']"),
        ({"parts": {"a": 0.5}, "by": "tokens"}, "by is 'tokens'; expected one of ['food', 'entities', 'kind']"),
        ({"parts": {"a": 0.5}, "seed": -1}, "seed is -1; expected a whole number >= 0"),
        ({"parts": {"a": 0.5}, "by": "kind", "stratify": True}, "by is 'kind'; expected either by or stratify, not"),
    ],
)
def test_odd_splits_are_refused(arguments, message):
    with pytest.raises(InvalidDataError) as caught:
        episodes().split(**arguments)
    assert str(caught.value).startswith(message)


def test_missing_values_are_a_group_of_their_own():
    data = episodes().dataset.assign(site=("episode", [np.nan, np.nan, 1.0, 2.0]))
    with pytest.raises(InvalidDataError, match="site is nan; expected parts that share no site"):
        Episodes(data).split({"x": ["a"], "y": ["b"]}, by="site")
