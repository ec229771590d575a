"""The ALFWorld experiment on kitchens of our own: what is played, gone on with, written, and run as commands."""

from __future__ import annotations

import os
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from alfworld_fit import fit_of_made_up_episodes

from bayes_tacit import Episodes
from bayes_tacit.agents import Budget, History, Step, read_transcript
from bayes_tacit.agents.pages import episode_page
from bayes_tacit.agents.playing import Continuations, Players
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    EvoRoute,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    Trim,
    World,
)
from simulations import __main__ as program
from simulations.__main__ import main
from simulations.alfworld import (
    AlfworldEnvironment,
    CheapActor,
    ErrorProcess,
    StrongActor,
    write_kitchens,
)
from simulations.alfworld.benchmark import DESCRIPTORS, DIAGNOSTICS, AlfworldExtractor
from simulations.alfworld.experiment import BENCHMARK, run_experiment
from simulations.alfworld.games import Splits
from simulations.alfworld.page import SCRIPTED
from simulations.played import experiment as experiment_module
from simulations.played.experiment import check_played
from simulations.played.page import seconds_spent, write_results
from simulations.played.policies import POSTERIOR, TACIT

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

N_FIT, N_SELECT, N_TEST, ACTIONS = 6, 2, 3, 10
MILD = ErrorProcess(skips_state=0.3, settles_for_one=0.2, overlooks=0.2, loses_composure=0.05)
PLAYERS = Players(CheapActor(7, MILD), StrongActor(7, overlooks=0.3), budget=Budget(ACTIONS))
SINGLE_STEPS = ("Step Deferral", "TRIM analogue")
SETTINGS = {"players": PLAYERS, "workers": 1, "standstill": 1}


def policies():
    alpha, coarser = fixed_grid(0.05, 0.5, n=10), fixed_grid(0.1, 0.4, n=2)
    return [
        PureCheap(),
        TaskRouter.alfworld(DESCRIPTORS),
        StepDeferral("uncertainty", average_steps=(2, 4), timing="proposal"),
        PrefixRouter(prefixes=(1, 2), n_candidates=5),
        Trim(unmarked="outcome", average_steps=(4, 6)),
        EvoRoute(limit=16, prices=(0.0,), n_candidates=9, start=False, cost=PLAYERS.cost),
        TacitSwitch(estimator=lambda _: fit_of_made_up_episodes(), candidates=alpha, name=TACIT),
        PosteriorTacitSwitch(posterior=fit_of_made_up_episodes().to_datatree(), candidates=coarser, name=POSTERIOR),
        PureStrong(),
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_kitchens(folder, "own", N_FIT + N_SELECT + N_TEST, seed=1)
    return folder


@pytest.fixture(scope="module")
def splits(data):
    from simulations.alfworld import list_games

    games = list_games("own", data)
    return Splits(games[:N_FIT], games[N_FIT:-N_TEST], games[-N_TEST:], [])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def ran(splits, kept):
    return run_experiment(None, kept, splits=splits, policies=policies(), **SETTINGS)


def plain(game, decide, restart_at=None):
    """Play without the loop: `decide` says who acts from what happened so far and Cheap's proposal now."""
    calls = {"cheap": 0, "strong": 0}
    environment = opened(game.path)
    history = History(environment.reset())
    while len(history) < ACTIONS and not (history.steps and history.steps[-1].result.done):
        if restart_at is not None and len(history) == restart_at and calls["strong"] == 0:
            history = History(environment.reset())
            decide = lambda history, proposal: True  # noqa: ARG005, E731
        proposal = PLAYERS.cheap.act(history)
        takes_over = decide(history, proposal)
        agent = "strong" if takes_over else "cheap"
        if takes_over:
            calls["cheap"] += takes_over == "discards"
            proposal = PLAYERS.strong.act(history)
        calls[agent] += 1
        history = history.then(Step(agent, proposal, environment.step(proposal.action)))
    return int(history.steps[-1].result.success), calls["cheap"], calls["strong"]


@cache
def opened(path):
    return AlfworldEnvironment(path)


def expected_of(ran, name, row, game):
    """What a policy's own decision on the recorded episode gives when it is played without the loop."""
    fitted, setting = ran.comparison.fitted[name], ran.comparison.choices[name].point
    episodes = ran.test.episodes
    if name == "Step Deferral":
        level = setting["alpha"]
        return plain(game, lambda _, proposal: "discards" if -np.expm1(-proposal.nll) >= level else False)
    if name == "Prefix router":
        at = int(setting["k"]) if fitted.restarts(episodes, setting)[row] else None
        return plain(game, lambda *_: False, restart_at=at)
    if name == "TRIM analogue":
        return plain(game, lambda history, _: looks_wrong(history, fitted.model.chance(), setting["alpha"]))
    handoff = int(fitted.handoffs(episodes, setting)[row])
    return plain(game, lambda history, _: handoff >= 0 and len(history) >= handoff)


def looks_wrong(history, wrong, level):
    """Tell whether the latest step is Cheap's and looks wrong."""
    if not history.steps or history.steps[-1].agent == "strong":
        return False
    latest, extractor = history.steps[-1], AlfworldExtractor()
    found = extractor.diagnostics(History(history.first, history.steps[:-1]), latest.proposal, latest.result)
    known = {**extractor.features(history.first), **{f"last {name}": value for name, value in found.items()}}
    return wrong(known) >= level


def test_every_policy_was_played_as_a_plain_loop_plays_it(ran, splits):
    table = ran.episodes.set_index(["policy", "episode"])
    assert len(table) == len(policies()) * N_TEST
    for name in ran.comparison.fitted:
        for row, game in enumerate(splits.test):
            found = table.loc[name, game.id]
            success, cheap, strong = expected_of(ran, name, row, game)
            assert (int(found["success"]), found["cheap_calls"], found["strong_calls"]) == (success, cheap, strong)
            judged = (
                name == "Prefix router" and ran.test.episodes.n_steps[row] > ran.comparison.choices[name].point["k"]
            )
            assert found["one_off_calls"] == judged
            assert found["cost"] == cheap + 6.75 * strong + 1.75 * judged
    # There was something to compare: handoffs on the way, and deferred steps.
    handoffs = table.loc[[TACIT, POSTERIOR, "EvoRoute analogue"], "handoff_step"]
    assert handoffs.notna().groupby("policy").any().all()
    assert (table.loc[list(SINGLE_STEPS), ["cheap_calls", "strong_calls"]] > 0).all(axis=None)


def test_settings_are_chosen_on_what_every_handoff_gives(ran, tmp_path):
    full = Continuations(BENCHMARK, ran.pairs["select"], tmp_path, PLAYERS).counterfactuals()
    world = World(ran.development.episodes, full, PLAYERS.cost)
    for name, fitted in ran.comparison.fitted.items():
        if name not in SINGLE_STEPS:
            expected = fitted.operating_points(world)
            pd.testing.assert_frame_equal(fitted.operating_points(ran.development), expected)
            assert ran.comparison.choices[name].success == expected["success"][ran.comparison.choices[name].position]
    # What the teacher was not asked for, and marks are made of, is not there by chance.
    marked = ran.training.ids[ran.training.has_window].tolist()
    for pair in ran.pairs["fit"]:
        if pair.task.id in marked:
            row = ran.training.ids.tolist().index(pair.task.id)
            mark = int(ran.training.dataset["window_start"].values[row])
            assert Continuations(BENCHMARK, [pair], tmp_path, PLAYERS).at([[mark + 1]])[0][mark + 1].success
    assert marked


def test_the_table_is_that_of_the_played_episodes(ran):
    for row in ran.comparison.table.to_dict("records"):
        episodes = ran.episodes[ran.episodes["policy"] == row["policy"]]
        assert row["success"] == episodes["success"].mean()
        assert row["cost"] == pytest.approx(episodes["cost"].mean())
    assert ran.counts.sum().to_dict() == {"fit": N_FIT, "select": N_SELECT, "test": N_TEST}
    assert set(ran.training.ids[ran.training.has_window]) <= set(ran.training.ids[ran.training.outcomes == "01"])


def test_what_was_played_is_not_played_again(ran, splits, kept, monkeypatch):
    monkeypatch.setattr(AlfworldEnvironment, "reset", None)
    told = []

    def report(stage):
        return lambda count: told.append((stage, count))

    again = run_experiment(None, kept, splits=splits, policies=policies(), report=report, **SETTINGS)
    assert not told
    pd.testing.assert_frame_equal(again.episodes, ran.episodes)
    pd.testing.assert_frame_equal(again.comparison.table, ran.comparison.table)


def test_a_common_continuation_is_asked_for_once(ran, tmp_path, monkeypatch):
    from bayes_tacit.agents.playing import Entry, play_policies
    from bayes_tacit.router.control import ForcedHandoffController as ForcedHandoff

    asked = []
    act = StrongActor.act
    monkeypatch.setattr(StrongActor, "act", lambda self, history: asked.append(len(history)) or act(self, history))
    pair = ran.pairs["test"][0]
    entries = [Entry(name, ForcedHandoff(3)) for name in ("one", "other")]
    played = play_policies(BENCHMARK, [pair], entries, tmp_path, PLAYERS)
    (one,), (other,) = played["one"], played["other"]
    assert len(asked) == one.end.strong_calls == other.end.strong_calls > 0
    assert [step.result for step in one.steps] == [step.result for step in other.steps]
    # Another threshold under the same name is another policy, and what begins with Strong is Strong's rollout.
    entries = [Entry("one", ForcedHandoff(0))]
    (anew,) = play_policies(BENCHMARK, [pair], entries, tmp_path, PLAYERS)["one"]
    assert anew.end.handoff_step == 0
    assert [step.result for step in anew.steps] == [step.result for step in pair.strong.steps]
    assert len(asked) == one.end.strong_calls
    with pytest.raises(InvalidDataError, match="differ in letters"):
        play_policies(BENCHMARK, [pair], [entries[0], Entry("One!", ForcedHandoff(0))], tmp_path, PLAYERS)


def test_episodes_that_differ_from_the_tables_stop_the_experiment(ran, splits, kept, monkeypatch):
    outcomes = ran.comparison.outcomes[TACIT]
    values = [outcomes.success, outcomes.cost, outcomes.cheap_calls, outcomes.strong_calls]
    for at in range(4):
        wrong = [
            np.where(np.arange(N_TEST) == 1, 1 - v if at == 0 else v + 1, v) if at == n else v
            for n, v in enumerate(values)
        ]
        with pytest.raises(InvalidDataError, match="what the table of continuations says"):
            check_played(TACIT, [game.id for game in splits.test], Outcomes(*wrong), outcomes)
    monkeypatch.setattr(experiment_module, "outcomes_of", lambda _: Outcomes(*(np.array(v) * 0 for v in values)))
    settings = {"splits": splits, "policies": policies(), **SETTINGS}
    with pytest.raises(InvalidDataError, match=r"expected .* what the table of continuations says"):
        run_experiment(None, kept, **settings)
    assert run_experiment(None, kept, repeatable=False, **settings).comparison.table["cost"].sum() == 0


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_results_say_what_was_played(ran, kept, tmp_path):
    write_results(ran, kept, tmp_path, SCRIPTED)
    page = (tmp_path / "README.md").read_text()
    for row in ran.comparison.table.to_dict("records"):
        assert f"{round(row['success'] * N_TEST)}/{N_TEST} ({100 * row['success']:.1f}%) | {row['cost']:.2f}" in page
    assert "scripts of ours, not language models" in page
    wins = sum(pair.strong.end.success for pair in ran.pairs["test"])
    assert f"Strong wins {wins} of {N_TEST} (" in page
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "episodes.parquet"), ran.episodes)
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert Episodes.read(tmp_path / "training.nc").fingerprint() == ran.training.fingerprint()
    weights = fit_of_made_up_episodes().w
    for name, weight in zip(DIAGNOSTICS, weights, strict=True):
        assert f"| `{name}` | {weight:.2f} | {weight:.2f} |" in page
    steps = [step for one in ran.played["Step Deferral"] for step in one.steps if step.result is not None]
    moves = [step.proposal.action.startswith("go to ") for step in steps if step.agent == "strong"]
    assert f"Strong takes {len(moves) / len(steps):.0%} of the actions" in page
    assert f"{sum(moves) / len(moves):.0%} of those are moves to a receptacle" in page
    pages = sorted(path.stem for path in tmp_path.glob("*.html"))
    assert pages
    assert all(f"({name}.html)" in page for name in pages)
    shown = [read_transcript(tmp_path / f"{name}.jsonl") for name in pages]
    assert all(one in ran.played[POSTERIOR] for one in shown)
    write_results(ran, kept, tmp_path, SCRIPTED)
    assert (tmp_path / "README.md").read_text() == page
    assert not list(tmp_path.glob(".results-*"))


def test_committed_rollouts_on_valid_seen_are_won_within_the_stated_ranges():
    results = Path(__file__).parents[2] / "simulations" / "results" / "alfworld"
    episodes = Episodes.read(results / "training.nc")
    assert all(str(name).startswith("valid_seen/") for name in episodes.ids)
    (cheap, of_cheap), (strong, of_strong) = re.findall(
        r"(?:Cheap|Strong) wins (\d+) of (\d+)", (results / "README.md").read_text().split("On valid_seen ")[1]
    )[:2]
    assert of_cheap == of_strong == "140"
    assert 0.15 < int(cheap) / 140 < 0.45
    assert 0.70 < int(strong) / 140 < 0.95
    # The page is about those games: 100 of the 140 are at hand.
    assert 0 <= int(cheap) - episodes.dataset["cheap_success"].sum() <= 40
    assert 0 <= int(strong) - episodes.dataset["strong_success"].sum() <= 40


def test_a_page_shows_every_step_and_its_score(ran):
    transcript = max(ran.played[POSTERIOR], key=lambda one: len(one.checkpoints))
    page = episode_page(transcript, "A <note>.")
    cells = _Cells()
    cells.feed(page)
    text = " ".join(cells.text)
    assert "A <note>." in text
    for step in transcript.steps:
        assert step.proposal.action in text
        assert step.result.observation.text.split("\n")[0] in text
    for step in transcript.checkpoints:
        assert f"{step.choice.facts['score']:.2f}" in text
    bars = [attrs for tag, attrs in cells.tags if tag == "svg" and attrs.get("aria-label", "").startswith("q = ")]
    assert len(bars) == len(transcript.checkpoints)
    assert "http" not in page
    assert "<script" not in page
    assert "q = " not in episode_page(ran.played["Pure Strong"][0])


def test_time_spent_leaves_pauses_out(tmp_path):
    for at, seconds in enumerate((1000, 1010, 1030, 9000, 9005)):
        path = tmp_path / f"{at}.jsonl"
        path.touch()
        os.utime(path, (seconds, seconds))
    assert seconds_spent(tmp_path) == 35


def test_the_runner_names_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    assert main(["alfworld", "--out", str(tmp_path)]) == 2
    assert "ALFWORLD_DATA" in capsys.readouterr().err
    assert main(["alfworld", "--out", str(tmp_path), "--replicates", "3"]) == 2
    assert "no --replicates with alfworld" in capsys.readouterr().err
    assert main(["alfworld", "--out", str(tmp_path), "--data", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    monkeypatch.setattr(program, "STUDIES", {})
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "alfworld: left out" in capsys.readouterr().err


def test_the_splits_of_the_official_games_are_disjoint():
    data = os.environ.get("ALFWORLD_DATA")
    if not data or not (Path(data) / "json_2.1.1" / "valid_train").is_dir():
        pytest.skip("runs with ALFWORLD_DATA=<folder of the official games>")
    from simulations.alfworld.games import make_splits

    splits = make_splits(data)
    groups = [splits.fit, splits.select, splits.test, splits.knowledge]
    assert [len(group) for group in groups] == [100, 40, 134, 66]
    assert len({game.id for group in groups for game in group}) == 340
