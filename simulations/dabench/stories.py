"""Who plays, in the words of the page: what each pair is, what it is not, and why policies do what they do with it."""

from __future__ import annotations

from collections.abc import Sequence

from bayes_tacit.agents.transcript import Transcript
from simulations.dabench.experiment import BUDGET_SHARE
from simulations.dabench.splits import Splits
from simulations.dabench.words import dabench_words
from simulations.played.crossed import CHOSEN_ON, PARTS, Crossed, crossed_words
from simulations.played.experiment import Experiment
from simulations.played.policies import TACIT
from simulations.played.story import Story

COMMAND = "dabench"


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
        reliance=quiet_failures,
        tasks="",
    )


def recorded_story(splits: Splits) -> Story:
    """Say what a replayed pair is."""
    return Story(
        dabench_words(splits),
        title="DABench with recorded answers",
        is_not=(
            "**What this is not.** Recorded answers are replayed, each actor's one after the other, whatever the other "
            "one did before. Rollouts of one actor are therefore what they were; after a handoff Strong begins with "
            "its first answer, which a live actor need not do."
        ),
        command=f"{COMMAND} --cheap FOLDER --strong FOLDER",
        reliance=quiet_failures,
        tasks="",
    )


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
    """Give the first checkpoint at which a diagnostic is above zero; None where there is none."""
    signs = [at for at, step in enumerate(cheap.checkpoints) if any((step.diagnostics or {}).values())]
    return signs[0] if signs else None


def _at_the_end(cheap: Transcript) -> bool:
    return first_sign(cheap) == len(cheap.checkpoints) - 1


def crossed_section(found: Crossed) -> list[str]:
    """Give the section on all questions."""
    n = len(found.outcomes[TACIT].success)
    return [
        f"## Every question once a test question: {n} in {PARTS} parts",
        f"The test part above is small. So the questions are dealt into {PARTS} parts; for each, policies are fitted "
        f"on {1 - CHOSEN_ON:.0%} of the others and chosen on the rest of them under {BUDGET_SHARE:.0%} of Pure "
        f"Strong's cost there. Marks are one checkpoint: {found.marked} of {found.failed} questions with AB = 01 have "
        "one. What comes of each decision is read from tables of continuations, which were checked above against "
        "episodes that were played. The parts share training questions, so intervals (paired bootstrap over questions) "
        "are of this deal, not of new training sets. TACIT-Switch by posterior is left out: it would be sampled for "
        "each part.",
        *crossed_words(found),
    ]
