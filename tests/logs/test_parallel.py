"""A log that is read in portions gives what it gives in one: rows, places and errors."""

import json

import pytest
from conversations import rollout, write

from bayes_tacit.errors import TacitError
from bayes_tacit.logs import import_logs, importing
from bayes_tacit.logs.rollout import Reading, row_of

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


@pytest.fixture
def log(tmp_path):
    """Lines of many lengths, some of them blank, the last without an end."""
    rollouts = [rollout(f"täsk {at}", success=at % 3 == 0, turns=1 + at % 7) for at in range(60)]
    lines = [
        line for one in rollouts for line in (json.dumps(one, ensure_ascii=False), *([""] * (len(one["task"]) % 2)))
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("size", [1, 7, 100, 333, 1000, 4096, 10**6])
def test_every_line_is_in_one_portion_whatever_their_size(log, size):
    expected = [
        (row_of(json.loads(line), Reading()), number)
        for number, line in enumerate(log.read_text(encoding="utf-8").split("\n"), start=1)
        if line
    ]
    found, before = [], 0
    for start in range(0, log.stat().st_size, size):
        lines, rows = importing.rows_between(log, start, start + size, Reading())
        found += [(row, before + line) for row, line in rows]
        before += lines
    assert found == expected


def test_processes_write_what_one_writes(log, tmp_path, monkeypatch):
    one = import_logs(log, log, tmp_path / "one.jsonl")
    monkeypatch.setattr(importing, "SMALLEST", 0)
    monkeypatch.setattr(importing, "PORTION", 4000)
    read = []
    two = import_logs(
        log, log, tmp_path / "two.jsonl", workers=2, progress=lambda side, size: read.append((side, size))
    )
    assert two == one
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert {side for side, _ in read} == {"cheap", "strong"}


def test_an_error_is_told_with_its_line_as_by_one_process(tmp_path, monkeypatch):
    rollouts = [rollout(at) for at in range(40)]
    for at, broken in ((25, {"task": 25, "messages": []}), (30, "torn")):
        path = write(tmp_path / "log.jsonl", *rollouts[:at], broken, *rollouts[at + 1 :])
        said = []
        for smallest in (10**9, 0):
            monkeypatch.setattr(importing, "SMALLEST", smallest)
            monkeypatch.setattr(importing, "PORTION", 4000)
            with pytest.raises(TacitError, match=rf"log\.jsonl:{at + 1}\b") as caught:
                import_logs(path, path, tmp_path / "out.jsonl", workers=2)
            said.append(str(caught.value))
        assert said[0] == said[1]
        assert not (tmp_path / "out.jsonl").exists()
