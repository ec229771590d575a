"""The learned pair: a small ranker and a large one for each fold of games, trained on the games of the other folds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import as_path, atomic_path
from simulations.alfworld.learned.actor import LearnedActor
from simulations.alfworld.learned.lessons import Lesson
from simulations.alfworld.learned.ranker import Ranker, fit_ranker

NAMES = {"cheap": "learned-cheap", "strong": "learned-strong"}


@dataclass(frozen=True)
class LearnedPair:
    """Both actors, and what they learned from.

    Attributes
    ----------
    cheap, strong
        The actors.
    cheap_games, strong_games
        By fold, the ids of the games that each one's ranker for it was trained on.
    """

    cheap: LearnedActor
    strong: LearnedActor
    cheap_games: tuple[tuple[str, ...], ...]
    strong_games: tuple[tuple[str, ...], ...]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Keep both actors in a JSON file."""
        content = {
            agent: {
                "seed": actor.seed,
                "sharpness": actor.sharpness,
                "rankers": [{"size": one.size, "weights": dict(one.weights)} for one in actor.rankers],
                "games": games,
            }
            for agent, actor, games in (
                ("cheap", self.cheap, self.cheap_games),
                ("strong", self.strong, self.strong_games),
            )
        }
        with atomic_path(as_path(path)) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LearnedPair:
        """Read what `write` has written.

        Raises
        ------
        FileFormatError
            If the file is no such pair.
        """
        try:
            content = json.loads(as_path(path).read_text(encoding="utf-8"))
            actors, games = {}, {}
            for agent in ("cheap", "strong"):
                one = content[agent]
                rankers = tuple(
                    Ranker(ranker["size"], {str(cue): float(value) for cue, value in ranker["weights"].items()})
                    for ranker in one["rankers"]
                )
                actors[agent] = LearnedActor(NAMES[agent], rankers, one["seed"], one["sharpness"])
                games[agent] = tuple(tuple(map(str, some)) for some in one["games"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{path}: {error!r}; expected a learned pair, as this program writes it") from error
        return cls(actors["cheap"], actors["strong"], games["cheap"], games["strong"])


def learn_pair(
    lessons: Mapping[str, Sequence[Lesson]],
    folds: Mapping[str, int],
    *,
    cheap_games: int = 8,
    seed: int = 0,
    cheap_sharpness: float = 1.0,
    strong_sharpness: float = 1.0,
) -> LearnedPair:
    """Train both actors, cross-fitted.

    Parameters
    ----------
    lessons
        Of each game, by id.
    folds
        The fold of each game, by id; every fold from 0 on has one.
    cheap_games
        From how many games Cheap learns, drawn among those of the other folds.
    seed
        Draws Cheap's games; also the actors' own.
    cheap_sharpness, strong_sharpness
        As for `LearnedActor`.
    """
    count = max(folds.values()) + 1
    validate.whole("cheap_games", cheap_games, 1)
    if set(folds) != set(lessons) or set(folds.values()) != set(range(count)) or count < 2:
        expected = "a fold from 0 on for every game with lessons, at least two folds, none of them empty"
        raise InvalidDataError(expected, field="folds", value=sorted(set(folds.values())))
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    few, many = [], []
    for fold in range(count):
        others = sorted(game for game, of in folds.items() if of != fold)
        many.append(tuple(others))
        few.append(tuple(sorted(rng.permutation(others)[:cheap_games].tolist())))
    small = tuple(fit_ranker(_of(lessons, games), "small") for games in few)
    large = tuple(fit_ranker(_of(lessons, games), "large") for games in many)
    cheap = LearnedActor(NAMES["cheap"], small, seed, cheap_sharpness)
    strong = LearnedActor(NAMES["strong"], large, seed, strong_sharpness)
    return LearnedPair(cheap, strong, tuple(few), tuple(many))


def _of(lessons: Mapping[str, Sequence[Lesson]], games: Sequence[str]) -> list[Lesson]:
    return [lesson for game in games for lesson in lessons[game]]
