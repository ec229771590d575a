"""Runs notebooks as the tests do: the short setting, one kernel that serves them all, an empty namespace for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
FORGET = "get_ipython().reset(new_session=True)"
SECONDS = 1200


def paths() -> list[Path]:
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


@contextmanager
def short_kernel() -> Iterator[NotebookClient]:
    """Start a kernel in the short setting. Notebooks share it: to compile the same model takes most of the time."""
    client = NotebookClient(new_notebook(), kernel_name="python3", timeout=SECONDS)
    with client.setup_kernel(cwd=str(NOTEBOOKS), env={**os.environ, "BAYES_TACIT_SHORT": "1"}):
        yield client


def run(notebook: nbformat.NotebookNode, client: NotebookClient) -> nbformat.NotebookNode:
    """Run all cells from an empty namespace; a cell that fails raises."""
    cells = [new_code_cell(FORGET), *notebook.cells]
    client.nb = new_notebook(cells=cells)
    client.reset_execution_trackers()
    for index, cell in enumerate(cells):
        client.execute_cell(cell, index)
    return new_notebook(cells=cells[1:])
