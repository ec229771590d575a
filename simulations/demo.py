"""What `make demo` runs: from example data to a fitted router, bands, a report, policies compared, and a gateway."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr
from rich.console import Console

from bayes_tacit import (
    Episodes,
    Router,
    decisive_scores,
    fit_map,
    judge,
    load_example,
    sample_posterior,
    save_posterior,
)
from bayes_tacit.data.costs import AVERAGES, StepCost
from bayes_tacit.decisions.bounds import Suggestion, bounds_from_logs, suggest_alpha
from bayes_tacit.decisions.selection import score_quantiles
from bayes_tacit.files import atomic_path
from bayes_tacit.gateway import default_router
from bayes_tacit.monitor import monitor
from bayes_tacit.monitor.page import sentence
from bayes_tacit.review.reporting import report
from simulations import served
from simulations.example import TRUTH
from simulations.mechanism import calibrated
from simulations.studies.contest import ALL, CAP, contest, draw_worlds

OUTPUT = Path("demo-output")
BUDGET, STEP_BUDGET = 50, 30
COST = StepCost(cheap=1, strong=3)
SERVED_BUDGET = 6


def main() -> None:
    """Run the whole path and say where each file is."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    OUTPUT.mkdir(exist_ok=True)
    episodes = load_example()
    _heading(console, "The example: 1,200 simulated tasks, each with a Cheap and a Strong rollout")
    console.print(str(episodes.summary()))

    fit = fit_map(episodes)
    fit.save(OUTPUT / "fit.json")
    _heading(console, "The fit: penalized maximum likelihood, the MAP of the PyMC model")
    console.print(str(fit))
    console.print(f"The weights that the example was simulated with: {TRUTH['w']}")

    _heading(console, "The posterior (the first run on a machine compiles its density)")
    tree = sample_posterior(episodes, seed=1)
    save_posterior(tree, OUTPUT / "posterior.nc")
    console.print(str(judge(tree)))

    _heading(
        console, f"The threshold: from the log alone, at most {BUDGET} a task (Cheap calls cost 1, Strong calls 3)"
    )
    router, suggestion = choose_router(tree, episodes)
    console.print(str(suggestion))
    router.save(OUTPUT / "router.json")

    report(tree, episodes, OUTPUT / "report.html", fit=fit, alpha=suggestion.alpha)
    _replay(console, Router.load(OUTPUT / "router.json"), episodes)
    _compare(console)
    _serve(console)
    _heading(console, "Written")
    for path in sorted(path for path in OUTPUT.rglob("*") if path.is_file()):
        console.print(f"{path}  {path.stat().st_size / 1024:,.0f} KiB")


def choose_router(tree: xr.DataTree, episodes: Episodes) -> tuple[Router, Suggestion]:
    """Choose alpha with the scores that the router compares with it, and make that router."""
    scores = decisive_scores(tree, episodes)
    bounds = bounds_from_logs(
        scores, episodes, score_quantiles(scores), tree.attrs["timing"], cost=COST, step_budget=STEP_BUDGET
    )
    suggestion = suggest_alpha(bounds, BUDGET)
    return Router.from_posterior(tree, alpha=suggestion.alpha), suggestion


def _replay(console: Console, router: Router, episodes: Episodes) -> None:
    """Play a logged episode through the router, as an agent would."""
    dataset = episodes.dataset
    first = int(episodes.has_window.argmax())
    window = [int(dataset[name][first]) for name in ("window_start", "window_end")]
    name = str(episodes.ids[first])
    _heading(console, f"Episode {name} through the router (the teacher's window is steps {window[0]} to {window[1]})")
    state = router.start(dataset["features"].values[first])
    for diagnostics in dataset["diagnostics"].values[first, : int(dataset["n_steps"][first])]:
        decision = state.observe(diagnostics)
        band = f"90% band {decision.lower:.2f} to {decision.upper:.2f}"
        console.print(f"step {decision.step:2d}  q = {decision.score:.3f}  {band}  {decision.reason}")
        if decision.handoff:
            break


def _compare(console: Console) -> None:
    """Compare policies where every handoff can be replayed: one replicate of the mechanism simulator."""
    worlds = draw_worlds(calibrated(), np.random.SeedSequence(1))
    sizes = ", ".join(f"{len(world):,} {split}" for split, world in worlds.items())
    _heading(console, f"Policies under a cost cap of {CAP:g} on simulated agents ({sizes} tasks)")
    table = contest(ALL, worlds).table.sort_values("success", ignore_index=True)
    with atomic_path(OUTPUT / "comparison.csv") as temporary:
        table.to_csv(temporary, index=False)
    shown = table[["policy", *AVERAGES]]
    console.print(shown.round(3).to_string(index=False))
    console.print("The margin depends on the mechanism: see simulations/results/random/README.md")


def _serve(console: Console) -> None:
    """Learn a router from the logs of two scripted agents, serve it to an agent, and look at what it did."""
    _heading(console, "The gateway: a router from two logs, served on one address before two models of this machine")
    folder = OUTPUT / "served"
    folder.mkdir(exist_ok=True)
    for side, script in (("cheap", served.cheap), ("strong", served.strong)):
        served.write_rollouts(folder / f"{side}.jsonl", script, range(200))
    router, shadow, log = (folder / name for name in ("router.json", "shadow.json", "gateway.jsonl"))
    learned = served.learned(folder / "cheap.jsonl", folder / "strong.jsonl", cap=SERVED_BUDGET)
    learned.save(router)
    default_router(signs=3).save(shadow)
    log.unlink(missing_ok=True)
    story = served.serve_tasks(router, shadow, log, range(200, 260))
    console.print(f"One session of 60, as the headers of the answers tell it (alpha is {learned.alpha:.3g}):")
    for told in story:
        console.print(f"step {told['step']}  {told['served']:6} ({told['model']})  {told['why']}")
    lines = log.read_text(encoding="utf-8").splitlines()
    console.print(f"\nThe log has {len(lines):,} lines, such as")
    console.print(next(line for line in lines if json.loads(line).get("new_handoff")))
    summary = monitor(log, folder / "monitor.html", learned)
    console.print(f"\n{sentence(summary)} All of it: {folder / 'monitor.html'}")


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}\n", style="bold")


if __name__ == "__main__":
    main()
