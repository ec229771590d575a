"""Real pairs of models with a side of most training tasks hidden: what `recommend` names from forty pairs among them.

Half of a pair's tasks are for training, as in `simulations.pairs`. Of these forty keep both sides, half of the others
only Cheap's rollout and half only Strong's. Words are learned from all of them; rules are fitted, judged and named on
the forty pairs alone. What is named is evaluated on the other half, beside what `simulations.pairs` gives from all
training pairs of the same split.
`python -m simulations.hidden_sides DATA` writes the page.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit import StepCost, World
from bayes_tacit.errors import TacitWarning
from bayes_tacit.logs import episodes_from_logs
from bayes_tacit.logs.reader import Reader
from bayes_tacit.policies import recommend
from simulations.pairs import PAIRS, SHARES, Rollouts, _rollouts, _world

OURS = ("SQL vicuna -> gpt-4", "SQL gpt-3.5 -> gpt-4", "MINT gpt-3.5 -> gpt-4", "LDB starcoder -> gpt-3.5")
KEPT = 40
COST = StepCost(cheap=1, strong=10)
RESULTS = Path(__file__).parent / "results"
OUT, PAIRED = RESULTS / "strata" / "hidden_sides.md", RESULTS / "pairs" / "replicates.csv"


def replicate(rollouts: Rollouts, name: str, seed: int) -> list[dict[str, object]]:
    """Learn from both sides of forty tasks and one side of the others, and evaluate on the other half."""
    order = np.random.default_rng(seed).permutation(len(rollouts))
    tasks = list(rollouts)
    training = [tasks[at] for at in order[: len(tasks) // 2]]
    rest = [task for task in tasks if task not in set(training)]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{side}.jsonl" for side in ("cheap", "strong")]
        singles = training[KEPT:]
        sides = training[:KEPT] + singles[::2], training[:KEPT] + singles[1::2]
        for at, (path, played) in enumerate(zip(paths, sides, strict=True), 1):
            lines = [json.dumps({"task": task, **rollouts[task][at]}) for task in played]  # type: ignore[dict-item]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        episodes, _ = episodes_from_logs(*paths, unpaired="keep")
    test, _ = _world(rollouts, rest, True, Reader.of(episodes))
    few = World.from_restarts(episodes.pairs(), strong_steps="strong_steps", cost=COST)
    return rows + evaluated(name, seed, f"{KEPT} pairs, a side of the others", few, test)


def evaluated(name: str, seed: int, seen: str, learned: World, test: World) -> list[dict[str, object]]:
    """Name a rule under each cap, and return what it gives above the coin flip on test tasks."""
    cheap, strong = test.counterfactuals.pure_cheap.point(), test.counterfactuals.pure_strong.point()
    rows: list[dict[str, object]] = []
    for share in SHARES:
        advice = recommend(learned, share * float(learned.counterfactuals.pure_strong.cost.mean()), seed=seed)
        point = test.outcomes(advice.router).point()
        flip = (point["cost"] - cheap["cost"]) / (strong["cost"] - cheap["cost"])
        above = 100 * (point["success"] - cheap["success"] - flip * (strong["success"] - cheap["success"]))
        found = {"named": advice.name, "above": above, "sure": float(advice.expected["above"])}
        rows.append({"pair": name, "seed": seed, "seen": seen, "share": share, "needed": advice.needed, **found})
    return rows


def page(table: pd.DataFrame) -> str:
    """Write the page, beside what the study of pairs found on the same splits."""
    paired = pd.read_csv(PAIRED)
    paired = paired[(paired["split"] == "tasks") & paired["words"]]
    caps = ", ".join(f"{share:.0%}" for share in SHARES)
    lines = [
        "# Real pairs with a side of most training tasks hidden",
        "",
        f"Points of success above the coin flip on test tasks at caps of {caps} of Pure Strong's cost;",
        f"{table['seed'].nunique()} split(s). Half of a pair's tasks are for training: all of them paired",
        f"(the study of pairs), or {KEPT} pairs and one side of each other task, half Cheap's and half Strong's. Words",
        "are learned from all that was seen; rules are fitted, judged and named on the pairs. Where nothing is named,",
        "Pure Cheap is. `python -m simulations.hidden_sides DATA` makes this page.",
        "",
        f"| pair | all paired | {KEPT} pairs, a side of the others | named |",
        "| --- | --- | --- | --- |",
    ]
    means = []
    for name, own in table.groupby("pair", sort=False):
        both = [found[(found["pair"] == name) & found["seed"].isin(own["seed"])] for found in (paired, own)]
        both[0] = both[0].rename(columns={"above_coin": "above"})
        found = [[rows.loc[rows["share"] == share, "above"].mean() for share in SHARES] for rows in both]
        means.append([np.mean(each) for each in found])
        cells = [", ".join(f"{each:.1f}" for each in one) for one in found]
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(own['named'])} |")
    named = table[table["named"] != "Pure Cheap"]
    below = int((named["above"] < 0).sum())
    mean = " | ".join(f"**{each:.1f}**" for each in np.mean(means, axis=0))
    lines += [
        f"| mean | {mean} | |",
        "",
        f"A rule was named in {len(named)} of {len(table)} cases; {below} of these ended below "
        f"the coin flip, the lowest at {named['above'].min():.1f} points.",
        "",
    ]
    return "\n".join(lines)


def main(data: Path, seeds: int = 1) -> None:
    """Compute all splits and write the page, which grows pair by pair."""
    found: list[dict[str, object]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for name in OURS:
            rollouts = _rollouts(data, PAIRS[name])
            for seed in range(seeds):
                found += replicate(rollouts, name, seed)
            OUT.write_text(page(pd.DataFrame(found)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(each) for each in sys.argv[2:]))
