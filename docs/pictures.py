"""The pictures of the README and of docs/concepts.md: `python docs/pictures.py` draws them again.

The posterior is that of a small training set, so that its band can be seen, and the episode is not in that set. It is
one whose crossing falls into its teacher window; not every episode's does.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayes_tacit import Episodes, MapFit, StepCost, World, cumulative_risk, fit_map, load_example, sample_posterior
from bayes_tacit.files import atomic_path
from bayes_tacit.policies import FirstAlarm, TacitSwitch
from bayes_tacit.review.plots import plot_handoff_score
from bayes_tacit.review.style import DECISION, SCORE, WINDOW, house_style, policy_style

FOLDER = Path(__file__).parent
TRAINING_EPISODES = 150
EPISODE = "task-0228"
ALPHA = 0.4
LABEL_HEIGHT = 0.95


def handoff_picture(tree: xr.DataTree, episodes: Episodes) -> Figure:
    """Draw q(t) with its band, where it reaches alpha, and which model acts before and after."""
    with house_style():
        figure, ax = plt.subplots(figsize=(7.2, 4.2))
        plot_handoff_score(tree, episodes, EPISODE, alpha=ALPHA, ax=ax)
        (mark,) = [line for line in ax.lines if line.get_label() == "first crossing"]
        (step,), _ = mark.get_data()
        ax.axvline(step + 0.5, color=DECISION, linewidth=1)
        ax.text(step / 2, LABEL_HEIGHT, "Cheap acts", va="center", ha="center")
        ax.text(step + 2, LABEL_HEIGHT, "Strong takes over, for good", va="center", color=DECISION)
        ax.set_xlim(-0.5, int(episodes.select([EPISODE]).n_steps[0]) - 0.5)
        ax.set_title("The handoff: the first step at which q(t) reaches $\\alpha$", parse_math=True)
    return figure


def risk_picture(fit: MapFit, episodes: Episodes) -> Figure:
    """Draw the diagnostics of the episode, and the cumulative risk that they add up to."""
    one = episodes.select([EPISODE])
    n_steps = int(one.n_steps[0])
    values, steps = one.dataset["diagnostics"].values[0, :n_steps], np.arange(n_steps)
    window = one.dataset["window_start"].item() - 0.5, one.dataset["window_end"].item() + 0.5
    with house_style():
        figure, (above, below) = plt.subplots(2, 1, figsize=(7.2, 5.0), sharex=True, layout="constrained")
        bottom = np.zeros(n_steps)
        for name, weight, column in zip(one.diagnostic_names, fit.w, values.T, strict=True):
            above.bar(steps, weight * column, bottom=bottom, label=f"{weight:.2f} x {name}")
            bottom += weight * column
        above.set(ylabel="risk of the step", title="Each step adds its weighted diagnostics ...")
        above.legend(loc="upper left")
        below.plot(steps, cumulative_risk(fit, one).values[0, :n_steps], color=SCORE)
        below.axvspan(*window, color=WINDOW, alpha=0.3, label="marked by the teacher")
        below.set(ylabel="cumulative risk R(t)", xlabel="step, counted from 0", title="... to a risk that never falls")
        below.legend(loc="upper left")
    return figure


def band_picture(few: xr.DataTree, many: xr.DataTree, episodes: Episodes) -> Figure:
    """Draw the band of one episode after few and after many training tasks."""
    with house_style():
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True, layout="constrained")
        for ax, tree, n in zip(axes, (few, many), (TRAINING_EPISODES, len(episodes)), strict=True):
            plot_handoff_score(tree, episodes, EPISODE, alpha=ALPHA, ax=ax)
            ax.set_title(f"{n:,} training tasks")
            ax.get_legend().remove()
        axes[1].set_ylabel("")
    return figure


def cost_picture(episodes: Episodes) -> Figure:
    """Draw success against cost for every alpha of two rules, with the coin flip between the models."""
    parts = episodes.split({"training": 0.5, "test": 0.5})
    known = {"strong_steps": parts["test"].n_steps, "cost": StepCost(cheap=1, strong=3)}
    world = World.from_restarts(parts["test"], **known)
    ends = [world.counterfactuals.pure_cheap.point(), world.counterfactuals.pure_strong.point()]
    with house_style():
        figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
        ax.plot(*zip(*[(end["cost"], end["success"]) for end in ends], strict=True), "k--", label="coin flip")
        for name, end in zip(("Cheap alone", "Strong alone"), ends, strict=True):
            ax.plot(end["cost"], end["success"], "ko")
            ax.annotate(name, (end["cost"], end["success"]), xytext=(6, -12), textcoords="offset points")
        for policy in (TacitSwitch(handoff="restart"), FirstAlarm("uncertainty", handoff="restart")):
            points = policy.fit(parts["training"]).operating_points(world).sort_values("cost")
            style = policy_style(policy.name)
            ax.plot(points["cost"], points["success"], color=style.color, label=policy.name)
        ax.set(xlabel="mean cost of a task", ylabel="share of tasks solved", title="One point for each threshold")
        ax.margins(x=0.12)
        ax.legend(loc="lower right")
    return figure


def main() -> None:
    """Sample and draw."""
    episodes = load_example()
    training = episodes.take(slice(TRAINING_EPISODES))
    few, many = sample_posterior(training, seed=1), sample_posterior(episodes, seed=1)
    pictures = {
        "handoff": handoff_picture(few, episodes),
        "risk": risk_picture(fit_map(training), episodes),
        "band": band_picture(few, many, episodes),
        "costs": cost_picture(episodes),
    }
    for name, figure in pictures.items():
        with atomic_path(FOLDER / f"{name}.png") as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})


if __name__ == "__main__":
    main()
