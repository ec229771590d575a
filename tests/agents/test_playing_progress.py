"""Working through tasks, and how it shows how far it is."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from bayes_tacit.agents.playing import shown
from bayes_tacit.agents.work import work_through


def console(*, terminal):
    # A terminal of its own: without these two, what a test runner sets would decide.
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, _environ={})


def test_a_terminal_shows_a_bar_and_a_pipe_nothing():
    screen, pipe = console(terminal=True), console(terminal=False)
    for out in (screen, pipe):
        assert list(work_through(str, [1, 2, 3], 1, shown("rollouts", out))) == ["1", "2", "3"]
    assert pipe.file.getvalue() == ""
    pictures = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.file.getvalue())
    assert "rollouts" in pictures
    assert "3/3" in pictures


def test_a_bar_gives_the_terminal_back_where_the_work_breaks_off():
    screen = console(terminal=True)
    with pytest.raises(ZeroDivisionError):
        list(work_through(lambda item: 1 / item, [1, 0], 1, shown("rollouts", screen)))
    hidden, again = "\x1b[?25l", "\x1b[?25h"
    assert screen.file.getvalue().rindex(again) > screen.file.getvalue().rindex(hidden)
