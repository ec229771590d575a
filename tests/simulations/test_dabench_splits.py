"""Which questions of DABench are for what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_dabench import ABSENT, N, write_questions

from simulations.dabench.questions import make_splits


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


def test_questions_are_dealt_once_and_alike_with_and_without_tables(data, tmp_path):
    splits = make_splits(data)
    assert [question.id for question in splits.missing] == [str(N)]
    assert [len(part) for part in (splits.fit, splits.select, splits.test)] != [5, 2, 2]
    assert sorted(int(question.id) for question in splits.all) == list(range(1, N))
    whole = write_questions(tmp_path / "whole")
    (whole / "da-dev-tables" / ABSENT).write_bytes((whole / "da-dev-tables" / "trips.csv").read_bytes())
    complete = make_splits(whole)
    assert [len(part) for part in (complete.fit, complete.select, complete.test)] == [5, 2, 2]
    for part in ("fit", "select", "test"):
        ids = [question.id for question in getattr(complete, part)]
        assert [question.id for question in getattr(splits, part)] == [one for one in ids if one != str(N)]


def test_the_official_questions_are_dealt_as_in_the_paper():
    home = os.environ.get("DABENCH_DATA")
    if not home or not Path(home).is_dir():
        pytest.skip("runs with DABENCH_DATA=<folder of DABench's files>")
    splits = make_splits(home)
    assert len(splits.all) + len(splits.missing) == 257
    assert len({question.id for question in (*splits.all, *splits.missing)}) == 257
    assert len(splits.test) <= 67
