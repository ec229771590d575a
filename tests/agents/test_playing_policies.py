"""Policies that are played on tasks: what is told apart, what is kept, and what is taken from the rollouts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from patient_world import PLAYERS, Corridors
from toy_world import cascade, deferral, prefix_router, threshold_router

from bayes_tacit.agents.playing import Entry, collect, play_policies
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import handoff_at, pure


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    monkeypatch.setattr("patient_world.PAUSE", 0)
    return collect(Corridors(2), tmp_path / "rollouts", PLAYERS)


def played(folder, pairs, **routers):
    entries = [Entry(name, router) for name, router in routers.items()]
    return play_policies(Corridors(2), pairs, entries, folder / "played", PLAYERS)


def test_pure_agents_are_the_rollouts_themselves(tmp_path, pairs):
    found = played(tmp_path, pairs, cheap=pure("cheap"), strong=pure("strong", "proposal"))
    assert found == {"cheap": [pair.cheap for pair in pairs], "strong": [pair.strong for pair in pairs]}
    assert not any((tmp_path / "played").iterdir())


ROUTERS = {
    "tacit": (threshold_router(2), replace(threshold_router(2), alpha=0.25)),
    "another timing": (threshold_router(2), threshold_router(2, "proposal")),
    "deferral": (deferral(0.5, "stalled"), deferral(2.0, "stalled")),
    "another call": (deferral(0.5, "stalled"), replace(deferral(0.5, "stalled"), call="strong")),
    "prefix": (prefix_router(1, 0.2), prefix_router(1, 0.8)),
    "cascade": (cascade(0.2), cascade(0.3)),
    "handoff": (handoff_at(1), handoff_at(2)),
}


@pytest.mark.parametrize("name", ROUTERS)
def test_an_episode_is_kept_for_its_router_and_played_again_for_another_of_the_same_name(name, tmp_path, pairs):
    one, other = ROUTERS[name]
    first = played(tmp_path, pairs, policy=one)
    assert played(tmp_path, pairs, policy=replace(one)) == first
    second = played(tmp_path, pairs, policy=other)
    for before, after in zip(first["policy"], second["policy"], strict=True):
        assert before.header.info["identity"] == one.fingerprint != after.header.info["identity"] == other.fingerprint


def test_names_that_make_one_file_are_refused(tmp_path, pairs):
    with pytest.raises(InvalidDataError, match="differ in letters or figures"):
        played(tmp_path, pairs, **{"One": handoff_at(1), "one!": handoff_at(2)})
