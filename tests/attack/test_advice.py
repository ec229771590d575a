"""Advice that helps: what an error or a note says to do can be done, in the words of who reads it."""

from __future__ import annotations

import json
import re

import pytest
from attack.ways import command

from bayes_tacit import Episodes, load_example, sample_posterior
from bayes_tacit.errors import ConvergenceError
from bayes_tacit.estimates.posterior import sampling

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
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


def test_windows_without_mass_are_dropped_as_the_note_says(folder):
    def fitted(*options):
        ended = command("fit", "none.jsonl", "--out", "f.json", "--restarts", "1", *options, out=("f.json",))(folder)
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


def test_sample_says_which_option_would_help(folder):
    ended = command("sample", "none.jsonl", "--out", "p.nc", "--draws", "10")(folder)
    assert ended.kind == "refused"
    assert "--zero-mass drop_window" in ended.said
    assert "zero_mass=" not in ended.said


def test_windows_at_the_first_step_are_told_for_what_they_are(folder):
    ended = command("fit", "first.jsonl", "--out", "f.json", "--restarts", "1")(folder)
    assert ended.kind == "refused"
    assert "the scale s grows without end" in ended.said
    assert "bayes-tacit sample has an answer even so" in ended.said
    assert not re.search("iterations|ridge", ended.said)


def shrunk(factor: float) -> Episodes:
    dataset = load_example().take(range(60)).dataset.copy(deep=True)
    dataset["diagnostics"][..., 0] *= factor
    return Episodes(dataset)


def test_a_sampler_that_stops_names_the_column_that_is_out_of_size():
    said = sampling._stopped(shrunk(1e-200), RuntimeError("All initialization points failed\n\nStack backtrace:\n 0"))
    assert said == (
        "the sampler stopped (All initialization points failed); expected diagnostics of about the size of 1: "
        "the largest of 'repeat' is 1e-200; scale it"
    )


@pytest.mark.attack
def test_scales_that_the_sampler_does_not_carry_are_one_line():
    dataset = shrunk(1.0).dataset.copy(deep=True)
    dataset["diagnostics"] = dataset["diagnostics"] * 1e-200
    with pytest.raises(ConvergenceError, match=r"^the sampler stopped \(.*\); expected .*e-20[01]; scale it$"):
        sample_posterior(Episodes(dataset), draws=10, tune=10, chains=1, progress=False)
