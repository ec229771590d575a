"""The paper's larger protocol with the games at hand: windows as ranges, cross-validated over all games.

The paper fits on 1,000 games, chooses on 300 and tests on 274. Here every game is a test game once
(`simulations.played.crossed`), and a teacher's mark is its complete range.
"""

from __future__ import annotations

from simulations.alfworld.experiment import BUDGET_SHARE
from simulations.played.crossed import CHOSEN_ON, NO_POSTERIOR, PARTS, Crossed, crossed_words
from simulations.played.policies import TACIT


def larger_section(found: Crossed, games: str) -> list[str]:
    """Give the section of a page."""
    n = len(found.outcomes[TACIT].success)
    return [
        f"## The larger protocol: {n} games, windows as ranges",
        f"The paper's larger check fits on 1,000 games, chooses on 300 and tests on 274. {games} So every one of the "
        f"{n} is a test game once: in {PARTS} parts, policies are fitted on {1 - CHOSEN_ON:.0%} of the other games and "
        f"chosen on the rest of them under {BUDGET_SHARE:.0%} of Pure Strong's cost there. Marks are complete ranges: "
        f"{found.marked} of {found.failed} games with AB = 01 are marked, {found.wide} of them with more than one "
        "checkpoint. What comes of each decision is read from the tables of continuations. The parts share training "
        f"games, so intervals (paired bootstrap over games) are of this deal, not of new training sets. {NO_POSTERIOR}",
        *crossed_words(found),
    ]
