"""A page for an episode: its transcript, with the handoff score q(t) and its band beside every step.

The page is one HTML file that needs nothing else, neither scripts nor the network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape

from bayes_tacit.agents.scored import Scored, recorded_scores
from bayes_tacit.agents.transcript.record import ChoiceRecord, ResetRecord, StepRecord, Transcript
from bayes_tacit.files import atomic_path

__all__ = ["episode_page", "write_page"]

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:66rem;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.35rem;margin:0 0 .2rem}p{margin:.3rem 0}.quiet{color:#5a5a5a}
table{border-collapse:collapse;width:100%;margin-top:1rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .5rem;border-bottom:1px solid #e3e3e3}
th{font-weight:600;font-size:.85rem;color:#5a5a5a}td.n{text-align:right;color:#5a5a5a}
.cheap b{color:#9c4a00}.strong b{color:#005a8d}tr.strong{background:#eef5fa}
tr.said td{background:#fff4d6}.action{font-weight:600}.obs{color:#444;font-size:.9rem}
.chip{display:inline-block;font-size:.75rem;background:#f3e3d7;border-radius:.6rem;padding:0 .45rem;
 margin:.1rem .2rem 0 0}
svg{display:block}svg.all{width:100%;height:auto}
"""

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 190, 34, 24
CELL, EDGE = 170, 5
SCORE, BAND, ALPHA = "#0072B2", "#9CC9E3", "#B00020"


def write_page(transcript: Transcript, path: str | os.PathLike[str], note: str = "") -> None:
    """Write the page of an episode, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(episode_page(transcript, note), encoding="utf-8")


def episode_page(transcript: Transcript, note: str = "") -> str:
    """Give the page of an episode as HTML.

    Parameters
    ----------
    transcript
        The episode. Scores are shown where the policy recorded them, as TACIT-Switch does at each of Cheap's
        checkpoints.
    note
        A sentence to put under the title.
    """
    scores = {scored.step: scored for scored in recorded_scores(transcript)}
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(transcript.task or transcript.episode)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escape(transcript.task or transcript.episode)}</h1>",
            f'<p class="quiet">{escape(transcript.episode)}</p>',
            f"<p>{escape(_ending(transcript))}</p>",
            f"<p>{escape(note)}</p>" if note else "",
            _curve(scores),
            "<table><thead><tr><th>step</th><th>who</th><th>what was done and seen</th><th>signs of trouble</th>"
            f"<th>{'q(t), from 0 to 1' if scores else ''}</th></tr></thead><tbody>",
            *_rows(transcript, scores),
            "</tbody></table></body></html>",
            "",
        ]
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


def _rows(transcript: Transcript, scores: dict[int, Scored]) -> Iterator[str]:
    acting = None
    for record in transcript.records:
        match record:
            case ResetRecord(run=run, observation=observation):
                began = "The episode begins." if run == 0 else "Strong begins again from the start."
                yield _said(began, observation.text if run == 0 else "")
                acting = None
            case ChoiceRecord(choice=choice) if choice.call == "restart":
                yield _said("The controller asks for a restart.")
            case StepRecord():
                if acting == "cheap" and record.agent == "strong" and transcript.end.handoff_step == record.step:
                    yield _said("Handoff: Strong acts from here on.")
                acting = record.agent
                yield _row(record, scores.get(record.step) if record.agent == "cheap" and record.run == 0 else None)


def _said(text: str, seen: str = "") -> str:
    more = f'<br><span class="obs">{escape(seen)}</span>' if seen else ""
    return f'<tr class="said"><td></td><td></td><td colspan="3"><b>{escape(text)}</b>{more}</td></tr>'


def _row(step: StepRecord, scored: Scored | None) -> str:
    seen = "discarded, not executed" if step.result is None else step.result.observation.text
    chips = "".join(
        f'<span class="chip">{escape(name.replace("_", " "))} {value:.2g}</span>'
        for name, value in (step.diagnostics or {}).items()
        if value > 0
    )
    return (
        f'<tr class="{step.agent}"><td class="n">{step.step}</td><td><b>{step.agent.capitalize()}</b></td>'
        f'<td><span class="action">{escape(step.proposal.action)}</span><br>'
        f'<span class="obs">{escape(seen)}</span></td>'
        f"<td>{chips}</td><td>{_bar(scored) if scored else ''}</td></tr>"
    )


def _bar(scored: Scored) -> str:
    """Draw a score on a line from 0 to 1, with its band and alpha."""
    shown = (scored.score, scored.lower or 0.0, scored.upper or 0.0, scored.alpha)
    x = [round(EDGE + value * CELL, 1) for value in shown]
    band = ""
    if scored.lower is not None and scored.upper is not None:
        band = f'<rect x="{x[1]}" y="4" width="{max(x[2] - x[1], 0.5):.1f}" height="10" fill="{BAND}"/>'
    words = f"q = {scored.score:.3f}"
    if band:
        words += f", 90% of the posterior from {scored.lower:.3f} to {scored.upper:.3f}"
    return (
        f'<svg width="{CELL + 50}" height="18" role="img" aria-label="{words}"><title>{words}</title>'
        f'<line x1="{EDGE}" y1="9" x2="{EDGE + CELL}" y2="9" stroke="#ccc"/>{band}'
        f'<line x1="{x[3]}" y1="0" x2="{x[3]}" y2="18" stroke="{ALPHA}" stroke-dasharray="3 2"/>'
        f'<circle cx="{x[0]}" cy="9" r="4" fill="{SCORE}"/>'
        f'<text x="{CELL + 2 * EDGE + 4}" y="13" font-size="12" fill="#333">{scored.score:.2f}</text></svg>'
    )


def _curve(scores: dict[int, Scored]) -> str:
    """Draw q(t) over the steps, with its band and alpha."""
    if not scores:
        return ""
    points = [scores[step] for step in sorted(scores)]
    last = max(points[-1].step, 1)

    def place(step: float, value: float) -> str:
        x = LEFT + 8 + step / last * (WIDTH - LEFT - 60)
        return f"{x:.1f},{HEIGHT - BOTTOM - value * (HEIGHT - BOTTOM - 12):.1f}"

    parts = [f'<svg class="all" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="q(t) over the steps of Cheap">']
    for level in (0.0, 0.5, 1.0):
        y = place(0, level).split(",")[1]
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 50}" y2="{y}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{float(y) + 4:.1f}" font-size="12" text-anchor="end">{level:g}</text>')
    banded = [point for point in points if point.lower is not None and point.upper is not None]
    if banded:
        upper = [place(point.step, point.upper or 0.0) for point in banded]
        lower = [place(point.step, point.lower or 0.0) for point in reversed(banded)]
        parts.append(f'<polygon points="{" ".join(upper + lower)}" fill="{BAND}" opacity="0.6"/>')
    y = place(0, points[0].alpha).split(",")[1]
    parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 50}" y2="{y}" stroke="{ALPHA}" stroke-dasharray="5 3"/>')
    alpha = f"&alpha; {points[0].alpha:g}"
    parts.append(f'<text x="{WIDTH - 46}" y="{float(y) + 4:.1f}" font-size="12" fill="{ALPHA}">{alpha}</text>')
    line = " ".join(place(point.step, point.score) for point in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{SCORE}" stroke-width="2"/>')
    for point in points:
        x, y = place(point.step, point.score).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.6" fill="{SCORE}"/>')
    for step in sorted({0, last // 2, last}):
        x = place(step, 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - 6}" font-size="12" text-anchor="middle">{step}</text>')
    words = "q(t) at Cheap's checkpoints" + (", with the central 90% of the posterior" if banded else "")
    return f'<p class="quiet">{words}</p>{"".join(parts)}</svg>'
