"""What `make demo` runs: the example set, summarized and fitted, with the fit kept as JSON."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bayes_tacit import fit_map, load_example
from simulations.example import TRUTH

OUTPUT = Path("demo-output")


def main() -> None:
    """Go from example data to a fitted model, and say where it is."""
    console = Console(highlight=False, markup=False)
    episodes = load_example()
    console.print("The example: 1,200 simulated tasks, each with a Cheap and a Strong rollout.\n", style="bold")
    console.print(str(episodes.summary()))

    fit = fit_map(episodes)
    console.print("\nThe fit: penalized maximum likelihood, which is the PyMC model's MAP.\n", style="bold")
    console.print(str(fit))
    learned = ", ".join(f"{name} {w:.2f}" for name, w in zip(fit.diagnostic_names, fit.w, strict=True))
    console.print(f"\nLearned weights: {learned}. The truth they were simulated from: {TRUTH['w']}.")

    OUTPUT.mkdir(exist_ok=True)
    fit.save(OUTPUT / "fit.json")
    console.print(f"Written: {OUTPUT / 'fit.json'}")


if __name__ == "__main__":
    main()
