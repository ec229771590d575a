"""The README: what it shows runs, prints what it says, and can be read."""

import re
import warnings
from pathlib import Path

import pytest

from bayes_tacit import Episodes
from bayes_tacit.episodes.formats import jsonl
from bayes_tacit.errors import TacitWarning

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def blocks(language):
    return [body for name, body in BLOCKS if name == language]


def test_python_blocks_run_from_top_to_bottom_and_print_what_follows_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert blocks("python")
    namespace, printed, compared = {}, "", 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for language, body in BLOCKS:
            if language == "python":
                exec(compile(body, "README.md", "exec"), namespace)
                printed = capsys.readouterr().out
            elif language == "text":
                assert printed == body
                compared += 1
    assert compared
    assert len(namespace["episodes"]) == 3


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_json_block_is_a_line_of_a_file_that_can_be_read(tmp_path):
    (example,) = blocks("json")
    (tmp_path / "e.jsonl").write_text(example)
    made = Episodes.read(tmp_path / "e.jsonl")
    assert made.ids.tolist() == ["task-17"]
    assert made.has_window.all()
    assert made.n_steps.tolist() == [2]


def test_documentation_of_the_format_shows_the_same_line():
    (example,) = blocks("json")
    assert f"\n    {example}" in jsonl.__doc__
