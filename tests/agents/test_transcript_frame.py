"""The calls of an episode as a table: every one of them, in order, at what it cost."""

from __future__ import annotations

import json
import math

import pytest
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker, deferral, prefix_router, threshold_router

from bayes_tacit import StepCost
from bayes_tacit.agents import Budget, run_episode
from bayes_tacit.agents.pages import COLUMNS, transcript_frame
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import handoff_at, pure

ROUTERS = {
    "pure": pure("cheap"),
    "tacit": threshold_router(2),
    "discarded proposal": threshold_router(2, "proposal"),
    "deferral": deferral(0.5, "stalled", "post_action"),
    "restart": prefix_router(2, 0.1),
    "forced": handoff_at(1),
}


def play(router, path=None, extractor=None, corridor=None):
    return run_episode(
        corridor or Corridor(3),
        Walker("cheap", WAIT, (0.1, None)),
        Walker("strong", RIGHT),
        router,
        episode="corridor",
        extractor=extractor or Stalled(),
        budget=Budget(6),
        cost=StepCost.paper("4b"),
        path=path,
    )


def same(value, other):
    nothing = other is None and (value is None or math.isnan(value))
    return nothing or value == other


@pytest.mark.parametrize("name", ROUTERS)
def test_every_line_of_the_file_that_was_paid_is_a_row(name, tmp_path):
    path = tmp_path / "t.jsonl"
    played = play(ROUTERS[name], path)
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    paid = [one for one in events if one["event"] == "step"]
    frame = transcript_frame(played)
    assert list(frame.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert len(frame) == len(paid) == played.end.cheap_calls + played.end.strong_calls
    for row, event in zip(frame.to_dict("records"), paid, strict=True):
        assert (row["run"], row["step"], row["cost"]) == (event["run"], event["step"], event["cost"])
        choice = event["choice"] or {"facts": {}}
        expected = {**choice["facts"], **(event.get("diagnostics") or {})}
        result = event["result"] or {"observation": {"text": ""}, "valid": None}
        expected |= {"agent": event["agent"], "action": event["proposal"]["action"], "executed": event["executed"]}
        expected |= {"observation": result["observation"]["text"], "valid": result["valid"]}
        expected |= {"nll": event["proposal"]["nll"], "step": event["step"]}
        assert all(same(row[column], value) for column, value in expected.items())


@pytest.mark.parametrize("taken", ["cost", "score"])
def test_a_diagnostic_that_is_called_like_another_column_is_refused(taken):
    class Named(Stalled):
        diagnostic_names = ("stalled", taken)

        def diagnostics(self, history, proposal, result):
            given = super().diagnostics(history, proposal, result)
            return {"stalled": given["stalled"], taken: given["third"]}

    with pytest.raises(InvalidDataError, match=f"diagnostics is '{taken}'"):
        transcript_frame(play(ROUTERS["tacit"], extractor=Named()))
