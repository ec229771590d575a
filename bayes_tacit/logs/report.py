"""What an import says: what was paired and what was not, and what the diagnostics look like."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from bayes_tacit.logs.extractor import FLAGS, UNCERTAINTY
from bayes_tacit.logs.store import CHEAP, STRONG, Store
from bayes_tacit.logs.writing import Plan, Range, Tally

OUTCOMES = ("00", "01", "10", "11")


class Sides(NamedTuple):
    """Something of Cheap's log and of Strong's."""

    cheap: str
    strong: str


@dataclass(frozen=True)
class Unpaired:
    """Rollouts of one side without a partner: how many, and the tasks of the first few."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """What a diagnostic or a feature looks like.

    Attributes
    ----------
    least, mean, most
        Over all steps, or all episodes.
    episodes
        Share of the episodes in which a diagnostic is ever above 0; None where it is not counted.
    """

    name: str
    least: float
    mean: float
    most: float
    episodes: float | None = None

    @property
    def constant(self) -> bool:
        """Whether it never changes."""
        return self.least == self.most


@dataclass(frozen=True)
class ImportReport:
    """What came of two logs; printed, it says so in words.

    Attributes
    ----------
    episodes
        Number of pairs.
    outcomes
        Pairs by paired outcome AB.
    unpaired_cheap, unpaired_strong
        What could not be paired.
    diagnostics, features
        What they look like.
    carried
        Variables that go along: by episode, and by step.
    trials
        Whether some tasks have several episodes.
    cheap_steps, strong_steps
        Mean steps of a rollout.
    formats, models
        What the logs were, and who played.
    notes
        What else there is to know, one sentence each.
    """

    episodes: int
    outcomes: dict[str, int]
    unpaired_cheap: Unpaired
    unpaired_strong: Unpaired
    diagnostics: tuple[Shape, ...]
    features: tuple[Shape, ...]
    carried: tuple[str, ...]
    trials: bool
    cheap_steps: float
    strong_steps: float
    formats: Sides
    models: Sides
    notes: tuple[str, ...]

    @classmethod
    def of(cls, store: Store, plan: Plan, tally: Tally, formats: Sides, models: list[Counter[str]]) -> ImportReport:
        """Put together what was counted."""
        n = sum(tally.outcomes.values())
        without = store.count("SELECT count(*) FROM pair JOIN cheap c ON c.id = pair.cheap WHERE c.nll IS NULL")
        extra = (*(("task", "trial") if plan.trials else ()), *_texts(plan))
        report = cls(
            episodes=n,
            outcomes={outcome: tally.outcomes[outcome] for outcome in OUTCOMES},
            unpaired_cheap=Unpaired(*_few(store.unpaired(CHEAP))),
            unpaired_strong=Unpaired(*_few(store.unpaired(STRONG))),
            diagnostics=_diagnostics(plan, tally, n),
            features=tuple(_shape(name, seen) for name, seen in tally.features.items()),
            carried=("strong_steps", *extra, *plan.carried, *plan.steps),
            trials=plan.trials,
            cheap_steps=tally.cheap_steps / n,
            strong_steps=tally.strong_steps / n,
            formats=formats,
            models=Sides(*(", ".join(name for name in sorted(seen) if name) for seen in models)),
            notes=(),
        )
        object.__setattr__(report, "notes", tuple(report._remarks(without)))
        return report

    def _remarks(self, without: int) -> list[str]:
        notes = []
        if self.trials:
            notes.append("several trials of a task are episodes of their own (task#1, task#2): split them by task")
        if 0 < without < self.episodes:
            notes.append(f"uncertainty is left out: {without} Cheap rollouts have steps without log-probabilities")
        silent = [shape.name for shape in self.diagnostics if shape.constant]
        if silent:
            notes.append(f"constant diagnostics, from which nothing can be learned: {', '.join(silent)}")
        constant = [shape.name for shape in self.features if shape.constant]
        if constant:
            notes.append(f"constant features: {', '.join(constant)}")
        if self.outcomes["01"]:
            notes.append(
                f"no marks: in {self.outcomes['01']} episodes only Strong succeeded, and none says when a handoff was "
                "due; mark them with bayes-tacit teach, or fit with --unmarked due"
            )
        return notes

    def __str__(self) -> str:
        counts = ", ".join(f"{outcome}: {count}" for outcome, count in self.outcomes.items())
        lines = [
            f"{self.episodes} episodes, outcomes AB = {counts}",
            f"steps: {self.cheap_steps:.1f} of Cheap{_named(self.models.cheap)}, {self.strong_steps:.1f} of "
            f"Strong{_named(self.models.strong)} in the mean; formats {self.formats.cheap} and {self.formats.strong}",
        ]
        for side, other, unpaired in (
            ("Cheap", "Strong", self.unpaired_cheap),
            ("Strong", "Cheap", self.unpaired_strong),
        ):
            if unpaired.count:
                few = ", ".join(unpaired.examples) + (", ..." if unpaired.count > len(unpaired.examples) else "")
                lines.append(f"not paired: {unpaired.count} rollouts of {side} without one of {other} ({few})")
        width = max(len(shape.name) for shape in (*self.diagnostics, *self.features))
        lines.append(f"{'diagnostic':<{width}}    mean     max  episodes with it")
        for shape in self.diagnostics:
            share = "" if shape.episodes is None else f"{100 * shape.episodes:14.1f}%"
            lines.append(f"{shape.name:<{width}} {shape.mean:7.3f} {shape.most:7.3g} {share}{_constant(shape)}")
        lines.append(f"{'feature':<{width}}    mean     min     max")
        lines += [
            f"{shape.name:<{width}} {shape.mean:7.4g} {shape.least:7.4g} {shape.most:7.4g}{_constant(shape)}"
            for shape in self.features
        ]
        lines.append(f"carried along: {', '.join(self.carried)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _diagnostics(plan: Plan, tally: Tally, n: int) -> tuple[Shape, ...]:
    shapes = []
    for name in plan.flags:
        bit = 1 << FLAGS.index(name)
        steps = sum(count for flag, count in tally.flags.items() if flag & bit)
        episodes = sum(count for flag, count in tally.episodes_with.items() if flag & bit)
        least, most = float(steps == tally.cheap_steps), float(steps > 0)
        shapes.append(Shape(name, least, steps / tally.cheap_steps, most, episodes / n))
    if plan.uncertainty:
        shapes.append(_shape(UNCERTAINTY, tally.uncertainty))
    return tuple(shapes)


def _shape(name: str, seen: Range) -> Shape:
    return Shape(name, seen.least, seen.mean, seen.most)


def _few(found: tuple[int, list[str]]) -> tuple[int, tuple[str, ...]]:
    return found[0], tuple(found[1])


def _texts(plan: Plan) -> tuple[str, ...]:
    first = next(iter(plan.columns.values()), {})
    return tuple(name for name, value in first.items() if isinstance(value, str))


def _named(models: str) -> str:
    return f" ({models})" if models else ""


def _constant(shape: Shape) -> str:
    return "  constant" if shape.constant else ""
