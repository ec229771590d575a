"""Actors that learned what they know: rankers of admissible commands, cloned from walkthroughs of the games.

Cheap is a small one, which has few games and no memory; Strong a large one, which has all of them and knows what was
seen. Both say how likely their action was, by their own softmax. Cross-fitted, each game is played by rankers that were
trained on games in other rooms.
"""

from simulations.alfworld.learned.actor import LearnedActor, fold_of
from simulations.alfworld.learned.cues import CUES, cues
from simulations.alfworld.learned.lessons import Lesson, lessons_of
from simulations.alfworld.learned.pair import LearnedPair, learn_pair
from simulations.alfworld.learned.ranker import Ranker, fit_ranker
from simulations.alfworld.learned.walkthroughs import walkthrough

__all__ = [
    "CUES",
    "LearnedActor",
    "LearnedPair",
    "Lesson",
    "Ranker",
    "cues",
    "fit_ranker",
    "fold_of",
    "learn_pair",
    "lessons_of",
    "walkthrough",
]
