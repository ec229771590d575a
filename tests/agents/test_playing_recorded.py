"""Recorded answers: known by what they are, found by the task's id, and refused where they are not an agent's own."""

from __future__ import annotations

import json
import pickle
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
from toy_world import RIGHT, WAIT, Corridor, Moody, Stalled, Walker

from bayes_tacit.agents import (
    ActorError,
    Budget,
    History,
    Observation,
    Proposal,
    Step,
    StepResult,
    read_transcript,
    run_episode,
    write_transcript,
)
from bayes_tacit.agents.playing import Players, RecordedActor, collect
from bayes_tacit.agents.recorded import Remembering
from bayes_tacit.errors import InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.router import pure

LENGTHS = {"a": 2, "b": 3, "c": 3}
BUDGET = Budget(5)


@dataclass(frozen=True)
class Hall:
    """A task of the benchmark below."""

    id: str


class Corridors:
    """Corridors as a benchmark; b and c begin alike."""

    timing = "post_action"

    def tasks(self):
        return [Hall(name) for name in LENGTHS]

    def environment(self, task):
        return nullcontext(Corridor(LENGTHS[task.id]))

    def extractor(self, task, budget, *, descriptors=False):  # noqa: ARG002
        return Stalled()


def record(folder, episode, agent, actions, **settings):
    """Write a rollout of one agent."""
    actor = settings.pop("actor", Walker(agent, actions))
    actors = (actor, None) if agent == "cheap" else (None, actor)
    settings = {"budget": BUDGET, "episode": episode, "extractor": Stalled(), **settings}
    path = folder / f"{episode}.{agent}.jsonl"
    return run_episode(Corridor(LENGTHS[episode]), *actors, pure(agent), path=path, **settings)


@pytest.fixture
def folder(tmp_path):
    """Cheap goes right in a and b, and in c after two steps in vain; Strong always goes right."""
    home = tmp_path / "rollouts"
    home.mkdir()
    for episode, actions in {"a": RIGHT, "b": RIGHT, "c": ("wait", "left", "right")}.items():
        record(home, episode, "cheap", actions)
        record(home, episode, "strong", RIGHT)
    return home


def players(folder):
    return Players(RecordedActor(folder, "cheap"), RecordedActor(folder, "strong"), budget=BUDGET)


def edited(path, change):
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_tasks_that_begin_alike_have_their_own_answers(folder, tmp_path):
    again = collect(Corridors(), tmp_path / "again", players(folder))
    for pair in again:
        for agent, rollout in (("cheap", pair.cheap), ("strong", pair.strong)):
            before = read_transcript(folder / f"{pair.task.id}.{agent}.jsonl")
            assert [step.proposal.action for step in rollout.steps] == [step.proposal.action for step in before.steps]
    assert [len(pair.cheap.steps) for pair in again] == [2, 3, 5]
    cheap, first = RecordedActor(folder, "cheap"), again[1].cheap.history(0).first
    with pytest.raises(ActorError, match=r"'a' is recorded for .*place 0"):
        cheap.act(History(first, episode="a"))
    with pytest.raises(ActorError, match="no recorded answers of cheap for 'd'"):
        cheap.act(History(first, episode="d"))


def test_an_id_is_handed_on_and_tells_histories_apart_for_nobody_else():
    history = History(Observation("place 0"), episode="a")
    played = run_episode(Corridor(2), walker := Walker("c", RIGHT), None, pure("cheap"), episode="a")
    assert [one.episode for one in (*walker.seen, played.history(1))] == ["a"] * 3
    assert history == History(Observation("place 0"), episode="b")


def test_the_same_answers_in_another_place_are_the_same_actor(folder, tmp_path):
    moved = tmp_path / "elsewhere" / "deeper"
    shutil.copytree(folder, moved)
    # How long an answer took is not the answer.
    for path in moved.glob("*.jsonl"):
        edited(path, lambda line: {**line, "seconds": 9.0} if "seconds" in line else line)
    collect(Corridors(), tmp_path / "kept", players(folder))
    shutil.move(folder, tmp_path / "gone")
    again = collect(Corridors(), tmp_path / "kept", players(moved.parent))
    assert [pair.outcome for pair in again] == ["11", "11", "11"]
    assert str(tmp_path) not in repr(players(moved))
    assert repr(RecordedActor(moved, "cheap")) != repr(RecordedActor(moved, "strong"))


def test_other_answers_in_the_same_place_are_another_actor(folder, tmp_path):
    collect(Corridors(), tmp_path / "kept", players(folder))
    before = repr(RecordedActor(folder, "cheap"))
    record(folder, "c", "cheap", WAIT)
    assert repr(RecordedActor(folder, "cheap")) != before
    with pytest.raises(InvalidDataError, match="use another folder"):
        collect(Corridors(), tmp_path / "kept", players(folder))
    (pair,) = collect(Corridors(), tmp_path / "new", players(folder), tasks=[Hall("c")])
    assert [step.proposal.action for step in pair.cheap.steps] == ["wait"] * 5


def test_an_actor_goes_to_another_process_with_its_answers(folder):
    sent = pickle.loads(pickle.dumps(RecordedActor(folder, "cheap")))
    first = read_transcript(folder / "a.cheap.jsonl").history(0)
    assert sent.act(first) == replace(Proposal("right"), usage={"tokens": 1.5}, seconds=0.25)


def test_rollouts_that_are_not_an_agents_own_or_broke_off_are_no_answers(folder):
    strong = read_transcript(folder / "a.strong.jsonl")
    write_transcript(replace(strong, header=replace(strong.header, policy="pure_cheap")), folder / "a.cheap.jsonl")
    record(folder, "b", "cheap", RIGHT, actor=Moody(Walker("cheap", RIGHT), [ActorError("no key")]))
    (folder / "c.cheap.jsonl").write_bytes((folder / "c.cheap.jsonl").read_bytes()[:-40])
    # Files of other kinds are passed over, broken ones with a warning.
    (folder / "b.handoff.jsonl").write_text("nonsense\n")
    with pytest.warns(TacitWarning, match="passed over"), pytest.raises(MissingFileError, match="no recorded answers"):
        RecordedActor(folder, "cheap")


def test_folders_that_hold_no_answers_or_too_many_are_refused(folder, tmp_path):
    with pytest.raises(MissingFileError, match="none: no such folder; expected a folder of transcripts"):
        RecordedActor(tmp_path / "none", "cheap")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match="empty: no recorded answers of strong; expected finished Pure Strong"):
        RecordedActor(tmp_path / "empty", "strong")
    # An agent's own rollouts are enough.
    for path in folder.glob("*.strong.jsonl"):
        path.unlink()
    assert sorted(RecordedActor(folder, "cheap").rollouts) == ["a", "b", "c"]
    shutil.copy(folder / "a.cheap.jsonl", folder / "z.jsonl")
    with pytest.raises(InvalidDataError, match=r"episode 'a', .*z\.jsonl: policy is 'pure_cheap'; expected one"):
        RecordedActor(folder, "cheap")


def test_an_actor_that_remembers_asks_once_at_each_point_of_a_task():
    right = Walker("strong", RIGHT)
    actor = Remembering(right, "strong")
    first = History(Observation("place 0"))
    assert actor.act(first) is actor.act(first)
    after = [first.then(Step(agent, Proposal("wait"), StepResult(Observation("")))) for agent in ("cheap", "strong")]
    assert len({id(actor.act(history)) for history in after}) == 2, "who did what tells points apart"
    assert len(right.seen) == 3
