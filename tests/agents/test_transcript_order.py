"""A transcript whose lines do not belong together is refused, with the file, the line and what was expected there."""

from __future__ import annotations

import json

import pytest
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit.agents import BrokenTranscriptError, Budget, read_transcript, run_episode
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import pure

CHEAP = pure("cheap")


def play(router, path, *, length=3, **settings):
    settings = {"extractor": Stalled(), "episode": "corridor", "budget": Budget(6), **settings}
    actors = Walker("cheap", WAIT), Walker("strong", RIGHT)
    return run_episode(Corridor(length), *actors, router, path=path, **settings)


def edited(path, change):
    """Change the lines of a file, each as an object."""
    lines = change([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def without(event):
    return lambda lines: [line for line in lines if line["event"] != event]


def changed(number, **values):
    """Change the line of this number."""
    return lambda lines: [{**line, **values} if at == number else line for at, line in enumerate(lines, 1)]


# Line 1 is the start, line 2 the reset, lines 3 to 8 are six steps in vain, line 9 is the end.
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("reset"), "line 2: event is 'step'; expected an event 'reset' first"),
        (lambda lines: [lines[0], lines[-1]], "line 2: event is 'end'; expected an event 'reset' first"),
        (lambda lines: [*lines[:2], *lines[1:]], "line 3: run is 0; expected 1, the number of resets before"),
        (changed(4, run=1), "line 4: run is 1; expected 0, that of the last reset"),
        (changed(4, step=0), "line 4: step is 0; expected 1, the number of actions since the last reset"),
        (lambda lines: [*lines[:-2], lines[-1]], "line 8: actions is 6; expected 5, as many as the lines before have"),
        (changed(9, cheap_calls=7), "line 9: cheap_calls is 7; expected 6, as many as the lines before have"),
        (changed(9, status="done"), "line 9: status is 'done'; expected a last action with which the environment was"),
        (changed(9, success=True), "line 9: success is True; expected False, as the last action has it"),
        (lambda lines: [*lines, lines[3]], "line 10: event is 'step'; expected nothing after the event 'end'"),
        (changed(2, observation="A corridor."), "line 2: observation is 'A corridor.'"),
        (changed(9, actions=6.5), "line 9: actions is 6.5"),
        (changed(5, episode="other"), "line 5: episode is 'other'; expected 'corridor'"),
    ],
)
def test_lines_that_do_not_belong_together_are_refused(change, message, tmp_path):
    path = tmp_path / "t.jsonl"
    play(CHEAP, path)
    edited(path, change)
    with pytest.raises(BrokenTranscriptError) as told:
        read_transcript(path)
    assert str(told.value).startswith(f"{path}, {message}")


class Shut:
    """An environment that never begins."""

    def reset(self):
        raise OSError("no such table")


def test_an_environment_that_never_began_has_a_transcript_but_no_history(tmp_path):
    path = tmp_path / "t.jsonl"
    played = run_episode(Shut(), Walker("cheap", WAIT), None, CHEAP, episode="shut", path=path)
    assert read_transcript(path) == played
    assert (played.end.status, played.task) == ("environment_error", "")
    with pytest.raises(
        InvalidDataError, match="episode 'shut': status is 'environment_error'; expected an environment"
    ):
        played.history()
