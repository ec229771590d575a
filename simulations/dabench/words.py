"""What the page on DABench says of the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bayes_tacit.agents.playing import Pair
from simulations.dabench import Question
from simulations.dabench.counted import counted
from simulations.dabench.experiment import STANDSTILL
from simulations.dabench.splits import PAPER, Splits
from simulations.played.experiment import PARTS, Experiment
from simulations.played.page_tables import success_rates, times
from simulations.played.story import Words
from simulations.studies.tables import markdown_table

LEVELS = "easy medium hard"

OTHERS = """## With language models, or with recorded answers

The same experiment runs with any pair of actors:

```python
from simulations.dabench import dabench_prompt
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, whole_answer
from bayes_tacit.agents.playing import Players
from simulations.dabench.experiment import BUDGET, run_experiment
from simulations.dabench.policies import COST

prompt = {"prompt": dabench_prompt(), "mode": "generate", "reads": whole_answer}
players = Players(
    cheap=EndpointActor(Endpoint("http://127.0.0.1:8000/v1", "qwen-9b"), **prompt),
    strong=EndpointActor(Endpoint("http://127.0.0.1:8001/v1", "qwen-27b"), **prompt),
    cost=COST,
    budget=BUDGET,
)
experiment = run_experiment("path/to/dabench", "played-by-models", players=players, repeatable=False)
```

Rollouts that were recorded once, by `bayes-tacit collect --benchmark simulations.dabench:benchmark`,\
 are replayed without asking anybody: \
`python -m simulations dabench --data path/to/dabench --cheap path/to/rollouts --strong path/to/rollouts`. Each actor \
then gives its recorded answers one after the other, also after a handoff; the code in them is really run."""


def opening(splits: Splits) -> Callable[[Experiment], str]:
    """Say which questions are for what."""

    def said(experiment: Experiment) -> str:
        fit, select, test = (len(experiment.pairs[part]) for part in PARTS)
        n = len(splits.all) + len(splits.missing)
        dealt = " / ".join(str(count) for count in PAPER.values())
        return (
            f"Fitted on {fit} questions of InfiAgent-DABench, chosen on {select} others under {experiment.share:.0%} "
            f"of Pure Strong's cost, evaluated once on {test}, by playing every policy through the loop: each call of "
            "Python that an actor proposes is run on the question's table in the sandbox, each answer is checked "
            "against DABench's label, and decisions are made at proposals, before they are run. The paper deals "
            f"{sum(PAPER.values())} questions into {dealt} and does not say which; these {n} were dealt so by a seed. "
            f"{_missing(splits)}"
        )

    return said


def _missing(splits: Splits) -> str:
    missing = splits.missing
    if not missing:
        return "All of their tables are at hand."
    ids = ", ".join(question.id for question in missing)
    names = ", ".join(f"`{name}`" for name in sorted({question.file_name for question in missing}))
    return (
        f"Of {len(missing)} (ids {ids}) the table is not at hand ({names}; the largest of those that are has "
        f"{splits.largest / 2**20:.2f} MB): they are left out where they were dealt."
    )


def rates(experiment: Experiment) -> str:
    """Say how often each actor is right alone, and on which questions."""
    groups = {"the fit and development questions": ("fit", "select"), "the test questions": ("test",)}
    pairs = [pair for part in PARTS for pair in experiment.pairs[part]]
    levels = sorted({pair.task.level for pair in pairs}, key=lambda level: (LEVELS.find(level), level))
    rows = [_row(level, [pair for pair in pairs if level in ("all", pair.task.level)]) for level in (*levels, "all")]
    table = markdown_table(["level of the question", "questions", "Cheap right", "Strong right", "only Strong"], rows)
    return (
        f"{success_rates(experiment, groups, 'is right on')}\n\nOf all questions, by DABench's own levels:\n\n{table}"
    )


def _row(level: str, pairs: Sequence[Pair[Question]]) -> list[str]:
    n = len(pairs)
    right = [
        sum(pair.cheap.end.success for pair in pairs),
        sum(pair.strong.end.success for pair in pairs),
        sum(pair.outcome == "01" for pair in pairs),
    ]
    return [level, str(n), *(f"{count} ({count / n:.1%})" for count in right)]


FOR_THIS_CHEAP = (
    "Such marks are a best case of a teacher, and more so here: what counts as a sign was settled after a look at "
    "Cheap's diagnostics on all questions, those of the test among them, though before any policy was played."
)
"""On the teacher's rule, of the analyst by rule."""

FOR_ANOTHER = (
    "Such marks are a best case of a teacher. What counts as a sign was settled with the analyst by rule as Cheap, "
    "whoever gave the answers that are replayed here."
)
"""The same of a Cheap that is replayed."""


def marked(settled: str) -> Callable[[Experiment], str]:
    """Say what the teacher marked, and how its rule was settled."""

    def said(experiment: Experiment) -> str:
        training = experiment.training
        windows, failed = int(training.has_window.sum()), int((training.outcomes == "01").sum())
        return (
            f"The rule-based teacher marked {windows} of the {failed} fit questions with AB = 01, each with one "
            f"checkpoint: the first at which {STANDSTILL} steps had told nothing new, or the next proposal is the "
            "wrong answer and one of its diagnostics is above zero, and a handoff, replayed, succeeds. A mark after a "
            f"step is read as the proposal that follows, as in the paper. {settled} Where Cheap answers wrongly "
            "without a sign there is no mark, and the question counts for its outcome alone."
        )

    return said


def took(kept: Path) -> str:
    """Say how long playing took, and how many calls the sandbox ran."""
    calls, seconds = counted(kept)
    return (
        f"{times(kept, 'questions')}\n\nThe sandbox ran {calls:,} calls, each in a process of its own that is forked "
        f"from one with the libraries. Questions were open for {seconds / 60:.1f} minutes, added up over workers: "
        f"{1000 * seconds / max(1, calls):.0f} ms a call with everything around it, on a machine that others used as "
        "well. What is asked again of the same question while it is open, such as the first steps of a rollout that is "
        "continued from several places, is remembered and not counted. Fitting and choosing take some minutes more."
    )


def dabench_words(splits: Splits, settled: str = FOR_THIS_CHEAP) -> Words:
    """Give the words of a page on these questions; how the teacher's rule was settled depends on who Cheap is."""
    return Words(
        tasks="questions",
        data="path/to/dabench",
        opening=opening(splits),
        alarm="First Alarm hands off for good at the first proposal of a call that was made before.",
        cost=(
            "Cost in calls of a 4B model (the paper's units: Cheap 2.25, as a 9B model, Strong 6.75, as a 27B one, a "
            "call of the value head 1.75). A proposal that a handoff discards is paid for, and is one of the 12 calls "
            "that an episode may take."
        ),
        unit="calls of a 4B model",
        rates=rates,
        marked=marked(settled),
        took=took,
        models=OTHERS,
    )
