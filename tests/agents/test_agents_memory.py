"""An actor that is asked once for each history."""

from __future__ import annotations

from bayes_tacit.agents import History, Observation, Proposal, Step, StepResult
from bayes_tacit.agents.recorded import Remembering


def test_an_actor_that_remembers_is_told_apart_by_who_did_what():
    class Counting:
        name = "counting"
        asked = 0

        def act(self, _):
            self.asked += 1
            return Proposal(f"answer {self.asked}")

    actor = Remembering(Counting(), "strong")
    start = History(Observation("A door."))
    by_cheap, by_strong = (
        start.then(Step(agent, Proposal("push"), StepResult(Observation("It moves.")))) for agent in ("cheap", "strong")
    )
    first, second, third = (actor.act(history).action for history in (start, by_cheap, by_strong))
    assert [first, second, third] == ["answer 1", "answer 2", "answer 3"]
    assert [actor.act(history).action for history in (by_strong, start, by_cheap)] == [third, first, second]
    assert actor.actor.asked == 3
