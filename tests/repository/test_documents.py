"""The documents: what they link to and name is there, and the picture shows what it says."""

import importlib
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from documents import Document

import bayes_tacit
from bayes_tacit import fit_map

ROOT = Path(__file__).parents[2]
NAMED = [Document(ROOT / f"{name}.md") for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")]
RESULTS = [Document(path) for path in sorted((ROOT / "simulations" / "results").glob("*/README.md"))]
PAGES = [
    Document(path) for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.relative_to(ROOT).parts
]
README, ARCHITECTURE, CONTRIBUTING = NAMED[:3]
MADE_BY_COMMANDS = ("docs/_build", "simulations/results/patience", "tests/benchmarks.html")

every_document = pytest.mark.parametrize(
    "document", NAMED + RESULTS + PAGES, ids=lambda one: str(one.path.relative_to(ROOT))
)


@every_document
def test_links_inside_the_repository_lead_somewhere(document):
    for link in document.links:
        target, _, anchor = link.partition("#")
        if not re.match(r"[a-z]+:", link):
            file = document.path.parent / target if target else document.path
            assert file.exists(), link
            assert file.resolve().is_relative_to(ROOT), link
            assert not anchor or anchor in Document(file).anchors, link


@every_document
def test_paths_that_are_named_exist(document):
    recipes = {block.file for one in (CONTRIBUTING, *PAGES) for block in one.blocks}
    for name in document.code:
        looks_like_a_path = re.fullmatch(r"(bayes_tacit|models|simulations|tests|tools|docs)/[\w./-]*", name)
        if looks_like_a_path and name not in recipes and not name.startswith(MADE_BY_COMMANDS):
            assert (ROOT / name).exists(), name


@every_document
def test_nothing_is_said_of_the_machine_or_where_packages_come_from(document):
    places = r"/(?:home|root|work|tmp|Users)/|[A-Z]:\\|pypi|pythonhosted|index-url|localhost"
    assert not re.findall(places, document.text)


def test_every_module_is_on_the_map_once_and_nothing_else_is():
    for title, package, prefix, others in (
        ("The library", "bayes_tacit", "", []),
        ("The repository", "simulations", "simulations.", ["models"]),
    ):
        section = ARCHITECTURE.text.split(f"## {title}")[1].split("\n## ")[0]
        folder = ROOT / package
        names = {path.stem for path in folder.glob("*.py")} | {
            path.parent.name for path in folder.glob("*/__init__.py")
        }
        there = [*others, *(prefix + name for name in names - {"__init__"})]
        assert sorted(re.findall(r"^\| `([\w.]+)` \| \S", section, flags=re.MULTILINE)) == sorted(there)


def test_every_public_name_is_in_the_reference_and_none_twice():
    documented = re.findall(r"^\.\. auto\w+:: (\S+)$", "\n".join(page.text for page in PAGES), flags=re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert {f"bayes_tacit.{name}" for name in bayes_tacit.__all__} <= set(documented)


def test_the_picture_is_of_a_task_outside_the_training_set_that_crosses_in_its_window(example, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    pictures = importlib.import_module("pictures")
    training = example.take(slice(pictures.TRAINING_EPISODES))
    assert pictures.EPISODE not in training.ids.tolist()
    figure = pictures.handoff_picture(fit_map(training), example)
    (mark,) = [line for line in figure.axes[0].lines if line.get_label() == "first crossing"]
    shown = example.select([pictures.EPISODE]).dataset
    assert shown["window_start"].item() <= mark.get_xdata()[0] <= shown["window_end"].item()
    assert mark.get_ydata()[0] >= pictures.ALPHA
    plt.close(figure)
    sys.modules.pop("pictures")
