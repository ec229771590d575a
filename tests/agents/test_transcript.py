"""Transcripts: what is written is what happened, torn files are recognized, and `Episodes` come back exactly."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_world import RIGHT, WAIT, Corridor, Moody, Stalled, Walker, prefix_router, threshold_router

from bayes_tacit import Episodes
from bayes_tacit.agents import (
    ActorError,
    Budget,
    Observation,
    Proposal,
    StepResult,
    TornTranscriptError,
    episodes_from_transcripts,
    read_transcript,
    read_transcripts,
    run_episode,
    write_transcript,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.router import pure

# A transcript without a teacher's window is unusual, not wrong.
pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


def play(router, cheap=WAIT, strong=RIGHT, *, path=None, length=3, world=Corridor, **settings):
    settings = {"extractor": Stalled(), "episode": "corridor", "budget": Budget(6), **settings}
    actors = Walker("cheap", cheap, (0.1, None)), Walker("strong", strong)
    return run_episode(world(length), *actors, router, path=path, **settings)


class Once(Corridor):
    """A corridor that cannot be entered again."""

    begun = False

    def reset(self):
        if self.begun:
            raise OSError("shut")
        self.begun = True
        return super().reset()


PLAYS = {
    "pure": (pure("cheap"), Corridor),
    "strong": (pure("strong"), Corridor),
    "tacit": (threshold_router(2), Corridor),
    "proposal": (threshold_router(2, "proposal"), Corridor),
    "restart": (prefix_router(2, 0.1), Corridor),
    "a restart that fails": (prefix_router(2, 0.1), Once),
    "a world that breaks": (pure("cheap"), partial(Corridor, breaks_at=1)),
}


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_read_is_what_was_played(name, tmp_path):
    path, (router, world) = tmp_path / "episode.jsonl", PLAYS[name]
    played = play(router, path=path, world=world, info={"seed": 7, "words": "größer 🙂\u2028next"})
    assert read_transcript(path) == played
    assert path.read_text(encoding="utf-8").splitlines(keepends=False)[0].startswith('{"event": "start"')
    assert list(tmp_path.iterdir()) == [path]
    copy = tmp_path / "copy.jsonl"
    write_transcript(played, copy)
    assert copy.read_bytes() == path.read_bytes()


TEXT = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    words=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4),
    numbers=st.lists(st.tuples(NUMBERS, NUMBERS.map(abs)), min_size=4, max_size=4),
)
def test_every_text_and_number_survives_the_file(words, numbers, tmp_path_factory):
    class World:
        def reset(self):
            self.at = -1
            return Observation(words[0][0], tuple(word for word, _ in words), task=words[0][1])

        def step(self, action):  # noqa: ARG002
            self.at += 1
            last = self.at == len(words) - 1
            return StepResult(Observation(words[self.at][1]), numbers[self.at][0], done=last, success=last)

    class Speaker:
        name = "speaker"

        def act(self, history):
            return Proposal(words[len(history)][0], nll=numbers[len(history)][1], raw=words[len(history)][1])

    path = tmp_path_factory.mktemp("transcripts") / "t.jsonl"
    played = run_episode(World(), Speaker(), None, pure("cheap"), episode="e", path=path)
    assert read_transcript(path) == played


def test_retries_and_errors_are_in_the_file(tmp_path):
    path = tmp_path / "t.jsonl"
    errors = [ActorError("slow", transient=True), ActorError("no key")]
    run_episode(
        Corridor(),
        Moody(Walker("cheap", WAIT), errors),
        None,
        pure("cheap"),
        episode="e",
        path=path,
        sleep=lambda _: None,
    )
    end = json.loads(path.read_text().splitlines()[-1])
    assert end["status"] == "actor_error"
    assert [failure["message"] for failure in end["failures"]] == ["slow", "no key"]
    assert read_transcript(path).end.status == "actor_error"


def test_a_transcript_cut_anywhere_is_torn(tmp_path):
    path = tmp_path / "t.jsonl"
    play(threshold_router(2), path=path)
    whole = path.read_bytes()
    cuts = [0, 1, whole.index(b"\n") + 1, len(whole) // 2, len(whole) - 1]
    for content in [*(whole[:cut] for cut in cuts), whole + whole[:9]]:
        path.write_bytes(content)
        with pytest.raises(TornTranscriptError):
            read_transcript(path)
    assert read_transcripts(tmp_path) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: ["nonsense", *lines[1:]], "line 1: not valid JSON"),
        (lambda lines: lines[1:], "line 1: expected the event 'start'"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "line 2: expected one start"),
        (lambda lines: [lines[0].replace('"schema_version": 1', '"schema_version": 9'), *lines[1:]], "another version"),
        (lambda lines: [lines[0].replace("bayes_tacit.transcript", "diary"), *lines[1:]], "format is 'diary'"),
        (lambda lines: [line.replace('"executed": true', '"executed": "perhaps"') for line in lines], "executed"),
        (lambda lines: [line.replace('"event": "step"', '"event": "leap"') for line in lines], "event is 'leap'"),
        (lambda lines: [line.replace('"event": "step"', '"event": []') for line in lines], "line 3: "),
        (
            lambda lines: [line.replace('"event": "step"', '"event": "step", "event": "step"') for line in lines],
            "line 3",
        ),
        (lambda lines: [line.replace('"event": "step"', '"event": "step", "more": 1') for line in lines], "line 3: "),
        (lambda lines: [line.replace('"cost": ', '"cost": 1e999, "was": ') for line in lines], "line 3: "),
    ],
)
def test_what_is_no_transcript_is_refused_with_its_line(change, message, tmp_path):
    path = tmp_path / "t.jsonl"
    play(pure("cheap"), path=path)
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(FileFormatError, match=message):
        read_transcript(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(MissingFileError, match=r"none\.jsonl"):
        read_transcript(tmp_path / "none.jsonl")
    with pytest.raises(MissingFileError, match="no such folder"):
        play(pure("cheap"), path=tmp_path / "none" / "t.jsonl")
    with pytest.raises(MissingFileError, match="folder of transcripts"):
        read_transcripts(tmp_path / "none")


def test_the_same_play_has_the_same_fingerprint_whatever_time_it_took():
    first, second = play(pure("cheap")), play(pure("cheap"))
    assert first != second
    assert first.fingerprint() == second.fingerprint()
    assert first.fingerprint() != play(pure("cheap"), cheap=("left",)).fingerprint()


def pair(episode, cheap, strong, *, length, timing="post_action"):
    return (
        play(pure("cheap", timing), cheap=cheap, length=length, episode=episode),
        play(pure("strong", timing), strong=strong, length=length, episode=episode),
    )


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_paired_transcripts_give_the_episodes_exactly(timing, tmp_path):
    pairs = [
        pair("a", WAIT, RIGHT, length=3, timing=timing),
        pair("b", ("wait", "right"), RIGHT, length=2, timing=timing),
        pair("c", WAIT, WAIT, length=4, timing=timing),
    ]
    for cheap, strong in pairs:
        write_transcript(cheap, tmp_path / f"{cheap.episode}.cheap.jsonl")
        write_transcript(strong, tmp_path / f"{cheap.episode}.strong.jsonl")
    found = read_transcripts(tmp_path)
    rebuilt = episodes_from_transcripts(
        [(found[f"{name}.cheap"], found[f"{name}.strong"]) for name in "abc"], {"a": (1, 3)}
    )
    tasks = pd.DataFrame(
        {
            "episode": ["a", "b", "c"],
            "cheap_success": [False, True, False],
            "strong_success": [True, True, False],
            "window_start": [1, None, None],
            "window_end": [3, None, None],
            "length": [3.0, 2.0, 4.0],
            "spare": [1 / 3] * 3,
        }
    )
    stalled = {"a": [1.0] * 6, "b": [1.0, 0.0, 0.0], "c": [1.0] * 6}
    steps = pd.DataFrame(
        [
            {"episode": name, "step": at, "stalled": value, "third": 1 / 3}
            for name, values in stalled.items()
            for at, value in enumerate(values)
        ]
    )
    expected = Episodes.from_frames(tasks, steps)
    assert rebuilt.identical(expected)
    assert rebuilt.outcomes.tolist() == ["01", "11", "00"]
    np.testing.assert_array_equal(rebuilt.n_steps, [6, 3, 6])


def test_pairs_that_are_none_are_refused():
    cheap, strong = pair("a", WAIT, RIGHT, length=3)
    other_cheap, other_strong = pair("b", WAIT, RIGHT, length=3)
    handed = play(threshold_router(2), episode="a")
    discarded = play(threshold_router(2, "proposal"), episode="a", budget=Budget(50, calls=2))
    bare = play(pure("cheap"), episode="a", extractor=None)
    broken = run_episode(
        Corridor(3, breaks_at=1), Walker("c", WAIT), None, pure("cheap"), episode="a", extractor=Stalled()
    )
    longer = play(pure("strong"), episode="a", length=4)
    for given_pair, message in [
        ((cheap, other_strong), "the same episode"),
        ((strong, cheap), "each by cheap"),
        ((handed, strong), "each by cheap"),
        ((discarded, strong), "every proposal executed"),
        ((bare, strong), "play with an extractor"),
        ((broken, strong), "played again"),
        ((cheap, longer), "as in the Cheap rollout"),
    ]:
        with pytest.raises(InvalidDataError, match=message):
            episodes_from_transcripts([given_pair])
    with pytest.raises(InvalidDataError, match="windows is 'b'"):
        episodes_from_transcripts([(cheap, strong)], {"b": (0, 0)})
    with pytest.raises(InvalidDataError, match="at least one pair"):
        episodes_from_transcripts([])
    with pytest.raises(InvalidDataError, match="window"):
        episodes_from_transcripts([(cheap, strong)], {"a": (2, 99)})
    with pytest.raises(InvalidDataError, match="'b'"):
        episodes_from_transcripts([(cheap, strong), (other_cheap, other_strong), (other_cheap, other_strong)])
