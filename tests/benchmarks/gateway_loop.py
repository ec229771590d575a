"""A month of serving whose mechanism changes in the middle: explore, import, fit, canary, swap, or stand still.

`cd tests && python -m benchmarks.gateway_loop` prints it. Every part is the real one: sessions and their log, the
import of one-sided rollouts, `fit_map`, a canary, `compare_routers`. Only tasks, models and outcomes are drawn here.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from talks import TASK, TOOLS

from bayes_tacit import Episodes, Router, fit_map, handoff_score
from bayes_tacit.errors import TacitError
from bayes_tacit.gateway import Engine, Identity, Plan, Reply, SessionLog, Sessions, Usage
from bayes_tacit.logs import episodes_from_logs
from bayes_tacit.monitor.comparing import compare_routers

STEPS, PERIODS, SESSIONS, CHANGE = 6, 6, 500, 3
PRICE = 1 / 200
"""What a unit of cost takes from the worth of a solved task; Cheap's call costs 1, Strong's 10."""

LOOKED_AT = ["tool_error", "repeated_call"]
PLAN = Plan(explore=0.2)


def path(rng: np.random.Generator, period: int) -> tuple[bool, str]:
    """Draw whether Cheap is stuck, and its steps: "." fine, "e" an error, "r" the same call again.

    At first, who is stuck makes errors. Later errors are mere noise, and who is stuck repeats calls.
    """
    stuck = bool(rng.random() < 0.4)
    sign, often = ("e", 0.6 if stuck else 0.05) if period < CHANGE else ("r", 0.6 if stuck else 0.05)
    noise = 0.02 if period < CHANGE else 0.4
    draws = rng.random((STEPS, 2))
    return stuck, "".join(sign if a < often else ("e" if b < noise else ".") for a, b in draws)


def conversation(steps: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = list(TASK)
    for number, kind in enumerate(steps):
        query = json.dumps({"query": "SELECT" if kind == "r" else f"SELECT {number}"})
        call = {"id": f"call_{number}", "function": {"name": "sql", "arguments": query}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said = "Error: no such table" if kind == "e" else f"[({number},)]"
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": said})
    return messages


def serve(sessions: Sessions, rng: np.random.Generator, period: int) -> dict[str, list[float]]:
    """Serve a period; return what each session was worth, by the way that was drawn."""
    worth: dict[str, list[float]] = {}
    for number in range(SESSIONS):
        stuck, steps = path(rng, period)
        who = Identity("k", f"{period}-{number}", "mine")
        for end in range(STEPS + 1):
            ticket = sessions.begin(who, conversation(steps[:end]), TOOLS, task=who.session)
            reason = "stop" if end == STEPS else "tool_calls"
            sessions.replied(ticket, ticket.ruling.side, Reply(finish_reason=reason, usage=Usage(10, 1)))
        known = sessions.look("k", str(who.session)) or {}
        solved = bool(rng.random() < (0.9 if known["latched"] else 0.05 if stuck else 0.95))
        sessions.outcome("k", str(who.session), {"success": solved})
        worth.setdefault(known["arm"], []).append(solved - PRICE * known["cost"])
    return worth


def learned(log: Path) -> Router:
    """Fit to explored sessions, and take the alpha worth most on Cheap's, with the share that Strong's solved."""
    episodes, _ = episodes_from_logs(log, diagnostics=LOOKED_AT)
    fit = fit_map(episodes)
    cheap = episodes.select([str(one) for one, n in zip(episodes.ids, episodes.n_steps, strict=True) if n > 0])
    scores = handoff_score(fit, cheap).values
    strong = episodes.dataset["strong_success"].values[episodes.n_steps == 0].mean()
    return Router.from_fit(fit, alpha=best(scores, cheap, float(strong)))


def best(scores: np.ndarray, cheap: Episodes, strong: float) -> float:
    solved = cheap.dataset["cheap_success"].values.astype(float)
    alphas = np.unique(np.quantile(scores[:, : STEPS + 1], np.linspace(0.02, 1, 60)))
    worths = []
    for alpha in alphas:
        crossed = scores[:, :STEPS] >= alpha
        step = np.where(crossed.any(axis=1), crossed.argmax(axis=1), STEPS)
        cost = step + 1 + 10 * (STEPS - step)
        worths.append(np.where(step < STEPS, strong - PRICE * cost, solved - PRICE * (STEPS + 1)).mean())
    return float(alphas[int(np.argmax(worths))])


def month(seed: int, folder: Path) -> list[tuple[float, float, float]]:
    """Return by period what a session was worth: in the loop, under the first router, and what exploring took."""
    rng, still = np.random.default_rng(seed), np.random.default_rng(seed + 10_000)
    first_log = folder / "first.jsonl"
    first = Sessions(Engine(Router.load(_start(folder))), log=SessionLog(first_log), plan=Plan(1.0), rng=Random(seed))
    serve(first, rng, 0)
    router = start = learned(first_log)
    found, canary = [], None
    for period in range(PERIODS):
        log = folder / f"{period}.jsonl"
        plan = PLAN if canary is None else Plan(PLAN.explore, 0.3)
        looping = Sessions(Engine(router, canary=canary), log=SessionLog(log), plan=plan, rng=Random(seed + period))
        worth = serve(looping, rng, period)
        standing = serve(Sessions(Engine(start)), still, period)
        everything = [one for several in worth.values() for one in several]
        others = [*worth["router"], *worth.get("canary", [])]
        found.append((np.mean(everything), np.mean(standing["router"]), np.mean(others) - np.mean(everything)))
        if canary is not None:
            seen = compare_routers(log, {"router": router, "canary": canary}).differences[0]
            if seen.success[0] - PRICE * seen.cost[0] > 0:
                router = canary
        try:
            canary = learned(log)
        except TacitError:  # too few explored sessions to fit to: the router stays
            canary = None
        if canary is not None and canary.fingerprint == router.fingerprint:
            canary = None
    return [(float(a), float(b), float(c)) for a, b, c in found]


def _start(folder: Path) -> str:
    from bayes_tacit.gateway import default_router

    default_router().save(folder / "default.json")
    return str(folder / "default.json")


def table(seeds: int = 10) -> Table:
    """The month, several times over."""
    months = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            months.append(month(seed, Path(folder)))
    shown = Table("days", "loop", "stands still", "gain", "exploring took", title=f"worth of a session, {seeds} months")
    values = np.array(months)
    gain = values[..., 0] - values[..., 1]
    for period in range(PERIODS):
        loop, still, taken = values[:, period].mean(axis=0)
        half = 2 * gain[:, period].std(ddof=1) / np.sqrt(seeds)
        name = f"{5 * period + 1} to {5 * period + 5}{', changed' if period >= CHANGE else ''}"
        gained = f"{gain[:, period].mean():+.3f} ± {half:.3f}"
        shown.add_row(name, f"{loop:.3f}", f"{still:.3f}", gained, f"{taken:.3f}")
    total = gain.mean(axis=1)
    half = 2 * total.std(ddof=1) / np.sqrt(seeds)
    loop, still = values[..., :2].mean(axis=(0, 1))
    shown.add_row("all", f"{loop:.3f}", f"{still:.3f}", f"{total.mean():+.3f} ± {half:.3f}")
    return shown


if __name__ == "__main__":
    Console(width=110).print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
