"""The notebooks: they run, what is committed was run top to bottom, and a user could have written them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import notebook_run
import pytest
from nbclient import NotebookClient
from typer.main import get_command

from bayes_tacit.cli import app

MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|work|usr|opt|var|Users|private)/|[A-Z]:\\Users")
WARNING = re.compile(r"\b\w*Warning\b|\bDeprecated\b|Traceback", re.IGNORECASE)
REPOSITORY = ("models", "simulations")
STYLES = ("bayes_tacit.review.style",)
"""How figures look is one for all, also for figures that a notebook draws itself."""

LARGEST = 3_500_000
"""Bytes of all notebooks."""

every_notebook = pytest.mark.parametrize("path", notebook_run.paths(), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookClient]:
    with notebook_run.short_kernel() as client:
        yield client


@every_notebook
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
def test_imports_public_names_only(path: Path) -> None:
    source = "\n".join(cell.source for cell in _code(notebook_run.read(path)))
    assert [problem for problem in map(_problem, _imports(source)) if problem] == []


@every_notebook
def test_every_figure_has_a_reading_under_it(path: Path) -> None:
    cells = notebook_run.read(path).cells
    drawn = [i for i, cell in enumerate(cells) if cell.cell_type == "code" and "image/png" in _kinds(cell)]
    for i in drawn:
        assert cells[i + 1].cell_type == "markdown", f"cell {i}"
        assert cells[i + 1].source.startswith("*Reading: "), f"cell {i}"


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


def test_the_agents_notebook_goes_all_the_way_on_the_command_line() -> None:
    lines = _command_lines(notebook_run.read(notebook_run.NOTEBOOKS / "06_agents.ipynb"))
    assert [line[0] for line in lines] == ["collect", "teach", "fit", "select", "evaluate"]


def test_an_option_that_does_not_exist_is_seen() -> None:
    cell = nbformat.v4.new_markdown_cell("Try:\n\n```sh\nbayes-tacit fit a.jsonl \\\n    --our fit.json\n```")
    (line,) = _command_lines(nbformat.v4.new_notebook(cells=[cell]))
    assert line == ["fit", "a.jsonl", "--our", "fit.json"]
    with pytest.raises(Exception, match="No such option: --our"):
        get_command(app).commands["fit"].make_context("fit", line[1:])  # type: ignore[attr-defined]


def test_notebooks_stay_small() -> None:
    assert sum(path.stat().st_size for path in notebook_run.paths()) < LARGEST


def test_a_figure_of_the_library_leaves_later_figures_visible() -> None:
    cells = [
        "from bayes_tacit import fit_map, load_example\nfrom bayes_tacit.review.plots import plot_weights\n"
        "plot_weights(fit_map(load_example()));",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    with notebook_run.short_kernel() as fresh:
        done = notebook_run.run(notebook, fresh)
    assert ["image/png" in _kinds(cell) for cell in done.cells] == [True, True]


@pytest.mark.parametrize(
    "source",
    [
        "from bayes_tacit.scores.bands import shortest_interval",
        "from bayes_tacit.decisions.selection import _lowest",
        "from bayes_tacit import Draws",
        "import bayes_tacit.scores.core",
        "from simulations.studies.curves import _plot",
    ],
)
def test_a_private_import_is_seen(source: str) -> None:
    assert all(_problem(found) for found in _imports(source))


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


def _imports(source: str) -> list[tuple[str, str | None]]:
    """List (module, name), with no name for `import module`."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or ".", alias.name) for alias in node.names]
    return found


def _problem(imported: tuple[str, str | None]) -> str | None:
    """Say why an import is not one of public names; None if it is."""
    module, name = imported
    parts = [*module.split("."), *([name] if name else [])]
    if any(part.startswith("_") for part in parts):
        return f"{module}.{name} is private"
    if parts[0] in REPOSITORY and not hasattr(import_module(module), "__all__"):
        return None if name is None or hasattr(import_module(module), name) else f"{module} has no {name}"
    if parts[0] != "bayes_tacit" and parts[0] not in REPOSITORY:
        return None
    public = getattr(import_module(module), "__all__", None)
    if module in STYLES or (public is not None and (name is None or name in public)):
        return None
    return f"{name} is not in {module}.__all__" if public else f"{module} has no __all__"
