"""The analyst that plays Cheap: the same rules, applied in a hurry by a stated, seeded process."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bayes_tacit.agents.draws import pick, uniforms
from bayes_tacit.agents.protocols import History, Proposal
from simulations.dabench.analyst.notes import Notes, answer, call
from simulations.dabench.analyst.reading import Task, Wanted, read_task, wanted
from simulations.dabench.analyst.writing import compute, look

OVERVIEW = """\
import pandas as pd
df = pd.read_csv({file!r})
print(df.describe())
"""

MOST_OVERVIEWS = 3


@dataclass(frozen=True)
class Haste:
    """What goes wrong with it, as probabilities.

    Attributes
    ----------
    skips_look
        In an episode: it does not look at the table first, but takes the columns to be called as the question's quoted
        words are, in lower case. Where they are not, its call fails.
    repeats
        After a call of its own that failed: it makes the same call again; else it looks at the table.
    rambles
        At a step: it says something that is neither code nor an answer.
    dithers
        Where its call found not every answer: it prints an overview of the table once more, up to three times; else it
        answers what it has.
    """

    skips_look: float = 0.5
    repeats: float = 0.5
    rambles: float = 0.08
    dithers: float = 0.6


@dataclass(frozen=True)
class HastyAnalyst:
    """Answers badly, by rules, seeing only what a player sees.

    It computes simple statistics of columns as they are, and of the constraints it reads the decimals only. What is
    drawn depends on the seed, the question and the visible history, so it plays the same episode again in the same way
    and can be asked to go on from any history. Its likelihood is exact: the probability of what it drew.

    Parameters
    ----------
    seed
        For everything that is drawn.
    haste
        What goes wrong.
    """

    seed: int = 0
    haste: Haste = Haste()
    name: str = "hasty analyst"

    def act(self, history: History) -> Proposal:
        """Give the next reply."""
        task, notes = read_task(history.task), Notes.of(history, "cheap")
        draws = uniforms(self.seed, history, 2, "hasty analyst")
        said, probability = pick({"rambles": self.haste.rambles, "works": 1 - self.haste.rambles}, draws[0])
        if said == "rambles":
            return Proposal("I think the table has what is needed; let me consider.", nll=-math.log(probability))
        reply, chosen = self._work(task, notes, history, float(draws[1]))
        return Proposal(reply, nll=-math.log(probability * chosen))

    def _work(self, task: Task, notes: Notes, history: History, draw: float) -> tuple[str, float]:
        """Give a reply, and its probability among those that it might have given here."""
        calls = notes.calls
        if notes.failed:
            what, chosen = pick({"again": self.haste.repeats, "look": 1 - self.haste.repeats}, draw)
            return call(calls[-1] if what == "again" else look(task)), chosen
        if notes.columns is None and self._looks(history):
            return call(look(task)), 1.0
        answers = self._understood(task, notes.columns)
        code = compute(task, answers, careful=False)
        if code not in calls:
            return call(code), 1.0
        found = notes.answers or {}
        overview = OVERVIEW.format(file=task.file_name)
        if all(one.name in found for one in answers) or calls.count(overview) == MOST_OVERVIEWS:
            return answer(task, answers, found), 1.0
        what, chosen = pick({"overview": self.haste.dithers, "answer": 1 - self.haste.dithers}, draw)
        return call(overview) if what == "overview" else answer(task, answers, found), chosen

    def _looks(self, history: History) -> bool:
        """Tell whether it looks at the table first, in this episode."""
        return bool(uniforms(self.seed, history, 1, "hasty look", step=0)[0] >= self.haste.skips_look)

    def _understood(self, task: Task, columns: Sequence[str] | None) -> list[Wanted]:
        """Tell what is wanted; columns that it has not seen are guessed from the quoted words."""
        if columns is not None:
            return wanted(task, columns)
        quoted = re.findall(r"[\"'`]([A-Za-z][\w .]*?)[\"'`]", f"{task.question}\n{task.constraints}")
        guessed = list(dict.fromkeys(word.lower() for word in quoted))
        return [replace(one, columns=one.columns or tuple(guessed)) for one in wanted(task, guessed)]
