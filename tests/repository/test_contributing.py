"""The recipes in CONTRIBUTING.md and docs/how-to, followed as they are written: files and programs in their order."""

import re
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from documents import Document

import simulations.studies
from bayes_tacit.errors import TacitWarning
from bayes_tacit.logs.formats import FORMATS
from bayes_tacit.model import families, priors
from bayes_tacit.router.rule import RULES
from simulations.__main__ import main
from simulations.studies.storage import TABLE, read_table
from simulations.studies.study import STUDIES

ROOT = Path(__file__).parents[2]
RECIPES = Document(ROOT / "CONTRIBUTING.md")
HOW_TO = {path.stem: Document(path) for path in sorted((ROOT / "docs" / "how-to").glob("*.md"))}


@pytest.fixture
def overlay(tmp_path, monkeypatch):
    """The recipes' files, in a folder that Python looks into, and the studies' package as if it were its own."""
    files = [block for document in (RECIPES, *HOW_TO.values()) for block in document.blocks if block.file]
    before = set(sys.modules)
    for block in files:
        assert not (ROOT / block.file).exists()
        path = tmp_path / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        simulations.studies, "__path__", [*simulations.studies.__path__, f"{tmp_path}/simulations/studies"]
    )
    monkeypatch.setitem(RULES, "two_alarms", None)  # taken out again at the end
    del RULES["two_alarms"]
    names = [block.file.removesuffix(".py").replace("/", ".") for block in files]
    yield names
    for name in set(names) & (set(sys.modules) - before):
        package, _, attribute = name.rpartition(".")
        if package:
            delattr(sys.modules[package], attribute)
        del sys.modules[name]


def follow(document, capsys):
    """Run the programs of a page; what they print is compared with the text after them."""
    namespace, printed, compared = {}, None, 0
    for block in document.blocks:
        if block.file:
            continue
        if block.language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                exec(compile(block.body, document.path.name, "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert printed == block.body
            compared += 1
    assert compared
    return namespace


def test_the_policy_is_compared_recommended_and_written_as_a_router(overlay, capsys):
    """What it does elsewhere is in tests/test_own_policy.py."""
    follow(RECIPES, capsys)
    assert "two_alarms" in overlay


def test_the_family_and_the_prior_go_into_fits_and_routers(capsys, monkeypatch):
    monkeypatch.setattr(priors, "PRIORS", dict(priors.PRIORS))
    known = dict(families.FAMILIES)
    try:
        made = follow(HOW_TO["own-model"], capsys)
        peer = scipy.stats.gumbel_r
        z = np.linspace(-4, 12, 33)
        np.testing.assert_allclose(made["FRECHET"].cdf(z), peer.cdf(z), rtol=1e-12)
        np.testing.assert_allclose(made["FRECHET"].log_pdf(z), peer.logpdf(z), rtol=1e-12)
        assert made["fit"].prior == '{"name": "HeavyTailed", ' + made["fit"].prior.partition(", ")[2]
    finally:
        families.FAMILIES.clear()
        families.FAMILIES.update(known)


def test_the_study_is_run_by_the_runner(overlay, tmp_path, monkeypatch):
    (change,) = [block.body for block in HOW_TO["own-study"].blocks if block.language == "diff"]
    lines = change.splitlines()
    source = (ROOT / "simulations" / "studies" / "study.py").read_text(encoding="utf-8")
    assert all(line[1:] in source for line in lines if line.startswith(" "))
    for name, module in re.findall(r'^\+    "(\w+)": "([\w.]+)",$', change, flags=re.MULTILINE):
        assert module in overlay
        monkeypatch.setitem(STUDIES, name, module)
    (command,) = [block.body for block in HOW_TO["own-study"].blocks if block.language == "sh"]
    program, *words = shlex.split(command)
    assert [program, *words[:2]] == [".venv/bin/python", "-m", "simulations"]
    monkeypatch.chdir(tmp_path)
    assert main(words[2:]) == 0
    results = tmp_path / "trial"
    assert {path.name for path in results.iterdir()} == {
        "README.md",
        "patience.png",
        "replicates-20270101.jsonl",
        TABLE,
    }
    table = read_table(results / TABLE)
    assert sorted(table["policy"]) == ["First Alarm"] * 4 + ["Two Alarms"] * 4
    page = (results / "README.md").read_text(encoding="utf-8")
    for name, rows in table.groupby("setting"):
        shown = float(re.search(rf"^\| {name} \| (-?[\d.]+) ± ", page, flags=re.MULTILINE)[1])
        success = rows.groupby("policy")["success"].mean()
        assert shown == pytest.approx(100 * (success["Two Alarms"] - success["First Alarm"]), abs=0.006)


def test_the_benchmark_is_played_and_fitted(overlay, capsys):
    made = follow(HOW_TO["own-benchmark"], capsys)
    assert "guessing" in overlay
    assert made["fit"].converged
    episodes = made["episodes"]
    for number, pair in enumerate(made["pairs"]):
        assert episodes.ids[number] == pair.task.id
        assert episodes.outcomes[number] == f"{pair.cheap.end.success:d}{pair.strong.end.success:d}"


def test_the_format_is_recognized_and_read(capsys, monkeypatch):
    monkeypatch.setitem(FORMATS, "diary", None)  # taken out again at the end
    made = follow(HOW_TO["import-your-format"], capsys)
    assert made["episodes"].dataset["strong_steps"].item() == 2


def test_logs_that_are_not_paired_are_fitted(capsys):
    made = follow(HOW_TO["unpaired-logs"], capsys)
    assert made["fit"].objective > 0


def test_the_diagnostic_goes_into_the_fit(capsys):
    made = follow(HOW_TO["own-signal"], capsys)
    episodes, fit = made["episodes"], made["fit"]
    assert episodes.diagnostic_names[-1] == "streak"
    stalled, streak = (episodes.dataset["diagnostics"].values[:, :, at] for at in (2, 4))
    for row in range(100):
        length = 0
        for t in range(episodes.n_steps[row]):
            length = length + 1 if stalled[row, t] else 0
            assert streak[row, t] == length
    assert fit.w.shape == (5,)
    np.testing.assert_allclose(fit.w.sum(), 1)


def test_every_make_target_of_the_table_is_there():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = re.findall(r"^\| `make ([\w-]+)` \|", RECIPES.text, flags=re.MULTILINE)
    assert len(named) >= 6
    assert set(named) <= set(targets)
