"""The recipes in CONTRIBUTING.md, followed as they are written: files at their paths, programs in their order."""

import re
import shlex
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from bayes_tacit.router.control import Checkpoint
from documents import Document

import bayes_tacit.agents
import bayes_tacit.policies
import simulations.studies
from bayes_tacit.errors import TacitWarning
from bayes_tacit.logs.formats import FORMATS
from bayes_tacit.model import families, priors
from simulations.__main__ import main
from simulations.studies.storage import TABLE, read_table
from simulations.studies.study import STUDIES

ROOT = Path(__file__).parents[2]
RECIPES = Document(ROOT / "CONTRIBUTING.md")
PACKAGES = (bayes_tacit.policies, bayes_tacit.agents, simulations.studies)


@pytest.fixture
def overlay(tmp_path, monkeypatch):
    """The recipes' files, in a folder that their packages look into as if they were in the repository."""
    files = [block for block in RECIPES.blocks if block.file]
    before = set(sys.modules)
    for block in files:
        assert not (ROOT / block.file).exists()
        path = tmp_path / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
    for package in PACKAGES:
        folder = tmp_path / package.__name__.replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    names = [block.file.removesuffix(".py").replace("/", ".") for block in files]
    yield names
    for name in set(names) & (set(sys.modules) - before):
        package, _, attribute = name.rpartition(".")
        delattr(sys.modules[package], attribute)
        del sys.modules[name]


def follow(section, capsys):
    """Run the programs under a heading; what they print is compared with the text after them."""
    namespace, printed, compared = {}, None, 0
    for block in RECIPES.blocks:
        if block.section != section or block.file:
            continue
        if block.language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                exec(compile(block.body, "CONTRIBUTING.md", "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert printed == block.body
            compared += 1
    assert compared
    return namespace


def test_the_policy_is_fitted_and_compared(overlay, capsys):
    made = follow("Add a policy", capsys)
    result, test = made["result"], made["worlds"]["test"]
    assert "bayes_tacit.policies.two_alarms" in overlay
    # The same rule, played in plain Python.
    alpha = float(result.choices["Two Alarms"].point["alpha"])
    risks = test.episodes.dataset["diagnostics"].values[:, :, 0]
    table = test.counterfactuals.table()
    for row, risk in enumerate(risks[:500]):
        at = next((t + 2 for t, (one, next_one) in enumerate(pairwise(risk)) if one >= alpha <= next_one), -1)
        handoff = -1 if at == test.episodes.n_steps[row] else at
        assert result.outcomes["Two Alarms"].success[row] == table[0, row, handoff]
        assert result.outcomes["Two Alarms"].cost[row] == table[1, row, handoff]
    # The controller decides the same, one checkpoint after the other.
    controller = result.fitted["Two Alarms"].controller(result.choices["Two Alarms"].point)
    for row, risk in enumerate(risks[:100]):
        pilot = controller.begin({}, "task")
        n_steps = test.episodes.n_steps[row]
        said = [pilot.checkpoint(Checkpoint({"risk": value})).call for value in risk[:n_steps]]
        handoff = said.index("strong") + 1 if "strong" in said else -1
        assert result.outcomes["Two Alarms"].cost[row] == table[1, row, -1 if handoff == n_steps else handoff]
    # What is chosen by is what is played.
    fitted, point = result.fitted["Two Alarms"], result.choices["Two Alarms"].point
    played = fitted.outcomes(made["worlds"]["development"], point).point()
    assert {name: point[name] for name in played} == pytest.approx(played)


def test_the_family_and_the_prior_go_into_fits_and_routers(capsys, monkeypatch):
    monkeypatch.setattr(priors, "PRIORS", dict(priors.PRIORS))
    known = dict(families.FAMILIES)
    try:
        made = follow("Add a threshold family or a prior", capsys)
        peer = scipy.stats.gumbel_r
        z = np.linspace(-4, 12, 33)
        np.testing.assert_allclose(made["FRECHET"].cdf(z), peer.cdf(z), rtol=1e-12)
        np.testing.assert_allclose(made["FRECHET"].log_pdf(z), peer.logpdf(z), rtol=1e-12)
        assert made["fit"].prior == '{"name": "HeavyTailed", ' + made["fit"].prior.partition(", ")[2]
    finally:
        families.FAMILIES.clear()
        families.FAMILIES.update(known)


def test_the_study_is_run_by_the_runner(overlay, tmp_path, monkeypatch):
    (change,) = [block.body for block in RECIPES.blocks if block.language == "diff"]
    lines = change.splitlines()
    source = (ROOT / "simulations" / "studies" / "study.py").read_text(encoding="utf-8")
    assert all(line[1:] in source for line in lines if line.startswith(" "))
    for name, module in re.findall(r'^\+    "(\w+)": "([\w.]+)",$', change, flags=re.MULTILINE):
        assert module in overlay
        monkeypatch.setitem(STUDIES, name, module)
    (command,) = [block.body for block in RECIPES.blocks if block.section == "Add a study" and block.language == "sh"]
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
    made = follow("Add a benchmark", capsys)
    assert "bayes_tacit.agents.guessing" in overlay
    assert made["fit"].converged
    episodes = made["episodes"]
    for number, pair in enumerate(made["pairs"]):
        assert episodes.ids[number] == pair.task.id
        assert episodes.outcomes[number] == f"{pair.cheap.end.success:d}{pair.strong.end.success:d}"


def test_the_format_is_recognized_and_read(capsys, monkeypatch):
    monkeypatch.setitem(FORMATS, "diary", None)  # taken out again at the end
    made = follow("Add a format of logs", capsys)
    assert made["episodes"].dataset["strong_steps"].item() == 2


def test_the_diagnostic_goes_into_the_fit(capsys):
    made = follow("Add a diagnostic", capsys)
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
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = re.findall(r"^\| `make (\w+)` \|", RECIPES.text, flags=re.MULTILINE)
    assert len(named) >= 6
    assert set(named) <= set(targets)
