"""What the pages on ALFWorld say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bayes_tacit.agents.transcript import Transcript
from simulations.alfworld.learned import LearnedPair
from simulations.played.experiment import Experiment
from simulations.played.page import Story, Words, success_rates, times
from simulations.played.policies import DEFERRAL

REAL_MODELS = """## With language models

The same experiment runs with any pair of actors:

```python
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
from bayes_tacit.agents.playing import Players
from simulations.alfworld.experiment import run_experiment

players = Players(
    cheap=EndpointActor(Endpoint("http://127.0.0.1:8000/v1", "qwen-4b")),
    strong=EndpointActor(Endpoint("http://127.0.0.1:8001/v1", "qwen-27b")),
)
experiment = run_experiment("path/to/alfworld", "played-by-models", players=players, repeatable=False)
```

The rule-based teacher then still marks by replayed handoffs; a model or people mark with `bayes-tacit teach`. Step by \
step from the shell: `bayes-tacit collect`, `teach`, `fit` or `sample`, `select`, `evaluate`."""


def opening(experiment: Experiment) -> str:
    """Say which games are for what."""
    fit, select, test = (len(experiment.pairs[part]) for part in ("fit", "select", "test"))
    return (
        f"Fitted on {fit} games of valid_seen, chosen on {select} others under {experiment.share:.0%} of Pure Strong's "
        f"cost, evaluated once on {test} games of valid_train, by playing every policy through the loop."
    )


def rates(experiment: Experiment) -> str:
    """Say how often each actor wins alone, on the games that they were tuned on and on the others."""
    return success_rates(experiment, {"valid_seen": ("fit", "select"), "the test games": ("test",)}, "wins")


def marked(experiment: Experiment) -> str:
    """Say what the teacher marked."""
    return (
        f"The rule-based teacher marked {int(experiment.training.has_window.sum())} of the "
        f"{experiment.counts['fit']['01']} fit games with AB = 01, each with one checkpoint: the first at which three "
        "steps had told nothing new and a handoff, replayed, succeeds. That is a best case of a teacher."
    )


def took(kept: Path) -> str:
    """Say how long playing took."""
    return f"{times(kept, 'games')} Fitting and choosing take about a minute more, the larger protocol several."


ALFWORLD = Words(
    tasks="games",
    data="path/to/alfworld",
    opening=opening,
    alarm="First Alarm hands off for good at the first repeated action.",
    cost=("Cost in calls of the 4B model (the paper's units: Cheap 1, Strong 6.75, a call of the value head 1.75)."),
    unit="calls of the 4B model",
    rates=rates,
    marked=marked,
    took=took,
    models=REAL_MODELS,
)


def scripted_reliance(experiment: Experiment) -> list[str]:
    """Say which actions Step Deferral leaves to whom: where Cheap is unsure, and why that pays here."""
    return [
        f"**Why {DEFERRAL} does what it does here.** It looks at the likelihood of Cheap's proposal, which for a "
        "script is exact: low wherever Cheap does not know where to look, and that is what Strong knows better. "
        f"{shares(experiment)} Cheap opens, takes and puts for a seventh of the price, and by its error process a step "
        "of Strong's ends its confusion. A language model's likelihood need not say as much, and one step of help need "
        "not set it right. A permanent handoff pays Strong's price for every action that follows, and comes when "
        "actions were already wasted: cumulative risk has to grow first. But it gains most from a Strong that reads "
        "the whole history: since Strong recognizes what it has noticed once, where it forgot at a later look before, "
        "a handoff on the way is worth more, while Strong alone wins as often as it did."
    ]


def shares(experiment: Experiment) -> str:
    """Say what Strong does in Step Deferral's episodes."""
    doing = {agent: executed(experiment.played[DEFERRAL], agent) for agent in ("strong", "cheap")}
    total = sum(count.total() for count in doing.values())
    moves = {agent: count["go"] / max(1, count.total()) for agent, count in doing.items()}
    return (
        f"On the test games Strong takes {doing['strong'].total() / total:.0%} of the actions in its episodes; "
        f"{moves['strong']:.0%} of those are moves to a receptacle, {moves['cheap']:.0%} of Cheap's are."
    )


def executed(transcripts: list[Transcript], agent: str) -> Counter[str]:
    """Count an agent's executed actions by their verb."""
    return Counter(
        record.proposal.action.partition(" ")[0]
        for transcript in transcripts
        for record in transcript.executed
        if record.agent == agent
    )


SCRIPTED = Story(
    ALFWORLD,
    title="ALFWorld with a scripted pair",
    is_not=(
        "**What this is not.** Both actors are scripts of ours, not language models: Strong plans and searches where "
        "things usually are, Cheap does so badly by a stated, seeded error process, and both were tuned on valid_seen "
        "until they won within the ranges that were asked of them (Strong 70 to 95%, Cheap 15 to 45%). The environment "
        "is the real ALFWorld engine with its official games. So the numbers say how the policies compare for this "
        "pair, and that everything around them works; they are no claim about language models, and not to be put "
        "beside the paper's. A pair that learned what it knows plays the same games on "
        "[another page](../alfworld_learned/README.md)."
    ),
    command="alfworld",
    reliance=scripted_reliance,
    tasks=(
        "At hand are 340 games, and in 66 of them was counted what Strong knows of where things are, so 274 are left."
    ),
)


def learned_reliance(experiment: Experiment) -> list[str]:
    """Say which actions Step Deferral leaves to whom, and what a permanent handoff costs with this pair."""
    cost = experiment.comparison.table.set_index("policy")["cost"]
    ratio = float(cost["Pure Strong"]) / float(cost["Pure Cheap"])
    return [
        f"**What {DEFERRAL} relies on here.** Cheap's likelihood is its own softmax: how sure it is, not whether it is "
        f"right. {shares(experiment)}",
        f"**Why an early handoff pays here.** Strong needs few actions: a game costs it {ratio:.1f} times what it "
        f"costs Cheap, whose failures use up all of theirs. {_early(experiment)}Cumulative risk has to grow first, and "
        "by then actions are gone: that is where TACIT-Switch as published loses on these games. Which rules are "
        "within the cap hangs on the games, too: see the larger protocol below.",
    ]


def _early(experiment: Experiment) -> str:
    """Name the rules that hand over most games for good and win about as often as Strong does, for no more."""
    points = experiment.comparison.table.set_index("policy")
    strong = points.loc["Pure Strong"]
    fitted = experiment.comparison.fitted.items()
    lasting = [name for name, one in fitted if hasattr(one, "handoffs") and not name.startswith("Pure")]
    as_good = (points["success"] >= strong["success"] - 0.02) & (points["cost"] <= strong["cost"])
    early = points[as_good & (points["intervention_rate"] >= 0.8) & points.index.isin(lasting)]
    if early.empty:
        return ""
    each = ", ".join(f"{name} ({row['success']:.1%} at {row['cost']:.1f})" for name, row in early.iterrows())
    return f"So rules that hand over most games can win about as often as Strong does, for no more: {each}. "


def learned_story(pair: LearnedPair) -> Story:
    """Say what the learned pair is."""
    few, many = (sorted({len(games) for games in some}) for some in (pair.cheap_games, pair.strong_games))
    sizes = [sorted({len(one.weights) for one in actor.rankers}) for actor in (pair.cheap, pair.strong)]
    return Story(
        ALFWORLD,
        title="ALFWorld with a learned pair",
        is_not=(
            "**What this is not.** Both actors learned what they know from walkthroughs of the games, and nobody "
            "wrote down what goes wrong with them; but they are linear rankers of admissible commands, not language "
            "models. They read commands and lists by their words, are never told what to do next, and cannot write a "
            "command that is not on the list, so the diagnostic of invalid actions is always zero. The numbers say how "
            "the policies compare for this pair; they are no claim about language models, and not to be put beside the "
            "paper's. A scripted pair plays the same games on [another page](../alfworld/README.md)."
        ),
        command="alfworld_learned",
        reliance=learned_reliance,
        tasks="At hand are 340 games, each of which is played by actors that were not trained on it.",
        about=[
            f"**How they learned.** The game files at hand hold no walkthrough. In its place stands that of one who "
            f"knows where everything is: our own plan with the game's facts, which is as long as what the package's "
            f"planner finds, or a command longer. A ranker gives each admissible command a softmax probability "
            f"from words that say how it stands to the task, to what is shown and, for Strong, to what was seen before "
            f"(one weight a word, ridge, maximum likelihood). Each walkthrough is learned as it is and in copies with "
            f"detours to receptacles where nothing is found, the right command there being the walkthrough's next one; "
            f"no other expert was asked. Cheap: {_numbers(few)} games, {_numbers(sizes[0])} weights, no memory but the "
            f"action before. Strong: {_numbers(many)} games, {_numbers(sizes[1])} weights, memory. Games are dealt "
            f"into {len(pair.strong_games)} folds by the room that the first observation shows, and each is played by "
            "the rankers that were trained on the other folds; so the rankers of a fit game may have learned from the "
            "walkthrough of a test game, and differ from those that play it. With eight games Cheap won 56% of every "
            "fifth of the 340 games, more than was asked of it (10 to 45%); two, three, four and six were then tried "
            "on a third of valid_seen, and four were taken. Nothing else was tuned."
        ],
    )


def _numbers(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
