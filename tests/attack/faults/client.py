"""A process that plays against faults, one episode each, and tells what came of it: time, memory, end."""

from __future__ import annotations

import json
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from toy_world import Corridor

from bayes_tacit.agents import Budget, PureController, Retry, run_episode
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor

AT_ONCE = 4
"""Faults that wait are waited for together."""


@dataclass
class Timed:
    """An actor that knows how long its last call took."""

    actor: EndpointActor
    name: str = "timed"
    took: list[float] = field(default_factory=list)

    def act(self, history):
        began = time.monotonic()
        try:
            return self.actor.act(history)
        finally:
            self.took.append(time.monotonic() - began)


def play(job: dict[str, object], path: Path) -> dict[str, object]:
    endpoint = Endpoint(str(job["url"]), "tiny", "ATTACK_KEY", timeout=float(job["timeout"]))
    actor = Timed(EndpointActor(endpoint, mode="generate"))
    told: dict[str, object] = {"name": job["name"]}
    try:
        played = run_episode(
            Corridor(1),
            actor,
            None,
            PureController("cheap"),
            episode="e",
            budget=Budget(1),
            retry=Retry(attempts=1),
            path=path,
        )
        told |= {"status": played.end.status, "error": played.end.error, "shown": repr(played)}
    except BaseException:
        told |= {"status": "traceback", "error": traceback.format_exc()}
    return told | {"took": actor.took[-1]}


def memory(name: str) -> float:
    """Give a number of this process's status, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measured(work) -> tuple[object, float]:
    """Do something, and give the memory that it took beyond what was taken before, at its peak."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    done = work()
    return done, memory("VmHWM") - before


def main() -> None:
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    play(order["first"], folder / "first.jsonl")
    for at, job in enumerate(order["quick"]):
        told, more = measured(lambda job=job, at=at: play(job, folder / f"quick-{at}.jsonl"))
        print(json.dumps({**told, "memory": more}), flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = [folder / f"waits-{at}.jsonl" for at in range(len(order["waits"]))]
        found, more = measured(lambda: list(pool.map(play, order["waits"], paths)))
    for told in found:
        print(json.dumps({**told, "memory": more}), flush=True)


if __name__ == "__main__":
    main()
