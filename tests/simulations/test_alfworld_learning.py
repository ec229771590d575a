"""The learned pair that is kept is taken for the games and the seed that it was trained with, and for no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayes_tacit.errors import InvalidDataError
from simulations.alfworld import Game, experiment
from simulations.alfworld.experiment import CHEAP_GAMES, FOLDS, PAIR, learned_pair
from simulations.alfworld.learned import LearnedActor, LearnedPair, Ranker

IDS = [f"own/task-{number}/trial_1" for number in range(12)]
GAMES = [Game(name, Path("nowhere")) for name in IDS]


def pair(seed=0, ids=IDS, folds=FOLDS, cheap_games=CHEAP_GAMES, sharpness=1.0):
    """A pair whose rankers were never trained: what it is taken for depends on the rest."""
    many = tuple(tuple(name for at, name in enumerate(ids) if at % folds != fold) for fold in range(folds))
    actors = (
        LearnedActor(f"learned-{agent}", (Ranker(size, {"go": 1.0}),) * folds, seed, sharpness)
        for agent, size in (("cheap", "small"), ("strong", "large"))
    )
    return LearnedPair(*actors, tuple(games[:cheap_games] for games in many), many)


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch):
    monkeypatch.setattr(experiment, "work_through", None)


def test_a_kept_pair_is_taken_for_the_same_games_and_seed(tmp_path):
    kept = pair(seed=7)
    kept.write(tmp_path / PAIR)
    for games in (GAMES, GAMES[::-1]):
        assert repr(learned_pair(games, tmp_path, seed=7).strong) == repr(kept.strong)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (pair(seed=0), "seed is 0; expected 7, as asked for"),
        (pair(7, folds=4), "number of folds is 4; expected 5, as asked for"),
        (pair(7, cheap_games=3), "number of games that Cheap learns from is 3; expected 4, as asked for"),
        (pair(7, sharpness=2.0), "sharpness is 2.0; expected 1.0, as asked for"),
        (pair(7, IDS[:11]), f"expected a pair for the 12 games asked for, {IDS[11]} among them, and it is for 11"),
        (
            pair(7, [*IDS, "own/z"]),
            "expected a pair for the 12 games asked for, own/z not among them, and it is for 13",
        ),
        (
            pair(7, [*IDS[1:], "own/z"]),
            f"expected a pair for the 12 games asked for, {IDS[0]} among them, and it is for 12",
        ),
    ],
)
def test_a_kept_pair_of_another_seed_or_of_other_games_is_refused(kept, said, tmp_path):
    kept.write(tmp_path / PAIR)
    before = (tmp_path / PAIR).read_bytes()
    with pytest.raises(InvalidDataError) as told:
        learned_pair(GAMES, tmp_path, seed=7)
    assert str(told.value) == f"{tmp_path / PAIR}: {said}: give another folder with --kept"
    assert (tmp_path / PAIR).read_bytes() == before
