"""The documents: links lead somewhere, headings are in order, words are spelled right, and the maps are complete."""

import ast
import importlib
import pkgutil
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from documents import Document

import bayes_tacit
from bayes_tacit import fit_map

ROOT = Path(__file__).parents[2]
NAMED = [Document(ROOT / f"{name}.md") for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")]
RESULTS = [Document(path) for path in sorted((ROOT / "simulations" / "results").glob("*/README.md"))]
PAGES = [Document(path) for path in sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = NAMED + RESULTS + PAGES
ARCHITECTURE, CONTRIBUTING = NAMED[1:3]
GENERATED = ("docs/_build", "demo-output", ".venv")

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one.path.relative_to(ROOT)))


def broken_links(document):
    for link in document.links:
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = document.path.parent / target if target else document.path
        inside = file.resolve().is_relative_to(ROOT)
        if not (file.exists() and inside) or (anchor and anchor not in Document(file).anchors):
            yield link


@every_document
def test_links_inside_the_repository_lead_somewhere(document):
    assert not list(broken_links(document))


def test_a_broken_link_and_a_broken_anchor_are_found():
    page = ROOT / "docs" / "index.md"
    links = "[a](nowhere.md) [b](#nowhere) [c](#bayes_tacit) [d](../README.md#no) [e](/etc) [f](https://x.org)"

    class Page(Document):
        text = f"# bayes_tacit\n\n{links}\n\n```text\n[g](in-a-block.md)\n```\n`[h](in-code.md)`"

    assert list(broken_links(Page(page))) == ["nowhere.md", "#nowhere", "../README.md#no", "/etc"]


@every_document
def test_there_is_one_title_and_no_level_is_skipped(document):
    levels = [level for level, _ in document.headings]
    assert document.text.startswith("# ")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@every_document
def test_paths_that_are_named_exist(document):
    recipes = {block.file for block in CONTRIBUTING.blocks}
    made = (*GENERATED, "simulations/results/patience")
    for name in document.code:
        looks_like_a_path = re.fullmatch(r"(bayes_tacit|models|simulations|tests|tools|docs)/[\w./-]*", name)
        if looks_like_a_path and name not in recipes and not name.startswith(made):
            assert (ROOT / name).exists(), name


@every_document
def test_no_word_is_doubled(document):
    assert not re.findall(r"\b(\w+)\s+\1\b", re.sub(r"^\|.*$", "", document.prose, flags=re.MULTILINE))


@every_document
def test_nothing_is_said_of_the_machine_or_where_packages_come_from(document):
    assert not re.findall(
        r"/(?:home|root|work|tmp|Users)/|[A-Z]:\\|pypi|pythonhosted|index-url|localhost", document.text
    )


# The map of the modules.


def modules_of(package):
    """Names of the modules and packages directly inside, without `__init__`."""
    entries = (ROOT / package).iterdir()
    files = {path.stem for path in entries if path.suffix == ".py" and path.stem != "__init__"}
    return files | {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}


def rows_under(title):
    section = ARCHITECTURE.text.split(f"## {title}")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| \S", section, flags=re.MULTILINE)


LIBRARY, REPOSITORY = rows_under("The library"), rows_under("The repository")


def test_every_module_is_on_the_map_once_and_nothing_else_is():
    assert sorted(LIBRARY) == sorted(modules_of("bayes_tacit"))
    there = {f"{package}.{name}" for package in ("models", "simulations") for name in modules_of(package)}
    assert sorted(REPOSITORY) == sorted(there)


def imported(path):
    """Names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("rows", "prefix"), [(LIBRARY, "bayes_tacit."), (REPOSITORY, "")], ids=["library", "repository"]
)
def test_a_module_imports_only_from_rows_under_its_own(rows, prefix):
    names = [f"{prefix}{row}" for row in rows]
    for place, name in enumerate(names):
        base = ROOT / name.replace(".", "/")
        for file in base.rglob("*.py") if base.is_dir() else [base.with_suffix(".py")]:
            for other in imported(file):
                for above in names[:place]:
                    assert other != above, f"{file} imports {above}"
                    assert not other.startswith(f"{above}."), f"{file} imports {above}"


# The reference.


DOCUMENTED = re.findall(r"^\.\. auto\w+:: (\S+)$", "\n".join(page.text for page in PAGES), flags=re.MULTILINE)


def resolved(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference_and_none_twice():
    objects = [resolved(path) for path in DOCUMENTED]
    missing = []
    for found in pkgutil.walk_packages(bayes_tacit.__path__, "bayes_tacit."):
        if found.ispkg and not found.name.startswith(("bayes_tacit.cli", "bayes_tacit.data.formats")):
            module = importlib.import_module(found.name)
            public = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
            missing += [f"{found.name}.{n}" for n, one in public.items() if not any(one is known for known in objects)]
    missing += [name for name in bayes_tacit.__all__ if f"bayes_tacit.{name}" not in DOCUMENTED]
    assert not missing
    assert [path for path, count in Counter(DOCUMENTED).items() if count > 1] == []


def test_every_page_is_in_the_table_of_contents():
    index = next(page for page in PAGES if page.path.stem == "index")
    listed = re.search(r"```\{toctree\}\n:maxdepth: 2\n\n(.*?)```", index.text, flags=re.DOTALL)[1].split()
    assert sorted(listed) == sorted(page.path.stem for page in PAGES if page is not index)


# The picture.


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


def test_the_picture_is_committed_and_shown_in_the_readme():
    assert (ROOT / "docs" / "handoff.png").read_bytes().startswith(b"\x89PNG")
    assert "docs/handoff.png" in NAMED[0].links
