"""A played episode as a figure: the handoff score along it, and the signs of trouble under it."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
from matplotlib.figure import Figure

from bayes_tacit.agents.scored import recorded_scores
from bayes_tacit.agents.transcript.record import Transcript
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.review.plots import draw_played
from bayes_tacit.review.style import shortened

__all__ = ["plot_episode"]

LONGEST_TITLE = 80


def plot_episode(transcript: Transcript) -> Figure:
    """Draw the handoff score q(t) of a played episode over the diagnostics of the same steps.

    Parameters
    ----------
    transcript
        An episode under a policy that records its score, as TACIT-Switch does at each of Cheap's checkpoints.

    Returns
    -------
    matplotlib.figure.Figure
        Above: the score, its band if the router has draws, alpha, the first crossing, and the steps at which Strong
        acted. Below: each diagnostic, the darker the larger.

    Raises
    ------
    InvalidDataError
        If the transcript has no score.
    """
    scores = list(recorded_scores(transcript))
    if not scores:
        raise InvalidDataError(
            "an episode under a policy that records q(t), such as Tacit",
            episode=transcript.episode,
            field="policy",
            value=transcript.header.policy,
        )
    checkpoints = transcript.checkpoints
    executed = transcript.executed or checkpoints[-1:]
    return draw_played(
        pd.DataFrame([asdict(one) for one in scores]).set_index("step"),
        pd.DataFrame([one.diagnostics or {} for one in checkpoints], index=[one.step for one in checkpoints]),
        sorted({one.step for one in transcript.executed if one.agent == "strong"}),
        max(one.step for one in executed),
        _title(transcript),
    )


def _title(transcript: Transcript) -> str:
    end = "solved" if transcript.end.success else "not solved"
    task = shortened((transcript.task or transcript.episode).rstrip("."), LONGEST_TITLE)
    return f"{task}: {end} after {transcript.end.actions} actions"
