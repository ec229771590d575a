"""What the pages on DABench say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from bayes_tacit.agents.playing import Pair
from bayes_tacit.agents.protocols import Agent
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.policies.base import number_in
from simulations.dabench import Question
from simulations.dabench.benchmark import counted
from simulations.dabench.experiment import BUDGET_SHARE, STANDSTILL
from simulations.dabench.questions import PAPER, Splits
from simulations.played.crossed import CHOSEN_ON, NO_POSTERIOR, Crossed, crossed_words
from simulations.played.crossed import PARTS as FOLDS
from simulations.played.experiment import PARTS, Experiment
from simulations.played.page import Story, Words, estimates, success_rates, times
from simulations.played.policies import DEFERRAL, TACIT
from simulations.studies.tables import markdown_table

LEVELS = "easy medium hard"

OTHERS = """## With language models, or with recorded answers

The same experiment runs with any pair of actors:

```python
from simulations.dabench import dabench_prompt
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, whole_answer
from bayes_tacit.agents.playing import Players
from simulations.dabench.experiment import BUDGET, run_experiment
from simulations.dabench.experiment import COST

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
    """Return the words of a page on these questions; how the teacher's rule was settled depends on who Cheap is."""
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


COMMAND = "dabench"


def story_of(splits: Splits, cheap: Path | None, strong: Path | None) -> Story:
    """Say who plays: of each side, whether it is replayed from a folder or the analyst by rule."""
    sides: dict[Agent, Path | None] = {"cheap": cheap, "strong": strong}
    recorded = [agent for agent, folder in sides.items() if folder is not None]
    return recorded_story(splits, recorded) if recorded else analysts_story(splits)


def analysts_story(splits: Splits) -> Story:
    """Say what the analysts are."""
    return Story(
        dabench_words(splits),
        title="DABench, played by two analysts by rule",
        is_not=(
            "**What this is not.** Both actors are rules of ours, not language models. They read the words of question "
            "and constraints, and know simple statistics, correlation, missing values, outliers, tests of normality; "
            "what asks for more, such as training a model or making a feature, they get wrong. Strong looks at the "
            "table, computes what the constraints name, and answers. Cheap does so in a hurry, by a stated, seeded "
            "process: it may guess the names of columns, repeat a call that failed, ramble or dither, and of the "
            "constraints it reads the decimals only. Questions, tables, labels, sandbox and decisions are the real "
            "ones. So the page shows that the path works at the paper's size, how fast, and how the policies compare "
            "for this pair; it is no claim about language models, and not to be put beside the paper's figures."
        ),
        command=COMMAND,
        reliance=what_counts,
        tasks="",
    )


def recorded_story(splits: Splits, recorded: Sequence[Agent]) -> Story:
    """Say what a pair is of which one or both are replayed."""
    title, is_not = RECORDED["+".join(recorded)]
    return Story(
        dabench_words(splits, settled=FOR_ANOTHER if "cheap" in recorded else FOR_THIS_CHEAP),
        title=title,
        is_not=f"**What this is not.** {is_not}",
        command=" ".join([COMMAND, *(f"--{agent} FOLDER" for agent in recorded)]),
        reliance=what_counts,
        tasks="",
    )


ONE_BY_RULE = (
    "an analyst by rule of ours, not a language model: it reads the words of question and constraints, and knows "
    "simple statistics, correlation, missing values, outliers, tests of normality; what asks for more, such as "
    "training a model or making a feature, it gets wrong."
)

RECORDED = {
    "cheap+strong": (
        "DABench with recorded answers",
        "Recorded answers are replayed, each actor's one after the other, whatever the other one did before. Rollouts "
        "of one actor are therefore what they were; after a handoff Strong begins with its first answer, which a live "
        "actor need not do.",
    ),
    "cheap": (
        "DABench with recorded answers of Cheap, and Strong by rule",
        "Cheap's recorded answers are replayed, one after the other, whatever Strong did before. Rollouts of Cheap are "
        f"therefore what they were. Strong is {ONE_BY_RULE} It goes on from what it finds, at a handoff too.",
    ),
    "strong": (
        "DABench with Cheap by rule, and recorded answers of Strong",
        "Strong's recorded answers are replayed, one after the other, whatever Cheap did before. Rollouts of Strong "
        "are therefore what they were; after a handoff it begins with its first answer, which a live actor need not "
        f"do. Cheap is {ONE_BY_RULE} It is in a hurry, by a stated, seeded process: it may guess the names of columns, "
        "repeat a call that failed, ramble or dither, and of the constraints it reads the decimals only.",
    ),
}
"""Title and what the page is not, by whose answers are replayed."""


SIGNS = {
    "protocol_violation": "a reply that is neither a call nor an answer",
    "format_violation": "an answer that is not in the form asked for",
    "execution_failure": "a call that failed",
    "repetition": "a call that was made before",
    "stalled_answer": "another call after two with the same output",
    "budget_pressure": "calls that run out",
    "no_recent_progress": "two steps without anything new",
    "semantic_mismatch": "code that names what the table does not have, or an answer for which columns that the "
    "question names were not used",
}
"""What the diagnostics are signs of, in words."""


def what_counts(experiment: Experiment) -> list[str]:
    """Say what there is to see, and what is made of it."""
    return [*quiet_failures(experiment), leaning(experiment), *single_steps(experiment)]


def leaning(experiment: Experiment) -> str:
    """Say which sign TACIT-Switch gives most weight."""
    weights = estimates(experiment)[0].w
    name = experiment.training.diagnostic_names[int(weights.argmax())]
    training = experiment.training
    last = training.dataset["window_end"].values[training.has_window] + 2 == training.n_steps[training.has_window]
    return (
        f"**What TACIT-Switch leans on.** {float(weights.max()):.0%} of its weight is on `{name}`: {SIGNS[name]}. "
        f"{int(last.sum())} of the {len(last)} marks of the fit are read at Cheap's last proposal, its answer."
    )


def single_steps(experiment: Experiment) -> list[str]:
    """Say why Step Deferral leaves all to Cheap, where it does."""
    if not math.isinf(number_in(experiment.comparison.choices[DEFERRAL].point, "alpha")):
        return []
    return [
        f"**Why {DEFERRAL} leaves all to Cheap.** Each deferred step pays for a proposal that is discarded, too, and "
        "one step of Strong's settles nothing: it takes one to compute and one to answer. No threshold that defers "
        "anything is both within the cap and better than Cheap alone on the development questions."
    ]


def quiet_failures(experiment: Experiment) -> Sequence[str]:
    """Say how many failures can be seen coming, and when."""
    pairs = experiment.pairs["test"]
    failed = [pair.cheap for pair in pairs if pair.outcome == "01"]
    signs = [pair.outcome for pair in pairs if first_sign(pair.cheap) is not None]
    quiet, last = sum(first_sign(one) is None for one in failed), sum(_at_the_end(one) for one in failed)
    return [
        f"**What policies can see here.** Of the {len(failed)} test questions that only Strong answers, Cheap fails on "
        f"{quiet} without a single sign: every diagnostic of every proposal is zero, as where it computes cleanly what "
        f"the constraints did not ask for. On {last} the first sign is its last proposal, the answer itself: there a "
        "decision at proposals can still discard it, one after actions would come too late. "
        f"Signs do not tell what Strong can do: of the {len(signs)} test rollouts with one, {signs.count('01')} are of "
        f"questions that only Strong answers, {signs.count('00')} of questions that neither does, and "
        f"{len(signs) - signs.count('01') - signs.count('00')} of questions that Cheap answers nevertheless."
    ]


def first_sign(cheap: Transcript) -> int | None:
    """Return the first checkpoint at which a diagnostic is above zero; None where there is none."""
    signs = [at for at, step in enumerate(cheap.checkpoints) if any((step.diagnostics or {}).values())]
    return signs[0] if signs else None


def _at_the_end(cheap: Transcript) -> bool:
    return first_sign(cheap) == len(cheap.checkpoints) - 1


def crossed_section(found: Crossed, experiment: Experiment) -> list[str]:
    """Return the section on all questions."""
    n, (chosen_on, tested) = len(found.outcomes[TACIT].success), experiment.counts.loc["01", ["select", "test"]]
    return [
        f"## Every question once a test question: {n} in {FOLDS} parts",
        f"Only Strong answers {chosen_on} of the development questions and {tested} of the test questions: all that a "
        "policy can win over Cheap alone, and too few to tell policies apart. So all questions are dealt into "
        f"{FOLDS} parts; for each, policies are fitted on {1 - CHOSEN_ON:.0%} of the others and chosen on the rest of "
        f"them under {BUDGET_SHARE:.0%} of Pure Strong's cost there. Marks are one checkpoint: "
        f"{found.marked} of {found.failed} questions with AB = 01 have one. What comes of each decision is read from "
        "tables of continuations, which were checked above against episodes that were played. The parts share "
        "training questions, so intervals (paired bootstrap over questions) are of this deal, not of new training "
        f"sets. {NO_POSTERIOR}",
        *crossed_words(found),
    ]
