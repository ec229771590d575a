"""Whether someone can see a bar: in the kernel of a notebook they can, in a script without a terminal they cannot."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

from bayes_tacit.progress import in_notebook, watched

CELL = "from bayes_tacit.progress import in_notebook, watched; print(in_notebook(), watched())"


def test_a_notebook_is_watched():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    assert notebook.cells[0].outputs[0]["text"].split() == ["True", "True"]


def test_a_script_without_a_terminal_is_not(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert not in_notebook()
    assert not watched()
