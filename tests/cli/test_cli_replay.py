"""The command replay: what a recommended router would have done on logs that it did not see, words and all."""

import csv
import io
import json
import re

import numpy as np
import pytest
from command_line import call
from pages import CHROMIUM, Page, assert_sound, opened

from bayes_tacit import Router
from bayes_tacit.cli.route import answer

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


def written(path, rng, names, sides):
    """Rollouts of three turns whose first answer tells whether Cheap will fail; Strong solves nine in ten."""
    with path.open("w") as file:
        for name in names:
            cheap, strong = sides[name]
            success = cheap if path.stem.startswith("cheap") else strong
            messages = [{"role": "user", "content": f"Find {rng.choice(WORDS)}."}]
            for step in range(3):
                said = "bogus nonsense" if step == 0 and not cheap else f"rows {rng.choice(WORDS)}"
                call_ = {"id": "1", "function": {"name": "sql", "arguments": json.dumps({"q": f"{name} {step}"})}}
                messages.append({"role": "assistant", "content": "", "tool_calls": [call_]})
                messages.append({"role": "tool", "tool_call_id": "1", "content": said})
            file.write(json.dumps({"task": name, "success": bool(success), "messages": messages}) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("replay"), np.random.default_rng(0)
    names = [f"t{number}" for number in range(160)]
    sides = {name: (rng.random() < 0.5, rng.random() < 0.9) for name in names}
    for part, some in (("training", names[:100]), ("new", names[100:])):
        for side in ("cheap", "strong"):
            written(path / f"{side}-{part}.jsonl", rng, some, sides)
    (path / "sides.json").write_text(json.dumps({name: [bool(one) for one in both] for name, both in sides.items()}))
    return path


def test_words_are_learned_recommended_and_replayed_with_no_option_for_them(folder):
    done = call("import", "cheap-training.jsonl", "strong-training.jsonl", "--out", "e.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr
    words = ["--cap", "75%", "--handoff", "restart", "--strong-cost", "10", "--out", "r.json", "--folds", "3", "--json"]
    done = call("recommend", "e.jsonl", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gain"]
    router = Router.load(folder / "r.json")
    assert router.reader is not None
    assert (folder / "r.json").stat().st_size < 2_000_000
    assert "bogus" not in (folder / "r.json").read_text()
    more = ["--strong-cost", "10", "--out", "h.csv", "--report", "p.html", "--json"]
    done = call("replay", "r.json", "cheap-new.jsonl", "strong-new.jsonl", *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["above_coin"] > 0.1
    sides = json.loads((folder / "sides.json").read_text())
    with (folder / "h.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    for row in rows:
        cheap, strong = sides[row["task"]]
        step = int(row["handoff_step"])
        assert float(row["success"]) == (cheap if step in (-1, 3) else strong)
        assert float(row["cost"]) == (3 if step in (-1, 3) else step + 30)
    page = Page(folder / "p.html")
    assert_sound(page, ["answer", "handoffs", "tasks"])
    assert f"{100 * said['above_coin']:.1f} points above a coin flip" in page.text
    bars = [int(bar.split(": ")[1]) for bar in re.findall(r"<title>((?:from )?step [^<]*)", page.content)]
    assert sum(bars) == said["handed_off"]
    assert len(page.all("tr")) == 61
    if CHROMIUM:
        assert opened(folder / "p.html", folder, 400) == ("pictures 0 bad 0 wide false", [])
    assert call("replay", "r.json", "cheap-new.jsonl", cwd=folder).returncode == 2
    done = call("replay", "r.json", "cheap-new.jsonl", "--out", "alone.csv", "--report", "alone.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "coin" not in Page(folder / "alone.html").text
    with (folder / "alone.csv").open() as file:
        alone = list(csv.DictReader(file))
    assert [row["handoff_step"] for row in alone] == [row["handoff_step"] for row in rows]
    assert {row["success"] for row in alone} == {""}
    lines = []
    for entry in map(json.loads, (folder / "cheap-new.jsonl").read_text().splitlines()):
        messages = entry["messages"]
        lines.append({"episode": entry["task"], "messages": messages[:1]})
        lines += [{"episode": entry["task"], "messages": messages[at : at + 2]} for at in (1, 3, 5)]
        lines.append({"episode": entry["task"], "end": True})
    asked, told = io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode()), io.StringIO()
    assert not answer(router, io.BufferedReader(asked), told)
    said = [json.loads(line) for line in told.getvalue().splitlines()]
    ends = {one["episode"]: one["handoff_step"] for one in said if one.get("ended")}
    for row in rows:
        step, crossed = int(row["handoff_step"]), ends[row["task"]]
        assert step == (-1 if crossed is None else crossed + 1), "route decides as replay says it would have"
