"""The ALFWorld experiment on kitchens of our own: what is played, gone on with, written, and run as commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from protocol_server import ProtocolServer, says, status

from bayes_tacit import Episodes, fit_map
from bayes_tacit.agents import Budget, History, Step, read_transcript
from bayes_tacit.agents.alfworld import (
    AlfworldEnvironment,
    AlfworldExtractor,
    CheapActor,
    ErrorProcess,
    StrongActor,
    write_kitchens,
)
from bayes_tacit.agents.alfworld.collect import Players
from bayes_tacit.agents.alfworld.continuations import Continuations
from bayes_tacit.agents.alfworld.diagnostics import DIAGNOSTICS
from bayes_tacit.agents.alfworld.features import DESCRIPTORS, FEATURES
from bayes_tacit.agents.pages import episode_page
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.outcomes import Outcomes
from bayes_tacit.policies import (
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    World,
)
from bayes_tacit.selection import fixed_grid
from simulations.__main__ import main
from simulations.alfworld import experiment as experiment_module
from simulations.alfworld.experiment import check_played, run_experiment
from simulations.alfworld.kept_time import seconds_spent
from simulations.alfworld.policies import POSTERIOR, TACIT
from simulations.alfworld.results import write_results
from simulations.alfworld.splits import Splits
from simulations.studies import registry

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

N_FIT, N_SELECT, N_TEST, ACTIONS = 6, 2, 3, 10
MILD = ErrorProcess(skips_state=0.3, settles_for_one=0.2, overlooks=0.2, loses_composure=0.05)
PLAYERS = Players(CheapActor(7, MILD), StrongActor(7, overlooks=0.3), budget=Budget(ACTIONS))
SETTINGS = {"players": PLAYERS, "workers": 1, "standstill": 1}


@cache
def fit_of_made_up_episodes():
    """A fit with ALFWorld's names: a handful of kitchens is too few to fit anything on."""
    rng = np.random.default_rng(0)
    n, n_steps = 120, 10
    features = pd.DataFrame(rng.integers(0, 2, (n, len(FEATURES))), columns=list(FEATURES))
    risk = rng.exponential(0.4, (n, n_steps, len(DIAGNOSTICS)))
    crossing = (risk.mean(axis=2).cumsum(axis=1) < rng.lognormal(0, 0.7, n)[:, None]).sum(axis=1)
    strong = rng.random(n) < 0.7
    due = strong & (crossing < n_steps)
    mark = np.where(due, crossing, np.nan)
    known = {"cheap_success": ~due, "strong_success": strong, "window_start": mark, "window_end": mark}
    tasks = features.assign(episode=np.arange(n), **known)
    steps = pd.DataFrame(risk.reshape(-1, len(DIAGNOSTICS)), columns=list(DIAGNOSTICS))
    places = np.indices((n, n_steps)).reshape(2, -1)
    return fit_map(Episodes.from_frames(tasks, steps.assign(episode=places[0], step=places[1])), ridge=0.1)


def policies():
    alpha, coarser = fixed_grid(0.05, 0.5, n=10), fixed_grid(0.1, 0.4, n=2)
    return [
        PureCheap(),
        TaskRouter.alfworld(DESCRIPTORS),
        StepDeferral("uncertainty", average_steps=(2, 4), timing="proposal"),
        PrefixRouter(prefixes=(1, 2), n_candidates=5),
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
    from bayes_tacit.agents.alfworld import list_games

    games = list_games("own", data)
    return Splits(games[:N_FIT], games[N_FIT:-N_TEST], games[-N_TEST:], [])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def ran(splits, kept):
    return run_experiment(None, kept, splits=splits, policies=policies(), **SETTINGS)


def plain(game, decide, restart_at=None):
    """Play without the loop: `decide` says who acts from the step and Cheap's proposal there."""
    calls = {"cheap": 0, "strong": 0}
    environment = opened(game.path)
    history = History(environment.reset())
    while len(history) < ACTIONS and not (history.steps and history.steps[-1].result.done):
        if restart_at is not None and len(history) == restart_at and calls["strong"] == 0:
            history = History(environment.reset())
            decide = lambda step, proposal: True  # noqa: ARG005, E731
        proposal = PLAYERS.cheap.act(history)
        takes_over = decide(len(history), proposal)
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
    handoff = int(fitted.handoffs(episodes, setting)[row])
    return plain(game, lambda step, _: handoff >= 0 and step >= handoff)


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
    handoffs = table.loc[[TACIT, POSTERIOR], "handoff_step"]
    assert handoffs.notna().any()
    assert (table.loc["Step Deferral", ["cheap_calls", "strong_calls"]] > 0).all(axis=None)


def test_settings_are_chosen_on_what_every_handoff_gives(ran, tmp_path):
    full = Continuations(ran.pairs["select"], tmp_path, PLAYERS).counterfactuals()
    world = World(ran.development.episodes, full, PLAYERS.cost)
    for name, fitted in ran.comparison.fitted.items():
        if name != "Step Deferral":
            expected = fitted.operating_points(world)
            pd.testing.assert_frame_equal(fitted.operating_points(ran.development), expected)
            assert ran.comparison.choices[name].success == expected["success"][ran.comparison.choices[name].position]
    # What the teacher was not asked for, and marks are made of, is not there by chance.
    marked = ran.training.ids[ran.training.has_window].tolist()
    for pair in ran.pairs["fit"]:
        if pair.game.id in marked:
            row = ran.training.ids.tolist().index(pair.game.id)
            mark = int(ran.training.dataset["window_start"].values[row])
            assert Continuations([pair], tmp_path, PLAYERS).at([[mark + 1]])[0][mark + 1].success
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
        return lambda *counts: told.append((stage, counts))

    again = run_experiment(None, kept, splits=splits, policies=policies(), report=report, **SETTINGS)
    assert not told
    pd.testing.assert_frame_equal(again.episodes, ran.episodes)
    pd.testing.assert_frame_equal(again.comparison.table, ran.comparison.table)


def test_a_common_continuation_is_asked_for_once(ran, tmp_path, monkeypatch):
    from bayes_tacit.agents.adapters import identity_of
    from bayes_tacit.agents.alfworld.playing import Entry, play_policies
    from bayes_tacit.agents.controllers import ForcedHandoff

    asked = []
    act = StrongActor.act
    monkeypatch.setattr(StrongActor, "act", lambda self, history: asked.append(len(history)) or act(self, history))
    pair = ran.pairs["test"][0]
    entries = [Entry(name, ForcedHandoff(3), identity_of(ForcedHandoff(3))) for name in ("one", "other")]
    played = play_policies([pair], entries, tmp_path, PLAYERS)
    (one,), (other,) = played["one"], played["other"]
    assert len(asked) == one.end.strong_calls == other.end.strong_calls > 0
    assert [step.result for step in one.steps] == [step.result for step in other.steps]
    # Another threshold under the same name is another policy, and what begins with Strong is Strong's rollout.
    entries = [Entry("one", ForcedHandoff(0), identity_of(ForcedHandoff(0)))]
    (anew,) = play_policies([pair], entries, tmp_path, PLAYERS)["one"]
    assert anew.end.handoff_step == 0
    assert [step.result for step in anew.steps] == [step.result for step in pair.strong.steps]
    assert len(asked) == one.end.strong_calls
    with pytest.raises(InvalidDataError, match="differ in letters"):
        play_policies([pair], [entries[0], Entry("One!", ForcedHandoff(0), "")], tmp_path, PLAYERS)


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
    write_results(ran, kept, tmp_path)
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
    write_results(ran, kept, tmp_path)
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
    monkeypatch.setattr(registry, "STUDIES", {})
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "alfworld: left out" in capsys.readouterr().err


def run(*words, cwd):
    """Run the program as a user does."""
    command = [sys.executable, "-c", "from bayes_tacit.cli import main; main()", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the program in this process, which saves the imports; give exit code, output and errors."""
    from bayes_tacit.cli import main as program

    def call(*words, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["bayes-tacit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            program()
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def collected(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    words = ("collect", "--data", data, "--split", "own", "--first", 2, "--actions", 8, "--seed", 4)
    done = run(*words, "--out", "rollouts", "--counterfactuals", "handoffs.csv", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, words, done


def test_collect_keeps_rollouts_and_goes_on_from_them(collected, call):
    folder, words, done = collected
    told = json.loads(done.stdout)
    assert told["games"] == sum(told["outcomes"].values()) == 2
    assert told["broken"] == []
    transcripts = [read_transcript(path) for path in sorted((folder / "rollouts").glob("*.jsonl"))]
    assert [one.header.policy for one in transcripts] == ["pure_cheap", "pure_strong"] * 2
    counts = {}
    for cheap, strong in zip(transcripts[::2], transcripts[1::2], strict=True):
        outcome = f"{cheap.end.success:d}{strong.end.success:d}"
        counts[outcome] = counts.get(outcome, 0) + 1
    assert {outcome: n for outcome, n in told["outcomes"].items() if n} == counts
    table = pd.read_csv(folder / "handoffs.csv")
    assert table["episode"].nunique() == 2
    assert "rollouts: 2/2" in done.stderr
    code, output, errors = call(*words, "--out", "rollouts", cwd=folder)
    assert (code, errors) == (0, "")
    assert output.startswith("2 games: ")
    code, output, errors = call(*words[:-1], 5, "--out", "rollouts", cwd=folder)
    assert (code, output) == (2, "")
    assert "use another folder" in errors
    assert errors.count("\n") == 1


def test_evaluate_plays_a_router_beside_the_pure_policies(collected, data, ran, call):
    folder, *_ = collected
    router = ran.comparison.fitted[TACIT].router({"alpha": 0.1})
    router.save(folder / "router.json")
    (folder / "games.txt").write_text("own/task-01/trial_1\n\nown/task-00/trial_1\n")
    words = ("evaluate", "router.json", "--data", data, "--split", "own", "--games", "games.txt", "--actions", ACTIONS)
    words = (*words, "--seed", 4, "--deferral", 0.5, "--out", "played", "--resamples", 50)
    done = run(*words, "--pages", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert list(told["policies"]) == ["Pure Cheap", "router", "Step Deferral 0.5", "Pure Strong"]
    # The same by a plain loop that asks the router.
    cheap, strong = CheapActor(4), StrongActor(4)
    successes = cost = 0
    for name in ("task-01", "task-00"):
        game = data / "json_2.1.1" / "own" / name / "trial_1" / "game.tw-pddl"
        with AlfworldEnvironment(game) as environment:
            history = History(environment.reset())
            features = AlfworldExtractor().features(history.first)
            state = router.start({name: features[name] for name in router.feature_names})
            handed = False
            while len(history) < ACTIONS and not (history.steps and history.steps[-1].result.done):
                proposal = (strong if handed else cheap).act(history)
                result = environment.step(proposal.action)
                cost += 6.75 if handed else 1
                step = Step("strong" if handed else "cheap", proposal, result)
                if not handed:
                    given = AlfworldExtractor().diagnostics(history, proposal, result)
                    handed = state.observe({name: given[name] for name in router.diagnostic_names}).handoff
                history = history.then(step)
            successes += history.steps[-1].result.success
    assert told["policies"]["router"]["successes"] == successes
    assert told["policies"]["router"]["cost"] == pytest.approx(cost / 2)
    assert len(list((folder / "played" / "pages").glob("*.html"))) == 2
    code, output, errors = call(*words, cwd=folder)
    assert (code, errors) == (0, "")
    assert f"router             {successes:>4}/2" in output


def test_collect_with_a_model_behind_an_endpoint(data, tmp_path, call):
    words = ("collect", "--data", data, "--split", "own", "--first", 1, "--actions", 3, "--json")
    with ProtocolServer(says("look")) as server:
        words = (*words, "--cheap", server.base_url, "--cheap-model", "tiny")
        done = run(*words, "--out", "out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [request["body"]["model"] for request in server.requests] == ["tiny"] * 3
        # In another process, with functions at other addresses, it is the same player still.
        code, output, errors = call(*words, "--out", "out", cwd=tmp_path)
        assert (code, output, errors) == (0, done.stdout, "")
        assert len(server.requests) == 3
        server.server.script[:] = [status(400)]
        code, output, _ = call(*words, "--out", "other", cwd=tmp_path)
    assert code == 1
    assert json.loads(output)["broken"] == ["own/task-00/trial_1"]
    cheap = read_transcript(next((tmp_path / "out").glob("*.cheap.jsonl")))
    assert [step.proposal.action for step in cheap.steps] == ["look"] * 3
    assert cheap.steps[0].proposal.nll == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cheap", "nonsense"), "--cheap is 'nonsense'; expected scripted, or http"),
        (("--cheap", "http://127.0.0.1:9/v1"), "--cheap-model is None; expected the name of the model there"),
        (("--strong-model", "x"), "expected none with --strong scripted"),
        (("--split", "nowhere"), "no such folder"),
        (("--first", "0"), "--first is 0"),
        (("--actions", "0"), "budget of actions is 0"),
        (("--games", "nowhere.txt"), "no such file"),
    ],
)
def test_bad_words_are_told_before_anything_is_played(data, tmp_path, words, message, call):
    code, output, errors = call("collect", "--data", data, "--split", "own", "--out", "o", *words, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert message in errors
    assert not (tmp_path / "o").exists()


def test_the_splits_of_the_official_games_are_disjoint():
    data = os.environ.get("ALFWORLD_DATA")
    if not data or not (Path(data) / "json_2.1.1" / "valid_train").is_dir():
        pytest.skip("runs with ALFWORLD_DATA=<folder of the official games>")
    from simulations.alfworld.splits import make_splits

    splits = make_splits(data)
    groups = [splits.fit, splits.select, splits.test, splits.knowledge]
    assert [len(group) for group in groups] == [100, 40, 134, 66]
    assert len({game.id for group in groups for game in group}) == 340
