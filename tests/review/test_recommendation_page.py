"""The page of a recommendation: its numbers, and its sliders in a browser."""

import html
import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from command_line import call
from pages import CHROMIUM, Page, assert_sound

from bayes_tacit import Episodes, Router, StepCost, World, fit_map, handoff_score, recommend
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import FirstAlarm, PureCheap
from bayes_tacit.review.recommendation import PARTS, budgets, examples, recommendation_page

MOVED = """
<iframe width="{width}" height="900" srcdoc="{page}"></iframe>
<script>
window.addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument, said = {{}};
  const move = (id, value) => {{
    page.getElementById(id).value = value;
    page.getElementById(id).dispatchEvent(new Event("input"));
  }};
  const read = (id) => page.getElementById(id).textContent;
  said.wide = page.documentElement.scrollWidth > page.documentElement.clientWidth;
  said.first = read("cap-value");
  move("cap", 1);
  said.moved = ["cap-value", "policy", "success", "cost", "flip", "strong"].map(read);
  move("threshold", 0);
  said.low = read("decision");
  move("threshold", 1);
  said.high = read("decision");
  document.title = JSON.stringify(said);
}});
</script>
"""


@pytest.fixture(scope="module")
def world(example):
    kept = example.take(slice(600, 1200))
    return World.from_restarts(kept, strong_steps=kept.n_steps, cost=StepCost(cheap=1, strong=3))


@pytest.fixture(scope="module")
def result(world):
    tried = [PureCheap(), FirstAlarm("uncertainty", handoff="restart")]
    return recommend(world, 40, policies=tried, folds=2, frontier=5)


@pytest.fixture(scope="module")
def written(result, world, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    recommendation_page(replace(result, name="<script>alert(1)</script>"), world, path)
    return path


def test_it_has_its_sections_loads_nothing_and_escapes_what_a_user_named(written):
    page = Page(written)
    assert [attrs.get("type") for attrs in page.all("script")] == ["application/json", None]
    page.tags = [(tag, attrs) for tag, attrs in page.tags if tag != "script"]
    assert_sound(page, PARTS)
    assert "http" not in page.content.replace("http://www.w3.org/2000/svg", "")


def test_the_coin_flip_is_on_the_straight_line_between_both_models(result, world):
    pure = {"cheap": world.counterfactuals.pure_cheap.point(), "strong": world.counterfactuals.pure_strong.point()}
    rows = budgets(result, pure)
    known = np.array([[end["cost"], end["success"]] for end in pure.values()]).T
    np.testing.assert_allclose([row["flip"] for row in rows], np.interp([row["cost"] for row in rows], *known))
    assert [row["cap"] for row in rows] == result.frontier["cap"].tolist()


def test_q_of_the_examples_is_that_of_a_fit_on_all_others(world):
    shown = examples(world.episodes)
    ids = [one["id"] for one in shown]
    rest = world.episodes.take(np.flatnonzero(~np.isin(world.episodes.ids, ids)))
    chosen = world.episodes.select(ids)
    scores = handoff_score(fit_map(rest), chosen).values
    for row, one in enumerate(shown):
        np.testing.assert_allclose(one["q"], scores[row, : chosen.n_steps[row]], atol=1e-5)
        assert f"{one['cheap']:d}{one['strong']:d}" == chosen.outcomes[row]
    assert {chosen.outcomes[row] for row in range(len(ids))} == {"01", "11", "00"}


def test_without_other_budgets_there_is_no_page(result, world, tmp_path):
    with pytest.raises(InvalidDataError, match="frontier=21"):
        recommendation_page(replace(result, frontier=None), world, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_its_sliders_move_the_numbers_in_a_browser(written, result, world, tmp_path, width):
    probe = tmp_path / "probe.html"
    probe.write_text(MOVED.format(width=width, page=html.escape(written.read_text(encoding="utf-8"))))
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1500,1000"),
        *("--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", probe.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    said = json.loads(html.unescape(re.search("<title>(.*?)</title>", done.stdout)[1]))
    row, strong = result.frontier.iloc[1], world.counterfactuals.pure_strong.point()
    assert not said["wide"]
    assert float(said["first"]) == pytest.approx(result.frontier["cap"].iloc[2], rel=1e-3)
    cap, policy, success, cost, flip, alone = said["moved"]
    assert float(cap) == pytest.approx(row["cap"], rel=1e-3)
    assert policy == "<script>alert(1)</script>"
    assert success.startswith(f"{row['success']:.1%} ({row['success_lower']:.1%}")
    assert float(cost.split(",")[0]) == pytest.approx(row["cost"], rel=1e-3)
    assert "points above it" in flip
    assert alone.startswith(f"{strong['success']:.1%}")
    assert said["low"] == "q(t) reaches alpha at step 0: Strong takes over."
    assert said["high"] == "Cheap acts to the end."


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_the_command_writes_it_beside_the_router(example, tmp_path):
    example.take(slice(0, 160)).write(tmp_path / "e.jsonl")
    words = ["recommend", "e.jsonl", "--cap", "60%", "--counterfactuals", "none.csv", "--out", "r.json"]
    assert call(*words, "--report", "page.txt", cwd=tmp_path).returncode == 2
    bounds = call("recommend", "e.jsonl", "--cap", "40", "--out", "r.json", "--report", "p.html", cwd=tmp_path)
    assert bounds.returncode == 2
    assert "--handoff restart" in bounds.stderr
    tasks, steps = example.take(slice(0, 160)).to_frames()
    tasks["strong_steps"] = 12.0
    names = list(example.feature_names)
    Episodes.from_frames(tasks, steps, features=names).write(tmp_path / "with_steps.jsonl")
    words = ["recommend", "with_steps.jsonl", "--cap", "60%", "--handoff", "restart", "--folds", "2", "--out", "r.json"]
    done = call(*words, "--report", "p.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Page(tmp_path / "p.html").all("svg")
    assert Router.load(tmp_path / "r.json").handoff == "restart"
