"""The picture in the README: `python docs/pictures.py` draws it again, from a posterior sampled anew.

The posterior is that of a small training set, so that its band can be seen, and the episode is not in that set. It is
one whose crossing falls into its teacher window; not every episode's does.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import xarray as xr
from matplotlib.figure import Figure

from bayes_tacit import Episodes, load_example, sample_posterior
from bayes_tacit.files import atomic_path
from bayes_tacit.review.plots import plot_handoff_score
from bayes_tacit.review.style import DECISION, house_style

PICTURE = Path(__file__).parent / "handoff.png"
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


def main() -> None:
    """Sample and draw."""
    episodes = load_example()
    tree = sample_posterior(episodes.take(slice(TRAINING_EPISODES)), seed=1)
    with atomic_path(PICTURE) as temporary:
        handoff_picture(tree, episodes).savefig(temporary, format="png", metadata={"Software": None})


if __name__ == "__main__":
    main()
