"""Which games are for what: as in the paper, with the games that are at hand."""

from __future__ import annotations

import os
from dataclasses import dataclass

from simulations.alfworld.games import Game, list_games, split_games

SPLIT_SEED = 2026


@dataclass(frozen=True)
class Splits:
    """Lists of games, no game in two of them.

    Attributes
    ----------
    fit, select
        100 and 40 games of valid_seen.
    test
        134 games of valid_train.
    knowledge
        The other 66 games of valid_train: what the Strong scripted actor knows beforehand was counted in them.
    """

    fit: list[Game]
    select: list[Game]
    test: list[Game]
    knowledge: list[Game]


def make_splits(data: str | os.PathLike[str] | None = None) -> Splits:
    """Deal the 140 games of valid_seen and the 200 of valid_train."""
    fit, select, _ = split_games(list_games("valid_seen", data), (100, 40), SPLIT_SEED)
    test, knowledge = split_games(list_games("valid_train", data), (134,), SPLIT_SEED)
    return Splits(fit, select, test, knowledge)
