"""The notebooks: they run, what is committed was run top to bottom, and a user could have written them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import nbformat
import notebook_run
import pytest
from nbclient import NotebookClient
from typer.main import get_command

from bayes_tacit.cli import app

MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|work|usr|opt|var|Users|private)/|[A-Z]:\\Users")
WARNING = re.compile(r"\b\w*Warning\b|\bDeprecated\b|Traceback", re.IGNORECASE)

LONG = ("07_memory_and_recommendation", "08_from_logs_to_a_router")
"""What takes a minute even in the short setting runs with the studies."""

every_notebook = pytest.mark.parametrize("path", notebook_run.paths(), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookClient]:
    with notebook_run.short_kernel() as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.study] * (path.stem in LONG)) for path in notebook_run.paths()],
    ids=lambda path: path.stem,
)
def test_runs_from_top_to_bottom_in_the_short_setting(path: Path, kernel: NotebookClient) -> None:
    committed = notebook_run.read(path)
    done = notebook_run.run(committed, kernel)
    assert _complaints(done) == []
    assert [_kinds(cell) for cell in _code(done)] == [_kinds(cell) for cell in _code(committed)]


@every_notebook
def test_committed_notebook_was_run_in_order_from_a_fresh_kernel(path: Path) -> None:
    notebook = notebook_run.read(path)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in _code(notebook)] == list(range(1, len(_code(notebook)) + 1))
    assert any(cell.outputs for cell in _code(notebook))


@every_notebook
def test_committed_outputs_hold_no_error_warning_or_machine_path(path: Path) -> None:
    assert _complaints(notebook_run.read(path)) == []


@every_notebook
def test_links_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in notebook_run.read(path).cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [target for target in targets if not (path.parent / target).exists()] == []


@every_notebook
def test_command_lines_in_the_text_are_understood(path: Path) -> None:
    program = get_command(app)
    for line in _command_lines(notebook_run.read(path)):
        name, *words = line
        program.commands[name].make_context(name, words)  # type: ignore[attr-defined]


def test_a_figure_of_the_library_leaves_later_figures_visible(kernel: NotebookClient) -> None:
    cells = [
        "from bayes_tacit import fit_map, load_example\nfrom bayes_tacit.review.plots import plot_weights\n"
        "plot_weights(fit_map(load_example()));",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    done = notebook_run.run(notebook, kernel)
    assert ["image/png" in _kinds(cell) for cell in done.cells] == [True, True]


def _code(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _command_lines(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """List the words after `bayes-tacit` of every line in the text's shell blocks."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [words[1:] for words in lines if words[:1] == ["bayes-tacit"]]


def _kinds(cell: nbformat.NotebookNode) -> set[str]:
    """Name what a cell shows: a stream, or the richest form of each result."""
    shown = set()
    for output in cell.outputs:
        forms = output.get("data", {})
        shown.add(
            next((form for form in ("image/png", "text/markdown", "text/html") if form in forms), output.output_type)
        )
    return shown


def _complaints(notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error" or output.get("name") == "stderr":
                found.append(f"cell {number}: {output}")
            texts = [
                output.get("text", ""),
                *(str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")),
            ]
            found += [f"cell {number}: {text}" for text in texts if MACHINE_PATH.search(text) or WARNING.search(text)]
    return found
