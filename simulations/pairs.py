"""What `recommend` gives on real pairs of models: named on half of the tasks, replayed on the other half.

Rules and settings are those of the library, and were fixed before this study was run. Everything is learned from one
half of a pair's tasks, the reader of words too; the router is then evaluated exactly on the other half, whose handoffs
restart the task, beside the coin flip of the same cost. Splits are by task, or by what tasks have in common (a
database, a kind), so that no training task is of the same group as a test task.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from bayes_tacit import StepCost, World
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.logs import episodes_from_logs, read_rollouts
from bayes_tacit.logs.reader import DIAGNOSTICS, Reader
from bayes_tacit.policies import Count, CrossFit

SHARES = (0.4, 0.6, 0.8)
"""Caps, as shares of what Pure Strong costs on the training tasks."""

COST = StepCost(cheap=1, strong=10)

SPLITS = 2
"""Splits of each kind, unless asked otherwise."""


@dataclass(frozen=True)
class Pair:
    """Two logs of the same tasks.

    Attributes
    ----------
    cheap, strong
        Files in the folder of data.
    groups
        What tasks have in common: "databases" reads it from InterCode's table, "kind" is the name before the slash.
    """

    cheap: str
    strong: str
    groups: str | None = None


PAIRS = {
    "SQL gpt-3.5 -> gpt-4": Pair("intercode/sql_gpt-3.5.json", "intercode/sql_gpt-4.json", "databases"),
    "SQL vicuna -> gpt-4": Pair("intercode/sql_vicuna.json", "intercode/sql_gpt-4.json", "databases"),
    "SQL text-bison -> gpt-4": Pair("intercode/sql_text-bison-001.json", "intercode/sql_gpt-4.json", "databases"),
    "MINT gpt-3.5 -> gpt-4": Pair("mint/gpt-3.5-turbo-0613.jsonl", "mint/gpt-4-0613.jsonl", "kind"),
    "MINT mistral -> mixtral": Pair(
        "mint/mistral-7b-instruct-v0.1.jsonl", "mint/mixtral-8x7b-instruct-v0.1.jsonl", "kind"
    ),
    "LDB starcoder -> gpt-3.5": Pair("ldb/starcoder.jsonl", "ldb/gpt-3.5.jsonl"),
}

COLUMNS = (
    "pair",
    "split",
    "seed",
    "words",
    "share",
    "named",
    "above_coin",
    "by_hand",
    "said",
    "success",
    "success_held",
    "cost_held",
    "cost_of_cap",
    "careful_cost_of_cap",
    "tasks",
)


def run(data: Path | None, out: Path, *, splits: int = SPLITS, fresh: bool = False, console: Console) -> Path:
    """Compute what is missing of the replicates, a line each, and write the page.

    Parameters
    ----------
    data
        The folder with `intercode`, `mint` and `ldb`.
    out
        The folder of the results; a run that was stopped goes on from there.
    splits
        How many splits of each kind.
    fresh
        Whether kept replicates are thrown away.
    console
        Where progress is shown.
    """
    if data is None or not data.is_dir():
        raise InvalidDataError("the folder with intercode, mint and ldb", field="--data", value=str(data))
    out.mkdir(parents=True, exist_ok=True)
    file = out / "replicates.csv"
    if fresh:
        file.unlink(missing_ok=True)
    known = pd.read_csv(file) if file.is_file() else pd.DataFrame(columns=list(COLUMNS))
    done = set(zip(known["pair"], known["split"], known["seed"], known["words"], strict=True))
    logs: dict[str, Rollouts] = {}
    for seed in range(splits):
        for split, words in (("tasks", True), ("tasks", False), ("groups", True)):
            for name, pair in PAIRS.items():
                key = name, split, seed, words
                if key in done or (split == "groups" and not pair.groups):
                    continue
                if name not in logs:
                    logs[name] = _rollouts(data, pair)
                rows = list(_replicate(logs[name], *key))
                _append(file, rows)
                console.print(f"{key}: " + ", ".join(f"{row['above_coin']:+.1f}" for row in rows))
    (out / "README.md").write_text(page(pd.read_csv(file)), encoding="utf-8")
    return out


Rollouts = dict[str, tuple[str, dict[str, Any], dict[str, Any]]]
"""By task: its group, Cheap's rollout and Strong's."""


def _rollouts(data: Path, pair: Pair) -> Rollouts:
    """Read the tasks that both sides played; a record that cannot be read is left out."""
    sides = [_log(data / side) for side in (pair.cheap, pair.strong)]
    groups: dict[str, str] = {}
    if pair.groups == "databases":
        with (data / "intercode" / "databases.csv").open(encoding="utf-8", newline="") as handle:
            groups = {row["task_id"]: row["database"] for row in csv.DictReader(handle)}
    both = [task for task in sides[0] if task in sides[1]]
    return {task: (groups.get(task, task.split("/")[0]), sides[0][task], sides[1][task]) for task in both}


def _log(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    _, rollouts = read_rollouts(path)
    while True:
        try:
            _, rollout = next(rollouts)
        except StopIteration:
            return found
        except TacitError:
            continue
        if any(message["role"] == "assistant" for message in rollout["messages"]):
            success = rollout.get("success")
            solved = float(rollout["score"]) >= 1 if success is None else bool(success)
            found[str(rollout["task"])] = {"success": solved, "messages": rollout["messages"]}


def _replicate(rollouts: Rollouts, name: str, split: str, seed: int, words: bool) -> Iterator[dict[str, object]]:
    """Learn from one half, and evaluate what is named under each cap on the other."""
    rng = np.random.default_rng(seed)
    tasks = list(rollouts)
    if split == "tasks":
        order = rng.permutation(len(tasks))
        training = {tasks[at] for at in order[: len(tasks) // 2]}
    else:
        sizes = pd.Series([group for group, _, _ in rollouts.values()]).value_counts()
        names = rng.permutation(sorted(sizes.index))
        half = names[: 1 + int(np.searchsorted(sizes[names[:-2]].cumsum(), len(tasks) / 2))]
        training = {task for task in tasks if rollouts[task][0] in set(half.tolist())}
    learned, reader = _world(rollouts, [task for task in tasks if task in training], words, None)
    test, _ = _world(rollouts, [task for task in tasks if task not in training], words, reader)
    fits = CrossFit.of(learned, seed=seed)
    for share in SHARES:
        cap = share * float(learned.counterfactuals.pure_strong.cost.mean())
        advice, careful = fits.recommend(cap), fits.recommend(cap, confidence=0.9)
        point, spent = (test.outcomes(one.router).point() for one in (advice, careful))
        of_cap = share * float(test.counterfactuals.pure_strong.cost.mean())
        e = advice.expected
        yield {
            "pair": name,
            "split": split,
            "seed": seed,
            "words": words,
            "share": share,
            "named": advice.name,
            "above_coin": _above_coin(test, point["success"], point["cost"]),
            "by_hand": _by_hand(learned, test, cap),
            "said": 100 * float(e["above_coin"]),
            "success": 100 * point["success"],
            "success_held": e["success_lower"] <= point["success"] <= e["success_upper"],
            "cost_held": e["cost_lower"] <= point["cost"] <= e["cost_upper"],
            "cost_of_cap": point["cost"] / of_cap,
            "careful_cost_of_cap": spent["cost"] / of_cap,
            "tasks": len(test),
        }


def _above_coin(world: World, success: float, cost: float) -> float:
    """Return points of success above the coin flip of the same cost."""
    cheap, strong = (one.point() for one in (world.counterfactuals.pure_cheap, world.counterfactuals.pure_strong))
    flip = (cost - cheap["cost"]) / (strong["cost"] - cheap["cost"])
    return 100 * (success - cheap["success"] - flip * (strong["success"] - cheap["success"]))


def _by_hand(learned: World, test: World, cap: float) -> float:
    """Return what the best count of signs, or fixed step, on the training half gives on the other half."""
    signs = [name for name in learned.episodes.diagnostic_names if name not in DIAGNOSTICS]
    counts = [Count(handoff="restart"), *(Count((name,), handoff="restart") for name in signs)]
    fits = [one.fit(learned.episodes) for one in counts] if signs else []
    tried = [one.make(row) for one in fits for _, row in one.candidates.iterrows()]
    both = []
    for world in (learned, test):
        table, longest = world.counterfactuals.table()[:2], int(learned.episodes.n_steps.max())
        steps = [np.where(world.episodes.n_steps > step, step, NEVER) for step in range(longest + 1)]
        fixed = [table[:, np.arange(len(world)), step].mean(axis=1) for step in steps]
        both.append(np.array([*fixed, *(world.each(tried).mean(axis=2).T if tried else [])]))
    success, cost = both[0].T
    best = np.where(cost <= cap, success, -np.inf).argmax()
    return _above_coin(test, *both[1][best].tolist())


def _world(rollouts: Rollouts, tasks: list[str], words: bool, reader: Reader | None) -> tuple[World, Reader | None]:
    """Import some of the tasks as a user would, with a reader of others where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{side}.jsonl" for side in ("cheap", "strong")]
        for at, path in enumerate(paths, 1):
            lines = (json.dumps({"task": task, **rollouts[task][at]}) for task in tasks)  # type: ignore[dict-item]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        episodes, _ = episodes_from_logs(*paths, words=words, reader=reader)
    world = World.from_restarts(episodes, strong_steps="strong_steps", cost=COST)
    return world, Reader.of(episodes) if words else None


def _append(file: Path, rows: list[dict[str, object]]) -> None:
    """Keep what was computed: all caps of a replicate, or none."""
    before = file.read_text(encoding="utf-8") if file.is_file() else ",".join(COLUMNS) + "\n"
    file.write_text(before + pd.DataFrame(rows)[list(COLUMNS)].to_csv(index=False, header=False), encoding="utf-8")


def page(rows: pd.DataFrame) -> str:
    """Write the page from the replicates."""
    with_words = rows[(rows["split"] == "tasks") & rows["words"]]
    without = rows[(rows["split"] == "tasks") & ~rows["words"]]
    grouped = rows[rows["split"] == "groups"]
    over, below = (with_words["cost_of_cap"] > 1.05).mean(), (with_words["above_coin"] < -1).mean()
    careful = (with_words["careful_cost_of_cap"] > 1).mean()
    named = with_words["named"].value_counts()
    lines = [
        "# Real pairs: what `recommend` names, on tasks that nothing was fitted or chosen on",
        "",
        "Half of a pair's tasks are imported and advised on; the router that is named is evaluated on the other half.",
        "A handoff restarts the task, a Strong step costs 10 of Cheap's. Figures are points of success above a coin",
        "flip between both models of the same cost.",
        "",
        f"**Fixed before:** policies, settings, caps, splits ({rows['seed'].nunique()} of each kind). The reader of",
        "words and the rule of choice were developed on these pairs, so other pairs are their test. **Chosen on the",
        "training half:** the policy and its thresholds. `python -m simulations pairs --data FOLDER` makes this page.",
        "",
        "| pair | 40% | 60% | 80% | by hand | without words | other databases or kinds |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for name in PAIRS:
        own = with_words[with_words["pair"] == name]
        if own.empty:
            continue
        cells = [f"{own.loc[own['share'] == share, 'above_coin'].mean():.1f}" for share in SHARES]
        cells += [_mean(own, "by_hand"), *(_mean(part[part["pair"] == name]) for part in (without, grouped))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    means = [f"**{with_words.loc[with_words['share'] == share, 'above_coin'].mean():.1f}**" for share in SHARES]
    lines += [
        f"| mean | {' | '.join(means)} | {_mean(with_words, 'by_hand')} | {_mean(without)} | {_mean(grouped)} |",
        "",
        f"Of {len(with_words)} runs with words, {below:.0%} ended more than a point below the coin flip, {over:.0%}",
        f"cost more than 1.05 of their cap; with `--confidence 0.9` {careful:.0%} cost more than the cap. It had said",
        f"{with_words['said'].mean():.1f} points on average, and {with_words['above_coin'].mean():.1f} came. The 95% "
        f"intervals of success held in {with_words['success_held'].mean():.0%}, those of cost in",
        f"{with_words['cost_held'].mean():.0%}. By hand: the best count of signs, or fixed step, on the training half.",
        "Named were " + ", ".join(f"{name} ({n})" for name, n in named.items()) + ".",
        "",
        "**What surprised:** words are worth "
        f"{with_words['above_coin'].mean() - without['above_coin'].mean():.1f} points on average over these pairs; "
        "what a reader learned of one database or kind carries over to others as the last column says.",
        "",
    ]
    return "\n".join(lines)


def _mean(rows: pd.DataFrame, column: str = "above_coin") -> str:
    return "" if rows.empty else f"{rows[column].mean():.1f}"
