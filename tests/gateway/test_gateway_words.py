"""Routers that look at words: their reader says in the gateway what it says of a whole log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talks import TASK, talk, turn

from bayes_tacit import Router
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway import Engine
from bayes_tacit.gateway.conversation import Reading
from bayes_tacit.gateway.session_state import SessionState
from bayes_tacit.logs.extractor import StepExtractor
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES, Reader, Script
from bayes_tacit.router.rules import Chance, Signal, TaskChance


def reader(seed: int = 0) -> Reader:
    """A reader of random weights."""
    rng = np.random.default_rng(seed)
    blank = Reader.blank()
    return replace(blank, words=rng.normal(size=blank.words.shape), numbers=rng.normal(size=blank.numbers.shape) / 9)


def watching(name: str = "cheap_fails", alpha: float = 0.5, seed: int = 0) -> Router:
    return Router(rule=Signal(), alpha=alpha, diagnostic_names=(name,), reader=reader(seed))


def expected(messages, of: Reader) -> np.ndarray:
    """What the reader says of each turn of a whole conversation."""
    extractor = StepExtractor(["sql"])
    extractor.extend(messages)
    odds = of.odds(Script.of(messages, extractor.flags))
    from bayes_tacit.logs.reader import diagnostics_of

    return diagnostics_of(odds[:-1], odds[1:])


@pytest.mark.parametrize("turns", ["!", "..!", "!!.!."])
def test_what_is_read_request_by_request_is_what_is_read_of_the_whole(turns):
    router = watching()
    engine, kept = Engine(router), SessionState()
    for n in range(len(turns) + 1):
        kept = SessionState.from_json(kept.to_json())
        engine.consider(kept, talk(turns[:n]), ["sql"])
    rows = np.array([list(engine.checkpoints.diagnostics(kept, step).values())[-4:] for step in range(len(turns))])
    assert rows == pytest.approx(expected(talk(turns), router.reader), abs=1e-12)


def test_a_turn_that_is_answered_later_is_read_again_with_its_answer():
    of, whole = reader(), talk("!.")
    reading = Reading(["sql"], readers={"r": of})
    for message in whole:
        reading.extend([message])
        rows = reading.seen().words["r"]
    assert np.array(rows[1:]) == pytest.approx(expected(whole, of), abs=1e-12)
    assert len(rows[0]) == len(FEATURES)


def test_a_router_hands_off_where_its_words_say_so_and_the_one_in_shadow_has_a_reader_of_its_own():
    scores = expected(talk("!.!!"), reader())[:, DIAGNOSTICS.index("cheap_fails")]
    later = int(scores.argmax())
    engine, kept = Engine(watching(alpha=float(scores[later])), watching(seed=1)), SessionState()
    first = next(step for step, score in enumerate(scores) if score >= scores[later] * (1 - 1e-9))
    for n in range(5):
        ruling = engine.consider(kept, talk("!.!!"[:n]), ["sql"])
        assert ruling.latched == (n > first)
        assert ruling.fault is None
    assert len(kept.words) == 2


def test_a_router_decides_on_what_its_reader_says_of_the_prompt():
    chance = Chance([0.0], [1.0], 0.0, [1.0])
    settings = {"feature_names": ("cheap_promise",), "reader": reader()}
    promise = reader().start("You answer with SQL. How many rows has t?").features()["cheap_promise"]
    failing = 1 / (1 + np.exp(promise))
    for alpha, side in ((failing - 0.01, "strong"), (failing + 0.01, "cheap")):
        engine = Engine(Router(rule=TaskChance(chance), alpha_start=alpha, **settings))
        assert engine.consider(SessionState(), TASK, ["sql"]).side == side
        assert not engine.remarks


def test_words_without_their_reader_are_refused_and_nothing_that_was_said_is_kept():
    with pytest.raises(InvalidDataError, match="diagnostics of the router is"):
        Engine(replace(watching(), reader=None))
    engine, kept = Engine(watching()), SessionState()
    engine.consider(kept, [*TASK, *turn(0, bad=True)], ["sql"])
    assert not any(word in kept.to_json() for word in ("SELECT", "rows", "incomplete"))
