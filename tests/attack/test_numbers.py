"""Numbers that no machine carries, and settings that would never end: one line each, at once."""

from __future__ import annotations

import io
import json
import subprocess

import numpy as np
import pytest
import zarr
from command_line import PROGRAM, call
from routers import random_router

from bayes_tacit import Counterfactuals, Episodes, Router, fit_map, load_example
from bayes_tacit.agents.teacher.human import read_marks
from bayes_tacit.cli import route
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.model.evidence import collect_evidence

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, example, example_fit):
    """The example, its fit and a router."""
    home = tmp_path_factory.mktemp("numbers")
    example.write(home / "episodes.jsonl")
    example_fit.save(home / "fit.json")
    Router.from_fit(example_fit, alpha=0.3).save(home / "router.json")
    return home


ABSURD = [10**12, 2**63, 10**400]


def scaled(kind: str, factor: float) -> Episodes:
    dataset = load_example().dataset.copy(deep=True)
    dataset[kind][..., 0] = np.where(dataset[kind][..., 0] > 0, factor, dataset[kind][..., 0])
    return Episodes(dataset)


@pytest.mark.parametrize(("kind", "factor"), [("diagnostics", 1e308), ("diagnostics", 1e-310), ("features", 1e308)])
def test_a_range_that_double_precision_cannot_carry_is_refused_by_its_column(kind, factor):
    episodes = scaled(kind, factor)
    with pytest.raises(InvalidDataError, match=rf"{kind}\['\w+'\] is .*; scale it"):
        collect_evidence(episodes)
    with pytest.raises(InvalidDataError, match="scale it"):
        fit_map(episodes)


@pytest.mark.parametrize("value", ABSURD)
def test_settings_that_would_never_end_are_refused(value):
    with pytest.raises(InvalidDataError, match=r"restarts is \d.*; expected a whole number from 1 to 10,000"):
        fit_map(load_example(), restarts=value)
    with pytest.raises(InvalidDataError, match="n is "):
        fixed_grid(n=value)


def test_a_table_of_counterfactuals_with_an_absurd_handoff_is_refused(tmp_path):
    (tmp_path / "c.csv").write_text(
        "episode,handoff,success,cost,cheap_calls,strong_calls\na,1e300,1,1,0,0\na,,1,1,0,0\n"
    )
    with pytest.raises(FileFormatError, match=r"handoff is 1e\+300; expected a whole number >= 0 and below"):
        Counterfactuals.read(tmp_path / "c.csv")


def test_a_mark_of_five_thousand_digits_is_refused_with_its_line(tmp_path):
    (tmp_path / "m.csv").write_text(f"episode,window_start,window_end\na,1,{'9' * 5000}\n")
    with pytest.raises(InvalidDataError, match=r"m\.csv, line 2: window_end is"):
        read_marks(tmp_path / "m.csv")


BEGIN = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
STEP = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}


WRONG = [
    b'{"episode": "a", "episode": "b", "end": true}',
    json.dumps(STEP | {"end": True}).encode(),
    json.dumps(STEP | BEGIN).encode(),
    json.dumps(STEP | {"more": 1}).encode(),
    b'{"episode": "a", "end": "no"}',
    b'{"episode": "a", "end": 1}',
    b"\xef\xbb\xbf" + json.dumps(STEP).encode(),
    json.dumps(STEP).encode("utf-16"),
    b"[" * 100_000,
    b'{"episode": ["a"], "end": true}',
]


def test_route_refuses_lines_that_say_two_things_or_none_and_goes_on(folder):
    requests = b"\n".join([json.dumps(BEGIN).encode(), *WRONG, json.dumps(STEP).encode()])
    command = [PROGRAM, "route", "router.json"]
    done = subprocess.run(command, cwd=folder, input=requests, capture_output=True, timeout=60, check=False)
    replies = [json.loads(reply) for reply in done.stdout.splitlines()]
    assert ["error" in reply for reply in replies[1:-1]] == [True] * (len(replies) - 2)
    assert len(replies) >= len(WRONG) + 2
    assert replies[-1]["step"] == 0


@pytest.mark.parametrize(("draws", "most"), [(1, 13), (100, 4)])
def test_episodes_that_never_end_are_bounded_by_what_they_take(monkeypatch, draws, most):
    monkeypatch.setattr(route, "OPEN_BYTES", 10_000)
    begin, end = ('{"episode": %d, "features": [1, 0.5]}\n', '{"episode": %d, "end": true}\n')
    lines = [begin % number for number in range(most + 1)] + [end % 0, begin % most]
    out = io.StringIO()
    route.answer(random_router(draws=draws), io.BufferedReader(io.BytesIO("".join(lines).encode())), out)
    replies = [json.loads(reply) for reply in out.getvalue().splitlines()]
    assert [reply.get("started", False) for reply in replies] == [True] * most + [False, False, True]
    assert f"expected at most {most} episodes that have not ended" in replies[most]["error"]


@pytest.mark.parametrize(
    "options",
    [
        ("--restarts", "1000000000000"),
        ("--restarts", "9" * 400),
        ("--seed", "-1"),
        ("--seed", "9" * 400),
    ],
)
def test_absurd_options_are_one_line_and_exit_code_2(folder, options):
    done = call("fit", "episodes.jsonl", "--out", "absurd.json", *options, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "absurd.json").exists()


@pytest.mark.parametrize("options", [("--draws", "9" * 30), ("--chains", "1000000"), ("--tune", "10000000000")])
def test_absurd_samples_are_one_line_and_exit_code_2(folder, options):
    done = call("sample", "episodes.jsonl", "--out", "absurd.nc", *options, cwd=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("words", [("validate",), ("fit", "--out", "new.json"), ("sample", "--out", "new.nc")])
@pytest.mark.parametrize("factor", [1e308, 1e-310])
def test_commands_name_the_file_and_the_column_that_no_number_carries(tmp_path, words, factor):
    scaled("diagnostics", factor).take(range(30)).write(tmp_path / "e.jsonl")
    done = call(words[0], "e.jsonl", *words[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert "in e.jsonl: diagnostics['repeat'] is 1e" in done.stderr.splitlines()[-1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["e.jsonl"]


def test_a_folder_that_is_not_ours_is_noticed_before_anything_is_sampled(folder):
    store = zarr.create_array(folder / "foreign.zarr", shape=(2,), dtype="f8")
    words = ("sample", "episodes.jsonl", "--out", "foreign.zarr", "--force", "--draws", "0")
    done = call(*words, cwd=folder)
    assert (done.returncode, done.stderr.count("foreign.zarr")) == (2, 1)
    assert store.shape == (2,)


def test_select_reads_its_data_also_where_alpha_is_given(folder):
    done = call("select", "fit.json", "missing.jsonl", "--alpha", "0.3", "--out", "r2.json", cwd=folder)
    assert done.returncode == 2
    assert "missing.jsonl" in done.stderr


def test_escape_codes_of_ids_are_shown_and_not_sent(folder, tmp_path):
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()[:3]]
    text = "\n".join(json.dumps(each | {"episode": f"\x1b[31m{i}\x1b]0;x\x07"}) for i, each in enumerate(episodes))
    (tmp_path / "e.jsonl").write_text(text)
    done = call("score", str(folder / "fit.json"), "e.jsonl", "--out", "s.csv", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31m0" in done.stdout
