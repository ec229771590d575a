"""What the attack has found, one by one: bad files, absurd numbers, advice that did not help."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from attack.cases import command
from command_line import call
from conversations import rollout
from routers import random_router

from bayes_tacit import Counterfactuals, Episodes, Router, fit_map, load_example
from bayes_tacit.cli import route
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import ConvergenceError, FileFormatError, InvalidDataError, TacitError
from bayes_tacit.estimates import posterior as sampling
from bayes_tacit.logs import import_logs
from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.formats import FORMATS
from bayes_tacit.model.evidence import collect_evidence

AGENT_STEP = {"source": "agent", "message": "", "observation": {"results": [{"content": "a"}]}}
ATIF = {"schema_version": "ATIF-v1.4", "extra": {"task": "a", "success": True}}
BROKEN = {
    "a sample that is no object": ("inspect", {"samples": [1]}),
    "samples of no evaluation": ("inspect", {"samples": [], "eval": 1}),
    "usage that is no object": ("inspect", {"samples": [{"id": 1, "messages": [], "model_usage": 1}]}),
    "metrics that are none": ("atif", ATIF | {"steps": [AGENT_STEP | {"metrics": 1}]}),
    "calls that are no list": ("atif", ATIF | {"steps": [AGENT_STEP | {"tool_calls": 1}]}),
    "a result that is no object": ("atif", ATIF | {"steps": [AGENT_STEP | {"observation": {"results": [1]}}]}),
    "statistics that are none": ("swe-agent", {"trajectory": [], "info": {"model_stats": 1}}),
    "settings that are none": ("mini-swe-agent", {"messages": [], "info": {"config": 1}}),
    "a message with an extra text": (
        "mini-swe-agent",
        {"messages": [{"role": "assistant", "content": "", "extra": "x"}], "info": {}},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_log_with_another_kind_of_value_inside_is_refused(tmp_path, name):
    of, content = BROKEN[name]

    def first_error():
        # A broken record comes as its error, so that the others can be kept.
        errors = [each[1] for each in FORMATS[of].rollouts(Document(content, tmp_path / "a.traj.json"))]
        raise errors[0]

    with pytest.raises(InvalidDataError, match="expected"):
        first_error()


@pytest.mark.parametrize("text", ["task,size\na,nan\n", "task,size\na,1e999\n", "task,size\n"])
def test_a_table_of_tasks_has_rows_and_finite_numbers(tmp_path, text):
    for side in ("cheap", "strong"):
        (tmp_path / f"{side}.jsonl").write_text(json.dumps(rollout("a")) + "\n")
    (tmp_path / "k.csv").write_text(text)
    logs = tmp_path / "cheap.jsonl", tmp_path / "strong.jsonl", tmp_path / "out.jsonl"
    with pytest.raises(TacitError, match=r"k\.csv: "):
        import_logs(*logs, tasks=tmp_path / "k.csv")
    assert not (tmp_path / "out.jsonl").exists()


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


@pytest.mark.parametrize(("draws", "most"), [(1, 5), (100, 2)])
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
    "options", [("--restarts", "1000000000000"), ("--restarts", "9" * 400), ("--seed", "-1"), ("--seed", "9" * 400)]
)
def test_absurd_options_are_one_line_and_exit_code_2(folder, options):
    done = call("fit", "episodes.jsonl", "--out", "absurd.json", *options, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "absurd.json").exists()


@pytest.mark.parametrize("words", [("validate",), ("fit", "--out", "new.json"), ("sample", "--out", "new.nc")])
@pytest.mark.parametrize("factor", [1e308, 1e-310])
def test_commands_name_the_file_and_the_column_that_no_number_carries(tmp_path, words, factor):
    scaled("diagnostics", factor).take(range(30)).write(tmp_path / "e.jsonl")
    done = call(words[0], "e.jsonl", *words[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert "in e.jsonl: diagnostics['repeat'] is 1e" in done.stderr.splitlines()[-1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["e.jsonl"]


def test_escape_codes_of_ids_are_shown_and_not_sent(folder, tmp_path):
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()[:3]]
    text = "\n".join(json.dumps(each | {"episode": f"\x1b[31m{i}\x1b]0;x\x07"}) for i, each in enumerate(episodes))
    (tmp_path / "e.jsonl").write_text(text)
    done = call("score", str(folder / "fit.json"), "e.jsonl", "--out", "s.csv", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31m0" in done.stdout


@pytest.fixture(scope="module")
def without_signs(tmp_path_factory):
    """Episodes, of which two have windows without any sign; others all of whose windows are the first step."""
    home = tmp_path_factory.mktemp("advice")
    load_example().take(range(80)).write(home / "e.jsonl")
    lines = [json.loads(line) for line in (home / "e.jsonl").read_text().splitlines()]
    marked = [line for line in lines if line.get("window")]
    for line in marked[:2]:
        first, last = line["window"]
        for step in line["diagnostics"][first : last + 1]:
            step.update(dict.fromkeys(step, 0))
    (home / "none.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for line in marked:
        line["window"] = [0, 0]
        line["diagnostics"][0]["repeat"] = 1
    (home / "first.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


def test_windows_without_mass_are_dropped_as_the_note_says(without_signs):
    def fitted(*options):
        ended = command("fit", "none.jsonl", "--out", "f.json", "--restarts", "1", *options, out=("f.json",))(
            without_signs
        )
        return ended.kind, ended.said

    kind, floored = fitted()
    assert kind == "accepted"
    assert "2 episodes floored" in floored
    kind, dropped = fitted("--zero-mass", "drop_window")
    assert kind == "accepted"
    assert "0 episodes floored" in dropped
    kind, refused = fitted("--zero-mass", "refuse")
    assert kind == "refused"
    assert "pass --zero-mass drop_window to keep only that Strong succeeded" in refused


def test_windows_at_the_first_step_are_told_for_what_they_are(without_signs):
    ended = command("fit", "first.jsonl", "--out", "f.json", "--restarts", "1")(without_signs)
    assert ended.kind == "refused"
    assert "the scale s grows without end" in ended.said
    assert "bayes-tacit sample has an answer even so" in ended.said
    assert not re.search("iterations|ridge", ended.said)


def shrunk(factor: float) -> Episodes:
    dataset = load_example().take(range(60)).dataset.copy(deep=True)
    dataset["diagnostics"][..., 0] *= factor
    return Episodes(dataset)


def test_a_sampler_that_stops_names_the_column_that_is_out_of_size():
    said = sampling._stopped(shrunk(1e-200), ConvergenceError("All initialization points failed"))
    assert said == (
        "the sampler stopped (All initialization points failed); expected diagnostics of about the size of 1: "
        "the largest of 'repeat' is 1e-200; scale it"
    )
