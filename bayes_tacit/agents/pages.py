"""A played episode to look at: an HTML page and a figure, each with q(t) and its band, and a table of its calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bayes_tacit.agents.transcript import ChoiceRecord, ResetRecord, StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import atomic_path
from bayes_tacit.html import render

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["episode_page", "plot_episode", "transcript_frame", "write_page"]

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 190, 34, 24
CELL, EDGE = 170, 5
LONGEST_TITLE = 80


def write_page(transcript: Transcript, path: str | os.PathLike[str], note: str = "") -> None:
    """Write the page of an episode, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(episode_page(transcript, note), encoding="utf-8")


def episode_page(transcript: Transcript, note: str = "") -> str:
    """Return the page of an episode as HTML, which needs nothing else, neither scripts nor the network.

    Scores are shown where the policy recorded them, as TACIT-Switch does; a `note` stands under the title.
    """
    scores = {scored.step: scored for scored in _scores(transcript)}
    return render(
        "episode.html",
        title=transcript.task or transcript.episode,
        episode=transcript.episode,
        ending=_ending(transcript),
        note=note,
        curve=_curve([scores[step] for step in sorted(scores)]) if scores else None,
        rows=list(_rows(transcript, scores)),
        cell=CELL,
        edge=EDGE,
    )


def plot_episode(transcript: Transcript) -> Figure:
    """Draw the handoff score q(t) of a played episode over the diagnostics of the same steps.

    Above: the score, its band if the router has draws, alpha, the first crossing, and the steps at which Strong acted.
    Below: each diagnostic, the darker the larger.

    Raises
    ------
    InvalidDataError
        If the transcript has no score.
    """
    import pandas as pd

    from bayes_tacit.review.plots import draw_played
    from bayes_tacit.review.style import shortened

    scores = list(_scores(transcript))
    if not scores:
        raise InvalidDataError(
            "an episode under a policy that records q(t), such as Tacit",
            episode=transcript.episode,
            field="policy",
            value=transcript.header.policy,
        )
    checkpoints = transcript.checkpoints
    executed = transcript.executed or checkpoints[-1:]
    end = "solved" if transcript.end.success else "not solved"
    task = shortened((transcript.task or transcript.episode).rstrip("."), LONGEST_TITLE)
    return draw_played(
        pd.DataFrame([asdict(one) for one in scores]).set_index("step"),
        pd.DataFrame([one.diagnostics or {} for one in checkpoints], index=[one.step for one in checkpoints]),
        sorted({one.step for one in transcript.executed if one.agent == "strong"}),
        max(one.step for one in executed),
        f"{task}: {end} after {transcript.end.actions} actions",
    )


def _ending(transcript: Transcript) -> str:
    header, end = transcript.header, transcript.end
    policy = str(header.info.get("policy", header.policy))
    result = {"done": "Solved" if end.success else "Not solved", "budget": "Not solved: no actions left"}
    first = result.get(end.status, f"Broke off ({end.status}: {end.error})")
    strong = "Cheap played alone"
    if end.restarted:
        strong = "Strong began again from the start"
    elif end.handoff_step == 0:
        strong = "Strong played alone"
    elif end.handoff_step is not None:
        strong = f"Strong took over at step {end.handoff_step}"
    elif end.strong_calls:
        strong = f"Strong took {end.strong_calls} single steps"
    calls = (
        f"{end.cheap_calls} calls of {header.cheap or 'Cheap'} and {end.strong_calls} of {header.strong or 'Strong'}"
    )
    return f"{first} after {end.actions} actions under {policy}. {strong}. {calls}, cost {end.cost:g}."


def _rows(transcript: Transcript, scores: dict[int, _Scored]) -> Iterator[dict[str, object]]:
    """Yield what is said (`said`, `seen`) and what was done, in order, as the template takes it."""
    acting = None
    for record in transcript.records:
        match record:
            case ResetRecord(run=run, observation=observation):
                began = "The episode begins." if run == 0 else "Strong begins again from the start."
                yield {"said": began, "seen": observation.text if run == 0 else ""}
                acting = None
            case ChoiceRecord(choice=choice) if choice.call == "restart":
                yield {"said": "The router asks for a restart.", "seen": ""}
            case StepRecord():
                if acting == "cheap" and record.agent == "strong" and transcript.end.handoff_step == record.step:
                    yield {"said": "Handoff: Strong acts from here on.", "seen": ""}
                acting = record.agent
                yield _row(record, scores.get(record.step) if record.agent == "cheap" and record.run == 0 else None)


def _row(step: StepRecord, scored: _Scored | None) -> dict[str, object]:
    diagnostics = (step.diagnostics or {}).items()
    return {
        "said": "",
        "agent": step.agent,
        "step": step.step,
        "action": step.proposal.action,
        "seen": "discarded, not executed" if step.result is None else step.result.observation.text,
        "signs": [f"{name.replace('_', ' ')} {value:.2g}" for name, value in diagnostics if value > 0],
        "bar": None if scored is None else _bar(scored),
    }


def _bar(scored: _Scored) -> dict[str, object]:
    """Place a score on a line from 0 to 1, with its band and alpha."""
    words = f"q = {scored.score:.3f}"
    band = None
    if scored.lower is not None and scored.upper is not None:
        words += f", 90% of the posterior from {scored.lower:.3f} to {scored.upper:.3f}"
        left, right = (round(EDGE + value * CELL, 1) for value in (scored.lower, scored.upper))
        band = {"x": left, "width": f"{max(right - left, 0.5):.1f}"}
    score, alpha = (round(EDGE + value * CELL, 1) for value in (scored.score, scored.alpha))
    return {"words": words, "band": band, "score": score, "alpha": alpha, "label": f"{scored.score:.2f}"}


def _curve(points: Sequence[_Scored]) -> dict[str, object]:
    """Place q(t) over the steps, with its band and alpha."""
    last = max(points[-1].step, 1)

    def across(step: float) -> str:
        return f"{LEFT + 8 + step / last * (WIDTH - LEFT - 60):.1f}"

    def up(value: float) -> str:
        return f"{HEIGHT - BOTTOM - value * (HEIGHT - BOTTOM - 12):.1f}"

    banded = [(point.step, point.lower, point.upper) for point in points if None not in (point.lower, point.upper)]
    edge = [(step, upper or 0.0) for step, _, upper in banded]
    edge += [(step, lower or 0.0) for step, lower, _ in reversed(banded)]
    return {
        "words": "q(t) at Cheap's checkpoints" + (", with the central 90% of the posterior" if banded else ""),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "levels": [(f"{level:g}", float(up(level))) for level in (0.0, 0.5, 1.0)],
        "band": " ".join(f"{across(step)},{up(value)}" for step, value in edge),
        "alpha": (f"{points[0].alpha:.3g}", float(up(points[0].alpha))),
        "points": [(across(point.step), up(point.score)) for point in points],
        "steps": [(step, across(step)) for step in sorted({0, last // 2, last})],
    }


@dataclass(frozen=True)
class _Scored:
    """The score at one checkpoint, as the router recorded it; without a band where it had none."""

    step: int
    score: float
    lower: float | None
    upper: float | None
    alpha: float


def _scores(transcript: Transcript) -> Iterator[_Scored]:
    """Yield the values of q(t) in order; none for another policy, whose scores are no probabilities."""
    for step in transcript.checkpoints:
        facts = dict(step.choice.facts) if step.choice is not None else {}
        score, alpha = facts.get("score"), facts.get("alpha")
        is_q = facts.get("pi") is not None
        if is_q and isinstance(score, int | float) and isinstance(alpha, int | float):
            band = (facts.get("lower"), facts.get("upper"))
            lower, upper = (float(edge) if isinstance(edge, int | float) else None for edge in band)
            yield _Scored(step.step, float(score), lower, upper, float(alpha))


COLUMNS = ("run", "step", "agent", "action", "executed", "observation", "valid", "nll", "cost")


def transcript_frame(transcript: Transcript) -> pd.DataFrame:
    """Return the calls of an episode in order.

    Columns are `run`, `step`, `agent`, `action`, `executed` (not a discarded proposal), `observation`, `valid`, `nll`
    and `cost`, whose sum is the cost of the episode; then each diagnostic of Cheap's checkpoint, and what the router
    recorded there, such as `score`, `lower`, `upper` and `alpha`.

    Raises
    ------
    InvalidDataError
        If a diagnostic has the name of another column.

    """
    import pandas as pd

    rows = [_call(step, transcript.episode) for step in transcript.steps]
    found = pd.DataFrame(rows)
    others = [str(name) for name in found if name not in COLUMNS]
    return found.reindex(columns=[*COLUMNS, *others])


def _call(record: StepRecord, episode: str) -> Mapping[str, Any]:
    result, facts = record.result, {} if record.choice is None else dict(record.choice.facts)
    diagnostics = dict(record.diagnostics or {})
    taken = [name for name in diagnostics if name in {*COLUMNS, *facts}]
    if taken:
        raise InvalidDataError(
            "another name: a column of the table is called so", episode=episode, field="diagnostics", value=taken[0]
        )
    return {
        **diagnostics,
        **facts,
        "run": record.run,
        "step": record.step,
        "agent": record.agent,
        "action": record.proposal.action,
        "executed": record.executed,
        "observation": "" if result is None else result.observation.text,
        "valid": None if result is None else result.valid,
        "nll": record.proposal.nll,
        "cost": record.cost,
    }
