"""The analyst that plays Strong: looks at the table, reads the constraints, computes, answers."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_tacit.agents.protocols import History, Proposal
from simulations.dabench.analyst.notes import Notes, answer, call
from simulations.dabench.analyst.reading import read_task, wanted
from simulations.dabench.analyst.writing import compute, look


@dataclass(frozen=True)
class CarefulAnalyst:
    """Answers by rules, seeing only what a player sees; the same history always gives the same reply.

    It looks at the table's columns unless they have been shown, computes in one call what the words of the question and
    of its constraints name (`reading`, `writing`), and answers. It trusts no number that it has not computed itself. If
    its call fails, or where no rule applies, it answers what it has, which is wrong.
    """

    name: str = "careful analyst"

    def act(self, history: History) -> Proposal:
        """Give the next reply."""
        task, notes = read_task(history.task), Notes.of(history, "strong")
        if notes.columns is None and not notes.failed:
            return Proposal(call(look(task), "Let me look at the table."))
        answers = wanted(task, notes.columns or ())
        code = compute(task, answers, careful=True)
        if not notes.failed and code not in notes.calls:
            return Proposal(call(code, "Now I compute what is asked."))
        return Proposal(answer(task, answers, notes.answers or {}))
